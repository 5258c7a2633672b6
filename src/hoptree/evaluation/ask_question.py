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
"""Questions under way together, at most: more would only wait for the model, with all they found in memory."""

_QUESTIONS_PER_SLOT = 4
"""Questions under way for each slot of the model: as many as keep the slots busy until the very end of a run."""


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
        must_change = failure is not None and failure.exit_code == HoptreeError.exit_code + 1
        alone = isinstance(failure, RequestTooLong)  # which is known before anything else comes out
        row = _row(example, result, events, searchable=searches(self._engine))
        return Asked(row, failure if must_change and not alone else None)


def searches(engine: Engine) -> bool:
    """Tell whether the engine's method retrieves from a corpus, so that retrieval can be scored."""
    return engine.retriever is not None and "corpus" in engine.method.needs


def at_once(slots: int, *, timed: bool = False) -> int:
    """Return how many questions keep a model with so many slots busy.

    With a budget of seconds (`timed`) each question has a slot: one that waits for others would be stopped for it.
    """
    return max(1, min(_MAX_AT_ONCE, slots if timed else _QUESTIONS_PER_SLOT * slots))


def _row(example: Example, result: Result, events: Sequence[Event], *, searchable: bool) -> Row:
    row = Row(
        id=example.id,
        question=example.question,
        answers=example.answers,
        answer=result.answer,
        type=example.type,
        hops=example.hops,
        abstained=result.abstained,
        error=result.error,
        error_message=result.error_message,
        stopped_by=result.stopped_by,
        source=next((event.source for event in reversed(events) if isinstance(event, Finished)), ""),
        usage=result.usage.as_dict(),
        gold=example.supporting_ids,
        gold_titles=example.supporting_titles,
        retrieved=_retrieved(events),
        cited=tuple(passage.id for passage in result.consulted),
        sources=_sources(events),
        trace=events[0].run,
    )
    scores = _scored(example, row, cited_sentences(events), searched=searchable)
    return replace(row, scores=scores | _listed(example, row, events))


def _retrieved(events: Sequence[Event]) -> tuple[tuple[str, ...], ...]:
    """Return the passage ids of every search, or those a method says it read."""
    if read := decisions_of("read", events):
        return (tuple(read[-1].value),)
    searches = (event for event in events if isinstance(event, Retrieved))
    return tuple(tuple(passage["id"] for passage in search.passages) for search in searches)


def _sources(events: Sequence[Event]) -> dict[str, int]:
    """Count where the nodes of the last plan have their answers from."""
    found: Counter[str] = Counter()
    for event in events:
        if isinstance(event, Planned) and event.under is None:
            found.clear()
        elif isinstance(event, NodeSettled):
            found[event.source] += 1
    return dict(found)


def cited_sentences(events: Sequence[Event]) -> tuple[Sentence, ...] | None:
    """Return the sentences an answer cites as (title, number) pairs; None if the method cites none.

    Methods cite in a decision "cited_sentences" whose value is a list of such pairs; the last one counts.
    """
    said = [decision.value for decision in decisions_of("cited_sentences", events)]
    if not said:
        return None
    try:
        return tuple((" ".join(title.split()), int(number)) for title, number in said[-1])
    except (TypeError, ValueError, AttributeError):
        return ()


def failed_row(example: Example, failure: HoptreeError, *, searchable: bool) -> Row:
    """Return the outcome of a question that could not be asked."""
    row = Row(
        id=example.id,
        question=example.question,
        answers=example.answers,
        answer="",
        type=example.type,
        hops=example.hops,
        error=type(failure).__name__,
        error_message=str(failure),
        usage=Usage().as_dict(),
        gold=example.supporting_ids,
        gold_titles=example.supporting_titles,
    )
    scores = _scored(example, row, None, searched=searchable)
    return replace(row, scores=scores | _listed(example, row, ()))


def _listed(example: Example, row: Row, events: Sequence[Event]) -> dict[str, float | None]:
    """Score an answer that is a list of names; {} for other questions."""
    if not example.wanted:
        return {}
    known = considered(events)
    share = candidate_recall(*known, example.wanted) if known else None
    return {**score_list(row.answer, example.wanted), CANDIDATES: share}


def _scored(
    example: Example, row: Row, sentences: tuple[Sentence, ...] | None, *, searched: bool
) -> dict[str, float | None]:
    """Return all scores of an outcome; None where the data set has no gold or nothing was searched."""
    scores = (
        score_answer(row.answer, row.answers) if example.answerable else score_none(row.abstained and not row.error)
    )
    if not searched:
        return scores
    if example.supporting_facts:
        scores |= score_support(row.answer, row.answers, sentences, example.supporting_facts)
    scores["retrieval_recall"] = tree_recall(row.retrieved, row.gold)
    found = [name for search in row.retrieved for name in search]
    for hop, share in enumerate(recall_by_hop(found, example.hop_ids), 1):
        scores[f"recall_hop_{hop}"] = share
    scores |= score_passages(row.cited, row.gold)
    return scores | score_citations(row.cited, row.gold, failed=bool(row.error))
