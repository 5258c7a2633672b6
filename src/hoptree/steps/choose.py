"""Choosing between two answers to one question, by how sure the model was of each."""

from __future__ import annotations

from hoptree.runtime.context import Context
from hoptree.tree import Node
from hoptree.values import Answer

__all__ = ["surer"]


def surer(ctx: Context, first: Answer, last: Answer, *, when: str, node: Node | None = None) -> Answer:
    """Of two answers the one whose least likely token is likelier; the last where a model does not tell."""
    if not (first.known and last.known):
        return first if first.known else last
    first_wins = (first.confidence or 0.0) > (last.confidence or 0.0)
    ctx.decide(
        "surer",
        "first" if first_wins else "last",
        node=node,
        when=when,
        answers=[first.text, last.text],
        confidence=[first.confidence, last.confidence],
    )
    return first if first_wins else last
