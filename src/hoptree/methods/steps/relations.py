"""The relations that a question asks for, ranked: by their words, by an encoder, or by the model."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol

from hoptree.core.optional_import import import_optional
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.graph.facts import Entity, Fact, Neighbourhood, Term
from hoptree.graph.linking.relations import Relation, WordRanking
from hoptree.graph.linking.words import FUNCTION_WORDS, name_words, question_words
from hoptree.methods.steps.evidence import show_line
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.retrieval.encoder import Encoder
from hoptree.retrieval.open_encoder import open_encoder
from hoptree.text.parse_relevance import read_numbers
from hoptree.text.question_tree import Node

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_SAMPLE = 3
_LONG = 200
"""Characters of values in one line."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation of an entity with all its facts; `outward` where the entity is their subject."""

    entity: Entity
    relation: str
    outward: bool
    facts: tuple[Fact, ...]

    @property
    def ends(self) -> tuple[Term, ...]:
        """What stands at the other end of each fact."""
        return tuple(fact.object if self.outward else fact.subject for fact in self.facts)

    @property
    def line(self) -> str:
        """The edge in one line, whatever the number of its values."""
        more = f", and {len(self.facts) - _SAMPLE} more" if len(self.facts) > _SAMPLE else ""
        return self._line(", ".join(end.text for end in self.ends[:_SAMPLE])[:_LONG] + more)

    @property
    def open_line(self) -> str:
        """The edge in one line that does not tell where it leads."""
        return self._line("?")

    def _line(self, values: str) -> str:
        parts = (self.entity.label, self.relation, values)
        return " | ".join(parts if self.outward else parts[::-1])


def edges_in(found: Sequence[Neighbourhood], *, known: Collection[Fact] = ()) -> tuple[Edge, ...]:
    """The edges of several entities, without facts that are known already."""
    groups: dict[tuple[str, str, bool], tuple[Entity, list[Fact]]] = {}
    for around in found:
        for fact in around.facts:
            if fact not in known:
                outward = fact.subject.id == around.entity.id
                key = (around.entity.label, fact.relation.text, outward)
                groups.setdefault(key, (around.entity, []))[1].append(fact)
    return tuple(
        Edge(entity, relation, outward, tuple(facts)) for (_, relation, outward), (entity, facts) in groups.items()
    )


_TOKENS = 40
_SHOWN = 60
"""Relations that one prompt shows."""
_NAMES = 9
"""Names of one relation that are encoded: its label and the first aliases."""
_LONGEST = 200
_VALUES = 20
"""Values of one relation that are compared with the query."""
_ALIKE = 4
"""Letters with which words begin alike, at least."""
_IDENTIFIER = re.compile(r"\b(?:ids?|identifiers?)\b", re.IGNORECASE)
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)


class RelationRanking(Protocol):
    """Puts relations in the order in which they may answer a query, `keep` of them at most."""

    async def rank(
        self,
        ctx: Context,
        query: str,
        relations: Sequence[Relation],
        *,
        keep: int,
        entity: Entity | None = None,
        node: Node | None = None,
    ) -> tuple[Relation, ...]: ...


def foremost(edges: Sequence[Edge], query: str, *, most: int) -> tuple[Edge, ...]:
    """The edges that a prompt has room for: all in their order, or else the best of each entity in turn.

    Of one entity those come first whose names, or values, share words with the query; identifiers of outside catalogues
    come last, unless the query asks for one.
    """
    if len(edges) <= most:
        return tuple(edges)
    of_entity: dict[str, list[Edge]] = {}
    for edge in edges:
        of_entity.setdefault(edge.entity.id, []).append(edge)
    in_turn = chain.from_iterable(zip_longest(*(_ranked(some, query) for some in of_entity.values())))
    return tuple(edge for edge in in_turn if edge)[:most]


async def best_edges(
    ctx: Context, ranking: RelationRanking, query: str, edges: Sequence[Edge], *, keep: int, node: Node | None = None
) -> tuple[Edge, ...]:
    """The edges whose relations a ranking puts first, `keep` at most."""
    relations = [Relation(f"{place:06}", edge.relation, outward=edge.outward) for place, edge in enumerate(edges)]
    ranked = await ranking.rank(ctx, query, relations, keep=keep, node=node)
    return tuple(edges[int(one.id)] for one in ranked)


def _ranked(edges: Sequence[Edge], query: str) -> list[Edge]:
    """The edges of one entity for a query, equals by their names."""
    entity = edges[0].entity
    names = (entity.label, *entity.aliases)
    relations = [Relation(str(place), edge.relation) for place, edge in enumerate(edges)]
    by_name = {int(one.id): score for one, score in WordRanking(relations).rank(query, entity=names)}
    known = FUNCTION_WORDS.union(*map(name_words, names))
    said = {word.base for word in question_words(query)} - known
    ids_last = not _IDENTIFIER.search(query)

    def order(place: int) -> tuple[bool, float, str, bool]:
        edge = edges[place]
        by_value = max((_share(name_words(end.text[:_LONGEST]), said) for end in edge.ends[:_VALUES]), default=0.0)
        words = [word for word in name_words(edge.relation.replace("_", " ")) if word not in FUNCTION_WORDS]
        akin = _share(words, {word for word in words for one in said if _akin(word, one)})
        outside = ids_last and _IDENTIFIER.search(edge.relation) is not None
        return outside, -(by_name[place] + by_value + akin), edge.relation, not edge.outward

    return [edges[place] for place in sorted(range(len(edges)), key=order)]


def _share(words: Sequence[str], said: Collection[str]) -> float:
    """The share of words that are said."""
    return sum(word in said for word in words) / len(words) if words else 0.0


def _akin(one: str, other: str) -> bool:
    """Whether two words begin alike, as "directed" and "director" do; stems of such differ."""
    size = max(_ALIKE, ceil(0.7 * min(len(one), len(other))))
    return min(len(one), len(other)) >= size and one[:size] == other[:size]


class ByWords:
    """By the words that the names of a relation share with the query."""

    def __init__(self) -> None:
        self._last: WordRanking | None = None
        self._of: Sequence[Relation] = ()

    async def rank(
        self,
        ctx: Context,
        query: str,
        relations: Sequence[Relation],
        *,
        keep: int,
        entity: Entity | None = None,
        node: Node | None = None,
    ) -> tuple[Relation, ...]:
        if self._last is None or self._of is not relations:  # all relations of a graph are weighed once
            self._last, self._of = WordRanking(relations), relations
        names = (entity.label, *entity.aliases) if entity else ()
        return tuple(one for one, _ in self._last.rank(query, keep, entity=names))


class ByEncoder:
    """By how near the name of a relation, the nearest of several, is to the query in meaning."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def identity(self) -> str:
        return self._encoder.identity

    async def rank(
        self,
        ctx: Context,
        query: str,
        relations: Sequence[Relation],
        *,
        keep: int,
        entity: Entity | None = None,
        node: Node | None = None,
    ) -> tuple[Relation, ...]:
        if not relations:
            return ()
        numpy: Any = import_optional("numpy", "Ranking relations by an encoder", "dense")
        names = [[name.replace("_", " ") for name in one.names[:_NAMES]] for one in relations]
        await self._encode([name for some in names for name in some])
        asked = (await self._encoder.encode([query], role="query"))[0]
        near = [float(numpy.max(numpy.stack([self._vectors[name] for name in some]) @ asked)) for some in names]
        places = sorted(range(len(relations)), key=lambda place: (-round(near[place], 6), relations[place].id))
        return tuple(relations[place] for place in places[:keep])

    async def _encode(self, names: Sequence[str]) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._vectors]
        if new:
            rows = await self._encoder.encode(new, role="passage")
            self._vectors |= dict(zip(new, rows, strict=True))


class BySharedEncoder:
    """By an encoder that all questions of this process share, opened when it is first needed."""

    def __init__(self, spec: str) -> None:
        self._spec = spec

    @property
    def identity(self) -> str:
        """What the order of relations depends on: the encoder's weights and settings."""
        return _shared(self._spec).identity

    async def rank(
        self,
        ctx: Context,
        query: str,
        relations: Sequence[Relation],
        *,
        keep: int,
        entity: Entity | None = None,
        node: Node | None = None,
    ) -> tuple[Relation, ...]:
        if not relations:
            return ()
        shared = await asyncio.to_thread(_shared, self._spec)
        return await shared.rank(ctx, query, relations, keep=keep, entity=entity, node=node)


_OPENING = threading.Lock()


def _shared(spec: str) -> ByEncoder:
    with _OPENING:
        return _opened(spec)


@lru_cache(maxsize=2)
def _opened(spec: str) -> ByEncoder:
    return ByEncoder(open_encoder(spec))


class ByModel:
    """By the model, which names the most helpful ones of a list; of a long one it sees what `first` puts in front."""

    def __init__(self, first: RelationRanking) -> None:
        self._first = first

    async def rank(
        self,
        ctx: Context,
        query: str,
        relations: Sequence[Relation],
        *,
        keep: int,
        entity: Entity | None = None,
        node: Node | None = None,
    ) -> tuple[Relation, ...]:
        if len(relations) < 2:
            return tuple(relations)[:keep]
        shown = await self._first.rank(ctx, query, relations, keep=_SHOWN, entity=entity, node=node)
        about = entity.label if entity else "…"
        lines = (show_line(ctx, _line(about, one), what="relations") for one in shown)
        numbered = "\n".join(f"[{number}] {line}" for number, line in enumerate(lines, 1))
        prompt = prompt_for(ctx.method, "relations").fill(candidates=numbered, query=query, keep=str(keep))
        reply = (await ctx.generate("relations", prompt, role="link", max_tokens=_TOKENS, node=node)).text
        numbers = read_numbers(reply, len(shown))[:keep]
        read = bool(numbers or _NONE.match(reply))
        note_reply(ctx, "relations", "" if read else "no number of the list")
        kept = tuple(shown[number - 1] for number in numbers) if read else shown[:keep]
        ctx.decide("relations", [one.label for one in kept], node=node, candidates=len(relations))
        return kept


def _line(entity: str, relation: Relation) -> str:
    """A relation in one line: entity, relation, and values or else what it means."""
    told = ", ".join(relation.values) or relation.description
    parts = (entity, relation.label, told) if relation.outward else (told, relation.label, entity)
    return " ".join(" | ".join(part[:_LONGEST] for part in parts).split())
