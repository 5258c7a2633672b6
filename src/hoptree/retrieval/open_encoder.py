"""Opens the encoder of a name; encoders behind an HTTP endpoint."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from hoptree.core.errors import ConfigError, UnusableReply, closest
from hoptree.core.files import batched
from hoptree.core.http_client import HttpClient
from hoptree.retrieval.encoder import Encoder, FloatArray, Prefixes, Role, np, unit_rows

_KINDS = ("minilm", "static", "onnx", "st", "openai")
_USAGE = "Use minilm, static/FOLDER, onnx/FOLDER, st/NAME or openai/NAME."
_WRITE_PREFIXES = "Write ?query=PREFIX&passage=PREFIX."
_DEFAULT_URL = "https://api.openai.com/v1"
_TEXTS_PER_REQUEST = 64
_MAX_REQUESTS = 4


def absolute_spec(spec: str) -> str:
    """Return the name with the absolute path of an existing folder, so that it is valid from anywhere."""
    named, mark, prefixes = spec.partition("?")
    kind, _, name = named.partition("/")
    if kind not in ("static", "onnx", "st") or not name or not Path(name).is_dir():
        return spec
    return f"{kind}/{os.path.abspath(name)}{mark}{prefixes}"  # noqa: PTH100 - keeps links, resolves ..


def open_encoder(spec: str, *, base_url: str = "") -> Encoder:
    """Open the encoder of a name such as `minilm`, `static/FOLDER`, `onnx/FOLDER`, `st/NAME` or `openai/NAME`.

    Prefixes that the model's name and settings do not give are appended: `onnx/FOLDER?query=query: &passage=`.
    """
    kind, name, prefixes = _parse(spec)
    if base_url and kind != "openai":
        raise ConfigError(f"The encoder '{spec}' runs here and takes no base URL.", "Leave it out, or use openai/NAME.")
    if kind == "openai":
        return EndpointEncoder(name, base_url=base_url, prefixes=prefixes)
    from hoptree.retrieval import encoder_backends as backends

    if kind == "static":
        return backends.StaticEncoder(Path(name), prefixes=prefixes)
    if kind == "st":
        return backends.TransformerEncoder(name, prefixes=prefixes)
    if kind == "minilm":
        return backends.OnnxEncoder("minilm", backends.minilm_files(), prefixes=prefixes or Prefixes())
    files = backends.folder_files(Path(name))
    return backends.OnnxEncoder(f"onnx/{Path(name).resolve().name}", files, prefixes=prefixes)


def check_encoder(spec: str) -> None:
    """Raise an error for a name that stands for no encoder, without opening it."""
    _parse(spec)


def _parse(spec: str) -> tuple[str, str, Prefixes | None]:
    """Split a name into the kind of encoder, the model's name and its prefixes."""
    spec, mark, query = spec.partition("?")
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(mark)))
    except ValueError as error:
        raise ConfigError(f"'{query}' are no settings of an encoder.", _WRITE_PREFIXES) from error
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
    """An embedding model behind `/embeddings`; 64 texts a request, four requests at once."""

    remote = True

    def __init__(self, model: str, *, base_url: str = "", prefixes: Prefixes | None = None) -> None:
        url = (base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL).rstrip("/")
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key.isascii() or not key.isprintable():
            raise ConfigError("The key holds a character that no key has.", "Copy OPENAI_API_KEY again.")
        if url == _DEFAULT_URL and not key:
            cause = f"The encoder openai/{model} needs a key."
            raise ConfigError(cause, "Set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint.")
        self._http = HttpClient(url, headers={"Authorization": f"Bearer {key}"} if key else None)
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
        """Order the vectors by the index each of them carries; endpoints may send them in any order."""
        entries = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._unusable("something that is no list of vectors")
        by_index = {entry.get("index", place): entry.get("embedding") for place, entry in enumerate(entries)}
        if set(by_index) != set(range(count)) or len(entries) != count:
            raise self._unusable(f"{len(entries)} vectors for {count} texts")
        try:
            rows = np.asarray([by_index[place] for place in range(count)], dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise self._unusable("something that is no list of vectors") from error
        if rows.ndim != 2 or not rows.shape[1] or not np.isfinite(rows).all():
            raise self._unusable("vectors that hold no numbers")
        return rows

    def _unusable(self, what: str) -> UnusableReply:
        cause = f"{self._http.shown} answered a request for embeddings with {what}."
        return UnusableReply(cause, f"Check that '{self._model}' is an embedding model there.")

    async def aclose(self) -> None:
        await self._http.aclose()
