"""The mention graph: which names passages bear and mention, and how to find names.

It is a tantivy index. A passage may have several records, one for each round of looking for names. Names are stored
folded. `PassageReader` reads a passage for a ranker: its terms, sentences and names, independent of the question.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache, partial
from math import log
from pathlib import Path
from typing import NamedTuple

import ahocorasick_rs
import tantivy

from hoptree.core.lazy import lazy_re
from hoptree.core.values import PLACE, Passage
from hoptree.retrieval.index.tantivy_files import KeyedWriter, TantivyErrors, composed, key_of, lockable_folder
from hoptree.retrieval.index.text_index import Texts
from hoptree.text.names import sentences

LINK_AGAIN = "Make the links again: hoptree index compact --out DIR"
_MAX_PASSAGES_PER_DOCUMENT = 100
_KEPT = 10_000  # names and passages whose links stay in memory, as related questions need the same ones
_DAMAGED = TantivyErrors("The links are damaged", LINK_AGAIN)


class LinkWriter(KeyedWriter):
    """Adds and removes the mentions of passages."""

    def __init__(self, folder: Path, *, memory: int) -> None:
        folder.mkdir(exist_ok=True)
        with TantivyErrors(f"The links cannot be written to {folder}", LINK_AGAIN):
            super().__init__(tantivy.Index(_schema(), path=str(folder)), "The links", memory=memory, threads=1)

    def add(self, key: int, document_key: int, *, bears: Iterable[str] = (), mentions: Iterable[str] = ()) -> None:
        """Add names of a passage; `document_key` groups passages of one document."""
        document = tantivy.Document()
        document.add_unsigned("key", key)
        document.add_unsigned("document", document_key)
        for name in bears:
            document.add_text("bears", name)
        for name in mentions:
            document.add_text("mentions", name)
        self._writer.add_document(document)


class Ties(NamedTuple):
    """How passages are tied to a name, as by the methods of `Links`; with its count."""

    mentioned: int
    borne: bool
    bearing: tuple[tuple[int, ...], ...]
    mentioning: tuple[int, ...]


class Links:
    """Reads the mention graph, as it was when it was opened.

    `mentions` are the names in a passage, `count` how many passages mention a name, `borne` whether any bears it, and
    `first_borne` the first of several that one bears. `references` are the places that a passage points to, which bear
    names as well (`corpus/references.py`). `mentioning` and `bearing` (by document) return the passages of a name, or
    none if they are more than a limit. `ties` returns all of that in one search.
    """

    def __init__(self, folder: Path) -> None:
        read = _Reader(folder)  # it must not refer to the caches: a cycle would keep the index open
        self.knows: Callable[[int], bool] = read.knows
        self._mentioned: Callable[[int], tuple[tuple[str, ...], tuple[str, ...]]] = lru_cache(_KEPT)(read.mentioned)
        self.count: Callable[[str], int] = lru_cache(_KEPT)(read.count)
        self.first_borne: Callable[[Iterable[str]], str] = read.first_borne
        self.mentioning: Callable[[str, int], tuple[int, ...]] = lru_cache(_KEPT)(read.mentioning)
        self.bearing: Callable[[str, int], tuple[tuple[int, ...], ...]] = lru_cache(_KEPT)(read.bearing)
        self.ties: Callable[[str, int, int, int], Ties] = lru_cache(_KEPT)(read.ties)

    def borne(self, name: str) -> bool:
        return bool(self.first_borne([name]))

    def mentions(self, key: int) -> tuple[str, ...]:
        return self._mentioned(key)[0]

    def references(self, key: int) -> tuple[str, ...]:
        return self._mentioned(key)[1]


class _Reader:
    def __init__(self, folder: Path) -> None:
        with TantivyErrors(f"The links in {folder} are damaged", LINK_AGAIN), lockable_folder(folder) as place:
            index = tantivy.Index.open(str(place))
            index.reload()
            self._schema = index.schema
            self._searcher = index.searcher()

    def knows(self, key: int) -> bool:
        """Return whether a passage was read, even if it mentions nothing."""
        with _DAMAGED:
            return bool(self._searcher.doc_freq("key", key))

    def mentioned(self, key: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names that a passage mentions, and the places that it points to."""
        names: set[str] = set()
        with _DAMAGED:
            records = max(int(self._searcher.doc_freq("key", key)), 1)
            for _, address in self._searcher.search(self._term("key", key), records, count=False).hits:
                names.update(self._searcher.doc(address).get_all("mentions"))
        in_order = sorted(names)
        places = tuple(name for name in in_order if name.startswith(PLACE))
        return tuple(name for name in in_order if not name.startswith(PLACE)) if places else tuple(in_order), places

    def count(self, name: str) -> int:
        with _DAMAGED:
            return int(self._searcher.doc_freq("mentions", name))

    def first_borne(self, names: Iterable[str]) -> str:
        """Return the first of several names that a passage bears; "" if none is borne."""
        doc_freq = self._searcher.doc_freq
        with _DAMAGED:
            for name in names:
                # The frequency also counts removed passages, until their segment is merged.
                if doc_freq("bears", name) and self._search("bears", name, 1):
                    return name
        return ""

    def mentioning(self, name: str, most: int) -> tuple[int, ...]:
        with _DAMAGED:
            return self._keys(self._hits("mentions", name, most + 1), most)

    def bearing(self, name: str, most: int) -> tuple[tuple[int, ...], ...]:
        with _DAMAGED:
            return self._documents(self._hits("bears", name, most * _MAX_PASSAGES_PER_DOCUMENT), most)

    def ties(self, name: str, bearers: int, mentioners: int, tolerated: int) -> Ties:
        """Return the ties of a name, with at most `bearers` and `mentioners`.

        Mentioners are searched for if the name has at least two and at most `tolerated`.
        """
        with _DAMAGED:
            count = int(self._searcher.doc_freq("mentions", name))
            hits = self._hits("bears", name, bearers * _MAX_PASSAGES_PER_DOCUMENT)
            tied = self._search("mentions", name, mentioners + 1) if 2 <= count <= tolerated else []
            return Ties(count, bool(hits), self._documents(hits, bearers), self._keys(tied, mentioners))

    def _keys(self, hits: list[tantivy.DocAddress], most: int) -> tuple[int, ...]:
        return () if not hits or len(hits) > most else tuple(sorted(self._values("key", hits)))

    def _documents(self, hits: list[tantivy.DocAddress], most: int) -> tuple[tuple[int, ...], ...]:
        """Return the keys at these addresses by document; none for over `most` documents."""
        if len(hits) < 2:
            return tuple((key,) for key in self._values("key", hits)) if hits and most else ()
        hits.sort(key=lambda at: (at.segment_ord, at.doc))
        documents: dict[int, list[int]] = {}
        for key, document in zip(self._values("key", hits), self._values("document", hits), strict=True):
            documents.setdefault(document, []).append(key)
        return () if len(documents) > most else tuple(tuple(documents[document]) for document in sorted(documents))

    def _hits(self, field: str, name: str, most: int) -> list[tantivy.DocAddress]:
        return self._search(field, name, most) if self._searcher.doc_freq(field, name) else []

    def _search(self, field: str, name: str, most: int) -> list[tantivy.DocAddress]:
        return [at for _, at in self._searcher.search(self._term(field, name), most, count=False).hits]

    def _values(self, field: str, places: list[tantivy.DocAddress]) -> list[int]:
        return [int(value or 0) for value in self._searcher.fast_field_values(field, places)]

    def _term(self, field: str, value: str | int) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, value, index_option="basic")


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("key", indexed=True, fast=True)
    builder.add_unsigned_field("document", fast=True)
    builder.add_text_field("bears", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("mentions", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()


_QUALIFIER = lazy_re(r"\s*\([^()]*\)\s*$")
_PART_WORD = "chapter|section|appendix|part|kapitel|abschnitt|anhang"
_NUMBERING = lazy_re(rf"(?:(?:{_PART_WORD}) )?(?:[A-Z]\.)?(?:\d+\.)+(?:\d+)?\s+", re.IGNORECASE)
"""Numbering before a heading, but not before a title: "1. FC Köln" is a name."""
_PAGE_NUMBERING = lazy_re(rf"(?:(?:{_PART_WORD}) (?:[A-Z]|\d+)\.|(?:[A-Z]|\d+)(?:\.\d+)+\.)\s+(?=\S)", re.IGNORECASE)
"""Numbering before a title, too: "F.9. btree_gist" is a page of a manual."""
_MANUAL_PAGE = lazy_re(r"[\w.:+-]+\(\d\w{0,4}\)")
"""A manual page, whose name includes its section: ls(1)."""
_MIN_NAME_CHARS, _MAX_NAME_CHARS = 3, 120
_MAX_TITLE_CHARS = 1_000  # longer titles are not names
_MAX_NAMES_PER_PASSAGE = 64
_CONNECTOR = "of|the|and|de|la|le|du|des|da|di|del|von|van|der|den|al|bin|ibn|for|in|on"
_CAPITALS = "A-ZÀ-ÖØ-ÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĴĶĹĻĽĿŁŃŅŇŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽΑ-ΩА-ЯЁ"  # listed, as that is faster
_WRITTEN = rf"[{_CAPITALS}][\w'’.&-]*"
_SPAN = lazy_re(rf"{_WRITTEN}(?: (?:(?:{_CONNECTOR}) (?:the |la )?)?{_WRITTEN})*")
_ENDS_SENTENCE = '.!?:\n"“'
_WORD = lazy_re(r"\w+")
_NO_WORD = lazy_re(r"\W")
_NO_WORDS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}


def folded(name: str) -> str:
    """Return a name for comparison: lower case, single spaces, no punctuation."""
    return " ".join(_WORD.findall(name.casefold()))


def names_of(title: str, aliases: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a passage's names: its title, unqualified, its last heading, its aliases."""
    names: dict[str, None] = {}
    for full_name in (title, *aliases):
        parts = composed(full_name).split(" › ")
        parts[0] = _PAGE_NUMBERING.sub("", parts[0], 1) if _PAGE_NUMBERING.match(parts[0]) else parts[0]
        parts[1:] = [_NUMBERING.sub("", part, 1) if _NUMBERING.match(part) else part for part in parts[1:]]
        for part in dict.fromkeys((parts[0], parts[-1])) if len(parts) > 1 else parts:
            part = part.strip()
            if len(part) > _MAX_TITLE_CHARS:
                continue
            bare = _QUALIFIER.sub("", part) or part
            for name in (bare, part) if _MANUAL_PAGE.fullmatch(part) else (bare,):
                if _MIN_NAME_CHARS <= len(name) <= _MAX_NAME_CHARS and any(c.isalpha() for c in name):
                    names[name] = None
    return tuple(names)


def capitalised_names(text: str) -> set[str]:
    """Return the names with capitals; a single word counts only inside a sentence."""
    names: set[str] = set()
    for match in _SPAN.finditer(text):
        span = match[0].rstrip(".'’-&")
        if " " in span or (len(span) > _MIN_NAME_CHARS and not _begins_sentence(text, match.start())):
            names.add(span)
            if len(names) >= _MAX_NAMES_PER_PASSAGE:
                break
    return names


def _begins_sentence(text: str, at: int) -> bool:
    before = at - 1
    while before >= 0 and text[before].isspace():
        before -= 1
    return before < 0 or text[before] in _ENDS_SENTENCE


class NameFinder:
    """Finds many names in a text at once (Aho-Corasick)."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: list[str] = list(names)
        self._finder = ahocorasick_rs.AhoCorasick(
            [_spaced(_lowered(name)) for name in self._names],
            implementation=ahocorasick_rs.Implementation.ContiguousNFA,
            store_patterns=False,
        )

    def __call__(self, text: str) -> Iterator[str]:
        """Yield the names in a text; first letters of several words may be lower case."""
        for index, start, end in self._finder.find_matches_as_indexes(_spaced(_lowered(text)), overlapping=True):
            name, written = self._names[index], text[start : end - 2]
            # A command may be written with spaces, "git prune-packed", whose page is "git-prune-packed".
            is_command = "-" in name and name.islower() and written.replace(" ", "-") == name
            if written == name or (" " in name and written[1:] == name[1:]) or is_command:
                yield name


def mentions(text: str, name: str) -> bool:
    """Return whether a text mentions a name; for many names, a finder is faster."""
    return (name[1:] in text or "-" in name) and any(True for _ in NameFinder([name])(text))


def _lowered(text: str) -> str:
    """Return the text in lower case at equal length: the Turkish İ would grow."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in text)


def _spaced(text: str) -> str:
    """Return the text with spaces for punctuation and at its ends, to match words."""
    return f" {text.translate(_NO_WORDS) if text.isascii() else _NO_WORD.sub(' ', text)} "


YEAR = lazy_re(r"\b(?:1\d|20)\d\d\b")
DIGIT = lazy_re(r"\d")
MAX_SENTENCES = 24
_VIEWS_KEPT, _NAMES_KEPT = 2_000, 10_000
_MAX_DIGITS = 40
_RELATED = "related_words.json"
"""English words for the same relation in questions and passages, one group a line."""


@dataclass(frozen=True, slots=True)
class PassageView:
    """What features need of a passage; names are folded, sentences with outer spaces."""

    title_terms: frozenset[str]
    terms: frozenset[str]
    sentence_terms: tuple[frozenset[str], ...]
    folded_sentences: tuple[str, ...]
    names: tuple[str, ...]
    mentions: tuple[str, ...]
    has_year: bool
    digits: int


class PassageReader:
    """Reads passages of an index into views, and weighs words and names by rarity."""

    def __init__(self, texts: Texts, links: Links) -> None:
        self.texts = texts
        # None may refer to `self`: a cycle would keep the index open.
        self._view: Callable[..., PassageView] = lru_cache(_VIEWS_KEPT)(partial(_view, texts, links))
        related: dict[str, set[str]] = defaultdict(set)
        for words in json.loads(Path(__file__).with_name(_RELATED).read_text(encoding="utf-8")):
            terms = texts.terms(words)
            for term in terms:
                related[term].update(terms)
        self.related: Mapping[str, AbstractSet[str]] = related
        self.rarity: Callable[[str], float] = lru_cache(_NAMES_KEPT)(
            lambda name: 1 / (1 + 0.5 * log(max(links.count(name), 1)))
        )

    def view(self, passage: Passage) -> PassageView:
        """Return the view of a passage."""
        return self._view(passage.id, passage.title, passage.text, passage.aliases)


def _view(texts: Texts, links: Links, name: str, title: str, text: str, aliases: tuple[str, ...]) -> PassageView:
    parts = sentences(text)[:MAX_SENTENCES] or (text,)
    title_terms = frozenset(texts.terms(title))
    sentence_terms = tuple(frozenset(texts.terms(part)) for part in parts)
    folded_sentences = tuple(f" {folded(part)} " for part in parts)
    return PassageView(
        title_terms,
        title_terms.union(*sentence_terms),
        sentence_terms,
        folded_sentences,
        tuple(dict.fromkeys(filter(None, map(folded, names_of(title, aliases))))),
        links.mentions(key_of(name)),
        YEAR.search(text) is not None,
        min(len(DIGIT.findall(text)), _MAX_DIGITS),
    )
