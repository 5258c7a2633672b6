"""The process that reads PDF files with PDFium, as hostile files may crash it.

Its input has, for each file, a JSON line with the file's size and the limits on seconds and on characters of text, and
then the file's bytes. Its output has JSON lines: one with title and headings, one for each page, and one at the end.
The process ends with its input.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw


class _Box(NamedTuple):
    """Characters in a row, from `first` to before `end`, and the room they take."""

    left: float
    bottom: float
    right: float
    top: float
    first: int
    end: int
    fixed_width: float  # of each character; 0 in a font with several

    def with_box(self, other: _Box) -> _Box:
        lows = min(self.left, other.left), min(self.bottom, other.bottom)
        highs = max(self.right, other.right), max(self.top, other.top)
        return _Box(*lows, *highs, self.first, other.end, self.fixed_width)


_Row = list[list[_Box]]  # the boxes of each cell, from left to right

_MAX_MEMORY_BYTES = 2**30
_MAX_TITLE_CHARS = 1_200
_WATCH_SECONDS = 0.5
_PLACE_CHARS = 1_000
"""Added to the characters of each page and heading, as a small file may claim a million of them."""


def main() -> None:
    """Read the files of standard input one after another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides when this one ends
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints must not mix with the replies
    _limit("RLIMIT_AS", _MAX_MEMORY_BYTES)
    _limit("RLIMIT_CORE", 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    source = sys.stdin.buffer
    while line := source.readline():
        order = json.loads(line)
        _limit("RLIMIT_CPU", math.ceil(time.process_time() + order["seconds"]))
        for reply in _read(source.read(order["bytes"]), order["chars"]):
            out.write(f"{json.dumps(reply)}\n")
        out.flush()


def _end_with_parent() -> None:
    """Exit when the parent process is gone; a killed one cannot end this one."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _limit(name: str, value: int) -> None:
    """Limit a resource of this process, on systems that can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _read(content: bytes, left: int) -> Iterator[dict[str, Any]]:
    """Yield the replies for a file, up to `left` characters of headings and pages."""
    try:
        with closing(pdfium.PdfDocument(content)) as pdf:
            headings = []
            for mark in pdf.get_toc():
                target = mark.get_dest()
                if target is not None and target.get_index() is not None:
                    heading = _spelled(mark.get_title)
                    left -= _PLACE_CHARS + len(heading)
                    if left < 0:
                        break
                    headings.append((target.get_index(), mark.level + 1, heading))
            gaps = _WordGaps()
            yield {"title": _spelled(lambda: pdf.get_metadata_value("Title")), "headings": headings}
            for number in range(len(pdf) if left >= 0 else 0):
                page = _page(pdf, number, gaps)
                left -= _PLACE_CHARS + len(page.get("text", ""))
                if left < 0:
                    break
                yield {**page, "blank": not page.get("text", "failed").strip() and _is_blank(pdf, number)}
    except pdfium.PdfiumError as error:
        yield {"refused": str(error)}
    yield {"end": True} | ({"oversized": True} if left < 0 else {})


def _spelled(read: Callable[[], str]) -> str:
    """Return a title or heading; "" if it is broken Unicode."""
    with suppress(UnicodeError):
        return read()[:_MAX_TITLE_CHARS]
    return ""


def _page(pdf: Any, number: int, gaps: _WordGaps) -> dict[str, str]:
    try:
        with closing(pdf[number]) as page, closing(page.get_textpage()) as opened:
            return {"text": _with_rows(opened, str(opened.get_text_range()).replace("\t", " "), gaps)}
    except Exception as error:  # damaged pages make it raise errors of several kinds
        return {"failed": type(error).__name__}


def _is_blank(pdf: Any, number: int) -> bool:
    """Return whether nothing is drawn on a page: not a scan either."""
    with closing(pdf[number]) as page:
        return bool(raw.FPDFPage_CountObjects(page) == 0)


# Tables: PDF knows none, so they are lines in which gaps are at the same places. Columns of a text are no table, as
# their lines do not follow one another from left to right in the file.

_MAX_CHARS = 20_000  # of a page that is searched for tables
_MIN_CELL_GAP, _MIN_FIXED_GAP = 0.6, 1.5  # in heights of a line, and in widths of a character of fixed width
_FIXED_PITCH = 1  # a flag of a font, which those of TeX lack
_FIXED_NAME = b"CMTT"
_LETTERS = re.compile(r"(?:[,;]?[A-Za-z\u00c0-\u052f\u1e00-\u1fff]){3,}")  # not of scripts without spaces
_MIN_WORD_GAP = 0.12  # in heights of a line
_SAMPLE_CHARS = 20_000
_MIN_ROWS = 3
_MAX_LINES = 20  # of a row
_BOLD, _BOLDER = 700, 100  # the weight of bold print, and the least difference
_MAX_FONT_NAME_BYTES = 200
_MAX_LINE_GAP = 0.8  # between the lines of a paragraph, in heights of a line
_MAX_ROW_GAP = 1.5  # in heights of a line
_LEADERS = (". . . .", "....", "…", "├", "└")  # of a table of contents, or of a tree
_LIST_MARK = re.compile(r"\W{0,2}\w{0,3}[.):\]]?|\W{1,3}|\d[\d.]*")
"""The first cell of an item of a list."""


def _with_rows(page: Any, text: str, word_gaps: _WordGaps) -> str:
    """Return the text of a page, with a tab between the cells of tables.

    An empty cell is a space. It is two tabs in a row with the names of the columns, in bolder print than those below.
    """
    if not page.count_chars() == len(text) <= _MAX_CHARS:  # else the places of words are unknown
        return text
    gaps = word_gaps.find(page, text)
    lines = _spaced(text, gaps).split("\r\n")
    bare = ["".join(line.split()) for line in lines]
    at, pieces = 0, list[str]()
    for table in _tables(_rows(_words(page, text)), partial(_weight, page)):
        boxes = [box for row in table for cell in row for box in cell]
        texts = {box: " ".join(_spaced(text, gaps, box.first, box.end).split()) for box in boxes}
        rows = [[" ".join(map(texts.__getitem__, cell)) for cell in row] for row in table]
        is_list = len(rows[0]) == 2 and all(_LIST_MARK.fullmatch(row[0]) for row in rows)
        if is_list or any(leader in " ".join(row) for row in rows for leader in _LEADERS):
            continue
        below = ((name[0], cell[0]) for name, cell in zip(*table[:2], strict=True) if name and cell)
        bolder = [_weight(page, name) - _weight(page, cell) for name, cell in below]
        has_names = max(bolder) > _BOLDER and min(bolder) > -_BOLDER
        for number, row in enumerate(rows):
            as_written = sorted((box for cell in table[number] for box in cell), key=lambda box: box.first)
            span = _find("".join("".join(map(texts.__getitem__, as_written)).split()), bare, at)
            if span is None:
                break
            pieces += [
                *lines[at : span[0]],
                ("\t\t" if number == 0 and has_names else "\t").join(cell or " " for cell in row),
            ]
            at = span[1]
    return "\r\n".join([*pieces, *lines[at:]])


class _WordGaps:
    """Finds the places between letters of a file that are as far apart as words.

    Some writers, such as groff, leave out the space between some words. The gaps are wider than most of the word,
    unlike in spaced print. A file without any in its first letters is not searched further, to save time.
    """

    def __init__(self) -> None:
        self._letters_left = _SAMPLE_CHARS

    def find(self, page: Any, text: str) -> list[int]:
        places, read, box = list[int](), raw.FPDFText_GetLooseCharBox, raw.FS_RECTF()
        for word in _LETTERS.finditer(text) if self._letters_left > 0 else ():
            start, end = word.span()
            read(page, start, box)
            right, wide = box.right, list[int]()
            for at in range(start + 1, end):
                read(page, at, box)
                if (gap := box.left - right) > 0 and gap > _MIN_WORD_GAP * (box.top - box.bottom):
                    wide.append(at)
                right = box.right
            places += wide if 2 * len(wide) < end - start else ()
        self._letters_left -= 0 if places else len(text)
        return places


def _spaced(text: str, gaps: list[int], first: int = 0, end: int | None = None) -> str:
    """Return a part of a text with spaces in its gaps."""
    end = len(text) if end is None else end
    cuts = [first, *gaps[bisect_right(gaps, first) : bisect_left(gaps, end)], end]
    return " ".join(text[start:stop] for start, stop in pairwise(cuts))


def _find(words: str, bare: list[str], start: int) -> tuple[int, int] | None:
    """Return the first and the last but one of the lines that have just these words."""
    for first in range(start, len(bare)):
        last, rest = first, words
        while last < len(bare) and bare[last] and rest.startswith(bare[last]):
            rest = rest[len(bare[last]) :]
            last += 1
            if not rest:
                return first, last
    return None


def _words(page: Any, text: str) -> Iterator[_Box]:
    """Yield the boxes of the words in the text of a page."""
    first, last = raw.FS_RECTF(), raw.FS_RECTF()
    name, flags = ctypes.create_string_buffer(_MAX_FONT_NAME_BYTES), ctypes.c_int()
    for word in re.finditer(r"\S+", text):
        start, end = word.span()
        raw.FPDFText_GetLooseCharBox(page, start, first)
        raw.FPDFText_GetLooseCharBox(page, end - 1, last)
        raw.FPDFText_GetFontInfo(page, start, name, len(name), flags)
        is_fixed = flags.value & _FIXED_PITCH or _FIXED_NAME in name.value
        left, right = min(first.left, last.left), max(first.right, last.right)
        fixed_width = (right - left) / (end - start) if is_fixed else 0.0
        yield _Box(left, min(first.bottom, last.bottom), right, max(first.top, last.top), start, end, fixed_width)


def _rows(boxes: Iterable[_Box]) -> list[_Row]:
    """Return the lines of a page, each divided where there is a gap."""
    rows: list[_Row] = []
    before = None
    for box in boxes:
        height = min(box.top - box.bottom, before.top - before.bottom) if before else 0
        shared = min(box.top, before.top) - max(box.bottom, before.bottom) if before else 0
        if not before or shared <= height / 2 or box.left < before.right - 1:
            rows.append([[box]])
        elif box.left - before.right < max(_MIN_CELL_GAP * height, _MIN_FIXED_GAP * before.fixed_width):
            rows[-1][-1][-1] = before.with_box(box)
        else:
            rows[-1].append([box])
        before = rows[-1][-1][-1]
    return rows


def _tables(lines: list[_Row], weight: Callable[[_Box], int]) -> Iterator[list[_Row]]:
    """Yield the rows of each table: lines with cells in the same columns."""
    start = 0
    while start < len(lines):
        table, end = _table_at(lines, start, weight)
        if len(table) >= _MIN_ROWS:
            yield table
        start = end if len(table) >= _MIN_ROWS else start + 1


def _table_at(lines: list[_Row], start: int, weight: Callable[[_Box], int]) -> tuple[list[_Row], int]:
    """Return the rows of a table that may begin at a line, and where it ends."""
    columns = [(cell[0][0], cell[0][2]) for cell in lines[start]]
    second = lines[start + 1] if len(columns) > 1 and start + 1 < len(lines) else lines[start]
    is_named = weight(lines[start][0][0]) - weight(second[0][0]) > _BOLDER
    least = max((len(columns) + 1) // 2, 2) if is_named else len(columns) // 2 + 1  # cells of a row
    table, end, count = [[list(cell) for cell in lines[start]]], start + 1, 0
    for at in range(start + 1, len(lines) if len(columns) > 1 else 0):
        line, row = lines[at], table[-1]
        places = [[place for place, column in enumerate(columns) if _overlap(cell[0], column)] for cell in line]
        if _is_between(line, columns):  # centred names, numbers on the right
            places = [[place] for place in range(len(columns))]
        is_far = lines[at - 1][0][0].bottom - line[0][0].top > _MAX_ROW_GAP * (line[0][0].top - line[0][0].bottom)
        if is_far or any(len(place) != 1 for place in places) or len({place[0] for place in places}) < len(line):
            break
        cells = {place[0]: cell for place, cell in zip(places, line, strict=True)}
        is_complete, count = _is_row(row, least), count + 1
        goes_on = all(not row[place] or _is_next(row[place][-1], cell[0]) for place, cell in cells.items())
        if (is_complete or not goes_on) and 0 in cells and cells[0][0][3] < row[0][-1][3]:
            table.append([list(cells.get(place, ())) for place in range(len(columns))])
            count = 0
        elif goes_on and count < _MAX_LINES and not (is_complete and 0 in cells):
            for place, cell in cells.items():
                row[place] += cell
        else:
            break
        for place, cell in cells.items():
            columns[place] = min(columns[place][0], cell[0][0]), max(columns[place][1], cell[0][2])
        end = at + 1 if _is_row(table[-1], least) else end
    return [row for row in table if _is_row(row, least)], end


def _is_row(row: _Row, least: int) -> bool:
    """Return whether a row has its first cell and at least so many cells."""
    return bool(row[0]) and sum(map(bool, row)) >= least


def _is_between(line: _Row, columns: list[tuple[float, float]]) -> bool:
    """Return whether each cell of a line is between the columns beside its own."""
    lefts, rights = [cell[0].left for cell in line], [cell[0].right for cell in line]
    return len(line) == len(columns) and all(
        right < following[0] and left > previous[1]
        for right, left, previous, following in zip(rights, lefts[1:], columns, columns[1:], strict=False)
    )


def _overlap(box: _Box, column: tuple[float, float]) -> bool:
    return box[0] < column[1] and box[2] > column[0]


def _is_next(above: _Box, box: _Box) -> bool:
    """Return whether a box is in the next line of the same paragraph."""
    return above[1] - box[3] < _MAX_LINE_GAP * (box[3] - box[1])


def _weight(page: Any, box: _Box) -> int:
    """Return the weight of the font at the beginning of a box."""
    name = ctypes.create_string_buffer(_MAX_FONT_NAME_BYTES)
    raw.FPDFText_GetFontInfo(page, box.first, name, len(name), ctypes.c_int())
    return _BOLD if b"bold" in name.value.lower() else int(raw.FPDFText_GetFontWeight(page, box.first))


if __name__ == "__main__":
    main()
