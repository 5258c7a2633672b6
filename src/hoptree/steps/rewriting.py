"""The loop of FLARE, DRAGIN and MIND: write on, keep what is sure, and write what is in doubt again with documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hoptree.runtime.context import Context
from hoptree.sentences import sentence_spans
from hoptree.steps.parse import clean_answer, concluded, looks_unanswered
from hoptree.steps.stretch import Draft, Pen
from hoptree.uncertainty import Span
from hoptree.values import Answer

__all__ = [
    "LAST_TOKENS",
    "Doubt",
    "Help",
    "Helper",
    "Judge",
    "Limits",
    "Stopped",
    "Verdict",
    "adds",
    "conclude",
    "gives_answer",
    "last_words",
    "led_to_answer",
    "read_conclusion",
    "write_with_help",
]

_PHRASE = re.compile(r"\banswer\s+is\b\W*\w", re.IGNORECASE)
_LAST = "So the answer is"
LAST_TOKENS = 20

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
    """What stands before the question when a sentence is written again, and whether it was searched for."""

    context: str
    searched: bool = True


class Judge(Protocol):
    """Finds the first sentence of a draft that is in doubt."""

    async def judge(self, draft: Draft, written: Draft) -> Verdict: ...

    def accepts(self, sentence: Draft) -> bool:
        """Whether a sentence that was written again takes the place of the one that was found in doubt last."""


class Helper(Protocol):
    """What a draft sees of documents, and what is looked up for a doubt."""

    def context(self) -> str:
        """What stands before the question of a draft."""

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | None:
        """What helps with a doubt; None: nothing does, and the sentence stays as it is.

        `written` is what was kept before, `draft` what the doubt is a part of.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens of a stretch and of the whole text, and how often may be looked up (None: as often as it fits)."""

    stretch: int
    whole: int
    retrievals: int | None = None


async def write_with_help(ctx: Context, pen: Pen, judge: Judge, helper: Helper, limits: Limits) -> Draft:
    """The whole text: drafts, of which what is sure is kept, and sentences written again with what was looked up.

    Of what is written again only the first sentence is kept: what follows it has not been judged.
    """
    written = Draft()
    searches = 0
    while True:
        before = written
        draft = await pen.write(written.text, step="draft", max_tokens=limits.stretch, context=helper.context())
        draft = _to_answer(draft)
        verdict = await judge.judge(draft, written) if draft.text else Verdict(0)
        doubt = verdict.doubt
        if doubt is None:
            written = written.followed_by(draft.until(verdict.keep))
        elif limits.retrievals is not None and searches >= limits.retrievals:
            return _stop(ctx, written.followed_by(draft.until(doubt.start)), "retrievals")
        elif found := await helper.look_up(doubt, draft, written):
            searches += found.searched
            written = written.followed_by(draft.until(doubt.start))
            again = await pen.write(written.text, step="rewrite", max_tokens=limits.stretch, context=found.context)
            sentence = replace(_to_answer(again).first_sentence(), ended=False)
            kept = written.followed_by(sentence)
            written = kept if judge.accepts(sentence) else before.followed_by(draft.until(doubt.end))
        else:
            written = written.followed_by(draft.until(doubt.end))
        if stopped := _why_stop(written, before, limits):
            return _stop(ctx, before if stopped == "no growth" else written, stopped)


async def conclude(ctx: Context, pen: Pen, written: Draft, *, context: str = "") -> Answer:
    """The answer that a text ends in; where it gives none, it is asked for the last words."""
    text = written.text
    if not _PHRASE.search(text):
        ctx.decide("no_answer_phrase", True, text=text)
        text = await last_words(pen, text, context=context)
    ctx.trace.add("chain", text=text)
    return read_conclusion(text)


async def last_words(pen: Pen, text: str, *, context: str = "") -> str:
    """A text with the answer that the model gives when it is made to, in place of the one it had."""
    last = await pen.write(led_to_answer(text), step="conclude", max_tokens=LAST_TOKENS, context=context)
    before = _before_answer(text) if gives_answer(last.text) else led_to_answer(text)
    return f"{before} {last.text}".strip()


def led_to_answer(text: str) -> str:
    """A text up to the words behind which its answer stands, or would."""
    return f"{_before_answer(text)} {_LAST}".strip()


def _before_answer(text: str) -> str:
    for start, end in sentence_spans(text):
        if _PHRASE.search(text, start, end):
            return text[:start].rstrip()
    return text


def read_conclusion(text: str) -> Answer:
    """The answer that stands behind a text's last "the answer is", up to the end of that sentence."""
    said = concluded(text).lstrip(" :") if _PHRASE.search(text) else ""
    spans = sentence_spans(said)
    answer = clean_answer(said[: spans[0][1]]) if spans else ""
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "synthesis")


def gives_answer(text: str) -> bool:
    return _PHRASE.search(text) is not None


def _to_answer(draft: Draft) -> Draft:
    """A draft up to the sentence that gives the answer."""
    for start, end in sentence_spans(draft.text):
        if _PHRASE.search(draft.text, start, end):
            return draft.until(end)
    return draft


def _why_stop(written: Draft, before: Draft, limits: Limits) -> Stopped | None:
    if _PHRASE.search(written.text) and not written.cut:
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
