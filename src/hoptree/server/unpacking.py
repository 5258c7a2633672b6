"""Uploaded files on their way to disk: archives are unpacked within bounds, whatever they say of themselves."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from hoptree.server.file_names import check_beside, check_file_name, check_kind
from hoptree.server.limits import Limits
from hoptree.server.refusals import Refusal

__all__ = ["Staging"]

_BLOCK = 2**18
_GZIP = b"\x1f\x8b"
_UNIX = 3


class Staging:
    """A folder that one upload is put into, and counted: files, and bytes once unpacked."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._bytes = 0
        self.names: list[str] = []

    def take(self, name: str, content: BinaryIO) -> None:
        """Put a file there; a .zip is unpacked."""
        check_file_name(name)
        if name.lower().endswith(".zip"):
            self._unpack(content)
        else:
            self._put(name, content)

    def _unpack(self, content: BinaryIO) -> None:
        try:
            with zipfile.ZipFile(content) as archive:
                entries = [entry for entry in archive.infolist() if not entry.is_dir()]
                if len(entries) + len(self.names) > self._limits.files:
                    raise self._too_many()
                for entry in entries:
                    _check_entry(entry)
                    with archive.open(entry) as unpacked:
                        self._put(check_file_name(entry.filename), unpacked)  # type: ignore[arg-type]
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise Refusal(400, "BadArchive", "A .zip file is damaged, or packed in a way not known here.") from error

    def _put(self, name: str, content: BinaryIO) -> None:
        check_kind(name)
        if len(self.names) >= self._limits.files:
            raise self._too_many()
        if name in self.names:
            raise Refusal(400, "TwiceThere", f"'{name[:80]}' was uploaded twice.", "Give each file a name of its own.")
        check_beside(name, self.names)
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            for block in _blocks(content):
                self._count(len(block))
                file.write(block)
        self._check_gzip(path)
        self.names.append(name)

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
                            left, member = member.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)
            except zlib.error as error:
                raise Refusal(400, "BadArchive", "A .gz file is damaged.") from error

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.unpacked:
            raise Refusal(
                413,
                "TooLarge",
                f"Unpacked, the files are larger than the {self._limits.unpacked:,} bytes allowed.",
                "Upload less at once.",
            )

    def _too_many(self) -> Refusal:
        return Refusal(
            413, "TooMany", f"More than {self._limits.files:,} files were uploaded.", "Upload fewer at once."
        )


def _check_entry(entry: zipfile.ZipInfo) -> None:
    if entry.flag_bits & 1:
        raise Refusal(400, "BadArchive", "A .zip file is locked with a password.", "Upload it without one.")
    if entry.create_system == _UNIX and stat.S_ISLNK(entry.external_attr >> 16):
        raise Refusal(400, "BadArchive", "A .zip file holds a link.", "Upload the file it leads to.")


def _blocks(content: BinaryIO) -> Iterator[bytes]:
    while block := content.read(_BLOCK):
        yield block
