"""Entities that a mention, or a whole question, may be about, best first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import sqrt

from hoptree.graph.facts import Candidate, Candidates, Entity, KnowledgeGraph
from hoptree.graph.linking.names_index import Hit, NameIndex
from hoptree.graph.linking.words import FUNCTION_WORDS, Word, likeness, name_words, question_words
from hoptree.graph.oxigraph import node_of
from hoptree.graph.store.embedded import EmbeddedGraph
from hoptree.graph.vocabulary import entity_iri, natural_key
from hoptree.text.names import name_spans

_SPANS = 6
"""Names of a text that are looked up where there is no index."""


def open_candidates(graph: KnowledgeGraph, *, on_progress: Callable[[int], None] = lambda done: None) -> Candidates:
    """Candidates from the index of a graph's names; from its own search by name where it is not on this machine.

    The index is made where there is none for the graph as it is; `on_progress` is told how many names were read.
    """
    if graph.kind != "embedded":
        return LookupCandidates(graph)
    from hoptree.graph.linking.names_index import open_name_index
    from hoptree.graph.store.embedded import EmbeddedGraph

    assert isinstance(graph, EmbeddedGraph)
    return IndexedCandidates(graph, open_name_index(graph, on_progress=on_progress))


class LookupCandidates:
    """Asks the graph itself for exact names: those a text writes with capitals, where nobody marked them."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return _by_rank([await self._graph.entities(mention, limit=limit)], limit)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        spans = [text[start:end].removesuffix("'s").removesuffix("’s") for start, end in name_spans(text)]
        if spans and " " in spans[0] and text.lstrip().startswith(spans[0]):  # "Did John Campbell …"
            spans[0] = spans[0].partition(" ")[2]
        names = sorted(dict.fromkeys(spans), key=len, reverse=True)[:_SPANS]
        return _by_rank([await self._graph.entities(name, limit=limit) for name in names], limit)


def _by_rank(found: Sequence[Sequence[Entity]], limit: int) -> tuple[Candidate, ...]:
    """The best of each name before the second best of any."""
    best: dict[str, Candidate] = {}
    for place in range(max((len(group) for group in found), default=0)):
        for group in found:
            if place < len(group):
                best.setdefault(group[place].id, Candidate(group[place], round(1 / (1 + place), 4)))
    return tuple(best.values())[:limit]


_FUNCTION, _RELATION, _SMALL = 0.2, 0.5, 0.6
"""What a word counts that asks or joins; that names a relation; a name without capitals in a text that has some."""


class QuestionScorer:
    """The words of a question, weighed: those that name relations (`plain`) are seldom the entity it is about."""

    def __init__(
        self, words: Sequence[Word], rarity: Callable[[str], float], plain: Collection[str], *, whole: bool
    ) -> None:
        self._words, self._rarity, self._plain, self._whole = words, rarity, plain, whole
        self._total = sum(self._weight(word.base) for word in words) or 1.0
        self._alike: dict[str, list[float]] = {}
        self._cased = any(word.capital for word in words[1:]) and not whole

    def score(self, name: Sequence[str]) -> float:
        """From 0 to 1: the share of the question that the name explains, less where words of the name are missing."""
        told = sum(self._weight(word) for word in name)
        places: dict[int, float] = {}
        matched = 0.0
        for word in name:
            place, alike = self._place(word, places)
            if alike:
                places[place] = alike
                matched += alike * self._weight(word)
        if not places or not told:
            return 0.0
        together = len(places) / (max(places) - min(places) + 1)
        share = matched / told
        score = min(1.0, matched / self._total) * share * (share if not self._whole else 1.0) * sqrt(together)
        if self._cased and not any(self._words[place].capital for place in places):
            score *= _SMALL
        return round(score, 6)

    def _weight(self, word: str) -> float:
        part = _FUNCTION if word in FUNCTION_WORDS else _RELATION if word in self._plain else 1.0
        return part * self._rarity(word)

    def _place(self, word: str, taken: Collection[int]) -> tuple[int, float]:
        """The place of the word most like this one, of equals the nearest behind those found before."""
        alike = self._alike.get(word)
        if alike is None:
            alike = self._alike[word] = [max(likeness(word, one.text), likeness(word, one.base)) for one in self._words]
        near = max(taken, default=-1) + 1
        free = [place for place, found in enumerate(alike) if found and place not in taken]
        best = max(free, key=lambda place: (alike[place], -abs(place - near)), default=-1)
        return best, alike[best] if free else 0.0


SECONDS = 2.0
_SPAN = 10
"""Words of a name that is looked for inside a question."""
_FOUND, _NEAR = 100, 40
"""Names found by some of their words, and by one that is nearly the same, that are compared with a question."""
_MISSPELT = 12
"""Words of a question that are looked for as others may have written them."""
_DEGREES = 50
"""Triples of an entity, each way, that are counted."""
_NAMESAKES, _NAMESAKE = 200, 0.85
"""Entities of one name whose facts are counted, and what each of them counts beside the one before."""
_PROPERTIES = 5_000


class IndexedCandidates:
    """Looks every row of words in a text up as a whole name, then names that share words, or nearly, with it.

    No query goes on for longer than `seconds`, but for the step it is in. Of entities with the same name the one with
    more facts comes first.
    """

    def __init__(self, graph: EmbeddedGraph, index: NameIndex, *, seconds: float = SECONDS) -> None:
        self._graph, self._index, self._seconds = graph, index, seconds
        self._relation_words: frozenset[str] | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await asyncio.to_thread(self.find, mention, limit, whole=True)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await asyncio.to_thread(self.find, text, limit, whole=False)

    def find(self, text: str, limit: int, *, whole: bool) -> tuple[Candidate, ...]:
        """Candidates in this thread; `whole` where the text is the name and nothing else."""
        until = time.monotonic() + self._seconds
        words = question_words(text)
        if not words:
            return ()
        plain = frozenset[str]() if whole else self._words_of_relations()
        asked = QuestionScorer(words, self._index.rarity, plain, whole=whole)
        fits: dict[tuple[str, ...], float] = {}
        best: dict[str, tuple[float, tuple[str, ...]]] = {}
        for identifier, name in self._hits(words, until, whole):
            if name not in fits:
                fits[name] = asked.score(name)
            if fits[name] > best.get(identifier, (0.0, ()))[0]:
                best[identifier] = (fits[name], name)
        return tuple(self._candidates(best, limit))

    def _hits(self, words: Sequence[Word], until: float, whole: bool) -> Iterator[Hit]:
        for span in _spans(words, whole):
            if time.monotonic() > until:
                return
            yield from self._index.whole(span)
        content = [word for word in words if word.text not in FUNCTION_WORDS] or list(words)
        known = dict.fromkeys(form for word in content for form in (word.text, word.base) if self._index.knows(form))
        yield from self._index.with_words(known, _FOUND)
        # Words that no name has first: they are the likeliest to be written otherwise.
        long = dict.fromkeys(word.base for word in content if len(word.base) > 3 and word.base.isalpha())
        misspelt = sorted(long, key=self._index.knows)
        for word in misspelt[:_MISSPELT]:
            if time.monotonic() > until:
                return
            distance = 2 if len(word) >= 8 and not self._index.knows(word) else 1
            others = [other for other in known if other != word]
            yield from self._index.with_nearly(word, others, _NEAR, distance=distance)

    def _words_of_relations(self) -> frozenset[str]:
        """Words that name relations of this graph: in a question they mostly ask for one."""
        if self._relation_words is None:
            properties = self._graph.names.properties(_PROPERTIES)
            names = (name for one in properties for name in (one.label, *one.aliases))
            self._relation_words = frozenset(word for name in names for word in name_words(name))
        return self._relation_words

    def _candidates(self, best: Mapping[str, tuple[float, tuple[str, ...]]], limit: int) -> Iterator[Candidate]:
        """The first of those found, best first; of several with one name each counts less than the one before."""
        by_name: dict[tuple[float, tuple[str, ...]], list[str]] = {}
        for identifier, found in best.items():
            by_name.setdefault(found, []).append(identifier)
        ranked: list[tuple[float, str]] = []
        for score, name in sorted(by_name, reverse=True)[:limit]:
            some = by_name[score, name]
            if len(some) > 1:
                some = sorted(some, key=natural_key)[: max(_NAMESAKES, limit)]
                some.sort(key=self._facts, reverse=True)
            ranked += [(score * _NAMESAKE**place, one) for place, one in enumerate(some[:limit])]
        ranked.sort(key=lambda row: (-row[0], natural_key(row[1])))
        for score, identifier in ranked[:limit]:
            entity = self._graph.names.entity(node_of(entity_iri(identifier)))
            if entity is not None:
                yield Candidate(entity, round(score, 4))

    def _facts(self, identifier: str) -> int:
        """How many triples begin or end at an entity; beyond some it does not matter."""
        node = node_of(entity_iri(identifier))
        store = self._graph.store
        out = sum(1 for _ in islice(store.quads_for_pattern(node, None, None, None), _DEGREES))
        return out + sum(1 for _ in islice(store.quads_for_pattern(None, None, node, None), _DEGREES))


def _spans(words: Sequence[Word], whole: bool) -> Iterable[tuple[str, ...]]:
    """The rows of words that may be a name, each once; an owner's ending may belong to its last word or not."""
    if whole:
        rows: Iterable[Sequence[Word]] = (words,)
    else:
        rows = (words[start:end] for start in range(len(words)) for end in range(start + 1, start + _SPAN + 1))
    found: dict[tuple[str, ...], None] = {}
    for row in rows:
        texts = [word.text for word in row]
        found |= dict.fromkeys((tuple(texts), (*texts[:-1], row[-1].base)))
    return found
