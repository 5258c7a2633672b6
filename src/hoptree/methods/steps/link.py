"""Find the names, entities and relations that a query is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.graph.facts import Entity, Fact, Neighbourhood
from hoptree.methods.steps.relations import (
    RelationRanking,
    RelationsChosen,
    best_edges,
    choose_lines,
    edges_in,
    foremost,
)
from hoptree.text.names import fold, name_spans
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node
from hoptree.text.word_classes import word_set

MAX_CANDIDATES = 15  # entities that one prompt shows
_CHOICE_TOKENS = 32
_MAX_NAMES = 12  # of one query that are looked up
_MAX_ALIASES = 3
_MAX_RELATIONS = 60  # that one prompt shows
_MAX_RELATION_FACTS = 20  # a list may be what was asked for, but not a whole census
_MAX_LINE_CHARS = 400
_QUOTED = lazy_re(r"[\"“«]([^\"“”«»]{2,80})[\"”»]")
_NEXT_WORD = lazy_re(r" ([a-z]{3,})\b")
_PARTS = lazy_re(r"\s+(?:of|in|from|at|by)\s+(?:the\s+)?")
_NUMBERED = lazy_re(r"[ -]\d{1,4}\b(?!,? ?\d)")
_NO_HEADS = word_set(
    "who whom whose what which when where why how is are was were do does did has have had can could will would "
    "the a an in on at of for to by from with under during this that it he she they his her their its and or"
)
_ARTICLES = ("The", "A", "An")
_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_NO_NAME = lazy_re(rf"(?:{_MONTH}(?: \d+)?|(?:mon|tues|wednes|thurs|fri|satur|sun)day|yes|no|.)", re.IGNORECASE)
_WHEN = lazy_re(rf"\s+(?:in|on|by|from|since|until)\s+(?:the\s+)?{_MONTH}\b.*", re.IGNORECASE)


@decision("linked")
class EntitiesLinked(Decision):
    """The entities that a query is about, by label and id, of all `candidates`."""

    value: list[str]
    ids: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text, then what else may be meant: parts of "President of the United States"."""
    likely = [quoted[1] for quoted in _QUOTED.finditer(text)]
    further = []
    for start, end in name_spans(text):
        span = text[start:end]
        numbered = _NUMBERED.match(text, end)
        likely += [text[start : numbered.end()], span] if numbered else [span]
        parts = _PARTS.split(span)
        further += parts if len(parts) > 1 else []
        longer = _NEXT_WORD.match(text, end)
        if longer and longer[1] not in _NO_HEADS and _bare(span) == span:
            further.append(text[start : longer.end()])
        further += [" ".join(span.split()[1:])] if len(parts) == 1 else []
    names: dict[str, str] = {}
    for name in (form for span in (*likely, *further) for form in (_bare(span, article=True), _bare(span))):
        key = question_key(name)
        if key and not _NO_NAME.fullmatch(key):
            names.setdefault(key, name)
    return tuple(names.values())[:_MAX_NAMES]


def _bare(name: str, *, article: bool = False) -> str:
    """Return a name without leading function words, dates and possessives."""
    words = _WHEN.sub("", re.sub(r"['’]s\b", "", name)).strip(" .,'’").split()
    while words and words[0].casefold() in _NO_HEADS:
        if article and words[0] in _ARTICLES and len(words) > 1:
            break
        words = words[1:]
    return " ".join(words)


async def keep_entities(
    ctx: Context, query: str, candidates: Sequence[Entity], *, keep: int, node: Node | None = None
) -> tuple[Entity, ...]:
    """Return the `keep` entities that the model finds most relevant; the first ones if its reply is unreadable."""
    shown = tuple(candidates[:MAX_CANDIDATES])
    return record_linked(ctx, shown, await choose_entities(ctx, query, shown, keep=keep, node=node), node=node)


async def choose_entities(
    ctx: Context, query: str, shown: Sequence[Entity], *, keep: int, node: Node | None = None
) -> tuple[Entity, ...]:
    """As `keep_entities`, of all that are given, and without a record of the choice."""
    if len(shown) <= keep:
        return tuple(shown)
    places = await choose_lines(ctx, "entities", query, _entity_lines(shown), keep, tokens=_CHOICE_TOKENS, node=node)
    return tuple(shown[place] for place in places)


def record_linked(
    ctx: Context, shown: Sequence[Entity], kept: tuple[Entity, ...], *, node: Node | None = None
) -> tuple[Entity, ...]:
    labels, ids = [entity.label for entity in kept], [entity.id for entity in kept]
    ctx.emit(EntitiesLinked(value=labels, ids=ids, candidates=[entity.label for entity in shown]), node=node)
    return kept


def _entity_lines(entities: Sequence[Entity]) -> list[str]:
    """Return a line for each entity, with ids where needed."""
    lines = []
    for entity in entities:
        aliases = f" (also {', '.join(entity.aliases[:_MAX_ALIASES])})" if entity.aliases else ""
        line = f"{entity.label}{aliases}" + (f": {entity.description}" if entity.description else "")
        lines.append(" ".join(line.split())[:_MAX_LINE_CHARS])
    counts = Counter(map(fold, lines))
    return [
        f"{line} (id {entity.id})" if counts[fold(line)] > 1 and entity.id else line
        for line, entity in zip(lines, entities, strict=True)
    ]


async def choose_facts(
    ctx: Context,
    query: str,
    neighbourhoods: Sequence[Neighbourhood],
    *,
    keep: int,
    ranking: RelationRanking | None = None,
    node: Node | None = None,
) -> tuple[Fact, ...]:
    """Return facts of the `keep` relations that the model or `ranking` prefers, of those that fit a prompt."""
    edges = edges_in(neighbourhoods)
    if len(edges) <= keep:
        kept = edges
    elif ranking:
        kept = await best_edges(ctx, ranking, query, edges, keep=keep)
    else:
        shown = foremost(edges, query, most=_MAX_RELATIONS)
        lines = [edge.line for edge in shown]
        places = await choose_lines(ctx, "relations", query, lines, keep, tokens=_CHOICE_TOKENS, node=node)
        kept = tuple(shown[place] for place in places)
    chosen = [[edge.entity.label, edge.relation] for edge in kept]
    ctx.emit(RelationsChosen(value=chosen, candidates=len(edges)), node=node)
    return tuple(dict.fromkeys(fact for edge in kept for fact in edge.facts[:_MAX_RELATION_FACTS]))
