"""Instruction following by distillation: what a teacher said in TAIKC's steps, where that led to the right answer."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

from hoptree.core.errors import HoptreeError, InputError
from hoptree.core.values import Answer
from hoptree.engine.calls import Call, Calls, OnRetry, open_calls
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.evaluation.ask_question import at_once
from hoptree.evaluation.judge import JudgeItem, Verdict, judge_all
from hoptree.evaluation.metrics import best_overlap, contains, exact_match
from hoptree.methods.steps.answer import confident_answer
from hoptree.models import open_model
from hoptree.models.model import Message, Model, Reply, Request
from hoptree.text.loose_json import read_json
from hoptree.text.parse import clean_answer
from hoptree.training.ask_many import answer_from_memory, ask_all, open_memory
from hoptree.training.chat_rows import (
    TAIKC,
    ChatRow,
    Made,
    Progress,
    counting,
    each_once,
    rehearse,
    rehearsed_row,
    row_of,
    without_contradictions,
)
from hoptree.training.plans.gold_trees import carried_out, written
from hoptree.training.plans.sub_questions import LeftOut
from hoptree.training.questions import TrainingQuestion

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


REFUSAL = "RAG_REQUIRED"
CONFIDENT, GAP = "confident", "gap"
_WEIGHTS = re.compile(r"(?:hf|local):([^;]+)")
_ADAPTER = re.compile(r";(adapter=[^;]+)")


def labels_of(identity: str) -> str:
    """Whose answers made the labels: the digest of the weights, where a model tells it, else the model's identity.

    A model with an adapter is another one than its base.
    """
    weights, adapter = _WEIGHTS.match(identity), _ADAPTER.search(identity)
    if weights is None:
        return identity
    return f"{weights[1]};{adapter[1]}" if adapter else weights[1]


async def make_boundary(
    questions: Sequence[TrainingQuestion],
    *,
    model: str,
    judge: str,
    base_url: str,
    cache: str | None,
    concurrency: int | None,
    on_progress: Progress,
) -> Made:
    """A row a question: the model's own answer where it is right, RAG_REQUIRED where it is not.

    It is right by exact match or, if there is a `judge`, where the judge says so; what both say is in the row.
    """
    asked = [question for question in questions if question.example.answers]
    if not asked:
        raise InputError("No question has an accepted answer.", "Give a file with answers: labels come from them.")
    left_out = Counter({"without an accepted answer": len(questions) - len(asked)})

    async with open_memory(model, method=TAIKC, base_url=base_url, cache=cache, concurrency=concurrency) as engine:
        meta: dict[str, Any] = {"model": engine.model.name, "labels_of": labels_of(engine.model.identity)}
        remembered = await answer_from_memory(
            engine, [one.example for one in asked], on_done=counting(len(asked), on_progress)
        )
    failed = [one.example.id for one, found in zip(asked, remembered, strict=True) if found.failure is not None]
    answers = {one.key: found.answer for one, found in zip(asked, remembered, strict=True) if found.failure is None}
    verdicts = await _judged([one for one in asked if one.key in answers], answers, judge, base_url, cache, concurrency)
    left_out["not answered by the model"] = len(failed)
    rows: list[ChatRow] = []
    for question in asked:
        if question.key not in answers:
            continue
        verdict = verdicts.get(question.key)
        if verdict is not None and verdict.error:
            left_out["not judged"] += 1
            failed.append(question.example.id)
            continue
        answer = answers[question.key]
        em = exact_match(answer, question.example.answers)
        right = em if verdict is None else verdict.correct
        more = {**meta, "answer": answer, "em": em}
        if verdict is not None:
            more |= {"judge": judge, "judged": verdict.correct}
        if row := await _row(question, answer if right else REFUSAL, CONFIDENT if right else GAP, more):
            rows.append(row)
        else:
            left_out["an answer that would be read as a refusal, or as another"] += 1
    told = {**meta, "right_by": judge or "exact match", "failed": failed}
    return Made(tuple(rows), dict(+left_out), told)


async def _judged(
    questions: Sequence[TrainingQuestion],
    answers: dict[str, str],
    judge: str,
    base_url: str,
    cache: str | None,
    concurrency: int | None,
) -> dict[str, Verdict]:
    """The judge's verdicts by the keys of the questions; none without a judge."""
    if not judge:
        return {}
    items = [JudgeItem(one.key, one.example.question, answers[one.key], one.example.answers) for one in questions]
    model = open_model(judge, base_url=base_url if judge.startswith("openai/") else "")
    calls = open_calls(cache, concurrency=concurrency)
    try:
        report = await judge_all(items, model, calls)
    finally:
        calls.close()
        await model.aclose()
    return {verdict.id: verdict for verdict in report.verdicts}


async def _row(question: TrainingQuestion, target: str, label: str, meta: dict[str, Any]) -> ChatRow | None:
    async def step(ctx: Context) -> Answer:
        return await confident_answer(ctx, question.example.question)

    rehearsed = await rehearse(TAIKC, step, target)
    meant = Answer("", target, "refused") if label == GAP else Answer(target, target, source="internal")
    return rehearsed_row(question, "", rehearsed, target, label, meta) if rehearsed.read == meant else None
