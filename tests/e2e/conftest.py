"""An endpoint and a corpus; tests that need others have their own of these names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.asked_once import PASSAGES, PLAN
from tests.e2e.endpoint import Endpoint, index_of


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """An endpoint that answers QUESTION as a well-behaved model would."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        running.on("taikc/decompose", json.dumps(PLAN))
        running.on("taikc/confident", "RAG_REQUIRED")
        running.on("taikc/read", "Bille August", contains="Question: Who directed")
        running.on("taikc/read", "1948", contains="Question: In which year was Bille August born?")
        running.on("taikc/summarise", "Night Train to Lisbon was directed by Bille August, born in 1948.")
        running.on("taikc/final", "1948")
        yield running


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return index_of(tmp_path, *PASSAGES)
