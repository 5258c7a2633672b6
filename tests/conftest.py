"""No test sees the replies of another one, or those of the person who runs it; files that take long come first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import typer.main
import typer.testing

# Files whose few tests take long, the longest first.
LONG = (
    "test_transports.py",
    "test_corpora_over_http.py",
    "test_server_schema.py",
    "test_server_stopping.py",
    "test_server_patience.py",
    "test_server_security.py",
    "test_hf_batching.py",
    "test_hf.py",
    "test_ray.py",
    "test_index_killed.py",
    "test_index_folder.py",
    "test_local.py",
    "test_cli.py",
    "test_hf_encoder_decoder.py",
    "test_indexing_sources.py",
    "test_indexing_cut_off.py",
    "test_encoders.py",
    "test_graph_cli.py",
    "test_corpus_read.py",
    "test_ra_isf_experiments.py",
    "test_ranking.py",
    "test_ra_isf_table3.py",
    "test_kill.py",
    "test_kill_runs.py",
)


# The same examples every time, however slow the machine is.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin with the files that have the most tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that no worker is busy with one of them when the others have finished."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes name a case by their length: a gzip header holds the second it was made, and all workers must agree."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """Typer makes all commands anew at every call in a process, which takes longer than most of them."""
    made = cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", made)
        patch.setattr(typer.testing, "_get_command", made)
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("cache") / "replies.sqlite"
    monkeypatch.setenv("HOPTREE_CACHE", str(path))
    return path


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a pause."""
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
