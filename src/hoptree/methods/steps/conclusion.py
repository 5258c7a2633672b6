"""What a text that was written step by step concludes, and how a model is brought to conclude it."""

from __future__ import annotations

import re
from dataclasses import replace

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.methods.steps.continuation import Draft, Pen
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.parse import clean_answer, looks_unanswered
from hoptree.text.sentences import sentence_spans
from hoptree.text.tokens import Span

# "the answer is not clear", "… is Unknown."; but "The answer is Not Fade Away".
_NO_ANSWER = (
    r"\W{0,9}(?:(?:still|also|therefore|currently|simply)\s+)?\W{0,4}(?-i:"
    r"(?:not|unclear|unknown|uncertain|undetermined|unspecified|unavailable|unanswerable)\b"
    r"|(?:Unknown|Unclear|Uncertain|N/A)(?=[^\w\s]+(?:\s|\Z)|\s*\Z))"
)
_BOXED = re.compile(r"\$?\\boxed\{(?:\\text\{)?([^{}]*)\}{1,2}\$?")
"""As models that were trained on sums write an answer."""
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


async def conclude(ctx: Context, pen: Pen, written: Draft, *, context: str = "") -> Answer:
    """The answer that a text ends in; where it gives none, it is asked for the last words."""
    if _PHRASE.search(written.text):
        text = written.text
    else:
        ctx.decide("no_answer_phrase", True, text=written.text)
        text = await last_words(pen, written.text, context=context)
        said = text != led_to_answer(written.text)
        note_reply(ctx, "conclude", "" if said else "no answer", ["last words"])
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
    said = _BOXED.sub(r"\1", said.replace("**", "")).strip()
    spans = sentence_spans(said)
    answer = clean_answer(clean_answer(said[: spans[0][1]]).strip("{} ")) if spans else ""
    if _ASKS_YES_NO.match(question) and (short := _YES_NO.match(answer)):
        answer = short[1]
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "synthesis")


def gives_answer(text: str) -> bool:
    return _PHRASE.search(text) is not None


def to_answer(draft: Draft) -> Draft:
    """A draft up to the last sentence that gives an answer, and up to the next question a model asks itself."""
    if following := _NEXT_QUESTION.search(draft.text):
        draft = replace(draft.until(following.start()), ended=True)
    found = _answer_sentence(draft.text)
    return draft.until(found[1]) if found else draft


def _answer_sentence(text: str) -> Span | None:
    """The last sentence that gives an answer: an earlier one was thought better of."""
    return next((span for span in reversed(sentence_spans(text)) if _PHRASE.search(text, *span)), None)
