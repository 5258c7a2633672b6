"""Reading a text index: searches, fetches by key, and walks through it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain
from math import log
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from unicodedata import normalize

import tantivy

from hoptree.core.values import Passage
from hoptree.retrieval.index.analysis import analyzer_for, composed, pairs, without_asking
from hoptree.retrieval.index.ledger import is_plain, key_of
from hoptree.retrieval.index.tantivy_files import open_packed, open_writer, readable, tantivy_errors, writing
from hoptree.retrieval.retriever import DOCUMENT, TITLE, fits

ANALYZER = "hoptree"
PLAIN = b"="
"""What the record of a passage begins with that is its own document."""
_TITLE_WEIGHT = 3
"""How often the title is counted among the words of a passage."""
_AT_ONCE = 1_000


class TextWriter:
    """Adds passages to a text index, and takes them out. Nothing counts before `commit`."""

    def __init__(self, folder: Path, *, language: str, memory: int) -> None:
        self._schema = _schema()
        with tantivy_errors(f"The index cannot be written to {folder}"):
            self._index = open_packed(folder, self._schema)
            self._index.register_tokenizer(ANALYZER, analyzer_for(language))
            self._writer = open_writer(self._index, memory, 2)

    def add(self, passages: Sequence[tuple[Passage, int]], number: int) -> None:
        """Add passages with their keys, numbered from `number` on."""
        with writing("The index cannot be written"):
            for count, (passage, key) in enumerate(passages, number):
                self._writer.add_document(self._document(passage, key, count))

    def _document(self, passage: Passage, key: int, number: int) -> tantivy.Document:
        document = tantivy.Document()
        document.add_unsigned("key", key)
        document.add_unsigned("number", number)
        document.add_bytes("record", _record(passage))
        title, text = composed(passage.title), composed(passage.text)
        for _ in range(_TITLE_WEIGHT):
            document.add_text("body", title)
        document.add_text("body", text)
        for tag in passage.metadata:
            document.add_text("tags", tag_of(*tag))
        if not is_plain(passage):
            document.add_text("tags", tag_of(DOCUMENT, passage.document))
        if not text.isascii() or not title.isascii():
            document.add_text("pairs", " ".join(pairs(f"{title} {text}")))
        return document

    def remove(self, keys: Sequence[int]) -> None:
        # By query: removing by a term takes a number for a signed one, and removes nothing.
        for some in in_parts(keys):
            self._writer.delete_documents_by_query(tantivy.Query.term_set_query(self._schema, "key", list(some)))

    def remove_from(self, number: int) -> None:
        """Take out every passage from this number on: what was written after the ledger's last word."""
        unsigned = tantivy.FieldType.Unsigned
        self._writer.delete_documents_by_query(
            tantivy.Query.range_query(self._schema, "number", unsigned, number, None)
        )

    def commit(self) -> None:
        with writing("The index cannot be written"):
            self._writer.commit()

    def close(self) -> None:
        """Wait for tantivy's threads: until then they write to the folder."""
        with writing("The index cannot be written"):
            self._writer.wait_merging_threads()


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("number", fast=True)
    builder.add_bytes_field("record", stored=True)
    builder.add_text_field("body", stored=True, tokenizer_name=ANALYZER, index_option="freq")
    builder.add_text_field("pairs", tokenizer_name="whitespace", index_option="freq")
    builder.add_text_field("tags", tokenizer_name="raw", index_option="basic")
    return builder.build()


def _record(passage: Passage) -> bytes:
    """What is kept of a passage beside title and text; a passage that is its own document needs only its id."""
    if is_plain(passage):
        return PLAIN + passage.id.encode("utf-8", "surrogatepass")
    rest = [passage.id, passage.document, passage.start, passage.end, passage.aliases, passage.metadata]
    return json.dumps(rest).encode()


def tag_of(name: str, value: str) -> str:
    return composed(f"{name}\x1f{value}")


def in_parts(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[start : start + _AT_ONCE] for start in range(0, len(keys), _AT_ONCE))


_DECIMALS = 4
"""Of a score: what lies behind them depends on the order in which segments were written."""
_TIE_ROOM = 10
_MOST_TIES = 20_000
_TITLED = (1_000, 8_000, 64_000)
"""Passages among which those of a title are looked for: more of them where too few are found."""
_SCANNED = 2_000
_SCORED = 80_000
"""Times a passage has a word of the query: so many take one to two milliseconds. One more for every 50 passages."""
_FEWEST_SOUGHT = 3
_QUERIES_KEPT, _TERMS_KEPT, _PASSAGES_KEPT = 100, 10_000, 200
"""What stays in memory: the terms of queries, for which one search asks several times; how rare terms are; and
passages, which may be long."""
_CANDIDATES, _RESERVE = 45, 4
"""Passages that are scored by all words: so many at least, one more for every 300,000 passages, or so many times those
that are asked for."""
Word = tuple[str, str]
"""A field and a term in it."""
Hit = tuple[float, tantivy.DocAddress]
Stages = tuple[tuple[str, float], ...]
Stored = tuple[str, str, str, str, int, int, tuple[str, ...], tuple[tuple[str, str], ...]]
"""A passage but for its score: id, title, text, document, start, end, aliases, metadata."""


class Texts:
    """Reads a text index: searches, fetches by key, and walks through all passages in the order of indexing.

    `sought` are the terms that a query looks for: those of words that do more than ask, if it has any.
    """

    def __init__(self, folder: Path, *, language: str, digest: str = "") -> None:
        self.digest = digest
        self._analyzer = analyzer_for(language)
        self._language = language
        with tantivy_errors(f"The index {folder} is damaged"), readable(folder) as place:
            self._index = tantivy.Index.open(str(place))
            self._index.register_tokenizer(ANALYZER, self._analyzer)
            self._index.reload()
            self._schema = self._index.schema
            self._searcher = self._index.searcher()
        # None of these knows `self`: a ring would keep the index open until garbage is looked for.
        sought = lru_cache(_QUERIES_KEPT)(partial(_sought, self._analyzer, language))
        self.sought: Callable[[str], tuple[str, ...]] = sought
        known = partial(_known, self._searcher, sought)
        self._words: Callable[[str], Mapping[Word, int]] = lru_cache(_QUERIES_KEPT)(known)
        self._stored: Callable[[int, int], Stored] = lru_cache(_PASSAGES_KEPT)(partial(_read_stored, self._searcher))
        self._rarity: Callable[[str], float] = lru_cache(_TERMS_KEPT)(partial(_rarity, self._searcher))

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def check(self) -> None:
        """An error if the first passage of a segment cannot be read: opening looks at the ends of files alone."""
        with tantivy_errors("The index is damaged"):
            for segment in range(self._searcher.num_segments):
                self._passage(tantivy.DocAddress(segment, 0), 0.0)

    def terms(self, text: str) -> tuple[str, ...]:
        """The distinct terms of a text, in its order."""
        return _terms(self._analyzer, text)

    def rarity(self, terms: Sequence[str]) -> dict[str, float]:
        """How much each term tells, as BM25 counts it: most the one that no passage knows."""
        with tantivy_errors("The index is damaged"):
            return {term: self._rarity(term) for term in terms}

    def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[tuple[int, float, Passage]]:
        """Key, score and passage of the best k; ties are broken by id, so that the order of indexing never shows.

        tantivy scores every passage that has any of the words. Where that would take long and nothing else narrows the
        search, the frequent words do not find passages, but count in the scores of what the rarer ones find first.
        """
        with tantivy_errors("The index is damaged"):
            words = self._words(query)
            if not words or k <= 0:
                return []
            if where:
                found = self._fitting(words, k, where)
            else:
                found = list(self._read(self._found_by(*self._by_cost(words), k)))
        found.sort(key=lambda hit: (-hit[1], hit[2].id))
        return found[:k]

    def _fitting(self, words: Collection[Word], k: int, where: Mapping[str, str]) -> list[tuple[int, float, Passage]]:
        """At least the k best of those that fit a filter.

        No field holds a title whole: its words narrow the search, unless all are stop words, and `fits` tells the rest.
        """
        needed = [(tantivy.Occur.Must, self._where(*pair)) for pair in where.items() if pair[0] != TITLE]
        needed += [(tantivy.Occur.Must, self._only("body", term)) for term in self.terms(where.get(TITLE, ""))]
        narrowed = tantivy.Query.boolean_query([*needed, (tantivy.Occur.Must, self._any(words))])
        found: list[tuple[int, float, Passage]] = []
        for wanted in _TITLED if TITLE in where else (k,):
            hits = _first(self._best(narrowed, max(k, wanted)), max(k, wanted))
            hits.sort(key=lambda hit: (hit[1].segment_ord, hit[1].doc))  # quicker to read in the order they are stored
            found = [hit for hit in self._read(hits) if fits(hit[2], where)]
            if len(found) >= k or len(hits) < wanted:
                break
        return found

    def _read(self, hits: Sequence[Hit]) -> Iterator[tuple[int, float, Passage]]:
        keys = self._searcher.fast_field_values("key", [address for _, address in hits])
        for key, (score, address) in zip(keys, hits, strict=True):
            yield int(key or 0), score, self._passage(address, score, (("bm25", score),))

    def _where(self, name: str, value: str) -> tantivy.Query:
        """The passages with a value of a field; a row that is its own document has its id for that.

        Keys are made of ids as they are written, with accents of their own or not.
        """
        tagged = self._only("tags", tag_of(name, value))
        if name != DOCUMENT:
            return tagged
        written = dict.fromkeys((value, normalize("NFC", value), normalize("NFD", value)))
        with_id = self._with_keys([key_of(form) for form in written])
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, tagged), (tantivy.Occur.Should, with_id)])

    def scored(self, query: str, keys: Sequence[int]) -> dict[int, Hit]:
        """BM25's score of each of these passages for a query, 0 where no word is shared, and where it stands."""
        with tantivy_errors("The index is damaged"):
            hits = self._scored(self._words(query), keys)
            back = self._searcher.fast_field_values("key", [address for _, address in hits])
        return {int(key or 0): (round(score, _DECIMALS), at) for key, (score, at) in zip(back, hits, strict=True)}

    def read(self, places: Mapping[int, tantivy.DocAddress]) -> dict[int, Passage]:
        """The passages that stand at these places, by key."""
        with tantivy_errors("The index is damaged"):
            return {key: self._passage(place, 0.0) for key, place in places.items()}

    def containing(
        self, text: str, *, before: int, most: int, without: Collection[int] = ()
    ) -> Iterator[tuple[int, Passage]]:
        """Key and passage of those numbered below `before` that hold all words of a text; none if more than `most` do.

        Passages with the keys `without` are passed over.
        """
        words = self.terms(text)
        with tantivy_errors("The index is damaged"):
            counts = [int(self._searcher.doc_freq("body", word)) for word in words]
        if not words or min(counts) == 0 or (len(words) == 1 and counts[0] > most):
            return
        needed = [(tantivy.Occur.Must, self._only("body", word)) for word in words]
        with tantivy_errors("The index is damaged"):
            hits: list[Hit] = self._searcher.search(tantivy.Query.boolean_query(needed), most + 1, count=False).hits
            if len(hits) > most:
                return
            places = [address for _, address in hits]
            numbers = self._searcher.fast_field_values("number", places)
            keys = self._searcher.fast_field_values("key", places)
            for place, number, key in zip(places, numbers, keys, strict=True):
                if int(number or 0) < before and int(key or 0) not in without:
                    yield int(key or 0), self._passage(place, 0.0)

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        """The passages with these keys; a key that no passage has is left out."""
        found: dict[int, Passage] = {}
        for some in in_parts(keys):
            with tantivy_errors("The index is damaged"):
                hits: list[Hit] = self._searcher.search(self._with_keys(some), len(some), count=False).hits
                back = self._searcher.fast_field_values("key", [address for _, address in hits])
                found |= {int(key or 0): self._passage(at, 0.0) for key, (_, at) in zip(back, hits, strict=True)}
        return found

    def scan(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, Passage]]:
        """Number, key and passage, from one number up to another, in bounded memory.

        Every passage has a number; numbers of passages that are gone are passed over.
        """
        stop = self._last_number() + 1 if end is None else end
        unsigned = tantivy.FieldType.Unsigned
        for low in range(start, stop, _SCANNED):
            high = min(low + _SCANNED, stop)
            between = tantivy.Query.range_query(self._schema, "number", unsigned, low, high, True, False)
            with tantivy_errors("The index is damaged"):
                places = [address for _, address in self._searcher.search(between, _SCANNED, count=False).hits]
                places.sort(key=lambda address: (address.segment_ord, address.doc))
                numbers = self._searcher.fast_field_values("number", places)
                keys = self._searcher.fast_field_values("key", places)
                found = [
                    (int(number or 0), int(key or 0), self._passage(place, 0.0))
                    for number, key, place in zip(numbers, keys, places, strict=True)
                ]
            found.sort(key=lambda row: row[0])
            yield from found

    def _last_number(self) -> int:
        with tantivy_errors("The index is damaged"):
            hits = self._searcher.search(tantivy.Query.all_query(), 1, count=False, order_by_field="number").hits
        return int(hits[0][0]) if hits else -1

    def _any(self, words: Collection[Word]) -> tantivy.Query:
        terms = (tantivy.Query.term_query(self._schema, *word, index_option="freq") for word in words)
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])

    def _by_cost(self, words: Mapping[Word, int]) -> tuple[list[Word], list[Word]]:
        """The words that may find passages, and those too frequent for it."""
        known = sorted((cost, word) for word, cost in words.items())
        most = _SCORED + len(self) // 50
        spent = accumulate(cost for cost, _ in known)
        sought = sum(count < _FEWEST_SOUGHT or cost <= most for count, cost in enumerate(spent))
        return [word for _, word in known[:sought]], [word for _, word in known[sought:]]

    def _found_by(self, sought: Sequence[Word], frequent: Sequence[Word], k: int) -> list[Hit]:
        """The best by all words among the best by the sought ones, which become more until they find enough."""
        wanted = max(_CANDIDATES + len(self) // 300_000, _RESERVE * k)
        while frequent and len(candidates := self._best(self._any(sought), wanted)) < wanted:
            sought, frequent = [*sought, frequent[0]], frequent[1:]
        if not frequent:
            return _first(self._best(self._any(sought), k), k)
        keys = [int(key or 0) for key in self._searcher.fast_field_values("key", [place for _, place in candidates])]
        more = {(at.segment_ord, at.doc): score for score, at in self._scored(frequent, keys)}
        both = [(score + more[at.segment_ord, at.doc], at) for score, at in candidates]
        both.sort(key=itemgetter(0), reverse=True)
        return _first(both, k)

    def _scored(self, words: Collection[Word], keys: Sequence[int]) -> list[Hit]:
        """Every passage with one of these keys, scored by the words."""
        scored: list[Hit] = []
        for some in in_parts(keys):
            both = [(tantivy.Occur.Must, self._with_keys(some))]
            if words:
                both.append((tantivy.Occur.Should, self._any(words)))
            scored += self._searcher.search(tantivy.Query.boolean_query(both), len(some), count=False).hits
        return scored

    def _only(self, field: str, term: str) -> tantivy.Query:
        return tantivy.Query.const_score_query(
            tantivy.Query.term_query(self._schema, field, term, index_option="basic"), 0.0
        )

    def _with_keys(self, keys: Sequence[int]) -> tantivy.Query:
        # Not a set of terms: tantivy looks through all keys for that, and takes thirty times as long.
        terms = (tantivy.Query.term_query(self._schema, "key", key, index_option="basic") for key in keys)
        either = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        return tantivy.Query.const_score_query(either, 0.0)

    def _best(self, query: tantivy.Query, k: int) -> list[Hit]:
        """At least the k best, with all that tie with the last of them (within reason), and nothing below."""
        k = min(k, max(len(self), 1))  # tantivy takes memory for as many as are asked for
        wanted = k + _TIE_ROOM
        while True:
            hits: list[Hit] = self._searcher.search(query, wanted, count=False).hits
            best = _level(hits, k)
            if best < len(hits) or len(hits) < wanted or wanted >= _MOST_TIES:
                return hits[:best]
            wanted *= 8

    def _passage(self, address: tantivy.DocAddress, score: float, stages: Stages = ()) -> Passage:
        """A stored passage; a ValueError, as tantivy's own are, where it is garbled in a way tantivy does not see."""
        try:
            stored = self._stored(address.segment_ord, address.doc)
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"a passage cannot be read ({error})") from error
        name, title, text, document, start, end, aliases, metadata = stored
        return Passage(name, title, text, score, document, start, end, aliases, metadata, stages)


def _terms(analyzer: tantivy.TextAnalyzer, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(analyzer.analyze(composed(text))))


def _sought(analyzer: tantivy.TextAnalyzer, language: str, query: str) -> tuple[str, ...]:
    return _terms(analyzer, without_asking(query, language)) or _terms(analyzer, query)


def _known(
    searcher: tantivy.Searcher, sought: Callable[[str], tuple[str, ...]], query: str
) -> MappingProxyType[Word, int]:
    """The words of a query that any passage has, and how many have each."""
    of_pairs = (("pairs", pair) for pair in dict.fromkeys(pairs(composed(query))))
    words: Iterator[Word] = chain((("body", term) for term in sought(query)), of_pairs)
    return MappingProxyType({word: count for word in words if (count := int(searcher.doc_freq(*word)))})


def _rarity(searcher: tantivy.Searcher, term: str) -> float:
    total = int(searcher.num_docs)
    count = min(searcher.doc_freq("body", term), total)
    return log(1 + (total - count + 0.5) / (count + 0.5))


def _read_stored(searcher: tantivy.Searcher, segment: int, place: int) -> Stored:
    stored = searcher.doc(tantivy.DocAddress(segment, place))
    body = stored.get_all("body")
    title, text = body[0], body[-1]
    record = bytes(stored["record"][0])
    if record.startswith(PLAIN):
        name = record[len(PLAIN) :].decode("utf-8", "surrogatepass")
        return name, title, text, name, 0, len(text), (), ()
    name, document, start, end, aliases, metadata = json.loads(record)
    fields = tuple((name, value) for name, value in metadata)
    return name, title, text, document, start, end, tuple(aliases), fields


def _first(hits: Sequence[Hit], k: int) -> list[Hit]:
    """The first k of sorted hits, with all that tie with the last of them; scores as they are told."""
    return [(round(score, _DECIMALS), place) for score, place in hits[: _level(hits, k)]]


def _level(hits: Sequence[Hit], k: int) -> int:
    """How many of sorted hits are no lower than the k-th, as scores are told."""
    if len(hits) <= k:
        return len(hits)
    last = round(hits[k - 1][0], _DECIMALS)
    return next((at for at in range(k, len(hits)) if round(hits[at][0], _DECIMALS) < last), len(hits))
