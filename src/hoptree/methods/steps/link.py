"""Find the entities and relations of a query: by words, an encoder or a model."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, zip_longest
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

from hoptree.core.lazy import import_optional, lazy_re
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import number_lines, prompt_for, show_line
from hoptree.graph.facts import Entity, Fact, Neighbourhood, Term
from hoptree.graph.relation_linking import FUNCTION_WORDS, Relation, WordRanking, name_words, question_words
from hoptree.methods.steps.answer import note_reply
from hoptree.retrieval.encoder import Encoder, open_encoder
from hoptree.text.names import fold, name_spans, word_set
from hoptree.text.parse import question_key
from hoptree.text.parse_labels import read_numbers
from hoptree.text.question_tree import Node

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_VALUES_SHOWN = 3
_MAX_VALUES_CHARS = 200
_RANKING_TOKENS = 40
_MAX_RELATIONS = 60  # in one prompt
_MAX_NAMES = 9  # encoded names of a relation: its label and the first aliases
_MAX_PART_CHARS = 200
_MAX_VALUES_COMPARED = 20
_MIN_STEM_CHARS = 4
_IDENTIFIER = re.compile(r"\b(?:ids?|identifiers?)\b", re.IGNORECASE)
NONE_NAMED = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)  # a reply that says that nothing fits


@decision("relations")
class RelationsChosen(Decision):
    """The relations that were kept, of `candidates` in all."""

    value: list[str] | list[list[str]]
    candidates: int


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation of an entity with all its facts."""

    entity: Entity
    relation: str
    outward: bool
    facts: tuple[Fact, ...]

    @property
    def ends(self) -> tuple[Term, ...]:
        """The other end of each fact."""
        return tuple(fact.object if self.outward else fact.subject for fact in self.facts)

    @property
    def line(self) -> str:
        """The edge in one line, with its first values."""
        more = f", and {len(self.facts) - _MAX_VALUES_SHOWN} more" if len(self.facts) > _MAX_VALUES_SHOWN else ""
        return self._line(", ".join(end.text for end in self.ends[:_MAX_VALUES_SHOWN])[:_MAX_VALUES_CHARS] + more)

    @property
    def open_line(self) -> str:
        """The edge in one line, without its ends."""
        return self._line("?")

    def _line(self, values: str) -> str:
        parts = (self.entity.label, self.relation, values)
        return " | ".join(parts if self.outward else parts[::-1])


def edges_in(neighbourhoods: Sequence[Neighbourhood], *, known: Collection[Fact] = ()) -> tuple[Edge, ...]:
    """Group facts around several entities by relation, without `known` ones."""
    groups: dict[tuple[str, str, bool], tuple[Entity, list[Fact]]] = {}
    for around in neighbourhoods:
        for fact in around.facts:
            if fact not in known:
                outward = fact.subject.id == around.entity.id
                key = (around.entity.label, fact.relation.text, outward)
                groups.setdefault(key, (around.entity, []))[1].append(fact)
    return tuple(
        Edge(entity, relation, outward, tuple(facts)) for (_, relation, outward), (entity, facts) in groups.items()
    )


class RelationRanking(Protocol):
    """Ranks relations by relevance to a query, and returns the `keep` best."""

    async def rank(
        self, ctx: Context, query: str, relations: Sequence[Relation], *, keep: int, entity: Entity | None = None
    ) -> tuple[Relation, ...]: ...


def foremost(edges: Sequence[Edge], query: str, *, most: int) -> tuple[Edge, ...]:
    """Return at most `most` edges for a prompt: the best of each entity in turn."""
    if len(edges) <= most:
        return tuple(edges)
    of_entity: dict[str, list[Edge]] = {}
    for edge in edges:
        of_entity.setdefault(edge.entity.id, []).append(edge)
    in_turn = chain.from_iterable(zip_longest(*(_ranked(group, query) for group in of_entity.values())))
    return tuple(edge for edge in in_turn if edge)[:most]


async def best_edges(
    ctx: Context, ranking: RelationRanking, query: str, edges: Sequence[Edge], *, keep: int
) -> tuple[Edge, ...]:
    """Return the edges whose relations a ranking puts first, `keep` at most."""
    relations = [Relation(f"{place:06}", edge.relation, outward=edge.outward) for place, edge in enumerate(edges)]
    ranked = await ranking.rank(ctx, query, relations, keep=keep)
    return tuple(edges[int(relation.id)] for relation in ranked)


def _ranked(edges: Sequence[Edge], query: str) -> list[Edge]:
    """Rank the edges of one entity for a query, equals by their names."""
    entity = edges[0].entity
    names = (entity.label, *entity.aliases)
    relations = [Relation(str(place), edge.relation) for place, edge in enumerate(edges)]
    by_name = {int(match.id): score for match, score in WordRanking(relations).rank(query, entity=names)}
    asked = {word.base for word in question_words(query)} - FUNCTION_WORDS.union(*map(name_words, names))
    ids_last = not _IDENTIFIER.search(query)

    def order(place: int) -> tuple[bool, float, str, bool]:
        edge = edges[place]
        by_value = max(
            (_share(name_words(end.text[:_MAX_PART_CHARS]), asked) for end in edge.ends[:_MAX_VALUES_COMPARED]),
            default=0.0,
        )
        words = [word for word in name_words(edge.relation.replace("_", " ")) if word not in FUNCTION_WORDS]
        akin = _share(words, {word for word in words for other in asked if _akin(word, other)})
        outside = ids_last and _IDENTIFIER.search(edge.relation) is not None
        return outside, -(by_name[place] + by_value + akin), edge.relation, not edge.outward

    return [edges[place] for place in sorted(range(len(edges)), key=order)]


def _share(words: Sequence[str], asked: Collection[str]) -> float:
    return sum(word in asked for word in words) / len(words) if words else 0.0


def _akin(word: str, other: str) -> bool:
    """Return whether two words have the same beginning."""
    shorter = min(len(word), len(other))
    size = max(_MIN_STEM_CHARS, ceil(0.7 * shorter))
    return shorter >= size and word[:size] == other[:size]


class ByWords:
    """Ranks by the words that the names of a relation share with the query."""

    def __init__(self) -> None:
        self._last: WordRanking | None = None
        self._of: Sequence[Relation] = ()

    async def rank(
        self, ctx: Context, query: str, relations: Sequence[Relation], *, keep: int, entity: Entity | None = None
    ) -> tuple[Relation, ...]:
        if self._last is None or self._of is not relations:  # weighs all relations of a graph only once
            self._last, self._of = WordRanking(relations), relations
        names = (entity.label, *entity.aliases) if entity else ()
        return tuple(relation for relation, _ in self._last.rank(query, keep, entity=names))


class ByEncoder:
    """Ranks by the similarity of the nearest name of a relation to the query."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def identity(self) -> str:
        return self._encoder.identity

    async def rank(
        self, ctx: Context, query: str, relations: Sequence[Relation], *, keep: int, entity: Entity | None = None
    ) -> tuple[Relation, ...]:
        if not relations:
            return ()
        numpy: Any = import_optional("numpy", "Ranking relations by an encoder", "dense")
        names = [[name.replace("_", " ") for name in relation.names[:_MAX_NAMES]] for relation in relations]
        new = list(dict.fromkeys(name for group in names for name in group if name not in self._vectors))
        if new:
            rows = await self._encoder.encode(new, role="passage")
            self._vectors |= dict(zip(new, rows, strict=True))
        asked = (await self._encoder.encode([query], role="query"))[0]
        near = [float(numpy.max(numpy.stack([self._vectors[name] for name in group]) @ asked)) for group in names]
        places = sorted(range(len(relations)), key=lambda place: (-round(near[place], 6), relations[place].id))
        return tuple(relations[place] for place in places[:keep])


class BySharedEncoder:
    """Ranks by an encoder that all questions share, opened when needed."""

    def __init__(self, spec: str) -> None:
        self._spec = spec

    @property
    def identity(self) -> str:
        """The encoder's weights and settings, on which the order depends."""
        return _shared(self._spec).identity

    async def rank(
        self, ctx: Context, query: str, relations: Sequence[Relation], *, keep: int, entity: Entity | None = None
    ) -> tuple[Relation, ...]:
        if not relations:
            return ()
        shared = await asyncio.to_thread(_shared, self._spec)
        return await shared.rank(ctx, query, relations, keep=keep, entity=entity)


_opening = threading.Lock()


def _shared(spec: str) -> ByEncoder:
    with _opening:
        return _open(spec)


@lru_cache(maxsize=2)
def _open(spec: str) -> ByEncoder:
    return ByEncoder(open_encoder(spec))


class ByModel:
    """Ranks by the model, which chooses among the best of another ranking."""

    def __init__(self, first: RelationRanking) -> None:
        self._first = first

    async def rank(
        self, ctx: Context, query: str, relations: Sequence[Relation], *, keep: int, entity: Entity | None = None
    ) -> tuple[Relation, ...]:
        if len(relations) < 2:
            return tuple(relations)[:keep]
        shown = await self._first.rank(ctx, query, relations, keep=_MAX_RELATIONS, entity=entity)
        about = entity.label if entity else "…"
        lines = [_line(about, relation) for relation in shown]
        places = await choose_lines(ctx, "relations", query, lines, keep, tokens=_RANKING_TOKENS)
        kept = tuple(shown[place] for place in places)
        ctx.emit(RelationsChosen(value=[relation.label for relation in kept], candidates=len(relations)))
        return kept


async def choose_lines(
    ctx: Context, step: str, query: str, lines: Sequence[str], keep: int, *, tokens: int, node: Node | None = None
) -> tuple[int, ...]:
    """Return the places of the lines that the model names, or the first ones."""
    numbered = number_lines(show_line(ctx, line, what=step) for line in lines)
    prompt = prompt_for(ctx.method, step).fill(candidates=numbered, query=query, keep=str(keep))
    reply = (await ctx.generate(step, prompt, role="link", max_tokens=tokens, node=node)).text
    numbers = read_numbers(reply, len(lines))[:keep]
    read = bool(numbers or NONE_NAMED.match(reply))
    note_reply(ctx, step, "" if read else "no number of the list")
    return tuple(number - 1 for number in numbers) if read else tuple(range(min(keep, len(lines))))


def _line(entity: str, relation: Relation) -> str:
    values = ", ".join(relation.values) or relation.description
    parts = (entity, relation.label, values) if relation.outward else (values, relation.label, entity)
    return " ".join(" | ".join(part[:_MAX_PART_CHARS] for part in parts).split())


MAX_CANDIDATES = 15  # entities in one prompt
_CHOICE_TOKENS = 32
_MAX_LOOKED_UP = 12  # names of one query
_MAX_ALIASES = 3
_MAX_RELATION_FACTS = 20  # enough for a list that was asked for, but not for a whole census
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
    """The entities that a query is about, by label and id, of the `candidates`."""

    value: list[str]
    ids: list[str] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a text, then parts of them that may be the actual names."""
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
    return tuple(names.values())[:_MAX_LOOKED_UP]


def _bare(name: str, *, article: bool = False) -> str:
    """Return a name without leading function words, dates and possessives."""
    words = _WHEN.sub("", re.sub(r"['’]s\b", "", name)).strip(" .,'’").split()
    while words and words[0].casefold() in _NO_HEADS:
        if article and words[0] in _ARTICLES and len(words) > 1:
            break
        words = words[1:]
    return " ".join(words)


async def keep_entities(ctx: Context, query: str, candidates: Sequence[Entity], *, keep: int) -> tuple[Entity, ...]:
    """Return and record the `keep` entities that the model prefers, or the first ones."""
    shown = tuple(candidates[:MAX_CANDIDATES])
    return record_linked(ctx, shown, await choose_entities(ctx, query, shown, keep=keep))


async def choose_entities(
    ctx: Context, query: str, shown: Sequence[Entity], *, keep: int, node: Node | None = None
) -> tuple[Entity, ...]:
    """Return the `keep` entities that the model prefers, without recording them."""
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
    """Return facts of the `keep` relations that the model or `ranking` prefers."""
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
