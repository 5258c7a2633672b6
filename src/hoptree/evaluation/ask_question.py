"""Ask one question of a run, and score its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hoptree.core.errors import HoptreeError, RequestTooLong
from hoptree.core.values import Usage
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event, Finished, NodeSettled, Planned, decisions_of
from hoptree.engine.result import Result
from hoptree.engine.trace import Retrieved
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import (
    CANDIDATES,
    Sentence,
    candidate_recall,
    considered,
    recall_by_hop,
    score_answer,
    score_citations,
    score_list,
    score_none,
    score_passages,
    score_support,
    tree_recall,
)
from hoptree.evaluation.run_folder import Row

_MAX_AT_ONCE = 512
"""Questions under way together: more would only wait for the model, and fill the memory."""
_QUESTIONS_PER_SLOT = 4
"""Questions under way for each slot of the model, so that none is idle until the end of a run."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's outcome; `hopeless` is an error that every other question would meet too."""

    row: Row
    hopeless: HoptreeError | None = None


class Asker(Protocol):
    """Puts questions to a method, `at_once` of them together."""

    @property
    def at_once(self) -> int: ...

    async def ask(self, example: Example) -> Asked: ...


class EngineAsker:
    """Asks an engine in this process."""

    def __init__(self, engine: Engine, at_once: int = 1) -> None:
        self._engine = engine
        self.at_once = at_once

    async def ask(self, example: Example) -> Asked:
        events: list[Event] = []
        result = await self._engine.ask(example.as_question(), listeners=(events.append,))
        failure = result.failure
        row = _row(example, result, events, searchable=searches(self._engine))
        # A request that is too long says nothing of the other questions.
        hopeless = failure is not None and failure.exit_code == 2 and not isinstance(failure, RequestTooLong)
        return Asked(row, failure if hopeless else None)


def searches(engine: Engine) -> bool:
    """Tell whether the engine's method retrieves from a corpus, so that retrieval can be scored."""
    return engine.retriever is not None and "corpus" in engine.method.needs


def at_once(slots: int, *, timed: bool = False) -> int:
    """Return how many questions keep a model with so many slots busy.

    With a budget of seconds (`timed`) each question has a slot: one that waits for others would be stopped for it.
    """
    return max(1, min(_MAX_AT_ONCE, slots if timed else _QUESTIONS_PER_SLOT * slots))


def _row(example: Example, result: Result, events: Sequence[Event], *, searchable: bool) -> Row:
    if read := decisions_of("read", events):  # a method that says which passages it read
        searches = [read[-1].value]
    else:
        results = [event.passages for event in events if isinstance(event, Retrieved)]
        searches = [[passage["id"] for passage in passages] for passages in results]
    row = replace(
        _blank_row(example),
        answer=result.answer,
        abstained=result.abstained,
        error=result.error,
        error_message=result.error_message,
        stopped_by=result.stopped_by,
        source=next((event.source for event in reversed(events) if isinstance(event, Finished)), ""),
        usage=result.usage.as_dict(),
        retrieved=tuple(map(tuple, searches)),
        cited=tuple(passage.id for passage in result.consulted),
        sources=_sources(events),
        trace=events[0].run,
    )
    return _score(example, row, events, searchable=searchable)


def failed_row(example: Example, failure: HoptreeError, *, searchable: bool) -> Row:
    """Return the outcome of a question that could not be asked."""
    row = replace(_blank_row(example), error=type(failure).__name__, error_message=str(failure))
    return _score(example, row, (), searchable=searchable)


def _blank_row(example: Example) -> Row:
    return Row(
        id=example.id,
        question=example.question,
        answers=example.answers,
        answer="",
        type=example.type,
        hops=example.hops,
        usage=Usage().as_dict(),
        gold=example.supporting_ids,
        gold_titles=example.supporting_titles,
    )


def _sources(events: Sequence[Event]) -> dict[str, int]:
    """Count where the nodes of the last plan have their answers from."""
    counts: Counter[str] = Counter()
    for event in events:
        if isinstance(event, Planned) and event.under is None:
            counts.clear()
        elif isinstance(event, NodeSettled):
            counts[event.source] += 1
    return dict(counts)


def cited_sentences(events: Sequence[Event]) -> tuple[Sentence, ...] | None:
    """Return the sentences an answer cites as (title, number) pairs; None if the method cites none.

    Methods cite in a decision "cited_sentences" whose value is a list of such pairs; the last one counts.
    """
    decisions = decisions_of("cited_sentences", events)
    if not decisions:
        return None
    try:
        return tuple((" ".join(title.split()), int(number)) for title, number in decisions[-1].value)
    except (TypeError, ValueError, AttributeError):
        return ()


def _score(example: Example, row: Row, events: Sequence[Event], *, searchable: bool) -> Row:
    """Return the row with all scores; None where the data set has no gold or nothing was searched."""
    answered = example.answerable
    scores = score_answer(row.answer, row.answers) if answered else score_none(row.abstained and not row.error)
    if searchable:
        if example.supporting_facts:
            cited = cited_sentences(events)
            scores |= score_support(row.answer, row.answers, cited, example.supporting_facts)
        scores["retrieval_recall"] = tree_recall(row.retrieved, row.gold)
        passages = [name for search in row.retrieved for name in search]
        for hop, share in enumerate(recall_by_hop(passages, example.hop_ids), 1):
            scores[f"recall_hop_{hop}"] = share
        scores |= score_passages(row.cited, row.gold)
        scores |= score_citations(row.cited, row.gold, failed=bool(row.error))
    if example.wanted:
        known = considered(events)
        scores |= score_list(row.answer, example.wanted)
        scores[CANDIDATES] = candidate_recall(*known, example.wanted) if known else None
    return replace(row, scores=scores)
