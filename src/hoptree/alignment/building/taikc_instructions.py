"""Instruction following by distillation: what a teacher said in TAIKC's steps, where that led to the right answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

from hoptree.alignment.building.asking import ask_all
from hoptree.alignment.building.chat_rows import ChatRow
from hoptree.alignment.building.makers import TAIKC, Made, Progress, counting, each_once, row_of, without_contradictions
from hoptree.alignment.plans.sub_questions import LeftOut
from hoptree.alignment.plans.trees import carried_out, written
from hoptree.alignment.questions.reading import TrainingQuestion
from hoptree.engine import Engine
from hoptree.errors import HoptreeError, InputError
from hoptree.evaluation.asking import at_once
from hoptree.evaluation.metrics import best_overlap, contains
from hoptree.models.model import Message, Model, Reply, Request
from hoptree.runtime.calls import Call, Calls, OnRetry
from hoptree.runtime.trace import Event
from hoptree.steps.reading.parse import clean_answer, read_json

__all__ = ["Overheard", "Said", "make_instructions"]

_ANSWER = re.compile(r'"answer": ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class Said:
    """A request as it was sent, and the event of the reply."""

    messages: tuple[Message, ...]
    event: Event

    @property
    def reply(self) -> str:
        return str(self.event["reply"]).strip()


_HEARD: ContextVar[list[tuple[Message, ...]]] = ContextVar("_HEARD")
"""What the question that is asked here has sent; questions that are asked at once have one each."""


class _Overhearing(Calls):
    """Notes every request that got a reply, from the model or from what is remembered."""

    async def generate(self, model: Model, request: Request, *, step: str, on_retry: OnRetry) -> Call[Reply]:
        call = await super().generate(model, request, step=step, on_retry=on_retry)
        _HEARD.get().append(request.messages)  # the event is added before anything else can happen
        return call


class Overheard(Engine):
    """An engine that tells beside the result what was asked and replied on the way to it."""

    def __init__(self, *, concurrency: int | None = None, **how: Any) -> None:
        super().__init__(concurrency=concurrency, **how)
        silent = self._calls
        self._calls = _Overhearing(silent.cache, concurrency=concurrency)
        self._calls.cache_failure = silent.cache_failure

    async def __aenter__(self) -> Self:
        return self

    async def overhear(self, question: TrainingQuestion) -> tuple[str, list[Said], list[Event], HoptreeError | None]:
        """The answer, all that was said in order, the events, and the failure if it failed."""
        heard: list[tuple[Message, ...]] = []
        _HEARD.set(heard)
        events: list[Event] = []
        result = await self.ask(question.example.as_question(), listeners=(events.append,))
        if result.failure is not None:
            return "", [], events, result.failure
        calls = (event for event in events if event["event"] == "llm")
        return result.answer, [Said(*both) for both in zip(heard, calls, strict=True)], events, None


@dataclass(frozen=True, slots=True)
class _Outcome:
    rows: tuple[ChatRow, ...] = ()
    solved: bool = False
    failed: bool = False


async def make_instructions(
    questions: Sequence[TrainingQuestion],
    *,
    teacher: str,
    corpus: str,
    retriever: str,
    rerank: str,
    options: Mapping[str, Any],
    base_url: str,
    cache: str | None,
    concurrency: int | None,
    on_progress: Progress,
) -> Made:
    """Rows of the questions that the teacher solved with an F1 of 1: decompositions, readings and summaries.

    What it answered from memory is left out, so that nothing is learnt but how the steps are done. So are plans that
    had to be mended and summaries without what their chain came to: a right answer may come of those, too. What is
    kept is written as the steps read it, without words around it.
    """
    asked = [question for question in questions if question.example.answers]
    if not asked:
        raise InputError("No question has an accepted answer.", "Give a file with answers: only right ones are kept.")
    unfit: Counter[str] = Counter()

    async with Overheard(
        method=TAIKC,
        model=teacher,
        corpus=corpus or None,
        retriever=retriever,
        rerank=rerank,
        options=options,
        base_url=base_url,
        cache=cache,
        concurrency=concurrency,
    ) as engine:
        meta = {"teacher": engine.model.name, "options": dict(options)}

        async def ask(question: TrainingQuestion) -> tuple[_Outcome, HoptreeError | None]:
            answer, said, events, failure = await engine.overhear(question)
            if failure is not None:
                return _Outcome(failed=True), failure
            if best_overlap(answer, question.example.answers).f1 < 1:
                return _Outcome(), None
            return _Outcome(tuple(_rows(question, said, events, meta, unfit)), solved=True), None

        found = await ask_all(
            asked, ask, at_once=at_once(engine.model.slots), on_done=counting(len(asked), on_progress)
        )
    rows, twice = each_once([row for outcome in found for row in outcome.rows])
    rows, otherwise = without_contradictions(rows)
    failed = [question.example.id for question, one in zip(asked, found, strict=True) if one.failed]
    left_out = Counter(
        {
            "without an accepted answer": len(questions) - len(asked),
            "not answered by the model": len(failed),
            "not solved with an F1 of 1": sum(not one.solved and not one.failed for one in found),
            "rows that ask and say the same as another": twice,
            "rows that ask the same as another and say something else": otherwise,
        }
    )
    left_out.update(unfit)
    told = {"teacher": meta["teacher"], "solved": sum(one.solved for one in found), "failed": failed}
    return Made(tuple(rows), dict(+left_out), told)


def _rows(
    question: TrainingQuestion,
    said: Sequence[Said],
    events: Sequence[Event],
    meta: Mapping[str, Any],
    unfit: Counter[str],
) -> Iterator[ChatRow]:
    def row(name: str, label: str, one: Said, target: str) -> ChatRow:
        told = {"template": one.event["template"], "part": label, **meta}
        return row_of(question, name, one.messages, target, label, told)

    try:
        yield row("decompose", "decompose", *_plan(said, question.example.question))
    except LeftOut as why:
        unfit[f"no plan for {why}"] += 1
    for node, one in _readings(said, events).items():
        if answer := clean_answer(one.reply):
            yield row(f"read/{node}", "read", one, answer)
    for one in _by_step(said, "final"):
        answer = clean_answer(one.reply)
        if best_overlap(answer, question.example.answers).f1 >= 1:
            yield row("final", "read", one, answer)
    for number, one in enumerate(_by_step(said, "summarise"), 1):
        if contains(one.reply, [_last_answer(one)]):
            yield row(f"summary/{number}", "summary", one, " ".join(one.reply.split()))
        else:
            unfit["no summary, as it does not say what its chain came to"] += 1


def _plan(said: Sequence[Said], question: str) -> tuple[Said, str]:
    """The first request for a plan, and the last reply that can be carried out as it is: it is to be given at once."""
    calls = _by_step(said, "decompose")
    why = LeftOut("no tree")
    for one in reversed(calls):
        plan = read_json(one.reply).value
        if isinstance(plan, dict):
            try:
                carried_out(plan, question)
            except LeftOut as reason:
                why = reason
            else:
                return calls[0], written(plan)
    raise why


def _last_answer(summary: Said) -> str:
    """What the chain that is to be summarised came to: in its nested JSON the innermost answer is the last."""
    answers = _ANSWER.findall(summary.messages[-1].content)
    return str(json.loads(answers[-1])) if answers else ""


def _readings(said: Sequence[Said], events: Sequence[Event]) -> dict[int, Said]:
    """For every node whose answer came from documents the reading that gave it: the last one."""
    read = {
        event["id"]
        for event in events
        if event["event"] == "node" and event["state"] == "answered" and event["source"] == "external"
    }
    return {one.event["node"]: one for one in _by_step(said, "read") if one.event.get("node") in read and one.reply}


def _by_step(said: Sequence[Said], step: str) -> list[Said]:
    return [one for one in said if one.event["step"] == step]
