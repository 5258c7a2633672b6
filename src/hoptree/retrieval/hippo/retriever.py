"""HippoRAG's retriever: facts near a query start a walk over the graph, and passages are ranked by where it leads."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Any, Protocol

from hoptree.core.errors import CorpusError
from hoptree.core.optional_import import import_optional
from hoptree.core.values import Fact, Passage
from hoptree.retrieval.bm25_memory import Analysis
from hoptree.retrieval.encoder import Encoder
from hoptree.retrieval.fusion import normalised
from hoptree.retrieval.hippo.build import current
from hoptree.retrieval.hippo.store import FOLDER, FactStore, fact_key, fact_text, facts_damaged, phrase_key, phrase_of
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.microbatch import Window
from hoptree.retrieval.open_encoder import open_encoder
from hoptree.retrieval.retriever import PassageStore, Retriever, fits
from hoptree.retrieval.vectors import Vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FEATURE = "Retrieval along facts"
_TOLERANCE, _ROUNDS = 1e-9, 1_000


class PhraseGraph:
    """Phrases, passages and what ties them, each tie going both ways with its weight.

    Two phrases are tied once for each passage that states a fact of them, and by their cosine where they are synonyms;
    a passage is tied to every phrase of its facts. So every node has a tie, and a walk never ends in one.
    """

    def __init__(self, facts: Iterable[tuple[int, int, Fact]], synonyms: Iterable[tuple[int, int, float]] = ()) -> None:
        self._phrases: dict[str, int] = {}
        self._passages: dict[int, int] = {}
        self._count = 0
        ties: Counter[tuple[int, int]] = Counter()
        held: set[tuple[int, int]] = set()
        for _, passage, fact in facts:
            ends = (self._phrase(phrase_of(fact.subject)), self._phrase(phrase_of(fact.object)))
            if passage not in self._passages:
                self._passages[passage] = self._next()
            held.update((self._passages[passage], end) for end in ends)
            if ends[0] != ends[1]:
                ties[min(ends), max(ends)] += 1
        self._held_by = Counter(phrase for _, phrase in held)
        weights: dict[tuple[int, int], float] = {**ties, **dict.fromkeys(held, 1.0)}
        numbers = {phrase_key(phrase): node for phrase, node in self._phrases.items()}
        for one, other, cosine in synonyms:
            if one in numbers and other in numbers:
                pair = (min(numbers[one], numbers[other]), max(numbers[one], numbers[other]))
                weights[pair] = weights.get(pair, 0.0) + cosine
        self._graph = self._made(weights)
        self.ties = len(weights)

    def _phrase(self, phrase: str) -> int:
        if phrase not in self._phrases:
            self._phrases[phrase] = self._next()
        return self._phrases[phrase]

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _made(self, weights: Mapping[tuple[int, int], float]) -> Any:
        rustworkx = import_optional("rustworkx", _FEATURE, "graph")
        graph = rustworkx.PyDiGraph()
        graph.add_nodes_from([None] * self._count)
        graph.add_edges_from([(one, other, float(weight)) for (one, other), weight in weights.items()])
        graph.add_edges_from([(other, one, float(weight)) for (one, other), weight in weights.items()])
        return graph

    @property
    def phrases(self) -> int:
        return len(self._phrases)

    @property
    def passages(self) -> int:
        return len(self._passages)

    def spread_of(self, phrase: str) -> int:
        """How many passages state something of a phrase; 0 for one that is no node."""
        return self._held_by[self._phrases[phrase]] if phrase in self._phrases else 0

    def walk(self, phrases: Mapping[str, float], passages: Mapping[int, float], *, damping: float) -> dict[int, float]:
        """How often a walk is at each passage that starts anew, with `1 - damping`, from these by their weights.

        A passage without facts is tied to nothing: it is where a walk is only while it starts there.
        """
        whole = sum(phrases.values()) + sum(passages.values())
        if whole <= 0:
            return {}
        starts = {
            self._phrases[phrase]: weight / whole for phrase, weight in phrases.items() if phrase in self._phrases
        }
        starts |= {self._passages[key]: weight / whole for key, weight in passages.items() if key in self._passages}
        inside = sum(starts.values())
        found = {key: (1 - damping) * weight / whole for key, weight in passages.items() if key not in self._passages}
        if inside > 0:
            rank = import_optional("rustworkx", _FEATURE, "graph").pagerank(
                self._graph,
                alpha=damping,
                weight_fn=float,
                personalization=starts,
                nstart=starts,  # so that what cannot be reached stays at nothing
                tol=_TOLERANCE / self._count,  # it is compared with the mean change of a node
                max_iter=_ROUNDS,
            )
            found |= {key: inside * rank[node] for key, node in self._passages.items()}
        return found


_NEAREST_DECIMALS = 6
_K1, _B = 1.2, 0.75


class NearestFacts(Protocol):
    """Keys of facts with how near they are, best first, ties by key."""

    identity: str
    remote: bool
    by_meaning: bool

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]: ...

    async def aclose(self) -> None: ...


class ByVectors:
    """The cosine of the query's vector and the fact's; `known` are the facts that count."""

    by_meaning = True

    def __init__(self, vectors: Vectors, encoder: Encoder, known: Container[int]) -> None:
        self.identity, self.remote = f"{encoder.identity}:{vectors.dtype}", encoder.remote
        self._vectors, self._encoder, self._known = vectors, encoder, known
        self._encode = Window(self._encode_all)

    async def nearest(self, query: str, k: int) -> list[tuple[int, float]]:
        if k <= 0 or not query.strip():
            return []
        vector = await self._encode(query)
        return await asyncio.to_thread(self._nearest, vector, k) if vector.any() else []

    async def aclose(self) -> None:
        await self._encoder.aclose()

    async def _encode_all(self, queries: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        return list(await self._encoder.encode(queries, role="query"))

    def _nearest(self, vector: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """Look further until k of those found count."""
        wanted = k
        while True:
            hits = self._vectors.search(vector, wanted)
            found = [(key, score) for key, score in hits if score > 0 and key in self._known]
            if len(found) >= k or len(hits) < wanted:
                return found[:k]
            wanted *= 4


class ByWords:
    """BM25 over the words of facts; one that shares no word with the query is not near at all."""

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
        scores: Counter[int] = Counter()
        for term in self._analysis.sought(query).terms:
            having = self._having.get(term, ())
            rarity = log(1 + (len(self._lengths) - len(having) + 0.5) / (len(having) + 0.5))
            for key, count in having:
                damping = _K1 * (1 - _B + _B * self._lengths[key] / self._average)
                scores[key] += rarity * count * (_K1 + 1) / (count + damping)  # type: ignore[assignment]
        best = sorted(
            ((round(score, _NEAREST_DECIMALS), key) for key, score in scores.items()), key=lambda one: (-one[0], one[1])
        )
        return [(key, score) for score, key in best[: max(k, 0)]]

    async def aclose(self) -> None:
        return None


_DECIMALS = 9
_FETCHED = 64
_LEAST = 1e-3
"""The share of the last one of the first ranking, so that it is found at all."""


@dataclass(frozen=True, slots=True)
class Walk:
    """How a walk starts and goes on; the values are those of HippoRAG 2."""

    facts: int = 5
    """Facts nearest to a query."""
    phrases: int = 5
    """Phrases of these facts that a walk starts from, those of most weight."""
    passages: int = 200
    """Passages by the first ranking that it starts from, too."""
    passage_weight: float = 0.05
    """What the best of these passages counts beside a phrase."""
    damping: float = 0.5
    """The chance to go on from a node, and not to start anew."""


class Hippo:
    """A retriever over an index with facts.

    `facts` are those of the passages that `graph` was made of, by key; `first` ranks passages by their own text (dense
    where the index has vectors, else BM25): its best are starts of little weight, and its ranking is the result where
    no fact is near. Both are closed with it.
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
        walk: Walk | None = None,
    ) -> None:
        self._store, self._graph, self._facts = store, graph, facts
        self._nearest, self._first = nearest, first
        self._walk = walk or Walk()
        self.identity = f"hippo:{digest}:{nearest.identity}:{self._walk}:({first.identity})"
        self.remote = nearest.remote or first.remote
        self.tells = frozenset(("facts", "synonyms") if nearest.by_meaning else ("facts",))

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        near = await self._nearest.nearest(query, k)
        return tuple(replace(self._facts[key], confidence=score) for key, score in near if key in self._facts)

    def guided(self, facts: Sequence[Fact]) -> Retriever:
        return _Guided(self, tuple(facts))

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await self.search_from(query, await self.facts_near(query, k=self._walk.facts), k=k, where=where)

    async def search_from(
        self, query: str, facts: Sequence[Fact], *, k: int, where: Mapping[str, str] | None = None
    ) -> tuple[Passage, ...]:
        """The k passages that a walk from these facts leads to most."""
        if k <= 0:
            return ()
        starts = self._starts(facts)
        if not starts:
            return await self._first.search(query, k=k, where=where)
        ranked = await self._first.search(query, k=self._walk.passages)
        if where:  # a walk may start from what does not fit, but what fits should be met
            ranked += await self._first.search(query, k=self._walk.passages, where=where)
        return await asyncio.to_thread(self._search, starts, ranked, k, where or {})

    async def aclose(self) -> None:
        await self._nearest.aclose()
        await self._first.aclose()

    def _starts(self, facts: Sequence[Fact]) -> dict[str, float]:
        """The phrases of the facts: the mean of how near their facts are (the nearest is 1), by how rare they are."""
        best = max((fact.confidence for fact in facts), default=0.0)
        scores: dict[str, list[float]] = {}
        for fact in facts:
            for phrase in dict.fromkeys(map(phrase_of, (fact.subject, fact.object))):
                if best > 0 and fact.confidence > 0 and self._graph.spread_of(phrase):
                    scores.setdefault(phrase, []).append(fact.confidence / best)
        weights = {name: sum(some) / len(some) / self._graph.spread_of(name) for name, some in scores.items()}
        kept = sorted(weights, key=lambda name: (-weights[name], name))[: self._walk.phrases]
        return {name: weights[name] for name in kept}

    def _search(
        self, starts: Mapping[str, float], ranked: Sequence[Passage], k: int, where: Mapping[str, str]
    ) -> tuple[Passage, ...]:
        shares = normalised([passage.score for passage in ranked])
        weight = self._walk.passage_weight
        texts = {key_of(one.id): max(share, _LEAST) * weight for one, share in zip(ranked, shares, strict=True)}
        met = self._graph.walk(starts, texts, damping=self._walk.damping)
        scores = {key: round(score, _DECIMALS) for key, score in met.items()}
        order = sorted((key for key, score in scores.items() if score > 0), key=lambda key: -scores[key])
        own = {key_of(passage.id): passage for passage in ranked}
        found: list[Passage] = []
        for start in range(0, len(order), _FETCHED):
            # One that ties with the k-th may come before it by its id.
            if len(found) >= k and scores[order[start]] < found[k - 1].score:
                break
            some = order[start : start + _FETCHED]
            passages = own | self._store.fetch([key for key in some if key not in own])
            for key in some:
                if key in passages and fits(passages[key], where):
                    stages = (*own[key].stages, (self.kind, scores[key])) if key in own else ((self.kind, scores[key]),)
                    found.append(replace(passages[key], score=scores[key], stages=stages))
            found.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(found[:k])


class _Guided:
    """A retriever whose searches go out from facts that somebody chose."""

    kind = "hippo"

    def __init__(self, whole: Hippo, facts: tuple[Fact, ...]) -> None:
        self._whole, self._facts = whole, facts
        chosen = ",".join(f"{fact_key(f.subject, f.relation, f.object)}:{f.confidence:.6f}" for f in facts)
        self.identity = f"{whole.identity}:{hashlib.sha256(chosen.encode()).hexdigest()[:16]}"
        self.remote = whole.remote

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await self._whole.search_from(query, self._facts, k=k, where=where)

    async def aclose(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Held:
    """How many facts an index has, of how many passages, and the encoder that finds them ("" for words)."""

    facts: int
    passages: int
    encoder: str


def held_facts(index: Index, *, deep: bool = False) -> Held | None:
    """What an index has of facts, None if nothing; an error if they are damaged, with `deep` anywhere in their file."""
    folder = index.generation / FOLDER
    if not folder.exists():
        return None
    with closing(FactStore(folder, index.folder)) as store:
        if deep:
            store.check()
        pairs = [(key, passage) for key, passage, _ in store.facts()]
        return Held(len(pairs), len({passage for _, passage in pairs}), store.about("encoder"))


def open_hippo(index: Index, first: Retriever) -> Hippo:
    """The graph of an index's facts, without those of passages that changed since or are gone."""
    with closing(FactStore(index.generation / FOLDER, index.folder)) as store, closing(index.ledger()) as ledger:
        there = set(current(store, ledger))
        rows = [row for row in store.facts() if row[1] in there]
        if not rows:
            raise CorpusError(
                f"No fact of the index {index.folder} is of a passage that it still holds unchanged.",
                f"Extract them again, then: hoptree index facts FOLDER --out {index.folder}",
            )
        facts: dict[int, Fact] = {}
        for key, _, fact in rows:
            facts.setdefault(key, fact)
        graph = PhraseGraph(rows, store.synonyms())
        nearest = _nearest(store, index, facts)
    stated = hashlib.sha256(b"".join(b"%d %d\n" % (key, passage) for key, passage, _ in rows)).hexdigest()[:16]
    return Hippo(index.texts, graph, facts, nearest, first, digest=f"{index.identity}:{stated}")


def _nearest(store: FactStore, index: Index, facts: dict[int, Fact]) -> NearestFacts:
    spec = store.about("encoder")
    if not spec:
        texts = {key: fact_text(fact.subject, fact.relation, fact.object) for key, fact in facts.items()}
        return ByWords(texts, index.manifest.settings.language)
    encoder = open_encoder(spec)
    if store.about("encoder identity") != encoder.identity:
        raise CorpusError(
            f"The facts of {index.folder} were encoded by another encoder than {spec} is now.",
            f"Take them in again: hoptree index facts FOLDER --out {index.folder} --encoder {spec}",
        )
    try:
        vectors = Vectors(store.folder / "facts")
    except CorpusError as error:
        raise facts_damaged(index.folder, error.cause.rstrip(".")) from error
    return ByVectors(vectors, encoder, facts)
