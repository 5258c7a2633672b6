"""Read Word, PowerPoint, Excel and EPUB files: XML in ZIP archives.

The files may be hostile. Nothing is unpacked to disk, and what is unpacked is bounded. XML with a document type, the
only place where entities can be declared, is refused.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote
from xml.parsers import expat

from hoptree.corpus.document import (
    BETWEEN_HEADINGS,
    MAX_DOCUMENT_BYTES,
    Document,
    Oversized,
    Problems,
    TextBuilder,
    short,
    table_lines,
)
from hoptree.corpus.files import Reader, read_all, stem
from hoptree.corpus.html_pages import decode_html, html_document

_BLOCK_BYTES = 2**16
_MAX_PARTS = 20_000
_MAX_XML_DEPTH = 500
_ENTRY = b"PK\1\2"  # begins every entry in the directory of a ZIP archive
_OLE = b"\xd0\xcf\x11\xe0"  # begins the files of Office before 2007, and newer ones that are locked with a password
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, OSError, RuntimeError, ValueError)


class _Unreadable(Exception):
    """Says in half a sentence why a file cannot be read."""


class _Archive:
    """A ZIP archive in memory with a bound on unpacked bytes."""

    def __init__(self, content: bytes) -> None:
        if content.startswith(_OLE):
            raise _Unreadable("is locked with a password, or in a format of before 2007")
        if content.count(_ENTRY) > _MAX_PARTS:
            raise _Unreadable(f"is larger than a document: it has more than {_MAX_PARTS:,} parts")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _ZIP_ERRORS as error:
            raise _Unreadable("is damaged, or of another kind than its name says") from error
        self.names = frozenset(self._zip.namelist())
        self._left = MAX_DOCUMENT_BYTES

    def blocks(self, part: str) -> Iterator[bytes]:
        """Yield the content of a part; nothing if there is none of that name."""
        if part not in self.names:
            return
        entry = self._zip.getinfo(part)
        if entry.flag_bits & 1:
            raise _Unreadable("is locked with a password")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others take any amount of memory
            raise _Unreadable("is damaged: it is packed in a way that such files are not")
        try:
            with self._zip.open(entry) as file:
                while block := file.read(_BLOCK_BYTES):
                    self._left -= len(block)
                    if self._left < 0:
                        raise Oversized
                    yield block
        except _ZIP_ERRORS as error:
            raise _Unreadable("is damaged: a part cannot be unpacked") from error

    def elements(self, part: str) -> Iterator[_Element]:
        """Yield the beginnings, texts and ends of a part's XML elements as they are read."""
        events: list[_Element] = []
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        open_tags: list[str] = []

        def start(name: str, attributes: dict[str, str]) -> None:
            open_tags.append(name.rpartition(" ")[2])
            if len(open_tags) > _MAX_XML_DEPTH:
                raise _Unreadable("is damaged: its XML is nested too deep")
            events.append(_Element("start", open_tags[-1], {_local(key): value for key, value in attributes.items()}))

        def end(name: str) -> None:
            events.append(_Element("end", open_tags.pop()))

        def text(content: str) -> None:
            events.append(_Element("text", open_tags[-1] if open_tags else "", text=content))

        def refuse(*_: object) -> None:
            raise _Unreadable("is not read: its XML declares a document type, which may hide an attack")

        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
        parser.StartDoctypeDeclHandler = refuse
        try:
            for block in self.blocks(part):
                parser.Parse(block, False)
                yield from events
                events.clear()
            if part in self.names:
                parser.Parse(b"", True)
                yield from events
        except expat.ExpatError as error:
            raise _Unreadable(f"is damaged: the XML of {part} is broken") from error

    def targets(self, part: str) -> dict[str, tuple[str, str]]:
        """Return the parts that a part refers to, with their types."""
        folder, name = posixpath.split(part)
        targets: dict[str, tuple[str, str]] = {}
        for item in self.elements(posixpath.join(folder, f"_rels/{name}.rels")):
            if item.starts("Relationship") and item.of("TargetMode") != "External":
                path = posixpath.normpath(posixpath.join(f"/{folder}", item.of("Target"))).lstrip("/")
                targets[item.of("Id")] = path, item.of("Type").rpartition("/")[2]
        return targets

    def title(self) -> str:
        """Return the title in the file's properties, unless it is one that a program gave."""
        words = "".join(item.text for item in self.elements("docProps/core.xml") if item.tag == "title")
        return "" if _GIVEN_TITLE.match(words.strip()) else short(words)


@lru_cache(1_000)
def _local(name: str) -> str:
    """Return an attribute's name without its namespace, or with r:."""
    namespace, _, name = name.rpartition(" ")
    return f"r:{name}" if namespace.endswith("/relationships") else name


_GIVEN_TITLE = re.compile(r"(?:Microsoft |PowerPoint |Slide \d|Folie \d|Untitled|Document\d*$|Title$)", re.IGNORECASE)
_NONE: Mapping[str, str] = MappingProxyType({})


class _Element(NamedTuple):
    """The beginning or end of an XML element, or a text in it."""

    kind: str
    tag: str
    attributes: Mapping[str, str] = _NONE
    text: str = ""

    def starts(self, *tags: str) -> bool:
        return self.kind == "start" and self.tag in tags

    def ends(self, *tags: str) -> bool:
        return self.kind == "end" and self.tag in tags

    def of(self, attribute: str) -> str:
        return self.attributes.get(attribute, "")


def _reader(read: Callable[[_Archive, str, Problems], Iterator[Document]]) -> Reader:
    def reader(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
        content = read_all(stream, name, problems)
        if content is None:
            return
        try:
            yield from read(_Archive(content), name, problems)
        except _Unreadable as error:
            problems.add("damaged documents", f"{name} {error}.", cuts=True)

    return reader


_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


class _Paragraphs:
    """Follows the paragraphs and tables of Word and PowerPoint."""

    def __init__(self) -> None:
        self.style = ""
        self._open: list[list[str]] = []
        self._rows: list[list[list[str]]] = []
        """A list of rows for every table that is open; the last cell of the last row is being read."""
        self._skipped = 0

    def see(self, item: _Element) -> tuple[str, list[str]] | None:
        """Take an element; return the paragraph or table it completes."""
        if item.tag in ("Fallback", "moveFrom"):  # what is given in another form, or at another place
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
        elif item.tag in ("tbl", "tr", "tc"):
            return self._table(item)
        return None

    def _paragraph(self, text: str) -> tuple[str, list[str]] | None:
        if self._rows and self._rows[-1]:
            if row := self._rows[-1][-1]:
                row[-1] = f"{row[-1]} {text}".strip()
            return None
        return self.style, [text]

    def _table(self, item: _Element) -> tuple[str, list[str]] | None:
        if item.starts("tbl"):
            self._rows.append([])
        elif item.starts("tr") and self._rows:
            self._rows[-1].append([])
        elif item.starts("tc") and self._rows and self._rows[-1]:
            self._rows[-1][-1].append("")
        elif item.ends("tbl") and self._rows:
            lines = list(table_lines(map(dict, map(enumerate, self._rows.pop()))))
            if not self._rows:
                return "", lines
            self._paragraph(" ".join(lines))  # a table within a cell of another one
        return None


_NAMED_STYLE = re.compile(r"(?:heading (\d)|(title)|(?:toc|contents) \d)$", re.IGNORECASE)
_USUAL_LEVELS = {f"{word}{level}": level for word in ("Heading", "berschrift", "Titre") for level in range(1, 10)}
"""By the ids that Word gives; some programs write no list of styles."""
_BODY_TEXT = 10


def _heading_levels(archive: _Archive) -> dict[str, int]:
    """Return the level of each heading style, 0 for those of lists of contents."""
    levels, style = {"Title": 1, **_USUAL_LEVELS}, ""
    for item in archive.elements("word/styles.xml"):
        if item.starts("style"):
            style = item.of("styleId")
        elif item.starts("name") and (match := _NAMED_STYLE.match(item.of("val"))):
            levels[style] = int(match[1] or bool(match[2]))
        elif item.starts("basedOn") and item.of("val") in levels:  # bases come first
            levels.setdefault(style, levels[item.of("val")])
        elif item.starts("outlineLvl") and len(item.of("val")) == 1 and item.of("val").isdecimal():
            levels[style] = int(item.of("val")) + 1
    return levels


def _docx(archive: _Archive, name: str, problems: Problems) -> Iterator[Document]:
    main = next((path for path, kind in archive.targets("").values() if kind == "officeDocument"), "word/document.xml")
    if main not in archive.names:
        raise _Unreadable("is damaged, or no Word document")
    levels, text = _heading_levels(archive), TextBuilder(archive.title())
    for part in (main, "word/footnotes.xml", "word/endnotes.xml"):
        paragraphs = _Paragraphs()
        for item in archive.elements(part):
            if seen := paragraphs.see(item):
                style, lines = seen
                level = levels.get(style)
                if level and level < _BODY_TEXT and "\n" not in lines[0].strip():
                    text.heading(level, lines[0])
                else:
                    text.add(lines, entries=int(level == 0))
    yield text.document(name, stem(name))


def _pptx(archive: _Archive, name: str, problems: Problems) -> Iterator[Document]:
    main = "ppt/presentation.xml"
    if main not in archive.names:
        raise _Unreadable("is damaged, or no PowerPoint presentation")
    targets, title = archive.targets(main), archive.title() or stem(name)
    ids = [item.of("r:id") for item in archive.elements(main) if item.starts("sldId")]
    for number, slide in enumerate((targets.get(key, ("", ""))[0] for key in ids), 1):
        text = TextBuilder()
        _read_slide(archive, slide, text)
        for path, kind in archive.targets(slide).values():
            if kind == "notesSlide":
                _read_slide(archive, path, text, notes=True)
        document = text.document(f"{name}#slide={number}", stem(name), metadata=(("slide", str(number)),))
        heading = BETWEEN_HEADINGS.join((title, text.title)) if text.title else title
        yield replace(document, title=heading, text=document.text or text.title, sections=())


def _read_slide(archive: _Archive, part: str, text: TextBuilder, *, notes: bool = False) -> None:
    paragraphs, holder = _Paragraphs(), ""
    for item in archive.elements(part):
        if item.starts("sp"):
            holder = ""
        elif item.starts("ph"):
            holder = item.of("type") or "body"
        if (seen := paragraphs.see(item)) is None or (notes and holder != "body"):
            continue
        if holder in ("title", "ctrTitle") and not text.title:
            text.title = short(" ".join(seen[1]))
        elif holder not in ("sldNum", "dt", "ftr"):
            text.add(seen[1])


_EPOCH, _MAC_EPOCH = datetime(1899, 12, 30), datetime(1904, 1, 1)
_FALSE_LEAP_DAY = 60  # Excel counts the 29th of February 1900, which was none
_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_MAX_FORMAT_CHARS = 255  # as in Excel
_NOT_A_DATE = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
_COLUMN = re.compile("[A-Z]{1,3}")


class _Workbook:
    """The strings, the formats of dates and the sheets of an Excel file."""

    def __init__(self, archive: _Archive) -> None:
        self._archive = archive
        self._main = "xl/workbook.xml"
        if self._main not in archive.names:
            raise _Unreadable("is damaged, or no Excel workbook")
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

    def _date_styles(self, part: str) -> dict[int, bool]:
        """Return the styles of cells that show their numbers as dates or times."""
        formats = dict.fromkeys(_DATE_FORMATS, True)
        styles: list[int] = []
        inside = False
        for item in self._archive.elements(part):
            if item.starts("numFmt"):
                code = _NOT_A_DATE.sub("", item.of("formatCode")[:_MAX_FORMAT_CHARS]).lower()
                formats[_number(item.of("numFmtId"))] = any(letter in code for letter in "ymdhs") and code != "general"
            elif item.tag == "cellXfs":
                inside = item.kind == "start"
            elif inside and item.starts("xf"):
                styles.append(_number(item.of("numFmtId")))
        return {style: formats.get(kind, False) for style, kind in enumerate(styles)}

    def rows(self, part: str) -> Iterator[dict[int, str]]:
        """Yield the cells of every row of a sheet by their columns."""
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
                return self._date(float(value)) if self._dates.get(style) else f"{float(value):.15g}"
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
    """Return the place of a column: A is 0, AA is 26."""
    place = 0
    for letter in letters:
        place = place * 26 + ord(letter) - ord("A") + 1
    return place - 1


def _xlsx(archive: _Archive, name: str, problems: Problems) -> Iterator[Document]:
    workbook, title = _Workbook(archive), archive.title() or stem(name)
    for number, (sheet, part) in enumerate(workbook.sheets, 1):
        text = TextBuilder(BETWEEN_HEADINGS.join((title, short(sheet))))
        text.add_table(workbook.rows(part))
        document = text.document(f"{name}#sheet={number}", stem(name), metadata=(("sheet", sheet),))
        if document.text:  # empty sheets are usual
            yield document


def _epub(archive: _Archive, name: str, problems: Problems) -> Iterator[Document]:
    package = next(
        (item.of("full-path") for item in archive.elements("META-INF/container.xml") if item.of("full-path")), ""
    )
    if package not in archive.names:
        raise _Unreadable("is damaged, or no e-book")
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
    title = short(title) or stem(name)
    for path in dict.fromkeys(paths[key] for key in order if key in paths):
        if path not in archive.names:
            problems.add("damaged documents", f"{name} lacks its part {short(path)}.")
            continue
        page = html_document(decode_html(b"".join(archive.blocks(path))), path)
        own = "" if page.sections or page.title in (title, stem(path)) else page.title
        yield replace(page, id=f"{name}#{path}", title=BETWEEN_HEADINGS.join(filter(None, (title, own))))


read_docx, read_pptx, read_xlsx, read_epub = map(_reader, (_docx, _pptx, _xlsx, _epub))
