"""DyPlan: choose a strategy from the question alone, use it, and if need be another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision
from hoptree.engine.prompts import Filled, plain, prompt_for
from hoptree.engine.registry import method
from hoptree.methods.baselines.self_ask import self_ask
from hoptree.methods.steps.answer import direct_answer, note_reply, supporting_ids
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.route import Strategy, ask_yes_no, choose_strategy, list_strategies, load_strategies
from hoptree.models.model import Message
from hoptree.text.parse import clean_answer, looks_unanswered

_REASONING_TOKENS, _ANSWER_TOKENS = 300, 20
_TRAINED_NAMES = {"Direct": "Direct", "Plan": "Plan", "Reason": "CoT", "Retrieval": "RAG"}
_FINAL = "Final answer:"
_FINAL_LABEL = re.compile(re.escape(_FINAL), re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerVerified(Decision):
    """Whether the model says that its answer is right; `read` is False if the reply is neither yes nor no."""

    kind: ClassVar[str] = "verify"
    value: bool
    raw: str
    read: bool


@method(
    "dyplan",
    title="Dynamic strategy planning",
    paper="DyPlan",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Strategy chosen from the question",
    query="The question itself",
    roles=("answer", "route"),
    trained=True,
    reworded=True,
)
async def dyplan(
    question: Question,
    ctx: Context,
    *,
    checkpoint: bool = False,
    verify: bool = False,
    k: int = 3,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Choose to answer directly, by a plan (Self-Ask without search), by reasoning, or by reasoning over documents.

    With `verify` (DyPlan-verify) the model then says whether the answer is right, and if it does not say Yes, another
    strategy is chosen and its answer taken. A name that is none of the strategies counts as the dearest of those left.
    With `checkpoint` all of this is one conversation, as the paper trains a model for it, with its names (Direct, Plan,
    CoT, RAG) and `Final answer: "…"`; no weights of it were found, and the instructions are in other words than
    theirs. Their second round shows no documents; here it does. Where the second strategy finds no answer, the first
    one's stays.
    """
    ctx.require_corpus()
    if checkpoint:
        return await _Conversation(ctx, question.text, k, titles).answer(verify=verify)

    async def use(strategy: str) -> Answer:
        if strategy == "Direct":
            return await direct_answer(ctx, question.text)
        if strategy == "Plan":
            return await self_ask(question, ctx, search=False)
        passages = await ctx.search(question.text, k=k) if strategy == "Retrieval" else ()
        (answer,) = await think(ctx, question.text, passages=passages, shots=shots, draw=draw, titles=titles)
        return answer

    chosen = await _choose(ctx, "route", question.text)
    answer = await use(chosen)
    ctx.propose(answer, order=2)
    if not verify or await _looks_right(ctx, question.text, answer):
        return answer
    again = await use(await _choose(ctx, "route_again", question.text, used=chosen, answer=answer.text or "(none)"))
    return again if again.known else answer


async def _choose(ctx: Context, step: str, question: str, *, used: str = "", answer: str = "") -> str:
    strategies = [strategy for strategy in load_strategies("dyplan") if strategy.name != used]
    names = [strategy.name for strategy in strategies]
    prompt = prompt_for(ctx.method, step).fill(
        ways=list_strategies(strategies), names=" or ".join(names), question=question, used=used, answer=answer
    )
    return await choose_strategy(ctx, prompt, names, default=names[-1], step=step)


async def _looks_right(ctx: Context, question: str, answer: Answer) -> bool:
    """Ask whether an answer is right; an unknown one is wrong without asking."""
    if not answer.known:
        return False
    prompt = prompt_for(ctx.method, "verify").fill(question=question, reasoning=answer.raw, answer=answer.text)
    return await _verify(ctx, prompt)


async def _verify(ctx: Context, prompt: Filled) -> bool:
    yes, raw = await ask_yes_no(ctx, prompt, step="verify", role="answer")
    ctx.emit(AnswerVerified(value=yes is True, raw=raw, read=yes is not None))
    return yes is True


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The conversation with a model that was trained for DyPlan."""

    ctx: Context
    question: str
    k: int
    titles: bool

    async def answer(self, *, verify: bool) -> Answer:
        names = _TRAINED_NAMES
        strategies = [replace(strategy, name=names[strategy.name]) for strategy in load_strategies(self.ctx.method)]
        ask = self._prompt("trained_route", ways=list_strategies(strategies), question=self.question)
        chosen = await self._choose(ask, strategies, "route")
        answer, use = await self._use(ask, chosen)
        self.ctx.propose(answer, order=1)
        if not verify:
            return answer
        check = _continue(use, answer.raw, self._prompt("trained_verify"))
        if await _verify(self.ctx, check):
            return answer
        left = [strategy for strategy in strategies if strategy.name != chosen]
        ask = _continue(check, "No", self._prompt("trained_route_again", ways=list_strategies(left)))
        again, _ = await self._use(ask, await self._choose(ask, left, "route_again"))
        return again if again.known else answer

    async def _choose(self, ask: Filled, strategies: Sequence[Strategy], step: str) -> str:
        names = [strategy.name for strategy in strategies]
        return await choose_strategy(self.ctx, ask, names, default=names[-1], step=step, role="answer")

    async def _use(self, ask: Filled, strategy: str) -> tuple[Answer, Filled]:
        """Return the answer by a strategy, and the conversation up to it."""
        ctx, passages = self.ctx, tuple[Passage, ...]()
        if strategy == _TRAINED_NAMES["Retrieval"]:
            passages = await ctx.search(self.question, k=self.k)
        use = _continue(ask, strategy, self._prompt("trained_use", context=self._context(passages)))
        text = (await ctx.generate("use", use, max_tokens=_REASONING_TOKENS)).text
        repairs = []
        if not _final(text) and "prefix" in ctx.model_for("answer").capabilities:
            text = f"{_before_final(text)} {_FINAL}".lstrip()
            text += (await ctx.generate("conclude", use, max_tokens=_ANSWER_TOKENS, prefix=text, part=True)).text
            repairs = ["last words"]
        answer = read_final(text)
        note_reply(ctx, "use", "" if _final(text) else "no final answer", repairs)
        ctx.emit(ChainWritten(text=text))
        support = supporting_ids(answer.text, passages) if answer.known else ()
        return replace(answer, source="external" if passages else "internal", support=support), use

    def _context(self, passages: Sequence[Passage]) -> str:
        lines = [
            f"[{number}] {show_passages(self.ctx, [passage], titles=self.titles).removeprefix('passage:').strip()}"
            for number, passage in enumerate(passages, 1)
        ]
        return "\n".join(("", "Context:", *lines)) if lines else ""

    def _prompt(self, step: str, *, ways: str = "", question: str = "", context: str = "") -> Filled:
        return prompt_for(self.ctx.method, step).fill(ways=ways, question=question, context=context)


def _continue(asked: Filled, reply: str, then: Filled) -> Filled:
    """Return a conversation with the reply and the next turn; the template is that of the last turn."""
    turn = Message("assistant", plain(reply) or "…")  # chat templates do not accept empty turns
    return Filled((*asked.messages, turn, *then.messages), then.template)


def read_final(text: str) -> Answer:
    """Read what stands behind the last "Final answer:", in quotes or not; unknown where nothing does."""
    answer = _final(text)
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown")


def _final(text: str) -> str:
    labels = list(_FINAL_LABEL.finditer(text))
    return clean_answer(text[labels[-1].end() :]) if labels else ""


def _before_final(text: str) -> str:
    labels = list(_FINAL_LABEL.finditer(text))
    return (text[: labels[-1].start()] if labels else text).rstrip()
