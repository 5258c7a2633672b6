"""Documents, and an index of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.indexing.small_changes import counts
from tests.small_indexes import rows, write_rows

from hoptree.retrieval.indexing import build_index


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Three files of ten passages each."""
    for number in range(3):
        write_rows(tmp_path / "docs" / f"{number}.jsonl", rows(10, number * 10), ns=10**18 + number)
    return tmp_path / "docs"


@pytest.fixture
def out(docs: Path, tmp_path: Path) -> Path:
    outcome = build_index(docs, tmp_path / "idx")
    assert counts(outcome) == (30, 0, 0, 0, 0)
    return tmp_path / "idx"
