"""Read Word, PowerPoint, Excel and EPUB files."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import unquote

from hoptree.corpus.document import BETWEEN_HEADINGS, Document, Problems, TextBuilder, shorten_title, table_lines
from hoptree.corpus.files import Reader, read_all, stem
from hoptree.corpus.html_pages import decode_html, html_document
from hoptree.corpus.zipped_xml import Archive, Element, Unreadable


def _reader(read: Callable[[Archive, str, Problems], Iterator[Document]]) -> Reader:
    """Return a reader of files that opens and checks their archives."""

    def reader(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
        content = read_all(stream, name, problems)
        if content is None:
            return
        try:
            yield from read(Archive(content), name, problems)
        except Unreadable as error:
            problems.add("damaged documents", f"{name} {error}.", cuts=True)

    return reader


_MAX_SPAN = 1_000  # columns of a cell
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class _Paragraphs:
    """Collects the paragraphs and tables of Word and PowerPoint."""

    def __init__(self) -> None:
        self.style = ""
        self._open: list[list[str]] = []
        self._rows: list[list[dict[int, str]]] = []
        """The rows of each open table by their columns."""
        self._cells: list[list[str]] = []
        """The paragraphs of the open cell of each open table."""
        self._spans: list[int] = []
        """The number of columns that the last cell of each open table spans."""
        self._skipped = 0

    def add(self, item: Element) -> tuple[str, list[str]] | None:
        """Add an element; return style and lines of the paragraph or table that it ends."""
        if item.tag in ("Fallback", "moveFrom"):  # their content comes again elsewhere
            self._skipped += {"start": 1, "end": -1}.get(item.kind, 0)
        elif self._skipped:
            return None
        elif item.kind == "text":
            if item.tag == "t" and self._open:
                self._open[-1].append(item.text)
        elif item.starts("p"):
            self._open.append([])
            self.style = ""
        elif item.starts("pStyle"):
            self.style = item.of("val")
        elif item.kind == "start" and item.tag in _BREAKS and self._open:
            self._open[-1].append(_BREAKS[item.tag])
        elif item.ends("p") and self._open:
            return self._paragraph("".join(self._open.pop()))
        elif item.tag in ("tbl", "tr", "tc", "gridSpan", "vMerge"):
            return self._table(item)
        return None

    def _paragraph(self, text: str) -> tuple[str, list[str]] | None:
        if self._rows and self._rows[-1]:
            self._cells[-1].append(text)
            return None
        return self.style, [text]

    def _table(self, item: Element) -> tuple[str, list[str]] | None:
        if item.starts("tbl"):
            self._rows.append([])
            self._cells.append([])
            self._spans.append(0)
        elif item.starts("tr") and self._rows:
            self._rows[-1].append({})
        elif item.starts("tc") and self._rows and self._rows[-1]:
            row = self._rows[-1][-1]
            row[next(reversed(row)) + self._spans[-1] if row else 0] = ""
            self._spans[-1] = 1
            self._cells[-1] = []
        elif item.starts("gridSpan") and self._spans:
            self._spans[-1] = min(max(_number(item.of("val")), 1), _MAX_SPAN)
        elif item.starts("vMerge") and item.of("val") in ("", "continue"):
            if self._rows and len(self._rows[-1]) > 1 and (row := self._rows[-1][-1]):
                self._cells[-1] = [self._rows[-1][-2].get(next(reversed(row)), "")]
        elif item.ends("tc") and self._rows and self._rows[-1] and (row := self._rows[-1][-1]):
            row[next(reversed(row))] = " ".join(self._cells[-1]).strip()
        elif item.ends("tbl") and self._rows:
            self._cells.pop()
            self._spans.pop()
            lines = list(table_lines(self._rows.pop()))
            if not self._rows:
                return "", lines
            self._paragraph(" ".join(lines))  # a table in a cell
        return None


_NAMED_STYLE = re.compile(r"(?:heading (\d)|(title)|(?:toc|contents) \d)$", re.IGNORECASE)
_DEFAULT_LEVELS = {f"{word}{level}": level for word in ("Heading", "berschrift", "Titre") for level in range(1, 10)}
"""The levels of the style ids of Word, for files without a list of styles."""
_TITLE, _BODY_TEXT = -1, 10  # a title stands above headings of level 1


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Return the level of each heading style, 0 for styles of tables of contents."""
    levels, style = {"Title": _TITLE, **_DEFAULT_LEVELS}, ""
    for item in archive.elements("word/styles.xml"):
        if item.starts("style"):
            style = item.of("styleId")
        elif item.starts("name") and (match := _NAMED_STYLE.match(item.of("val"))):
            levels[style] = _TITLE if match[2] else int(match[1] or 0)
        elif item.starts("basedOn") and item.of("val") in levels:  # a base comes before the styles based on it
            levels.setdefault(style, levels[item.of("val")])
        elif item.starts("outlineLvl") and len(item.of("val")) == 1 and item.of("val").isdecimal():
            levels[style] = int(item.of("val")) + 1
    return levels


def _docx(archive: Archive, name: str, problems: Problems) -> Iterator[Document]:
    main = next((path for path, kind in archive.targets("").values() if kind == "officeDocument"), "word/document.xml")
    if main not in archive.names:
        raise Unreadable("is damaged, or no Word document")
    levels, text = _heading_levels(archive), TextBuilder(archive.title())
    for part in (main, "word/footnotes.xml", "word/endnotes.xml"):
        paragraphs = _Paragraphs()
        for item in archive.elements(part):
            if seen := paragraphs.add(item):
                style, lines = seen
                level = levels.get(style)
                if level and level < _BODY_TEXT and "\n" not in lines[0].strip():
                    text.heading(level, lines[0])
                else:
                    text.add(lines, entries=int(level == 0))
    yield text.document(name, stem(name))


def _pptx(archive: Archive, name: str, problems: Problems) -> Iterator[Document]:
    main = "ppt/presentation.xml"
    if main not in archive.names:
        raise Unreadable("is damaged, or no PowerPoint presentation")
    targets, title = archive.targets(main), archive.title() or stem(name)
    ids = [item.of("r:id") for item in archive.elements(main) if item.starts("sldId")]
    slides = dict.fromkeys(targets.get(key, ("", ""))[0] for key in ids)  # a hostile file may name one without end
    for number, slide in enumerate(slides, 1):
        text = TextBuilder()
        _read_slide(archive, slide, text)
        for path, kind in archive.targets(slide).values():
            if kind == "notesSlide":
                _read_slide(archive, path, text, notes=True)
        document = text.document(f"{name}#slide={number}", stem(name), metadata=(("slide", str(number)),))
        heading = BETWEEN_HEADINGS.join((title, text.title)) if text.title else title
        yield replace(document, title=heading, text=document.text or text.title, sections=())


def _read_slide(archive: Archive, part: str, text: TextBuilder, *, notes: bool = False) -> None:
    paragraphs, holder = _Paragraphs(), ""
    for item in archive.elements(part):
        if item.starts("sp", "graphicFrame"):
            holder = ""
        elif item.starts("ph"):
            holder = item.of("type") or "body"
        if (seen := paragraphs.add(item)) is None or (notes and holder != "body"):
            continue
        if holder in ("title", "ctrTitle") and not text.title:
            text.title = shorten_title(" ".join(seen[1]))
        elif holder not in ("sldNum", "dt", "ftr"):
            text.add(seen[1])


_EPOCH, _MAC_EPOCH = datetime(1899, 12, 30), datetime(1904, 1, 1)
_FALSE_LEAP_DAY = 60  # Excel counts a 29 February 1900, which did not exist
_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_HOURS_FORMAT, _HOURS = 46, re.compile(r"\[h+\]")  # of a duration, which may be more than 24
_MAX_FORMAT_CHARS = 255  # as in Excel
_NOT_A_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
_COLUMN = re.compile("[A-Z]{1,3}")


class _Workbook:
    """The strings, the formats of dates and the sheets of an Excel file."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._main = "xl/workbook.xml"
        if self._main not in archive.names:
            raise Unreadable("is damaged, or no Excel workbook")
        targets = archive.targets(self._main)
        self.sheets: list[tuple[str, str]] = []
        self._epoch = _EPOCH
        for item in archive.elements(self._main):
            if item.starts("sheet") and item.of("r:id") in targets:
                self.sheets.append((item.of("name"), targets[item.of("r:id")][0]))
            elif item.starts("workbookPr") and item.of("date1904") in ("1", "true"):
                self._epoch = _MAC_EPOCH
        by_kind = {kind: path for path, kind in targets.values()}
        self._strings = list(self._read_strings(by_kind.get("sharedStrings", "")))
        self._dates = self._date_styles(by_kind.get("styles", ""))

    def _read_strings(self, part: str) -> Iterator[str]:
        pieces: list[str] = []
        phonetic = False
        for item in self._archive.elements(part):
            if item.tag == "rPh":
                phonetic = item.kind == "start" or (phonetic and item.kind != "end")
            elif item.kind == "text" and item.tag == "t" and not phonetic:
                pieces.append(item.text)
            elif item.ends("si"):
                yield "".join(pieces)
                pieces.clear()

    def _date_styles(self, part: str) -> dict[int, str]:
        """Return "date" or "hours" for the styles that show numbers so, "" for others."""
        formats = dict.fromkeys(_DATE_FORMATS, "date") | {_HOURS_FORMAT: "hours"}
        styles: list[int] = []
        inside = False
        for item in self._archive.elements(part):
            if item.starts("numFmt"):
                given = item.of("formatCode")[:_MAX_FORMAT_CHARS].lower()
                code = _NOT_A_DATE.sub("", given)
                is_date = any(letter in code for letter in "ymdhs") and code != "general"
                kind = "hours" if _HOURS.search(given) else "date" if is_date else ""
                formats[_number(item.of("numFmtId"))] = kind
            elif item.tag == "cellXfs":
                inside = item.kind == "start"
            elif inside and item.starts("xf"):
                styles.append(_number(item.of("numFmtId")))
        return {style: formats.get(number, "") for style, number in enumerate(styles)}

    def rows(self, part: str) -> Iterator[dict[int, str]]:
        """Yield the cells of each row of a sheet by their columns."""
        cells: dict[int, str] = {}
        kind, column, style, value = "", -1, 0, ""
        for item in self._archive.elements(part):
            if item.starts("c"):
                kind, style, value = item.of("t"), _number(item.of("s")), ""
                match = _COLUMN.match(item.of("r"))
                column = _column(match[0]) if match else column + 1
            elif item.kind == "text":
                value += item.text if item.tag in ("v", "t") else ""
            elif item.ends("c"):
                cells[column] = self._shown(kind, style, value)
            elif item.ends("row"):
                yield cells
                cells, column = {}, -1

    def _shown(self, kind: str, style: int, value: str) -> str:
        if kind == "s":
            at = _number(value, -1)
            return self._strings[at] if 0 <= at < len(self._strings) else ""
        if kind == "b":
            return "true" if value == "1" else "false"
        if kind in ("", "n") and value:
            with suppress(ValueError, OverflowError):
                shown_as = self._dates.get(style)
                if shown_as == "hours":
                    minutes, seconds = divmod(round(float(value) * 86_400), 60)
                    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
                return self._date(float(value)) if shown_as else f"{float(value):.15g}"
        return "" if kind == "e" else value

    def _date(self, days: float) -> str:
        if self._epoch is _EPOCH and 1 <= days < _FALSE_LEAP_DAY:
            days += 1
        moment = self._epoch + timedelta(seconds=round(days * 86_400))
        if 0 <= days < 1:
            return f"{moment:%H:%M:%S}"
        return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M:%S}"


def _number(text: str, default: int = 0) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else default


def _column(letters: str) -> int:
    """Return the number of a column: A is 0, AA is 26."""
    place = 0
    for letter in letters:
        place = place * 26 + ord(letter) - ord("A") + 1
    return place - 1


def _xlsx(archive: Archive, name: str, problems: Problems) -> Iterator[Document]:
    workbook, title = _Workbook(archive), archive.title() or stem(name)
    for number, (sheet, part) in enumerate(workbook.sheets, 1):
        text = TextBuilder(BETWEEN_HEADINGS.join((title, shorten_title(sheet))))
        text.add_table(workbook.rows(part))
        document = text.document(f"{name}#sheet={number}", stem(name), metadata=(("sheet", sheet),))
        if document.text:  # empty sheets are usual
            yield document


def _epub(archive: Archive, name: str, problems: Problems) -> Iterator[Document]:
    roots = (item.of("full-path") for item in archive.elements("META-INF/container.xml"))
    package = next(filter(None, roots), "")
    if package not in archive.names:
        raise Unreadable("is damaged, or no e-book")
    title = ""
    paths: dict[str, str] = {}
    order: list[str] = []
    for item in archive.elements(package):
        if item.kind == "text" and item.tag == "title":
            title += item.text
        elif item.starts("item") and "html" in item.of("media-type"):
            place = posixpath.join(posixpath.dirname(package), unquote(item.of("href")))
            paths[item.of("id")] = posixpath.normpath(place)
        elif item.starts("itemref"):
            order.append(item.of("idref"))
    title = shorten_title(title) or stem(name)
    for path in dict.fromkeys(paths[key] for key in order if key in paths):
        if path not in archive.names:
            problems.add("damaged documents", f"{name} lacks its part {shorten_title(path)}.")
            continue
        page = html_document(decode_html(b"".join(archive.blocks(path))), path)
        own = "" if page.sections or page.title in (title, stem(path)) else page.title
        yield replace(page, id=f"{name}#{path}", title=BETWEEN_HEADINGS.join(filter(None, (title, own))))


read_docx, read_pptx, read_xlsx, read_epub = map(_reader, (_docx, _pptx, _xlsx, _epub))
