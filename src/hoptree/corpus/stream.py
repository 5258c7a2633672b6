"""Bytes of a file as they are meant: unpacked if they are packed, counted as they are read, and decoded."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hoptree.corpus.problems import Problems

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import WriteableBuffer

__all__ = ["Damaged", "bom_encoding", "looks_binary", "open_bytes", "read_all", "read_text"]

_BLOCK = 2**20
_PACKED_BLOCK = 2**11
"""Small, since what is in the block where a file turns out to be garbled is lost."""
_GZIP = b"\x1f\x8b"
_LARGEST = 128 * 2**20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Damaged(OSError):
    """A packed file that ends too early or is garbled; what came before has been given out."""


@contextmanager
def open_bytes(path: Path, on_bytes: Callable[[int], None] | None = None) -> Iterator[io.BufferedReader]:
    """The content of a file, unpacked where its first bytes say gzip; `on_bytes` hears how much of it was read."""
    with path.open("rb", buffering=0) as raw:
        stream: io.BufferedReader = io.BufferedReader(_Counted(raw, on_bytes), _BLOCK)
        yield io.BufferedReader(_Unpacked(stream), _BLOCK) if stream.peek(2)[:2] == _GZIP else stream


class _Counted(io.RawIOBase):
    """A raw file that tells how many of its bytes were read."""

    def __init__(self, raw: io.FileIO, on_bytes: Callable[[int], None] | None) -> None:
        self._raw, self._on_bytes, self._count = raw, on_bytes, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self._raw.readinto(buffer) or 0
        self._count += count
        if self._on_bytes is not None:
            self._on_bytes(self._count)
        return count


class _Unpacked(io.RawIOBase):
    """The content of a gzip file of one or more members.

    `gzip.GzipFile` drops up to a block of sound content before the place where a file breaks off; this does not.
    """

    def __init__(self, packed: io.BufferedReader) -> None:
        self._packed, self._left, self._member = packed, b"", zlib.decompressobj(wbits=31)
        self._started = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while True:
            if not self._left:
                self._left = self._packed.read(_PACKED_BLOCK)
                if not self._left and self._started:
                    raise Damaged("it ends before its packed content does")
                if not self._left:
                    return 0
            if not self._started:
                self._left = self._left.lstrip(b"\0")  # padding between members
                self._started = bool(self._left)
                if not self._started:
                    continue
            try:
                content = self._member.decompress(self._left, len(view))
            except zlib.error as error:
                raise Damaged("its packed content is garbled") from error
            self._left = self._member.unconsumed_tail
            if self._member.eof:
                self._left, self._member, self._started = self._member.unused_data, zlib.decompressobj(wbits=31), False
            if content:
                view[: len(content)] = content
                return len(content)


def bom_encoding(head: bytes) -> str:
    """The encoding a byte order mark names, or ""."""
    return next((encoding for mark, encoding in _BOMS if head.startswith(mark)), "")


def looks_binary(head: bytes) -> bool:
    """Whether there are too many NULs among the bytes for text; nothing but NULs is an empty text."""
    return not bom_encoding(head) and head.count(0) * 10 > len(head) and bool(head.strip(b"\0 \t\r\n"))


def read_all(stream: io.BufferedReader, name: str, problems: Problems) -> bytes | None:
    """All bytes of a file, or those before the place where it is damaged; None if they are too many for a document."""
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := stream.read1(_BLOCK):
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST:
                problems.add(
                    "oversized lines or files",
                    f"{name} is larger than {_LARGEST // 2**20} MiB, too long for one document.",
                )
                return None
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    return b"".join(pieces)


def read_text(stream: io.BufferedReader, name: str, problems: Problems) -> str | None:
    """The text of a file with line ends as \\n and NULs as spaces, or None if it is no text."""
    content = read_all(stream, name, problems)
    if content is None:
        return None
    if looks_binary(content[:8192]):
        problems.add("files that are no text", f"{name} is no text: it is binary.")
        return None
    try:
        text = content.decode(bom_encoding(content[:4]) or "utf-8")
    except UnicodeDecodeError as error:
        problems.add("files that are no text", f"{name} is no UTF-8 text: {error.reason} at byte {error.start}.")
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
