"""A tiny random model in a folder, made once for the tests of a file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_models import saved


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft")
    return saved(tmp_path_factory.mktemp("base"), "plain")


@pytest.fixture
def loaded(base: Path) -> Any:
    weights: Any = importlib.import_module("hoptree.models.hf_weights")
    return weights.load(weights.resolve_source(str(base)), dtype="float32", device="cpu")
