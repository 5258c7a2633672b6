"""Evaluate a retriever on questions with known gold passages."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import HoptreeError, InputError
from hoptree.engine.engine import check_question
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.reading import check_half, half_of, read_examples
from hoptree.evaluation.metrics import score_ranking
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.retriever import Retriever

WARM_UP = 5  # first searches, which open files and fill caches: they are scored, but not timed
_LOOKUP_BATCH = 500


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions that can be scored, and the number of the others."""

    questions: tuple[Example, ...]
    without_gold: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The ids that one search returned, best first, with its time or error."""

    ids: tuple[str, ...] = ()
    milliseconds: float = 0.0
    error: HoptreeError | None = None


@dataclass(frozen=True, slots=True)
class RetrievalRun:
    """The results of one retriever for all questions, with the scores of each."""

    corpus: str
    asked: QuestionSet
    results: tuple[SearchResult, ...]
    scores: dict[str, list[float]]

    @property
    def failed(self) -> int:
        return sum(result.error is not None for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """Return the means, counting failures as 0, and search times."""
        good = [result for result in self.results if result.error is None]
        times = sorted(result.milliseconds for result in good[WARM_UP:] or good)
        return {
            "corpus": self.corpus,
            "questions": len(self.results),
            "failed": self.failed,
            "without_gold": self.asked.without_gold,
            **{metric: statistics.fmean(values) for metric, values in self.scores.items()},
            "p50_ms": _percentile(times, 0.50),
            "p95_ms": _percentile(times, 0.95),
            "queries_per_second": 1000 * len(times) / max(sum(times), 1e-6),
        }


def read_questions(path: Path, *, half: str = "", limit: int | None = None) -> QuestionSet:
    """Read the first `limit` questions with gold passages."""
    if half:
        check_half(half)
    examples = read_examples(path).examples
    inside = [example for example in examples if not half or half_of(example.id) == half]
    usable = [example for example in inside if example.supporting_ids]
    if not usable:
        in_other_half = half and any(example.supporting_ids for example in examples)
        where = f"No question in the {half} half of {path}" if in_other_half else f"No row of {path}"
        raise InputError(f"{where} names gold passages.", 'Each row needs a list "supporting_ids".')
    return QuestionSet(tuple(usable[:limit]), len(inside) - len(usable))


def missing_gold(folder: Path, asked: QuestionSet) -> list[str]:
    """Return the gold passages that are not in the index."""
    gold = sorted({name for question in asked.questions for name in question.supporting_ids})
    keys = [key_of(name) for name in gold]
    indexed: set[int] = set()
    with closing(Index(folder).ledger()) as ledger:
        for start in range(0, len(keys), _LOOKUP_BATCH):
            indexed.update(ledger.look_up(keys[start : start + _LOOKUP_BATCH]))
    return [name for name, key in zip(gold, keys, strict=True) if key not in indexed]


async def evaluate(
    retriever: Retriever, asked: QuestionSet, *, k: int, on_done: Callable[[], None] = lambda: None
) -> RetrievalRun:
    """Search for each question, one after another, and score the results."""
    results: list[SearchResult] = []
    for question in asked.questions:
        asked_well = False
        try:
            text = check_question(question.as_question()).text
            began, asked_well = time.perf_counter(), True
            passages = await retriever.search(text, k=k)
            took = time.perf_counter() - began
            results.append(SearchResult(tuple(passage.id for passage in passages[:k]), 1000 * took))
        except HoptreeError as error:
            if error.exit_code == InputError.exit_code and asked_well:
                raise
            results.append(SearchResult(error=error))
        on_done()
    errors = [result.error for result in results if result.error is not None]
    if errors and len(errors) == len(results):
        raise errors[0]
    pairs = zip(asked.questions, results, strict=True)
    rows = [score_ranking(question.supporting_ids, result.ids, k=k) for question, result in pairs]
    scores = {metric: [row[metric] for row in rows] for metric in rows[0]}
    return RetrievalRun(retriever.identity, asked, tuple(results), scores)


def _percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
