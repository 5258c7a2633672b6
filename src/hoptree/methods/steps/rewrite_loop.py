"""The loop of FLARE, DRAGIN and MIND: write on, keep what is sure, and write what is in doubt again with documents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hoptree.engine.context import Context
from hoptree.methods.steps.conclusion import gives_answer, read_conclusion, to_answer
from hoptree.methods.steps.continuation import Draft, Pen
from hoptree.methods.steps.reply_notes import note_written
from hoptree.text.tokens import Span
from hoptree.text.uncertainty import answer_lead_spans

Stopped = Literal["answer", "end", "no growth", "length", "retrievals"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """The sentence of a draft that is to be written again, and its words in doubt, by their places in the draft."""

    start: int
    end: int
    hits: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much of a draft is kept if nothing is in doubt, or what is; what stands before that is kept."""

    keep: int
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Help:
    """What stands before the question when a sentence is written again."""

    context: str


class Judge(Protocol):
    """Finds the first sentence of a draft that is in doubt."""

    async def judge(self, draft: Draft, written: Draft) -> Verdict: ...

    def accepts(self, sentence: Draft) -> bool:
        """Whether a sentence that was written again takes the place of the one that was found in doubt last."""


class Helper(Protocol):
    """What a draft sees of documents, and what is looked up for a doubt."""

    def context(self) -> str:
        """What stands before the question of a draft."""

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | Literal["spent"] | None:
        """What helps with a doubt; None: nothing does, and the sentence stays as it is.

        `spent`: it would have to be searched for, and there were as many searches as there may be.

        `written` is what was kept before, `draft` what the doubt is a part of; of a sentence that begins with "So the
        answer is" the doubt is what stands behind that.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens of a stretch and of the whole text."""

    stretch: int
    whole: int


async def write_with_help(ctx: Context, pen: Pen, judge: Judge, helper: Helper, limits: Limits) -> Draft:
    """The whole text: drafts, of which what is sure is kept, and sentences written again with what was looked up.

    Of what is written again only the first sentence is kept: what follows it has not been judged.
    """
    written = Draft()
    while True:
        before = written
        draft = await pen.write(written.text, step="draft", max_tokens=limits.stretch, context=helper.context())
        draft = to_answer(draft)
        note_written(ctx, "draft", draft.text, written.text)
        _propose(ctx, pen, written.followed_by(draft))
        verdict = await judge.judge(draft, written) if draft.text else Verdict(0)
        doubt = verdict.doubt
        found = await helper.look_up(_behind_lead(doubt, draft), draft, written) if doubt else None
        if doubt is None:
            written = written.followed_by(draft.until(verdict.keep))
        elif found == "spent":
            return _stop(ctx, written.followed_by(draft.until(doubt.start)), "retrievals")
        elif found:
            written = written.followed_by(draft.until(doubt.start))
            again = await pen.write(written.text, step="rewrite", max_tokens=limits.stretch, context=found.context)
            again = to_answer(again)
            note_written(ctx, "rewrite", again.text, written.text)
            _propose(ctx, pen, written.followed_by(again))
            sentence = replace(again.first_sentence(), ended=False)
            kept = written.followed_by(sentence)
            written = kept if judge.accepts(sentence) else before.followed_by(draft.until(doubt.end))
        else:
            written = written.followed_by(draft.until(doubt.end))
        if stopped := _why_stop(written, before, limits):
            return _stop(ctx, before if stopped == "no growth" else written, stopped)


def _behind_lead(doubt: Doubt, draft: Draft) -> Doubt:
    """A doubt without the "So the answer is" that its sentence begins with, which is nothing to look up."""
    for first, last in answer_lead_spans(draft.text):
        if first < doubt.end and last > doubt.start and not draft.text[doubt.start : first].strip():
            return Doubt(min(last, doubt.end), doubt.end, tuple(hit for hit in doubt.hits if hit[0] >= last))
    return doubt


def _propose(ctx: Context, pen: Pen, written: Draft) -> None:
    """Offer the answer that a text comes to, if the budget ends before more is known of it."""
    ctx.propose(read_conclusion(written.text, pen.question), order=0)


def _why_stop(written: Draft, before: Draft, limits: Limits) -> Stopped | None:
    if gives_answer(written.text) and not written.cut:
        return "answer"
    if not adds(written.text[len(before.text) :], before.text):
        return "no growth"
    if written.ended:
        return "end"
    return "length" if written.size >= limits.whole else None


def adds(new: str, text: str) -> bool:
    """Whether what was written says anything that a text does not say already: models that loop never end."""
    return bool(new.strip()) and new.strip() not in text


def _stop(ctx: Context, written: Draft, why: Stopped) -> Draft:
    ctx.decide("stop", why, tokens=written.size, text=written.text)
    return written
