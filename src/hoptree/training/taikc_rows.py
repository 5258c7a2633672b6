"""TAIKC's training rows from a model: instructions and boundary."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Answer
from hoptree.engine.calls import open_calls
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event, NodeSettled
from hoptree.evaluation.judge import JudgeItem, Verdict, judge_all
from hoptree.evaluation.metrics import best_overlap, contains, exact_match
from hoptree.methods.steps.answer import confident_answer
from hoptree.models import open_model
from hoptree.text.loose_json import read_json
from hoptree.text.parse import clean_answer
from hoptree.training.chat_rows import (
    TAIKC,
    ChatRow,
    MadeRows,
    Progress,
    consistent_rows,
    make_row,
    progress_counter,
    rehearse,
)
from hoptree.training.formats import SetSpec
from hoptree.training.labelled_passages import answer_from_memory, ask_all, with_answers
from hoptree.training.plans.gold_trees import carried_out, written
from hoptree.training.plans.sub_questions import LeftOut
from hoptree.training.questions import TrainingQuestion
from hoptree.training.recording import Exchange, open_recording, record

_ANSWER = re.compile(r'"answer": ("(?:[^"\\]|\\.)*")')


@dataclass(frozen=True, slots=True)
class _Outcome:
    rows: tuple[ChatRow, ...] = ()
    solved: bool = False
    failed: bool = False


async def make_instructions(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make rows of the questions that the teacher solved with an F1 of 1.

    Left out are answers from memory, plans that had to be repaired, and summaries without the result of their chain.
    Targets are written as the steps read them.
    """
    asked = with_answers(questions, "only right ones are kept")
    unfit: Counter[str] = Counter()

    async with (
        open_recording(spec.cache, spec.concurrency) as calls,
        Engine(
            method=TAIKC,
            model=spec.model,
            corpus=spec.corpus or None,
            retriever=spec.retriever,
            rerank=spec.rerank,
            options=spec.options,
            base_url=spec.base_url,
            calls=calls,
        ) as engine,
    ):
        meta = {"teacher": engine.model.name, "options": dict(spec.options)}

        async def ask(question: TrainingQuestion) -> tuple[_Outcome, HoptreeError | None]:
            run = await record(engine, question)
            if run.failure is not None:
                return _Outcome(failed=True), run.failure
            if best_overlap(run.answer, question.example.answers).f1 < 1:
                return _Outcome(), None
            rows = _instruction_rows(question, run.exchanges, run.events, meta, unfit)
            return _Outcome(tuple(rows), solved=True), None

        outcomes = await ask_all(engine.model, asked, ask, progress_counter(len(asked), on_progress))
    rows, inconsistent = consistent_rows([row for outcome in outcomes for row in outcome.rows])
    failed = [question.example.id for question, outcome in zip(asked, outcomes, strict=True) if outcome.failed]
    left_out = Counter(
        {
            "without an accepted answer": len(questions) - len(asked),
            "not answered by the model": len(failed),
            "not solved with an F1 of 1": sum(not outcome.solved and not outcome.failed for outcome in outcomes),
        }
    )
    left_out.update(inconsistent)
    left_out.update(unfit)
    solved = sum(outcome.solved for outcome in outcomes)
    return MadeRows(tuple(rows), dict(+left_out), {"teacher": meta["teacher"], "solved": solved, "failed": failed})


def _instruction_rows(
    question: TrainingQuestion,
    exchanges: Sequence[Exchange],
    events: Sequence[Event],
    meta: Mapping[str, Any],
    unfit: Counter[str],
) -> Iterator[ChatRow]:
    def row(name: str, label: str, exchange: Exchange, target: str) -> ChatRow:
        about = {"template": exchange.call.template, "part": label, **meta}
        return make_row(question, name, exchange.messages, target, label, about)

    def of_step(step: str) -> list[Exchange]:
        return [exchange for exchange in exchanges if exchange.call.step == step]

    try:
        yield row("decompose", "decompose", *_plan(of_step("decompose"), question.example.question))
    except LeftOut as why:
        unfit[f"no plan for {why}"] += 1
    settled = [event for event in events if isinstance(event, NodeSettled) and event.source == "external"]
    from_documents = {event.id for event in settled if event.state == "answered"}
    readings = {
        exchange.call.node: exchange
        for exchange in of_step("read")
        if exchange.call.node in from_documents and exchange.reply
    }
    for node, exchange in readings.items():
        if answer := clean_answer(exchange.reply):
            yield row(f"read/{node}", "read", exchange, answer)
    for exchange in of_step("final"):
        answer = clean_answer(exchange.reply)
        if best_overlap(answer, question.example.answers).f1 >= 1:
            yield row("final", "read", exchange, answer)
    for number, exchange in enumerate(of_step("summarise"), 1):
        # In the nested JSON of a chain, the innermost answer is its result.
        answers = _ANSWER.findall(exchange.messages[-1].content)
        if contains(exchange.reply, [str(json.loads(answers[-1])) if answers else ""]):
            yield row(f"summary/{number}", "summary", exchange, " ".join(exchange.reply.split()))
        else:
            unfit["no summary, as it does not say what its chain came to"] += 1


def _plan(exchanges: Sequence[Exchange], question: str) -> tuple[Exchange, str]:
    """Return the first plan request, and the last usable reply."""
    why = LeftOut("no tree")
    for exchange in reversed(exchanges):
        plan = read_json(exchange.reply).value
        if isinstance(plan, dict):
            try:
                carried_out(plan, question)
                return exchanges[0], written(plan)
            except LeftOut as reason:
                why = reason
    raise why


REFUSAL = "RAG_REQUIRED"
CONFIDENT, GAP = "confident", "gap"
_WEIGHTS = re.compile(r"(?:hf|local):([^;]+)")
_ADAPTER = re.compile(r";(adapter=[^;]+)")


def labels_of(identity: str) -> str:
    """Return whose answers made the labels: a digest of weights, or an identity."""
    weights, adapter = _WEIGHTS.match(identity), _ADAPTER.search(identity)
    if weights is None:
        return identity
    return f"{weights[1]};{adapter[1]}" if adapter else weights[1]


async def make_boundary(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row a question: the right answer, or RAG_REQUIRED."""
    replies = await answer_from_memory(questions, spec, TAIKC, on_progress)
    meta: dict[str, Any] = {"model": replies.model, "labels_of": labels_of(replies.identity)}
    failed, left_out = replies.failed, replies.left_out
    verdicts = await _judge(replies.answered, spec)
    rows: list[ChatRow] = []
    for question, answer in replies.answered:
        verdict = verdicts.get(question.key)
        if verdict is not None and verdict.error:
            left_out["not judged"] += 1
            failed.append(question.example.id)
            continue
        exact = exact_match(answer, question.example.answers)
        right = exact if verdict is None else verdict.correct
        more = {**meta, "answer": answer, "em": exact}
        if verdict is not None:
            more |= {"judge": spec.judge, "judged": verdict.correct}
        target, label = (answer, CONFIDENT) if right else (REFUSAL, GAP)
        rehearsal = await rehearse(TAIKC, target, confident_answer, question.example.question)
        expected = Answer(target, target, source="internal") if right else Answer("", target, "refused")
        if rehearsal.read == expected:
            rows.append(rehearsal.row(question, "", label, more))
        else:
            left_out["an answer that would be read as a refusal, or as another"] += 1
    report = {**meta, "right_by": spec.judge or "exact match", "failed": failed}
    return MadeRows(tuple(rows), dict(+left_out), report)


async def _judge(answered: Sequence[tuple[TrainingQuestion, str]], spec: SetSpec) -> dict[str, Verdict]:
    """Return the judge's verdicts by the keys of the questions; none without a judge."""
    if not spec.judge:
        return {}
    items = [
        JudgeItem(question.key, question.example.question, answer, question.example.answers)
        for question, answer in answered
    ]
    base_url = spec.base_url if spec.judge.startswith("openai/") else ""
    async with aclosing(open_model(spec.judge, base_url=base_url)) as model:
        with closing(open_calls(spec.cache, concurrency=spec.concurrency)) as calls:
            report = await judge_all(items, model, calls)
    return {verdict.id: verdict for verdict in report.verdicts}
