"""`hoptree index --watch`: changes are indexed, and a failure is reported once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_index_cli import furnished
from tests.small_indexes import hoptree

from hoptree.core.errors import EndpointError
from hoptree.retrieval import indexing


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return furnished(tmp_path)


def test_changes_are_taken_in_while_it_watches(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = home / "docs" / "watched.txt"
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: extra.write_text("Zebras are striped.", encoding="utf-8"),
        lambda: (home / "docs").rename(home / "gone"),
        lambda: (home / "gone").rename(home / "docs"),
        lambda: extra.unlink(),
    ]

    def pause(seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr("hoptree.cli.index.sleep", pause)
    done = hoptree(home, "index", "docs", "--out", "new", "--watch")
    assert done.returncode == 0
    changes = [line.rpartition(": ")[2] for line in done.stdout.splitlines()]
    assert changes[1:] == ["1 added, 50 unchanged", "1 removed, 50 unchanged"] or changes[1:] == [
        "1 added",
        "1 removed",
    ]
    assert "is gone. Still watching." in done.stderr
    assert len(hoptree(home, "index", "update", "--out", "new", "--watch").stdout.splitlines()) == 1


def test_a_failure_is_told_once_while_it_watches(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = home / "docs" / "broken.jsonl"
    hoptree(home, "index", "docs", "--out", "new")
    steps: list[Callable[[], object]] = [
        lambda: broken.write_text("no JSON\n" * 150 + '{"id": "z", "text": "Zebras are striped."}', encoding="utf-8"),
        lambda: None,
        lambda: (home / "docs").rename(home / "gone"),
        lambda: None,
        lambda: (home / "gone").rename(home / "docs"),
        lambda: broken.unlink(),
    ]
    update, failures = indexing.update_index, [EndpointError("The endpoint is down.", "Start it.")]

    def update_index(*args: Any, **options: Any) -> Any:
        if broken.exists() and failures:
            raise failures.pop()
        return update(*args, **options)

    def pause(seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(indexing, "update_index", update_index)
    monkeypatch.setattr("hoptree.cli.index.sleep", pause)
    done = hoptree(home, "index", "update", "--out", "new", "--skip-broken", "200", "--watch")
    assert done.returncode == 0 and done.stderr.count("Still watching.") == 2
    assert [line.rpartition(": ")[2].partition(",")[0] for line in done.stdout.splitlines()][-2:] == [
        "1 added",
        "1 removed",
    ]
