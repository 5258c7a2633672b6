"""The loop of FLARE, DRAGIN and MIND: rewrite uncertain sentences."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from hoptree.engine.context import Context
from hoptree.engine.events import OMIT, Decision, decision
from hoptree.engine.generation_view import GenerationView
from hoptree.methods.steps.answer import note_written
from hoptree.methods.steps.chain_of_thought import cut_at_answer
from hoptree.methods.steps.continuation import Draft, Generator, adds_text
from hoptree.text.parse import gives_answer, read_conclusion
from hoptree.text.tokens import Span
from hoptree.text.uncertainty import answer_lead_spans


@decision("stop")
class Stopped(Decision):
    """Why a text that was written step by step ended, and the text."""

    value: str
    tokens: int | None = field(default=None, metadata=OMIT)
    text: str = ""

    def add_to(self, view: GenerationView) -> None:
        view.stopped, view.final_text = self.value, self.text


@decision("sub_query")
class SubQuery(Decision):
    """What was searched for a sentence; `repeated` if it was before."""

    value: str
    sentence: str
    beta: float | None = field(default=None, metadata=OMIT)
    repeated: bool | None = field(default=None, metadata=OMIT)
    new: list[str] | None = field(default=None, metadata=OMIT)

    def add_to(self, view: GenerationView) -> None:
        view.ask(self.value, repeated=self.repeated is True)
        view.mask(self.beta)

    def log_line(self) -> str:
        return f"searched: {self.value}" if self.value else "nothing to search with"


@dataclass(frozen=True, slots=True)
class Doubt:
    """An uncertain sentence of a draft, and its uncertain words."""

    start: int
    end: int
    hits: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Help:
    """What stands before the question when a sentence is rewritten."""

    context: str


class Judge(Protocol):
    """Tells how much of a draft is kept, and which sentence is in doubt."""

    async def judge(self, draft: Draft, written: Draft) -> tuple[int, Doubt | None]: ...

    def record_rewritten(self, sentence: Draft) -> None:
        """Record what replaces the sentence that was found in doubt last."""


class Helper(Protocol):
    """What a draft sees of documents, and what is looked up for a doubt."""

    def context(self) -> str:
        """What stands before the question of a draft."""

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | Literal["spent"] | None:
        """Return what helps with a doubt in `draft`, which follows the text `written`.

        None: nothing helps, and the sentence stays. `spent`: it would take a search, and no more are allowed. Of a
        sentence that begins with "So the answer is" the doubt is what stands behind that.
        """


async def write_with_help(
    ctx: Context, generator: Generator, judge: Judge, helper: Helper, *, draft_tokens: int, total_tokens: int
) -> Draft:
    """Generate a text; write the first sentence in doubt anew with what is looked up, and go on behind it."""

    async def write(step: str, context: str) -> Draft:
        draft = await generator.write(written.text, step=step, max_tokens=draft_tokens, context=context)
        draft = cut_at_answer(draft)
        note_written(ctx, step, draft.text, written.text)
        # The answer so far, in case the budget ends.
        ctx.propose(read_conclusion(written.followed_by(draft).text, generator.question), order=0)
        return draft

    written = Draft()
    while True:
        before = written
        draft = await write("draft", helper.context())
        keep, doubt = await judge.judge(draft, written) if draft.text else (0, None)
        result = await helper.look_up(_behind_lead(doubt, draft), draft, written) if doubt else None
        if doubt is None:
            written = written.followed_by(draft.until(keep))
        elif result == "spent":
            return _stop(ctx, written.followed_by(draft.until(doubt.start)), "retrievals")
        elif result:
            written = written.followed_by(draft.until(doubt.start))
            rewritten = replace((await write("rewrite", result.context)).first_sentence(), ended=False)
            judge.record_rewritten(rewritten)
            written = written.followed_by(rewritten)
        else:
            written = written.followed_by(draft.until(doubt.end))
        if reason := _why_stop(written, before, total_tokens):
            return _stop(ctx, before if reason == "no growth" else written, reason)


def _behind_lead(doubt: Doubt, draft: Draft) -> Doubt:
    """Return a doubt without a leading "So the answer is"."""
    for first, last in answer_lead_spans(draft.text):
        if first < doubt.end and last > doubt.start and not draft.text[doubt.start : first].strip():
            return Doubt(min(last, doubt.end), doubt.end, tuple(hit for hit in doubt.hits if hit[0] >= last))
    return doubt


def _why_stop(written: Draft, before: Draft, total_tokens: int) -> str:
    if gives_answer(written.text) and not written.cut:
        return "answer"
    if not adds_text(written.text[len(before.text) :], before.text):
        return "no growth"
    if written.ended:
        return "end"
    return "length" if written.size >= total_tokens else ""


def _stop(ctx: Context, written: Draft, reason: str) -> Draft:
    ctx.emit(Stopped(value=reason, tokens=written.size, text=written.text))
    return written
