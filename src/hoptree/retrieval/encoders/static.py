"""Static encoders: one vector a word piece, looked up and averaged, a hundred times quicker than a transformer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hoptree.errors import ConfigError
from hoptree.retrieval.encoders.encoder import Prefixes, Role, digest_of, unit_rows
from hoptree.retrieval.extras import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["StaticEncoder", "distil_static"]

_FILES = ("model.safetensors", "tokenizer.json", "config.json")


class StaticEncoder:
    """A model2vec folder; prefixes would only blur an average of words, so that it has none unless they are given."""

    remote = False

    def __init__(self, folder: Path, *, prefixes: Prefixes | None = None) -> None:
        if missing := next((name for name in _FILES if not (folder / name).is_file()), None):
            raise ConfigError(
                f"{folder} is no folder of a static encoder: it has no {missing}.",
                "Make one from a full encoder with distil_static.",
            )
        module = library("model2vec", "A static encoder", "dense")
        try:
            self._model = module.StaticModel.from_pretrained(folder.resolve())
        except Exception as error:  # tokenizers raises bare Exceptions
            raise ConfigError(f"{folder} is damaged ({str(error)[:200]}).", "Distil it again.") from error
        self._prefixes = prefixes or Prefixes()
        self.name = f"static/{folder.resolve().name}"
        self.identity = f"static:{digest_of(*(folder / name for name in _FILES))}{self._prefixes}"
        self.dimensions = int(self._model.dim)
        self._lock = threading.Lock()  # the library sets its tokenizer anew for every call

    async def encode(self, texts: Sequence[str], *, role: Role) -> NDArray[np.float32]:
        return await asyncio.to_thread(self.encode_now, texts, role)

    def encode_now(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Encode in this thread."""
        np = library("numpy", "A static encoder", "dense")
        if not texts:
            return unit_rows(np.zeros((0, self.dimensions)))
        whole = [text.encode("utf-8", "replace").decode() for text in self._prefixes.before(texts, role)]
        with self._lock:
            rows = self._model.encode(whole, use_multiprocessing=False)
        return unit_rows(rows)

    async def aclose(self) -> None:
        return None


def distil_static(source: str, out: Path, dimensions: int = 256) -> None:
    """Make the folder `out` of a static encoder from the folder of a full one; takes a minute and needs torch.

    `minilm` stands for the folder of all-MiniLM-L6-v2 in its package.
    """
    from hoptree.retrieval.encoders.packaged import minilm_folder

    if out.exists():
        raise ConfigError(f"{out} exists.", "Choose a new folder.")
    folder = minilm_folder() if source == "minilm" else Path(source)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(
            f"{source} is no folder of an encoder.", "Give one with weights and tokenizer.json, or minilm."
        )
    library("torch", "Distilling a static encoder", "whitebox")
    module = library("model2vec.distill", "Distilling a static encoder", "whitebox")
    model = module.distill(str(folder.resolve()), pca_dims=dimensions, device="cpu")
    name = source if source == "minilm" else folder.resolve().name
    model.base_model_name = model.config["tokenizer_name"] = name  # not the path, which differs between machines
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch, "new")
        model.save_pretrained(fresh, model_name=out.name)
        shutil.move(fresh, out)
