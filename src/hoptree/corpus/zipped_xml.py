"""Open ZIP archives of XML, such as Office files and e-books.

The files may be hostile. They are unpacked in memory, up to a limit. XML with a document type is refused, as only
there entities can be declared.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from xml.parsers import expat

from hoptree.corpus.document import MAX_DOCUMENT_BYTES, Oversized, shorten_title

_BLOCK_BYTES = 2**16
_MAX_PARTS = 20_000
_MAX_XML_DEPTH = 500
_ENTRY = b"PK\1\2"  # before each entry in the directory of a ZIP archive
_OLE = b"\xd0\xcf\x11\xe0"  # the first bytes of Office files before 2007, and of newer ones with a password
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, OSError, RuntimeError, ValueError)


class Unreadable(Exception):
    """Says in half a sentence why a file is unreadable."""


class Archive:
    """A ZIP archive in memory with a limit on unpacked bytes."""

    def __init__(self, content: bytes) -> None:
        if content.startswith(_OLE):
            raise Unreadable("is locked with a password, or in a format of before 2007")
        if content.count(_ENTRY) > _MAX_PARTS:
            raise Unreadable(f"is larger than a document: it has more than {_MAX_PARTS:,} parts")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except _ZIP_ERRORS as error:
            raise Unreadable("is damaged, or of another kind than its name says") from error
        self.names = frozenset(self._zip.namelist())
        self._left = MAX_DOCUMENT_BYTES

    def blocks(self, part: str) -> Iterator[bytes]:
        """Yield the content of a part; nothing if there is no such part."""
        if part not in self.names:
            return
        entry = self._zip.getinfo(part)
        if entry.flag_bits & 1:
            raise Unreadable("is locked with a password")
        if entry.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):  # others may need much memory
            raise Unreadable("is damaged: it is packed in a way that such files are not")
        if entry.file_size > self._left:  # no more than this is unpacked, whatever the part holds
            raise Oversized
        try:
            with self._zip.open(entry) as file:
                while block := file.read(_BLOCK_BYTES):
                    self._left -= len(block)
                    if self._left < 0:
                        raise Oversized
                    yield block
        except _ZIP_ERRORS as error:
            raise Unreadable("is damaged: a part cannot be unpacked") from error

    def elements(self, part: str) -> Iterator[Element]:
        """Yield the starts, texts and ends of the XML elements of a part."""
        events: list[Element] = []
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        open_tags: list[str] = []

        def start(name: str, attributes: dict[str, str]) -> None:
            open_tags.append(name.rpartition(" ")[2])
            if len(open_tags) > _MAX_XML_DEPTH:
                raise Unreadable("is damaged: its XML is nested too deep")
            events.append(Element("start", open_tags[-1], {_local(key): value for key, value in attributes.items()}))

        def end(name: str) -> None:
            events.append(Element("end", open_tags.pop()))

        def text(content: str) -> None:
            events.append(Element("text", open_tags[-1] if open_tags else "", text=content))

        def refuse(*_: object) -> None:
            raise Unreadable("is not read: its XML declares a document type, which may hide an attack")

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
            raise Unreadable(f"is damaged: the XML of {part} is broken") from error

    def targets(self, part: str) -> dict[str, tuple[str, str]]:
        """Return path and type of the parts that a part refers to, by their ids."""
        folder, name = posixpath.split(part)
        targets: dict[str, tuple[str, str]] = {}
        for item in self.elements(posixpath.join(folder, f"_rels/{name}.rels")):
            if item.starts("Relationship") and item.of("TargetMode") != "External":
                path = posixpath.normpath(posixpath.join(f"/{folder}", item.of("Target"))).lstrip("/")
                targets[item.of("Id")] = path, item.of("Type").rpartition("/")[2]
        return targets

    def title(self) -> str:
        """Return the title in the file's properties, unless a program set it by default."""
        words = "".join(item.text for item in self.elements("docProps/core.xml") if item.tag == "title")
        return "" if DEFAULT_TITLE.match(words.strip()) else shorten_title(words)


@lru_cache(1_000)
def _local(name: str) -> str:
    """Return an attribute's name without its namespace; "r:" stands for relationships."""
    namespace, _, name = name.rpartition(" ")
    return f"r:{name}" if namespace.endswith("/relationships") else name


DEFAULT_TITLE = re.compile(
    r"(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)(?: [-–]|$)|PowerPoint[ -]Pr[eä]sentation$|Slide \d|Folie \d|"
    r"Untitled|Document\d*$|Title$|.*\.(?:docx?|odt|rtf|pptx?|xlsx?|html?|tex|dvi|indd|qxd|pdf|ps|txt|md)$)",
    re.IGNORECASE,
)
"""Titles that programs set, such as names of files, which say nothing about the text."""


_NONE: Mapping[str, str] = MappingProxyType({})


class Element(NamedTuple):
    """The start or end of an XML element, or a text in it."""

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
