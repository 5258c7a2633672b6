"""What the corpus says of an entity on the entity's own page."""

from __future__ import annotations

from hoptree.graph.facts import Entity
from hoptree.retrieval.filters import TITLE
from hoptree.runtime.context import Context
from hoptree.tree import Node
from hoptree.values import Passage

__all__ = ["own_page"]


async def own_page(
    ctx: Context, entity: Entity, query: str, *, k: int, node: Node | None = None
) -> tuple[Passage, ...]:
    """The best passages of the page that has the entity's title, or else its name; none where there is no such page."""
    for title in dict.fromkeys(filter(None, (entity.page, entity.label))):
        found = await ctx.search(query, k=k, where={TITLE: title}, node=node)
        if found:
            return found
    return ()
