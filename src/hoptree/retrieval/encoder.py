"""Encoders: their Protocol, opening by name, endpoints, and batching of queries."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import parse_qsl

from hoptree.core.errors import ConfigError, UnusableReply, closest
from hoptree.core.files import batched
from hoptree.core.http_client import HttpClient, key_header
from hoptree.core.lazy import lazy_import

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    FloatArray = NDArray[numpy.float32]
else:
    FloatArray = Any

np = lazy_import("numpy", "Dense retrieval", "dense")
Role = Literal["query", "passage"]

_E5 = re.compile(r"(?<![a-z0-9])e5(?![a-z0-9])")
_DIGEST_DIGITS = 12
_OTHER_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5")
_SAMPLE_BYTES = 2**20


class Encoder(Protocol):
    """Turns texts into rows of unit length, each independent of the other texts.

    `identity` is what determines the rows: the name, the digest of the weights or the endpoint, and the prefixes.
    `remote` says that texts leave the machine.
    """

    name: str
    identity: str
    remote: bool
    dimensions: int  # the length of a row; 0 for an endpoint that has not answered yet

    async def encode(self, texts: Sequence[str], *, role: Role) -> FloatArray: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What a model was trained to see before a query and before a passage."""

    query: str = ""
    passage: str = ""

    @classmethod
    def of_name(cls, name: str) -> Prefixes:
        """Return the prefixes of the e5 family; its instructed models have none."""
        lower = name.lower()
        return cls("query: ", "passage: ") if _E5.search(lower) and "instruct" not in lower else cls()

    def before(self, texts: Sequence[str], role: Role) -> list[str]:
        prefix = self.query if role == "query" else self.passage
        return [f"{prefix}{text}".encode("utf-8", "replace").decode() for text in texts]  # no lone surrogates

    def __str__(self) -> str:
        return json.dumps([self.query, self.passage]) if self.query or self.passage else ""


def folder_prefixes(folder: Path) -> Prefixes:
    """Return the prompts in a folder's settings, or those of its name."""
    prompts = read_settings(folder / "config_sentence_transformers.json").get("prompts")
    if isinstance(prompts, dict) and any(isinstance(prompt, str) and prompt for prompt in prompts.values()):
        passage = prompts.get("passage") or prompts.get("document") or ""
        return Prefixes(str(prompts.get("query") or ""), str(passage))
    return Prefixes.of_name(folder.resolve().name)


def read_settings(path: Path) -> dict[str, Any]:
    """Read a JSON file of a model's settings; none if the file is missing."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read ({error}).", "Get the model's folder again.") from error
    return settings if isinstance(settings, dict) else {}


def digest_of(*files: Path) -> str:
    """Return the beginning of the SHA-256 of these files together."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error}).", "Get the model's folder again.") from error
    return digest.hexdigest()[:_DIGEST_DIGITS]


def weights_digest(folder: Path) -> str:
    """Return a digest of a model's weights, "" if the folder holds none."""
    if not folder.is_dir():
        return ""
    if weights := sorted(folder.glob("*.safetensors")):
        return digest_of(*weights)
    digest = hashlib.sha256()
    others = sorted(path for path in folder.rglob("*") if path.suffix in _OTHER_WEIGHTS)
    for path in others:
        try:
            with path.open("rb") as file:
                size = file.seek(0, 2)
                digest.update(f"{path.relative_to(folder)}\0{size}\0".encode("utf-8", "replace"))
                for start in (0, max(size - _SAMPLE_BYTES, 0)):
                    file.seek(start)
                    digest.update(file.read(_SAMPLE_BYTES))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error}).", "Get the model's folder again.") from error
    return digest.hexdigest()[:_DIGEST_DIGITS] if others else ""


def unit_rows(rows: Any) -> FloatArray:
    """Scale the rows to length one; a row of zeros (an empty text) stays as it is."""
    wide = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: FloatArray = (wide / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return unit


_WINDOW_S, _WINDOW_QUERIES = 0.003, 64


class QueryWindow:
    """Encodes the queries that arrive within 3 ms, or 64 of them, in one call.

    An error reaches every caller of its batch; a cancelled caller does not affect the others. A window can be used in
    several event loops, one after another.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._waiting: list[tuple[str, asyncio.Future[FloatArray]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, query: str) -> FloatArray:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # callers of a loop that has ended cannot be answered
            self._loop, self._waiting, self._timer = loop, [], None
        future: asyncio.Future[FloatArray] = loop.create_future()
        self._waiting.append((query, future))
        if len(self._waiting) >= _WINDOW_QUERIES:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(_WINDOW_S, self._send)
        return await future

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = [(query, future) for query, future in self._waiting if not future.done()]
        self._waiting = []
        if batch:
            task = asyncio.get_running_loop().create_task(self._answer(batch))
            self._running.add(task)  # the loop itself holds tasks only weakly
            task.add_done_callback(self._running.discard)

    async def _answer(self, batch: list[tuple[str, asyncio.Future[FloatArray]]]) -> None:
        waiting = [future for _, future in batch]
        try:
            rows = await self._encoder.encode([query for query, _ in batch], role="query")
            answers = list(zip(waiting, rows, strict=True))
        except BaseException as error:
            for future in waiting:
                if isinstance(error, asyncio.CancelledError):
                    future.cancel()
                elif not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for future, row in answers:
            if not future.done():
                future.set_result(row)


_KINDS = ("minilm", "static", "onnx", "st", "openai")
_USAGE = "Use minilm, static/FOLDER, onnx/FOLDER, st/NAME or openai/NAME."
_WRITE_PREFIXES = "Write ?query=PREFIX&passage=PREFIX."
_DEFAULT_URL = "https://api.openai.com/v1"
_TEXTS_PER_REQUEST = 64
_MAX_REQUESTS = 4


def absolute_spec(spec: str) -> str:
    """Return the name with its folder as an absolute path, valid from anywhere."""
    named, mark, prefixes = spec.partition("?")
    kind, _, name = named.partition("/")
    if kind not in ("static", "onnx", "st") or not name or not Path(name).is_dir():
        return spec
    return f"{kind}/{os.path.abspath(name)}{mark}{prefixes}"  # noqa: PTH100 - keeps links, resolves ..


def open_encoder(spec: str) -> Encoder:
    """Open `minilm`, `static/FOLDER`, `onnx/FOLDER`, `st/NAME` or `openai/NAME`.

    Prefixes that the model's name and settings do not give are appended: `onnx/FOLDER?query=query: &passage=`.
    """
    kind, name, prefixes = _parse(spec)
    if kind == "openai":
        return EndpointEncoder(name, prefixes)
    from hoptree.retrieval import encoder_backends as backends

    if kind == "static":
        return backends.StaticEncoder(Path(name), prefixes=prefixes)
    if kind == "st":
        return backends.TransformerEncoder(name, prefixes=prefixes)
    if kind == "minilm":
        return backends.OnnxEncoder("minilm", backends.minilm_files(), prefixes=prefixes or Prefixes())
    files = backends.folder_files(Path(name))
    return backends.OnnxEncoder(f"onnx/{Path(name).resolve().name}", files, prefixes=prefixes)


_shared = cache(open_encoder)
_opening = threading.Lock()


def shared_encoder(spec: str) -> Encoder:
    """Open an encoder once for the whole process; the first time takes up to seconds."""
    with _opening:
        return _shared(spec)


def check_encoder(spec: str) -> None:
    """Raise an error for a name of no encoder, without opening it."""
    _parse(spec)


def _parse(spec: str) -> tuple[str, str, Prefixes | None]:
    """Split a name into the kind of encoder, the model's name and its prefixes."""
    spec, mark, query = spec.partition("?")
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(mark)))
    except ValueError as error:
        raise ConfigError(f"'{query}' is not a setting of an encoder.", _WRITE_PREFIXES) from error
    if unknown := sorted(given.keys() - {"query", "passage"}):
        raise ConfigError(f"An encoder has no setting '{unknown[0]}'.", _WRITE_PREFIXES)
    kind, slash, name = spec.partition("/")
    if kind not in _KINDS or (kind == "minilm" and slash):
        near = closest(kind, _KINDS) if kind not in _KINDS else ""
        raise ConfigError(f"There is no encoder '{spec}'.", f"Did you mean {near}? {_USAGE}" if near else _USAGE)
    if kind != "minilm" and not name:
        raise ConfigError(f"The encoder '{spec}' names no model.", _USAGE)
    return kind, name, Prefixes(given.get("query", ""), given.get("passage", "")) if mark else None


class EndpointEncoder:
    """An embedding model behind `/embeddings`: 64 texts a request, four at a time."""

    remote = True

    def __init__(self, model: str, prefixes: Prefixes | None) -> None:
        url = (os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL).rstrip("/")
        headers = key_header("OPENAI_API_KEY")
        if url == _DEFAULT_URL and not headers:
            cause = f"The encoder openai/{model} needs a key."
            raise ConfigError(cause, "Set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint.")
        self._http = HttpClient(url, headers=headers)
        self._prefixes = Prefixes.of_name(model) if prefixes is None else prefixes
        self._model = model
        self._slots = asyncio.Semaphore(_MAX_REQUESTS)
        self.name = f"openai/{model}"
        self.identity = f"{self.name}:{self._http.shown}{self._prefixes}"
        self.dimensions = 0

    async def encode(self, texts: Sequence[str], *, role: Role) -> FloatArray:
        if not texts:
            return unit_rows(np.zeros((0, self.dimensions)))
        batches = batched(self._prefixes.before(texts, role), _TEXTS_PER_REQUEST)
        rows = await asyncio.gather(*(self._encode(batch) for batch in batches))
        try:
            return unit_rows(np.concatenate(rows))
        except ValueError as error:
            raise self._unusable("vectors of different lengths") from error

    async def _encode(self, texts: list[str]) -> Any:
        async with self._slots:
            reply = await self._http.json("POST", "/embeddings", {"model": self._model, "input": texts})
        rows = self._read(reply, len(texts))
        if self.dimensions not in (0, rows.shape[1]):
            raise self._unusable(f"vectors of {rows.shape[1]} numbers after others of {self.dimensions}")
        self.dimensions = int(rows.shape[1])
        return rows

    def _read(self, reply: Any, count: int) -> Any:
        """Order the vectors by their index; endpoints may send them in any order."""
        entries = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._unusable("something other than a list of vectors")
        by_index = {entry.get("index", place): entry.get("embedding") for place, entry in enumerate(entries)}
        if set(by_index) != set(range(count)) or len(entries) != count:
            raise self._unusable(f"{len(entries)} vectors for {count} texts")
        try:
            rows = np.asarray([by_index[place] for place in range(count)], dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise self._unusable("something other than a list of vectors") from error
        if rows.ndim != 2 or not rows.shape[1] or not np.isfinite(rows).all():
            raise self._unusable("vectors that hold no numbers")
        return rows

    def _unusable(self, what: str) -> UnusableReply:
        cause = f"{self._http.shown} answered a request for embeddings with {what}."
        return UnusableReply(cause, f"Check that '{self._model}' is an embedding model there.")

    async def aclose(self) -> None:
        await self._http.aclose()
