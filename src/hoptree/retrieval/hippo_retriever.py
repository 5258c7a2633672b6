"""HippoRAG's retriever: a random walk from facts near a query ranks passages."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from hoptree.core.errors import CorpusError
from hoptree.core.lazy import lazy_import
from hoptree.core.values import Fact, Passage
from hoptree.retrieval.bm25_memory import Analysis, term_score
from hoptree.retrieval.encoder import Encoder, FloatArray, QueryWindow, open_encoder
from hoptree.retrieval.hippo_store import FOLDER, FactStore, current, fact_key, fact_text, facts_damaged, phrase_of
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.tantivy_files import inverse_document_frequency, key_of
from hoptree.retrieval.rerank import normalise_scores
from hoptree.retrieval.retriever import PassageStore, Retriever, fits, search_distinct
from hoptree.retrieval.vectors import Vectors

rustworkx = lazy_import("rustworkx", "Retrieval along facts", "graph")
_TOLERANCE, _MAX_ITERATIONS = 1e-9, 1_000
_FACT_DECIMALS, _DECIMALS = 6, 9
_FETCH_AT_ONCE = 64
_MIN_SHARE = 1e-3  # of the last passage of the first ranking, so that a walk starts from it at all


class PhraseGraph:
    """Phrases and passages with weighted edges, which go both ways.

    Two phrases are tied once for each passage that states a fact of them, and by their cosine if they are synonyms.
    A passage is tied to every phrase of its facts. So every node has an edge, and a walk never ends.
    """

    def __init__(self, facts: Iterable[tuple[int, int, Fact]], synonyms: Iterable[tuple[int, int, float]] = ()) -> None:
        self._phrases: dict[str, int] = {}
        self._passages: dict[int, int] = {}
        ties: Counter[tuple[int, int]] = Counter()
        held: Counter[tuple[int, int]] = Counter()
        for _, passage, fact in facts:
            ends = [self._phrases.setdefault(phrase_of(name), self._count) for name in (fact.subject, fact.object)]
            holder = self._passages.setdefault(passage, self._count)
            held.update((holder, end) for end in ends)
            if ends[0] != ends[1]:
                ties[min(ends), max(ends)] += 1
        self._held_by = Counter(phrase for _, phrase in held)
        self._stated = array("I", (number for pair, stated in held.items() for number in (*pair, stated)))
        weights: dict[tuple[int, int], float] = {**ties, **dict.fromkeys(held, 1.0)}
        numbers = {key_of(phrase): node for phrase, node in self._phrases.items()}
        for *keys, cosine in synonyms:
            nodes = sorted(numbers[key] for key in keys if key in numbers)
            if len(nodes) == 2:
                weights[nodes[0], nodes[1]] = weights.get((nodes[0], nodes[1]), 0.0) + cosine
        self._graph = rustworkx.PyDiGraph()
        self._graph.add_nodes_from([None] * self._count)
        self._graph.add_edges_from([(source, target, float(weight)) for (source, target), weight in weights.items()])
        self._graph.add_edges_from([(target, source, float(weight)) for (source, target), weight in weights.items()])

    @cached_property
    def _phrase_graph(self) -> Any:
        """The phrases without passages, which only HippoRAG 1 walks over."""
        passages, graph = set(self._passages.values()), self._graph.copy()
        edges = graph.edge_list()
        graph.remove_edges_from([ends for ends in edges if not passages.isdisjoint(ends)])
        return graph

    @property
    def _count(self) -> int:
        return len(self._phrases) + len(self._passages)

    @cached_property
    def names(self) -> dict[int, str]:
        """The phrases by the keys of their vectors."""
        return {key_of(phrase): phrase for phrase in self._phrases}

    def spread_of(self, phrase: str) -> int:
        """Count the passages that state something of a phrase; 0 if it is not a node."""
        return self._held_by[self._phrases[phrase]] if phrase in self._phrases else 0

    def walk(self, phrases: Mapping[str, float], passages: Mapping[int, float], *, damping: float) -> dict[int, float]:
        """Return each passage's share of a walk that restarts at these, by weight."""
        total = sum(phrases.values()) + sum(passages.values())
        if total <= 0:
            return {}
        starts = {
            self._phrases[phrase]: weight / total for phrase, weight in phrases.items() if phrase in self._phrases
        }
        starts |= {self._passages[key]: weight / total for key, weight in passages.items() if key in self._passages}
        inside = sum(starts.values())
        shares = {key: (1 - damping) * weight / total for key, weight in passages.items() if key not in self._passages}
        if inside > 0:
            rank = self._rank(self._graph, starts, damping)
            shares |= {key: inside * rank[node] for key, node in self._passages.items()}
        return shares

    def walk_phrases(self, phrases: Mapping[str, float], *, damping: float) -> dict[int, float]:
        """Return each passage's share of a walk over phrases alone, as in HippoRAG 1."""
        starts = {self._phrases[phrase]: weight for phrase, weight in phrases.items() if phrase in self._phrases}
        rank = self._rank(self._phrase_graph, starts, damping) if starts else {}
        shares = dict.fromkeys(self._passages.values(), 0.0)
        for holder, phrase, stated in zip(*(iter(self._stated),) * 3, strict=True):
            shares[holder] += stated * (rank[phrase] if starts else 0.0)
        return {key: shares[node] for key, node in self._passages.items()}

    def _rank(self, graph: Any, starts: Mapping[int, float], damping: float) -> Any:
        return rustworkx.pagerank(
            graph,
            alpha=damping,
            weight_fn=float,
            personalization=starts,
            nstart=starts,  # what cannot be reached stays at nothing
            tol=_TOLERANCE / self._count,  # it is compared with the mean change of a node
            max_iter=_MAX_ITERATIONS,
        )


class ByVectors:
    """Compares the vectors of query and facts; `known` are the facts that count."""

    by_meaning = True

    def __init__(self, vectors: Vectors, encoder: Encoder, known: Container[int]) -> None:
        self.identity, self.remote = f"{encoder.identity}:{vectors.dtype}", encoder.remote
        self._vectors, self._encoder, self._known = vectors, encoder, known
        self._encode = QueryWindow(encoder)

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return keys of facts with their nearness, best first, ties by key."""
        if k <= 0 or not query.strip():
            return []
        vector = await self._encode(query)
        return await asyncio.to_thread(self._nearest, vector, k) if vector.any() else []

    async def aclose(self) -> None:
        await self._encoder.aclose()

    def _nearest(self, vector: FloatArray, k: int) -> list[tuple[int, float]]:
        """Look further until k of the hits count."""
        wanted = k
        while True:
            hits = self._vectors.search(vector, wanted)
            known = [(key, score) for key, score in hits if score > 0 and key in self._known]
            if len(known) >= k or len(hits) < wanted:
                return known[:k]
            wanted *= 4


class ByWords:
    """Ranks facts by BM25; those that share no word with the query are left out."""

    remote = by_meaning = False

    def __init__(self, texts: Mapping[int, str], language: str) -> None:
        self.identity = f"words:{language}"
        self._analysis = Analysis(language)
        self._having: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._lengths: dict[int, int] = {}
        for key, text in texts.items():
            counts = self._analysis.words("", text).terms
            self._lengths[key] = sum(counts.values())
            for term, count in counts.items():
                self._having[term].append((key, count))
        self._average = sum(self._lengths.values()) / (len(self._lengths) or 1) or 1.0

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]:
        scores: dict[int, float] = defaultdict(float)
        for term in self._analysis.query_words(query).terms:
            having = self._having.get(term, ())
            rarity = inverse_document_frequency(len(self._lengths), len(having))
            for key, count in having:
                scores[key] += term_score(rarity, count, self._lengths[key], self._average)
        rounded = [(key, round(score, _FACT_DECIMALS)) for key, score in scores.items()]
        return sorted(rounded, key=lambda hit: (-hit[1], hit[0]))[: max(k, 0)]

    async def aclose(self) -> None:
        return None


NearestFacts = ByVectors | ByWords


@dataclass(frozen=True, slots=True)
class Walk:
    """The parameters of a walk; the values are those of HippoRAG 2."""

    facts: int = 5  # facts nearest to a query
    phrases: int = 5  # phrases of these facts that a walk starts from, those of most weight
    passages: int = 200  # passages by the first ranking that it starts from, too
    passage_weight: float = 0.05  # the weight of the best of these passages, relative to a phrase
    damping: float = 0.5  # the probability of following an edge instead of restarting


class Hippo:
    """A retriever over an index with facts.

    `facts` are those of `graph`, by key. `first` ranks passages by their own text: its best are starts of little
    weight, and its ranking is the result if no fact is near. `nearest` and `first` are closed with it.
    """

    kind = "hippo"

    def __init__(
        self,
        store: PassageStore,
        graph: PhraseGraph,
        facts: Mapping[int, Fact],
        nearest: NearestFacts,
        first: Retriever,
        *,
        digest: str,
        phrases: Callable[[Mapping[int, str]], NearestFacts],
    ) -> None:
        self._store, self._graph, self._facts = store, graph, facts
        self._nearest, self._first = nearest, first
        self._open_phrases = phrases
        self._walk = Walk()
        self.identity = f"hippo:{digest}:{nearest.identity}:{self._walk}:({first.identity})"
        self.remote = nearest.remote or first.remote
        self.signals = frozenset(("facts", "names", "synonyms") if nearest.by_meaning else ("facts", "names"))

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        near = await self._nearest.nearest(query, k)
        return tuple(replace(self._facts[key], confidence=score) for key, score in near if key in self._facts)

    def guided(self, facts: Sequence[Fact]) -> Retriever:
        chosen = ",".join(f"{fact_key(f)}:{f.confidence:.6f}" for f in facts)
        return _Started(self, _digest(chosen), partial(self.search_from, facts=tuple(facts)))

    def named(self, names: Sequence[str]) -> Retriever:
        chosen = tuple(names)
        return _Started(self, f"names:{_digest(repr(chosen))}", partial(self.search_from_names, names=chosen))

    @cached_property
    def _phrases(self) -> NearestFacts:
        """What finds phrases, which only searches from names need."""
        return self._open_phrases(self._graph.names)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await self.search_from(query, await self.facts_near(query, k=self._walk.facts), k=k, where=where)

    async def search_from(
        self, query: str, facts: Sequence[Fact], *, k: int, where: Mapping[str, str] | None = None
    ) -> tuple[Passage, ...]:
        """Return the k passages that a walk from these facts visits most."""
        if k <= 0:
            return ()
        starts = self._starts(facts)
        if not starts:
            return await self._first.search(query, k=k, where=where)
        ranked = await self._first.search(query, k=self._walk.passages)
        if where:  # a walk may start from passages that do not fit, but should visit some that do
            ranked += await self._first.search(query, k=self._walk.passages, where=where)
        visits = await asyncio.to_thread(self._walk_from, starts, ranked)
        own = {key_of(passage.id): passage for passage in ranked}
        return await self._best_distinct(query, visits, own, k, where or {})

    async def search_from_names(
        self, query: str, names: Sequence[str], *, k: int, where: Mapping[str, str] | None = None
    ) -> tuple[Passage, ...]:
        """Return the k passages most visited from the phrases nearest to these names."""
        if k <= 0:
            return ()
        linked = [self._graph.names[key] for name in names for key, _ in await self._phrases.nearest(name, 1)]
        starts = {phrase: 1 / self._graph.spread_of(phrase) for phrase in linked if self._graph.spread_of(phrase)}
        if not starts:
            return await self._first.search(query, k=k, where=where)
        visits = await asyncio.to_thread(self._graph.walk_phrases, starts, damping=self._walk.damping)
        return await self._best_distinct(query, visits, {}, k, where or {})

    async def aclose(self) -> None:
        await self._nearest.aclose()
        await self._first.aclose()

    def _starts(self, facts: Sequence[Fact]) -> dict[str, float]:
        """Weigh the phrases of facts by the mean nearness of these and by rarity."""
        best = max((fact.confidence for fact in facts), default=0.0)
        scores: dict[str, list[float]] = {}
        for fact in facts:
            for phrase in dict.fromkeys(map(phrase_of, (fact.subject, fact.object))):
                if best > 0 and fact.confidence > 0 and self._graph.spread_of(phrase):
                    scores.setdefault(phrase, []).append(fact.confidence / best)
        weights = {name: sum(near) / len(near) / self._graph.spread_of(name) for name, near in scores.items()}
        kept = sorted(weights, key=lambda name: (-weights[name], name))[: self._walk.phrases]
        return {name: weights[name] for name in kept}

    def _walk_from(self, starts: Mapping[str, float], ranked: Sequence[Passage]) -> dict[int, float]:
        shares = normalise_scores([passage.score for passage in ranked])
        weight = self._walk.passage_weight
        texts = {key_of(hit.id): max(share, _MIN_SHARE) * weight for hit, share in zip(ranked, shares, strict=True)}
        return self._graph.walk(starts, texts, damping=self._walk.damping)

    async def _best_distinct(
        self, query: str, visits: Mapping[int, float], own: Mapping[int, Passage], k: int, where: Mapping[str, str]
    ) -> tuple[Passage, ...]:
        return await asyncio.to_thread(search_distinct, lambda wanted: self._best(visits, own, wanted, where), query, k)

    def _best(
        self, visits: Mapping[int, float], own: Mapping[int, Passage], k: int, where: Mapping[str, str]
    ) -> tuple[Passage, ...]:
        """Return the k best passages that fit; `own` have been fetched already."""
        scores = {key: round(score, _DECIMALS) for key, score in visits.items()}
        order = sorted((key for key, score in scores.items() if score > 0), key=lambda key: -scores[key])
        best: list[Passage] = []
        for start in range(0, len(order), _FETCH_AT_ONCE):
            # A passage that ties with the k-th may come before it by its id.
            if len(best) >= k and scores[order[start]] < best[k - 1].score:
                break
            batch = order[start : start + _FETCH_AT_ONCE]
            passages = {**own, **self._store.fetch([key for key in batch if key not in own])}
            for key in batch:
                if key in passages and fits(passages[key], where):
                    stages = (*own[key].stages, (self.kind, scores[key])) if key in own else ((self.kind, scores[key]),)
                    best.append(replace(passages[key], score=scores[key], stages=stages))
            best.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(best[:k])


class _Started:
    """The same retriever with every search starting from given facts or names."""

    kind = "hippo"

    def __init__(self, hippo: Hippo, start: str, search: Callable[..., Awaitable[tuple[Passage, ...]]]) -> None:
        self.identity, self.remote, self._search = f"{hippo.identity}:{start}", hippo.remote, search

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await self._search(query, k=k, where=where)

    async def aclose(self) -> None:
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class FactCount:
    """Counts of an index's facts and their passages; the encoder, or "" for words."""

    facts: int
    passages: int
    encoder: str


def count_facts(index: Index, *, deep: bool = False) -> FactCount | None:
    """Count the facts of an index, if any; raise an error if they are damaged.

    With `deep`, damage anywhere in the file is found.
    """
    folder = index.generation / FOLDER
    if not folder.exists():
        return None
    index.verify("facts/")
    with closing(FactStore(folder, index.folder)) as store:
        if deep:
            store.check()
        pairs = [(key, passage) for key, passage, _ in store.facts()]
        return FactCount(len(pairs), len({passage for _, passage in pairs}), store.fact("encoder"))


def open_hippo(index: Index, first: Retriever) -> Hippo:
    """Open the graph of an index's facts, but for passages changed or removed since."""
    index.verify("facts/")
    with closing(FactStore(index.generation / FOLDER, index.folder)) as store, closing(index.ledger()) as ledger:
        unchanged = set(current(store, ledger))
        rows = [row for row in store.facts() if row[1] in unchanged]
        if not rows:
            cause = f"No fact of the index {index.folder} is of a passage that it still holds unchanged."
            raise CorpusError(cause, f"Extract them again, then: hoptree index facts FOLDER --out {index.folder}")
        facts: dict[int, Fact] = {}
        for key, _, fact in rows:
            facts.setdefault(key, fact)
        graph = PhraseGraph(rows, store.synonyms())
        nearest, phrases = _nearest(store, index, facts)
    stated = _digest("".join(f"{key} {passage}\n" for key, passage, _ in rows))
    return Hippo(index.texts, graph, facts, nearest, first, digest=f"{index.identity}:{stated}", phrases=phrases)


def _nearest(
    store: FactStore, index: Index, facts: dict[int, Fact]
) -> tuple[NearestFacts, Callable[[Mapping[int, str]], NearestFacts]]:
    """Return what finds facts, and a function that opens the same for phrases."""
    spec = store.fact("encoder")
    if not spec:
        texts = {key: fact_text(fact) for key, fact in facts.items()}
        language = index.manifest.settings.language
        return ByWords(texts, language), lambda names: ByWords(names, language)
    encoder = open_encoder(spec)
    if store.fact("encoder identity") != encoder.identity:
        remedy = f"Take them in again: hoptree index facts FOLDER --out {index.folder} --encoder {spec}"
        raise CorpusError(f"The facts of {index.folder} were encoded by another encoder than {spec} is now.", remedy)
    try:
        vectors = Vectors(store.folder / "facts")
    except CorpusError as error:
        raise facts_damaged(index.folder, error.cause.rstrip(".")) from error
    phrases = store.folder / "phrases"
    return ByVectors(vectors, encoder, facts), lambda names: ByVectors(Vectors(phrases), encoder, names)
