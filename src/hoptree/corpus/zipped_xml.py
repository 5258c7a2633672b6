"""Open ZIP archives of XML, as Office files and e-books are.

The files may be hostile. Nothing is unpacked to disk, and what is unpacked is bounded. XML with a document type, the
only place where entities can be declared, is refused.
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

from hoptree.corpus.document import MAX_DOCUMENT_BYTES, Oversized, short

_BLOCK_BYTES = 2**16
_MAX_PARTS = 20_000
_MAX_XML_DEPTH = 500
_ENTRY = b"PK\1\2"  # begins every entry in the directory of a ZIP archive
_OLE = b"\xd0\xcf\x11\xe0"  # begins the files of Office before 2007, and newer ones that are locked with a password
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, LookupError, OSError, RuntimeError, ValueError)


class Unreadable(Exception):
    """Says in half a sentence why a file cannot be read."""


class Archive:
    """A ZIP archive in memory with a bound on unpacked bytes."""

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
        """Yield the content of a part; nothing if there is none of that name."""
        if part not in self.names:
            return
        entry = self._zip.getinfo(part)
        if entry.flag_bits & 1:
            raise Unreadable("is locked with a password")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others take any amount of memory
            raise Unreadable("is damaged: it is packed in a way that such files are not")
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
        """Yield the beginnings, texts and ends of a part's XML elements as they are read."""
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
        return "" if GIVEN_TITLE.match(words.strip()) else short(words)


@lru_cache(1_000)
def _local(name: str) -> str:
    """Return an attribute's name without its namespace, or with r:."""
    namespace, _, name = name.rpartition(" ")
    return f"r:{name}" if namespace.endswith("/relationships") else name


GIVEN_TITLE = re.compile(
    r"(?:Microsoft (?:Office )?(?:Word|PowerPoint|Excel)(?: [-–]|$)|PowerPoint[ -]Pr[eä]sentation$|Slide \d|Folie \d|"
    r"Untitled|Document\d*$|Title$)",
    re.IGNORECASE,
)
"""A title that a program gave, which says nothing of the text."""


_NONE: Mapping[str, str] = MappingProxyType({})


class Element(NamedTuple):
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
