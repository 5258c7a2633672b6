"""hop's reader: the answer that passages state and the sentence it rests on, or NOT FOUND."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage, Source
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.answer import Answered, note_answer, supporting_ids
from hoptree.methods.steps.evidence import show_passages
from hoptree.models.model import LearnsCapabilities, Model, Reply, trained_on
from hoptree.text.parse import clean_answer, find_refusal
from hoptree.text.question_tree import Node

Trained = Literal["auto", "on", "off"]
_MAX_TOKENS = 128
_ANSWER_LABEL = lazy_re(r"answer:\s*", re.IGNORECASE)
_SENTENCE_LABEL = lazy_re(r"^[ \t]*sentence:", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader replied: its answer, and the sentence it copied, "" where it copied none."""

    answer: Answer
    copied: str = ""


def asks_trained(model: Model, prompt: str, trained: Trained) -> bool:
    """Return whether a model is asked by a short prompt, for models that were trained on it."""
    return trained == "on" or (trained == "auto" and prompt_for("hop", prompt).template in trained_on(model))


async def read_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    prompt: str,
    chains: Sequence[str] = (),
    node: Node | None = None,
) -> Reading:
    """Read passages, behind the `chains` of parts answered before, for the answer to a question.

    The answer's confidence is the probability of its least likely token, where the model tells it.
    """
    step = "final" if chains else "read"
    source: Source = "synthesis" if chains else "external"
    if not passages and not chains:
        ctx.emit(Answered(value=False, step=step, continuation_hit="no passages"), node=node)
        return Reading(Answer("", "", "unknown", source))
    documents = "\n".join([*chains, show_passages(ctx, passages, titles=True)])
    filled = prompt_for(ctx.method, prompt).fill(documents=documents, question=question)
    model = ctx.model_for("answer")
    top = int("logprobs" in model.capabilities)
    reply = await ctx.generate(step, filled, max_tokens=_MAX_TOKENS, node=node, top_logprobs=top)
    if top and not reply.choices[0].tokens and isinstance(model, LearnsCapabilities):
        model.lacks("logprobs")
    text, copied, begin = parse_reading(reply.text)
    refusal = "no answer" if not text else find_refusal(text)
    note_answer(ctx, step, text, clean_answer(text))
    ctx.emit(Answered(value=not refusal, step=step, continuation_hit=refusal or None, raw=reply.text), node=node)
    if refusal:
        return Reading(Answer("", reply.text, "unknown", source))
    confidence = _least_probability(reply, begin, begin + len(text))
    answer = Answer(clean_answer(text), reply.text, "answered", source, confidence=confidence)
    return Reading(replace(answer, support=supporting_ids(answer.text, passages)), copied)


def parse_reading(reply: str) -> tuple[str, str, int]:
    """Return the answer, the sentence copied behind it, and where the answer begins; labels may be left out."""
    label = _SENTENCE_LABEL.search(reply)
    text = reply[: label.start()] if label else reply
    begin = len(text) - len(text.lstrip())
    if answer := _ANSWER_LABEL.match(text, begin):
        begin = answer.end()
    return text[begin:].strip(), _unquoted(reply[label.end() :]) if label else "", begin


def _unquoted(sentence: str) -> str:
    return sentence.strip(" \t\r\n\"'“”")


def _least_probability(reply: Reply, begin: int, end: int) -> float | None:
    """Return the probability of the least likely token of a span of the reply; None without any."""
    tokens = reply.choices[0].tokens
    spelled = "".join(token.text for token in tokens)
    least, at = None, len(spelled.lstrip()) - len(spelled)  # the text of a reply begins with its first word
    for token in tokens:
        starts, at = at, at + len(token.text)
        if at > begin and starts < end and token.text.strip():
            least = token.logprob if least is None else min(least, token.logprob)
    return None if least is None else math.exp(least)
