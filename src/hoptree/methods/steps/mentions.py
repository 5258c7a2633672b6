"""Link the names in a question to entities, and find the pages of entities."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import SingleFlight, both, together
from hoptree.graph.facts import Candidate, Candidates, Entity
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.link import MAX_CANDIDATES, NONE_NAMED, choose_entities, names_in, record_linked
from hoptree.retrieval.retriever import TITLE
from hoptree.text.loose_json import read_json
from hoptree.text.names import fold
from hoptree.text.parse import looks_unanswered, question_key
from hoptree.text.question_tree import Node

_MAX_TITLES = 5  # among which a near title is looked for: a search counts titles more than texts
_BRACKET = re.compile(r"\s*\([^()]*\)\Z")


async def own_page(
    ctx: Context, entity: Entity, query: str, *, k: int, node: Node | None = None
) -> tuple[Passage, ...]:
    """Return the best passages of the entity's page, by title or name."""
    for title in dict.fromkeys(filter(None, (entity.page, entity.label))):
        if passages := await ctx.search(query, k=k, where={TITLE: title}, node=node):
            return passages
    title = await near_title(ctx, entity.page or entity.label, node=node)
    # The query may share no word with the page, and would find nothing there by itself.
    return await ctx.search(f"{query} {title}", k=k, where={TITLE: title}, node=node) if title else ()


async def near_title(ctx: Context, name: str, *, node: Node | None = None) -> str:
    """Return the title that equals a name but for case, accents or one bracket, if a search for it finds one."""
    wanted = fold(name)
    if not wanted:
        return ""
    nearest = await ctx.titles(name, k=_MAX_TITLES, node=node)
    titles = list(dict.fromkeys(title.split(" › ")[0] for title in nearest))
    same = [title for title in titles if fold(title) == wanted]
    bracketed = [title for title in titles if fold(_BRACKET.sub("", title)) == wanted]
    return same[0] if same else bracketed[0] if len(bracketed) == 1 else ""


EvidenceKinds = Literal["hybrid", "graph", "text"]
"""Where to look: in both, in the knowledge graph alone, or in the corpus alone."""

_MENTION_TOKENS = 96
_MAX_MENTIONS = 8
_MAX_NAME_CHARS = 200
_MAX_ENTITIES = 10  # by the words of a query, and as many by the names that a model reads
_MAX_ENTITIES_PER_NAME = 5
_MIN_NAME_SCORE = 0.5  # below, an entity only shares some words with the name that the model read
_LIST_MARK = lazy_re(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)")
_QUOTES = " \t\"'“”‘’`*_[]{}"


@decision("mentions")
class MentionsRead(Decision):
    """The names that the model read out of a query."""

    value: list[str]


@decision("titled")
class TitlesNamed(Decision):
    """The titles of the corpus that a query names."""

    value: list[str]


def require_sources(ctx: Context, kinds: EvidenceKinds) -> None:
    """Refuse to start without a source that is to be asked."""
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
    """Candidates without a graph: titles of the corpus; those of names that the model read may be near ones."""

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


def graph_names(ctx: Context) -> Callable[[Context, Node | None], Candidates]:
    """Return how the graph's names are looked up."""
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

    With `ahead`, that choice begins beside the reading of names, as if these added nothing; where they do, it is made
    again. The result is the same, with one call less in a row and maybe one more in all. `read` reads the names, so
    that others can share them.
    """

    def __init__(
        self,
        where: Callable[[Context, Node | None], Candidates],
        *,
        ahead: bool = False,
        read: MentionReader | None = None,
    ) -> None:
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
    """Return the entities that one prompt shows, without namesakes that have no facts, aliases or description."""
    counts = Counter(entity.label for entity in entities)
    bare = [e for e in entities if counts[e.label] > 1 and e.id and not (e.aliases or e.description)]
    around = await together(ctx.facts(entity, limit=1, node=node) for entity in bare)
    empty = {entity.id for entity, neighbourhood in zip(bare, around, strict=True) if not neighbourhood.facts}
    kept: dict[str, Entity] = {}
    for entity in entities:
        if entity.id in empty and counts[entity.label] > 1:
            counts[entity.label] -= 1
        else:
            kept[_key(entity)] = entity
    return tuple(kept.values())[:MAX_CANDIDATES]


def interleave(*groups: Sequence[Entity]) -> tuple[Entity, ...]:
    """Return the best of each group before the second best of any, each entity once."""
    longest = max(map(len, groups), default=0)
    return _once(group[place] for place in range(longest) for group in groups if place < len(group))


def _once(entities: Iterable[Entity]) -> tuple[Entity, ...]:
    kept: dict[str, Entity] = {}
    for entity in entities:
        kept.setdefault(_key(entity), entity)
    return tuple(kept.values())


def _key(entity: Entity) -> str:
    return entity.id or entity.label  # a title has no id


async def find_entities(
    ctx: Context, candidates: Candidates, query: str, *, node: Node | None = None
) -> EntityCandidates:
    """Find candidates by the words of a query, and by the model's names."""
    words, mentions = await both(candidates.of_text(query, limit=_MAX_ENTITIES), extract_mentions(ctx, query, node))
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
        named = isinstance(item, str) or type(item) is int  # a film may be called by a number, but not by true
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
