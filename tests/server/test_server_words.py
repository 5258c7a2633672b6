"""What happens, told in words."""

from __future__ import annotations

from typing import Any

import pytest

from hoptree.engine.events import parse_event

pytest.importorskip("fastapi")

from hoptree.server.streaming import ProgressText


def _plan(*ids: int, **more: Any) -> dict[str, Any]:
    return {"event": "plan", "t": 0.0, "nodes": [{"id": number} for number in ids], **more}


def _asked(node: int) -> dict[str, Any]:
    return {"event": "node", "t": 0.0, "id": node, "state": "asking", "resolved": "Who?"}


def _said(*events: dict[str, Any]) -> list[str]:
    words = ProgressText()
    return [step["text"] for event in events if (step := words.step(parse_event({"run": "r1", **event})))]


def test_what_was_rebuilt_below_a_node_is_numbered_from_it() -> None:
    lines = _said(
        _plan(1, 2), _plan(101, 102, under=1, rebuilt=True), _plan(10201, under=102), _asked(101), _asked(10201)
    )
    assert lines == [
        "Planned 2 sub-questions",
        "Rebuilt Sub-question 1: 2 sub-questions",
        "Split Sub-question 1.2: 1 sub-question",
        "Sub-question 1.1: Who?",
        "Sub-question 1.2.1: Who?",
    ]


def test_numbers_of_a_large_tree_stay_as_they_are() -> None:
    assert _said(_plan(*range(1, 101)), _plan(101, under=1), _asked(101))[-1] == "Sub-question 101: Who?"
