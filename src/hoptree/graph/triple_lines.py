"""Numbered lines of (compressed) files, with a limit on their length and on broken places."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hoptree.core.errors import GraphError

_MAX_SENTENCES = 20
_MAX_REASON_CHARS = 300


class BrokenPlaces:
    """Counts up to `limit` broken places and describes the first ones; `cut` names truncated files."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.count = 0
        self.cut: set[str] = set()
        self.sentences: list[str] = []

    def line(self, number: int, name: str, why: str) -> None:
        self.add(f"Line {number:,} of {name} is passed over: {' '.join(why.split())[:_MAX_REASON_CHARS].rstrip('. ')}.")

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.sentences) < _MAX_SENTENCES:
            self.sentences.append(sentence)
        if self.count <= self.limit:
            return
        if self.limit <= 0:
            raise GraphError(sentence, "Mend or remove it, or load with --skip-broken N to pass over N places.")
        raise GraphError(
            f"More than {self.limit:,} places of the files cannot be read. The last one: {sentence}",
            f"Mend them, or load with --skip-broken {self.limit * 10} to pass over more.",
        )


Line = tuple[int, bytes]
OnBytes = Callable[[int], None]
_MAX_LINE_BYTES = 16 * 2**20
_BUFFER_BYTES = 2**18
_BOM = b"\xef\xbb\xbf"


class _Counted(io.RawIOBase):
    """A raw file that reports how many bytes were read."""

    def __init__(self, raw: io.FileIO, on_bytes: OnBytes | None) -> None:
        self._raw, self._on_bytes, self._count = raw, on_bytes, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = self._raw.readinto(buffer) or 0
        self._count += count
        if self._on_bytes is not None:
            self._on_bytes(self._count)
        return count


@contextmanager
def open_unpacked(path: Path, on_bytes: OnBytes | None = None) -> Iterator[io.BufferedIOBase]:
    """Open a file, decompressing gzip and bzip2 by their first bytes."""
    try:
        raw = path.open("rb", buffering=0)
    except OSError as error:
        raise GraphError(f"{path} cannot be read ({error.strerror}).", "Give a file of triples.") from error
    with raw:
        stream = io.BufferedReader(_Counted(raw, on_bytes), _BUFFER_BYTES)
        head = stream.peek(3)[:3]
        if head[:2] == b"\x1f\x8b":
            yield io.BufferedReader(gzip.GzipFile(fileobj=stream), _BUFFER_BYTES)
        elif head == b"BZh":
            yield bz2.BZ2File(stream)
        else:
            yield stream


def read_lines(stream: io.BufferedIOBase, name: str, broken: BrokenPlaces) -> Iterator[Line]:
    """Yield lines; one that is too long, or a truncated compressed file, is a broken place."""
    number = 0
    try:
        while raw := stream.readline(_MAX_LINE_BYTES):
            number += 1
            if number == 1:
                raw = raw.removeprefix(_BOM)
            if len(raw) == _MAX_LINE_BYTES and not raw.endswith(b"\n"):
                broken.line(number, name, f"it is longer than {_MAX_LINE_BYTES // 2**20} MiB")
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(_MAX_LINE_BYTES)
                continue
            yield number, raw
    except (EOFError, OSError, zlib.error) as error:
        broken.cut.add(name)
        broken.add(f"{name} is damaged behind line {number:,} ({error}); what comes before is kept.")
