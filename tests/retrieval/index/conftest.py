"""A small index."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.small_indexes import rows, write_rows

from hoptree.retrieval.indexing import build_index


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index, and the documents that it was made of, which no test changes."""
    folder = tmp_path_factory.mktemp("built")
    build_index(write_rows(folder / "docs" / "a.jsonl", rows(20)), folder / "idx")
    return folder


@pytest.fixture
def out(built: Path, tmp_path: Path) -> Path:
    """A copy of both: to build it takes ten times as long. Its source stays the folder that was copied."""
    return shutil.copytree(built, tmp_path, dirs_exist_ok=True) / "idx"
