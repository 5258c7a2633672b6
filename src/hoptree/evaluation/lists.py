"""Questions whose answer is a list of names: how many of the names were said, and how many were considered at all.

A wanted name is a tuple: the name, and what else it may be called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.support import recall, support

__all__ = ["CANDIDATES", "LIST_SCORES", "candidate_recall", "considered", "said_names", "score_list"]

CANDIDATES = "candidate_recall"
LIST_SCORES = ("list_em", "list_f1", "list_precision", "list_recall")

_KEPT = r'"[^"\n]*"|“[^“”\n]*”|«[^«»\n]*»|„[^„“”\n]*[“”]|\([^()\n]*\)'
"""What is one piece, whatever stands in it: quoted, or in round brackets."""
_SEPARATOR = r"\s*(?:(?<!\d),|,(?!\d)|[;\n]|(?<=\s)&(?=\s)|(?i:\band\b|\bas well as\b))\s*"
_SPLIT = re.compile(rf"{_KEPT}|(?P<separator>{_SEPARATOR})")
_INTRODUCTION = re.compile(r"(?m)^[^\n]*:[ \t*_]*\n|\A[^\n:]*\b(?i:is|are|was|were|following|includes?)\s*:\s*")
"""A line that ends in a colon, or words such as "they are:" in front, say what kind of list follows."""
_NUMBERED = re.compile(r"\s*\(?\d{1,2}[.)]\s+")
_INLINE = re.compile(r"(?<=\S)[ \t]+(?=\(?\d{1,2}[.)]\s+\S)")
_MARK = re.compile(r"^\s*(?:(?:\(?\d{1,2}[.)]|[-*•–—+])\s+)?(?:(?i:and|both)\s+)?")
_ASIDE = re.compile(r"(?:\s*[(\[][^()\[\]]*[)\]])+\s*[.,;]*\s*$")
_WHOLE = re.compile(r'\s*(?:"([^"]*)"|“([^”]*)”|\(([^()]*)\)|\[([^\[\]]*)\])\s*\.?\s*')
_QUOTES = str.maketrans("", "", "“”„«»‘’")
_BLANKS = re.compile(r"\s+")
_MOST_JOINED = 6
"""Pieces that one name may have been torn into."""


def score_list(answer: str, wanted: Sequence[Sequence[str]]) -> dict[str, float | None]:
    """`list_em`, `list_f1`, `list_precision` and `list_recall` of the names that an answer holds; {} if none is wanted.

    A name counts once, however often it is said. Who says nothing has a precision of 0.
    """
    found = support(said_names(answer, wanted), range(len(wanted)))
    return {} if found is None else {name: getattr(found, name.removeprefix("list_")) for name in LIST_SCORES}


def said_names(answer: str, wanted: Sequence[Sequence[str]]) -> list[int | str]:
    """The names in an answer, in order: the place of a wanted one, or the normal form of another.

    Names are separated by commas, semicolons, "and", "&", "as well as", new lines and numbering. What is in quotes or
    round brackets is not torn apart, and neither is a wanted name: pieces that are one together ("Sammy Davis, Jr.",
    "Simon and Garfunkel") are put together first, as many as fit. Names are compared in normal form, with and without
    what follows in brackets.
    """
    places = _places(wanted)
    text = _unwrapped(answer)
    pieces = list(_pieces(text))
    found: dict[int | str, None] = {}
    at = 0
    while at < len(pieces):
        for last in range(min(at + _MOST_JOINED, len(pieces)), at, -1):
            piece = text[pieces[at][0] : pieces[last - 1][1]]
            place = next((places[form] for form in _forms(piece) if form in places), None)
            if place is not None:
                found[place] = None
                at = last
                break
        else:
            alone = text[slice(*pieces[at])]
            if any(letter.isalnum() for letter in alone):
                found[_forms(alone)[-1]] = None
            at += 1
    return list(found)


def candidate_recall(names: Iterable[str], told: Iterable[str], wanted: Sequence[Sequence[str]]) -> float | None:
    """The share of the wanted names among the `names` a run considered, or as whole words in what it was `told`."""
    places = _places(wanted)
    found = {places[form] for name in names for form in _forms(name) if form in places}
    texts = list(told)
    found |= {place for place, called in enumerate(wanted) if any(contains(text, called) for text in texts)}
    return recall(map(str, found), [str(place) for place in range(len(wanted))])


def considered(events: Iterable[Any]) -> tuple[list[str], list[str]] | None:
    """What a run considered, by its events: candidates by name, and hypotheses; None if its method has neither.

    Candidates are told in decisions "candidates", whose value is a list of names. Hypotheses stand in plans and nodes:
    they are what a method considers that follows one guess at a time.
    """
    names: list[str] = []
    hypotheses: list[str] = []
    known = False
    for event in events:
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
