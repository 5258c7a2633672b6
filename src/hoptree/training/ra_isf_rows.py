"""From questions to training rows, one maker for each of RA-ISF's sub-models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.methods.ra_isf_modules import judge_knowledge, judge_passages
from hoptree.methods.steps.decompose import split_question
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.remote import is_remote
from hoptree.sample import sample_index
from hoptree.text.parse import SelfKnowledge
from hoptree.training.ask_many import answer_from_memory, is_right, open_memory
from hoptree.training.chat_rows import ChatRow, Made, Progress, counting, rehearse, rehearsed_row, require
from hoptree.training.labelled_passages import GoldPassages, judge_found
from hoptree.training.plans.sub_questions import LeftOut, decomposed
from hoptree.training.questions import TrainingQuestion

METHOD = "ra_isf"
_KNOWN = {True: "yes", False: "no"}
_RELEVANT = {True: "relevant", False: "irrelevant"}


async def make_knowledge(
    questions: Sequence[TrainingQuestion],
    *,
    model: str,
    base_url: str,
    cache: str | None,
    concurrency: int | None,
    right_f1: float,
    on_progress: Progress,
) -> Made:
    """A row a question: "yes" where the model's own answer from memory is right, "no" where it is not."""
    asked = [question for question in questions if question.example.answers]
    if not asked:
        raise InputError("No question has an accepted answer.", "Give a file with answers: labels come from them.")
    left_out = Counter({"without an accepted answer": len(questions) - len(asked)})
    rows: list[ChatRow] = []
    async with open_memory(model, method=METHOD, base_url=base_url, cache=cache, concurrency=concurrency) as engine:
        name = engine.model.name
        remembered = await answer_from_memory(
            engine, [one.example for one in asked], on_done=counting(len(asked), on_progress)
        )
    failed: list[str] = []
    for question, found in zip(asked, remembered, strict=True):
        if found.failure is not None:
            failed.append(question.example.id)
            continue
        right = is_right(found.answer, question.example.answers, f1=right_f1)
        meta = {"model": name, "answer": found.answer, "right_from_f1": right_f1}
        rows.append(await _known(question, right, meta))
    if failed:
        left_out["not answered by the model"] = len(failed)
    return Made(tuple(rows), dict(+left_out), {"model": name, "right_from_f1": right_f1, "failed": failed})


async def make_relevance(
    questions: Sequence[TrainingQuestion],
    *,
    corpus: str,
    retriever: str,
    rerank: str,
    k: int,
    titles: bool,
    on_progress: Progress,
) -> Made:
    """A row a passage: the question's gold passages, and the others among the first `k` of a search."""
    where = str(sample_index()) if corpus == "sample" else corpus
    gold = GoldPassages(None if is_remote(where) else Path(where))
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    calls = Calls(None)
    opened = open_retriever(where, retriever, rerank=rerank)
    try:
        for done, question in enumerate(questions, 1):
            example = question.example
            judged = await judge_found(example, opened, gold, calls, k=k)
            if not judged.relevant:
                marked = example.supporting_ids or example.supporting_titles
                left_out["gold passages not in the corpus" if marked else "without gold passages"] += 1
            else:
                for passage, verdict in judged.verdicts:
                    rows.append(await _judged(question, passage, verdict, titles))
                left_out["passages that say the answer and are not gold"] += len(judged.unclear)
                left_out["single gold passages not in the corpus"] += len(judged.missing)
            on_progress(done, len(questions))
    finally:
        await opened.aclose()
    return Made(tuple(rows), dict(+left_out), {"corpus": opened.identity, "k": k, "titles": titles})


async def make_decompositions(questions: Sequence[TrainingQuestion], *, linked: bool, on_progress: Progress) -> Made:
    """A row a question whose data set gives steps, or facts that steps can be made from: its sub-questions."""
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    for done, question in enumerate(questions, 1):
        try:
            rows.append(await _decomposed(question, linked))
        except LeftOut as why:
            left_out[f"{question.example.dataset}: {why}"] += 1
        on_progress(done, len(questions))
    return Made(tuple(rows), dict(left_out), {"linked": linked})


async def _known(question: TrainingQuestion, right: bool, meta: Mapping[str, Any]) -> ChatRow:
    async def step(ctx: Context) -> SelfKnowledge:
        return await judge_knowledge(ctx, question.example.question)

    target = _KNOWN[right]
    rehearsed = await rehearse(METHOD, step, target)
    require(rehearsed.read == SelfKnowledge(right), rehearsed, target)
    return rehearsed_row(question, "", rehearsed, target, target, meta)


async def _judged(question: TrainingQuestion, passage: Passage, relevant: bool, titles: bool) -> ChatRow:
    async def step(ctx: Context) -> tuple[Passage, ...]:
        return await judge_passages(ctx, question.example.question, [passage], titles=titles)

    target = _RELEVANT[relevant]
    rehearsed = await rehearse(METHOD, step, target)
    require(bool(rehearsed.read) == relevant, rehearsed, target)
    return rehearsed_row(question, passage.id, rehearsed, target, target, {"passage": passage.id, "titles": titles})


async def _decomposed(question: TrainingQuestion, linked: bool) -> ChatRow:
    found = decomposed(question, linked=linked)

    async def step(ctx: Context) -> tuple[str, ...]:
        return await split_question(ctx, question.example.question, linked=linked)

    target = "\n".join(f"{number}. {asked}" for number, asked in enumerate(found.questions, 1))
    rehearsed = await rehearse(METHOD, step, target)
    if rehearsed.read != found.questions:
        raise LeftOut("a list that the method would read as another")
    return rehearsed_row(question, "", rehearsed, target, found.source, {"linked": linked})
