"""Reading documents a few at a time into one summary, which says itself whether it is enough."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import Filled, prompt_for
from hoptree.steps.evidence import show_passages
from hoptree.steps.json_reading import MAX_REPLY
from hoptree.values import Passage

__all__ = ["Compacted", "compress", "compress_trained", "read_compacted"]

MAX_TOKENS = 900
"""Room for a summary of 200 words and its evaluation, as the released script gives it."""

_LEAD = r"[ \t#*_\d.)]{0,20}"
_SUMMARY = re.compile(rf"{_LEAD}summary[\s*_]*:[\s*_]*", re.IGNORECASE)
_EVALUATION = re.compile(r"\bevaluation[\s*_]*:[\s*_]*", re.IGNORECASE)
_AGAIN = re.compile(rf"\n{_LEAD}(?:summary|question|(?:source )?documents|evaluation)\b[\s*_]*:", re.IGNORECASE)
_TAG = re.compile(r"\[\s*(?P<not>in|not )?complete\s*\]", re.IGNORECASE)
# Without its brackets a tag counts only where it stands alone: "does not give complete details" is none.
_BARE = re.compile(r"(?P<not>in|not )?complete\b(?=\s*(?:[.,:;!–—\n-]|\Z))", re.IGNORECASE)
_EDGES = "*_# \n\t"
_MARKS = " \t\r\n.,:;*_'\"–—-"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was summarised so far, what a model says of it (without the tag), and whether it calls that complete."""

    summary: str = ""
    evaluation: str = ""
    complete: bool = False


async def compress(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    before: Compacted,
    *,
    titles: bool = False,
    max_tokens: int = MAX_TOKENS,
) -> Compacted:
    """The summary so far with what some more passages add, by any model."""
    so_far = f"Summary so far:\n{before.summary}\n\nWhat it lacked:\n{before.evaluation}\n\n" if before.summary else ""
    documents = show_passages(ctx, passages, titles=titles)
    prompt = prompt_for(ctx.method, "compress").fill(question=question, before=so_far, documents=documents)
    return await _ask(ctx, prompt, before, max_tokens)


async def compress_trained(
    ctx: Context, question: str, passages: Sequence[Passage], before: Compacted, *, max_tokens: int = MAX_TOKENS
) -> Compacted:
    """The same by a model that was trained for it, in the sections it knows; it is always shown titles."""
    lines = show_passages(ctx, passages, titles=True).splitlines()
    documents = "\n".join(line.removeprefix("passage: ") for line in lines)
    name = "trained_next" if before.summary else "trained"
    prompt = prompt_for(ctx.method, name).fill(
        question=question, summary=before.summary, evaluation=before.evaluation, documents=documents
    )
    return await _ask(ctx, prompt, before, max_tokens)


async def _ask(ctx: Context, prompt: Filled, before: Compacted, max_tokens: int) -> Compacted:
    reply = await ctx.generate("compress", prompt, role="compress", max_tokens=max_tokens)
    read, lacking = read_compacted(reply.text)
    error = "" if read.summary and "evaluation" not in lacking else f"no {' and no '.join(lacking)}"
    ctx.trace.add("parse", step="compress", ok=not error, repairs=list(lacking), error=error)
    compacted = read if read.summary else Compacted(before.summary, read.evaluation or before.evaluation)
    ctx.decide("compacted", compacted.complete, summary=compacted.summary, evaluation=compacted.evaluation)
    return compacted


def read_compacted(text: str) -> tuple[Compacted, tuple[str, ...]]:
    """The summary and its evaluation in a reply, and what of "summary", "evaluation" and "tag" it lacks.

    What has no evaluation, or one without a verdict, is incomplete; so is what has no summary, since there is nothing
    to be complete. A reply that goes on with a turn of its own ends there.
    """
    text = text[:MAX_REPLY].strip()
    if heading := _SUMMARY.match(text):
        text = text[heading.end() :]
    split, tag = _EVALUATION.search(text), _TAG.search(text)
    ends = [found.start() for found in (split, tag) if found]
    summary = _until_next(text[: min(ends, default=len(text))])
    evaluation = text[split.end() :] if split else text[tag.start() :] if tag else ""
    evaluation = _until_next(evaluation)
    verdict = _TAG.search(evaluation) or _BARE.match(evaluation.lstrip(_MARKS))
    reason = _TAG.sub(" ", evaluation) if _TAG.search(evaluation) else evaluation
    there = {"summary": bool(summary), "evaluation": bool(evaluation), "tag": verdict is not None}
    complete = verdict is not None and not verdict["not"] and bool(summary)
    compacted = Compacted(summary, " ".join(reason.split()).strip(), complete)
    return compacted, tuple(name for name, found in there.items() if not found)


def _until_next(text: str) -> str:
    found = _AGAIN.search(text)
    return " ".join((text[: found.start()] if found else text).strip(_EDGES).split())
