"""Protocols of retrievers, opening by kind, and the retriever `bm25`."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from unicodedata import normalize

from hoptree.core.errors import ConfigError, CorpusError, MissingModel, closest
from hoptree.core.lazy import lazy_re
from hoptree.core.values import Fact, Passage, split_part
from hoptree.retrieval import DEFAULT_RETRIEVER

if TYPE_CHECKING:
    from hoptree.retrieval.index.folder import Index
    from hoptree.retrieval.indexing.sources import Listener, Outcome


class Retriever(Protocol):
    """Finds the best k passages for a query, best first, ties broken by passage id.

    `kind` names it in traces; `identity` is what determines its results: the kind, its settings and the digest of
    the passages. `remote` says that a search is worth caching and may fail for a moment. `where` keeps passages whose
    metadata have these values.
    """

    kind: str
    identity: str
    remote: bool

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class FactGuided(Protocol):
    """A retriever that can start from facts; `signals` are those it offers."""

    @property
    def signals(self) -> frozenset[str]: ...

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        """Return the facts nearest to a query, best first; nearness is their confidence."""

    def guided(self, facts: Sequence[Fact]) -> Retriever:
        """Return a retriever that starts from these facts; from none, its first ranking."""


@runtime_checkable
class RanksSentences(Protocol):
    """A retriever that was trained to tell which sentences matter."""

    def sentence_scores(self, query: str, passages: Sequence[Passage]) -> list[list[float]]:
        """Score each sentence (`hoptree.text.names.sentences`) of passages read together."""


@runtime_checkable
class NameGuided(Protocol):
    """A retriever that can start from names of things."""

    def named(self, names: Sequence[str]) -> Retriever:
        """Return a retriever that starts from these names; from none, its first ranking."""


def signals_of(retriever: Retriever | None) -> frozenset[str]:
    """Return the signals a retriever offers in addition to passages."""
    # An isinstance check of FactGuided would take far longer, in every search.
    signals: frozenset[str] = getattr(retriever, "signals", frozenset())
    return signals


def cache_lifetime(source: object) -> float:
    """Return the seconds that results may be cached: `cache_seconds`, or for ever."""
    seconds: float = getattr(source, "cache_seconds", math.inf)
    return seconds


class PassageStore(Protocol):
    """Passages by their unsigned 64-bit key; `digest` is that of all of them."""

    @property
    def digest(self) -> str: ...

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        """Return the passages with these keys; unknown keys are left out."""


DOCUMENT, TITLE = "document", "title"  # names in a filter for fields of a passage, not for its metadata
SECTION = " › "  # separates the title of a page from that of a section


def fits(passage: Passage, where: Mapping[str, str] | None) -> bool:
    """Return whether a passage has all values of a filter, in any Unicode normal form."""
    return all(_has(passage, name, value) for name, value in (where or {}).items())


def _has(passage: Passage, name: str, value: str) -> bool:
    name, value = _composed(name), _composed(value)
    if name == DOCUMENT:
        document = _composed(passage.document or passage.id)
        return value in (document, split_part(document)[0])
    if name == TITLE:
        title = _composed(passage.title)
        return title == value or title.startswith(value + SECTION)  # a section of it
    return any((name, value) == (_composed(field), _composed(held)) for field, held in passage.metadata)


def _composed(text: str) -> str:
    return normalize("NFC", text)


_LOG = logging.getLogger("hoptree.retrieval")
_URL = lazy_re(r"[A-Za-z][A-Za-z0-9+.-]*://")
WIKI = lazy_re(r"wikipedia(?::|\Z)|mediawiki\+")  # names of wikis that are searched live
KINDS = {
    DEFAULT_RETRIEVER: "ranked, linked without hoptree-weights, or bm25 where there are no links to go along",
    "bm25": "the words of the query, weighed by how rare they are",
    "linked": "BM25, then along the names that passages mention",
    "ranked": "linked, then by a trained ranker of chains (needs hoptree-weights)",
    "dense": "nearness in meaning (needs vectors: hoptree index encode)",
    "hybrid": "linked (bm25 where an index has no links) and dense together, four to one",
    "hippo": "along the facts that passages state (needs facts: hoptree index facts)",
}
_HYBRID_WEIGHTS = (0.8, 0.2)
"""Weights of words and meaning: with a small encoder, more meaning found less on every collection tried."""


def is_remote(corpus: str) -> bool:
    """Return whether a corpus names a wiki or any URL, and not a path."""
    return WIKI.match(corpus) is not None or _URL.match(corpus) is not None


def locate_corpus(corpus: str | Path, *, on_progress: Listener | None = None) -> tuple[str | Path, Outcome | None]:
    """Return the index or address of a corpus, and the Outcome of indexing documents.

    Documents are indexed into the user's cache; None means that nothing had to be indexed.
    """
    from hoptree.retrieval.index.folder import holds_documents, sample_index

    if str(corpus) == "sample":
        return sample_index(), None
    if is_remote(str(corpus)) or not holds_documents(Path(corpus)):
        return corpus, None
    from hoptree.retrieval.indexing import cached_index

    return cached_index(Path(corpus), on_progress=on_progress)


def open_retriever(
    corpus: str | Path,
    kind: str = DEFAULT_RETRIEVER,
    *,
    rerank: str = "",
    distinct: bool = False,
    cached: bool = True,
    facts: bool = False,
) -> Retriever:
    """Open a retriever over an index folder, a search engine's address, or a wiki.

    `rerank` names the reranker of the first 100 passages; `distinct` leaves out near-duplicates. The pages of a
    wiki are cached unless `cached` is off. With `facts`, `auto` means `hippo` where an index has facts.
    """
    retriever = _first_stage(corpus, kind, cached, facts)
    if rerank:
        from hoptree.retrieval.rerank import Reranked, open_reranker

        retriever = Reranked(retriever, open_reranker(rerank))
    if distinct:
        from hoptree.retrieval.rerank import Distinct

        retriever = Distinct(retriever)
    return retriever


def check_kind(kind: str) -> None:
    """Raise an error for an unknown retriever."""
    if kind not in KINDS:
        near = closest(kind, KINDS)
        hint = f" Did you mean {near}?" if near else ""
        raise ConfigError(f"There is no retriever '{kind}'.{hint}", f"Choose one of {', '.join(KINDS)}.")


def _first_stage(corpus: str | Path, kind: str, cached: bool, facts: bool) -> Retriever:
    check_kind(kind)
    if isinstance(corpus, str) and is_remote(corpus):
        if kind not in ("bm25", DEFAULT_RETRIEVER):
            cause = f"'{kind}' needs an index folder."
            raise ConfigError(cause, "An engine or wiki is searched as it is: --retriever bm25.")
        from hoptree.retrieval.remote import open_remote

        return open_remote(corpus, cached=cached)
    from hoptree.retrieval.index.folder import read_manifest

    while True:
        generation = read_manifest(Path(corpus)).generation
        try:
            return _over_index(Path(corpus), kind, facts)
        except CorpusError:
            # A writer may have switched to the next generation between two steps of opening.
            if read_manifest(Path(corpus)).generation == generation:
                raise


def _over_index(folder: Path, kind: str, facts: bool) -> Retriever:
    # Imported here: tantivy is a native library that a run without a corpus does not need.
    from hoptree.retrieval.index.folder import Index
    from hoptree.retrieval.linked import Linked

    index = Index(folder)
    if kind == DEFAULT_RETRIEVER:
        kind = _default_kind(index, facts)
    if kind == "bm25":
        return BM25(index)
    if kind == "linked":
        return Linked(index)
    if kind == "ranked":
        return _ranked(index)
    if kind == "hippo":
        from hoptree.retrieval.hippo_retriever import open_hippo

        return open_hippo(index, _dense(index) if index.manifest.settings.encoder else BM25(index))
    dense = _dense(index)
    if kind == "dense":
        return dense
    from hoptree.retrieval.rerank import Fused

    words = Linked(index) if index.manifest.settings.links else BM25(index)
    return Fused([words, dense], _HYBRID_WEIGHTS)


_MIN_RANKED = 200
"""Passages from which on an index is ranked by default: in fewer, a search finds most without loading numpy."""


def _default_kind(index: Index, facts: bool) -> str:
    """Return the best kind of retriever that an index supports."""
    if facts:
        from hoptree.retrieval.hippo_store import FOLDER

        if (index.generation / FOLDER).exists():
            return "hippo"
    if not index.manifest.settings.links:
        return "bm25"
    if index.manifest.passages < _MIN_RANKED:
        return "linked"
    from hoptree.retrieval.ranker import find_ranker

    try:
        return "ranked" if find_ranker(index) else "linked"
    except ConfigError as error:
        _LOG.warning("%s", error)
        return "linked"


def _ranked(index: Index) -> Retriever:
    from hoptree.retrieval.ranker import Ranked, find_ranker

    ranker = find_ranker(index)
    if ranker is None:
        raise MissingModel("There is no trained ranker here.", "Install it: pip install hoptree-weights numpy")
    return Ranked(index, ranker)


def _dense(index: Index) -> Retriever:
    from hoptree.retrieval.encoder import open_encoder
    from hoptree.retrieval.vectors import Dense

    spec = index.manifest.settings.encoder
    if not spec:
        cause = f"The index {index.folder} has no vectors."
        raise CorpusError(cause, f"Make them: hoptree index encode --out {index.folder} --encoder SPEC")
    encoder = open_encoder(spec)
    ledger = index.ledger()
    made_by = ledger.fact("encoder identity")
    ledger.close()
    if made_by != encoder.identity:
        cause = f"The vectors of {index.folder} were made by another encoder than {spec} is now."
        raise CorpusError(cause, f"Encode it again: hoptree index encode --out {index.folder} --encoder {spec}")
    return Dense(index.texts, index.open_vectors(), encoder)


_WORD = lazy_re(r"\w+")
_RUN_WORDS = 3
_DEPTH_OF_COPIES = 4  # factor of the passages to search if files repeat each other
_MIN_SHARED = 0.9  # share of the word runs of a copy that an earlier passage has


def without_copies(ranked: Sequence[Passage], query: str, most: int) -> tuple[Passage, ...]:
    """Return the best `most` passages; near copies fill places that are left.

    A passage is a copy if it repeats an earlier one of another file, such as a manual in HTML, text, PDF and e-book,
    unless its title or file has a word of the query that the earlier one lacks: two packages may have the same licence.
    Rows of passage files are never copies: their ids are those of their documents.
    """
    copies = find_copies(ranked, query, most)
    places = [place for place in range(len(ranked)) if place not in copies][:most]
    texts = {tuple(_words(ranked[place].text)) for place in places}
    for place in sorted(copies):
        if len(places) < most and (words := tuple(_words(ranked[place].text))) not in texts:
            texts.add(words)
            places.append(place)
    return tuple(ranked[place] for place in sorted(places))


def search_distinct(search: Callable[[int], tuple[Passage, ...]], query: str, k: int) -> tuple[Passage, ...]:
    """Search for k; if copies take places, search again for more."""
    hits = search(k)
    return without_copies(search(k * _DEPTH_OF_COPIES), query, k) if find_copies(hits, query, k) else hits


_WORTH_A_THREAD = 50_000  # passages of an index: below that a search takes less time than handing it to a thread
_SEARCHES_KEPT = 256  # searches in the cache


class BM25:
    """Finds passages that share words with the query."""

    kind = "bm25"
    remote = False

    def __init__(self, index: Index) -> None:
        self._texts = index.texts
        self._passages = index.manifest.passages
        self.identity = f"{self.kind}:{index.identity}"
        self._found: dict[tuple[object, ...], tuple[Passage, ...]] = {}

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Return the best k; recent searches are cached, as sub-questions repeat them."""
        self._texts.refuse_damage()
        asked = (query, k, *sorted((where or {}).items()))
        if (hits := self._found.get(asked)) is None:
            if self._passages < _WORTH_A_THREAD:
                hits = self._search_distinct(query, k, where)
            else:
                hits = await asyncio.to_thread(self._search_distinct, query, k, where)
            if len(self._found) >= _SEARCHES_KEPT:
                self._found.clear()
            self._found[asked] = hits
        return hits

    async def aclose(self) -> None:
        return None

    def _search_distinct(self, query: str, k: int, where: Mapping[str, str] | None) -> tuple[Passage, ...]:
        return search_distinct(lambda wanted: self.search_now(query, wanted, where), query, k)

    def search_now(self, query: str, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Search in this thread."""
        return tuple(passage for _, _, passage in self._texts.search(query, k, where))


def find_copies(ranked: Sequence[Passage], query: str, most: int) -> set[int]:
    """Return the places of copies before the first `most` others."""
    copies: set[int] = set()
    kept: list[Passage] = []
    runs: dict[str, frozenset[str]] = {}
    for at, passage in enumerate(ranked):
        if len(kept) >= most:
            break
        if others := [other for other in kept if _may_repeat(passage, other)]:
            for each in (passage, *others):
                runs[each.id] = runs.get(each.id) or _runs(each.text)
            own = runs[passage.id]
            named = set(_words(query)).intersection(_words(f"{passage.title} {passage.document}"))
            repeated = (other for other in others if len(own & runs[other.id]) >= _MIN_SHARED * len(own))
            if any(named.issubset(_words(f"{other.title} {other.document} {other.text}")) for other in repeated):
                copies.add(at)
                continue
        kept.append(passage)
    return copies


def _may_repeat(passage: Passage, other: Passage) -> bool:
    """Return whether both are pieces of files, of two different ones."""
    if passage.id == passage.document or other.id == other.document:
        return False
    return passage.document.partition("#")[0] != other.document.partition("#")[0]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(text: str) -> frozenset[str]:
    words = _words(text)
    return frozenset(" ".join(words[at : at + _RUN_WORDS]) for at in range(max(1, len(words) - _RUN_WORDS + 1)))
