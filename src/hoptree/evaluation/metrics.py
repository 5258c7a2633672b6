"""Answer, citation and ranking metrics, as the data sets' own scripts define them."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields

from hoptree.core.errors import InputError

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
