"""TAIKC's training rows: from a model, and from written plans and gold data."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, closing
from dataclasses import dataclass
from typing import Any

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Answer
from hoptree.engine.calls import open_calls
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event, NodeSettled
from hoptree.evaluation.judge import JudgeItem, Verdict, judge_all
from hoptree.evaluation.metrics import best_overlap, contains, exact_match, normalise
from hoptree.methods.steps.answer import answer_from, confident_answer, summarise_chain, synthesise
from hoptree.methods.steps.decompose import decompose_tree, fixed_demonstrations
from hoptree.models import open_model
from hoptree.text.loose_json import read_json
from hoptree.text.parse import clean_answer
from hoptree.training.chat_rows import (
    TAIKC,
    ChatRow,
    MadeRows,
    Progress,
    Rehearsal,
    consistent_rows,
    make_row,
    progress_counter,
    rehearse,
)
from hoptree.training.formats import SetSpec
from hoptree.training.labelled_passages import PassageFinder, answer_from_memory, ask_all, with_answers
from hoptree.training.plans.gold_trees import (
    GoldStep,
    GoldTree,
    carried_out,
    facts_alone,
    gold_tree,
    packaged_plans,
    written,
)
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
    """Make rows of the teacher's replies to questions that it solved (F1 of 1)."""
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
        # In the nested JSON of a chain, the innermost answer is the result.
        answers = _ANSWER.findall(exchange.messages[-1].content)
        if contains(exchange.reply, [str(json.loads(answers[-1])) if answers else ""]):
            yield row(f"summary/{number}", "summary", exchange, " ".join(exchange.reply.split()))
        else:
            unfit["no summary, as it does not say what its chain came to"] += 1


def _plan(exchanges: Sequence[Exchange], question: str) -> tuple[Exchange, str]:
    """Return the first request for a plan, and the last usable plan."""
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
    """Return the model that the labels describe: a digest of weights, or an identity."""
    weights, adapter = _WEIGHTS.match(identity), _ADAPTER.search(identity)
    if weights is None:
        return identity
    return f"{weights[1]};{adapter[1]}" if adapter else weights[1]


async def make_boundary(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make a row for each question: its correct answer, or RAG_REQUIRED."""
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
    """Return the judge's verdicts by question key; {} without a judge."""
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


async def make_gold(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make rows of all known parts of each question; plans by hand take precedence."""
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    plans = packaged_plans()
    async with AsyncExitStack() as stack:
        finder = None
        if spec.corpus:
            finder = PassageFinder(spec.corpus, spec.retriever, rerank=spec.rerank, k=spec.k)
            stack.push_async_callback(finder.aclose)
        for done, question in enumerate(questions, 1):
            maker = _RowMaker(question, spec, finder, left_out)
            rows += await maker.rows(plans.get(question.key))
            on_progress(done, len(questions))
    kept, inconsistent = consistent_rows(rows)
    left_out.update(inconsistent)
    report = {"titles": spec.titles, **({"corpus": finder.identity, "k": spec.k} if finder else {})}
    return MadeRows(tuple(kept), dict(+left_out), report)


class _RowMaker:
    """Makes the rows of one question."""

    def __init__(
        self, question: TrainingQuestion, spec: SetSpec, finder: PassageFinder | None, left_out: Counter[str]
    ) -> None:
        self._question, self._spec, self._finder, self._left_out = question, spec, finder, left_out
        self._text = question.example.question

    async def rows(self, by_hand: Mapping[str, Any] | None) -> list[ChatRow]:
        tree, no_tree = None, LeftOut()
        try:
            tree = gold_tree(self._question)
        except LeftOut as why:
            no_tree = why
        rows = await self._decompose(tree, by_hand, no_tree)
        if self._finder:
            for step in tree.steps.values() if tree and tree.steps else facts_alone(self._question):
                rows += await self._read(step, self._finder)
        if tree and tree.steps:
            rows += await self._conclude(tree)
            for path in tree.paths:
                rows += await self._summarise(path)
        return rows

    def _leave_out(self, why: str) -> list[ChatRow]:
        self._left_out[f"{self._question.example.dataset}: {why}"] += 1
        return []

    def _row(
        self, part: str, rehearsal: Rehearsal[Any], label: str, source: str, more: Mapping[str, Any] | None = None
    ) -> ChatRow:
        meta = {"part": label, "made_from": source, "titles": self._spec.titles, **(more or {})}
        return rehearsal.row(self._question, part, label, meta)

    async def _decompose(
        self, tree: GoldTree | None, by_hand: Mapping[str, Any] | None, no_tree: LeftOut
    ) -> list[ChatRow]:
        try:
            if by_hand is not None:
                plan, read, source = by_hand, carried_out(by_hand, self._text), "plan"
            elif tree is not None:
                plan, read, source = tree.plan, tree.read, tree.source
            else:
                raise no_tree
        except LeftOut as why:
            return self._leave_out(f"no plan for {why}")
        demonstrations = fixed_demonstrations()
        rehearsal = await rehearse(TAIKC, written(plan), decompose_tree, self._text, demonstrations=demonstrations)
        rehearsal.require(rehearsal.read.nodes == read.nodes)
        return [self._row("decompose", rehearsal, "decompose", source)]

    async def _read(self, step: GoldStep, finder: PassageFinder) -> list[ChatRow]:
        reading = await finder.find(self._question.example, step, f"{self._question.key}/{step.id}")
        if reading is None:
            return self._leave_out("no reading, as no gold passage of the corpus says the answer")
        gold, passages = reading
        titles = self._spec.titles
        rehearsal = await rehearse(TAIKC, step.answer, answer_from, step.asked, passages, titles=titles)
        if not _is_understood(rehearsal):
            return self._leave_out("an answer that would be read as another")
        return [self._row(f"read/{step.id}", rehearsal, "read", "gold passage", {"passage": gold.id, "k": finder.k})]

    async def _conclude(self, tree: GoldTree) -> list[ChatRow]:
        """Make a row of the last reading over sub-answers."""
        answers = self._question.example.answers
        answer = answers[0] if answers else ""
        known = " ".join(f"{step.asked} {step.answer}" for step in tree.steps.values())
        if not answer or (normalise(answer) not in ("yes", "no") and not contains(known, [answer])):
            return self._leave_out("no last reading, as the steps do not give the answer")
        chains = [_sentence(path) for path in tree.paths]
        if not all(chains):
            return self._leave_out("no last reading, as a chain makes no good sentence")
        rehearsal = await rehearse(TAIKC, answer, synthesise, self._text, list(dict.fromkeys(chains)))
        if not _is_understood(rehearsal):
            return self._leave_out("an answer that would be read as another")
        return [self._row("final", rehearsal, "read", tree.source)]

    async def _summarise(self, path: Sequence[GoldStep]) -> list[ChatRow]:
        target = _sentence(path)
        if not target:
            return self._leave_out("no summary, as it makes no good sentence")
        chain = [(step.id, step.asked, step.answer) for step in path]
        rehearsal = await rehearse(TAIKC, target, summarise_chain, chain)
        rehearsal.require(rehearsal.read == target)
        return [self._row(f"summary/{path[-1].id}", rehearsal, "summary", "templates")]


def _is_understood(rehearsal: Rehearsal[Answer]) -> bool:
    """Return whether the step read the target as the answer, not as a refusal."""
    return rehearsal.read.known and exact_match(rehearsal.read.text, [rehearsal.target])


def _sentence(path: Sequence[GoldStep]) -> str:
    """Return the clauses of a path's steps as one sentence, or ""."""
    parts = [step.states for step in path]
    if not all(parts):
        return ""
    sentence = f"{', '.join(parts[:-1])}, and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{sentence[0].upper()}{sentence[1:]}{'' if sentence.endswith('.') else '.'}"
