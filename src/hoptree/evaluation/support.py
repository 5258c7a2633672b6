"""Whether an answer rests on the right sentences and passages, and whether the right passages were found at all.

None means that there is nothing to score: the data set names no gold, or the method cites nothing of this kind. A
failed question of a method that does cite has cited nothing, an empty collection, and scores 0.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields

from hoptree.evaluation.metrics import Overlap, best_overlap, exact_match

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
    """HotpotQA's supporting-fact scores for (title, sentence) pairs, MuSiQue's support scores for paragraph ids.

    Who cites nothing has a precision of 0, as in both official scripts.
    """
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
    """The share of the gold passages that were found."""
    wanted = set(gold)
    return len(wanted & set(found)) / len(wanted) if wanted else None


def recall_by_hop(found: Iterable[str], gold_by_hop: Sequence[Collection[str]]) -> tuple[float | None, ...]:
    """For each hop, the share of its gold passages that were found; None for a hop that has none of its own."""
    names = set(found)
    return tuple(recall(names, gold) for gold in gold_by_hop)


def tree_recall(searches: Iterable[Iterable[str]], gold: Collection[str]) -> float | None:
    """The share of the gold passages that any search of the question found; 0 where nothing was searched for."""
    return recall((name for search in searches for name in search), gold)


def score_passages(cited: Collection[str], gold: Collection[str]) -> dict[str, float | None]:
    """MuSiQue's support F1, by passage ids: who cites nothing scores 0."""
    found = support(cited, gold)
    return {"passage_support_f1": found.f1 if found else None}


def _f1(precision: float, share: float) -> float:
    return 2 * precision * share / (precision + share) if precision + share else 0.0


def _named(prefix: str, scores: Scores | None) -> dict[str, float | None]:
    return {f"{prefix}_{field.name}": getattr(scores, field.name) if scores else None for field in fields(Scores)}


SENTENCES = frozenset({*_named("support", None), *_named("joint", None)})
"""The names of the scores that are about cited sentences."""
