"""Candidates from the index of an embedded graph's names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from hoptree.graph.linking.candidates import Candidate
from hoptree.graph.linking.index import Hit, NameIndex
from hoptree.graph.linking.matching import Asked
from hoptree.graph.linking.words import FUNCTION_WORDS, Word, name_words, question_words
from hoptree.graph.oxigraph import node_of
from hoptree.graph.store.embedded import EmbeddedGraph
from hoptree.graph.vocabulary import entity_iri, natural

__all__ = ["SECONDS", "IndexedCandidates"]

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
        asked = Asked(words, self._index.rarity, plain, whole=whole)
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
                some = sorted(some, key=natural)[: max(_NAMESAKES, limit)]
                some.sort(key=self._facts, reverse=True)
            ranked += [(score * _NAMESAKE**place, one) for place, one in enumerate(some[:limit])]
        ranked.sort(key=lambda row: (-row[0], natural(row[1])))
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
