"""Read PDF files page by page.

PDFium runs in a process of its own, with a limit on time that grows with the file.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from hoptree.corpus.document import (
    BETWEEN_HEADINGS,
    MAX_DOCUMENT_BYTES,
    Document,
    HeadingPath,
    Oversized,
    Problems,
    TextBuilder,
    shorten_title,
    table_lines,
)
from hoptree.corpus.files import read_all, stem
from hoptree.corpus.zipped_xml import DEFAULT_TITLE
from hoptree.text.tokens import is_unspaced

_BASE_SECONDS, _SECONDS_PER_MIB = 30.0, 10.0
"""The processor time for a file; usual ones take less than a second a MiB."""
_EDGE_LINES = 2  # at the top and at the bottom of a page, which may be headers and footers
_MIN_REPEATS, _MAX_PAGES_APART = 3, 4  # of a line that is a header or footer
_PATTERN_CHARS = 20
_MAX_NUMBER_CHARS = 20  # of the number of a chapter before its heading
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
_CHAPTER = re.compile(
    r"(?:chapter|article|section|part|appendix|annex|kapitel|artikel|abschnitt|teil|anhang|§)\s*(?:\d+|[A-Z]\b|[IVXLC]+\b)",
    re.IGNORECASE,
)
"""The beginning of a chapter, or a header on the other pages of it."""
_LEADERS = re.compile(r"(?:\s{0,9}\.){4,}\s*")
_ITEM = re.compile(r"(?:[•‣▪◦–*-]\s|\(?\d{1,3}(?:\.\d+)*[.)]\s+\S|\d+(?:\.\d+)+\s+[^\W\d_a-z]|[a-z]\)\s)")
_FULL_LINE = 0.75  # of the longest line of a page; a shorter line may end a paragraph
_FULL_END = 0.92  # of the longest line; a shorter line with the end of a sentence ends a paragraph
_MIN_OPEN_LINE = 0.5  # of the longest line; a shorter line may be a heading, whatever its last word
_HYPHENATED = "\x1f"  # stands for the line break in a word; Python takes it for a space
_OPEN_WORD = re.compile(
    "a|an|the|this|these|those|its|their|his|her|our|your|my|and|or|nor|but|as|than|if|when|while|because|that|"
    "which|whose|of|to|in|on|at|by|for|from|with|into|between|under|over|through|is|are|was|were|be|see|der|die|"
    "das|den|dem|des|ein|eine|einen|einem|einer|eines|kein|keine|keinen|diese|dieser|dieses|diesen|diesem|jede|"
    "jeder|jedes|jeden|ihre|ihren|ihrer|seine|seinen|und|oder|aber|sowie|von|vom|zu|zum|zur|im|ins|am|auf|aus|"
    "bei|beim|mit|nach|für|über|unter|durch|gegen|ohne|um|zwischen|vor|als|wie|wenn|ob|dass|daß|weil|ist|sind|"
    "wird|siehe"
)
"""A word that ends no sentence, such as an article, a preposition or a conjunction."""


class _PdfProcess:
    """The process that runs PDFium; starts it again if it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # the id of the process that started it; a fork starts its own

    def read(self, content: bytes) -> list[dict[str, Any]] | None:
        """Return its replies for a file; None if it ended while it read the file."""
        seconds = _BASE_SECONDS + _SECONDS_PER_MIB * len(content) / 2**20
        order = json.dumps({"bytes": len(content), "seconds": seconds, "chars": MAX_DOCUMENT_BYTES})
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            replies: list[dict[str, Any]] = []
            try:
                process.stdin.write(f"{order}\n".encode())
                process.stdin.write(content)
                process.stdin.flush()
                for line in process.stdout:
                    replies.append(json.loads(line))
                    if "end" in replies[-1]:
                        return replies
            except BrokenPipeError:
                pass
            except BaseException:  # else its other replies would be taken for those of the next file
                self.end()
                raise
            self.end()
            return None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._process is None or self._owner != os.getpid():
            command = [sys.executable, "-P", str(Path(__file__).with_name("pdf_process.py"))]
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
            self._owner = os.getpid()
        return self._process

    def end(self) -> None:
        """End it, if this process started it."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # for bytes that it did not take
                pipe.close()  # type: ignore[union-attr]


_PDFIUM = _PdfProcess()
atexit.register(_PDFIUM.end)


def read_pdf(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Yield a document for each page, with an id such as a.pdf#page=3."""
    if find_spec("pypdfium2") is None:
        sentence = f"{name} was not read: PDF needs pip install 'hoptree[docs]'."
        problems.add("files that need a library", sentence, cuts=True)
        return
    content = read_all(stream, name, problems)
    if content is None:
        return
    replies = _PDFIUM.read(content)
    if why := _why_unreadable(replies):
        problems.add("damaged documents", f"{name} {why}.", cuts=True)
        return
    assert replies
    if "oversized" in replies[-1]:
        raise Oversized
    title = shorten_title(replies[0]["title"])
    title = stem(name) if not title or DEFAULT_TITLE.match(title) else title
    marks: dict[int, list[tuple[int, str]]] = {}
    for page, level, heading in replies[0]["headings"]:
        marks.setdefault(page, []).append((level, shorten_title(heading)))
    texts = [_page_text(reply, number, name, problems) for number, reply in enumerate(replies[1:-1], 1)]
    headings = {page: _Headings(entries) for page, entries in marks.items()}
    path, above, none = HeadingPath(), "", _Headings(())
    pages = [_paragraphs(lines, headings.get(at, none)) for at, lines in enumerate(_drop_running_heads(texts))]
    for number, paragraphs in enumerate(_whole_sentences(pages)):
        builder = TextBuilder(title)
        if above:
            builder.section(BETWEEN_HEADINGS.join((title, above)))
        part = ""  # "Chapter 3" on a line of its own, which belongs to the heading below it
        for paragraph in paragraphs:
            heading = headings.get(number, none).take(_without_spaces(paragraph))
            if heading:
                level, words = heading
                above = path.enter(level, f"{part}. {words}" if part else words)
                builder.section(BETWEEN_HEADINGS.join((title, above)), *heading)
            else:
                builder.add([part])
            part = "" if heading or not _CHAPTER.fullmatch(paragraph) else paragraph
            if not heading and not part:
                builder.add([paragraph])
        builder.add([part])
        if paragraphs or (texts[number].strip() and not any(pages)):  # other pages have only running heads
            yield builder.document(f"{name}#page={number + 1}", name, metadata=(("page", str(number + 1)),))
    is_read = any(text.strip() for text in texts)
    pages_read = zip(texts, replies[1:-1], strict=True)
    if empty := sum(not text.strip() and not (is_read and reply.get("blank")) for text, reply in pages_read):
        sentence = f"{empty} of {len(texts)} pages of {name} hold no text; scanned pages need OCR."
        problems.note("pages without text", sentence)


def _why_unreadable(replies: Sequence[Mapping[str, Any]] | None) -> str:
    """Return why a file cannot be read, or ""."""
    if replies is None:
        return "cannot be read as PDF: it takes more time or memory than it may"
    refused = next((reply["refused"] for reply in replies if "refused" in reply), None)
    if refused is None:
        return ""
    return "is locked with a password" if "assword" in refused else "cannot be read as PDF: it is damaged"


def _page_text(reply: Mapping[str, str], number: int, name: str, problems: Problems) -> str:
    """Return the text of a page, with a mark in words hyphenated at line ends."""
    if "failed" in reply:
        problems.add("damaged documents", f"Page {number} of {name} cannot be read: {reply['failed']}.", cuts=True)
        return ""
    text = re.sub(f"[\0{_HYPHENATED}]", " ", reply["text"]).encode("utf-8", "replace").decode()
    hyphen = "(?:\ufffe|(?<=[^\\W\\d_])[-\u00ad]\r?\n)(.)"
    return re.sub(hyphen, lambda m: f"{'-' * m[1].isupper()}{_HYPHENATED}{m[1]}", text)


def _drop_running_heads(texts: Sequence[str]) -> list[list[str]]:
    """Return the lines of pages without page numbers, headers and footers.

    A header or footer is repeated at the same edge of nearby pages.
    """
    pages = [[line.strip() for line in text.splitlines() if line.strip()] for text in texts]
    sides = ((0, [page[:_EDGE_LINES] for page in pages]), (-1, [page[-_EDGE_LINES:] for page in pages]))
    numbers = (
        {number - at for line in (*page[:_EDGE_LINES], *page[-_EDGE_LINES:]) for number in _edge_numbers(line)}
        for at, page in enumerate(pages)
    )
    offsets = Counter(offset for on_page in numbers for offset in on_page)
    running = {(side, at, pattern) for side, edges in sides for at, pattern in _repeated(edges)}
    heads = [[(m[0].casefold(), line) for line in page[:_EDGE_LINES] if (m := _CHAPTER.match(line))] for page in pages]
    names = Counter(_NUMBERS.sub("#", line) for _, line in {head for on_page in heads for head in on_page})
    begun: set[str] = set()
    earlier: set[str] = set()
    for at, (page, on_page) in enumerate(zip(pages, heads, strict=True)):
        named = {line: part for part, line in on_page if len(line) == len(part) or names[_NUMBERS.sub("#", line)] == 1}
        headings = [line for line, part in named.items() if part not in begun]
        for side in (*[0] * _EDGE_LINES, *[-1] * _EDGE_LINES):
            line = page[side] if page else ""
            runs = line in earlier or any((side, at, pattern) in running for pattern in _patterns(line, at))
            if page and line not in headings and (runs or _is_page_number(line, at, offsets)):
                del page[side]
        begun.update(part for part, _ in on_page)
        earlier.update(line for _, line in on_page)
    return pages


def _repeated(edges: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yield the page and pattern of each edge line that is repeated on nearby pages."""
    pages_with: dict[str, list[int]] = {}
    for at, lines in enumerate(edges):
        for pattern in {pattern for line in lines for pattern in _patterns(line, at)}:
            pages_with.setdefault(pattern, []).append(at)
    for pattern, pages in pages_with.items():
        near: list[int] = []
        for at, following in pairwise((*pages, pages[-1] + _MAX_PAGES_APART + 1)):
            near.append(at)
            if following - at > _MAX_PAGES_APART:
                if len(near) >= _MIN_REPEATS:
                    yield from ((page, pattern) for page in near)
                near = []


def _patterns(line: str, at: int) -> Iterator[str]:
    """Yield what a header or footer shares with those of other pages.

    It is the words, or the first words with the distance of the page number from the page's place in the file.
    """
    bare = _NUMBERS.sub("#", _ROMAN_EDGE.sub("#", line)).casefold()
    if _LETTER.search(bare):
        yield bare
        yield from (f"{bare[:_PATTERN_CHARS]} {number - at}" for number in _edge_numbers(line))


def _edge_numbers(line: str) -> list[int]:
    """Return the numbers at the edges of a line, or the Roman number that it is."""
    if not _ROMAN.fullmatch(line.casefold()):
        return [int(number[0]) for number in _EDGE_NUMBER.finditer(line)]
    values = [_ROMAN_VALUES[letter] for letter in line.casefold()]
    return [sum(-low if low < high else low for low, high in pairwise((*values, 0)))]


def _is_page_number(line: str, at: int, offsets: Mapping[int, int]) -> bool:
    """Return whether a line is only a page number, in sequence with other pages."""
    if _PAGE_NUMBER.fullmatch(line):
        return True
    if not line.isdecimal() and not _ROMAN.fullmatch(line.casefold()):
        return False
    return any(number == at + 1 or offsets.get(number - at, 0) >= _MIN_REPEATS for number in _edge_numbers(line))


def _without_spaces(text: str) -> str:
    """Return a text without spaces and case, in which headings are compared."""
    return "".join(text.split()).casefold()


class _Headings:
    """The headings of a page, from the file's table of contents.

    Finding one takes a time that does not depend on their number.
    """

    def __init__(self, entries: Iterable[tuple[int, str]]) -> None:
        self._places: dict[str, deque[tuple[int, tuple[int, str]]]] = {}
        for place, entry in enumerate(entries):
            if words := _without_spaces(entry[1]):
                self._places.setdefault(words, deque()).append((place, entry))
        longest = max(map(len, self._places), default=0)
        self.most_chars = longest + _MAX_NUMBER_CHARS if longest else 0
        """The most characters of a paragraph that is a heading, without spaces."""

    def has(self, words: str) -> bool:
        """Return whether a paragraph, without spaces, is a heading."""
        return bool(self._find(words))

    def take(self, words: str) -> tuple[int, str] | None:
        """Remove and return the first heading that a paragraph, without spaces, is."""
        places = self._find(words)
        return places.popleft()[1] if places else None

    def _find(self, words: str) -> deque[tuple[int, tuple[int, str]]] | None:
        if len(words) >= self.most_chars:
            return None
        ends = (self._places.get(words[start:]) for start in range(min(_MAX_NUMBER_CHARS, len(words))))
        return min(filter(None, ends), default=None)


def _paragraphs(lines: Sequence[str], headings: _Headings) -> list[str]:
    """Join the lines of a page to paragraphs; headings and rows of tables stay apart."""
    texts = [line.split(_HYPHENATED) for line in lines if "\t" not in line]
    width = max((len(part) for parts in texts for part in parts), default=0)
    paragraphs: list[list[str]] = []
    rows: list[str] = []  # of a table, with tabs between the cells
    words = ""  # of the paragraph so far, without spaces; incomplete if too long for a heading
    ended, short_before = True, False
    for line in (*lines, ""):
        if rows and ("\t" not in line or "\t\t" in line):
            paragraphs += ([row] for row in _table(rows))
            rows, ended = [], True
        if "\t" in line:
            rows.append(line.replace(_HYPHENATED, ""))
        if "\t" in line or not line:
            continue
        bare = _without_spaces(line) if headings.most_chars else ""
        begins = _ITEM.match(line) or headings.has(bare)
        if ended or begins or (short_before and (line[0].isupper() or line[0].isdigit())):
            paragraphs.append([line])
            words = bare
        else:
            before = paragraphs[-1]
            before += ["" if is_unspaced(line[0]) and is_unspaced(before[-1][-1]) else " ", line]
            words += bare if len(words) < headings.most_chars else ""
        ends_sentence = line[-1] in ".!?:;。！？"
        full = _FULL_END if ends_sentence else _MIN_OPEN_LINE if _is_open(line) else _FULL_LINE
        short_before = len(line.rpartition(_HYPHENATED)[2]) < width * full
        ended = bool(_LEADERS.search(line)) or (short_before and ends_sentence)
        ended = ended or headings.has(words)
    return [_LEADERS.sub(" … ", "".join(pieces).replace(_HYPHENATED, "")) for pieces in paragraphs]


def _is_open(line: str) -> bool:
    """Return whether a line ends within a sentence."""
    *before, word = line.split(" ")
    begins_sentence = bool(before) and before[-1].endswith((".", "!", "?", ":"))
    word = word.lower() if begins_sentence else word.lstrip("([„“‘»")
    return not word or word.endswith((",", "(", "[", "„")) or bool(_OPEN_WORD.fullmatch(word))


def _table(lines: Sequence[str]) -> Iterator[str]:
    """Yield the rows of a table with the names of its columns.

    The first row has the names if it is in bolder print, or has none of the numbers that all others have.
    """
    rows = [[cell.strip() for cell in line.replace("\t\t", "\t").split("\t")] for line in lines]
    numbers = [[cell[:1].isdecimal() for cell in row] for row in rows]
    is_named = "\t\t" in lines[0] or any(all(column) for column in zip(*numbers[1:], strict=False))
    if is_named and not any(map(str.isdecimal, rows[0])):
        return table_lines(dict(enumerate(row)) for row in rows)
    return iter((" " if len(rows[0]) == 2 else " | ").join(filter(None, row)) for row in rows)


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
