"""Find what the corpus says of an entity on the entity's own page."""

from __future__ import annotations

import re

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.graph.facts import Entity
from hoptree.retrieval.retriever import TITLE
from hoptree.text.names import fold
from hoptree.text.question_tree import Node

_MAX_TITLES = 5  # among which a near title is looked for: a search counts titles more than texts
_BRACKET = re.compile(r"\s*\([^()]*\)\Z")


async def own_page(
    ctx: Context, entity: Entity, query: str, *, k: int, node: Node | None = None
) -> tuple[Passage, ...]:
    """Return the best passages of the page with the entity's title, or else its name, or else a near title."""
    for title in dict.fromkeys(filter(None, (entity.page, entity.label))):
        if passages := await ctx.search(query, k=k, where={TITLE: title}, node=node):
            return passages
    title = await near_title(ctx, entity.page or entity.label, node=node)
    # The query may share no word with the page, and would find nothing there by itself.
    return await ctx.search(f"{query} {title}", k=k, where={TITLE: title}, node=node) if title else ()


async def near_title(ctx: Context, name: str, *, node: Node | None = None) -> str:
    """Return the title that is a name but for capitals and accents, or has one bracket behind it; "" if none is.

    Of several titles with brackets none is taken. One search for the name finds them, since indexes list no folded
    titles: a title is missed where many passages have more of the name's words.
    """
    wanted = fold(name)
    if not wanted:
        return ""
    nearest = await ctx.titles(name, k=_MAX_TITLES, node=node)
    titles = list(dict.fromkeys(title.split(" › ")[0] for title in nearest))
    same = [title for title in titles if fold(title) == wanted]
    bracketed = [title for title in titles if fold(_BRACKET.sub("", title)) == wanted]
    return same[0] if same else bracketed[0] if len(bracketed) == 1 else ""
