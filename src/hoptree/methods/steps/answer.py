"""Answering one question: from confident memory, from memory in any case, or from documents."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from hoptree.core.values import Answer, Passage, Source, Token
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_answer
from hoptree.models.model import Reply
from hoptree.text.parse import clean_answer, extract_conclusion, find_refusal, retrieval_trigger
from hoptree.text.question_tree import Node

MAX_TOKENS = 64
REASONED_TOKENS = 128


async def confident_answer(ctx: Context, question: str, *, node: Node | None = None, strict: bool = False) -> Answer:
    """The model's answer if it is sure of it; refused means "look it up".

    With `strict`, only the identifier counts as a refusal, as in the paper; otherwise "I don't know" does too.
    """
    prompt = prompt_for(ctx.method, "confident").fill(question=question)
    raw = (await ctx.generate("confident", prompt, role="know", max_tokens=MAX_TOKENS, node=node)).text
    note_answer(ctx, "confident", raw, clean_answer(raw))
    trigger = retrieval_trigger(raw)
    if trigger == "soft" and strict:
        trigger = ""
    ctx.decide("confident", not trigger, node=node, identifier_hit=trigger or None, raw=raw)
    if trigger:
        return Answer("", raw, "refused")
    return Answer(clean_answer(raw), raw, source="internal")


async def direct_answer(ctx: Context, question: str, *, node: Node | None = None, logprobs: bool = False) -> Answer:
    """The model's answer, sure or not; with `logprobs`, its confidence is the least probability among its tokens."""
    prompt = prompt_for(ctx.method, "direct").fill(question=question)
    reply = await ctx.generate("direct", prompt, max_tokens=MAX_TOKENS, node=node, top_logprobs=1 if logprobs else 0)
    text = clean_answer(reply.text)
    note_answer(ctx, "direct", reply.text, text)
    refused = find_refusal(reply.text) or retrieval_trigger(reply.text)
    status = "answered" if text and not refused else "unknown"
    confidence = least_probability(reply) if logprobs else None
    if logprobs and confidence is None:
        ctx.warn(
            "no_logprobs",
            f"{ctx.model_for('answer').name} gave no log-probabilities; its own answers could not be trusted.",
        )
    return Answer(text, reply.text, status, "internal", confidence=confidence)  # type: ignore[arg-type]


async def answer_from(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    prompt: str = "read",
    node: Node | None = None,
    titles: bool = False,
    logprobs: bool = False,
) -> Answer:
    """The answer that documents hold; unknown means that they hold none, in the model's own words (`raw`).

    With `logprobs`, its confidence is the least probability among its tokens.
    """
    if not passages:
        ctx.decide("answered", False, node=node, step="read", continuation_hit="no passages", raw="")
        return Answer("", "", "unknown", "external")
    documents = show_passages(ctx, passages, titles=titles)
    return await _read(
        ctx, "read", prompt, question, documents, node, source="external", passages=passages, logprobs=logprobs
    )


async def synthesise(
    ctx: Context,
    question: str,
    statements: Sequence[str],
    *,
    prompt: str = "read",
    step: str = "final",
    node: Node | None = None,
    reasoned: bool = False,
    logprobs: bool = False,
) -> Answer:
    """The answer that follows from statements found on the way, by the prompt that documents are read with.

    It is that of the whole question, unless it is the `step` of one `node`. `reasoned` says that the prompt asks for a
    reason before "Answer:".
    """
    documents = "\n".join(statements)
    return await _read(
        ctx, step, prompt, question, documents, node, source="synthesis", reasoned=reasoned, logprobs=logprobs
    )


async def _read(
    ctx: Context,
    step: str,
    prompt: str,
    question: str,
    documents: str,
    node: Node | None,
    *,
    source: Source,
    passages: Sequence[Passage] = (),
    reasoned: bool = False,
    logprobs: bool = False,
) -> Answer:
    filled = prompt_for(ctx.method, prompt).fill(documents=documents, question=question)
    max_tokens = REASONED_TOKENS if reasoned else MAX_TOKENS
    reply = await ctx.generate(step, filled, max_tokens=max_tokens, node=node, top_logprobs=1 if logprobs else 0)
    raw = reply.text
    text = clean_answer(raw)
    note_answer(ctx, step, extract_conclusion(raw) if reasoned else raw, text)
    words = find_refusal(extract_conclusion(raw) if reasoned else raw)
    ctx.decide("answered", not words, node=node, step=step, continuation_hit=words or None, raw=raw)
    confidence = least_probability(reply) if logprobs else None
    support = holding(text, passages) if passages and text and not words else ()
    return Answer(text, raw, "unknown" if words else "answered", source, support, confidence)


def least_probability(reply: Reply) -> float | None:
    """How sure a model was of what it said: the probability of its least likely token, where it tells."""
    tokens = [token for token in reply.choices[0].tokens if token.text.strip()]
    return math.exp(min(token.logprob for token in tokens)) if tokens else None


def mean_probability(tokens: Sequence[Token]) -> float | None:
    """The geometric mean of the tokens' probabilities, where a model tells them."""
    return math.exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else None


def holding(answer: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """The passages that hold the answer's words; all of them where none does, since any may have led to it."""
    wanted = _words(answer)
    holding = [p.id for p in passages if wanted and f" {wanted} " in f" {_words(p.title + ' ' + p.text)} "]
    return tuple(holding or (p.id for p in passages))


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
