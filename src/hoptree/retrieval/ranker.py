"""Ranked retrieval: trained trees rank the passages of linked retrieval.

Trees score passages by their features alone; the best are tried as the passage already chosen, and other trees score
every passage after them. Weights are plain numbers in a JSON file; only numpy is needed.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.core.files import find_weights, without_sum
from hoptree.core.values import CONTENTS, Passage
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import PassageReader, folded
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.linked import Linked, with_score
from hoptree.retrieval.rank_features import ALONE, CHAINED, SENTENCE, Array, Features, np
from hoptree.retrieval.retriever import without_copies
from hoptree.text.names import sentences
from hoptree.text.tokens import is_unspaced

FORMAT = "hoptree-ranker-1"
FILE = "ranker.json"
PARTS = {"alone": ALONE, "chained": CHAINED, "sentence": SENTENCE}
"""The trees of a ranker, and the features they are over."""
_REMEDY = "Install it anew (pip install --force-reinstall hoptree-weights), or search with --retriever linked."
_FIRST = 30  # passages of linked retrieval that are ranked
_SEEDS, _PER_SEED = 5, 12
"""Passages from which a further search starts, for the question and the names in them; and its results."""
_MAX_NAMES = 20
_CANDIDATES = 60
_LIST_DISCOUNT = 2.0  # from the score, a logarithm of odds, of a table of contents or links
_MAX_BYTES = 8 * 2**20
_MAX_DEPTH = 12
LEAF_DECIMALS, THRESHOLD_DIGITS = 6, 7  # precision of the numbers in a file


@dataclass(frozen=True, slots=True)
class Trees:
    """Symmetric trees: one threshold a level; `leaves` has a value for each outcome."""

    features: Array
    thresholds: Array
    leaves: Array

    def score(self, rows: Array) -> Array:
        """Return the sum of all trees for each row."""
        bits = 1 << np.arange(self.features.shape[1])
        leaf = ((rows.astype(np.float32)[:, self.features] > self.thresholds) * bits).sum(axis=2)  # as in training
        return self.leaves[np.arange(len(self.leaves)), leaf].sum(axis=1)

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the numbers of these trees and the names of their features."""
        return {"names": list(names)} | {field.name: getattr(self, field.name).tolist() for field in fields(self)}


@dataclass(frozen=True, slots=True)
class Ranker:
    """Trained weights; `digest` identifies them."""

    alone: Trees
    chained: Trees
    sentence: Trees
    digest: str

    def scores(self, features: Features) -> Array:
        """Score every candidate."""
        alone = features.alone()
        return self.chained.score(features.chained(alone, self.alone.score(alone)))

    def sentence_scores(self, features: Features) -> list[list[float]]:
        """Score each sentence by whether it answers the question or leads there."""
        return features.by_passage(self.sentence.score(features.of_sentences()).round(LEAF_DECIMALS))


def read_ranker(path: Path) -> Ranker:
    """Read weights; refuse a file that holds none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"The ranker {path} cannot be read: {error.strerror or error}.", _REMEDY) from error
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError("it is too large")
        data = json.loads(content)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"it is not of the format {FORMAT}")
        data = without_sum(data)
        alone, chained, sentence = (read_trees(data.get(name), names) for name, names in PARTS.items())
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{path} holds no ranker ({error}).", _REMEDY) from error
    return Ranker(alone, chained, sentence, hashlib.sha256(content).hexdigest()[:12])


def read_trees(data: Any, names: Sequence[str]) -> Trees:
    """Read trees over these features; raise a ValueError, TypeError or KeyError."""
    if not isinstance(data, dict) or data.get("names") != list(names):
        raise ValueError("its features are those of another version")
    features = np.array(data["features"], dtype=np.int64)
    thresholds, leaves = (np.array(data[name], dtype=np.float64) for name in ("thresholds", "leaves"))
    count, depth = features.shape if features.ndim == 2 else (0, 0)
    if not count or not 0 < depth <= _MAX_DEPTH or thresholds.shape != (count, depth):
        raise ValueError("its trees are cut off")
    if leaves.shape != (count, 2**depth) or not (np.isfinite(leaves).all() and np.isfinite(thresholds).all()):
        raise ValueError("its leaves are cut off")
    if features.min() < 0 or features.max() >= len(names):
        raise ValueError("it refers to unknown features")
    return Trees(features, thresholds, leaves)


def read_installed() -> Ranker | None:
    """Return the ranker of hoptree-weights; None if it or numpy is not installed."""
    weights = find_weights()
    if weights is None or FILE not in weights.files or importlib.util.find_spec("numpy") is None:
        return None
    try:
        path = weights.file(FILE)
    except ConfigError as error:
        raise ConfigError(error.cause, _REMEDY) from error
    return read_ranker(path)


installed_ranker = cache(read_installed)


def can_rank(query: str) -> bool:
    """Tell whether a query has spaces between words, as the trees need."""
    letters = [character for character in query if character.isalpha()]
    return sum(map(is_unspaced, letters)) * 2 <= len(letters)


def find_ranker(index: Index) -> Ranker | None:
    """Return the ranker in an index's folder, else the installed one, else None."""
    own = index.folder / FILE
    return read_ranker(own) if own.is_file() else installed_ranker()


class CandidateFinder:
    """Finds the passages that are ranked for a query, with their features."""

    def __init__(self, index: Index) -> None:
        self._linked = Linked(index)
        self._texts, self._links = index.texts, index.open_links()
        self._reader = PassageReader(self._texts, self._links)
        self.identity = self._linked.identity

    def find(
        self, query: str, k: int, where: Mapping[str, str] | None = None
    ) -> tuple[tuple[Passage, ...], Features | None]:
        """Return at least k passages of linked retrieval, and features of the candidates.

        Candidates are the first of those passages, and the results of a further search from the best of them. Of fewer
        than two there are no features, nor for a query that cannot be ranked.
        """
        linked = self._linked.search_now(query, max(k, _FIRST), where)
        if not can_rank(query):
            return linked, None
        candidates = {
            passage.id: with_score(passage, passage.score, (*passage.stages, ("rank", 1 / (1 + rank))))
            for rank, passage in enumerate(linked[:_FIRST])
        }
        expanded = {passage.id: self._expand(query, passage, where) for passage in linked[:_SEEDS]}
        further: dict[str, tuple[int, Passage]] = {}
        for hits in expanded.values():
            for place, hit in enumerate(hits):
                if hit.id not in candidates and further.get(hit.id, (place + 1,))[0] > place:
                    further[hit.id] = (place, hit)
        best = sorted(further.values(), key=lambda entry: (entry[0], entry[1].id))[: _CANDIDATES - len(candidates)]
        for hit, score in self._scored(query, [hit for _, hit in best]):
            candidates[hit.id] = with_score(hit, score, (("bm25", score), ("rank", 0.0)))
        if len(candidates) < 2:
            return linked, None
        places = {name: {hit.id: place for place, hit in enumerate(hits)} for name, hits in expanded.items()}
        return linked, Features(self._reader, query, list(candidates.values()), places)

    def read(self, query: str, passages: Sequence[Passage]) -> Features:
        """Return the features of given passages."""
        return Features(self._reader, query, passages, {})

    def _expand(self, query: str, passage: Passage, where: Mapping[str, str] | None) -> list[Passage]:
        """Search for the question, a passage's title and the rarest new names in it."""
        asked = f" {folded(query)} "
        names = [name for name in self._links.mentions(key_of(passage.id)) if f" {name} " not in asked]
        names.sort(key=lambda name: (self._links.count(name), name))
        hits = self._texts.search(" ".join([query, passage.title, *names[:_MAX_NAMES]]), _PER_SEED, where)
        return [hit for _, _, hit in hits]

    def _scored(self, query: str, hits: Sequence[Passage]) -> list[tuple[Passage, float]]:
        """Return passages with their BM25 scores, in units of the best one for this query."""
        if not hits:
            return []
        highest = max((score for _, score, _ in self._texts.search(query, 1)), default=0.0) or 1.0
        scores = self._texts.scored(query, [key_of(hit.id) for hit in hits])
        return [(hit, round(scores[key_of(hit.id)][0] / highest, LEAF_DECIMALS)) for hit in hits]


class Ranked:
    """A retriever over an index with links, and a ranker."""

    kind = "ranked"
    remote = False

    def __init__(self, index: Index, ranker: Ranker) -> None:
        self._finder = CandidateFinder(index)
        self._ranker = ranker
        self.identity = f"{self.kind}:{ranker.digest}:{self._finder.identity}"

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return await asyncio.to_thread(self.search_now, query, k, where)

    async def aclose(self) -> None:
        return None

    def search_now(self, query: str, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Search in this thread."""
        if k <= 0:
            return ()
        linked, features = self._finder.find(query, k, where)
        if features is None:
            return without_copies(linked, query, k)
        scores = self._ranker.scores(features).round(LEAF_DECIMALS).tolist()
        own = [
            round(score - _LIST_DISCOUNT, LEAF_DECIMALS) if CONTENTS in passage.metadata else score
            for passage, score in zip(features.candidates, scores, strict=True)
        ]
        ranked = [
            with_score(passage, score, (*passage.stages[:-1], ("ranked", score)))
            for passage, score in zip(features.candidates, own, strict=True)
        ]
        ranked.sort(key=lambda passage: (-passage.score, passage.id))
        known, lowest = {passage.id for passage in ranked}, ranked[-1].score
        rest = [passage for passage in linked if passage.id not in known]
        ranked += [with_score(passage, lowest - place, passage.stages) for place, passage in enumerate(rest, 1)]
        return without_copies(ranked, query, k)

    def sentence_scores(self, query: str, passages: Sequence[Passage]) -> list[list[float]]:
        """Score the sentences of passages read together (`hoptree.text.names.sentences`).

        Those beyond the first 24 of a passage score as its lowest; all are equal for a query that cannot be ranked.
        """
        counts = [len(sentences(passage.text)) for passage in passages]
        if not can_rank(query):
            return [[0.0] * count for count in counts]
        scores = self._ranker.sentence_scores(self._finder.read(query, passages)) if passages else []
        return [each[:count] + [min(each)] * (count - len(each)) for each, count in zip(scores, counts, strict=True)]
