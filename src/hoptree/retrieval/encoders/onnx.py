"""Encoders run by ONNX Runtime: no torch, one file of weights and one of words."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.errors import ConfigError
from hoptree.retrieval.encoders.encoder import Prefixes, Role, digest_of, folder_prefixes, read_settings, unit_rows
from hoptree.retrieval.extras import library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ModelFiles", "OnnxEncoder", "folder_files"]

_WEIGHTS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_LONGEST = 512
_EACH = 4
"""Texts a core in one call, which nothing can stop: less than a second even on a slow machine."""
_FEATURE = "An ONNX encoder"
_AGAIN = "Get the model's folder again."


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Weights, tokenizer, and the folder with the settings of pooling and length."""

    weights: Path
    tokenizer: Path
    settings: Path


def folder_files(folder: Path) -> ModelFiles:
    """The files of a folder as model hubs lay it out."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}.", "Give the folder of an ONNX encoder: onnx/FOLDER")
    weights = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if weights is None or not (folder / "tokenizer.json").is_file():
        missing = "model.onnx" if weights is None else "tokenizer.json"
        raise ConfigError(f"The folder {folder} has no {missing}.", "Export the encoder to ONNX with its tokenizer.")
    return ModelFiles(weights, folder / "tokenizer.json", folder)


class OnnxEncoder:
    """An encoder of the BERT family, with the pooling that its folder names (mean where it names none).

    Every text is run on its own, by one core, and as many at once as there are cores. On CPUs that is as quick as
    batches, which spend on padding what they save, and a vector is then the same to the last bit whatever is encoded
    beside it. Several cores on one short text mostly wait for each other.
    """

    remote = False

    def __init__(self, name: str, files: ModelFiles, *, prefixes: Prefixes | None = None) -> None:
        self.name = name
        self._prefixes = folder_prefixes(files.settings) if prefixes is None else prefixes
        self._first_token = _pools_first_token(files.settings)
        self._tokenizer = _tokenizer(files)
        self._session = _session(files.weights)
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._cores, thread_name_prefix="hoptree-onnx")
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        beside = sorted(files.weights.parent.glob(f"{files.weights.name}[._]data*"))  # weights of more than 2 GiB
        digest = digest_of(files.weights, files.tokenizer, *beside)
        length = int(self._tokenizer.truncation["max_length"])
        self.identity = f"{name}:{digest}:{'cls' if self._first_token else 'mean'}:{length}{self._prefixes}"
        self.dimensions = int(self.encode_now(["dimensions"], "passage").shape[1])

    async def encode(self, texts: Sequence[str], *, role: Role) -> NDArray[np.float32]:
        np = library("numpy", _FEATURE, "dense")
        at_once = _EACH * self._cores
        parts = [
            await asyncio.to_thread(self.encode_now, texts[start : start + at_once], role)
            for start in range(0, len(texts), at_once)
        ]
        rows: NDArray[Any] = np.concatenate(parts) if parts else self.encode_now(texts, role)
        return rows

    def encode_now(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Encode while this thread waits."""
        np = library("numpy", _FEATURE, "dense")
        if not texts:
            return unit_rows(np.zeros((0, self.dimensions)))
        tokens = self._tokenizer.encode_batch_fast([_whole(text) for text in self._prefixes.before(texts, role)])
        return unit_rows(np.stack(list(self._pool.map(lambda entry: self._run(np, entry.ids), tokens))))

    def _run(self, np: Any, ids: list[int]) -> Any:
        row = np.asarray([ids or [0]], dtype=np.int64)
        known = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        try:
            output = self._session.run(None, {name: known[name] for name in self._inputs})[0]
        except KeyError as error:
            raise ConfigError(f"{self.name} wants an input {error}, which texts do not have.", _AGAIN) from error
        if output.ndim == 2:  # the graph pools by itself
            return output[0]
        states = output[0]
        return states[0] if self._first_token else states.mean(axis=0, dtype=np.float64)

    async def aclose(self) -> None:
        self._pool.shutdown(wait=False)


def _whole(text: str) -> str:
    """The text with halves of characters, which the tokenizer refuses, replaced."""
    return text.encode("utf-8", "replace").decode()


def _tokenizer(files: ModelFiles) -> Any:
    tokenizers = library("tokenizers", _FEATURE, "dense")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(files.tokenizer))
    except Exception as error:  # the library raises bare Exceptions
        raise ConfigError(f"{files.tokenizer} is no tokenizer ({error}).", _AGAIN) from error
    tokenizer.no_padding()
    longest = read_settings(files.settings / "sentence_bert_config.json").get("max_seq_length")
    if not isinstance(longest, int) or not 0 < longest <= _LONGEST:
        longest = _LONGEST
    tokenizer.enable_truncation(longest)
    return tokenizer


def _session(weights: Path) -> Any:
    runtime = library("onnxruntime", _FEATURE, "dense")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        return runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors share no class of their own
        raise ConfigError(f"{weights} cannot be run ({str(error)[:200]}).", _AGAIN) from error


def _pools_first_token(folder: Path) -> bool:
    return bool(read_settings(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token"))
