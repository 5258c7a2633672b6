"""One server for all tests of a file that only ask it, and a quicker start for what reads uploads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.server.running import Running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    from tests.server.running import running, script, settings

    folder = tmp_path_factory.mktemp("server")
    both = {"demo": script(), "slow": script(0.05)}
    with running(settings(folder, models=both, corpora_folder=folder / "corpora")) as started:
        yield started


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what becomes of corpora and questions; others show that the real commands are begun, and how."""
    from tests.server import forked

    monkeypatch.setattr(asyncio, "create_subprocess_exec", forked.begin)
