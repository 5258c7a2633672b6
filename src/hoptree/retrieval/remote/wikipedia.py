"""A wiki as a retriever: its search finds pages, BM25 their best passages."""

from __future__ import annotations

import asyncio
import os
import re
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from hoptree.core.errors import CacheError
from hoptree.core.public_http import HttpCache, path_beside_cache
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.document import Document, HeadingPath, Section, shorten_title
from hoptree.retrieval.bm25_memory import Analysis, Words, bm25
from hoptree.retrieval.index.tantivy_files import composed, without_asking
from hoptree.retrieval.remote.wikipedia_api import MAX_QUERY_CHARS, Hit, Page, WikiApi, can_be_title, wiki_url
from hoptree.retrieval.retriever import DOCUMENT, TITLE, fits

CHUNKING = Chunking("words", 225)  # about the 300 tokens of TreeQA's paper: four tokens to three English words
_HEADING = re.compile(r"^(={2,6})[ \t]*([^\n=](?:[^\n]*[^\n=])?)[ \t]*\1[ \t]*$", re.MULTILINE)


def passages_of(page: Page) -> Iterator[Passage]:
    """Yield the passages of a page, named ARTICLE_SECTION_CHUNK."""
    sections = tuple(_sections(page.text))
    document = Document(page.title, page.title, page.text, sections=sections)
    starts = [section.start for section in sections]
    counts: Counter[int] = Counter()
    for passage in chunk(document, CHUNKING):
        number = bisect_right(starts, passage.start)
        name = f"{page.title}_{number}_{counts[number]}"
        counts[number] += 1
        heading = sections[number - 1].title if number else ""
        pairs = (("revision", str(page.revision)), ("section", heading), ("url", page.url))
        metadata = tuple(pair for pair in pairs if pair[1])
        yield replace(passage, id=name, title=page.title, metadata=metadata)


def _sections(text: str) -> Iterator[Section]:
    path = HeadingPath()
    for match in _HEADING.finditer(text):
        title = path.enter(len(match[1]), shorten_title(match[2]))
        yield Section(match.start(), title, match.end() - match.start())


_MAX_PAGES_READ = 5  # of a search: each is a request
_MAX_HITS = 10  # of a search: some may be disambiguation pages
_MIN_PAGES = 3  # if pages with all words of a query are fewer, those with any word count too
_PAGES_KEPT = 300
_LIFETIME_S = 86_400.0  # of cached results: Wikipedia's search and pages change daily
_WORD = re.compile(r"\w+(?:['’.&-]\w+)*")
_OPERATORS = frozenset(("AND", "OR", "NOT"))
_STEMMED = (
    *("ar arabic", "da danish", "de german", "el greek", "en english", "es spanish", "fi finnish", "fr french"),
    *("hu hungarian", "it italian", "nb norwegian", "nl dutch", "nn norwegian", "no norwegian", "pt portuguese"),
    *("ro romanian", "ru russian", "sv swedish", "ta tamil", "tr turkish"),
)
_LANGUAGES = {code: language for code, language in map(str.split, _STEMMED)}


@dataclass(frozen=True, slots=True)
class _CutPage:
    """A page cut into passages, with the words of each."""

    revision: int
    passages: tuple[Passage, ...]
    words: tuple[Words, ...]


def open_wiki(corpus: str, *, cached: bool = True) -> Wikipedia:
    """Open the wiki that a corpus names; pages are cached for a month."""
    cache = None
    url = wiki_url(corpus)
    if cached:
        with suppress(CacheError):  # for an unwritable folder: pages are also in memory
            cache = HttpCache(path_beside_cache("wikipedia.sqlite"))
    return Wikipedia(WikiApi(url, contact=os.environ.get("HOPTREE_CONTACT", ""), cache=cache))


class Wikipedia:
    """Finds the best passages of the pages that a wiki's search, or a filter, names."""

    kind = "wikipedia"
    remote = True
    cache_seconds = _LIFETIME_S

    def __init__(self, api: WikiApi) -> None:
        self._api = api
        self._language = "none"
        self._analysis = Analysis(self._language)
        self._pages: OrderedDict[str, _CutPage] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.identity = f"{self.kind}:{api.shown}#{CHUNKING},{_MAX_PAGES_READ}"

    async def check(self) -> None:
        """Raise an error if the wiki cannot be read; learn its language."""
        try:
            code = await self._api.language()
        finally:
            await self._api.disconnect()
        self._language = _LANGUAGES.get(code.partition("-")[0], "none")
        self._analysis = Analysis(self._language)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k < 1 or not query.strip():
            return ()
        where = where or {}
        named = where.get(TITLE, where.get(DOCUMENT))
        if named is None:
            hits = await self._find_pages(query)
            pages = [await self._page(hit.title, hit.revision) for hit in hits[:_MAX_PAGES_READ]]
        else:
            pages = [await self._page(named)] if can_be_title(named) else []
        best = await asyncio.to_thread(self._best, query, pages)
        if named is None:
            best = [passage for passage in best if passage.score > 0]
        others = {name: value for name, value in where.items() if name != TITLE}  # a redirect changes the title
        return tuple(passage for passage in best if fits(passage, others))[:k]

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _find_pages(self, query: str) -> list[Hit]:
        """Return the pages with all words of a query; if these are few, also with some."""
        words = self._words(query)
        if not words:
            return []
        hits = list(await self._api.search(_joined(words, " "), _MAX_HITS))
        significant = [word for word in words if self._analysis.is_significant(word)]
        if len(hits) < _MIN_PAGES and len(significant) > 1:
            known = {hit.title for hit in hits}
            more = await self._api.search(_joined(significant, " OR "), _MAX_HITS)
            hits += [hit for hit in more if hit.title not in known]
        return hits

    def _words(self, query: str) -> list[str]:
        """Return the words of a query without question words and search operators."""
        text = composed(query)
        words = _WORD.findall(without_asking(text, self._language)) or _WORD.findall(text)
        return list(dict.fromkeys(word.lower() if word in _OPERATORS else word for word in words))

    async def _page(self, title: str, revision: int = 0) -> _CutPage:
        """Return the passages of a page, requesting it only once."""
        lock = self._locks.setdefault(title, asyncio.Lock())
        async with lock:
            cut = self._pages.get(title)
            if cut is None or cut.revision < revision:
                page = await self._api.page(title, revision)
                cut = await asyncio.to_thread(self._cut, page)
                self._pages[page.title] = self._pages[title] = cut
            self._pages.move_to_end(title)
            while len(self._pages) > _PAGES_KEPT:
                self._pages.popitem(last=False)
            return cut

    def _cut(self, page: Page) -> _CutPage:
        passages = tuple(passages_of(page))
        headings = (dict(passage.metadata).get("section", "") for passage in passages)
        texts = (f"{heading} {passage.text}" for heading, passage in zip(headings, passages, strict=True))
        return _CutPage(page.revision, passages, tuple(self._analysis.words(page.title, text) for text in texts))

    def _best(self, query: str, pages: Sequence[_CutPage]) -> list[Passage]:
        passages = [passage for page in pages for passage in page.passages]
        scores = bm25([words for page in pages for words in page.words], self._analysis.query_words(query))
        scored = [
            replace(passage, score=score, stages=(("bm25", score),))
            for passage, score in zip(passages, scores, strict=True)
        ]
        return sorted(scored, key=lambda passage: -passage.score)


def _joined(words: Sequence[str], between: str) -> str:
    """Join as many of the words as fit into a query."""
    text = ""
    for word in words:
        longer = f"{text}{between}{word}" if text else word
        if len(longer) > MAX_QUERY_CHARS:
            break
        text = longer
    return text
