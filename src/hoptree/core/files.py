"""User folders, atomic writes, locks, JSON Lines files, and hoptree-weights."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import importlib.util
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.lazy import lazy_re

if TYPE_CHECKING:
    import filelock
    from _typeshed import DataclassInstance


def cache_dir() -> Path:
    """Return the user's cache folder, $XDG_CACHE_HOME/hoptree, or the system's."""
    return _user_folder("cache", ".cache")


def config_dir() -> Path:
    """Return the user's settings folder, $XDG_CONFIG_HOME/hoptree, or the system's."""
    return _user_folder("config", ".config")


def data_dir() -> Path:
    """Return the user's data folder, $XDG_DATA_HOME/hoptree, or the system's."""
    return _user_folder("data", ".local/share")


def _user_folder(kind: str, on_linux: str) -> Path:
    chosen = os.environ.get(f"XDG_{kind.upper()}_HOME", "").strip()
    if sys.platform == "linux" or (chosen and kind == "config"):  # importing platformdirs takes 5 % of the start-up
        return (Path(chosen) if chosen else Path.home() / on_linux) / "hoptree"
    import platformdirs

    return Path(getattr(platformdirs, f"user_{kind}_path")("hoptree", None if kind == "config" else False))


def atomic_write(path: Path, lines: Iterable[str], *, mode: int = 0o666) -> None:
    """Replace a text file in one step; until then its content is in NAME.new.

    `mode` holds the permissions of the new file, as far as the umask allows them.
    """
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # a leftover of an interrupted write would keep its own mode
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


class FolderLock:
    """The exclusive right to change a folder; the system releases it at process end.

    `busy` is the error to raise when another process holds it.
    """

    NAME = "write.lock"

    def __init__(self, folder: Path, busy: type[HoptreeError]) -> None:
        self._folder, self._busy = folder, busy
        self._lock: filelock.BaseFileLock | None = None

    def acquire(self) -> None:
        import filelock  # takes a tenth of a second, and most commands change no folder

        # If the file were deleted on release, two processes could lock two files of the same name.
        lock = filelock.FileLock(self._folder / self.NAME, thread_local=False, preserve_lock_file=True)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout as error:
            raise self._busy(
                f"Another process is writing to {self._folder}.", "Wait until it is done, or end it."
            ) from error
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def is_busy(error: HoptreeError) -> bool:
    """Return whether an error means that another process holds the lock of a folder."""
    return isinstance(error.__cause__, TimeoutError)


_GENERATION = lazy_re(r"\d{6}(\.part)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class VersionedFolder:
    """The layout of a folder of numbered generations, and a manifest of the current.

    Every generation has the subfolder `marker`; with "" its name is enough to recognise it.
    """

    path: Path
    manifest_name: str
    marker: str = ""

    def generation(self, number: int) -> Path:
        return self.path / f"{number:06d}"

    def part(self, number: int) -> Path:
        return self.path / f"{number:06d}.part"

    def has_manifest(self) -> bool:
        return (self.path / self.manifest_name).exists()

    def read_manifest(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.path / self.manifest_name).read_text(encoding="utf-8"))
        return data

    def write_manifest(self, manifest: DataclassInstance) -> None:
        """Replace the manifest in one step; readers then see the generation it names."""
        atomic_write(self.path / self.manifest_name, [json.dumps(with_sum(asdict(manifest)), indent=1)])

    def owns(self, path: Path) -> bool:
        """Return whether Hoptree wrote a path in the folder; nothing else is ever deleted."""
        if path.name in (FolderLock.NAME, f"{self.manifest_name}.new"):
            return True
        return bool(_GENERATION.fullmatch(path.name)) and not path.is_symlink() and (path / self.marker).is_dir()

    def is_foreign(self) -> bool:
        """Return whether this is a file, or a folder with other content and no manifest."""
        if self.has_manifest() or not self.path.exists():
            return False
        return not self.path.is_dir() or any(not self.owns(path) for path in self.path.iterdir())

    def next_number(self) -> int:
        """Return the generation of an interrupted change, or else an unused number."""
        numbered = [path for path in self.path.iterdir() if _GENERATION.fullmatch(path.name)]
        interrupted = [int(path.name[:6]) for path in numbered if self.owns(path)]
        return max(interrupted) if interrupted else max((int(path.name[:6]) for path in numbered), default=0) + 1

    def sweep(self, keep: Collection[str] = ()) -> None:
        """Delete all generations but those to `keep`, and those that are open."""
        for path in list(self.path.iterdir()):
            if path.is_dir() and path.name not in keep and self.owns(path):
                with suppress(OSError):
                    self.delete(path)

    def delete(self, generation: Path) -> None:
        """Delete a generation, its marker last, so that a killed deletion can be resumed."""
        import shutil

        for path in sorted(generation.iterdir(), key=lambda path: path.name == self.marker):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        generation.rmdir()


def with_sum(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the digest of its fields in a last field, `sum`."""
    return {**data, "sum": _sum_of(json.loads(json.dumps(data)))}


def without_sum(data: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object without its digest; raise ValueError if that is wrong.

    Objects of earlier versions have none and are not checked.
    """
    fields = {name: value for name, value in data.items() if name != "sum"}
    if data.get("sum", digest := _sum_of(fields)) != digest:
        raise ValueError("it is not what was written")
    return fields


def _sum_of(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


def manifest_fields(data: dict[str, Any], manifest: type[DataclassInstance]) -> dict[str, Any]:
    """Return a manifest's fields; raise ValueError for wrong digests or other fields."""
    data = {"checksums": "", **without_sum(data)}
    if data.keys() != {field.name for field in fields(manifest)}:
        raise ValueError("its manifest has other fields")
    return data


class Checksums:
    """Sizes and digests of a folder's files, listed in one of them.

    `digest` is that of the list; "" for a folder of an earlier version without a list, which is not checked.
    """

    NAME = "checksums.json"

    def __init__(self, folder: Path, digest: str) -> None:
        self._folder = folder
        self._files: dict[str, tuple[int, str]] = {}
        if not digest:
            return
        try:
            data = (folder / self.NAME).read_bytes()
        except FileNotFoundError as error:
            raise ValueError(f"{self.NAME} is missing") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{self.NAME} is not what was written")
        self._files = {name: (size, file_digest) for name, (size, file_digest) in json.loads(data).items()}

    @classmethod
    def write(cls, folder: Path, *, before: tuple[Path, Checksums] | None = None, without: Collection[str] = ()) -> str:
        """Write the list of a folder's files, and return its digest.

        Files that are hard links to those of the folder `before` keep their old digests, so that damage shows.
        """
        listed: dict[str, tuple[int, str]] = {}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            if name in (cls.NAME, *without) or path.suffix == ".lock":
                continue
            known = before[1]._files.get(name) if before else None
            same = known is not None and before is not None and path.samefile(before[0] / name)
            listed[name] = known if same and known else (path.stat().st_size, _digest_of(path))
        data = json.dumps(listed, indent=0)
        atomic_write(folder / cls.NAME, [data])
        return hashlib.sha256(data.encode()).hexdigest()

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(size for size, _ in self._files.values())

    def check(
        self, part: str = "", *, at_once: float = float("inf"), on_bytes: Callable[[int], None] = lambda count: None
    ) -> list[str]:
        """Raise a ValueError for the first file of a part that is missing, cut or changed.

        The smallest files are read until `at_once` bytes are; the names of the others are returned.
        """
        names = [name for name in self._files if name.startswith(part)]
        for name in names:
            try:
                size = (self._folder / name).stat().st_size
            except FileNotFoundError as error:
                raise ValueError(f"{name} is missing") from error
            if size != self._files[name][0]:
                raise ValueError(f"{name} has {size:,} bytes, and not the {self._files[name][0]:,} that were written")
        later: list[str] = []
        for name in sorted(names, key=lambda name: self._files[name]):
            at_once -= self._files[name][0]
            if at_once < 0:
                later.append(name)
            else:
                self.check_file(name)
                on_bytes(self._files[name][0])
        return later

    def check_file(self, name: str) -> None:
        try:
            digest = _digest_of(self._folder / name)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise ValueError(f"{name} cannot be read: {error.strerror}") from error
        if digest != self._files[name][1]:
            raise ValueError(f"{name} is not what was written")


def _digest_of(path: Path) -> str:
    """Return the SHA-256 of a file; errors of reading also name the file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


_SEAL = b', "sum": "%08x"}'
_SEAL_CHARS = len(_SEAL % 0)


def sealed(text: str) -> bytes:
    """Return a JSON object's text with the CRC-32 of its fields as last field, `sum`."""
    line = text.encode()
    return line[:-1] + _SEAL % zlib.crc32(line[:-1]) if len(line) > 2 else line


def unsealed(line: bytes) -> bytes:
    """Return a line of JSON without its seal, if any; raise ValueError if it is wrong."""
    line = line.rstrip()
    body, seal = line[:-_SEAL_CHARS], line[-_SEAL_CHARS:]
    if not seal.startswith(b', "sum": "'):
        return line
    if seal != _SEAL % zlib.crc32(body):
        raise ValueError("it is not what was written")
    return body + b"}"


class JsonlLog:
    """Append JSON values as lines, durably, from one process; seal objects."""

    def __init__(self, path: Path) -> None:
        truncate_partial_line(path)
        self._path = path
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._written = self._synced = 0
        self._disk = asyncio.Lock()

    async def add(self, value: Any) -> None:
        """Append a value and wait until it is on disk; concurrent lines share one fsync."""
        assert self._file is not None
        try:
            text = json.dumps(value)
            left = memoryview((sealed(text) if isinstance(value, dict) else text.encode()) + b"\n")
            while left:  # an almost full disk may accept only a part
                left = left[os.write(self._file, left) :]
            self._written += 1
            mine = self._written
            async with self._disk:
                if self._synced < mine:
                    written = self._written
                    await asyncio.to_thread(os.fsync, self._file)
                    self._synced = written
        except OSError as error:
            with suppress(OSError):
                truncate_partial_line(self._path)  # else the next append would continue the broken line
            remedy = "Its content is kept: free some space, and give the same command again."
            raise HoptreeError(f"{self._path} could not be written: {error.strerror or error}.", remedy) from error

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value); a truncated last line is skipped."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(unsealed(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return
            why = "not what was written" if b'"sum": "' in line[-_SEAL_CHARS:] else "no JSON"
            raise InputError(f"Line {number} of {path} is {why}.", "Take the line out, and run it again.") from error


def truncate_partial_line(path: Path) -> None:
    """Cut off a half-written last line."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = line_end = file.seek(0, os.SEEK_END)
        place = -1
        while line_end and place < 0:
            step = min(line_end, 1 << 16)
            file.seek(line_end - step)
            place = file.read(step).rfind(b"\n")
            line_end += place + 1 - step
        if line_end < end:
            file.truncate(line_end)


WEIGHTS_PACKAGE = "hoptree_weights"
WEIGHTS_MANIFEST = "manifest.json"
ADAPTER = "adapter.gguf"
WEIGHTS_FORMAT = 1
_INSTALL_WEIGHTS = (
    "Install it anew (pip install --force-reinstall hoptree-weights), or ask without it: -m 'local/NAME?adapter=none'"
)


@dataclass(frozen=True, slots=True)
class TrainedWeights:
    """The installed weights: `files` are digests by name, `bases` names by digest."""

    folder: Path
    files: Mapping[str, str]
    bases: Mapping[str, str]

    def file(self, name: str) -> Path:
        """Return the path of a file whose digest is the one in the manifest."""
        path = self.folder / name
        digest = ""
        with suppress(OSError):
            digest = _digest_of(path)
        if digest != self.files.get(name):
            fault = f"its digest is {digest[:12]}…, not {self.files.get(name, 'any')[:12]}…" if digest else "unreadable"
            raise ConfigError(f"{name} of hoptree-weights is damaged ({fault}).", _INSTALL_WEIGHTS)
        return path


@cache
def find_weights() -> TrainedWeights | None:
    """Return the installed weights; None without the package, or if it holds none."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / WEIGHTS_MANIFEST
        if path.is_file():
            return _read_weights(path)
    return None


def _read_weights(path: Path) -> TrainedWeights:
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != WEIGHTS_FORMAT:
            raise ConfigError(
                "hoptree-weights is of another version than Hoptree.",
                "Upgrade both: pip install -U hoptree hoptree-weights; or ask without it: -m 'local/NAME?adapter=none'",
            )
        files = {str(name): str(entry["sha256"]) for name, entry in manifest["files"].items()}
        bases = {str(digest): str(name) for digest, name in manifest["bases"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{WEIGHTS_MANIFEST} of hoptree-weights is damaged.", _INSTALL_WEIGHTS) from error
    return TrainedWeights(path.parent, files, bases)
