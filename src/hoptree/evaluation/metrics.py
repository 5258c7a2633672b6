"""Answer, list, citation and ranking metrics, as the data sets' own scripts define them."""

from __future__ import annotations

import math
import re
import string
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from hoptree.core.errors import InputError
from hoptree.engine.events import Event
from hoptree.text.names import name_spans

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far the words of a prediction and of a gold answer are the same."""

    f1: float = 0.0
    precision: float = 0.0
    recall: float = 0.0


def normalise(text: str) -> str:
    """SQuAD's normal form: lower case, no punctuation, no articles, single spaces.

    A text of nothing else ("The The", "A+", "!!!") keeps its articles, or else its punctuation. So only a blank text
    has an empty form, and saying nothing is never the right answer.
    """
    lower = text.lower()
    bare = lower.translate(_PUNCTUATION)
    return _spaced(_ARTICLES.sub(" ", bare)) or _spaced(bare) or _spaced(lower)


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Tell whether the answer equals an accepted one in normal form; a blank one never does."""
    said = normalise(prediction)
    return bool(said) and said in {normalise(gold) for gold in golds}


def contains(prediction: str, golds: Sequence[str]) -> bool:
    """Tell whether an accepted answer occurs in the prediction as whole words."""
    said = f" {normalise(prediction)} "
    return any(f" {normal} " in said for gold in golds if (normal := normalise(gold)))


def overlap(prediction: str, gold: str) -> Overlap:
    """F1, precision and recall over the words of both normal forms, each word as often as it occurs.

    HotpotQA's rule holds for all data sets: if one of them is yes, no or noanswer, nothing short of equality counts.
    """
    return _overlap(normalise(prediction), normalise(gold))


def best_overlap(prediction: str, golds: Sequence[str]) -> Overlap:
    """Return the overlap with the accepted answer of the highest F1 (the earliest of equals)."""
    said = normalise(prediction)
    return max((_overlap(said, normalise(gold)) for gold in golds), key=lambda found: found.f1, default=Overlap())


def yes_no(prediction: str, golds: Sequence[str]) -> float | None:
    """Tell whether the first word of the prediction is the right yes or no; None for other golds."""
    wanted = normalise(golds[0]) if golds else ""
    if wanted not in ("yes", "no"):
        return None
    return float(normalise(prediction).split()[:1] == [wanted])


def score_answer(prediction: str, golds: Sequence[str]) -> dict[str, float | None]:
    """Every answer metric of one question, each the highest over all accepted answers.

    `em_first` and `f1_first` look at the first gold alone. `hits@1` is TreeQA's name for containment; its own
    script looks for the letters, this one for whole words, so that gold "no" is not found in "north". A blank
    prediction, which is what a failed question has, scores 0. A question without an answer cannot be scored and is
    refused: leaving it out would change what the mean is of.
    """
    if not any(gold.strip() for gold in golds):
        raise InputError("A question without an accepted answer cannot be scored.", "Give each question its answers.")
    said = normalise(prediction)
    found = [_overlap(said, normalise(gold)) for gold in golds]
    contained = float(contains(prediction, golds))
    return {
        "em": float(exact_match(prediction, golds)),
        "f1": max(one.f1 for one in found),
        "precision": max(one.precision for one in found),
        "recall": max(one.recall for one in found),
        "contains": contained,
        "hits@1": contained,
        "em_first": float(exact_match(prediction, golds[:1])),
        "f1_first": found[0].f1,
        "yes_no": yes_no(prediction, golds),
    }


def score_none(abstained: bool) -> dict[str, float | None]:
    """Score a question without an answer: abstaining is right."""
    right = float(abstained)
    return {name: None if name == "yes_no" else right for name in score_answer("", ("x",))}


def _overlap(said: str, wanted: str) -> Overlap:
    if said != wanted and not _CLOSED.isdisjoint((said, wanted)):
        return Overlap()
    said_words, wanted_words = said.split(), wanted.split()
    same = (Counter(said_words) & Counter(wanted_words)).total()
    if not same:
        return Overlap()
    precision, recall = same / len(said_words), same / len(wanted_words)
    return Overlap(2 * precision * recall / (precision + recall), precision, recall)


def _spaced(text: str) -> str:
    return " ".join(text.split())


DEPTH = 10
"""Places that count for `mrr` and `ndcg@10`: the fewest passages a retriever has to be asked for."""
_CUTOFFS = (2, 5, 10)
_ALL_AT = 5


def score_ranking(gold: Collection[str], ranking: Sequence[str], *, k: int = DEPTH) -> dict[str, float]:
    """Return recall, `all@5` (no gold passage is missing), MRR and nDCG of one ranking; k above 10 adds `recall@k`.

    A passage that comes again fills its place, but is no further hit.
    """
    left = set(gold)
    hits = []
    for name in ranking[:k]:
        hits.append(name in left)
        left.discard(name)
    wanted = len(set(gold))
    best = math.fsum(1 / math.log2(place + 2) for place in range(min(DEPTH, wanted)))
    gain = math.fsum(1 / math.log2(place + 2) for place, hit in enumerate(hits[:DEPTH]) if hit)
    scores = {f"recall@{cut}": sum(hits[:cut]) / wanted for cut in sorted({*_CUTOFFS, max(k, DEPTH)})}
    first = next((place for place, hit in enumerate(hits[:DEPTH], 1) if hit), None)
    return scores | {
        f"all@{_ALL_AT}": float(sum(hits[:_ALL_AT]) == wanted),
        "mrr": 1 / first if first else 0.0,
        f"ndcg@{DEPTH}": gain / best,
    }


Sentence = tuple[str, int]
"""A title and the place of a sentence under it, as HotpotQA and 2WikiMultihopQA name supporting facts."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How well a set was met: `em` is 1 if nothing is missing and nothing is too much."""

    em: float
    f1: float
    precision: float
    recall: float


def support(cited: Collection[Hashable] | None, gold: Collection[Hashable] | None) -> Scores | None:
    """HotpotQA's supporting-fact scores, MuSiQue's support scores; citing nothing has precision 0."""
    if cited is None or not gold:
        return None
    said, wanted = set(cited), set(gold)
    same = len(said & wanted)
    precision, share = same / len(said) if said else 0.0, same / len(wanted)
    return Scores(float(said == wanted), _f1(precision, share), precision, share)


def joint(answer_em: bool, answer: Overlap, facts: Scores | None) -> Scores | None:
    """HotpotQA's joint scores: precision and recall of answer and support multiplied, F1 made from the products."""
    if facts is None:
        return None
    precision, share = answer.precision * facts.precision, answer.recall * facts.recall
    return Scores(float(answer_em) * facts.em, _f1(precision, share), precision, share)


def score_support(
    prediction: str,
    golds: Sequence[str],
    cited: Collection[Sentence] | None,
    gold_sentences: Collection[Sentence] | None,
) -> dict[str, float | None]:
    """`support_…` and `joint_…` em, f1, precision and recall of one question, from its answer and its citations.

    Among several accepted answers, precision and recall are those of the one with the highest F1.
    """
    facts = support(cited, gold_sentences)
    both = joint(exact_match(prediction, golds), best_overlap(prediction, golds), facts)
    return {**_named("support", facts), **_named("joint", both)}


def score_citations(cited: Collection[str], gold: Collection[str], *, failed: bool = False) -> dict[str, float | None]:
    """Citation precision and recall by passage ids.

    Precision is None where nothing is cited, unless the question failed: that is counted as wrong, or a method could
    raise its precision by breaking down on what is hard.
    """
    found = support(cited, gold)
    precision = found.precision if found and (cited or failed) else None
    return {"citation_precision": precision, "citation_recall": found.recall if found else None}


def recall(found: Iterable[str], gold: Collection[str]) -> float | None:
    """Return the share of gold passages that were found."""
    wanted = set(gold)
    return len(wanted & set(found)) / len(wanted) if wanted else None


def recall_by_hop(found: Iterable[str], gold_by_hop: Sequence[Collection[str]]) -> tuple[float | None, ...]:
    """Return the recall of each hop; None for a hop without gold of its own."""
    names = set(found)
    return tuple(recall(names, gold) for gold in gold_by_hop)


def tree_recall(searches: Iterable[Iterable[str]], gold: Collection[str]) -> float | None:
    """Return the share of gold passages that any search found."""
    return recall((name for search in searches for name in search), gold)


def score_passages(cited: Collection[str], gold: Collection[str]) -> dict[str, float | None]:
    """MuSiQue's support F1 by passage ids; citing nothing scores 0."""
    found = support(cited, gold)
    return {"passage_support_f1": found.f1 if found else None}


def _f1(precision: float, share: float) -> float:
    return 2 * precision * share / (precision + share) if precision + share else 0.0


def _named(prefix: str, scores: Scores | None) -> dict[str, float | None]:
    return {f"{prefix}_{field.name}": getattr(scores, field.name) if scores else None for field in fields(Scores)}


SENTENCES = frozenset({*_named("support", None), *_named("joint", None)})
"""The names of the scores that are about cited sentences."""


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
    yield from (start + first for first, _ in _named_in_piece(text[start:end]))


def _named_in_piece(piece: str) -> Iterator[tuple[int, int]]:
    """The names in a piece, but for those that only tell of what something is ("the bishop of York")."""
    return (span for span in name_spans(piece) if not _OF.search(piece, max(0, span[0] - 8), span[0]))


def _inside(piece: str, places: Mapping[str, int]) -> list[int | str]:
    """The wanted names in a sentence."""
    if _DENIED.search(piece):
        return []
    forms = (_form(piece[slice(*span)]) for span in _named_in_piece(piece))
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
