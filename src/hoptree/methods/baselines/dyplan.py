"""DyPlan: choose a strategy from the question alone, use it, and if need be another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled, plain, prompt_for
from hoptree.engine.registry import method
from hoptree.methods.baselines.self_ask import self_ask
from hoptree.methods.steps.answer import direct_answer, holding
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.methods.steps.route import Way, choose_way, list_ways, load_ways, says_yes
from hoptree.models.model import Message
from hoptree.text.parse import clean_answer, looks_unanswered


def went_on(asked: Filled, reply: str, then: Filled) -> Filled:
    """What was asked, the reply to it, and what is asked then; the template is that of the last turn."""
    # Chat templates want something said in every turn.
    said = Message("assistant", plain(reply) or "…")
    return Filled((*asked.messages, said, *then.messages), then.template)


USE_TOKENS, LAST_TOKENS = 300, 20
_NAMES = {"Direct": "Direct", "Plan": "Plan", "Reason": "CoT", "Retrieval": "RAG"}
_RETRIEVAL = _NAMES["Retrieval"]
_FINAL = "Final answer:"
_LABEL = re.compile(re.escape(_FINAL), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Turns:
    """The conversation about one question."""

    ctx: Context
    question: str
    k: int
    titles: bool

    async def answer(self, *, verify: bool) -> Answer:
        """The answer by the strategy that was chosen, or with `verify` by another one if it was not held for right."""
        ways = [replace(way, name=_NAMES[way.name]) for way in load_ways(self.ctx.method)]
        asked = self._prompt("trained_route", ways=list_ways(ways), question=self.question)
        chosen = await self._choose(asked, ways, "route")
        answer, used = await self._use(asked, chosen)
        self.ctx.propose(answer, order=1)
        if not verify:
            return answer
        check = went_on(used, answer.raw, self._prompt("trained_verify"))
        if await says_yes(self.ctx, check, default=False, step="verify"):
            return answer
        left = [way for way in ways if way.name != chosen]
        asked = went_on(check, "No", self._prompt("trained_route_again", ways=list_ways(left)))
        again, _ = await self._use(asked, await self._choose(asked, left, "route_again"))
        return again if again.known else answer

    async def _choose(self, asked: Filled, ways: Sequence[Way], step: str) -> str:
        names = [way.name for way in ways]
        return await choose_way(self.ctx, asked, names, default=names[-1], step=step, role="answer")

    async def _use(self, asked: Filled, strategy: str) -> tuple[Answer, Filled]:
        """What a strategy comes to, and the conversation it was said in."""
        passages: Sequence[Passage] = ()
        if strategy == _RETRIEVAL:
            passages = await self.ctx.search(self.question, k=self.k)
        use = went_on(asked, strategy, self._prompt("trained_use", context=self._shown(passages)))
        said = (await self.ctx.generate("use", use, max_tokens=USE_TOKENS)).text
        repairs = []
        if not _final(said) and "prefix" in self.ctx.model_for("answer").capabilities:
            said = f"{_before_final(said)} {_FINAL}".lstrip()
            said += (await self.ctx.generate("conclude", use, max_tokens=LAST_TOKENS, prefix=said, part=True)).text
            repairs = ["last words"]
        answer = read_final(said)
        error = "" if _final(said) else "no final answer"
        note_reply(self.ctx, "use", error, repairs)
        self.ctx.trace.add("chain", text=said)
        support = holding(answer.text, passages) if answer.known else ()
        return replace(answer, source="external" if passages else "internal", support=support), use

    def _shown(self, passages: Sequence[Passage]) -> str:
        lines = [
            f"[{number}] {show_passages(self.ctx, [passage], titles=self.titles).removeprefix('passage:').strip()}"
            for number, passage in enumerate(passages, 1)
        ]
        return "\n".join(("", "Context:", *lines)) if lines else ""

    def _prompt(self, step: str, *, ways: str = "", question: str = "", context: str = "") -> Filled:
        return prompt_for(self.ctx.method, step).fill(ways=ways, question=question, context=context)


def read_final(text: str) -> Answer:
    """What stands behind the last "Final answer:", in quotes or not; unknown where nothing does."""
    said = _final(text)
    known = bool(said) and not looks_unanswered(said)
    return Answer(said if known else "", text, "answered" if known else "unknown")


def _final(text: str) -> str:
    found = list(_LABEL.finditer(text))
    return clean_answer(text[found[-1].end() :]) if found else ""


def _before_final(text: str) -> str:
    """A text without a label at its end that has nothing behind it."""
    found = list(_LABEL.finditer(text))
    return (text[: found[-1].start()] if found else text).rstrip()


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
        return await Turns(ctx, question.text, k, titles).answer(verify=verify)

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
    ways = [way for way in load_ways("dyplan") if way.name != used]
    names = [way.name for way in ways]
    prompt = prompt_for(ctx.method, step).fill(
        ways=list_ways(ways), names=" or ".join(names), question=question, used=used, answer=answer
    )
    return await choose_way(ctx, prompt, names, default=names[-1], step=step)


async def _looks_right(ctx: Context, question: str, answer: Answer) -> bool:
    """Whether the model holds an answer for right; none is wrong without being asked about."""
    if not answer.known:
        return False
    prompt = prompt_for(ctx.method, "verify").fill(question=question, reasoning=answer.raw, answer=answer.text)
    return await says_yes(ctx, prompt, default=False, step="verify")
