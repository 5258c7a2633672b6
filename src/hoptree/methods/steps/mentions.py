"""Link a query to entities, and find evidence about them in graph and corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import SingleFlight, both, together
from hoptree.graph.entity_linking import MentionModel, MentionModelCandidates
from hoptree.graph.facts import Candidate, Candidates, Entity, Fact
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.evidence_box import EvidenceBox, Verdict
from hoptree.methods.steps.link import (
    MAX_CANDIDATES,
    NONE_NAMED,
    RelationRanking,
    choose_entities,
    choose_facts,
    names_in,
    record_linked,
)
from hoptree.retrieval.retriever import TITLE
from hoptree.text.loose_json import read_json
from hoptree.text.names import fold
from hoptree.text.parse import looks_unanswered, question_key
from hoptree.text.question_tree import Node

_MAX_TITLES = 5  # results among which a near title is searched for; search weighs titles more than texts
_BRACKET = re.compile(r"\s*\([^()]*\)\Z")


async def own_page(
    ctx: Context, entity: Entity, query: str, *, k: int, node: Node | None = None
) -> tuple[Passage, ...]:
    """Return the best passages of the entity's page, by title or name."""
    for title in dict.fromkeys(filter(None, (entity.page, entity.label))):
        if passages := await ctx.search(query, k=k, where={TITLE: title}, node=node):
            return passages
    title = await near_title(ctx, entity.page or entity.label, node=node)
    # With the title, the query finds the page even if they share no other word.
    return await ctx.search(f"{query} {title}", k=k, where={TITLE: title}, node=node) if title else ()


async def near_title(ctx: Context, name: str, *, node: Node | None = None) -> str:
    """Return the title that equals a name but for case, accents or one bracket."""
    wanted = fold(name)
    if not wanted:
        return ""
    nearest = await ctx.titles(name, k=_MAX_TITLES, node=node)
    titles = list(dict.fromkeys(title.split(" › ")[0] for title in nearest))
    same = [title for title in titles if fold(title) == wanted]
    bracketed = [title for title in titles if fold(_BRACKET.sub("", title)) == wanted]
    return same[0] if same else bracketed[0] if len(bracketed) == 1 else ""


EvidenceKinds = Literal["hybrid", "graph", "text"]  # where to look

_MENTION_TOKENS = 96
_MAX_MENTIONS = 8
_MAX_NAME_CHARS = 200
_MAX_ENTITIES = 10  # by the words of a query, and again by the names that a model reads
_MAX_ENTITIES_PER_NAME = 5
_MIN_NAME_SCORE = 0.5  # with less, an entity only shares some words with the name
_LIST_MARK = lazy_re(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)")
_QUOTES = " \t\"'“”‘’`*_[]{}"


@decision("mentions")
class MentionsRead(Decision):
    """The names that the model extracted from a query."""

    value: list[str]


@decision("titled")
class TitlesNamed(Decision):
    """The titles of the corpus that a query names."""

    value: list[str]


def require_sources(ctx: Context, kinds: EvidenceKinds) -> None:
    """Raise if a source that the options need is missing."""
    if kinds != "text":
        ctx.require_graph(instead="--set evidence=text" if kinds == "hybrid" else "")
    if kinds != "graph":
        ctx.require_corpus(instead="--set evidence=graph" if kinds == "hybrid" else "")


@dataclass(frozen=True, slots=True)
class IndexedNames:
    """Candidates of a graph with an index of names, exact or similar."""

    ctx: Context
    node: Node | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self.ctx.candidates(mention, is_name=True, limit=limit, node=self.node)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self.ctx.candidates(text, is_name=False, limit=limit, node=self.node)


@dataclass(frozen=True, slots=True)
class GraphNames:
    """Candidates of a graph without an index: exact names only."""

    ctx: Context
    node: Node | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return _exact(await self.ctx.entities(mention, limit=limit, node=self.node))

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        groups = await together(
            self.ctx.entities(name, limit=_MAX_ENTITIES_PER_NAME, node=self.node) for name in names_in(text)
        )
        return _exact(interleave(*groups)[:limit])


@dataclass(frozen=True, slots=True)
class Titles:
    """Candidates without a graph: titles, which may be similar to an extracted name."""

    ctx: Context
    node: Node | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        entities = await self._titled(mention)
        if not entities and (title := await near_title(self.ctx, mention, node=self.node)):
            entities = [Entity("", title, page=title)]
        return _exact(entities[:limit])

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        groups = await together(map(self._titled, names_in(text)))
        return _exact([entity for group in groups for entity in group][:limit])

    async def _titled(self, name: str) -> list[Entity]:
        page = await self.ctx.titles(name, k=1, where={TITLE: name}, node=self.node)
        return [Entity("", name, page=name)] if page else []


_Names = Callable[[Context, Node | None], Candidates]


def graph_names(ctx: Context) -> _Names:
    """Return the class that looks up names in the graph at hand."""
    return IndexedNames if ctx.names_indexed else GraphNames


def _exact(entities: Iterable[Entity]) -> tuple[Candidate, ...]:
    return tuple(Candidate(entity, 1.0) for entity in entities)


@dataclass(frozen=True, slots=True)
class EntityCandidates:
    """Candidates of a query: by its words (`linker`), and by the `model`."""

    linker: tuple[Entity, ...]
    model: tuple[Entity, ...] = ()
    mentions: tuple[str, ...] = ()
    fitting: tuple[Entity, ...] = ()

    @property
    def union(self) -> tuple[Entity, ...]:
        """The linker's candidates, then what the model's names add."""
        return _once((*self.linker, *self.fitting))


MentionReader = Callable[
    [Context, str, Node | None], Coroutine[Any, Any, tuple[str, ...]]
]  # reads the names out of a query


class MentionLinker:
    """Links a query to entities by its words and the model's names.

    With `ahead`, it chooses among the entities of the words while the names are read, and again if the names add some:
    one call less in sequence, maybe one more in all.
    """

    def __init__(self, where: _Names, *, ahead: bool = False, read: MentionReader | None = None) -> None:
        self._where, self._ahead, self._read = where, ahead, read or extract_mentions

    async def link(self, ctx: Context, query: str, *, keep: int, node: Node | None = None) -> tuple[Entity, ...]:
        candidates = self._where(ctx, node)
        once = SingleFlight()

        async def by_words() -> tuple[Candidate, ...]:
            return await once("", lambda: candidates.of_text(query, limit=_MAX_ENTITIES))

        async def distinct(gathered: EntityCandidates) -> tuple[Entity, ...]:
            return await once(("distinct", gathered.union), lambda: _distinct(ctx, gathered.union, node))

        async def choose(gathered: EntityCandidates) -> tuple[Entity, ...]:
            shown = await distinct(gathered)
            return await once(shown, lambda: choose_entities(ctx, query, shown, keep=keep, node=node))

        async def foresee() -> None:
            await choose(EntityCandidates(tuple(candidate.entity for candidate in await by_words())))

        async def link() -> tuple[Entity, ...]:
            words, mentions = await both(by_words(), self._read(ctx, query, node))
            gathered = await _add_mentioned(candidates, words, mentions)
            return record_linked(ctx, await distinct(gathered), await choose(gathered), node=node)

        return (await both(foresee(), link()))[1] if self._ahead else await link()


async def _distinct(ctx: Context, entities: Sequence[Entity], node: Node | None) -> tuple[Entity, ...]:
    """Return the entities for one prompt, without namesakes that have no facts."""
    counts = Counter(entity.label for entity in entities)
    bare = [e for e in entities if counts[e.label] > 1 and e.id and not (e.aliases or e.description)]
    around = await together(ctx.facts(entity, limit=1, node=node) for entity in bare)
    empty = {entity.id for entity, neighbourhood in zip(bare, around, strict=True) if not neighbourhood.facts}
    kept: dict[str, Entity] = {}
    for entity in entities:
        if entity.id in empty and counts[entity.label] > 1:
            counts[entity.label] -= 1
        else:
            kept[entity.id or entity.label] = entity
    return tuple(kept.values())[:MAX_CANDIDATES]


def interleave(*groups: Sequence[Entity]) -> tuple[Entity, ...]:
    """Return the best of each group before the second best of any, each entity once."""
    return _once(entity for rank in zip_longest(*groups) for entity in rank if entity)


def _once(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    kept: dict[str, Entity] = {}
    for entity in entities:
        kept.setdefault(entity.id or entity.label, entity)  # a title has no id
    return tuple(kept.values())


async def find_entities(ctx: Context, candidates: Candidates, query: str) -> EntityCandidates:
    """Find candidates by the words of a query, and by the model's names."""
    words, mentions = await both(candidates.of_text(query, limit=_MAX_ENTITIES), extract_mentions(ctx, query))
    return await _add_mentioned(candidates, words, mentions)


async def find_titles(ctx: Context, query: str, read: MentionReader, *, node: Node | None = None) -> tuple[Entity, ...]:
    """Find the titles that a query names, by its capitals and by `read`."""
    titles = Titles(ctx, node)
    words, mentions = await both(titles.of_text(query, limit=_MAX_ENTITIES), read(ctx, query, node))
    entities = (await _add_mentioned(titles, words, mentions)).union
    ctx.emit(TitlesNamed(value=[entity.label for entity in entities]), node=node)
    return entities


async def _add_mentioned(
    candidates: Candidates, words: Sequence[Candidate], mentions: tuple[str, ...]
) -> EntityCandidates:
    groups = await together(candidates.of_mention(name, limit=_MAX_ENTITIES_PER_NAME) for name in mentions)
    fitting = ([c.entity for c in group if c.score >= _MIN_NAME_SCORE] for group in groups)
    return EntityCandidates(
        tuple(candidate.entity for candidate in words),
        interleave(*([candidate.entity for candidate in group] for group in groups))[:_MAX_ENTITIES],
        mentions,
        interleave(*fitting)[:_MAX_ENTITIES],
    )


async def extract_mentions(ctx: Context, query: str, node: Node | None = None) -> tuple[str, ...]:
    """Return the names of things in a query, by the model."""
    prompt = prompt_for(ctx.method, "mentions").fill(query=query)
    reply = await ctx.generate("mentions", prompt, role="link", max_tokens=_MENTION_TOKENS, node=node)
    mentions = read_mentions(reply.text)
    read = mentions or read_json(reply.text).ok or NONE_NAMED.match(reply.text)
    note_reply(ctx, "mentions", "" if read else "no name")
    ctx.emit(MentionsRead(value=list(mentions)), node=node)
    return mentions


def read_mentions(reply: str) -> tuple[str, ...]:
    """Read the names in a reply: of a JSON list, or of lines and commas."""
    value = read_json(reply).value
    if isinstance(value, dict):
        value = [item for part in value.values() for item in (part if isinstance(part, list) else [part])]
    names: dict[str, str] = {}
    for item in value if isinstance(value, list) else _listed(reply):
        if isinstance(item, dict):  # a name with what it is
            item = next((text for text in item.values() if isinstance(text, str)), "")
        named = isinstance(item, str) or type(item) is int  # a film's title may be a number, but bool is an int too
        name = " ".join(str(item).split()).strip(_QUOTES) if named else ""
        usable = question_key(name) and len(name) <= _MAX_NAME_CHARS
        if usable and not looks_unanswered(name) and not NONE_NAMED.fullmatch(name):
            names.setdefault(question_key(name), name)
    return tuple(names.values())[:_MAX_MENTIONS]


def _listed(reply: str) -> Iterable[str]:
    for line in reply[: 20 * _MAX_NAME_CHARS].splitlines()[: 2 * _MAX_MENTIONS]:
        text = _LIST_MARK.sub("", line)
        if not text.rstrip().endswith(":"):  # "The names are:"
            yield from text.rpartition(": ")[2].split(", ")


_SEARCHED = 5  # passages of a search in the whole corpus
_YES_OR_NO = re.compile(r"(?<=\?) (?:yes|no)\.?\Z", re.IGNORECASE)  # a hypothesis without words to search for


Wanted = Callable[[], bool]  # returns whether work in progress is still of use


@dataclass(frozen=True, slots=True)
class Ahead:
    """The `Wanted` of speculative work; `refuted` is called before a rebuild."""

    wanted: Wanted
    refuted: Callable[[Verdict], None]

    def __call__(self) -> bool:
        return self.wanted()


@dataclass(frozen=True, slots=True)
class Kept:
    """How many entities, relations and passages are kept."""

    entities: int
    relations: int
    passages: int


PRESETS = {"paper": Kept(3, 3, 3), "code": Kept(2, 1, 2)}


class Sources:
    """RetrieveEvidence: entities of a query, their facts and pages; cached.

    A `reader` marks names in the query, which replace its words; a `ranking` chooses relations instead of the model.
    Unlike the paper, `whole_corpus` searches all passages for a query that names no page.
    """

    def __init__(
        self,
        ctx: Context,
        kinds: EvidenceKinds,
        kept: Kept,
        *,
        reader: MentionModel | None = None,
        ranking: RelationRanking | None = None,
        whole_corpus: bool = True,
    ) -> None:
        self._ctx, self._kinds, self._kept, self._ranking = ctx, kinds, kept, ranking
        self._whole_corpus = whole_corpus
        candidates = Titles if kinds == "text" else graph_names(ctx)

        def names(ctx: Context, node: Node | None) -> Candidates:
            return MentionModelCandidates(reader, candidates(ctx, node)) if reader else candidates(ctx, node)

        self._linkers = {ahead: MentionLinker(names, ahead=ahead, read=self._read_names) for ahead in (False, True)}
        self._once, self._names = SingleFlight(), SingleFlight()
        self._waiting: dict[str, list[Wanted]] = {}
        self._abandoned: Counter[str] = Counter()

    async def _read_names(self, ctx: Context, query: str, node: Node | None = None) -> tuple[str, ...]:
        """Read the names in a query, once for graph and corpus."""
        return await self._names(query, lambda: extract_mentions(ctx, query, node))

    async def retrieve(self, query: str, node: Node, wanted: Wanted = lambda: True) -> EvidenceBox:
        """Return the evidence about a query's entities; stop if no caller wants it."""
        query = _YES_OR_NO.sub("", query)
        waiting = self._waiting.setdefault(query, [])
        waiting.append(wanted)
        while True:
            key = (query, self._abandoned[query])
            box = await self._once(
                key,
                lambda: self._retrieve(
                    query, node, lambda: any(is_wanted() for is_wanted in waiting), isinstance(wanted, Ahead)
                ),
            )
            if box is not None or not wanted():
                return box or EvidenceBox()
            # It was abandoned while no caller wanted it.
            self._abandoned[query] = key[1] + 1

    async def _retrieve(self, query: str, node: Node, wanted: Wanted, ahead: bool) -> EvidenceBox | None:
        """Return the evidence; None if it was abandoned."""
        entities, titles = await self._link(query, node, ahead)
        if not wanted():
            return None
        facts, passages = await both(
            self._facts(query, entities, node, wanted), self._passages(query, titles, entities, node, wanted)
        )
        return EvidenceBox(passages, facts) if facts is not None and passages is not None else None

    async def _link(self, query: str, node: Node, ahead: bool) -> tuple[tuple[Entity, ...], tuple[Entity, ...]]:
        """Return the entities of a query, and those that are titles."""
        linking = self._linkers[ahead].link(self._ctx, query, keep=self._kept.entities, node=node)
        if self._kinds == "hybrid":  # the graph may not have all names
            return await both(linking, find_titles(self._ctx, query, self._read_names, node=node))
        entities = await linking
        return entities, entities if self._kinds == "text" else ()

    async def _facts(
        self, query: str, entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Fact, ...] | None:
        if self._kinds == "text" or not entities:
            return ()
        around = await together(self._ctx.facts(entity, node=node) for entity in entities)
        if not wanted():
            return None
        return await choose_facts(self._ctx, query, around, keep=self._kept.relations, ranking=self._ranking, node=node)

    async def _passages(
        self, query: str, titles: tuple[Entity, ...], entities: tuple[Entity, ...], node: Node, wanted: Wanted
    ) -> tuple[Passage, ...] | None:
        """Return the best passages of pages, else of the `whole_corpus`."""
        if self._kinds == "graph":
            return ()
        titled = {entity.page for entity in titles}
        others = [entity for entity in entities if (entity.page or entity.label) not in titled]
        most = max(self._kept.entities * self._kept.passages, _SEARCHED)
        named, own = await both(self._pages(query, titles[:most], most, node), self._pages(query, others, most, node))
        if not self._whole_corpus or (named and (own or len(others) < len(entities))):
            return _each_once(named, own)[:most]
        if not wanted():  # an incomplete result must not be cached
            return None
        searched = await self._ctx.search(query, k=_SEARCHED, node=node)
        return _each_once(named, searched)[:most] if named else _each_once(own[: most - len(searched)], searched)

    async def _pages(self, query: str, entities: Sequence[Entity], most: int, node: Node) -> tuple[Passage, ...]:
        """Return the best passages of each page, `most` in all."""
        k = self._kept.passages
        pages = await together(own_page(self._ctx, entity, query, k=k, node=node) for entity in entities)
        if sum(map(len, pages)) <= most:
            return _each_once(*pages)
        return _each_once([passage for rank in zip_longest(*pages) for passage in rank if passage])[:most]


def _each_once(*groups: Sequence[Passage]) -> tuple[Passage, ...]:
    return tuple({passage.id: passage for group in groups for passage in group}.values())
