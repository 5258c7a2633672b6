"""What a query is about: the names in it, and which entities and relations of many the model calls relevant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.graph.facts import Entity, Fact, Neighbourhood
from hoptree.methods.steps.evidence import show_line
from hoptree.methods.steps.relations import RelationRanking, best_edges, edges_in, foremost
from hoptree.text.names import fold, name_spans
from hoptree.text.parse import question_key
from hoptree.text.parse_relevance import read_numbers
from hoptree.text.question_tree import Node

MAX_TOKENS = 32
_NAMES = 12
"""Names of one query that are looked up."""
CANDIDATES = 15
"""Entities that one prompt shows."""
_ALIASES = 3
_RELATIONS = 60
"""Relations that one prompt shows."""
_VALUES = 20
"""Facts of one relation that are kept: a list may be what was asked for, but not a whole census."""
_LONGEST = 400
"""Characters of an entity in one line."""
_QUOTED = re.compile(r"[\"“«]([^\"“”«»]{2,80})[\"”»]")
_LONGER = re.compile(r" ([a-z]{3,})\b")
_PARTS = re.compile(r"\s+(?:of|in|from|at|by)\s+(?:the\s+)?")
_NUMBERED = re.compile(r"[ -]\d{1,4}\b(?!,? ?\d)")
_NO_HEADS = frozenset(
    re.findall(
        r"\w+",
        "who whom whose what which when where why how is are was were do does did has have had can could will would "
        "the a an in on at of for to by from with under during this that it he she they his her their its and or",
    )
)
_ARTICLES = ("The", "A", "An")
_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_NO_NAME = re.compile(rf"(?:{_MONTH}(?: \d+)?|(?:mon|tues|wednes|thurs|fri|satur|sun)day|yes|no|.)", re.IGNORECASE)
_WHEN = re.compile(rf"\s+(?:in|on|by|from|since|until)\s+(?:the\s+)?{_MONTH}\b.*", re.IGNORECASE)
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)


class Linker(Protocol):
    """Finds the things that a query is about, the most relevant first, `keep` of them at most."""

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]: ...


def names_in(text: str) -> tuple[str, ...]:
    """The names in a text, each once: what is quoted, capitalised words in a row (with a number behind them), and then
    what else may be meant: parts of "President of the United States", "Apollo program", "Emperor Naruhito" without the
    first word.
    """
    spans = name_spans(text)
    likely = [quoted[1] for quoted in _QUOTED.finditer(text)]
    further = []
    for start, end in spans:
        span = text[start:end]
        numbered = _NUMBERED.match(text, end)
        likely += [text[start : numbered.end()], span] if numbered else [span]
        parts = _PARTS.split(span)
        further += parts if len(parts) > 1 else []
        longer = _LONGER.match(text, end)
        if longer and longer[1] not in _NO_HEADS and _bare(span) == span:
            further.append(text[start : longer.end()])
        further += [" ".join(span.split()[1:])] if len(parts) == 1 else []
    found: dict[str, str] = {}
    for name in (one for written in (*likely, *further) for one in (_bare(written, article=True), _bare(written))):
        key = question_key(name)
        if key and not _NO_NAME.fullmatch(key):
            found.setdefault(key, name)
    return tuple(found.values())[:_NAMES]


def _bare(name: str, *, article: bool = False) -> str:
    """A name without what stands before it, when it was, and whose it is; with its article, if that is a part of it."""
    words = _WHEN.sub("", re.sub(r"['’]s\b", "", name)).strip(" .,'’").split()
    while words and words[0].casefold() in _NO_HEADS:
        if article and words[0] in _ARTICLES and len(words) > 1:
            break
        words = words[1:]
    return " ".join(words)


async def keep_entities(
    ctx: Context, query: str, candidates: Sequence[Entity], *, keep: int, node: Node | None = None
) -> tuple[Entity, ...]:
    """The entities that the model calls most relevant, `keep` at most and in its order; all where there are no more.

    A reply that names none, and does not say so, keeps the first ones.
    """
    shown = tuple(candidates[:CANDIDATES])
    return kept_entities(ctx, shown, await choose_entities(ctx, query, shown, keep=keep, node=node), node=node)


async def choose_entities(
    ctx: Context, query: str, shown: Sequence[Entity], *, keep: int, node: Node | None = None
) -> tuple[Entity, ...]:
    """As `keep_entities`, of all that are given, and nothing is recorded but the call."""
    if len(shown) <= keep:
        return tuple(shown)
    places = await _chosen(ctx, "entities", query, _entity_lines(shown), keep, node)
    return tuple(shown[place] for place in places)


def kept_entities(
    ctx: Context, shown: Sequence[Entity], kept: tuple[Entity, ...], *, node: Node | None = None
) -> tuple[Entity, ...]:
    """Record which of the entities that were shown are kept."""
    ctx.decide(
        "linked",
        [one.label for one in kept],
        node=node,
        ids=[one.id for one in kept],
        candidates=[one.label for one in shown],
    )
    return kept


def _entity_lines(entities: Sequence[Entity]) -> list[str]:
    """A line an entity; those that would read alike are told apart by their ids."""
    lines = list(map(_entity_line, entities))
    alike = Counter(map(fold, lines))
    return [
        f"{line} (id {entity.id})" if alike[fold(line)] > 1 and entity.id else line
        for line, entity in zip(lines, entities, strict=True)
    ]


def _entity_line(entity: Entity) -> str:
    """An entity in one line: what it is called and what it is."""
    others = f" (also {', '.join(entity.aliases[:_ALIASES])})" if entity.aliases else ""
    told = f"{entity.label}{others}" + (f": {entity.description}" if entity.description else "")
    return " ".join(told.split())[:_LONGEST]


async def choose_facts(
    ctx: Context,
    query: str,
    found: Sequence[Neighbourhood],
    *,
    keep: int,
    ranking: RelationRanking | None = None,
    node: Node | None = None,
) -> tuple[Fact, ...]:
    """The facts whose relations the model calls relevant, or a `ranking` puts first, `keep` at most; all of no more.

    Of more relations than a prompt has room for, the model sees those that share words with the query, of each entity
    in turn.
    """
    edges = edges_in(found)
    if len(edges) <= keep:
        kept = edges
    elif ranking:
        kept = await best_edges(ctx, ranking, query, edges, keep=keep, node=node)
    else:
        shown = foremost(edges, query, most=_RELATIONS)
        places = await _chosen(ctx, "relations", query, [edge.line for edge in shown], keep, node)
        kept = tuple(shown[place] for place in places)
    ctx.decide("relations", [[edge.entity.label, edge.relation] for edge in kept], node=node, candidates=len(edges))
    return tuple(dict.fromkeys(fact for edge in kept for fact in edge.facts[:_VALUES]))


async def _chosen(
    ctx: Context, step: str, query: str, lines: Sequence[str], keep: int, node: Node | None
) -> tuple[int, ...]:
    """The places of the lines that the model names; the first ones where its reply names none and does not say so."""
    numbered = "\n".join(f"[{number}] {show_line(ctx, line, what=step)}" for number, line in enumerate(lines, 1))
    prompt = prompt_for(ctx.method, step).fill(candidates=numbered, query=query, keep=str(keep))
    reply = (await ctx.generate(step, prompt, role="link", max_tokens=MAX_TOKENS, node=node)).text
    numbers = read_numbers(reply, len(lines))[:keep]
    read = bool(numbers or _NONE.match(reply))
    ctx.trace.add("parse", step=step, ok=read, repairs=[], error="" if read else "no number of the list")
    if not read:
        return tuple(range(min(keep, len(lines))))
    return tuple(number - 1 for number in numbers)
