"""Training rows for RA-ISF's sub-models: self-knowledge, relevance and decomposition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.methods.ra_isf_modules import judge_knowledge, judge_passages
from hoptree.methods.steps.decompose import split_question
from hoptree.text.parse import SelfKnowledge
from hoptree.training.ask_many import answer_from_memory, is_right, open_memory, with_answers
from hoptree.training.chat_rows import ChatRow, MadeRows, Progress, progress_counter, rehearse
from hoptree.training.labelled_passages import PassageFinder
from hoptree.training.plans.sub_questions import LeftOut, decomposed
from hoptree.training.questions import TrainingQuestion
from hoptree.training.set_spec import SetSpec

_METHOD = "ra_isf"


async def make_knowledge(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row a question: "yes" if the model's own answer from memory is right, "no" if not."""
    asked = with_answers(questions, "labels come from them")
    async with open_memory(
        spec.model, method=_METHOD, base_url=spec.base_url, cache=spec.cache, concurrency=spec.concurrency
    ) as engine:
        name = engine.model.name
        answers = await answer_from_memory(engine, asked, progress_counter(len(asked), on_progress))
    rows: list[ChatRow] = []
    failed: list[str] = []
    for question, answer in zip(asked, answers, strict=True):
        if answer is None:
            failed.append(question.example.id)
            continue
        right = is_right(answer, question.example.answers, f1=spec.right_f1)
        meta = {"model": name, "answer": answer, "right_from_f1": spec.right_f1}
        rows.append(await _knowledge_row(question, right, meta))
    left_out = Counter(
        {
            "without an accepted answer": len(questions) - len(asked),
            "not answered by the model": len(failed),
        }
    )
    return MadeRows(tuple(rows), dict(+left_out), {"model": name, "right_from_f1": spec.right_f1, "failed": failed})


async def _knowledge_row(question: TrainingQuestion, right: bool, meta: Mapping[str, Any]) -> ChatRow:
    async def step(ctx: Context) -> SelfKnowledge:
        return await judge_knowledge(ctx, question.example.question)

    target = "yes" if right else "no"
    rehearsal = await rehearse(_METHOD, step, target)
    rehearsal.require(rehearsal.read == SelfKnowledge(right))
    return rehearsal.row(question, "", target, meta)


async def make_relevance(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row a passage: the question's gold passages, and the others among the first `k` of a search."""
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    async with PassageFinder(spec.corpus, spec.retriever, rerank=spec.rerank, k=spec.k) as finder:
        for done, question in enumerate(questions, 1):
            example = question.example
            judged = await finder.judge(example)
            if not judged.relevant:
                marked = example.supporting_ids or example.supporting_titles
                left_out["gold passages not in the corpus" if marked else "without gold passages"] += 1
            else:
                rows += [await _relevance_row(question, passage, True, spec.titles) for passage in judged.relevant]
                rows += [await _relevance_row(question, passage, False, spec.titles) for passage in judged.irrelevant]
                left_out["passages that say the answer and are not gold"] += len(judged.unclear)
                left_out["single gold passages not in the corpus"] += len(judged.missing)
            on_progress(done, len(questions))
    report = {"corpus": finder.identity, "k": spec.k, "titles": spec.titles}
    return MadeRows(tuple(rows), dict(+left_out), report)


async def _relevance_row(question: TrainingQuestion, passage: Passage, relevant: bool, titles: bool) -> ChatRow:
    async def step(ctx: Context) -> tuple[Passage, ...]:
        return await judge_passages(ctx, question.example.question, [passage], titles=titles)

    target = "relevant" if relevant else "irrelevant"
    rehearsal = await rehearse(_METHOD, step, target)
    rehearsal.require(bool(rehearsal.read) == relevant)
    return rehearsal.row(question, passage.id, target, {"passage": passage.id, "titles": titles})


async def make_decompositions(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row of sub-questions for each question whose data set gives steps, or facts to make them from."""
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    for done, question in enumerate(questions, 1):
        try:
            rows.append(await _decomposition_row(question, spec.linked))
        except LeftOut as why:
            left_out[f"{question.example.dataset}: {why}"] += 1
        on_progress(done, len(questions))
    return MadeRows(tuple(rows), dict(left_out), {"linked": spec.linked})


async def _decomposition_row(question: TrainingQuestion, linked: bool) -> ChatRow:
    sub_questions, source = decomposed(question, linked=linked)

    async def step(ctx: Context) -> tuple[str, ...]:
        return await split_question(ctx, question.example.question, linked=linked)

    target = "\n".join(f"{number}. {asked}" for number, asked in enumerate(sub_questions, 1))
    rehearsal = await rehearse(_METHOD, step, target)
    if rehearsal.read != sub_questions:
        raise LeftOut("a list that the method would read as another")
    return rehearsal.row(question, "", source, {"linked": linked})
