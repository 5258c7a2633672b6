"""Rerank, fuse and deduplicate rankings."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from hoptree.core.errors import ConfigError, EndpointError, UnusableReply
from hoptree.core.http_client import HttpClient, key_header
from hoptree.core.lazy import import_optional
from hoptree.core.values import Passage
from hoptree.retrieval.encoder import Encoder, FloatArray, QueryWindow, open_encoder, weights_digest
from hoptree.retrieval.retriever import Retriever, cache_lifetime, without_copies

_WORD = re.compile(r"\w+")
_DEPTH = 100  # passages of each ranking that is fused or reranked, unless more are asked for
_SHINGLE_WORDS = 3
_ALIKE_FROM = 0.9  # Jaccard similarity of near-duplicates
_EXTRA = 8  # passages fetched beyond k in place of duplicates; twice as many each time they are too few


class Fused:
    """Asks several retrievers and adds up the weighted scores of their passages.

    A score is normalised within its ranking, which goes down to 100 passages, or to k if that is more.
    """

    kind = "fused"

    def __init__(self, retrievers: Sequence[Retriever], weights: Sequence[float]) -> None:
        self._retrievers, self._weights = tuple(retrievers), tuple(weights)
        parts = ",".join(f"{weight:g}*{each.identity}" for weight, each in zip(weights, retrievers, strict=True))
        self.identity = f"fused:weighted:{_DEPTH}:60:({parts})"  # 60 is obsolete: it keeps cached results valid
        self.remote = any(retriever.remote for retriever in retrievers)
        self.cache_seconds = min(map(cache_lifetime, retrievers))

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0:
            return ()
        depth = max(k, _DEPTH)
        searches = (retriever.search(query, k=depth, where=where) for retriever in self._retrievers)
        return without_copies(self._merge(await asyncio.gather(*searches)), query, k)

    async def aclose(self) -> None:
        for retriever in self._retrievers:
            await retriever.aclose()

    def _merge(self, rankings: Sequence[Sequence[Passage]]) -> tuple[Passage, ...]:
        passages: dict[str, Passage] = {}
        stages: dict[str, tuple[tuple[str, float], ...]] = {}
        totals: dict[str, float] = {}
        for ranking, weight in zip(rankings, self._weights, strict=True):
            for passage, share in zip(ranking, normalise_scores([hit.score for hit in ranking]), strict=True):
                passages.setdefault(passage.id, passage)
                stages[passage.id] = stages.get(passage.id, ()) + passage.stages
                totals[passage.id] = totals.get(passage.id, 0.0) + weight * share
        fused = [
            replace(passage, score=score, stages=(*stages[name], ("weighted", score)))
            for name, passage in passages.items()
            for score in (round(totals[name], _DECIMALS),)
        ]
        return tuple(sorted(fused, key=lambda passage: (-passage.score, passage.id)))


def normalise_scores(scores: Sequence[float]) -> list[float]:
    """Scale the scores to between 0 and 1; all are 1 if they are the same."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


def like_cosines(scores: list[float]) -> tuple[list[float], bool]:
    """Return scores at most 1 apart, and whether they were scaled for that."""
    scaled = max(scores, default=0.0) - min(scores, default=0.0) > 1
    return (normalise_scores(scores) if scaled else scores), scaled


class Distinct:
    """A retriever without near-duplicates; it fetches more in place of those."""

    def __init__(self, retriever: Retriever) -> None:
        self.kind = retriever.kind
        self.identity = f"distinct:{_ALIKE_FROM:g}:({retriever.identity})"
        self.remote = retriever.remote
        self.cache_seconds = cache_lifetime(retriever)
        self._retriever = retriever

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0:
            return ()
        wanted = k + _EXTRA
        while True:
            passages = await self._retriever.search(query, k=wanted, where=where)
            kept = drop_duplicates(passages, k)
            if len(kept) >= k or len(passages) < wanted:
                return kept
            wanted *= 2

    async def aclose(self) -> None:
        await self._retriever.aclose()


def drop_duplicates(passages: Sequence[Passage], most: int) -> tuple[Passage, ...]:
    """Return the first `most` passages that are not near-duplicates of an earlier one.

    Two are alike if the Jaccard similarity of their runs of three words reaches 0.9. The title counts only where there
    is not text: the same text under two titles is the same evidence.
    """
    kept: list[Passage] = []
    seen: list[frozenset[tuple[str, ...]]] = []
    for passage in passages:
        if len(kept) >= most:
            break
        shingles = _shingles(passage.text) or _shingles(passage.title)
        if not any(_alike(shingles, other) for other in seen):
            kept.append(passage)
            seen.append(shingles)
    return tuple(kept)


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(text.casefold())
    if len(words) <= _SHINGLE_WORDS:
        return frozenset((tuple(words),)) if words else frozenset()
    return frozenset(tuple(words[place : place + _SHINGLE_WORDS]) for place in range(len(words) - _SHINGLE_WORDS + 1))


def _alike(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> bool:
    if min(len(left), len(right)) < _ALIKE_FROM * max(len(left), len(right)):  # they cannot share enough
        return False
    shared = len(left & right)
    return shared >= _ALIKE_FROM * (len(left) + len(right) - shared)


_DECIMALS = 6
_KEPT_VECTORS = 20_000
_FORMS = "Use embed/ENCODER, endpoint/MODEL@URL or cross/FOLDER."


class Reranker(Protocol):
    """Scores how well passages answer a query; `identity` is what determines that."""

    identity: str
    remote: bool

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]: ...

    async def aclose(self) -> None: ...


def full_text(passage: Passage) -> str:
    """Return what encoders see of a passage."""
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


class Reranked:
    """The first 100 passages of a retriever, ordered by a reranker."""

    kind = "reranked"

    def __init__(self, retriever: Retriever, reranker: Reranker) -> None:
        self._retriever, self._reranker = retriever, reranker
        self.identity = f"reranked:{_DEPTH}:{reranker.identity}:({retriever.identity})"
        self.remote = retriever.remote or reranker.remote
        self.cache_seconds = cache_lifetime(retriever)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0:
            return ()
        passages = await self._retriever.search(query, k=max(k, _DEPTH), where=where)
        if not passages:
            return ()
        scores = await self._reranker.score(query, passages)
        ranked = [
            replace(passage, score=score, stages=(*passage.stages, ("rerank", score)))
            for passage, given in zip(passages, scores, strict=True)
            for score in (round(given, _DECIMALS),)
        ]
        return tuple(sorted(ranked, key=lambda passage: (-passage.score, passage.id))[:k])

    async def aclose(self) -> None:
        await self._reranker.aclose()
        await self._retriever.aclose()


class EmbeddingReranker:
    """Scores by the cosine of query and passage."""

    def __init__(self, encoder: Encoder) -> None:
        self.identity = f"embed:{encoder.identity}:0"
        self.remote = encoder.remote
        self._encoder, self._query = encoder, QueryWindow(encoder)
        self._kept: OrderedDict[str, FloatArray] = OrderedDict()

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        if not passages:
            return []
        vector, rows = await asyncio.gather(self._query(query), self._rows([full_text(each) for each in passages]))
        return [float(row @ vector) for row in rows]

    async def aclose(self) -> None:
        await self._encoder.aclose()

    async def _rows(self, texts: Sequence[str]) -> list[FloatArray]:
        known = {text: self._kept[text] for text in texts if text in self._kept}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, await self._encoder.encode(new, role="passage"), strict=True))
        for text in dict.fromkeys(texts):
            self._kept[text] = known[text]
            self._kept.move_to_end(text)
        while len(self._kept) > _KEPT_VECTORS:
            self._kept.popitem(last=False)
        return [known[text] for text in texts]


class EndpointReranker:
    """A model behind `/rerank`, in the format of Cohere, Jina and vLLM, or of TEI.

    Its key is HOPTREE_RERANK_KEY, so that the key of another server is not sent there.
    """

    remote = True

    def __init__(self, url: str, model: str) -> None:
        self._http = HttpClient(url, headers=key_header("HOPTREE_RERANK_KEY"))
        self._model, self._is_tei = model, False
        self.identity = f"endpoint:{model}@{self._http.shown}"

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        if not passages:
            return []
        texts = [full_text(passage) for passage in passages]
        if not self._is_tei:
            body: dict[str, Any] = {"model": self._model, "query": query, "documents": texts, "top_n": len(texts)}
            try:
                return self._read(await self._http.json("POST", "/rerank", body), len(texts))
            except EndpointError as error:
                if error.status not in (400, 422) or "texts" not in error.cause:
                    raise
                self._is_tei = True  # it names the field it misses
        body = {"query": query, "texts": texts, "truncate": True}
        return self._read(await self._http.json("POST", "/rerank", body), len(texts))

    def _read(self, reply: Any, count: int) -> list[float]:
        entries = reply.get("results") if isinstance(reply, dict) else reply
        scores: dict[int, float] = {}
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            place, score = entry.get("index"), entry.get("relevance_score", entry.get("score"))
            if type(place) is int and isinstance(score, int | float) and math.isfinite(score):
                scores[place] = float(score)
        if set(scores) != set(range(count)):
            cause = f"{self._http.shown} gave {len(scores)} scores for {count} passages."
            raise UnusableReply(cause, f"Check that '{self._model}' is a reranker there.")
        return [scores[place] for place in range(count)]

    async def aclose(self) -> None:
        await self._http.aclose()


class CrossEncoderReranker:
    """A cross-encoder of sentence-transformers; code in its folder is never run."""

    remote = False

    def __init__(self, folder: str) -> None:
        if not Path(folder).is_dir():
            raise ConfigError(f"There is no folder {folder} with a cross-encoder.", _FORMS)
        self.identity = f"cross:{weights_digest(Path(folder)) or folder}"
        self._folder = folder
        self._model: Any = None
        self._lock = threading.Lock()

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        if not passages:
            return []
        return await asyncio.to_thread(self._score, [(query, full_text(passage)) for passage in passages])

    def _score(self, pairs: list[tuple[str, str]]) -> list[float]:
        module = import_optional("sentence_transformers", "A cross-encoder", "whitebox")
        with self._lock:
            if self._model is None:
                try:
                    self._model = module.CrossEncoder(self._folder, trust_remote_code=False)
                except (OSError, ValueError, RuntimeError) as error:
                    cause = f"The cross-encoder '{self._folder}' cannot be loaded ({str(error)[:200]})."
                    raise ConfigError(cause, "Give the folder of one.") from error
            return [float(score) for score in self._model.predict(pairs, show_progress_bar=False)]

    async def aclose(self) -> None:
        self._model = None


def open_reranker(spec: str) -> Reranker:
    """Open `embed/ENCODER`, `endpoint/MODEL@URL` or `cross/FOLDER`."""
    kind, _, name = spec.partition("/")
    if kind == "embed" and name:
        return EmbeddingReranker(open_encoder(name))
    if kind == "endpoint":
        model, at, url = name.partition("@")
        if model and at and url:
            return EndpointReranker(url, model)
    if kind == "cross" and name:
        return CrossEncoderReranker(name)
    raise ConfigError(f"There is no reranker '{spec}'.", _FORMS)
