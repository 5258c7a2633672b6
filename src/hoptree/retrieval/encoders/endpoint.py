"""Any endpoint that speaks OpenAI's embeddings: OpenAI, vLLM, Ollama, llama.cpp, text-embeddings-inference."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hoptree.errors import ConfigError, UnusableReply
from hoptree.http import Http
from hoptree.retrieval.encoders.encoder import Prefixes, Role, unit_rows
from hoptree.retrieval.extras import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EndpointEncoder"]

DEFAULT_URL = "https://api.openai.com/v1"
_BATCH = 64
_AT_ONCE = 4


class EndpointEncoder:
    """An embedding model behind `/embeddings`, asked for 64 texts at a time, four requests at once."""

    remote = True

    def __init__(self, model: str, *, base_url: str = "", prefixes: Prefixes | None = None) -> None:
        url = (base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL).rstrip("/")
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not key.isascii() or not key.isprintable():
            raise ConfigError("The key holds a character that no key has.", "Copy OPENAI_API_KEY again.")
        if url == DEFAULT_URL and not key:
            raise ConfigError(
                f"The encoder openai/{model} needs a key.",
                "Set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint.",
            )
        self._http = Http(url, headers={"Authorization": f"Bearer {key}"} if key else None)
        self._prefixes = Prefixes.of_name(model) if prefixes is None else prefixes
        self._model = model
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.name = f"openai/{model}"
        self.identity = f"{self.name}:{self._http.shown}{self._prefixes}"
        self.dimensions = 0

    async def encode(self, texts: Sequence[str], *, role: Role) -> NDArray[np.float32]:
        np = library("numpy", "Dense retrieval", "dense")
        if not texts:
            return unit_rows(np.zeros((0, self.dimensions)))
        whole = self._prefixes.before(texts, role)
        batches = [whole[start : start + _BATCH] for start in range(0, len(whole), _BATCH)]
        rows = await asyncio.gather(*(self._encode(batch) for batch in batches))
        try:
            return unit_rows(np.concatenate(rows))
        except ValueError as error:
            raise self._unusable("vectors of different lengths") from error

    async def _encode(self, texts: list[str]) -> NDArray[Any]:
        async with self._places:
            reply = await self._http.json("POST", "/embeddings", {"model": self._model, "input": texts})
        rows = self._read(reply, len(texts))
        if self.dimensions not in (0, rows.shape[1]):
            raise self._unusable(f"vectors of {rows.shape[1]} numbers after others of {self.dimensions}")
        self.dimensions = int(rows.shape[1])
        return rows

    def _read(self, reply: Any, count: int) -> NDArray[Any]:
        """The vectors by the index each of them carries; endpoints may send them in any order."""
        np = library("numpy", "Dense retrieval", "dense")
        entries = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._unusable("something that is no list of vectors")
        by_index = {entry.get("index", place): entry.get("embedding") for place, entry in enumerate(entries)}
        if set(by_index) != set(range(count)) or len(entries) != count:
            raise self._unusable(f"{len(entries)} vectors for {count} texts")
        try:
            rows: NDArray[Any] = np.asarray([by_index[place] for place in range(count)], dtype=np.float32)
        except (ValueError, TypeError) as error:
            raise self._unusable("something that is no list of vectors") from error
        if rows.ndim != 2 or not rows.shape[1] or not np.isfinite(rows).all():
            raise self._unusable("vectors that hold no numbers")
        return rows

    def _unusable(self, what: str) -> UnusableReply:
        return UnusableReply(
            f"{self._http.shown} answered a request for embeddings with {what}.",
            f"Check that '{self._model}' is an embedding model there.",
        )

    async def aclose(self) -> None:
        await self._http.aclose()
