"""Read PDF files, page by page."""

from __future__ import annotations

import io
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from typing import Any

from hoptree.corpus.document import (
    BETWEEN_HEADINGS,
    MAX_DOCUMENT_BYTES,
    Document,
    HeadingPath,
    Oversized,
    Problems,
    TextBuilder,
    short,
)
from hoptree.corpus.files import read_all, stem
from hoptree.corpus.zipped_xml import GIVEN_TITLE
from hoptree.text.tokens import is_unspaced

_PDFIUM = threading.Lock()  # PDFium may be used by one thread at a time
_EDGE_LINES, _MIN_REPEATS, _NEARBY_PAGES = 2, 3, 4
"""Lines at the top and the bottom of pages; how often a line that is a header or footer comes, and how far apart."""
_FORM_CHARS = 20
_MAX_NUMBER_CHARS = 20  # of a chapter, before its heading
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.)\s*\d+|(?:page\s*|seite\s*)?\d+\s*(?:/|of|von)\s*\d+)\W*"
    r"|[-–—]\s*\d+\s*[-–—]|第\s*\d+\s*页(?:\W*共\s*\d+\s*页)?",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"\d+")
_EDGE_NUMBER = re.compile(r"\A\d{1,5}(?=\s|\Z)|(?<=\s)\d{1,5}\Z")
_LETTER = re.compile(r"[^\W\d_]")
_ROMAN, _ROMAN_VALUES = re.compile("[ivxlc]{1,9}"), {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_ROMAN_EDGE = re.compile(r"\A[ivxlc]+(?=\s|\Z)|(?<=\s)[ivxlc]+\Z", re.IGNORECASE)
_PART = re.compile(
    r"(?:chapter|article|section|part|appendix|annex|kapitel|artikel|abschnitt|teil|anhang|§)\s*(?:\d+|[A-Z]\b|[IVXLC]+\b)",
    re.IGNORECASE,
)
"""Begins a chapter, unless it is the header of a further page of the same one."""
_LEADERS = re.compile(r"(?:\s{0,9}\.){4,}\s*")
_ITEM = re.compile(r"(?:[•‣▪◦–*-]\s|\(?\d{1,3}(?:\.\d+)*[.)]\s+\S|\d+(?:\.\d+)+\s+[^\W\d_a-z]|[a-z]\)\s)")
_FULL_LINE = 0.75  # of the width of a page: a line that is shorter may end a paragraph


def read_pdf(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Yield a document a page, with its number and an id like #page=3."""
    try:
        import pypdfium2 as pdfium
    except ImportError:
        sentence = f"{name} was not read: PDF needs pip install 'hoptree[docs]'."
        problems.add("files that need a library", sentence, cuts=True)
        return
    content = read_all(stream, name, problems)
    if content is None:
        return
    texts: list[str] = []
    headings: dict[int, list[tuple[int, str]]] = {}
    with _PDFIUM:
        try:
            with closing(pdfium.PdfDocument(content)) as pdf:
                title = _spelled(partial(pdf.get_metadata_value, "Title"))
                title = stem(name) if not title or GIVEN_TITLE.match(title) else title
                for mark in pdf.get_toc():
                    target = mark.get_dest()
                    if target is not None and target.get_index() is not None:
                        headings.setdefault(target.get_index(), []).append((mark.level + 1, _spelled(mark.get_title)))
                left = MAX_DOCUMENT_BYTES
                for number in range(len(pdf)):
                    texts.append(_page_text(pdf, number, name, problems))
                    left -= len(texts[-1])
                    if left < 0:
                        raise Oversized
        except pdfium.PdfiumError as error:
            why = "is locked with a password" if "assword" in str(error) else "cannot be read as PDF: it is damaged"
            problems.add("damaged documents", f"{name} {why}.", cuts=True)
            return
    path, above = HeadingPath(), ""
    pages = [_paragraphs(lines, headings.get(at, [])) for at, lines in enumerate(_without_running(texts))]
    for number, paragraphs in enumerate(_whole_sentences(pages)):
        builder = TextBuilder(title)
        if above:
            builder.section(BETWEEN_HEADINGS.join((title, above)))
        for paragraph in paragraphs:
            heading = _heading_of(paragraph, headings.get(number, []))
            if heading:
                headings[number].remove(heading)
                above = path.enter(*heading)
                builder.section(BETWEEN_HEADINGS.join((title, above)), *heading)
            else:
                builder.add([paragraph])
        if texts[number].strip():
            yield builder.document(f"{name}#page={number + 1}", name, metadata=(("page", str(number + 1)),))
    if empty := sum(not text.strip() for text in texts):
        sentence = f"{empty} of {len(texts)} pages of {name} hold no text; scanned pages need OCR."
        problems.note("empty documents", sentence)


def _spelled(read: Callable[[], str]) -> str:
    """Return a title or heading; "" if it is broken Unicode."""
    with suppress(UnicodeError):
        return short(read())
    return ""


def _page_text(pdf: Any, number: int, name: str, problems: Problems) -> str:
    """Return the text of a page with line-end hyphens undone."""
    try:
        with closing(pdf[number]) as page, closing(page.get_textpage()) as opened:
            text = str(opened.get_text_range())
    except Exception as error:  # damaged pages make it raise errors of several kinds
        sentence = f"Page {number + 1} of {name} cannot be read: {type(error).__name__}."
        problems.add("damaged documents", sentence, cuts=True)
        return ""
    text = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return re.sub("(?:\ufffe|(?<=[^\\W\\d_])[-\u00ad]\r?\n)(.)", lambda m: f"-{m[1]}" if m[1].isupper() else m[1], text)


def _without_running(texts: Sequence[str]) -> list[list[str]]:
    """Remove page numbers, running headers and footers: what comes again at the same edge of pages nearby."""
    pages = [[line.strip() for line in text.splitlines() if line.strip()] for text in texts]
    sides = ((0, [page[:_EDGE_LINES] for page in pages]), (-1, [page[-_EDGE_LINES:] for page in pages]))
    numbers = (
        {number - at for line in (*page[:_EDGE_LINES], *page[-_EDGE_LINES:]) for number in _edge_numbers(line)}
        for at, page in enumerate(pages)
    )
    offsets = Counter(offset for on_page in numbers for offset in on_page)
    running = {(side, at, form) for side, edges in sides for at, form in _repeated(edges)}
    heads = [[(m[0].casefold(), line) for line in page[:_EDGE_LINES] if (m := _PART.match(line))] for page in pages]
    names = Counter(_NUMBERS.sub("#", line) for _, line in {head for on_page in heads for head in on_page})
    begun: set[str] = set()
    earlier: set[str] = set()
    for at, (page, on_page) in enumerate(zip(pages, heads, strict=True)):
        named = {line: part for part, line in on_page if len(line) == len(part) or names[_NUMBERS.sub("#", line)] == 1}
        headings = [line for line, part in named.items() if part not in begun]
        for side in (*[0] * _EDGE_LINES, *[-1] * _EDGE_LINES):
            line = page[side] if page else ""
            runs = line in earlier or any((side, at, form) in running for form in _forms(line, at))
            if page and line not in headings and (runs or _is_page_number(line, at, offsets)):
                del page[side]
        begun.update(part for part, _ in on_page)
        earlier.update(line for _, line in on_page)
    return pages


def _repeated(edges: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yield the pages, and forms, of lines at an edge that come again on pages nearby."""
    places: dict[str, list[int]] = {}
    for at, lines in enumerate(edges):
        for form in {form for line in lines for form in _forms(line, at)}:
            places.setdefault(form, []).append(at)
    for form, found in places.items():
        near: list[int] = []
        for at, following in pairwise((*found, found[-1] + _NEARBY_PAGES + 1)):
            near.append(at)
            if following - at > _NEARBY_PAGES:
                if len(near) >= _MIN_REPEATS:
                    yield from ((page, form) for page in near)
                near = []


def _forms(line: str, at: int) -> Iterator[str]:
    """Yield what a running line has in common with those of other pages: its words, or its page number.

    A line that only begins as others do is running if its page number goes on with the pages.
    """
    bare = _NUMBERS.sub("#", _ROMAN_EDGE.sub("#", line)).casefold()
    if _LETTER.search(bare):
        yield bare
        yield from (f"{bare[:_FORM_CHARS]} {number - at}" for number in _edge_numbers(line))


def _edge_numbers(line: str) -> list[int]:
    """Return the numbers that a line begins and ends with, and that which it is in Roman numerals."""
    if not _ROMAN.fullmatch(line.casefold()):
        return [int(number[0]) for number in _EDGE_NUMBER.finditer(line)]
    values = [_ROMAN_VALUES[letter] for letter in line.casefold()]
    return [sum(-low if low < high else low for low, high in pairwise((*values, 0)))]


def _is_page_number(line: str, at: int, offsets: Mapping[int, int]) -> bool:
    """Tell whether a line is a page number and nothing else: one that goes on with those of other pages."""
    if _PAGE_NUMBER.fullmatch(line):
        return True
    if not line.isdecimal() and not _ROMAN.fullmatch(line.casefold()):
        return False
    return any(number == at + 1 or offsets.get(number - at, 0) >= _MIN_REPEATS for number in _edge_numbers(line))


def _paragraphs(lines: Sequence[str], headings: list[tuple[int, str]]) -> list[str]:
    """Join the lines of a page that belong together; headings stay apart."""
    width = max(map(len, lines), default=0) * _FULL_LINE
    paragraphs: list[str] = []
    ended, short_before = True, False
    for line in lines:
        begins = _ITEM.match(line) or _heading_of(line, headings)
        if ended or begins or (short_before and (line[0].isupper() or line[0].isdigit())):
            paragraphs.append(line)
        else:
            gap = "" if is_unspaced(line[0]) and is_unspaced(paragraphs[-1][-1]) else " "
            paragraphs[-1] += f"{gap}{line}"
        short_before = len(line) < width
        ended = bool(_LEADERS.search(line)) or (short_before and line[-1] in ".!?:;。！？")
        ended = ended or bool(_heading_of(paragraphs[-1], headings))
    return [_LEADERS.sub(" … ", paragraph) for paragraph in paragraphs]


def _whole_sentences(pages: list[list[str]]) -> list[list[str]]:
    """Move the end of a sentence to the page on which it begins."""
    for page, following in pairwise(pages):
        if page and following and page[-1][-1] not in ".!?:;。！？" and following[0][0].islower():
            end = re.search(r"[.!?](?=\s)", following[0])
            stop = end.end() if end else len(following[0])
            page[-1] += f" {following[0][:stop]}"
            following[0] = following[0][stop:].strip()
            if not following[0]:
                del following[0]
    return pages


def _heading_of(paragraph: str, headings: list[tuple[int, str]]) -> tuple[int, str] | None:
    """Return the table of contents' entry that a paragraph is."""
    words = re.sub(r"\s+", "", paragraph).casefold()
    for entry in headings:
        heading = re.sub(r"\s+", "", entry[1]).casefold()
        if heading and words.endswith(heading) and len(words) < len(heading) + _MAX_NUMBER_CHARS:
            return entry
    return None
