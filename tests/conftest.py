"""No test sees the replies of another one, or those of the person who runs it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("cache") / "replies.sqlite"
    monkeypatch.setenv("HOPTREE_CACHE", str(path))
    return path
