"""Entities by the words of a query and by the names that a model reads out of it; and which of them to keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoptree.graph.facts import Entity
from hoptree.graph.linking.candidates import Candidates
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import both, together
from hoptree.steps.parse import looks_unanswered, question_key, read_json, read_numbers
from hoptree.tree import Node

__all__ = ["Found", "MentionLinker", "extract_mentions", "find_entities", "keep_entities", "read_mentions", "united"]

_EXTRACT_TOKENS, _KEEP_TOKENS = 96, 32
_MENTIONS = 8
"""Names of one query that are looked up."""
_LONGEST = 200
"""Characters of a name."""
_FOUND = 10
"""Entities that the linker gives, and so many that a model's names give."""
_EACH = 5
"""Entities of one name."""
_CANDIDATES = 15
"""Entities that one prompt shows."""
_ALIASES = 3
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)
_LISTED = re.compile(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)")
_MARKS = " \t\"'“”‘’`*_[]{}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a query may be about: as the linker alone says, and by the names that a model read out of it."""

    linker: tuple[Entity, ...]
    model: tuple[Entity, ...] = ()
    mentions: tuple[str, ...] = ()

    @property
    def union(self) -> tuple[Entity, ...]:
        return united(self.linker, self.model)


class MentionLinker:
    """A linker of `steps.link`: candidates of the whole query united with those of the model's names, then the model
    keeps the most relevant.
    """

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]:
        found = await find_entities(ctx, self._candidates, query, node=node)
        return await keep_entities(ctx, query, found.union, keep=keep, node=node)


def united(*groups: Sequence[Entity]) -> tuple[Entity, ...]:
    """The best of each group before the second best of any, each entity once."""
    longest = max(map(len, groups), default=0)
    ranked = [group[place] for place in range(longest) for group in groups if place < len(group)]
    found: dict[str, Entity] = {}
    for entity in ranked:
        found.setdefault(entity.id, entity)
    return tuple(found.values())


async def find_entities(ctx: Context, candidates: Candidates, query: str, *, node: Node | None = None) -> Found:
    """Candidates by the words of a query, and by the names that the model reads out of it."""
    said, mentions = await both(candidates.of_text(query, limit=_FOUND), extract_mentions(ctx, query, node=node))
    each = await together(candidates.of_mention(mention, limit=_EACH) for mention in mentions)
    by_model = united(*([one.entity for one in group] for group in each))[:_FOUND]
    return Found(tuple(one.entity for one in said), by_model, mentions)


async def extract_mentions(ctx: Context, query: str, *, node: Node | None = None) -> tuple[str, ...]:
    """The names of things in a query, as the model reads them, the main one first."""
    prompt = prompt_for(ctx.method, "mentions").fill(query=query)
    reply = await ctx.generate("mentions", prompt, role="link", max_tokens=_EXTRACT_TOKENS, node=node)
    mentions = read_mentions(reply.text)
    ctx.decide("mentions", list(mentions), node=node)
    return mentions


def read_mentions(reply: str) -> tuple[str, ...]:
    """The names in a reply, each once: of a JSON list, or of lines and what commas part in them."""
    value = read_json(reply).value
    if isinstance(value, dict):
        value = [one for part in value.values() for one in (part if isinstance(part, list) else [part])]
    names = value if isinstance(value, list) else _lines(reply)
    found: dict[str, str] = {}
    for name in names:
        if isinstance(name, dict):  # a name with what it is
            name = next((text for text in name.values() if isinstance(text, str)), "")
        named = isinstance(name, str) or type(name) is int  # a film may be called by a number, but not by true
        text = " ".join(str(name).split()).strip(_MARKS) if named else ""
        if question_key(text) and len(text) <= _LONGEST and not looks_unanswered(text) and not _NONE.fullmatch(text):
            found.setdefault(question_key(text), text)
    return tuple(found.values())[:_MENTIONS]


def _lines(reply: str) -> Iterable[str]:
    for line in reply[: 20 * _LONGEST].splitlines()[: 2 * _MENTIONS]:
        text = _LISTED.sub("", line)
        if not text.rstrip().endswith(":"):  # "The names are:"
            yield from text.rpartition(": ")[2].split(", ")


async def keep_entities(
    ctx: Context, query: str, candidates: Sequence[Entity], *, keep: int, node: Node | None = None
) -> tuple[Entity, ...]:
    """The entities that the model calls most relevant, `keep` at most and in its order; all where there are no more.

    A reply that names none, and does not say so, keeps the first ones.
    """
    shown = candidates[:_CANDIDATES]
    kept = tuple(shown)
    if len(shown) > keep:
        numbered = "\n".join(f"[{number}] {_line(entity)}" for number, entity in enumerate(shown, 1))
        prompt = prompt_for(ctx.method, "entities").fill(candidates=numbered, query=query, keep=str(keep))
        reply = (await ctx.generate("entities", prompt, role="link", max_tokens=_KEEP_TOKENS, node=node)).text
        numbers = read_numbers(reply, len(shown))[:keep]
        kept = tuple(shown[number - 1] for number in numbers)
        if not numbers and not _NONE.match(reply):
            kept = tuple(shown[:keep])
    ctx.decide(
        "linked",
        [one.label for one in kept],
        node=node,
        ids=[one.id for one in kept],
        candidates=[one.label for one in shown],
    )
    return kept


def _line(entity: Entity) -> str:
    """An entity in one line: what it is called and what it is."""
    others = f" (also {', '.join(entity.aliases[:_ALIASES])})" if entity.aliases else ""
    told = f"{entity.label}{others}" + (f": {entity.description}" if entity.description else "")
    return " ".join(told.split())[: 2 * _LONGEST]
