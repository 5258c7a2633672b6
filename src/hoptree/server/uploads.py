"""Store uploaded files: check their names, and unpack archives within limits."""

from __future__ import annotations

import os
import stat
import struct
import threading
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO

from hoptree.corpus.files import holds_prose
from hoptree.corpus.kinds import KNOWN_KINDS, suffix_of
from hoptree.server.error_responses import Refusal
from hoptree.server.settings import Limits

_MAX_NAME_BYTES = 200
_MAX_PARTS = 8
_MAX_SHOWN_CHARS = 80
_SPECIAL = '\\:*?"<>|' if os.name == "nt" else "\\"
_JOINERS = "\u200c\u200d"
_TYPES_REMEDY = f"{KNOWN_KINDS} A .zip may hold several."


def check_file_name(name: str) -> None:
    """Refuse a name that may lead outside the folder of uploads, or is not portable."""
    if fault := next(_faults(name), None):
        raise Refusal(400, "BadFileName", *fault)


def is_packer_artifact(name: str) -> bool:
    """Return whether a file in an archive is hidden, or metadata that macOS adds."""
    parts = name.split("/")
    hidden = parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts)
    return hidden and not _leads_elsewhere(name)


def _leads_elsewhere(name: str) -> bool:
    parts = name.removesuffix("\\").replace("\\", "/").split("/")  # old packers of Windows end folders with one
    return any(part in ("", ".", "..") for part in parts)


def printable_name(name: str) -> str:
    """Shorten a name for a message, and escape what cannot be printed."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in name[:_MAX_SHOWN_CHARS])


def _faults(name: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of a name, each with a remedy."""
    shown, parts = f"The file name '{printable_name(name)}'", name.split("/")
    if not name:
        yield "A file has no name.", "Give it one."
    if len(name.encode("utf-8", "replace")) > _MAX_NAME_BYTES:
        yield f"{shown} is longer than {_MAX_NAME_BYTES} bytes.", "Shorten it, with the names of its folders."
    if len(parts) > _MAX_PARTS:
        yield f"{shown} lies in more than {_MAX_PARTS - 1} folders.", "Move it up."
    if any(part in (".", "..") for part in parts):
        yield f"{shown} has a part '.' or '..'.", "Name the file by where it is to lie."
    if "" in parts:
        yield f"{shown} has an empty part.", "Write one / between folders, none before and none after."
    if any(part.startswith(".") for part in parts):
        yield f"{shown} has a part that begins with a dot.", "Hidden files are not taken: rename it."
    if any(part != part.strip() for part in parts):
        yield f"{shown} has a part that begins or ends with a space.", "Take the space out."
    for place, character in enumerate(name):
        if character in _SPECIAL or not _is_visible(name, place):
            what = character if character in _SPECIAL else f"the character U+{ord(character):04X}, which is not seen"
            yield f"{shown} holds {what}.", f"Leave out {' '.join(_SPECIAL)} and characters that cannot be seen."


def _is_visible(name: str, place: int) -> bool:
    """Return whether a character is visible, or joins two that are, as in emoji."""
    if name[place] in _JOINERS:
        around = name[place - 1 : place] + name[place + 1 : place + 2]
        return len(around) == 2 and all(char > "\x7f" and unicodedata.category(char)[0] in "LMS" for char in around)
    return unicodedata.category(name[place])[0] != "C"


class Names(dict[str, None]):
    """The names of files of one corpus, in order, and the folders they are in."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__()
        self._folders: set[str] = set()
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self[name] = None
        self._folders.update(_folders(name))

    def check_beside(self, name: str) -> None:
        """Refuse a name that clashes with these: a file of one is a folder of the other."""
        if name in self._folders or any(folder in self for folder in _folders(name)):
            cause = f"'{printable_name(name)}' is a file and a folder at once."
            raise Refusal(400, "BadFileName", cause, "Rename one of them.")


def _folders(name: str) -> Iterator[str]:
    """Return the folders that a file is in, by their full names."""
    return (name[:place] for place, character in enumerate(name) if character == "/")


_BLOCK_BYTES = 2**18
_GZIP = b"\x1f\x8b"
_UNIX = 3
_LOCKED_FLAG, _UTF8_FLAG = 0x1, 0x800
_STREAMED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression that `zipfile` unpacks in blocks; others may take any amount of memory."""
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""What `zipfile` raises for files that are damaged, or not archives."""
_MAX_ENTRY_BYTES = 1_024  # of a file, and the folders it is in, in the directory of a .zip
_MAX_EXTRA_MEMBERS = 10_000  # of .gz files, beyond one each; tools that write several use about 64 KB each
_MAX_LEFT_OUT = 100
_DAMAGED_REMEDY = "Pack it again, and upload it again."
_ZIP_REMEDY = "Pack it with deflate, or upload the files themselves."
_GZIP_REMEDY = "Pack it again, or upload it as it was."


def too_many_files(limit: int) -> Refusal:
    """Refuse an upload of more than `limit` files."""
    return Refusal(413, "TooMany", f"More than {limit:,} files were uploaded.", "Upload fewer at once.")


class _DamagedZip(Refusal):
    """A .zip, or a file in it, is damaged; it is left out beside intact ones."""

    def __init__(self, shown: str) -> None:
        super().__init__(400, "BadArchive", f"{shown} is damaged, or no .zip file.", _DAMAGED_REMEDY)


class _LockedZip(Refusal):
    """A file in a .zip is locked with a password; it is left out beside others."""

    def __init__(self, shown: str) -> None:
        super().__init__(400, "BadArchive", f"{shown} is locked with a password.", "Upload it without one.")


class UploadFolder:
    """The folder of one upload, filled by one thread; another thread may cancel it."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._bytes = 0
        self._members = 0
        self._given_up = threading.Event()
        self.names = Names()
        self.left_out: list[str] = []
        """Some files not stored: of unknown kind, damaged, or in an archive hidden, locked, a link, or badly named."""
        self.locked: list[str] = []
        """Those of `left_out` that have a password."""
        self._fault: Refusal | None = None  # of the first that is damaged, a link or badly named

    def give_up(self) -> None:
        """Cancel the upload at its next block."""
        self._given_up.set()

    def add(self, name: str, content: BinaryIO) -> None:
        """Store a file, or the files in a .zip."""
        check_file_name(name)
        if not name.lower().endswith(".zip"):
            self._store(name, _blocks(content))
            return
        try:
            self._unpack(name, content)
        except _DamagedZip as fault:
            self._pass_over(name, fault)

    def _unpack(self, name: str, content: BinaryIO) -> None:
        shown = f"'{printable_name(name)}'"
        most, refusal = self._limits.files, too_many_files(self._limits.files)
        bounded = _BoundedFile(content, max(2 * _BLOCK_BYTES, most * _MAX_ENTRY_BYTES), refusal)
        try:
            archive = zipfile.ZipFile(bounded)
        except _ZIP_ERRORS as error:
            raise _DamagedZip(shown) from error
        with archive:
            entries = []
            for entry in archive.infolist():
                entry.filename = _entry_name(entry)
                if is_packer_artifact(entry.filename) and not entry.is_dir():
                    self._leave_out(entry.filename)
                elif not entry.is_dir():
                    entries.append(entry)
            if len(entries) + len(self.names) > most:
                raise refusal
            for entry in entries:
                try:
                    check_file_name(entry.filename)
                    _check_no_link(shown, entry)
                except Refusal as fault:
                    if _leads_elsewhere(entry.filename):
                        raise
                    self._pass_over(entry.filename, fault)
                    continue
                try:
                    _check_packing(shown, entry)
                    self._store(entry.filename, _unpacked(shown, archive, entry))
                except (_DamagedZip, _LockedZip) as fault:
                    self._pass_over(entry.filename, fault)

    def _pass_over(self, name: str, fault: Refusal) -> None:
        self._fault = self._fault or fault
        self._leave_out(name)
        if isinstance(fault, _LockedZip):
            self.locked += self.left_out[-1:]

    def _leave_out(self, name: str) -> None:
        if len(self.left_out) < _MAX_LEFT_OUT:
            end = name if len(name) <= _MAX_SHOWN_CHARS else f"…{name[1 - _MAX_SHOWN_CHARS :]}"
            self.left_out.append(printable_name(end))

    def check_filled(self) -> None:
        """Refuse an upload of which nothing was stored."""
        if self.names:
            return
        if self._fault:
            raise self._fault
        unknown = next((name for name in self.left_out if not is_packer_artifact(name)), "")
        if unknown:
            raise Refusal(415, "UnknownKind", f"'{unknown}' is not a document of a known kind.", _TYPES_REMEDY)
        cause = "Only hidden files were uploaded." if self.left_out else "No file was uploaded."
        raise Refusal(400, "NoFiles", cause, "Send one or more as 'files'.")

    def _store(self, name: str, blocks: Iterable[bytes]) -> None:
        self._check_wanted()
        shown = f"'{printable_name(name)}'"
        first = next(blocks := iter(blocks), b"")
        if not suffix_of(name) and not holds_prose(name, first):  # one picture should not make the upload fail
            self._leave_out(name)
            return
        if len(self.names) >= self._limits.files:
            raise too_many_files(self._limits.files)
        if name in self.names:
            raise Refusal(400, "TwiceThere", f"{shown} was uploaded twice.", "Give each file a name of its own.")
        self.names.check_beside(name)
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                for block in chain((first,), blocks):
                    self._count(len(block))
                    file.write(block)
        except _DamagedZip:
            path.unlink()
            raise
        self._check_gzip(path)
        self.names.add(name)

    def _check_gzip(self, path: Path) -> None:
        """Count the unpacked bytes of a file in gzip format, under any name."""
        with path.open("rb") as file:
            if file.read(2) != _GZIP:
                return
            file.seek(0)
            member = zlib.decompressobj(wbits=31)
            with suppress(zlib.error):  # the reader reports damage
                for block in _blocks(file):
                    left = block
                    while left:
                        self._count(len(member.decompress(left, _BLOCK_BYTES)))
                        left = member.unconsumed_tail
                        if member.eof:
                            self._members += 1  # bounded, as even empty members take time
                            if self._members > self._limits.files + _MAX_EXTRA_MEMBERS:
                                cause = f"A .gz file has more than {_MAX_EXTRA_MEMBERS:,} pieces."
                                raise Refusal(413, "TooMany", cause, _GZIP_REMEDY)
                            left, member = member.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)

    def _check_wanted(self) -> None:
        if self._given_up.is_set():
            raise Refusal(503, "GivenUp", "The upload was given up.", "Send it again.")

    def _count(self, size: int) -> None:
        self._check_wanted()
        self._bytes += size
        if self._bytes > self._limits.unpacked:
            cause = f"Unpacked, the files are larger than the {self._limits.unpacked:,} bytes allowed."
            raise Refusal(413, "TooLarge", cause, "Upload less at once.")


class _BoundedFile:
    """A file that refuses to read more than `max_bytes` at once.

    `zipfile` reads the directory of a .zip in one piece, and the number of entries that an archive states may be wrong.
    """

    def __init__(self, file: BinaryIO, max_bytes: int, refusal: Refusal) -> None:
        self._file, self._max_bytes, self._refusal = file, max_bytes, refusal
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self._max_bytes:
            raise self._refusal
        return self._file.read(self._max_bytes if size < 0 else size)


def _entry_name(entry: zipfile.ZipInfo) -> str:
    """Return the name of a file in an archive; not all packers flag its encoding."""
    if entry.flag_bits & _UTF8_FLAG or entry.filename != entry.orig_filename:
        return entry.filename
    written = entry.filename.encode("cp437")
    with suppress(UnicodeDecodeError):
        return written.decode("utf-8")
    with suppress(UnicodeDecodeError):
        if _is_common_chinese(name := written.decode("gb18030")):
            return name
    return entry.filename


def _is_common_chinese(name: str) -> bool:
    """Return whether most characters beyond ASCII are Chinese ones in common use.

    GB18030 reads the letter ü of old Windows, and the letter after it, as a rare one.
    """
    beyond = [character for character in name if not character.isascii()]
    common = [character for character in beyond if "一" <= character <= "鿿" and character.encode("gb2312", "ignore")]
    return 2 * len(common) > len(beyond)


def _check_packing(shown: str, entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & _LOCKED_FLAG:
        raise _LockedZip(shown)
    if entry.compress_type not in _STREAMED:
        raise Refusal(400, "BadArchive", f"{shown} is packed in a way that is not taken here.", _ZIP_REMEDY)


def _check_no_link(shown: str, entry: zipfile.ZipInfo) -> None:
    if entry.create_system == _UNIX and stat.S_ISLNK(entry.external_attr >> 16):
        raise Refusal(400, "BadArchive", f"{shown} holds a link.", "Upload the file it leads to.")


def _unpacked(shown: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the content of a file in an archive; translate errors of the archive."""
    try:
        with archive.open(entry) as member:
            yield from _blocks(member)
    except _ZIP_ERRORS as error:
        raise _DamagedZip(shown) from error


def _blocks(content: IO[bytes]) -> Iterator[bytes]:
    while block := content.read(_BLOCK_BYTES):
        yield block
