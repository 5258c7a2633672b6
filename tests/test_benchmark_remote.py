"""The benchmark of search servers, on a Milvus file."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path

import pytest
from benchmarks.remote import measure


@pytest.mark.skipif(importlib.util.find_spec("milvus_lite") is None, reason="needs the extra [milvus]")
def test_passages_are_loaded_once_and_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"milvus://{tmp_path}/corpus.db/generated"
    asyncio.run(measure(url, 200, 5))
    assert "200 passages: " in (printed := capsys.readouterr().out) and " s to load, " in printed
    asyncio.run(measure(url, 200, 5, loaded=True))
    assert re.match(r"200 passages, 5 questions: 1\.000 found in ten, p50 [\d.]+ ms", capsys.readouterr().out)
