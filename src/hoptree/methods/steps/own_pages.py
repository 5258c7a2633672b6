"""What the corpus says of an entity on the entity's own page."""

from __future__ import annotations

import re

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.graph.facts import Entity
from hoptree.retrieval.retriever import TITLE
from hoptree.text.names import fold
from hoptree.text.question_tree import Node

_LOOKED_AT = 5
"""Passages among which a title that is nearly a name is looked for: a search counts titles more than texts."""
_BRACKET = re.compile(r"\s*\([^()]*\)\Z")


async def own_page(
    ctx: Context, entity: Entity, query: str, *, k: int, node: Node | None = None
) -> tuple[Passage, ...]:
    """The best passages of the page that has the entity's title, or else its name; none where there is no such page.

    Where no page is called just so, one that `near_title` finds will do.
    """
    for title in dict.fromkeys(filter(None, (entity.page, entity.label))):
        if found := await ctx.search(query, k=k, where={TITLE: title}, node=node):
            return found
    title = await near_title(ctx, entity.page or entity.label, node=node)
    # The query may share no word with the page, and would find nothing there by itself.
    return await ctx.search(f"{query} {title}", k=k, where={TITLE: title}, node=node) if title else ()


async def near_title(ctx: Context, name: str, *, node: Node | None = None) -> str:
    """The title of the corpus that is a name but for capitals and accents, or has a bracket behind it; "" of none.

    Of several with brackets none is taken. One search for the name finds them, for indexes list no folded titles:
    one is missed where many passages have more of the name's words.
    """
    wanted = fold(name)
    if not wanted:
        return ""
    found = await ctx.titles(name, k=_LOOKED_AT, node=node)
    titles = list(dict.fromkeys(title.split(" › ")[0] for title in found))
    same = [title for title in titles if fold(title) == wanted]
    behind = [title for title in titles if fold(_BRACKET.sub("", title)) == wanted]
    return same[0] if same else behind[0] if len(behind) == 1 else ""
