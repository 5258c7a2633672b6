"""A small index."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.small_indexes import rows, write_rows

from hoptree.retrieval.indexing import build_index


@pytest.fixture
def out(tmp_path: Path) -> Path:
    build_index(write_rows(tmp_path / "docs" / "a.jsonl", rows(20)), tmp_path / "idx")
    return tmp_path / "idx"
