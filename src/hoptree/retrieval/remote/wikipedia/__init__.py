"""A wiki as a retriever: its own search finds pages, BM25 the best passages of these."""

from __future__ import annotations

import asyncio
import os
import re
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from hoptree.core.errors import CacheError
from hoptree.core.http_cache import ReplyCache, path_beside_cache
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.document import Document, HeadingPath, Section, short
from hoptree.retrieval.bm25_memory import Analysis, Words, bm25
from hoptree.retrieval.index.analysis import composed, without_asking
from hoptree.retrieval.remote.wikipedia_api import QUERY_LENGTH, Hit, Page, WikiApi, can_be_title, wiki_url
from hoptree.retrieval.retriever import DOCUMENT, TITLE, fits

CHUNKING = Chunking("words", 225)
"""About the 300 tokens of TreeQA's paper: four tokens to three English words."""
_HEADING = re.compile(r"^(={2,6})[ \t]*([^\n=](?:[^\n]*[^\n=])?)[ \t]*\1[ \t]*$", re.MULTILINE)


def passages_of(page: Page) -> Iterator[Passage]:
    """The passages of a page, named ARTICLE_SECTION_CHUNK: what stands before the first heading is section 0."""
    sections = tuple(_sections(page.text))
    document = Document(page.title, page.title, page.text, sections=sections)
    starts = [section.start for section in sections]
    counts: Counter[int] = Counter()
    for passage in chunk(document, CHUNKING):
        number = bisect_right(starts, passage.start)
        name = f"{page.title}_{number}_{counts[number]}"
        counts[number] += 1
        heading = sections[number - 1].title if number else ""
        told = (("revision", str(page.revision)), ("section", heading), ("url", page.url))
        metadata = tuple(pair for pair in told if pair[1])
        yield replace(passage, id=name, title=page.title, metadata=metadata)


def _sections(text: str) -> Iterator[Section]:
    path = HeadingPath()
    for found in _HEADING.finditer(text):
        title = path.enter(len(found[1]), short(found[2]))
        yield Section(found.start(), title, found.end() - found.start())


_PAGES = 5
"""Pages of a search that are read: each is a request."""
_FOUND = 10
"""Pages a search gives, some of which may be lists of meanings."""
_ENOUGH = 3
"""Pages; where all words of a query find fewer, some of them do."""
_HELD = 300
_DAY = 86_400.0
"""Seconds that what a search found counts: Wikipedia's search and pages change from day to day."""
_WORD = re.compile(r"\w+(?:['’.&-]\w+)*")
_OPERATORS = frozenset(("AND", "OR", "NOT"))
_STEMMED = (
    *("ar arabic", "da danish", "de german", "el greek", "en english", "es spanish", "fi finnish", "fr french"),
    *("hu hungarian", "it italian", "nb norwegian", "nl dutch", "nn norwegian", "no norwegian", "pt portuguese"),
    *("ro romanian", "ru russian", "sv swedish", "ta tamil", "tr turkish"),
)
_LANGUAGES = {code: language for code, language in map(str.split, _STEMMED)}


@dataclass(frozen=True, slots=True)
class _Read:
    """A page cut into passages, with the words of each."""

    revision: int
    passages: tuple[Passage, ...]
    words: tuple[Words, ...]


def open_wiki(corpus: str, *, cached: bool = True) -> Wikipedia:
    """The wiki that a corpus names; its pages are remembered for a month unless `cached` is off."""
    remembered = None
    url = wiki_url(corpus)
    if cached:
        try:
            remembered = ReplyCache(path_beside_cache("wikipedia.sqlite"))
        except CacheError:
            remembered = None  # a folder that cannot be written to: pages are in memory, too
    return Wikipedia(WikiApi(url, contact=os.environ.get("HOPTREE_CONTACT", ""), remembered=remembered))


class Wikipedia:
    """Finds the best passages of the pages that a wiki's search gives, or of the page that a filter names.

    Passages with equal scores come in the order of their pages. Of a page that is named, passages without a word of the
    query come last: that it is about the query was known before.
    """

    kind = "wikipedia"
    remote = True
    lasts = _DAY

    def __init__(self, api: WikiApi) -> None:
        self._api = api
        self._language = "none"
        self._analysis = Analysis(self._language)
        self._pages: OrderedDict[str, _Read] = OrderedDict()
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.identity = f"{self.kind}:{api.shown}#{CHUNKING},{_PAGES}"

    async def check(self) -> None:
        """Look whether it is a wiki that can be read, and in which language."""
        try:
            site = await self._api.site()
        finally:
            await self._api.rest()
        self._language = _LANGUAGES.get(site.language.partition("-")[0], "none")
        self._analysis = Analysis(self._language)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k < 1 or not query.strip():
            return ()
        where = where or {}
        named = where.get(TITLE, where.get(DOCUMENT))
        if named is None:
            read = [await self._page(hit.title, hit.revision) for hit in (await self._found(query))[:_PAGES]]
        else:
            read = [await self._page(named)] if can_be_title(named) else []
        best = await asyncio.to_thread(self._best, query, read)
        if named is None:
            best = [passage for passage in best if passage.score > 0]
        others = {name: value for name, value in where.items() if name != TITLE}  # a redirect has another title
        return tuple(passage for passage in best if fits(passage, others))[:k]

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _found(self, query: str) -> list[Hit]:
        """The pages that have all words of a query; if they are few, then those that have some."""
        words = self._words(query)
        if not words:
            return []
        found = list(await self._api.search(_joined(words, " "), _FOUND))
        telling = [word for word in words if self._analysis.tells(word)]
        if len(found) < _ENOUGH and len(telling) > 1:
            known = {hit.title for hit in found}
            more = await self._api.search(_joined(telling, " OR "), _FOUND)
            found += [hit for hit in more if hit.title not in known]
        return found

    def _words(self, query: str) -> list[str]:
        """The words of a query without those that only ask, and without anything that its search would obey."""
        text = composed(query)
        words = _WORD.findall(without_asking(text, self._language)) or _WORD.findall(text)
        return list(dict.fromkeys(word.lower() if word in _OPERATORS else word for word in words))

    async def _page(self, title: str, revision: int = 0) -> _Read:
        """The passages of a page, which is asked for once."""
        lock = self._asking.setdefault(title, asyncio.Lock())
        async with lock:
            held = self._pages.get(title)
            if held is None or held.revision < revision:
                page = await self._api.page(title, revision)
                held = await asyncio.to_thread(self._cut, page)
                self._pages[page.title] = self._pages[title] = held
            self._pages.move_to_end(title)
            while len(self._pages) > _HELD:
                self._pages.popitem(last=False)
            return held

    def _cut(self, page: Page) -> _Read:
        passages = tuple(passages_of(page))
        return _Read(page.revision, passages, tuple(map(self._counted, passages)))

    def _counted(self, passage: Passage) -> Words:
        heading = dict(passage.metadata).get("section", "")
        return self._analysis.words(passage.title, f"{heading} {passage.text}")

    def _best(self, query: str, read: Sequence[_Read]) -> list[Passage]:
        passages = [passage for page in read for passage in page.passages]
        scores = bm25([words for page in read for words in page.words], self._analysis.sought(query))
        scored = [
            replace(passage, score=score, stages=(("bm25", score),))
            for passage, score in zip(passages, scores, strict=True)
        ]
        return sorted(scored, key=lambda passage: -passage.score)


def _joined(words: Sequence[str], between: str) -> str:
    """As many of the words as one query may have."""
    text = ""
    for word in words:
        longer = f"{text}{between}{word}" if text else word
        if len(longer) > QUERY_LENGTH:
            break
        text = longer
    return text
