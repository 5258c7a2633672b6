"""Tiny models of transformers, opened for one test."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_models import saved


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: saved(tmp_path_factory.mktemp(kind), kind) for kind in ("plain", "windowed")}


@pytest.fixture
def opened(folders: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    hf: Any = importlib.import_module("hoptree.models.hf")
    models: list[Any] = []

    def open_one(kind: str = "plain", **settings: Any) -> Any:
        models.append(hf.HFModel(str(folders[kind]), device="cpu", **settings))
        return models[-1]

    yield open_one
    for model in models:
        asyncio.run(model.aclose())
