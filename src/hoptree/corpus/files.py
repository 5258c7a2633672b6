"""Find the files of a corpus, and read their bytes and text."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from hoptree.core.errors import CorpusError
from hoptree.corpus.document import MAX_DOCUMENT_BYTES, Document, Problems, join_wrapped
from hoptree.corpus.kinds import KNOWN_KINDS, NO_PROSE, SUFFIXES, suffix_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_INDEX_MANIFEST = "hoptree-index.json"
_BEIR_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
_BEIR_QUESTIONS = ("queries.jsonl", "queries.jsonl.gz", "qrels")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a corpus; `name` is its path below the corpus folder."""

    path: Path
    name: str
    size: int
    modified_ns: int


def find_files(
    source: Path, *, problems: Problems | None = None, may_be_empty: bool = False, never: Path | None = None
) -> Iterator[SourceFile]:
    """Yield the readable files of a folder sorted by name, or the one file.

    Left out are hidden files, files of unknown kinds, pipes, sockets, devices, the questions of a BEIR folder, index
    folders and the folder `never`. Links to folders are not followed, and links to files only within the corpus. It is
    an error if no file is left, unless the folder `may_be_empty`.
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
        if not is_document(source):
            raise CorpusError(f"{source} is not a document of a known kind.", KNOWN_KINDS)
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
        raise CorpusError(f"{source} holds no document{why}.", KNOWN_KINDS)


def _special(mode: int) -> str:
    """Return what kind of special file it is; reading one may never end."""
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _walk(root: Path, problems: Problems, never: str) -> Iterator[SourceFile]:
    """Yield the files below a folder; no nesting is too deep for the stack."""
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
                problems.note("links not followed", f"{_name(name)} is a link that is not followed.", _name(name))
            elif entry.is_dir():
                stack.append((f"{name}/", _entries(Path(entry.path), name, problems)))
            elif not entry.is_file():
                sentence = f"{_name(name)} is {_special(entry.stat().st_mode)} and not read."
                problems.note("pipes, sockets and devices", sentence, _name(name))
            elif not is_document(Path(entry.path)):
                sentence = f"{_name(name)} is not a document of a known kind."
                problems.note("files of an unknown kind", sentence, _name(name))
            else:
                status = entry.stat()
                yield SourceFile(Path(entry.path), _name(name), status.st_size, status.st_mtime_ns)
        except OSError as error:
            problems.unlisted.append(_name(name))
            problems.add("unreadable files", f"{_name(name)} cannot be read: {error.strerror}.")


def is_document(path: Path) -> bool:
    """Return whether a file can be read: by its suffix, or else because it holds text."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((*SUFFIXES, *NO_PROSE)):
        return name.endswith(SUFFIXES)
    try:
        with open_bytes(path, buffer_bytes=_HEAD_BYTES) as stream:
            head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    except Damaged:
        return bool(suffix_of(path.name))  # reading it reports the damage
    if suffix_of(path.name):
        return not head or bool(_encoding_of(head))
    return holds_prose(path.name, head)


def holds_prose(name: str, head: bytes) -> bool:
    """Return whether a file with an unknown suffix begins like a text for people."""
    encoding = _encoding_of(head)
    if not head or not encoding or name.lower().removesuffix(".gz").endswith(NO_PROSE):
        return False
    if (0 in head and not encoding.startswith("utf-16")) or _NOT_PROSE.match(head):
        return False
    return len(head) < _MIN_PACKED_CHARS or len(head) <= _PACKED_LINE_CHARS * (head.count(b"\n") + 1)


def _encoding_of(head: bytes) -> str:
    """Return the encoding of the lines that a file begins with; "" if binary."""
    end = head.rfind(b"\n") + 1 or len(head)
    return decode(head[: end + head.startswith(b"\0", end)])[1]  # a line of UTF-16 may end with a zero


def _entries(folder: Path, name: str, problems: Problems) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: (entry.name.startswith("."), entry.name))
    except OSError as error:
        if not name:  # else an update would remove an unreadable corpus from the index
            raise CorpusError(f"{folder} cannot be read: {error.strerror}.", "Allow reading it.") from error
        problems.unlisted.append(_name(name))
        problems.add("unreadable files", f"The folder {_name(name)} cannot be read: {error.strerror}.")
        return
    if any(entry.name == _INDEX_MANIFEST for entry in entries):
        problems.note("indexes", f"{_name(name)} is an index and not read.", _name(name))
        return
    corpus = next((entry.name for entry in entries if entry.name in _BEIR_CORPUS), "")
    for entry in entries:
        shown = _name(f"{name}/{entry.name}".removeprefix("/"))
        if entry.name.startswith("."):
            problems.note("hidden files and folders", f"{shown} is hidden and not read.", shown)
        elif corpus and entry.name in _BEIR_QUESTIONS:
            problems.note("files of questions", f"{shown} holds the questions to {corpus} and is not read.", shown)
        else:
            yield entry


def _leads_to_file_inside(path: str, root: Path) -> bool:
    try:
        target = Path(os.path.realpath(path, strict=True))  # a loop is an error here
        return target.is_relative_to(root) and target.is_file()
    except OSError:
        return False


def _name(path: str) -> str:
    """Return a name that can be shown: bytes that are not UTF-8 become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_READ_BYTES = 2**20
_GZIP_READ_BYTES = 2**11  # small, as the block with the damage is lost
_GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 8192
LATIN = "Latin-1"
DAMAGED_UTF8 = "UTF-8 with damaged characters"
GUESSES = (LATIN, DAMAGED_UTF8, "gb18030", "euc_jp", "euc_kr")
"""The encodings of texts that are neither valid UTF-8 nor UTF-16."""
_REPLACEMENT, _MIN_CHARS_PER_DAMAGED = "\ufffd", 5  # of the characters beyond ASCII
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
_MIN_HIGH_BYTES, _MIN_HIGH_SHARE = 16, 0.1
_MIN_PAIRED_SHARE, _MIN_KANA_SHARE, _MIN_HANGUL_SHARE = 0.9, 0.2, 0.9
_MAX_CONTROL_SHARE = 0.01
_MIN_PACKED_CHARS, _PACKED_LINE_CHARS = 4_000, 500
"""The length, and the average length of lines, from which on a script counts as packed."""
_OVERSTRIKES = re.compile(r"[^\n]?\x08|\x1b\[[0-9;?]{0,20}[A-Za-z]")
"""Letters that are typed over, as for bold print, and colours of a terminal."""
_NOT_PROSE = re.compile(rb"\s*(?:<|%!|%PDF|\{\\rtf|-----BEGIN|// <!--)")
"""The beginning of markup, PostScript, keys, and indexes of mail folders."""
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n\v\f\r\x1b\0"))
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Damaged(OSError):
    """A gzip file is damaged; all content before the damage has been returned."""


@contextmanager
def open_bytes(
    path: Path, on_bytes: Callable[[int], None] | None = None, *, buffer_bytes: int = _READ_BYTES
) -> Iterator[io.BufferedReader]:
    """Open a file, unpacking gzip; `on_bytes` gets the number of bytes read so far."""
    with path.open("rb", buffering=0) as raw:
        stream: io.BufferedReader = io.BufferedReader(CountedFile(raw, on_bytes), buffer_bytes)
        yield io.BufferedReader(_Unpacked(stream), buffer_bytes) if stream.peek(2)[:2] == _GZIP_MAGIC else stream


class CountedFile(io.RawIOBase):
    """A raw file that passes the number of bytes read so far to `on_bytes`."""

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

    Unlike `gzip.GzipFile`, it does not drop up to a block of intact content before damage.
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
    """Return the encoding of a byte order mark, or ""."""
    return next((encoding for mark, encoding in _BOMS if head.startswith(mark)), "")


def decode(content: bytes) -> tuple[str, str]:
    """Return a text and its encoding; both are "" for binary content.

    UTF-8 may have a few damaged bytes. Other texts without control characters are Chinese, Japanese or Korean if bytes
    above 127 come in pairs, else Latin-1 in the variant of Windows (cp1252).
    """
    head = content[:_HEAD_BYTES]
    encoding = bom_encoding(head) or _utf16_without_mark(head) or "utf-8"
    if encoding == "utf-8" and _has_many_nulls(head):
        return "", ""
    try:
        return content.decode(encoding), encoding
    except UnicodeDecodeError:
        controls = len(head) - len(head.translate(None, _CONTROLS)) + head.count(0)
        if encoding != "utf-8" or controls > len(head) * _MAX_CONTROL_SHARE:
            return "", ""
    text = content.decode(encoding, "replace")
    if text.count(_REPLACEMENT) * _MIN_CHARS_PER_DAMAGED < len(text) - len(text.encode("ascii", "ignore")):
        return text, DAMAGED_UTF8
    if guess := _paired_encoding(head):
        with suppress(UnicodeDecodeError):
            return content.decode(guess), guess
    return content.decode("cp1252", "replace"), LATIN


def _paired_encoding(head: bytes) -> str:
    """Return the encoding of a Chinese, Japanese or Korean text, or "" for others."""
    runs = _HIGH_BYTES.findall(head)
    if sum(map(len, runs)) < max(_MIN_HIGH_BYTES, len(head) * _MIN_HIGH_SHARE):  # as in "Größe"
        return ""
    if sum(len(run) % 2 == 0 for run in runs) < len(runs) * _MIN_PAIRED_SHARE:
        return ""
    leads = [lead for run in runs for lead in run[::2]]
    if sum(lead in (0xA4, 0xA5) for lead in leads) > len(leads) * _MIN_KANA_SHARE:
        return "euc_jp"
    return "euc_kr" if sum(0xB0 <= lead <= 0xC8 for lead in leads) > len(leads) * _MIN_HANGUL_SHARE else "gb18030"


def _utf16_without_mark(head: bytes) -> str:
    """Return the encoding of a text in which nearly every second byte is null, or ""."""
    half = len(head) // 2
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[first : 2 * half : 2].count(0), head[1 - first : 2 * half : 2].count(0)
        if half >= 8 and zeros > half * 0.7 and not others:
            return encoding
    return ""


def _has_many_nulls(head: bytes) -> bool:
    """Return whether content has too many null bytes for a text, and is not empty."""
    return head.count(0) * 10 > len(head) and bool(head.strip(b"\0 \t\r\n"))


def is_binary(stream: io.BufferedReader, name: str, problems: Problems) -> bool:
    """Return whether a file is not text, and report it."""
    head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    binary = not bom_encoding(head) and _has_many_nulls(head)
    if binary:
        problems.add("files that are not text", f"{name} is not text: it is binary.")
    return binary


def read_all(stream: io.BufferedReader, name: str, problems: Problems) -> bytes | None:
    """Return the content of a file, up to any damage; None if it is too large."""
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := stream.read1(_READ_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_DOCUMENT_BYTES:
                limit = f"{MAX_DOCUMENT_BYTES // 2**20} MiB"
                problems.add("oversized lines or files", f"{name} is larger than {limit}, too long for one document.")
                return None
    except Damaged as error:
        problems.add("damaged archives", f"{name} is damaged: {error}; what came before is kept.", cuts=True)
    return b"".join(pieces)


def read_text(stream: io.BufferedReader, name: str, problems: Problems) -> str | None:
    """Return the text of a file; None if it is binary or too large."""
    content = read_all(stream, name, problems)
    if content is None:
        return None
    text, encoding = decode(content)
    if not encoding:
        problems.add("files that are not text", f"{name} is not text: it is binary.")
        return None
    if encoding in GUESSES:
        problems.note("texts that are not UTF-8", f"{name} is no UTF-8 text and was read as {encoding}.")
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    return _OVERSTRIKES.sub("", text) if "\b" in text or "\x1b" in text else text


Reader = Callable[[io.BufferedReader, str, Problems], Iterator[Document]]


def text_reader(make: Callable[[str, str], Document]) -> Reader:
    """Return a reader of files whose text makes one document."""

    def read(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
        text = read_text(stream, name, problems)
        if text is not None:
            yield make(text, name)

    return read


def text_document(text: str, name: str) -> Document:
    """Make a document of a text as it is, titled by the name of its file."""
    base = PurePosixPath(name).name
    return Document(name, stem(name) if suffix_of(name) == ".txt" else base.removesuffix(".gz"), join_wrapped(text))


read_text_file = text_reader(text_document)


def read_script(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read a script as text; skip one that was packed into long lines."""
    text = read_text(stream, name, problems)
    if text and len(text) > _MIN_PACKED_CHARS and len(text) > _PACKED_LINE_CHARS * (text.count("\n") + 1):
        problems.note("packed scripts", f"{name} is a packed script, not text.", name)
    elif text is not None:
        yield text_document(text, name)


def stem(name: str) -> str:
    """Return the name of a file without folders and suffixes."""
    base = PurePosixPath(name).name
    return PurePosixPath(base[:-3] if base.lower().endswith(".gz") else base).stem
