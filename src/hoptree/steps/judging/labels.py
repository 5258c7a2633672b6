"""Asking for one of a few words, and how probable the model thought each of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from hoptree.models.model import MOST_LOGPROBS, Choice, Token
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import Filled
from hoptree.steps.reading.loose_json import MAX_REPLY
from hoptree.steps.reading.noting import note_reply

__all__ = ["label_shares", "read_label", "weigh_labels"]

MAX_TOKENS = 8
_WORD = re.compile(r"[^\W_]+")
_BEGINS = 4
"""Characters of a label, at least, that other words of its kind begin with: fully, partially; but not now, north."""
_LIKE = {"none": "no", "not": "no", "nothing": "no"}


async def weigh_labels(
    ctx: Context, step: str, prompt: Filled, labels: Sequence[str], *, role: str = "answer"
) -> Mapping[str, float]:
    """The share of each label in the probability of all, in one call; all of it for the one that is said where a model
    does not tell, and none for any where no label is said."""
    told = "logprobs" in ctx.model_for(role).capabilities
    reply = await ctx.generate(
        step, prompt, role=role, max_tokens=MAX_TOKENS, top_logprobs=MOST_LOGPROBS if told else 0, part=True
    )
    shares = label_shares(reply.choices[0], labels)
    error = "" if shares else f"none of {', '.join(labels)}"
    note_reply(ctx, step, error)
    return shares


def label_shares(choice: Choice, labels: Sequence[str]) -> dict[str, float]:
    """The labels' shares of the probability, at the first word of a reply, that it is one of them."""
    said = read_label(choice.text, labels)
    if not said:
        return {}
    first = next((token for token in choice.tokens if _WORD.search(token.text)), None)
    if first is None or _label_of(first.text, labels) != said:
        return {said: 1.0}
    found = dict.fromkeys(labels, 0.0)
    for text, logprob in _alternatives(first).items():
        if label := _label_of(text, labels):
            found[label] += math.exp(logprob)
    total = sum(found.values())
    return {label: share / total for label, share in found.items()} if total else {said: 1.0}


def read_label(text: str, labels: Sequence[str]) -> str:
    """The label that a reply begins with, or the only one that it names; other words begin with a label, too."""
    words = _WORD.findall(text[:MAX_REPLY])
    if words and (label := _label_of(words[0], labels, whole=True)):
        return label
    named = {label for word in words if (label := _label_of(word, labels, whole=True))}
    return named.pop() if len(named) == 1 else ""


def _label_of(text: str, labels: Sequence[str], *, whole: bool = False) -> str:
    """The label that a word begins with, or unless it is `whole`, the only one that begins with it."""
    found = _WORD.search(text)
    word = found[0].casefold() if found else ""
    for label in labels:
        if label in (word, _LIKE.get(word)) or (word.startswith(label) and len(label) >= _BEGINS):
            return label
    begun = [label for label in labels if word and label.startswith(word)]
    return begun[0] if len(begun) == 1 and not whole else ""


def _alternatives(token: Token) -> dict[str, float]:
    return {**dict(token.top), token.text: token.logprob}
