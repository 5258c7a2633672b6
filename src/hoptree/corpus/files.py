"""The files of a corpus: finding them below a folder, and reading their bytes and text."""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from hoptree.core.errors import CorpusError
from hoptree.corpus.document import Document, Problems

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


SUFFIXES = (".txt", ".md", ".markdown", ".html", ".htm", ".xhtml", ".pdf", ".jsonl", ".ndjson", ".json", ".tsv")
_INDEX_MANIFEST = "hoptree-index.json"
_BEIR_CORPUS, _BEIR_QUESTIONS = (
    tuple(f"{name}.jsonl{packed}" for packed in ("", ".gz")) for name in ("corpus", "queries")
)
_KNOWN_KINDS = f"Documents end in {', '.join(SUFFIXES)}; all but .pdf may be packed with gzip (.gz)."


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a corpus; `name` is its path below the corpus folder, with / between the parts."""

    path: Path
    name: str
    size: int
    modified_ns: int


def suffix_of(name: str) -> str:
    """Return the suffix that says how to read a file (".jsonl" for "a.JSONL.gz"), or "" if it is of no known kind."""
    suffix = os.path.splitext(name.lower().removesuffix(".gz"))[1]  # noqa: PTH122 - a name, not a path
    return "" if suffix not in SUFFIXES or (suffix == ".pdf" and name.lower().endswith(".gz")) else suffix


def find_files(
    source: Path, *, problems: Problems | None = None, may_be_empty: bool = False, never: Path | None = None
) -> Iterator[SourceFile]:
    """Yield the readable files of a folder in the order of their names, or the one file that `source` is.

    Hidden files, files of other kinds, pipes, sockets and devices, the questions of a BEIR folder and index folders
    are left out. It is an error if nothing is left, unless the folder `may_be_empty`. Links to folders are not
    followed, and links to files only inside of the corpus. `never` is a folder to leave out, such as the new index.
    """
    problems = problems or Problems()
    try:
        status = source.stat()
    except PermissionError as error:
        raise CorpusError(f"{source} cannot be reached: {error.strerror}.", "Allow reading it.") from error
    except (OSError, ValueError) as error:
        why = f"There is no {'reading ' if os.path.lexists(source) else ''}{source}."
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            why = f"{source} is a link that leads in a circle."
        raise CorpusError(why, "Give a folder or a file with documents.") from error
    if stat.S_ISREG(status.st_mode):
        if not suffix_of(source.name):
            raise CorpusError(f"{source} is no document of a known kind.", _KNOWN_KINDS)
        yield SourceFile(source, _name(source.name), status.st_size, status.st_mtime_ns)
        return
    if not stat.S_ISDIR(status.st_mode):
        cause = f"{source} is {_special(status.st_mode)} and no document."
        raise CorpusError(cause, "Write what comes from there to a file, and give that.")
    if os.path.lexists(source / _INDEX_MANIFEST):
        raise CorpusError(f"{source} is an index and no document.", "Give the folder or file it was made from.")
    empty, noted = True, len(problems.notes)
    for file in _walk(source.resolve(), problems, str(never.resolve()) if never else ""):
        empty = False
        yield file
    if empty and not may_be_empty:
        why = "".join(f" ({note.removesuffix('.')})" for note in problems.notes[noted : noted + 1])
        raise CorpusError(f"{source} holds no document{why}.", _KNOWN_KINDS)


def _special(mode: int) -> str:
    """Name the kind of a file whose reading may never end, or never begin."""
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _walk(root: Path, problems: Problems, never: str) -> Iterator[SourceFile]:
    """Walk depth first with a stack of its own, so that no nesting is too deep; one folder is in memory at a time."""
    stack = [("", _entries(root, "", problems))]
    while stack:
        above, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        name = above + entry.name
        if entry.path == never:
            continue
        try:
            if entry.is_symlink() and not _leads_to_file_inside(entry.path, root):
                problems.note("links not followed", f"{_name(name)} is a link that is not followed.")
            elif entry.is_dir():
                stack.append((f"{name}/", _entries(Path(entry.path), name, problems)))
            elif not entry.is_file():
                sentence = f"{_name(name)} is {_special(entry.stat().st_mode)} and not read."
                problems.note("pipes, sockets and devices", sentence)
            elif not suffix_of(entry.name):
                problems.note("files of an unknown kind", f"{_name(name)} is no document of a known kind.")
            else:
                status = entry.stat()
                yield SourceFile(Path(entry.path), _name(name), status.st_size, status.st_mtime_ns)
        except OSError as error:
            problems.unlisted.append(_name(name))
            problems.add("unreadable files", f"{_name(name)} cannot be read: {error.strerror}.")


def _entries(folder: Path, name: str, problems: Problems) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: (entry.name.startswith("."), entry.name))
    except OSError as error:
        if not name:  # an update would take an unreadable corpus for one that is gone
            raise CorpusError(f"{folder} cannot be read: {error.strerror}.", "Allow reading it.") from error
        problems.unlisted.append(_name(name))
        problems.add("unreadable files", f"The folder {_name(name)} cannot be read: {error.strerror}.")
        return
    if any(entry.name == _INDEX_MANIFEST for entry in entries):
        problems.note("indexes", f"{_name(name)} is an index and not read.")
        return
    corpus = next((entry.name for entry in entries if entry.name in _BEIR_CORPUS), "")
    for entry in entries:
        shown = _name(f"{name}/{entry.name}".removeprefix("/"))
        if entry.name.startswith("."):
            problems.note("hidden files and folders", f"{shown} is hidden and not read.")
        elif corpus and entry.name in _BEIR_QUESTIONS:
            problems.note("files of questions", f"{shown} holds the questions to {corpus} and is not read.")
        else:
            yield entry


def _leads_to_file_inside(path: str, root: Path) -> bool:
    try:
        target = Path(os.path.realpath(path, strict=True))  # a loop is an error here
        return target.is_relative_to(root) and target.is_file()
    except OSError:
        return False


def _name(path: str) -> str:
    """Return the name with bytes that are no UTF-8 spelled out, so that it can be stored anywhere."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_READ_BYTES = 2**20
_GZIP_READ_BYTES = 2**11
"""Small, as the block in which a file turns out to be garbled is lost."""
_GZIP_MAGIC = b"\x1f\x8b"
_MAX_DOCUMENT_BYTES = 128 * 2**20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Damaged(OSError):
    """A gzip file that ends too early or is garbled; what came before has been returned."""


@contextmanager
def open_bytes(path: Path, on_bytes: Callable[[int], None] | None = None) -> Iterator[io.BufferedReader]:
    """Open a file, unpacked if it is gzip; `on_bytes` is called with the number of bytes read."""
    with path.open("rb", buffering=0) as raw:
        stream: io.BufferedReader = io.BufferedReader(CountedFile(raw, on_bytes), _READ_BYTES)
        yield io.BufferedReader(_Unpacked(stream), _READ_BYTES) if stream.peek(2)[:2] == _GZIP_MAGIC else stream


class CountedFile(io.RawIOBase):
    """A raw file that reports how many of its bytes were read."""

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
    """Unpacks a gzip file of one or more members.

    `gzip.GzipFile` drops up to a block of sound content before the place where a file breaks; this does not.
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
                self._left = self._packed.read(_GZIP_READ_BYTES)
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
    """Return the encoding a byte order mark names, or ""."""
    return next((encoding for mark, encoding in _BOMS if head.startswith(mark)), "")


def is_binary(head: bytes, name: str, problems: Problems) -> bool:
    """Report a file with too many NULs for text; nothing but NULs is an empty text."""
    binary = not bom_encoding(head) and head.count(0) * 10 > len(head) and bool(head.strip(b"\0 \t\r\n"))
    if binary:
        problems.add("files that are no text", f"{name} is no text: it is binary.")
    return binary


def read_all(stream: io.BufferedReader, name: str, problems: Problems) -> bytes | None:
    """Read a file, up to the place where it is damaged; None if it is too large for a document."""
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := stream.read1(_READ_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_DOCUMENT_BYTES:
                limit = f"{_MAX_DOCUMENT_BYTES // 2**20} MiB"
                problems.add("oversized lines or files", f"{name} is larger than {limit}, too long for one document.")
                return None
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    return b"".join(pieces)


def read_text(stream: io.BufferedReader, name: str, problems: Problems) -> str | None:
    """Read the text of a file with line ends as \\n and NULs as spaces; None if it is no text."""
    content = read_all(stream, name, problems)
    if content is None or is_binary(content[:8192], name, problems):
        return None
    try:
        text = content.decode(bom_encoding(content[:4]) or "utf-8")
    except UnicodeDecodeError as error:
        problems.add("files that are no text", f"{name} is no UTF-8 text: {error.reason} at byte {error.start}.")
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def read_text_file(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read a file as one document that is named after it."""
    text = read_text(stream, name, problems)
    if text is not None:
        yield Document(name, stem(name), text)


def stem(name: str) -> str:
    """Return the name of a file without folders and suffixes."""
    base = PurePosixPath(name).name
    return PurePosixPath(base[:-3] if base.lower().endswith(".gz") else base).stem
