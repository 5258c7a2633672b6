"""Encoders run by sentence-transformers, where torch is installed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.errors import ConfigError
from hoptree.retrieval.encoders.encoder import Prefixes, Role, folder_prefixes, unit_rows, weights_digest
from hoptree.retrieval.extras import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TransformerEncoder"]

_FEATURE = "An encoder of sentence-transformers"


class TransformerEncoder:
    """A model by its folder or its name on a model hub; code that comes with a model is not run."""

    remote = False

    def __init__(self, model: str, *, prefixes: Prefixes | None = None) -> None:
        folder = Path(model)
        local = folder.is_dir()
        self._prefixes = prefixes or (folder_prefixes(folder) if local else Prefixes.of_name(model))
        self.name = f"st/{folder.resolve().name if local else model}"
        self.identity = f"{self.name}:{weights_digest(folder) or model}{self._prefixes}"
        self._model = _load(model)
        self._lock = threading.Lock()  # tokenizers refuse to be set for two calls at once
        self.dimensions = int(self._model.get_embedding_dimension() or 0)

    async def encode(self, texts: Sequence[str], *, role: Role) -> NDArray[np.float32]:
        return await asyncio.to_thread(self._encode, self._prefixes.before(texts, role))

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        with self._lock:  # the empty prompt keeps the library from putting the model's own before ours
            rows = self._model.encode(texts, prompt="", show_progress_bar=False, convert_to_numpy=True)
        return unit_rows(rows.reshape(len(texts), self.dimensions))

    async def aclose(self) -> None:
        return None


def _load(model: str) -> Any:
    library_ = library("sentence_transformers", _FEATURE, "whitebox")
    try:
        return library_.SentenceTransformer(model, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"The encoder '{model}' cannot be loaded ({str(error)[:200]}).",
            "Give the folder of a sentence-transformers model, or its name on a hub that can be reached.",
        ) from error
