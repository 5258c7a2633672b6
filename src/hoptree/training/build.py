"""Build training sets, and make the rows for RA-ISF and REPLUG."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for, show_passages
from hoptree.engine.schedule import together
from hoptree.evaluation.datasets.reading import draw_types, half_of, sample
from hoptree.evaluation.datasets.releases import paper_sample
from hoptree.methods.ra_isf import judge_knowledge, judge_passages
from hoptree.methods.steps.decompose import drop_asked, split_question
from hoptree.models.model import Message
from hoptree.retrieval.rerank import like_cosines
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import SelfKnowledge
from hoptree.text.uncertainty import lsr_shares
from hoptree.training import chat_rows, labelled_passages
from hoptree.training.chat_rows import ChatRow, MadeRows, Progress
from hoptree.training.formats import LABELLED, SetSpec, write_set
from hoptree.training.hop_gold import make_hop
from hoptree.training.hop_sampled import make_sampled
from hoptree.training.labelled_passages import NewContext, PassageFinder
from hoptree.training.leakage import OVERLAP, Excluded, admit
from hoptree.training.plans.sub_questions import LeftOut, decomposed
from hoptree.training.questions import TrainingQuestion, read_training_questions
from hoptree.training.taikc_rows import make_boundary, make_gold, make_instructions

_METHOD = "ra_isf"


async def make_knowledge(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row for each question: whether the model knows its answer."""
    replies = await labelled_passages.answer_from_memory(questions, spec, _METHOD, on_progress)
    rows: list[ChatRow] = []
    right_f1 = labelled_passages.RIGHT_F1 if spec.right_f1 is None else spec.right_f1
    for question, answer in replies.answered:
        right = labelled_passages.is_right(answer, question.example.answers, f1=right_f1)
        target = "yes" if right else "no"
        rehearsal = await chat_rows.rehearse(_METHOD, target, judge_knowledge, question.example.question)
        rehearsal.require(rehearsal.read == SelfKnowledge(right))
        meta = {"model": replies.model, "answer": answer, "right_from_f1": right_f1}
        rows.append(rehearsal.row(question, "", target, meta))
    report = {"model": replies.model, "right_from_f1": right_f1, "failed": replies.failed}
    return MadeRows(tuple(rows), dict(+replies.left_out), report)


async def make_relevance(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row for each gold passage, and each other of the first `k` hits."""
    if spec.teacher:
        return await _taught_relevance(questions, spec, on_progress)
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    async with aclosing(PassageFinder(spec.corpus, spec.retriever, rerank=spec.rerank, k=spec.k)) as finder:
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


async def _taught_relevance(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    async def judge(ctx: Context, question: TrainingQuestion, passage: Passage) -> ChatRow | None:
        relevant = await judge_passages(ctx, question.example.question, [passage], titles=spec.titles)
        if not labelled_passages.last_reply_was_read(ctx):
            return None
        return await _relevance_row(question, passage, bool(relevant), spec.titles, {"teacher": ctx.model.name})

    async with aclosing(PassageFinder(spec.corpus, spec.retriever, rerank=spec.rerank, k=spec.k)) as finder:

        async def label(context: NewContext, question: TrainingQuestion) -> list[ChatRow | None]:
            passages = await finder.search(question.example.question)
            return await together(judge(context(), question, passage) for passage in passages)

        taught = await labelled_passages.ask_teacher(questions, spec, _METHOD, label, on_progress)
    rows = [row for labelled in taught.results for row in labelled]
    unread = {"replies that are neither relevant nor irrelevant": rows.count(None)}
    left_out = taught.left_out + Counter({**unread, "without a passage that was found": taught.results.count([])})
    report = {"corpus": finder.identity, "k": spec.k, "titles": spec.titles, **taught.report}
    return MadeRows(tuple(filter(None, rows)), dict(+left_out), report)


async def _relevance_row(
    question: TrainingQuestion, passage: Passage, relevant: bool, titles: bool, meta: Mapping[str, Any] | None = None
) -> ChatRow:
    target, asked = "relevant" if relevant else "irrelevant", question.example.question
    rehearsal = await chat_rows.rehearse(_METHOD, target, judge_passages, asked, [passage], titles=titles)
    rehearsal.require(bool(rehearsal.read) == relevant)
    return rehearsal.row(question, passage.id, target, {"passage": passage.id, "titles": titles, **(meta or {})})


async def make_decompositions(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row of sub-questions from gold steps or facts."""
    if spec.teacher:
        return await _taught_decompositions(questions, spec, on_progress)
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    for done, question in enumerate(questions, 1):
        try:
            rows.append(await _decomposition_row(question, *decomposed(question, linked=spec.linked), spec.linked))
        except LeftOut as why:
            left_out[f"{question.example.dataset}: {why}"] += 1
        on_progress(done, len(questions))
    return MadeRows(tuple(rows), dict(left_out), {"linked": spec.linked})


async def _taught_decompositions(
    questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress
) -> MadeRows:
    unfit: Counter[str] = Counter()

    async def split(context: NewContext, question: TrainingQuestion) -> ChatRow | None:
        ctx, asked = context(), question.example.question
        given = await split_question(ctx, asked, linked=spec.linked)
        try:
            if not (sub_questions := drop_asked(ctx, given, {question_key(asked)}, most=None)):
                raise LeftOut("no sub-question that is another question")
            meta = {"teacher": ctx.model.name}
            return await _decomposition_row(question, sub_questions, "teacher", spec.linked, meta)
        except LeftOut as why:
            unfit[f"{question.example.dataset}: {why}"] += 1
            return None

    taught = await labelled_passages.ask_teacher(questions, spec, _METHOD, split, on_progress)
    report = {"linked": spec.linked, **taught.report}
    return MadeRows(tuple(filter(None, taught.results)), dict(+(taught.left_out + unfit)), report)


async def _decomposition_row(
    question: TrainingQuestion,
    sub_questions: tuple[str, ...],
    source: str,
    linked: bool,
    meta: Mapping[str, Any] | None = None,
) -> ChatRow:
    target = "\n".join(f"{number}. {asked}" for number, asked in enumerate(sub_questions, 1))
    rehearsal = await chat_rows.rehearse(_METHOD, target, split_question, question.example.question, linked=linked)
    if rehearsal.read != sub_questions:
        raise LeftOut("a list that the method would read as another")
    return rehearsal.row(question, "", source, {"linked": linked, **(meta or {})})


async def make_lsr(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row for each question with passage likelihoods (REPLUG's LSR)."""
    asked = labelled_passages.with_answers(questions, "their likelihood is what is learnt")
    async with aclosing(PassageFinder(spec.corpus, spec.retriever, rerank=spec.rerank, k=spec.k)) as finder:

        async def label(context: NewContext, question: TrainingQuestion) -> ChatRow | None:
            text, answer = question.example.question, question.example.answers[0]
            passages = await finder.search(text)
            if len(passages) < 2:
                return None
            likelihoods = await together(
                _likelihood(context(), text, passage, answer, titles=spec.titles) for passage in passages
            )
            scores, _ = like_cosines([passage.score for passage in passages])
            shares, preferred, loss = lsr_shares(scores, likelihoods)
            columns = zip(passages, likelihoods, shares, preferred, strict=True)
            listed = [
                {"id": passage.id, "title": passage.title, "text": passage.text, "score": passage.score}
                | {"likelihood": likelihood, "share": share, "preferred": wanted}
                for passage, likelihood, share, wanted in columns
            ]
            meta = {"model": context().model.name, "divergence": loss, "passages": listed}
            return chat_rows.make_row(question, "", (Message("user", text),), answer, "lsr", meta)

        taught = await labelled_passages.ask_teacher(asked, spec, "replug", label, on_progress)
    rows = tuple(filter(None, taught.results))
    few = {"with fewer than 2 passages found": len(taught.results) - len(rows)}
    left_out = Counter({"without an accepted answer": len(questions) - len(asked), **few}) + taught.left_out
    return MadeRows(rows, dict(+left_out), {"corpus": finder.identity, "k": spec.k, **taught.report})


_MAKERS = {
    "ra-isf-know": make_knowledge,
    "ra-isf-relevance": make_relevance,
    "ra-isf-decompose": make_decompositions,
    "taikc-if": make_instructions,
    "taikc-kbae": make_boundary,
    "taikc-gold": make_gold,
    "hop": make_hop,
    "sampled": make_sampled,
    "replug-lsr": make_lsr,
}


async def build(spec: SetSpec, *, on_progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Write a training set, and report its contents and what was left out."""
    spec.check()
    left_out: Counter[str] = Counter()
    read = read_training_questions(spec.data, left_out)
    total = len(read) + left_out.total()
    mine: list[TrainingQuestion] = []
    others: dict[str, list[TrainingQuestion]] = {}
    for question in read:
        if not spec.half or half_of(question.example.id) == spec.half:
            mine.append(question)
        else:
            others.setdefault(f"the other half of {Path(question.file).name}", []).append(question)
    excluded = Excluded(spec.exclude, others)
    admitted = admit(mine, excluded, any_split=spec.any_split)
    chosen = _choose(admitted.questions, spec)
    result = await _MAKERS[spec.kind](questions=chosen, spec=spec, on_progress=on_progress)
    kept = chat_rows.balance_rows(result.rows, spec.balance, spec.seed or 0)
    if not kept:
        why = "; ".join(f"{count:,} {reason}" for reason, count in result.left_out.items())
        hint = " Take another teacher: -m MODEL." if spec.teacher else ""
        if spec.kind == "ra-isf-decompose" and not spec.linked and not spec.teacher:
            hint = " --linked takes chains, too."
        raise InputError("No row came of these questions.", f"Left out: {why}.{hint}")
    warnings = _warnings(spec, kept)
    marked = [replace(row, meta={"kind": spec.kind, **row.meta, "hoptree": __version__}) for row in kept]
    files = write_set(spec.out, marked, spec.form)
    if not result.report.get("failed"):  # otherwise the same command asks the failed ones again
        chat_rows.journal_path(spec.out).unlink(missing_ok=True)
    dropped = Counter(row.label for row in result.rows) - Counter(row.label for row in kept)
    for reasons in (admitted.left_out, result.left_out, {f"'{label}' by balance": n for label, n in dropped.items()}):
        left_out.update(reasons)
    return {
        "kind": spec.kind,
        "out": str(spec.out),
        "format": spec.form,
        "files": [str(path) for path in files],
        **({"half": spec.half} if spec.half else {}),
        "questions": {"read": total, "asked": len(chosen), "in_rows": len({row.meta["question"] for row in kept})},
        "splits": dict(Counter(question.split for question in chosen)),
        "excluded": {
            "files": [str(path) for path in spec.exclude],
            "questions": len(excluded),
            "without_steps": excluded.without_steps,
        },
        "same_question_from": OVERLAP,
        "any_split": spec.any_split,
        "left_out": dict(left_out),
        "warnings": warnings,
        **result.report,
        **chat_rows.describe(kept),
        **(
            {"beside_the_paper": chat_rows.compare_with_paper(chat_rows.word_lengths(kept))}
            if spec.kind.startswith(f"{chat_rows.TAIKC}-")
            else {}
        ),
    }


def _choose(questions: Sequence[TrainingQuestion], spec: SetSpec) -> list[TrainingQuestion]:
    """Return the first questions of each file in turn, or draw them by seed."""
    if spec.paper:  # what the paper draws of each data set
        drawn = []
        for name in dict.fromkeys(question.example.dataset for question in questions):
            by_id = {question.example.id: question for question in questions if question.example.dataset == name}
            examples = [question.example for question in by_id.values()]
            sampled = draw_types(examples, paper_sample(spec.paper, name), spec.seed or 0, name)
            drawn += [by_id[example.id] for example in sampled]
        return drawn
    if spec.seed is None:
        before: Counter[str] = Counter()
        turns = []
        for place, question in enumerate(questions):
            turns.append((before[question.file], place))
            before[question.file] += 1
        return [questions[place] for place in sorted(place for _, place in sorted(turns)[: spec.limit])]
    by_key = {question.key: question for question in questions}
    examples = [replace(question.example, id=key) for key, question in by_key.items()]
    return [by_key[example.id] for example in sample(examples, len(examples), spec.seed)][: spec.limit]


def _warnings(spec: SetSpec, kept: Sequence[ChatRow]) -> list[str]:
    """Warn of a set with one label only; one that was to be balanced is refused."""
    labels = {row.label for row in kept}
    if spec.kind not in LABELLED or len(labels) > 1:
        return []
    rows = "The only row has" if len(kept) == 1 else f"All {len(kept):,} rows have"
    cause = f"{rows} the label '{labels.pop()}'"
    if spec.balance is not None:
        raise InputError(f"{cause}, so nothing can be balanced.", "Give more or other questions, or no --balance.")
    return [f"{cause}: a model trained on such a set learns to say nothing else. Give more or other questions."]


async def _likelihood(ctx: Context, question: str, passage: Passage, answer: str, *, titles: bool) -> float:
    """Return the probability of an answer given one document."""
    ctx.require("entropy")  # models without it do not score a text that is given
    documents = show_passages(ctx, [passage], titles=titles)
    prompt = prompt_for(ctx.method, "read").fill(documents=documents, question=question)
    reply = await ctx.generate("read", prompt, max_tokens=0, prefix=answer, top_logprobs=1, part=True)
    return math.exp(sum(token.logprob for token in reply.choices[0].tokens))
