"""Uploaded files on their way to disk: archives are unpacked within bounds, whatever they say of themselves."""

from __future__ import annotations

import stat
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from hoptree.server.file_names import Names, check_file_name, check_kind, is_added_by_packers, shown
from hoptree.server.limits import Limits
from hoptree.server.refusals import Refusal

__all__ = ["Staging", "too_many_files"]

_BLOCK = 2**18
_GZIP = b"\x1f\x8b"
_UNIX = 3
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The ways of packing that `zipfile` unpacks block by block; of others it makes all at once, whatever that takes."""
_BROKEN = (
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
"""What `zipfile` is known to raise over files that are none, or damaged."""
_ENTRY = 1_024
"""Bytes that a file may take in the directory of a .zip, with the folders it lies in."""
_MEMBERS = 10_000
"""Pieces that packed files may have beyond one each; tools that pack in pieces make them of some 64 KB."""
_LEFT_OUT = 100
_PACK_AGAIN = "Pack it with deflate, or upload the files themselves."


def too_many_files(most: int) -> Refusal:
    """What is said of an upload of more than `most` files."""
    return Refusal(413, "TooMany", f"More than {most:,} files were uploaded.", "Upload fewer at once.")


class Staging:
    """A folder that one upload is put into, and counted: files, and bytes once unpacked.

    It is filled by a thread, and another one may give it up.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._bytes = 0
        self._members = 0
        self._given_up = threading.Event()
        self.names = Names()
        self.left_out: list[str] = []
        """What lay in archives and was not taken, up to a bound."""

    def give_up(self) -> None:
        """Nobody waits for it any more: the next block ends it."""
        self._given_up.set()

    def take(self, name: str, content: BinaryIO) -> None:
        """Put a file there; a .zip is unpacked."""
        check_file_name(name)
        if name.lower().endswith(".zip"):
            self._unpack(content)
        else:
            self._put(name, _blocks(content))

    def _unpack(self, content: BinaryIO) -> None:
        bounded = _Bounded(content, max(2 * _BLOCK, self._limits.files * _ENTRY), self._too_many())
        try:
            archive = zipfile.ZipFile(bounded)
        except _BROKEN as error:
            raise _bad_zip() from error
        with archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir() and self._is_taken(entry.filename)]
            if len(entries) + len(self.names) > self._limits.files:
                raise self._too_many()
            for entry in entries:
                _check_entry(entry)
                self._put(check_file_name(entry.filename), _unpacked(archive, entry))

    def _is_taken(self, name: str) -> bool:
        if not is_added_by_packers(name):
            return True
        if len(self.left_out) < _LEFT_OUT:
            self.left_out.append(shown(name))
        return False

    def _put(self, name: str, blocks: Iterable[bytes]) -> None:
        self._go_on()
        check_kind(name)
        if len(self.names) >= self._limits.files:
            raise self._too_many()
        if name in self.names:
            raise Refusal(
                400, "TwiceThere", f"'{shown(name)}' was uploaded twice.", "Give each file a name of its own."
            )
        self.names.check_beside(name)
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            for block in blocks:
                self._count(len(block))
                file.write(block)
        self._check_gzip(path)
        self.names.add(name)

    def _check_gzip(self, path: Path) -> None:
        """Count what is inside of a packed file, without keeping it: readers unpack by its first bytes."""
        with path.open("rb") as file:
            if file.read(2) != _GZIP:
                return
            file.seek(0)
            member = zlib.decompressobj(wbits=31)
            try:
                for block in _blocks(file):
                    left = block
                    while left:
                        self._count(len(member.decompress(left, _BLOCK)))
                        left = member.unconsumed_tail
                        if member.eof:
                            self._count_member()
                            left, member = member.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)
            except zlib.error as error:
                raise Refusal(
                    400, "BadArchive", "A .gz file is damaged.", "Pack it again, or upload it as it was."
                ) from error

    def _count_member(self) -> None:
        """Pieces cost time even where nothing is in them."""
        self._members += 1
        if self._members > self._limits.files + _MEMBERS:
            raise Refusal(
                413,
                "TooMany",
                f"A .gz file has more than {_MEMBERS:,} pieces.",
                "Pack it again, or upload it as it was.",
            )

    def _go_on(self) -> None:
        if self._given_up.is_set():
            raise Refusal(503, "GivenUp", "The upload was given up.", "Send it again.")

    def _count(self, size: int) -> None:
        self._go_on()
        self._bytes += size
        if self._bytes > self._limits.unpacked:
            raise Refusal(
                413,
                "TooLarge",
                f"Unpacked, the files are larger than the {self._limits.unpacked:,} bytes allowed.",
                "Upload less at once.",
            )

    def _too_many(self) -> Refusal:
        return too_many_files(self._limits.files)


class _Bounded:
    """A file that gives at most so many bytes at once.

    The directory of a .zip is the one part of it that is read as a whole, and before its entries are counted; what an
    archive says of their number need not be so.
    """

    def __init__(self, file: BinaryIO, most: int, refusal: Refusal) -> None:
        self._file, self._most, self._refusal = file, most, refusal
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > self._most:
            raise self._refusal
        return self._file.read(self._most if size < 0 else size)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & 1:
        raise Refusal(400, "BadArchive", "A .zip file is locked with a password.", "Upload it without one.")
    if entry.create_system == _UNIX and stat.S_ISLNK(entry.external_attr >> 16):
        raise Refusal(400, "BadArchive", "A .zip file holds a link.", "Upload the file it leads to.")
    if entry.compress_type not in _BOUNDED:
        raise Refusal(400, "BadArchive", "A .zip file is packed in a way that is not taken here.", _PACK_AGAIN)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """What a file in an archive holds; where that cannot be had, the archive is at fault, not who keeps the blocks."""
    try:
        with archive.open(entry) as member:
            yield from _blocks(member)
    except _BROKEN as error:
        raise _bad_zip() from error


def _bad_zip() -> Refusal:
    return Refusal(400, "BadArchive", "A .zip file is damaged, or none.", _PACK_AGAIN)


def _blocks(content: IO[bytes]) -> Iterator[bytes]:
    while block := content.read(_BLOCK):
        yield block
