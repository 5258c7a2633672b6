"""Score answers that are lists of names.

A wanted name is a tuple of the name and its aliases.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hoptree.engine.events import Event
from hoptree.evaluation.metrics import contains, normalise, recall, support
from hoptree.text.names import name_spans

CANDIDATES = "candidate_recall"
LIST_SCORES = ("list_em", "list_f1", "list_precision", "list_recall")

_KEPT = r'"[^"\n]*"|“[^“”\n]*”|«[^«»\n]*»|„[^„“”\n]*[“”]|\([^()\n]*\)'
"""What is one piece, whatever stands in it: quoted, or in round brackets."""
_SEPARATOR = r"\s*(?:(?<!\d),|,(?!\d)|[;\n]|(?<=\s)&(?=\s)|(?<=\s)/(?=\s)|(?i:\band\b|\bor\b|\bas well as\b))\s*"
_SPLIT = re.compile(rf"{_KEPT}|(?P<separator>{_SEPARATOR})")
_INTRODUCTION = re.compile(r"(?m)^[^\n]*:[ \t*_]*\n|\A[^\n:]*\b(?i:is|are|was|were|following|includes?)\s*:\s*")
"""A line that ends in a colon, or words such as "they are:" in front, say what kind of list follows."""
_SAYING = re.compile(r"\b(?:is|are|was|were|includes?|included|including|namely)[ \t]+")
"""What stands between the words that say what kind of list it is, and the first name."""
_WHERE = re.compile(rf"\A(?:In|Of|Among|According to|Based on|For|From)\b[^,\n]*,\s*(?=[^,\n]*{_SAYING.pattern})")
_OF = re.compile(r"\bof(?: the)?\s*\Z")
_DENIED = re.compile(r"(?i:\b(?:not|cannot|neither|nor|never|except|without)\b|n['’]t\b)|\b(?:no|none)\b")
_OPENING = re.compile(
    r"(?i)\s*(?:yes|no)\W*\Z|\s*(?:(?:all|also|an?|and|both|here|i|it|only|that|the|their|there|these|they|this|those)\s+)+"
)
"""Words that begin a sentence with a capital and are no name."""
_NUMBERED = re.compile(r"\s*\(?\d{1,2}[.)]\s+")
_INLINE = re.compile(r"(?<=\S)[ \t]+(?=\(?\d{1,2}[.)]\s+\S)")
_MARK = re.compile(r"^\s*(?:(?:\(?\d{1,2}[.)]|[-*•–—+])\s+)?(?:(?i:and|both)\s+)?")
_ASIDE = re.compile(r"(?:\s*[(\[][^()\[\]]*[)\]])+\s*[.,;]*\s*$")
_WHOLE = re.compile(r'\s*(?:"([^"]*)"|“([^”]*)”|\(([^()]*)\)|\[([^\[\]]*)\])\s*\.?\s*')
_QUOTES = str.maketrans("", "", "“”„«»‘’")
_BLANKS = re.compile(r"\s+")
_MOST_JOINED = 6
"""Pieces that one name may have been torn into."""
_LONGEST = 200
"""Letters up to which the end of a sentence is taken for a name."""


def score_list(answer: str, wanted: Sequence[Sequence[str]]) -> dict[str, float | None]:
    """Return `list_em`, `list_f1`, `list_precision` and `list_recall`; {} if no list is wanted.

    A name counts once. An empty answer has a precision of 0.
    """
    found = support(said_names(answer, wanted), range(len(wanted)))
    return {} if found is None else {name: getattr(found, name.removeprefix("list_")) for name in LIST_SCORES}


def said_names(answer: str, wanted: Sequence[Sequence[str]]) -> list[int | str]:
    """The names in an answer, in order: the place of a wanted one, or the normal form of another.

    Names are separated by commas, semicolons, "and", "or", "&", "/", "as well as", new lines and numbering. What is in
    quotes or round brackets is not torn apart, and neither is a wanted name: pieces that are one together ("Sammy
    Davis, Jr.", "Simon and Garfunkel") are put together first, as many as fit. Names are compared in normal form, with
    and without what follows in brackets.

    A sentence round a wanted name ("The actors are A and B.") is no name, unless it denies something, and neither are
    words without capitals, where both the answer and the wanted names are written with them.
    """
    places = _places(wanted)
    text = _without_where(_unwrapped(answer), places)
    cased = text != text.lower() and all(name != name.lower() for called in wanted for name in called[:1])
    pieces = list(_pieces(text))
    found: dict[int | str, None] = {}
    at = 0
    while at < len(pieces):
        starts = list(_starts(text, *pieces[at]))
        for last in range(min(at + _MOST_JOINED, len(pieces)), at, -1):
            place = _place(text, starts, pieces[last - 1][1], places)
            if place is not None:
                found[place] = None
                at = last
                break
        else:
            alone = text[slice(*pieces[at])]
            found |= dict.fromkeys(_inside(alone, places) or _other(alone, cased))
            at += 1
    return list(found)


def candidate_recall(names: Iterable[str], told: Iterable[str], wanted: Sequence[Sequence[str]]) -> float | None:
    """Return the share of wanted names among the candidates, or as whole words in the hypotheses."""
    places = _places(wanted)
    found = {places[form] for name in names for form in _forms(name) if form in places}
    texts = list(told)
    found |= {place for place, called in enumerate(wanted) if any(contains(text, called) for text in texts)}
    return recall(map(str, found), [str(place) for place in range(len(wanted))])


def considered(events: Iterable[Event]) -> tuple[list[str], list[str]] | None:
    """Return the candidates and hypotheses that a run considered; None if its method has neither."""
    names: list[str] = []
    hypotheses: list[str] = []
    known = False
    for event in (event.as_dict() for event in events):
        if event["event"] == "decision" and event["kind"] == "candidates":
            known = True
            names += _texts(event["value"])
        for told in (*event.get("nodes", ()), event) if event["event"] in ("plan", "node") else ():
            if "hypothesis" in told:
                known = True
                hypotheses += _texts([told["hypothesis"], told.get("hypothesis_before")])
    return (names, hypotheses) if known else None


def _places(wanted: Sequence[Sequence[str]]) -> dict[str, int]:
    """The place of each wanted name by its normal forms."""
    return {_form(name): place for place, called in reversed(list(enumerate(wanted))) for name in called}


def _forms(piece: str) -> list[str]:
    """The normal forms that a piece may be meant in: as it stands, without its mark, without what is in brackets."""
    bare = _MARK.sub("", piece, count=1)
    said = [_form(text) for text in (piece, bare, _ASIDE.sub("", bare))]
    return [form for form in dict.fromkeys(said) if form]


def _form(text: str) -> str:
    return normalise(text.replace("&", " and ").translate(_QUOTES)) if text.strip() else ""


def _place(text: str, starts: Sequence[int], end: int, places: Mapping[str, int]) -> int | None:
    """The place of a wanted name that goes from one of the starts to the end."""
    near = [start for start in starts[1:] if end - start < _LONGEST]
    forms = (form for start in (starts[0], *near) for form in _forms(text[start:end]))
    return next((places[form] for form in forms if form in places), None)


def _starts(text: str, start: int, end: int) -> Iterator[int]:
    """Where a name may begin in a piece: with it, behind words that lead to it, or with a capital."""
    yield start
    if _DENIED.search(text, start, end):
        return
    yield from (match.end() for match in _SAYING.finditer(text, start, end))
    yield from (start + first for first, _ in _named(text[start:end]))


def _named(piece: str) -> Iterator[tuple[int, int]]:
    """The names in a piece, but for those that only tell of what something is ("the bishop of York")."""
    return (span for span in name_spans(piece) if not _OF.search(piece, max(0, span[0] - 8), span[0]))


def _inside(piece: str, places: Mapping[str, int]) -> list[int | str]:
    """The wanted names in a sentence."""
    if _DENIED.search(piece):
        return []
    forms = (_form(piece[slice(*span)]) for span in _named(piece))
    return [places[form] for form in forms if form in places]


def _other(piece: str, cased: bool) -> list[int | str]:
    """The name in a piece that holds no wanted one, if there is any; what leads to it is left out."""
    leading = None if _DENIED.search(piece) else deque(_SAYING.finditer(piece), maxlen=1)
    behind = piece[leading[0].end() :] if leading else ""
    said = next((text for text in (behind, piece) if _is_name(text, cased)), "")
    return [_forms(said)[-1]] if said else []


def _is_name(text: str, cased: bool) -> bool:
    if not cased:
        return any(letter.isalnum() for letter in text)
    rest = _OPENING.sub("", text, count=1) if _OPENING.match(text) else text
    return any(letter.isalnum() and not letter.islower() for letter in rest)


def _without_where(text: str, places: Mapping[str, int]) -> str:
    """The text without a first part that only says where to look ("In that film, the actors are …")."""
    where = _WHERE.match(text)
    return text if where is None or _form(where[0]) in places else text[where.end() :]


def _unwrapped(answer: str) -> str:
    """The answer without the quotes or brackets round all of it, its inline numbers each on a line of its own."""
    whole = _WHOLE.fullmatch(answer)
    text = next((inside for inside in whole.groups() if inside is not None), answer) if whole else answer
    text = _INTRODUCTION.sub("", _BLANKS.sub(lambda blank: "\n" if "\n" in blank[0] else " ", text.strip()))
    return _INLINE.sub("\n", text) if _NUMBERED.match(text) else text


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where each piece begins and ends."""
    start = 0
    for match in _SPLIT.finditer(text):
        if match["separator"] is not None:
            yield start, match.start()
            start = match.end()
    yield start, len(text)


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list | tuple) else []
