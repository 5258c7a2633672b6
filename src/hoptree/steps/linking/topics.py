"""The entities that a question is about, from which a graph is explored."""

from __future__ import annotations

from hoptree.graph.facts import Entity
from hoptree.graph.naming import fold
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import both
from hoptree.steps.linking.mentions import MentionLinker, graph_names
from hoptree.steps.reading.parse import question_key

__all__ = ["find_topics"]


async def find_topics(ctx: Context, question: str, *, keep: int) -> tuple[Entity, ...]:
    """Those that the question names in full, then those that the model chooses, `keep` at most.

    Small models choose the word of the relation that is asked for ("designer"), and leave out whom the question names.
    """
    names = graph_names(ctx)
    found, chosen = await both(names(ctx, None).of_text(question), MentionLinker(names).link(ctx, question, keep=keep))
    named = (one.entity for one in found if _stands_in(question, one.entity.label))
    topics = {entity.id or entity.label: entity for entity in (*named, *chosen)}
    ctx.decide("topics", [entity.label for entity in list(topics.values())[:keep]])
    return tuple(topics.values())[:keep]


def _stands_in(question: str, name: str) -> bool:
    """Whether a question has a name as a whole; one of small letters alone is a word like others."""
    return not name.islower() and f" {question_key(fold(name))} " in f" {question_key(fold(question))} "
