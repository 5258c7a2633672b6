"""Choosing between answers to one question, by how sure the model was of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.steps.parse import question_key
from hoptree.tree import Node
from hoptree.values import Answer

__all__ = ["surest"]


def surest(ctx: Context, answers: Sequence[Answer], *, when: str, node: Node | None = None) -> Answer:
    """The answer whose least likely token is likeliest; the most frequent where a model does not tell.

    Of equals the last one is taken: those who call put what rests on most behind. The last is given too where none of
    them is known.
    """
    known = [answer for answer in answers if answer.known]
    if len(known) < 2:
        return known[0] if known else answers[-1]
    if all(answer.confidence is None for answer in known):
        said = Counter(question_key(answer.text) for answer in known)
        weights = [float(said[question_key(answer.text)]) for answer in known]
    else:
        weights = [answer.confidence or 0.0 for answer in known]
    place = max(range(len(known)), key=lambda number: (weights[number], number))
    ctx.decide(
        "surest",
        place,
        node=node,
        when=when,
        answers=[answer.text for answer in known],
        confidence=[answer.confidence for answer in known],
    )
    return known[place]
