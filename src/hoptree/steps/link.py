"""From the words of a question to entities of a graph or titles of a corpus, and to the relations worth looking at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from hoptree.graph.facts import Entity, Fact, Neighbourhood
from hoptree.names import name_spans
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.runtime.schedule import together
from hoptree.steps.parse import question_key, read_numbers
from hoptree.tree import Node

__all__ = ["GraphNames", "Linker", "Titles", "choose_facts", "names_in"]

MAX_TOKENS = 32
_NAMES = 8
"""Names of one query that are looked up."""
_EACH = 5
"""Entities of one name that are candidates."""
_CANDIDATES = 15
_RELATIONS = 60
"""Relations that one prompt shows."""
_VALUES = 20
"""Facts of one relation that are kept: a list may be what was asked for, but not a whole census."""
_SAMPLE = 3
_LONG = 200
"""Characters of values in one line."""
_QUOTED = re.compile(r"[\"“«]([^\"“”«»]{2,80})[\"”»]")
_NUMBERED = re.compile(r"[ -]\d{1,4}\b(?!,? ?\d)")
_NO_HEADS = frozenset(
    re.findall(
        r"\w+",
        "who whom whose what which when where why how is are was were do does did has have had can could will would "
        "the a an in on at of for to by from with under during this that it he she they his her their its and or",
    )
)
_NO_NAMES = frozenset(
    re.findall(
        r"\w+",
        "january february march april may june july august september october november december "
        "monday tuesday wednesday thursday friday saturday sunday yes no i",
    )
)
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)


class Linker(Protocol):
    """Finds the things that a query is about, the most relevant first, `keep` of them at most."""

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]: ...


def names_in(text: str) -> tuple[str, ...]:
    """The names in a text, each once: capitalised words in a row (with a number behind them), and what is quoted.

    "President of the United States" is also looked for in its parts.
    """
    found: dict[str, str] = {}

    def take(name: str) -> None:
        words = re.sub(r"['’]s\b", "", name).strip(" .,'’").split()
        while words and words[0].casefold() in _NO_HEADS:
            words = words[1:]
        key = question_key(" ".join(words))
        if key and key not in _NO_NAMES and len(key) > 1:
            found.setdefault(key, " ".join(words))

    for quoted in _QUOTED.finditer(text):
        take(quoted[1])
    for start, end in name_spans(text):
        if numbered := _NUMBERED.match(text, end):
            take(text[start : numbered.end()])
        take(text[start:end])
        parts = re.split(r"\s+(?:of|in|from|at|by)\s+(?:the\s+)?", text[start:end])
        for part in parts if len(parts) > 1 else ():
            take(part)
    return tuple(found.values())[:_NAMES]


class GraphNames:
    """Entities whose label or alias is a name in the query; the model keeps the most relevant."""

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]:
        found = await together(ctx.entities(name, limit=_EACH, node=node) for name in names_in(query))
        # The best of each name before the second best of any.
        ranked = [group[place] for place in range(_EACH) for group in found if place < len(group)]
        candidates = tuple({entity.id: entity for entity in reversed(ranked)}.values())[::-1][:_CANDIDATES]
        return await _keep(ctx, query, candidates, keep, node)


class Titles:
    """Names in the query as they stand, for a corpus whose pages have titles; the model keeps the most relevant."""

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]:
        return await _keep(ctx, query, tuple(Entity("", name, page=name) for name in names_in(query)), keep, node)


async def _keep(
    ctx: Context, query: str, candidates: tuple[Entity, ...], keep: int, node: Node | None
) -> tuple[Entity, ...]:
    kept = candidates
    if len(candidates) > keep:
        lines = [f"{one.label}: {one.description}" if one.description else one.label for one in candidates]
        kept = tuple(candidates[place] for place in await _chosen(ctx, "entities", query, lines, keep, node))
    ctx.decide(
        "linked",
        [one.label for one in kept],
        node=node,
        ids=[one.id for one in kept],
        candidates=[one.label for one in candidates],
    )
    return kept


async def choose_facts(
    ctx: Context, query: str, found: Sequence[Neighbourhood], *, keep: int, node: Node | None = None
) -> tuple[Fact, ...]:
    """The facts whose relations the model calls relevant, `keep` relations at most; all where there are no more."""
    groups: dict[tuple[str, str, bool], list[Fact]] = {}
    for around in found:
        for fact in around.facts:
            outward = fact.subject.id == around.entity.id
            groups.setdefault((around.entity.label, fact.relation.text, outward), []).append(fact)
    shown = list(groups.items())[:_RELATIONS]
    places: Sequence[int] = range(len(shown))
    if len(shown) > keep:
        places = await _chosen(ctx, "relations", query, [_line(*name, group) for name, group in shown], keep, node)
    kept = [shown[place] for place in places]
    ctx.decide("relations", [[*name[:2]] for name, _ in kept], node=node, candidates=len(groups))
    return tuple(dict.fromkeys(fact for _, group in kept for fact in group[:_VALUES]))


def _line(entity: str, relation: str, outward: bool, group: Sequence[Fact]) -> str:
    """A relation of an entity in one line, whatever the number of its values."""
    values = ", ".join((fact.object if outward else fact.subject).text for fact in group[:_SAMPLE])
    values = values[:_LONG] + (f", and {len(group) - _SAMPLE} more" if len(group) > _SAMPLE else "")
    return f"{entity} | {relation} | {values}" if outward else f"{values} | {relation} | {entity}"


async def _chosen(
    ctx: Context, step: str, query: str, lines: Sequence[str], keep: int, node: Node | None
) -> tuple[int, ...]:
    """The places of the lines that the model names; the first ones where its reply names none and does not say so."""
    numbered = "\n".join(f"[{number}] {' '.join(line.split())}" for number, line in enumerate(lines, 1))
    prompt = prompt_for(ctx.method, step).fill(candidates=numbered, query=query, keep=str(keep))
    reply = (await ctx.generate(step, prompt, role="link", max_tokens=MAX_TOKENS, node=node)).text
    numbers = read_numbers(reply, len(lines))[:keep]
    if not numbers and not _NONE.match(reply):
        return tuple(range(min(keep, len(lines))))
    return tuple(number - 1 for number in numbers)
