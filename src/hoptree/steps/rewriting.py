"""The loop of FLARE, DRAGIN and MIND: write on, keep what is sure, and write what is in doubt again with documents."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from hoptree.runtime.context import Context
from hoptree.sentences import sentence_spans
from hoptree.steps.parse import clean_answer, looks_unanswered
from hoptree.steps.stretch import Draft, Pen
from hoptree.uncertainty import Span
from hoptree.uncertainty.queries import answer_leads
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

# "the answer is not clear", "… is Unknown."; but "The answer is Not Fade Away".
_NO_ANSWER = (
    r"\W{0,9}(?:(?:still|also|therefore|currently|simply)\s+)?\W{0,4}(?-i:"
    r"(?:not|unclear|unknown|uncertain|undetermined|unspecified|unavailable|unanswerable)\b"
    r"|(?:Unknown|Unclear|Uncertain|N/A)(?=[^\w\s]+(?:\s|\Z)|\s*\Z))"
)
_PHRASE = re.compile(rf"\banswer\s+is\b(?!{_NO_ANSWER})[\s:]*+(?=\W*+\w)", re.IGNORECASE)
_NEXT_QUESTION = re.compile(r"\s(?:Question|Context):")
_ASKS_YES_NO = re.compile(
    r"\W*(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must)\b"
    r"|\W*(?:is|are|was|were|do|does|did|has|have|had|ca|could|wo|would|should)n['’]t\b",
    re.IGNORECASE,
)
# "yes, because …", "no it is not"; but "No Country for Old Men".
_YES_NO = re.compile(
    r"(yes|no)\b(?=\s*[,;:.!(–—-]|\s+(?:because|since|as|but|it|he|she|they|there|both|neither)\b)", re.IGNORECASE
)
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

        `written` is what was kept before, `draft` what the doubt is a part of; of a sentence that begins with "So the
        answer is" the doubt is what stands behind that.
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
        _propose(ctx, pen, written.followed_by(draft))
        verdict = await judge.judge(draft, written) if draft.text else Verdict(0)
        doubt = verdict.doubt
        if doubt is None:
            written = written.followed_by(draft.until(verdict.keep))
        elif limits.retrievals is not None and searches >= limits.retrievals:
            return _stop(ctx, written.followed_by(draft.until(doubt.start)), "retrievals")
        elif found := await helper.look_up(_behind_lead(doubt, draft), draft, written):
            searches += found.searched
            written = written.followed_by(draft.until(doubt.start))
            again = await pen.write(written.text, step="rewrite", max_tokens=limits.stretch, context=found.context)
            again = _to_answer(again)
            _propose(ctx, pen, written.followed_by(again))
            sentence = replace(again.first_sentence(), ended=False)
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
    return read_conclusion(text, pen.question)


async def last_words(pen: Pen, text: str, *, context: str = "") -> str:
    """A text with the answer that the model gives when it is made to, in place of the one it had."""
    last = await pen.write(led_to_answer(text), step="conclude", max_tokens=LAST_TOKENS, context=context)
    before = _before_answer(text) if gives_answer(last.text) else led_to_answer(text)
    return f"{before} {last.text}".strip()


def led_to_answer(text: str) -> str:
    """A text up to the words behind which its answer stands, or would."""
    return f"{_before_answer(text)} {_LAST}".strip()


def _before_answer(text: str) -> str:
    found = _answer_sentence(text)
    return text[: found[0]].rstrip() if found else text


def read_conclusion(text: str, question: str = "") -> Answer:
    """The answer that stands behind a text's last "the answer is", up to the end of that sentence.

    A question that asks for yes or no is answered by that, without the reason that may follow.
    """
    said = ""
    for phrase in _PHRASE.finditer(text):
        said = text[phrase.end() :]
    said = said.replace("**", "").strip()
    spans = sentence_spans(said)
    answer = clean_answer(clean_answer(said[: spans[0][1]]).strip("{} ")) if spans else ""
    if _ASKS_YES_NO.match(question) and (short := _YES_NO.match(answer)):
        answer = short[1]
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "synthesis")


def gives_answer(text: str) -> bool:
    return _PHRASE.search(text) is not None


def _to_answer(draft: Draft) -> Draft:
    """A draft up to the last sentence that gives an answer, and up to the next question a model asks itself."""
    if following := _NEXT_QUESTION.search(draft.text):
        draft = replace(draft.until(following.start()), ended=True)
    found = _answer_sentence(draft.text)
    return draft.until(found[1]) if found else draft


def _answer_sentence(text: str) -> Span | None:
    """The last sentence that gives an answer: an earlier one was thought better of."""
    return next((span for span in reversed(sentence_spans(text)) if _PHRASE.search(text, *span)), None)


def _behind_lead(doubt: Doubt, draft: Draft) -> Doubt:
    """A doubt without the "So the answer is" that its sentence begins with, which is nothing to look up."""
    for first, last in answer_leads(draft.text):
        if first < doubt.end and last > doubt.start and not draft.text[doubt.start : first].strip():
            return Doubt(min(last, doubt.end), doubt.end, tuple(hit for hit in doubt.hits if hit[0] >= last))
    return doubt


def _propose(ctx: Context, pen: Pen, written: Draft) -> None:
    """Offer the answer that a text comes to, if the budget ends before more is known of it."""
    ctx.propose(read_conclusion(written.text, pen.question), order=0)


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
