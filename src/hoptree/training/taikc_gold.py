"""Supervision for the steps of TAIKC without a teacher: plans that were written by hand, and the gold of data sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.evaluation.metrics import contains, exact_match, normalise
from hoptree.methods.steps.answer import answer_from, synthesise
from hoptree.methods.steps.combine import summarise_chain
from hoptree.methods.steps.decompose import decompose_tree
from hoptree.methods.steps.demonstrations import fixed, nearest
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.multi_read import FURTHER
from hoptree.text.question_tree import Plan
from hoptree.training.chat_rows import (
    TAIKC,
    ChatRow,
    Made,
    Progress,
    each_once,
    rehearse,
    rehearsed_row,
    require,
    without_contradictions,
)
from hoptree.training.labelled_passages import GoldReader, drawn
from hoptree.training.plans.gold_trees import GoldStep, GoldTree, carried_out, facts_alone, gold_tree, written
from hoptree.training.plans.sub_questions import LeftOut
from hoptree.training.questions import TrainingQuestion

PARTS = ("decompose", "read", "summary")
NOT_FOUND = "NOT FOUND"


@dataclass(frozen=True, slots=True)
class Form:
    """The form of TAIKC's prompts: with `robust`, those that it sends with robust=on.

    That is other demonstrations before a plan, titles before passages, a second reading that may say NOT FOUND, chains
    word for word, and passages behind them; and no summaries, which it does not ask for. The prompt of all other
    readings leaves no way out, and so neither does what is learnt of it.
    """

    robust: bool = False
    titles: bool = False

    @property
    def shows_titles(self) -> bool:
        return self.robust or self.titles

    @property
    def meta(self) -> dict[str, Any]:
        return {"robust": self.robust, **({"titles": self.titles} if not self.robust else {})}

    def part(self, name: str) -> str:
        """What tells a row from the others of its question, and from the same one in the other form."""
        return f"{name}/robust" if self.robust else name


async def make_gold(
    questions: Sequence[TrainingQuestion],
    *,
    plans: Mapping[str, Mapping[str, Any]],
    reader: GoldReader | None,
    form: Form,
    on_progress: Progress,
) -> Made:
    """Rows of all parts for every question, as far as what is known of it goes.

    `plans` are those written by hand, by the keys of their questions: they count before what the data set says.
    Without a `reader` there are no passages, and so no rows that show any.
    """
    left_out: Counter[str] = Counter()
    rows: list[ChatRow] = []
    for done, question in enumerate(questions, 1):
        maker = _Maker(question, form, reader, left_out)
        rows += await maker.rows(plans.get(question.key))
        on_progress(done, len(questions))
    kept, twice = each_once(rows)
    left_out["rows that ask and say the same as another"] = twice
    kept, otherwise = without_contradictions(kept)
    left_out["rows that ask the same as another and say something else"] = otherwise
    told: dict[str, Any] = {**form.meta, **({"corpus": reader.identity, "k": reader.k} if reader else {})}
    return Made(tuple(kept), dict(+left_out), told)


class _Maker:
    """The rows of one question."""

    def __init__(
        self, question: TrainingQuestion, form: Form, reader: GoldReader | None, left_out: Counter[str]
    ) -> None:
        self._question, self._form, self._reader, self._left_out = question, form, reader, left_out
        self._text = question.example.question
        self._read: dict[int, Passage] = {}

    async def rows(self, by_hand: Mapping[str, Any] | None) -> list[ChatRow]:
        tree: GoldTree | None = None
        why = ""
        try:
            tree = gold_tree(self._question)
        except LeftOut as reason:
            why = str(reason)
        rows = await self._decomposed(tree, by_hand, why)
        steps = list(tree.steps.values()) if tree and tree.steps else facts_alone(self._question)
        if self._reader:
            for step in steps:
                rows += await self._reading(step)
        if tree and tree.steps:
            rows += await self._concluded(tree)
            if not self._form.robust:
                for path in tree.paths:
                    rows += await self._summary(path)
        return rows

    async def _decomposed(self, tree: GoldTree | None, by_hand: Mapping[str, Any] | None, why: str) -> list[ChatRow]:
        try:
            if by_hand is not None:
                plan, read, source = by_hand, carried_out(by_hand, self._text), "plan"
            elif tree is not None:
                plan, read, source = tree.plan, tree.read, tree.source
            else:
                raise LeftOut(why)
        except LeftOut as reason:
            self._left_out[f"{self._question.example.dataset}: no plan for {reason}"] += 1
            return []
        shots = nearest(self._text) if self._form.robust else fixed()

        async def step(ctx: Context) -> Plan:
            return await decompose_tree(ctx, self._text, demonstrations=shots, mend_leaks=self._form.robust)

        target = written(plan)
        rehearsed = await rehearse(TAIKC, step, target)
        require(rehearsed.read.nodes == read.nodes, rehearsed, target)
        return [self._row("decompose", rehearsed, target, "decompose", source)]

    async def _reading(self, step: GoldStep) -> list[ChatRow]:
        assert self._reader is not None
        example = self._question.example
        found = await self._reader.find(example, step, f"{self._question.key}/{step.id}")
        if found is None:
            self._left_out[f"{example.dataset}: no reading, as no gold passage of the corpus says the answer"] += 1
            return []
        gold, passages = found
        self._read[step.id] = gold

        async def read(ctx: Context) -> Answer:
            return await answer_from(ctx, step.asked, passages, titles=self._form.shows_titles)

        rehearsed = await rehearse(TAIKC, read, step.answer)
        if not self._understood(rehearsed.read, step.answer):
            return []
        more = {"passage": gold.id, "k": self._reader.k}
        row = self._row(f"read/{step.id}", rehearsed, step.answer, "read", "gold passage", more)
        return [row, *await self._or_not_found(step, passages)]

    async def _or_not_found(self, step: GoldStep, passages: Sequence[Passage]) -> list[ChatRow]:
        """The same by the prompt that may be answered by NOT FOUND, which robust TAIKC sends: half of them are."""
        if not self._form.robust or self._reader is None:
            return []
        there = drawn(f"{self._question.key}/{step.id}/not found") % 2 == 0
        shown = passages if there else await self._reader.find_others(step)
        if not shown:
            self._left_out[f"{self._question.example.dataset}: no {NOT_FOUND}, as all that is found has it"] += 1
            return []

        async def read(ctx: Context) -> Answer:
            return await answer_from(ctx, step.asked, shown, prompt="read_or_not_found", titles=True)

        target = step.answer if there else NOT_FOUND
        rehearsed = await rehearse(TAIKC, read, target)
        require(rehearsed.read.known == there, rehearsed, target)
        source = "gold passage" if there else "other passages"
        return [self._row(f"not-found/{step.id}", rehearsed, target, "read", source, {"k": self._reader.k})]

    async def _concluded(self, tree: GoldTree) -> list[ChatRow]:
        """The last reading: the question itself over the chains of what was found."""
        example = self._question.example
        answer = example.answers[0] if example.answers else ""
        known = " ".join(f"{step.asked} {step.answer}" for step in tree.steps.values())
        if not answer or (normalise(answer) not in ("yes", "no") and not contains(known, [answer])):
            self._left_out[f"{example.dataset}: no last reading, as the steps do not give the answer"] += 1
            return []
        chains = _chains(tree, self._form)
        if not all(chains):
            self._left_out[f"{example.dataset}: no last reading, as a chain makes no good sentence"] += 1
            return []
        passages = await self._behind(tree)
        if self._form.robust and not passages:
            self._left_out[f"{example.dataset}: no last reading, as there are no passages to show"] += 1
            return []

        async def conclude(ctx: Context) -> Answer:
            shown = [show_passages(ctx, passages, titles=True)] if passages else []
            return await synthesise(ctx, self._text, [*dict.fromkeys(chains), *shown])

        rehearsed = await rehearse(TAIKC, conclude, answer)
        if not self._understood(rehearsed.read, answer):
            return []
        return [self._row("final", rehearsed, answer, "read", tree.source)]

    async def _behind(self, tree: GoldTree) -> list[Passage]:
        """What robust TAIKC shows behind its chains: what they were read from, and what the question itself finds."""
        if not self._form.robust or self._reader is None:
            return []
        own = await self._reader.search(self._text)
        cited = [self._read[number] for number in sorted(tree.steps) if number in self._read][: self._reader.k]
        by_id = {passage.id: passage for passage in (*cited, *own)}
        return list(by_id.values())[: self._reader.k + FURTHER]

    async def _summary(self, path: Sequence[GoldStep]) -> list[ChatRow]:
        target = _sentence(path)
        if not target:
            self._left_out[f"{self._question.example.dataset}: no summary, as it makes no good sentence"] += 1
            return []

        async def summarise(ctx: Context) -> str:
            return await summarise_chain(ctx, [(step.id, step.asked, step.answer) for step in path])

        rehearsed = await rehearse(TAIKC, summarise, target)
        require(rehearsed.read == target, rehearsed, target)
        return [self._row(f"summary/{path[-1].id}", rehearsed, target, "summary", "templates")]

    def _understood(self, read: Answer, answer: str) -> bool:
        """Whether the step took the answer for one; some titles read like a refusal."""
        understood = read.known and exact_match(read.text, [answer])
        self._left_out[f"{self._question.example.dataset}: an answer that would be read as another"] += not understood
        return understood

    def _row(
        self, part: str, rehearsed: Any, target: str, label: str, source: str, more: Mapping[str, Any] | None = None
    ) -> ChatRow:
        meta = {"part": label, "made_from": source, **self._form.meta, **(more or {})}
        return rehearsed_row(self._question, self._form.part(part), rehearsed, target, label, meta)


def _chains(tree: GoldTree, form: Form) -> list[str]:
    """The knowledge chains: word for word in the robust form, else one sentence each, "" where there is none."""
    if form.robust:
        return [" ".join(f"{step.asked} {step.answer}." for step in path) for path in tree.paths]
    return [_sentence(path) for path in tree.paths]


def _sentence(path: Sequence[GoldStep]) -> str:
    """All that a path states in one sentence; "" where a part of it cannot be put so."""
    parts = [step.states for step in path]
    if not all(parts):
        return ""
    told = f"{', '.join(parts[:-1])}, and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{told[0].upper()}{told[1:]}{'' if told.endswith('.') else '.'}"
