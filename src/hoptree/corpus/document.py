"""Documents before they are cut into passages, and problems in reading them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import PurePosixPath
from typing import Literal

from hoptree.core.errors import CorpusError
from hoptree.core.lazy import lazy_re
from hoptree.text.tokens import UNSPACED, is_unspaced

BETWEEN_HEADINGS = " › "
MAX_DOCUMENT_BYTES = 128 * 2**20  # of a file; also the most characters of a text


@dataclass(frozen=True, slots=True)
class Section:
    """A path of headings from `start` on; its heading is the first `skip` characters."""

    start: int
    title: str
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its names, metadata and ordered `sections`.

    `is_passage` marks a row of a passage file, which is cut only on request. `anchors` are places that links lead to,
    and `references` places that its links lead to, each after its offset. `entries` are lines of a table of contents or
    links: start, end, number of links.
    """

    id: str
    title: str
    text: str
    aliases: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    is_passage: bool = False
    anchors: tuple[tuple[int, str], ...] = ()
    references: tuple[tuple[int, str], ...] = ()
    entries: tuple[tuple[int, int, int], ...] = ()


Problem = Literal[
    "broken lines",
    "records without text",
    "fields of the wrong type",
    "files that are not text",
    "damaged archives",
    "damaged documents",
    "oversized lines or files",
    "unreadable files",
    "files that need a library",
]
Note = Literal[
    "empty documents",
    "pages without text",
    "texts that are not UTF-8",
    "repeated passages",
    "overlong fields",
    "files of an unknown kind",
    "files of questions",
    "hidden files and folders",
    "links not followed",
    "pipes, sockets and devices",
    "indexes",
    "packed scripts",
]

_MAX_SENTENCES, _MIN_SENTENCES_PER_KIND = 20, 5
"""The sentences kept in all, and of each kind in any case, so that no kind hides the others."""
_MAX_SINGLE_NOTES = 3
_MAX_TITLE_CHARS = 300
_ROW_PROBLEMS = frozenset(("broken lines", "records without text", "fields of the wrong type"))
"""Many of these mean that a file is not of the kind that its name says, so they are limited."""


class Problems:
    """Collects what could not be read (`add`) and what need not be read (`note`).

    More than `limit` broken rows are an error; unreadable files are one only if the limit is 0. `cut_short` counts
    files that were not read to their end; `unlisted` are folders and files that could not be listed. Notes on `known`
    files are not repeated; `passed` are all files with a note.
    """

    def __init__(self, limit: int = 100, known: Collection[str] = ()) -> None:
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self.sentences: list[str] = []
        self.notes: list[str] = []
        self.broken = self.cut_short = 0
        self.unlisted: list[str] = []
        self.passed: list[str] = []
        self._known = frozenset(known)
        self._first: dict[str, list[str]] = {}
        self._suffixes: Counter[str] = Counter()

    def add(self, kind: Problem, sentence: str, *, cuts: bool = False) -> None:
        """Record a broken place; raise CorpusError above the limit."""
        self.counts[kind] += 1
        self.broken += 1
        self.cut_short += cuts
        if len(self.sentences) < _MAX_SENTENCES or self.counts[kind] <= _MIN_SENTENCES_PER_KIND:
            self.sentences.append(sentence)
        if self.limit <= 0:
            remedy = "Fix or remove it, or run it again with --skip-broken N to pass over N places."
            raise CorpusError(sentence, remedy)
        if kind not in _ROW_PROBLEMS or sum(self.counts[each] for each in _ROW_PROBLEMS) <= self.limit:
            return
        cause = f"More than {self.limit:,} rows of the corpus cannot be read. The last one: {sentence}"
        raise CorpusError(cause, f"Fix them, or run it again with --skip-broken {self.limit * 10} to pass over more.")

    def note(self, kind: Note, sentence: str, file: str = "") -> None:
        """Record something that was left out, or changed, but is not broken."""
        if file:
            self.passed.append(file)
            if file in self._known:
                return
        self.counts[kind] += 1
        first = self._first.setdefault(kind, [])
        first += [sentence] if len(first) < _MAX_SINGLE_NOTES else []
        if kind == "files of an unknown kind":
            suffixes = PurePosixPath(file.lower()).suffixes
            self._suffixes["".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:]) or "no suffix"] += 1
        if len(self.notes) < _MAX_SENTENCES or self.counts[kind] <= _MIN_SENTENCES_PER_KIND:
            self.notes.append(sentence)

    def report(self) -> tuple[str, ...]:
        """Return all problems, then all notes; many notes of a kind as one line."""
        lines = list(self.sentences)
        for kind, first in self._first.items():
            suffixes = ", ".join(f"{suffix} {number:,}" for suffix, number in self._suffixes.most_common(8))
            which = f" ({suffixes})" if kind == "files of an unknown kind" else ""
            if (count := self.counts[kind]) > len(first):
                first = [f"{count:,} {kind}{which}, such as: {first[0]}"]
            lines += first
        return tuple(lines)

    def summary(self) -> str:
        """Return one line of counts by kind, the most frequent first."""
        skipped = ((kind, count) for kind, count in self.counts.most_common() if kind != "texts that are not UTF-8")
        return "; ".join(f"{kind}: {count:,}" for kind, count in skipped)


def shorten_title(title: str) -> str:
    """Return a title or heading on one line, cut to a length that can be shown."""
    return " ".join(title[: _MAX_TITLE_CHARS * 4].split())[:_MAX_TITLE_CHARS]


_UNSPACED = f"{UNSPACED}\u3001\u3002\uff01-\uff5e"  # with their punctuation marks
_LINE_BREAK = lazy_re(rf"(?<=[{_UNSPACED}])[^\S\n]{{0,99}}\n[^\S\n]{{0,99}}(?=[{_UNSPACED}])")
_WRAPPED_COLUMNS = range(60, 101)
"""Columns of a line of a plain text that may go on in the next one; a letter of these scripts takes two."""


def join_lines(paragraph: str) -> str:
    """Join the lines of a paragraph where a script has no spaces between words."""
    return _LINE_BREAK.sub("", paragraph) if "\n" in paragraph and not paragraph.isascii() else paragraph


def join_wrapped(text: str) -> str:
    """Join full lines of a plain text in such a script, unless they end a sentence."""

    def joined(line_break: re.Match[str]) -> str:
        line = text[text.rfind("\n", 0, line_break.start()) + 1 : line_break.start()]
        is_full = len(line) < _WRAPPED_COLUMNS.stop and len(line) + sum(map(is_unspaced, line)) in _WRAPPED_COLUMNS
        return "" if is_full and line[-1] not in "。！？" else line_break[0]

    return text if text.isascii() else _LINE_BREAK.sub(joined, text)


_HEADING_WORD = re.compile(r"[^\W\d_][^\W_]+")
_MIN_INFORMATIVE_WORDS, _MIN_INFORMATIVE_CHARS = 4, 8  # characters in scripts without spaces


def is_informative(heading: str) -> bool:
    """Return whether a heading states something by itself, unlike "Summary"."""
    if heading and sum(map(is_unspaced, heading)) * 2 > len(heading):
        return len(heading) >= _MIN_INFORMATIVE_CHARS
    return len(_HEADING_WORD.findall(heading)) >= _MIN_INFORMATIVE_WORDS


_NUMBER = re.compile(r"[^\w]*\d[\d\s.,:/%()€$£+-]*$")
_YEAR, _MAX_YEARS_APART = re.compile(r"(?:1[5-9]|20)\d\d$"), 10
_MAX_COLUMN_CHARS = 100


def table_lines(rows: Iterable[Mapping[int, str]], *, named: bool = False) -> Iterator[str]:
    """Yield a line for each table row, with its column names.

    The first row of two cells or more has the names, unless a cell of it is long, repeated or a number. Successive
    years ("2019", "2020") may be names, and so may all numbers if the columns are certainly `named`. Raises Oversized,
    as a small file may repeat a long cell or name without end.
    """
    names: Mapping[int, str] | None = None
    unused: dict[int, str] = {}
    length = 0
    for row in rows:
        row_chars = sum(map(len, row.values()))
        length += row_chars
        if length > MAX_DOCUMENT_BYTES:
            raise Oversized
        cells = {at: words for at, cell in row.items() if (words := " ".join(cell.split()))}
        if names is None and len(cells) > 1:
            values = list(cells.values())
            numbers = [] if named else [cell for cell in values if _NUMBER.match(cell)]
            are_names = not any(len(cell) > _MAX_COLUMN_CHARS for cell in values)
            are_names = are_names and (not numbers or (len(numbers) < len(values) and _are_years(numbers)))
            names = cells if are_names and len(set(values)) == len(cells) else {}
            unused = dict(names)
            if names:
                continue
        if cells:
            for at in cells.keys() & unused.keys():
                del unused[at]
            with_names = (f"{names[at]}: {cell}" if names and at in names else cell for at, cell in cells.items())
            line = ("; " if names else " | ").join(with_names)
            length += max(len(line) - row_chars, 0)
            yield line
    if unused:  # names of columns without cells
        yield " | ".join(unused.values())


def _are_years(cells: Sequence[str]) -> bool:
    """Return whether cells are two or more years at equal, short distances."""
    if len(cells) < 2 or not all(map(_YEAR.match, cells)):
        return False
    steps = {int(year) - int(before) for before, year in pairwise(cells)}
    return len(steps) == 1 and abs(steps.pop()) <= _MAX_YEARS_APART


_LONG_TABLE_ROWS = 100
_MIN_KEY_SHARE = 0.9  # of the rows, with different cells in the column that names them
_MAX_KEY_CHARS = 80


def _key_column(rows: Sequence[Mapping[int, str]]) -> int | None:
    """Return the first column whose cells name the rows, preferably not by numbers."""
    keys: list[tuple[bool, int]] = []
    for at in sorted({at for row in rows for at in row}):
        cells = {cell for row in rows if 0 < len(cell := row.get(at, "").strip()) <= _MAX_KEY_CHARS}
        if len(cells) >= _MIN_KEY_SHARE * len(rows):
            keys.append((sum(_NUMBER.match(cell) is not None for cell in cells) > len(cells) / 2, at))
    return min(keys)[1] if keys else None


class HeadingPath:
    """The current headings, outermost first, after the title."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._path: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> str:
        """Return the path to a new heading: "Family" alone does not say whose."""
        self._path = [(above, name) for above, name in self._path if above < level]
        self._path.append((level, heading))
        names = [name for _, name in self._path]
        if self._title and self._path[0][0] > 1 and names[0] != self._title:
            names.insert(0, self._title)
        return BETWEEN_HEADINGS.join(names)


class Oversized(Exception):
    """A document is longer than MAX_DOCUMENT_BYTES."""


class TextBuilder:
    """Builds a document of headings and paragraphs; raises Oversized if too long."""

    def __init__(self, title: str = "") -> None:
        self.title = title
        self._sections: list[Section] = []
        self._path = HeadingPath(title)
        self._pieces: list[str] = []
        self._length = 0
        self._tight = False
        self._bare: tuple[int, int, str] | None = None  # a heading without text so far: offset, level, words
        self.anchors: list[tuple[int, str]] = []
        self.references: list[tuple[int, str]] = []
        self._entries: list[tuple[int, int, int]] = []

    def anchor(self, place: str) -> None:
        """Make what comes next the target of links to a place."""
        if place:
            self.anchors.append((self._length, place))

    def refer(self, place: str) -> None:
        """Record that what comes next has a link to a place."""
        if place:
            self.references.append((self._length, place))

    def heading(self, level: int, words: str) -> None:
        """Begin a section; the first heading is the title of a document without one."""
        if words := shorten_title(words):
            self.title = self.title or words
            self.section(self._path.enter(level, words), level, words)

    def section(self, title: str, level: int = 0, heading: str = "") -> None:
        """Begin a section with a known path of headings; `heading` is the last of them."""
        self._add_bare_heading(level)
        self._bare = (self._length, level, heading)
        self._sections.append(Section(self._length, title))
        self._tight = False

    def _add_bare_heading(self, level: int) -> None:
        """Add an informative heading as a text if nothing follows it."""
        bare, self._bare = self._bare, None
        if bare and bare[0] == self._length and level <= bare[1] and is_informative(bare[2]):
            self.add([bare[2]])

    def add(self, paragraphs: Iterable[str], *, tight: bool = False, entries: int = 0) -> None:
        """Add paragraphs, `tight` ones without an empty line between them.

        `entries` is the number of links if the paragraph is a line of a table of contents.
        """
        start = self._length
        for paragraph in paragraphs:
            if not paragraph or paragraph.isspace():
                continue
            gap = "\n" if tight and self._tight else "\n\n"
            self._pieces.append(f"{gap}{paragraph}" if self._pieces else paragraph)
            self._length += len(self._pieces[-1])
            self._tight = tight
            if self._length > MAX_DOCUMENT_BYTES:
                raise Oversized
        if entries and self._length > start:
            self._entries.append((start, self._length, entries))

    def add_table(self, rows: Iterable[Mapping[int, str]], *, named: bool = False) -> None:
        """Add a line for each row; of a long table, as a section named by its key.

        The first row has the names of the columns if they are certainly `named`.
        """
        rows = iter(rows)
        first = list(islice(rows, _LONG_TABLE_ROWS))
        key = _key_column(first) if len(first) == _LONG_TABLE_ROWS else None
        row: Mapping[int, str] = {}

        def remember(each: Mapping[int, str]) -> Mapping[int, str]:
            nonlocal row
            row = each
            return each

        for line in table_lines(map(remember, chain(first, rows)), named=named):
            if key is not None:
                self.heading(2, row.get(key, "")[:_MAX_KEY_CHARS])
            self.add([line])

    def document(
        self, key: str, name: str, *, aliases: tuple[str, ...] = (), metadata: tuple[tuple[str, str], ...] = ()
    ) -> Document:
        """Return the document, titled `name` if it has no title."""
        self._add_bare_heading(0)
        text, sections = "".join(self._pieces), tuple(self._sections)
        links = tuple(self.anchors), tuple(self.references)
        return Document(key, self.title or name, text, aliases, metadata, sections, False, *links, tuple(self._entries))
