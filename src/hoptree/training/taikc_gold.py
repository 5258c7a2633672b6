"""TAIKC's training rows without a teacher: written plans and gold data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from hoptree.core.values import Answer
from hoptree.evaluation.metrics import contains, exact_match, normalise
from hoptree.methods.steps.answer import answer_from, summarise_chain, synthesise
from hoptree.methods.steps.decompose import decompose_tree, fixed_demonstrations
from hoptree.training.chat_rows import TAIKC, ChatRow, MadeRows, Progress, Rehearsal, consistent_rows, rehearse
from hoptree.training.formats import SetSpec
from hoptree.training.labelled_passages import PassageFinder
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


async def make_gold(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Make rows of all parts that are known of each question.

    Plans written by hand take precedence over what the data set says. Without a corpus no rows show passages.
    """
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
    """Whether the step took the target for an answer; some titles read like a refusal."""
    return rehearsal.read.known and exact_match(rehearsal.read.text, [rehearsal.target])


def _sentence(path: Sequence[GoldStep]) -> str:
    """Return all that a path states in one sentence, or ""."""
    parts = [step.states for step in path]
    if not all(parts):
        return ""
    sentence = f"{', '.join(parts[:-1])}, and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{sentence[0].upper()}{sentence[1:]}{'' if sentence.endswith('.') else '.'}"
