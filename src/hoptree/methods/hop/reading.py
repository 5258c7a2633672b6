"""hop's reader: the answer that passages state with the sentence it rests on, or NOT FOUND."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage, Source
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.answer import Answered, note_answer, supporting_ids
from hoptree.methods.steps.evidence import show_passages
from hoptree.models.model import Reply
from hoptree.text.parse import clean_answer, find_refusal
from hoptree.text.question_tree import Node

_MAX_TOKENS = 128
_LINES = lazy_re(r"\A\s*(?:sentence:\s*(?P<sentence>.*?)\s*)?^\s*answer:[ \t]*(?P<answer>.*)\Z", re.I | re.S | re.M)
_SENTENCE_ONLY = lazy_re(r"\A\s*sentence:\s*(?P<sentence>.*)\Z", re.I | re.S)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader replied: its answer, and the sentence it copied, "" where it copied none."""

    answer: Answer
    copied: str = ""


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
    top = int("logprobs" in ctx.model_for("answer").capabilities)
    reply = await ctx.generate(step, filled, max_tokens=_MAX_TOKENS, node=node, top_logprobs=top)
    copied, text, at = parse_reading(reply.text)
    refusal = "no answer" if not text else find_refusal(text)
    note_answer(ctx, step, text, clean_answer(text))
    ctx.emit(Answered(value=not refusal, step=step, continuation_hit=refusal or None, raw=reply.text), node=node)
    if refusal:
        return Reading(Answer("", reply.text, "unknown", source))
    answer = Answer(clean_answer(text), reply.text, "answered", source, confidence=_least_probability(reply, at))
    return Reading(replace(answer, support=supporting_ids(answer.text, passages)), copied)


def parse_reading(reply: str) -> tuple[str, str, int]:
    """Return the copied sentence, the answer, and where the answer begins; a reply without labels is an answer."""
    if lines := _LINES.match(reply):
        return (lines["sentence"] or "").strip(" \"'“”"), lines["answer"].strip(), lines.start("answer")
    if cut_off := _SENTENCE_ONLY.match(reply):
        return cut_off["sentence"], "", len(reply)
    return "", reply.strip(), 0


def _least_probability(reply: Reply, start: int) -> float | None:
    """Return the probability of the least likely token from a place in the reply on; None without any."""
    least, at = None, 0
    for token in reply.choices[0].tokens:
        at += len(token.text)
        if at > start and token.text.strip():
            least = token.logprob if least is None else min(least, token.logprob)
    return None if least is None else math.exp(least)
