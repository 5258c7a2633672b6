"""The text index of an index folder: searching, fetching by key, and scanning."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from unicodedata import normalize

import tantivy

from hoptree.core.errors import CorpusError
from hoptree.core.files import batched
from hoptree.core.values import CONTENTS, Passage
from hoptree.retrieval.index.tantivy_files import (
    ANALYZER,
    KEYS_AT_ONCE,
    LANGUAGE,
    STEMMED,
    Stored,
    TantivyErrors,
    analyzer_for,
    composed,
    foreign_terms,
    inverse_document_frequency,
    key_of,
    lockable_folder,
    pairs,
    read_stored,
    tag_of,
    without_asking,
)
from hoptree.retrieval.retriever import DOCUMENT, TITLE, fits
from hoptree.text.tokens import LANGUAGES, function_words, language_of

_LIST_SHARE, _MAX_MORE = 0.5, 8
"""Share of its score that a table of contents or links keeps; factor by which more is searched because of lists."""
_DECIMALS = 4  # of a score: more would depend on the order of segments
_TIE_ROOM = 10
_MAX_TIES = 20_000
_REGEX_SIGN = re.compile(r"[\\.+*?()|\[\]{}^$]")
_TITLE_CANDIDATES = (1_000, 8_000, 64_000)
"""Passages among which those of a title are searched; the next number if too few fit."""
_SCAN_AT_ONCE = 2_000
_TERMS_AT_ONCE = 20  # a score can hold the sum of their powers of two
_MAX_SCORED = 80_000
"""Occurrences of query words to score, which takes one to two milliseconds; one more for every 50 passages."""
_MIN_SEARCH_WORDS = 3
_QUERIES_KEPT, _TERMS_KEPT, _PASSAGES_KEPT = 100, 10_000, 2_000
"""Cache sizes: the terms of queries, which a search needs several times; statistics of terms; passages."""
_MIN_CANDIDATES, _CANDIDATES_PER_RESULT = 45, 4
"""Candidates that are scored by all words: the larger of both, plus one for every 300,000 passages."""
_DAMAGED = TantivyErrors("The index is damaged")

Word = tuple[str, str]  # a field and a term in it
Hit = tuple[float, tantivy.DocAddress]
Stages = tuple[tuple[str, float], ...]


class Texts:
    """Reads a text index; `query_terms` returns the significant terms of a query.

    `damage` collects errors from checks in the background: it ends the next search.
    """

    def __init__(self, folder: Path, *, language: str, digest: str = "", damage: Sequence[CorpusError] = ()) -> None:
        self.digest, self._damage = digest, damage
        self._analyzer = analyzer_for(language)
        self._language = language
        self._tagged: bool | None = None
        self._lists: frozenset[int] | None = None
        with TantivyErrors(f"The index {folder} is damaged"), lockable_folder(folder) as place:
            self._index = tantivy.Index.open(str(place))
            self._index.register_tokenizer(ANALYZER, self._analyzer)
            self._index.reload()
            self._schema = self._index.schema
            self._searcher = self._index.searcher()
            counts = {name: int(self._searcher.doc_freq("tags", tag_of(LANGUAGE, name))) for name in LANGUAGES}
            self.languages = {name: count for name, count in counts.items() if count}
            """The number of passages by language other than English, as far as it is known."""
        # None may refer to `self`: a cycle would keep the index open until garbage collection.
        foreign = frozenset(self.languages) & frozenset(STEMMED) - {language}
        spoken = lru_cache(_QUERIES_KEPT)(partial(_spoken, language, foreign))
        query_terms = lru_cache(_QUERIES_KEPT)(partial(_query_terms, self._analyzer, language, spoken))
        self.query_terms: Callable[[str], tuple[str, ...]] = query_terms
        term = partial(tantivy.Query.term_query, self._schema, index_option="freq")
        self._term: Callable[[str, str], tantivy.Query] = lru_cache(_TERMS_KEPT)(term)
        known = partial(_known, lru_cache(_TERMS_KEPT)(partial(_count, self._searcher)), query_terms, spoken)
        self._words: Callable[[str], Mapping[Word, int]] = lru_cache(_QUERIES_KEPT)(known)
        self._stored: Callable[[int, int], Stored] = lru_cache(_PASSAGES_KEPT)(partial(read_stored, self._searcher))
        self._rarity: Callable[[str], float] = lru_cache(_TERMS_KEPT)(partial(_rarity, self._searcher))

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def check(self) -> None:
        """Raise an error if a segment's first passage is unreadable; opening reads less."""
        with _DAMAGED:
            for segment in range(self._searcher.num_segments):
                self._passage(tantivy.DocAddress(segment, 0), 0.0)

    def refuse_damage(self) -> None:
        """Raise the first error that was found in the background."""
        if self._damage:
            raise self._damage[0]

    def _sound(self) -> TantivyErrors:
        self.refuse_damage()
        return _DAMAGED

    def terms(self, text: str) -> tuple[str, ...]:
        """Return the distinct terms of a text, in its order."""
        return _terms(self._analyzer, text)

    def rarity(self, terms: Sequence[str]) -> dict[str, float]:
        """Return the inverse document frequency of each term, as BM25 counts it."""
        with self._sound():
            return {term: self._rarity(term) for term in terms}

    def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[tuple[int, float, Passage]]:
        """Return key, score and passage of the best k; ties are broken by id.

        tantivy scores every passage that has any of the words. If that would be slow and no filter narrows the search,
        frequent words find no passages, but count in the scores of those that rarer words find.
        """
        with self._sound():
            words = self._words(query)
            if not words or k <= 0:
                return []
            wanted = k
            while True:
                if where:
                    hits = self._fitting(words, wanted, where)
                else:
                    hits = list(self._read(self._best_by_all(*self._by_cost(words), wanted)))
                lists = sum(key in self._list_keys() for key, _, _ in hits)
                if not lists or len(hits) < wanted or len(hits) - lists >= k or wanted >= _MAX_MORE * k:
                    break
                wanted *= 2
        hits.sort(key=lambda hit: (-hit[1], hit[2].id))
        return hits[:k]

    def _fitting(self, words: Collection[Word], k: int, where: Mapping[str, str]) -> list[tuple[int, float, Passage]]:
        """Return at least the k best of those that fit a filter.

        In folders of older versions titles are not tags: their words narrow the search, and `fits` decides.
        """
        by_words = TITLE in where and not self._titles_tagged()
        tags = (pair for pair in where.items() if pair[0] != TITLE or not by_words)
        needed = [(tantivy.Occur.Must, self._where(*pair)) for pair in tags]
        if by_words:
            needed += [(tantivy.Occur.Must, self._only("body", term)) for term in self.terms(where[TITLE])]
        narrowed = tantivy.Query.boolean_query([*needed, (tantivy.Occur.Must, self._any(words))])
        fitting: list[tuple[int, float, Passage]] = []
        for wanted in _TITLE_CANDIDATES if by_words else (k,):
            hits = _first(self._best(narrowed, max(k, wanted)), max(k, wanted))
            hits.sort(key=lambda hit: (hit[1].segment_ord, hit[1].doc))  # quicker to read in the order they are stored
            fitting = [hit for hit in self._read(hits) if fits(hit[2], where)]
            if len(fitting) >= k or len(hits) < wanted:
                break
        return fitting

    def _titles_tagged(self) -> bool:
        """Return whether every passage has its title among its tags; looked up once."""
        if self._tagged is None:
            tagged = self._only("tags", tag_of(TITLE, ""))
            parts = [(tantivy.Occur.Must, tantivy.Query.all_query()), (tantivy.Occur.MustNot, tagged)]
            self._tagged = not self._searcher.search(tantivy.Query.boolean_query(parts), 1, count=False).hits
        return self._tagged

    def _read(self, hits: Sequence[Hit]) -> Iterator[tuple[int, float, Passage]]:
        for key, (full, address) in zip(self._keys(hits), hits, strict=True):
            score = self._own_score(key, full)
            yield key, score, self._passage(address, score, (("bm25", score),))

    def _own_score(self, key: int, score: float) -> float:
        """Return the score of a passage, reduced for tables of contents or links."""
        return round(score * _LIST_SHARE, _DECIMALS) if key in self._list_keys() else score

    def _list_keys(self) -> frozenset[int]:
        """Return the keys of the tables of contents or links; looked up once."""
        if self._lists is None:
            tag = tag_of(*CONTENTS)
            most = int(self._searcher.doc_freq("tags", tag))
            hits = self._searcher.search(self._only("tags", tag), most, count=False).hits if most else []
            self._lists = frozenset(self._keys(hits))
        return self._lists

    def _keys(self, hits: Iterable[Hit]) -> list[int]:
        return self._values("key", [address for _, address in hits])

    def _values(self, field: str, places: list[tantivy.DocAddress]) -> list[int]:
        return [int(value or 0) for value in self._searcher.fast_field_values(field, places)]

    def _where(self, name: str, value: str) -> tantivy.Query:
        """Return a query for a value; a document is also a passage's id, or a file."""
        tagged = self._only("tags", tag_of(name, value))
        if name != DOCUMENT:
            return tagged
        written = dict.fromkeys((value, normalize("NFC", value), normalize("NFD", value)))
        with_id = self._with_keys([key_of(form) for form in written])
        of_parts = _REGEX_SIGN.sub(r"\\\g<0>", tag_of(name, value)) + "#[a-z]+=[0-9]+"
        parts = tantivy.Query.const_score_query(tantivy.Query.regex_query(self._schema, "tags", of_parts), 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, each) for each in (tagged, with_id, parts)])

    def scored(self, query: str, keys: Sequence[int]) -> dict[int, Hit]:
        """Return score and address of each of these passages; 0 if no word is shared."""
        with self._sound():
            words = self._words(query)
            hits = self._scored(self._any(words) if words else None, keys)
            keys = self._keys(hits)
            return {
                key: (round(self._own_score(key, score), _DECIMALS), at)
                for key, (score, at) in zip(keys, hits, strict=True)
            }

    def shared(self, terms: Sequence[str], keys: Sequence[int]) -> list[list[str]]:
        """Return the terms that each of these passages has, in no order of passages."""
        shared: dict[int, list[str]] = {key: [] for key in keys}
        for batch in batched(terms, _TERMS_AT_ONCE):
            with self._sound():  # the score encodes which: each term adds a power of two
                each = [(tantivy.Occur.Should, self._only("body", term, 2.0**at)) for at, term in enumerate(batch)]
                hits = self._scored(tantivy.Query.boolean_query(each), keys)
                for key, (score, _) in zip(self._keys(hits), hits, strict=True):
                    shared[key] += [term for at, term in enumerate(batch) if int(score) >> at & 1]
        return [*shared.values()]

    def read(self, places: Mapping[int, tantivy.DocAddress]) -> dict[int, Passage]:
        """Return the passages at these addresses, by key."""
        with self._sound():
            return {key: self._passage(place, 0.0) for key, place in places.items()}

    def containing(
        self, text: str, *, before: int, most: int, without: Collection[int] = ()
    ) -> Iterator[tuple[int, Passage]]:
        """Yield passages below `before` with all words of a text, unless over `most`."""
        words = self.terms(text)
        with self._sound():
            counts = [int(self._searcher.doc_freq("body", word)) for word in words]
        if not words or min(counts) == 0 or (len(words) == 1 and counts[0] > most):
            return
        needed = [(tantivy.Occur.Must, self._only("body", word)) for word in words]
        with self._sound():
            hits: list[Hit] = self._searcher.search(tantivy.Query.boolean_query(needed), most + 1, count=False).hits
            if len(hits) > most:
                return
            places = [address for _, address in hits]
            for place, number, key in zip(places, self._values("number", places), self._keys(hits), strict=True):
                if number < before and key not in without:
                    yield key, self._passage(place, 0.0)

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        """Return the passages with these keys; unknown keys are left out."""
        passages: dict[int, Passage] = {}
        for batch in batched(keys, KEYS_AT_ONCE):
            with self._sound():
                hits: list[Hit] = self._searcher.search(self._with_keys(batch), len(batch), count=False).hits
                passages |= {key: self._passage(at, 0.0) for key, (_, at) in zip(self._keys(hits), hits, strict=True)}
        return passages

    def scan(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, Passage]]:
        """Yield number, key and passage in the order of numbers, in bounded memory."""
        stop = self._last_number() + 1 if end is None else end
        unsigned = tantivy.FieldType.Unsigned
        for low in range(start, stop, _SCAN_AT_ONCE):
            high = min(low + _SCAN_AT_ONCE, stop)
            between = tantivy.Query.range_query(self._schema, "number", unsigned, low, high, True, False)
            with self._sound():
                places = [address for _, address in self._searcher.search(between, _SCAN_AT_ONCE, count=False).hits]
                places.sort(key=lambda address: (address.segment_ord, address.doc))
                passages = [self._passage(place, 0.0) for place in places]
                rows = zip(self._values("number", places), self._values("key", places), passages, strict=True)
            yield from sorted(rows, key=itemgetter(0))

    def _last_number(self) -> int:
        with self._sound():
            hits = self._searcher.search(tantivy.Query.all_query(), 1, count=False, order_by_field="number").hits
        return int(hits[0][0]) if hits else -1

    def _any(self, words: Collection[Word]) -> tantivy.Query:
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, self._term(*word)) for word in words])

    def _by_cost(self, words: Mapping[Word, int]) -> tuple[list[Word], list[Word]]:
        """Split words into those cheap enough to find passages and others, rarest first."""
        known = sorted((cost, word) for word, cost in words.items())
        most = _MAX_SCORED + len(self) // 50
        spent = accumulate(cost for cost, _ in known)
        rare = sum(count < _MIN_SEARCH_WORDS or cost <= most for count, cost in enumerate(spent))
        return [word for _, word in known[:rare]], [word for _, word in known[rare:]]

    def _best_by_all(self, rare: Sequence[Word], frequent: Sequence[Word], k: int) -> list[Hit]:
        """Rank the passages that have rare words by all words.

        Frequent words are added to the rare ones until these find enough.
        """
        wanted = max(_MIN_CANDIDATES + len(self) // 300_000, _CANDIDATES_PER_RESULT * k)
        while frequent and len(candidates := self._best(self._any(rare), wanted)) < wanted:
            rare, frequent = [*rare, frequent[0]], frequent[1:]
        if not frequent:
            return _first(self._best(self._any(rare), k), k)
        extra = self._scored(self._any(frequent), self._keys(candidates))
        more = {(at.segment_ord, at.doc): score for score, at in extra}
        both = [(score + more[at.segment_ord, at.doc], at) for score, at in candidates]
        both.sort(key=itemgetter(0), reverse=True)
        return _first(both, k)

    def _scored(self, query: tantivy.Query | None, keys: Sequence[int]) -> list[Hit]:
        """Score each of these passages by a query; 0 if it does not match."""
        scored: list[Hit] = []
        for batch in batched(keys, KEYS_AT_ONCE):
            both = [(tantivy.Occur.Must, self._with_keys(batch))]
            if query:
                both.append((tantivy.Occur.Should, query))
            scored += self._searcher.search(tantivy.Query.boolean_query(both), len(batch), count=False).hits
        return scored

    def _only(self, field: str, term: str, score: float = 0.0) -> tantivy.Query:
        query = tantivy.Query.term_query(self._schema, field, term, index_option="basic")
        return tantivy.Query.const_score_query(query, score)

    def _with_keys(self, keys: Sequence[int]) -> tantivy.Query:
        # A set of terms would be thirty times slower: tantivy looks through all keys for it.
        terms = (tantivy.Query.term_query(self._schema, "key", key, index_option="basic") for key in keys)
        either = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        return tantivy.Query.const_score_query(either, 0.0)

    def _best(self, query: tantivy.Query, k: int) -> list[Hit]:
        """Return the k best, and all that tie with the last of them, within limits."""
        k = min(k, max(len(self), 1))  # tantivy allocates memory for k hits
        wanted = k + _TIE_ROOM
        while True:
            hits: list[Hit] = self._searcher.search(query, wanted, count=False).hits
            best = _level(hits, k)
            if best < len(hits) or len(hits) < wanted or wanted >= _MAX_TIES:
                return hits[:best]
            wanted *= 8

    def _passage(self, address: tantivy.DocAddress, score: float, stages: Stages = ()) -> Passage:
        """Read a stored passage; raises a ValueError, as tantivy does, if it is garbled."""
        try:
            stored = self._stored(address.segment_ord, address.doc)
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"a passage cannot be read ({error})") from error
        name, title, text, document, start, end, aliases, metadata, *links = stored
        return Passage(name, title, text, score, document, start, end, aliases, metadata, stages, *links)


def _terms(analyzer: tantivy.TextAnalyzer, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(analyzer.analyze(composed(text))))


def _spoken(own: str, foreign: Collection[str], query: str) -> str:
    """Return a query's language if it is that of passages, not of the index; else ""."""
    language = language_of(query, own) if foreign else own
    return language if language in foreign else ""


def _query_terms(
    analyzer: tantivy.TextAnalyzer, language: str, spoken: Callable[[str], str], query: str
) -> tuple[str, ...]:
    if foreign := spoken(query):
        words = (word for word in query.split() if word.strip("?¿!.,").lower() not in function_words().get(foreign, ()))
        query = " ".join(word for word in words if foreign_terms(foreign, word)) or query
    return _terms(analyzer, without_asking(query, language)) or _terms(analyzer, query)


def _count(searcher: tantivy.Searcher, word: Word) -> int:
    return int(searcher.doc_freq(*word))


def _known(
    count: Callable[[Word], int],
    query_terms: Callable[[str], tuple[str, ...]],
    spoken: Callable[[str], str],
    query: str,
) -> MappingProxyType[Word, int]:
    """Return the words of a query that occur, with their document frequencies."""
    foreign = spoken(query)
    of_pairs = dict.fromkeys((*pairs(composed(query)), *(foreign_terms(foreign, query) if foreign else ())))
    words: Iterator[Word] = chain(
        (("body", term) for term in query_terms(query)), (("pairs", pair) for pair in of_pairs)
    )
    return MappingProxyType({word: having for word in words if (having := count(word))})


def _rarity(searcher: tantivy.Searcher, term: str) -> float:
    total = int(searcher.num_docs)
    return inverse_document_frequency(total, min(searcher.doc_freq("body", term), total))


def _first(hits: Sequence[Hit], k: int) -> list[Hit]:
    """Return the first k of sorted hits, with ties and rounded scores."""
    return [(round(score, _DECIMALS), place) for score, place in hits[: _level(hits, k)]]


def _level(hits: Sequence[Hit], k: int) -> int:
    """Count the sorted hits that score at least as much as the k-th, rounded."""
    if len(hits) <= k:
        return len(hits)
    last = round(hits[k - 1][0], _DECIMALS)
    return next((at for at in range(k, len(hits)) if round(hits[at][0], _DECIMALS) < last), len(hits))
