"""Entities by the words of a query, united with those of the names that a model reads out of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from hoptree.core.singleflight import Once
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import both, together
from hoptree.graph.facts import Candidate, Candidates, Entity, Fact
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.link import CANDIDATES, choose_entities, choose_facts, keep_entities, kept_entities, names_in
from hoptree.methods.steps.own_pages import near_title
from hoptree.retrieval.retriever import TITLE
from hoptree.text.loose_json import read_json
from hoptree.text.parse import looks_unanswered, question_key
from hoptree.text.question_tree import Node

__all__ = [
    "Found",
    "GraphNames",
    "IndexedNames",
    "Kinds",
    "MentionLinker",
    "Titles",
    "extract_mentions",
    "find_entities",
    "find_titles",
    "graph_names",
    "keep_entities",
    "knowledge_of",
    "read_mentions",
    "require_sources",
    "united",
]


_EXTRACT_TOKENS = 96
_MENTIONS = 8
"""Names of one query that are looked up."""
_LONGEST = 200
"""Characters of a name."""
_FOUND = 10
"""Entities that the linker gives, and so many that a model's names give."""
_EACH = 5
"""Entities of one name."""
_FITS = 0.5
"""From which score on an entity's name fits one that the model read: below, it shares some words with it."""
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)
_LISTED = re.compile(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)")
_MARKS = " \t\"'“”‘’`*_[]{}"


@dataclass(frozen=True, slots=True)
class IndexedNames:
    """Candidates of a graph whose names are indexed: by whole names, by words of them, as they are or nearly so."""

    ctx: Context
    node: Node | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self.ctx.candidates(mention, whole=True, limit=limit, node=self.node)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self.ctx.candidates(text, whole=False, limit=limit, node=self.node)


@dataclass(frozen=True, slots=True)
class GraphNames:
    """Candidates of a graph that is asked for names as they are: those a text writes with capitals or quotes."""

    ctx: Context
    node: Node | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return _exact(await self.ctx.entities(mention, limit=limit, node=self.node))

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        found = await together(self.ctx.entities(name, limit=_EACH, node=self.node) for name in names_in(text))
        return _exact(united(*found)[:limit])


@dataclass(frozen=True, slots=True)
class Titles:
    """Candidates that need no graph: names that are titles of the corpus.

    A name that the model read may differ from a title as `own_pages` allows; a guess from capitals must be one.
    """

    ctx: Context
    node: Node | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        found = await self._titled(mention)
        if not found and (title := await near_title(self.ctx, mention, node=self.node)):
            found = [Entity("", title, page=title)]
        return _exact(found[:limit])

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        found = await together(map(self._titled, names_in(text)))
        return _exact([one for some in found for one in some][:limit])

    async def _titled(self, name: str) -> list[Entity]:
        page = await self.ctx.titles(name, k=1, where={TITLE: name}, node=self.node)
        return [Entity("", name, page=name)] if page else []


def graph_names(ctx: Context) -> Callable[[Context, Node | None], Candidates]:
    """How the names of the graph at hand are looked up: by its index of them, if it has one."""
    return IndexedNames if ctx.names_indexed else GraphNames


def _exact(entities: Iterable[Entity]) -> tuple[Candidate, ...]:
    return tuple(Candidate(entity, 1.0) for entity in entities)


@dataclass(frozen=True, slots=True)
class Found:
    """What a query may be about: as the linker alone says, and by the names that a model read out of it.

    `fitting` are those of the model's whose names fit what it read.
    """

    linker: tuple[Entity, ...]
    model: tuple[Entity, ...] = ()
    mentions: tuple[str, ...] = ()
    fitting: tuple[Entity, ...] = ()

    @property
    def union(self) -> tuple[Entity, ...]:
        """The linker's, then what the model's names add: mostly nothing, so that it can be foreseen."""
        found: dict[str, Entity] = {}
        for entity in (*self.linker, *self.fitting):
            found.setdefault(_key(entity), entity)
        return tuple(found.values())


class Reading(Protocol):
    """Reads the names of things out of a query."""

    async def __call__(self, ctx: Context, query: str, *, node: Node | None = None) -> tuple[str, ...]: ...


class MentionLinker:
    """A linker of `steps.linking.link`: candidates of the whole query united with those of the model's names.

    Of these the model keeps the most relevant.

    `ahead` begins that last step beside the reading of names, as if these added nothing; where they do, it is done
    again. So the result is the same. It takes a call less in a row, and may cost one more. `read` reads the names, so
    that others can share them.
    """

    def __init__(
        self,
        where: Callable[[Context, Node | None], Candidates],
        *,
        ahead: bool = False,
        read: Reading | None = None,
    ) -> None:
        self._where, self._ahead, self._read = where, ahead, read or extract_mentions

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]:
        candidates = self._where(ctx, node)
        once = Once()

        async def by_text() -> tuple[Candidate, ...]:
            return await once("", lambda: candidates.of_text(query, limit=_FOUND))

        async def shown_of(found: Found) -> tuple[Entity, ...]:
            return await once(("distinct", found.union), lambda: _distinct(ctx, found.union, node))

        async def choose(found: Found) -> tuple[Entity, ...]:
            shown = await shown_of(found)
            return await once(shown, lambda: choose_entities(ctx, query, shown, keep=keep, node=node))

        async def foresee() -> None:
            await choose(Found(tuple(one.entity for one in await by_text())))

        async def read() -> tuple[Entity, ...]:
            said, mentions = await both(by_text(), self._read(ctx, query, node=node))
            found = await _with_names(candidates, said, mentions)
            return kept_entities(ctx, await shown_of(found), await choose(found), node=node)

        return (await both(foresee(), read()))[1] if self._ahead else await read()


async def _distinct(ctx: Context, entities: Sequence[Entity], node: Node | None) -> tuple[Entity, ...]:
    """The entities that one prompt shows, without mere names: those of which the graph knows no fact, nor anything else
    than a label that another entity has, too.
    """
    named = Counter(entity.label for entity in entities)
    bare = [one for one in entities if named[one.label] > 1 and one.id and not (one.aliases or one.description)]
    around = await together(ctx.facts(entity, limit=1, node=node) for entity in bare)
    empty = {one.id for one, found in zip(bare, around, strict=True) if not found.facts}
    kept: dict[str, Entity] = {}
    for entity in entities:
        if entity.id in empty and named[entity.label] > 1:
            named[entity.label] -= 1
        else:
            kept[_key(entity)] = entity
    return tuple(kept.values())[:CANDIDATES]


def united(*groups: Sequence[Entity]) -> tuple[Entity, ...]:
    """The best of each group before the second best of any, each entity once."""
    longest = max(map(len, groups), default=0)
    ranked = [group[place] for place in range(longest) for group in groups if place < len(group)]
    found: dict[str, Entity] = {}
    for entity in ranked:
        found.setdefault(_key(entity), entity)
    return tuple(found.values())


def _key(entity: Entity) -> str:
    return entity.id or entity.label  # a title has no id


async def find_entities(ctx: Context, candidates: Candidates, query: str, *, node: Node | None = None) -> Found:
    """Candidates by the words of a query, and by the names that the model reads out of it."""
    said, mentions = await both(candidates.of_text(query, limit=_FOUND), extract_mentions(ctx, query, node=node))
    return await _with_names(candidates, said, mentions)


async def find_titles(ctx: Context, query: str, read: Reading, *, node: Node | None = None) -> tuple[Entity, ...]:
    """The titles of the corpus that a query names, by its capitals and by the names that `read` gives."""
    titles = Titles(ctx, node)
    said, mentions = await both(titles.of_text(query, limit=_FOUND), read(ctx, query, node=node))
    found = (await _with_names(titles, said, mentions)).union
    ctx.decide("titled", [one.label for one in found], node=node)
    return found


async def _with_names(candidates: Candidates, said: Sequence[Candidate], mentions: tuple[str, ...]) -> Found:
    each = await together(candidates.of_mention(name, limit=_EACH) for name in mentions)
    return Found(
        tuple(one.entity for one in said),
        united(*([one.entity for one in group] for group in each))[:_FOUND],
        mentions,
        united(*([one.entity for one in group if one.score >= _FITS] for group in each))[:_FOUND],
    )


async def extract_mentions(ctx: Context, query: str, *, node: Node | None = None) -> tuple[str, ...]:
    """The names of things in a query, as the model reads them, the main one first."""
    prompt = prompt_for(ctx.method, "mentions").fill(query=query)
    reply = await ctx.generate("mentions", prompt, role="link", max_tokens=_EXTRACT_TOKENS, node=node)
    mentions = read_mentions(reply.text)
    read = bool(mentions or read_json(reply.text).ok or _NONE.match(reply.text))
    ctx.trace.add("parse", step="mentions", ok=read, repairs=[], error="" if read else "no name")
    ctx.decide("mentions", list(mentions), node=node)
    return mentions


def read_mentions(reply: str, *, most: int = _MENTIONS) -> tuple[str, ...]:
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
    return tuple(found.values())[:most]


def _lines(reply: str) -> Iterable[str]:
    for line in reply[: 20 * _LONGEST].splitlines()[: 2 * _MENTIONS]:
        text = _LISTED.sub("", line)
        if not text.rstrip().endswith(":"):  # "The names are:"
            yield from text.rpartition(": ")[2].split(", ")


Kinds = Literal["hybrid", "graph", "text"]
"""Where to look: in both, in the knowledge graph alone, or in the corpus alone."""


def require_sources(ctx: Context, kinds: Kinds) -> None:
    """Refuse to start without a source that is to be asked."""
    if kinds != "text":
        ctx.require_graph(instead="--set evidence=text" if kinds == "hybrid" else "")
    if kinds != "graph":
        ctx.require_corpus(instead="--set evidence=graph" if kinds == "hybrid" else "")


async def knowledge_of(ctx: Context, statement: str, kinds: Kinds, *, keep: int) -> EvidenceBox:
    """What is found for a statement: passages, and facts of as many relations of as many entities."""
    return EvidenceBox(*await both(_passages(ctx, statement, kinds, keep), _facts(ctx, statement, kinds, keep)))


async def _passages(ctx: Context, statement: str, kinds: Kinds, keep: int) -> tuple[Passage, ...]:
    return () if kinds == "graph" else await ctx.search(statement, k=keep)


async def _facts(ctx: Context, statement: str, kinds: Kinds, keep: int) -> tuple[Fact, ...]:
    if kinds == "text":
        return ()
    entities = await MentionLinker(graph_names(ctx)).link(ctx, statement, keep=keep)
    found = await together(ctx.facts(entity) for entity in entities)
    return await choose_facts(ctx, statement, found, keep=keep)
