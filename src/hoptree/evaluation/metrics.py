"""Answer, list, citation and ranking metrics of the data sets."""

from __future__ import annotations

import math
import re
import string
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from hoptree.core.errors import InputError
from hoptree.engine.events import Event, NodeSettled, Planned
from hoptree.text.names import name_spans

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """Word overlap of a prediction with a gold answer."""

    f1: float = 0.0
    precision: float = 0.0
    recall: float = 0.0


@lru_cache(maxsize=512)
def normalise(text: str) -> str:
    """Return SQuAD's normal form of a text.

    Articles and punctuation are removed, unless nothing else is left ("The The", "A+", "!!!"): only a blank text has an
    empty form.
    """
    lower = text.lower()
    bare = lower.translate(_PUNCTUATION)
    forms = (" ".join(form.split()) for form in (_ARTICLES.sub(" ", bare), bare, lower))
    return next(filter(None, forms), "")


def exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """Return whether the answer equals an accepted one in normal form."""
    normal = normalise(prediction)
    return bool(normal) and normal in {normalise(gold) for gold in golds}


def contains(prediction: str, golds: Sequence[str]) -> bool:
    """Return whether the prediction contains an accepted answer as whole words."""
    text = f" {normalise(prediction)} "
    return any(f" {normal} " in text for gold in golds if (normal := normalise(gold)))


def overlap(prediction: str, gold: str) -> Overlap:
    """Return F1, precision and recall over words; yes, no and noanswer must be equal."""
    return _overlap(normalise(prediction), normalise(gold))


def _overlap(normal: str, normal_gold: str) -> Overlap:
    if normal != normal_gold and not _CLOSED.isdisjoint((normal, normal_gold)):
        return Overlap()
    words, gold_words = normal.split(), normal_gold.split()
    same = (Counter(words) & Counter(gold_words)).total()
    if not same:
        return Overlap()
    precision, recall = same / len(words), same / len(gold_words)
    return Overlap(_f1(precision, recall), precision, recall)


def best_overlap(prediction: str, golds: Sequence[str]) -> Overlap:
    """Return the best overlap with an accepted answer."""
    normal = normalise(prediction)
    overlaps = (_overlap(normal, normalise(gold)) for gold in golds)
    return max(overlaps, key=lambda shared: shared.f1, default=Overlap())


def yes_no(prediction: str, golds: Sequence[str]) -> float | None:
    """Return whether the first word is the right yes or no; None for other questions."""
    wanted = normalise(golds[0]) if golds else ""
    if wanted not in ("yes", "no"):
        return None
    return float(normalise(prediction).split()[:1] == [wanted])


def score_answer(prediction: str, golds: Sequence[str]) -> dict[str, float | None]:
    """Return every answer metric, the highest over accepted answers.

    `em_first` and `f1_first` compare with the first gold alone. `hits@1` is TreeQA's name for containment; here it
    compares whole words, so that "north" does not contain "no". A question without an accepted answer is an error:
    leaving it out would change the questions of the mean.
    """
    if not any(gold.strip() for gold in golds):
        raise InputError("A question without an accepted answer cannot be scored.", "Give each question its answers.")
    normal = normalise(prediction)
    overlaps = [_overlap(normal, normalise(gold)) for gold in golds]
    contained = float(contains(prediction, golds))
    return {
        "em": float(exact_match(prediction, golds)),
        "f1": max(shared.f1 for shared in overlaps),
        "precision": max(shared.precision for shared in overlaps),
        "recall": max(shared.recall for shared in overlaps),
        "contains": contained,
        "hits@1": contained,
        "em_first": float(exact_match(prediction, golds[:1])),
        "f1_first": overlaps[0].f1,
        "yes_no": yes_no(prediction, golds),
    }


def score_none(abstained: bool) -> dict[str, float | None]:
    """Return the scores of an unanswerable question: abstaining is right."""
    right = float(abstained)
    return {name: None if name == "yes_no" else right for name in score_answer("", ("x",))}


DEPTH = 10  # ranks that `mrr` and `ndcg@10` look at: a retriever must return at least this many passages
_CUTOFFS = (2, 5, 10)
_ALL_AT = 5


def score_ranking(gold: Collection[str], ranking: Sequence[str], *, k: int = DEPTH) -> dict[str, float]:
    """Return recall, `all@5`, MRR and nDCG of one ranking."""
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


Sentence = tuple[str, int]  # a page's title and the number of a sentence on it, as HotpotQA names supporting facts


@dataclass(frozen=True, slots=True)
class Scores:
    """Agreement of a predicted set with the gold set; `em` is 1 if they are equal."""

    em: float
    f1: float
    precision: float
    recall: float


def support(cited: Collection[Hashable] | None, gold: Collection[Hashable] | None) -> Scores | None:
    """Return supporting-fact scores (HotpotQA, MuSiQue)."""
    if cited is None or not gold:
        return None
    chosen, wanted = set(cited), set(gold)
    same = len(chosen & wanted)
    precision, share = same / len(chosen) if chosen else 0.0, same / len(wanted)
    return Scores(float(chosen == wanted), _f1(precision, share), precision, share)


def joint(answer_em: bool, answer: Overlap, facts: Scores | None) -> Scores | None:
    """Return HotpotQA's joint scores of answer and support."""
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
    """Return the `support_…` and `joint_…` scores of one question."""
    facts = support(cited, gold_sentences)
    joint_scores = joint(exact_match(prediction, golds), best_overlap(prediction, golds), facts)
    return {**_named("support", facts), **_named("joint", joint_scores)}


def score_citations(cited: Collection[str], gold: Collection[str], *, failed: bool = False) -> dict[str, float | None]:
    """Return citation precision and recall, and MuSiQue's support F1, by passage ids.

    Without citations, support F1 is 0 and precision is None. A failed question has a precision of 0: failing must not
    raise a method's mean.
    """
    scores = support(cited, gold)
    precision = scores.precision if scores and (cited or failed) else None
    return {
        "passage_support_f1": scores.f1 if scores else None,
        "citation_precision": precision,
        "citation_recall": scores.recall if scores else None,
    }


def recall(retrieved: Iterable[str], gold: Collection[str]) -> float | None:
    """Return the share of gold passages that were retrieved; None without gold."""
    wanted = set(gold)
    return len(wanted & set(retrieved)) / len(wanted) if wanted else None


def _f1(precision: float, share: float) -> float:
    return 2 * precision * share / (precision + share) if precision + share else 0.0


def _named(prefix: str, scores: Scores | None) -> dict[str, float | None]:
    return {f"{prefix}_{field.name}": getattr(scores, field.name) if scores else None for field in fields(Scores)}


SENTENCES = frozenset({*_named("support", None), *_named("joint", None)})  # scores about cited sentences


CANDIDATES = "candidate_recall"
LIST_SCORES = ("list_em", "list_f1", "list_precision", "list_recall")

# Text in quotes or round brackets, which is not split.
_ATOMIC = r'"[^"\n]*"|“[^“”\n]*”|«[^«»\n]*»|„[^„“”\n]*[“”]|\([^()\n]*\)'
_SEPARATOR = r"\s*(?:(?<!\d),|,(?!\d)|[;\n]|(?<=\s)&(?=\s)|(?<=\s)/(?=\s)|(?i:\band\b|\bor\b|\bas well as\b))\s*"
_SPLIT = re.compile(rf"{_ATOMIC}|(?P<separator>{_SEPARATOR})")
_INTRODUCTION = re.compile(r"(?m)^[^\n]*:[ \t*_]*\n|\A[^\n:]*\b(?i:is|are|was|were|following|includes?)\s*:\s*")
"""A first line that ends in a colon, or opening words such as "they are:"."""
_BEFORE_NAMES = re.compile(r"\b(?:is|are|was|were|includes?|included|including|namely)[ \t]+")
"""Words before the first name of a list."""
_WHERE = re.compile(rf"\A(?:In|Of|Among|According to|Based on|For|From)\b[^,\n]*,\s*(?=[^,\n]*{_BEFORE_NAMES.pattern})")
_OF = re.compile(r"\bof(?: the)?\s*\Z")
_DENIED = re.compile(r"(?i:\b(?:not|cannot|neither|nor|never|except|without)\b|n['’]t\b)|\b(?:no|none)\b")
_OPENING = re.compile(
    r"(?i)\s*(?:yes|no)\W*\Z|\s*(?:(?:all|also|an?|and|both|here|i|it|only|that|the|their|there|these|they|this|those)\s+)+"
)
"""Capitalised words at the start of a sentence that are not names."""
_NUMBERED = re.compile(r"\s*\(?\d{1,2}[.)]\s+")
_INLINE = re.compile(r"(?<=\S)[ \t]+(?=\(?\d{1,2}[.)]\s+\S)")
_MARK = re.compile(r"^\s*(?:(?:\(?\d{1,2}[.)]|[-*•–—+])\s+)?(?:(?i:and|both)\s+)?")
_ASIDE = re.compile(r"(?:\s*[(\[][^()\[\]]*[)\]])+\s*[.,;]*\s*$")
_WHOLE = re.compile(r'\s*(?:"([^"]*)"|“([^”]*)”|\(([^()]*)\)|\[([^\[\]]*)\])\s*\.?\s*')
_QUOTES = str.maketrans("", "", "“”„«»‘’")
_BLANKS = re.compile(r"\s+")
_MAX_PIECES = 6  # pieces that one name may be split into
_MAX_NAME_CHARS = 200  # longest end of a sentence that is tried as a name


def score_list(answer: str, wanted: Sequence[Sequence[str]]) -> dict[str, float | None]:
    """Return the list scores; {} if no list is wanted."""
    scores = support(names_in_answer(answer, wanted), range(len(wanted)))
    return {} if scores is None else {name: getattr(scores, name.removeprefix("list_")) for name in LIST_SCORES}


def names_in_answer(answer: str, wanted: Sequence[Sequence[str]]) -> list[int | str]:
    """Return the names in an answer: wanted ones by their index, others as text.

    Names are separated by commas, semicolons, "and", "or", "&", "/", "as well as", new lines and numbering. Text in
    quotes or round brackets is not split. Pieces that form a wanted name together ("Sammy Davis, Jr.") are joined
    first, the longest match first. Names are compared in normal form, with and without brackets at their end.

    The sentence around a wanted name ("The actors are A and B.") does not count as a name unless it denies something.
    Words without capitals do not count either if both the answer and the wanted names use capitals.
    """
    # The index of each wanted name, by its normal forms.
    places = {_form(name): place for place, called in reversed(list(enumerate(wanted))) for name in called}
    text = _list_text(answer, places)
    cased = text != text.lower() and all(name != name.lower() for called in wanted for name in called[:1])
    pieces = list(_pieces(text))
    names: dict[int | str, None] = {}
    at = 0
    while at < len(pieces):
        starts = list(_starts(text, *pieces[at]))
        for last in range(min(at + _MAX_PIECES, len(pieces)), at, -1):
            end = pieces[last - 1][1]
            near = [start for start in starts[1:] if end - start < _MAX_NAME_CHARS]
            forms = (form for start in (starts[0], *near) for form in _forms(text[start:end]))
            place = next((places[form] for form in forms if form in places), None)
            if place is not None:
                names[place] = None
                at = last
                break
        else:
            names |= dict.fromkeys(_names_in(text[slice(*pieces[at])], places, cased))
            at += 1
    return list(names)


def candidate_recall(hypotheses: Sequence[str], wanted: Sequence[Sequence[str]]) -> float | None:
    """Return the share of wanted names among hypotheses."""
    matched = sum(any(contains(text, called) for text in hypotheses) for called in wanted)
    return matched / len(wanted) if wanted else None


def considered(events: Iterable[Event]) -> list[str] | None:
    """Return the hypotheses of a question's nodes; None if its method states none."""
    nodes: list[dict[str, Any]] = []
    for event in events:
        if isinstance(event, Planned):
            nodes += event.nodes
        elif isinstance(event, NodeSettled):
            nodes.append(event.as_dict())
    stated = [
        text for node in nodes if "hypothesis" in node for text in (node["hypothesis"], node.get("hypothesis_before"))
    ]
    return [text for text in stated if isinstance(text, str)] if stated else None


def _forms(piece: str) -> list[str]:
    """Return the normal forms of a piece, with and without brackets."""
    bare = _MARK.sub("", piece, count=1)
    forms = [_form(text) for text in (piece, bare, _ASIDE.sub("", bare))]
    return [form for form in dict.fromkeys(forms) if form]


def _form(text: str) -> str:
    return normalise(text.replace("&", " and ").translate(_QUOTES)) if text.strip() else ""


def _starts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the positions at which a name may begin in a piece."""
    yield start
    if _DENIED.search(text, start, end):
        return
    yield from (match.end() for match in _BEFORE_NAMES.finditer(text, start, end))
    yield from (start + first for first, _ in _named_in_piece(text[start:end]))


def _named_in_piece(piece: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of names in a piece, except those after "of"."""
    return (span for span in name_spans(piece) if not _OF.search(piece, max(0, span[0] - 8), span[0]))


def _names_in(piece: str, places: Mapping[str, int], cased: bool) -> list[int | str]:
    """Return the wanted names in a sentence, or else the sentence as a name."""
    texts = [piece]
    if not _DENIED.search(piece):
        forms = [_form(piece[slice(*span)]) for span in _named_in_piece(piece)]
        if wanted := [places[form] for form in forms if form in places]:
            return [*wanted]
        if leading := deque(_BEFORE_NAMES.finditer(piece), maxlen=1):
            texts.insert(0, piece[leading[0].end() :])
    name = next((text for text in texts if _is_name(text, cased)), "")
    return [_forms(name)[-1]] if name else []


def _is_name(text: str, cased: bool) -> bool:
    if not cased:
        return any(letter.isalnum() for letter in text)
    name_text = _OPENING.sub("", text, count=1) if _OPENING.match(text) else text
    return any(letter.isalnum() and not letter.islower() for letter in name_text)


def _list_text(answer: str, places: Mapping[str, int]) -> str:
    """Return the answer without surrounding marks and introduction."""
    wrapped = _WHOLE.fullmatch(answer)
    text = next((inside for inside in wrapped.groups() if inside is not None), answer) if wrapped else answer
    text = _INTRODUCTION.sub("", _BLANKS.sub(lambda blank: "\n" if "\n" in blank[0] else " ", text.strip()))
    text = _INLINE.sub("\n", text) if _NUMBERED.match(text) else text
    where = _WHERE.match(text)
    return text if where is None or _form(where[0]) in places else text[where.end() :]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each piece."""
    start = 0
    for match in _SPLIT.finditer(text):
        if match["separator"] is not None:
            yield start, match.start()
            start = match.end()
    yield start, len(text)
