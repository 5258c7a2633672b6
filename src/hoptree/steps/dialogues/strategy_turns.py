"""DyPlan as one conversation with a model that was trained for it: choose, use, verify, choose again, use again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import Filled, prompt_for
from hoptree.steps.answering.answer import holding
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.dialogues.conversation import went_on
from hoptree.steps.planning.route import Way, choose_way, list_ways, load_ways, says_yes
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import clean_answer, looks_unanswered
from hoptree.values import Answer, Passage

__all__ = ["Turns", "read_final"]

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
