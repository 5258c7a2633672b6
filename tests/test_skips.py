"""A test that is skipped for an unlisted reason fails."""

from __future__ import annotations

import pytest
from tests.conftest import LISTED_SKIPS, fail_unlisted_skip


def skipped(reason: str) -> pytest.CollectReport:
    return pytest.CollectReport("a", "skipped", ("a.py", 1, f"Skipped: {reason}"), [])


@pytest.mark.parametrize("kind", ["", *LISTED_SKIPS])
def test_only_listed_reasons_are_accepted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOPTREE_SKIPS", kind)
    torch = "could not import 'torch': No module named 'torch'"
    outcomes = [
        fail_unlisted_skip(skipped(reason)).outcome for reason in ("recordings are of CUDA", torch, "no reason")
    ]
    assert (
        outcomes
        == {
            "": ["skipped", "skipped", "skipped"],
            "test": ["skipped", "skipped", "failed"],
            "all": ["skipped", "failed", "failed"],
        }[kind]
    )
