"""From the text of a page to passages: by its headings, then by length."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.document import Document, Section
from hoptree.corpus.headings import HeadingPath, short
from hoptree.retrieval.remote.wikipedia.replies import Page
from hoptree.values import Passage

__all__ = ["CHUNKING", "passages_of"]

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
