"""Awareness of the knowledge boundary by bootstrapping: Confident QA, labelled by whether Direct QA was right."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hoptree.alignment.building.chat_rows import ChatRow
from hoptree.alignment.building.makers import TAIKC, Made, Progress, counting, rehearsed_row
from hoptree.alignment.building.memory import answer_from_memory, open_memory
from hoptree.alignment.building.rehearsal import rehearse
from hoptree.alignment.questions.reading import TrainingQuestion
from hoptree.errors import InputError
from hoptree.evaluation.judge import JudgeItem, Verdict, judge_all
from hoptree.evaluation.metrics import exact_match
from hoptree.models import open_model
from hoptree.runtime.calls import open_calls
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import confident_answer
from hoptree.values import Answer

__all__ = ["CONFIDENT", "GAP", "REFUSAL", "labels_of", "make_boundary"]

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
