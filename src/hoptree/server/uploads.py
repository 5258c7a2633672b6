"""Uploaded files on their way to disk: archives are unpacked within bounds, whatever they say of themselves."""

from __future__ import annotations

import stat
import struct
import threading
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from hoptree.corpus.files import SUFFIXES, suffix_of
from hoptree.server.error_responses import Refusal
from hoptree.server.limits import Limits

_LONGEST = 200
_DEEPEST = 8
_SHOWN = 80
_SPECIAL = '\\:*?"<>|'
_JOINERS = "\u200c\u200d"
_KINDS = f"Documents end in {', '.join(SUFFIXES)}; all but .pdf may be packed with gzip (.gz), several with .zip."


def check_file_name(name: str) -> str:
    """The name, with / between folders, if it leads nowhere but below the folder it is put into.

    Nothing is mended: what tries to lead elsewhere, or would be read in different ways, is refused.
    """
    if fault := next(_faults(name), None):
        raise Refusal(400, "BadFileName", *fault)
    return name


def is_packer_artifact(name: str) -> bool:
    """Whether a file in an archive is none that somebody put there: hidden, or the twin that macOS makes of each."""
    parts = name.split("/")
    leads_elsewhere = "\\" in name or any(part in ("", ".", "..") for part in parts)
    return not leads_elsewhere and (parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts))


def printable_name(name: str) -> str:
    """A name as it can be told: short, and with what cannot be seen written out."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in name[:_SHOWN])


def _faults(name: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a name, and what to do about it."""
    told, parts = f"The file name '{printable_name(name)}'", name.split("/")
    if not name:
        yield "A file has no name.", "Give it one."
    if len(name.encode("utf-8", "replace")) > _LONGEST:
        yield f"{told} is longer than {_LONGEST} bytes.", "Shorten it, with the names of its folders."
    if len(parts) > _DEEPEST:
        yield f"{told} lies in more than {_DEEPEST - 1} folders.", "Move it up."
    if any(part in (".", "..") for part in parts):
        yield f"{told} has a part '.' or '..'.", "Name the file by where it is to lie."
    if "" in parts:
        yield f"{told} has an empty part.", "Write one / between folders, none before and none after."
    if any(part.startswith(".") for part in parts):
        yield f"{told} has a part that begins with a dot.", "Hidden files are not taken: rename it."
    if any(part != part.strip() for part in parts):
        yield f"{told} has a part that begins or ends with a space.", "Take the space out."
    for place, character in enumerate(name):
        if character in _SPECIAL or not _is_seen(name, place):
            what = character if character in _SPECIAL else f"the character U+{ord(character):04X}, which is not seen"
            yield f"{told} holds {what}.", f"Leave out {' '.join(_SPECIAL)} and characters that cannot be seen."


def _is_seen(name: str, place: int) -> bool:
    """Whether a character shows, or joins two that do, as in Persian words and in pictures of several signs.

    Beside plain letters a joiner would do nothing but make two names look alike.
    """
    if name[place] in _JOINERS:
        around = name[place - 1 : place] + name[place + 1 : place + 2]
        return len(around) == 2 and all(one > "\x7f" and unicodedata.category(one)[0] in "LMS" for one in around)
    return unicodedata.category(name[place])[0] != "C"


class Names:
    """The names of files that lie together, in their order, and the folders that they lie in."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._files: dict[str, None] = {}
        self._folders: set[str] = set()
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def add(self, name: str) -> None:
        self._files[name] = None
        self._folders.update(_folders(name))

    def check_beside(self, name: str) -> None:
        """Refuse a file that would have to be a folder as well, beside these."""
        if name in self._folders or any(folder in self._files for folder in _folders(name)):
            raise Refusal(
                400, "BadFileName", f"'{printable_name(name)}' is a file and a folder at once.", "Rename one of them."
            )


def _folders(name: str) -> Iterator[str]:
    """The folders that a file lies in, each with those above it."""
    return (name[:place] for place, character in enumerate(name) if character == "/")


def check_kind(name: str) -> str:
    """The name, if a file called so can be read."""
    if not suffix_of(name):
        raise Refusal(415, "UnknownKind", f"'{printable_name(name)}' is no document of a known kind.", _KINDS)
    return name


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
        if not is_packer_artifact(name):
            return True
        if len(self.left_out) < _LEFT_OUT:
            self.left_out.append(printable_name(name))
        return False

    def _put(self, name: str, blocks: Iterable[bytes]) -> None:
        self._go_on()
        check_kind(name)
        if len(self.names) >= self._limits.files:
            raise self._too_many()
        if name in self.names:
            raise Refusal(
                400, "TwiceThere", f"'{printable_name(name)}' was uploaded twice.", "Give each file a name of its own."
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
