"""What was cut or dropped from a tree is told to whoever reads the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.traced import event
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.engine.events import Event
from hoptree.engine.result import read_result

NODES = [{"id": 0, "question": "q?", "parent": None}, {"id": 1, "question": "a?", "parent": 0}]


def plan(*issues: tuple[str, str], **more: Any) -> Event:
    issue_rows = [{"kind": kind, "node": 0, "detail": detail} for kind, detail in issues]
    return event("plan", nodes=NODES, issues=issue_rows, **more)


START = event("start", question="q?", method="treeqa", model="m", fidelity="exact", options={})


def rebuilt(*issues: str, before: int = 3, after: int = 1) -> Event:
    return event("node", id=1, state="answered", rebuild_issues=list(issues), size_before=before, size_after=after)


def test_a_tree_that_was_cut_is_told_once() -> None:
    deep = ("cap_depth", "deeper than 5: dropped")
    run = [plan(deep, deep, ("cap_nodes", "24 nodes beyond 16 dropped"), ("root_restated", "x"))]
    assert read_result(run).warnings == (
        "The model's plan was repaired: deeper than 5: dropped.",
        "The model's plan was repaired: 24 nodes beyond 16 dropped.",
    )


def test_what_a_method_warned_of_itself_is_not_told_twice() -> None:
    warning = "The model's plan was repaired: 3 nodes beyond 12 dropped."
    run = [event("warning", kind="cap_nodes", message=warning), plan(("cap_nodes", "3 nodes beyond 12 dropped"))]
    assert read_result(run).warnings == (warning,)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("rebuild_unreadable", "could not be read"),
        ("rebuild_noop", "repeated what was refuted"),
        ("rebuild_deeper", "was too deep"),
        ("rebuild_siblings", "had several first nodes"),
        ("cap_nodes", "was too large"),
    ],
)
def test_a_rebuilt_tree_that_was_dropped_or_cut_is_told(kind: str, why: str) -> None:
    (warning,) = read_result([START, plan(), rebuilt(kind)]).warnings
    assert why in warning and "sub-question 1" in warning


def test_nothing_is_told_where_nothing_was_lost() -> None:
    run = [START, plan(), rebuilt("rebuild_noop", before=1), rebuilt(), event("node", id=1, state="asking")]
    assert read_result(run).warnings == ()


def test_what_was_lost_from_a_tree_that_counts_no_more_is_not_told() -> None:
    assert read_result([START, plan(("cap_nodes", "x")), rebuilt("rebuild_noop"), plan()]).warnings == ()
    kept = read_result([START, plan(("cap_nodes", "x")), plan(("cap_nodes", "y"), under=1, rebuilt=True)]).warnings
    assert kept == ("The model's plan was repaired: x.", "The model's plan was repaired: y.")


def test_a_trace_is_shown_with_what_was_lost(tmp_path: Path) -> None:
    final = event("final", answer="x", abstained=False, stopped_by="")
    events = [START, plan(("cap_nodes", "24 nodes beyond 16 dropped")), rebuilt("rebuild_unreadable"), final]
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(f"{json.dumps(each.as_dict())}\n" for each in events), encoding="utf-8")
    shown = CliRunner().invoke(app, ["show", str(trace)])
    assert shown.exit_code == 0, shown.output
    output = " ".join(shown.stdout.split())
    assert "note: The model's plan was repaired: 24 nodes beyond 16 dropped." in output
    assert "sub-question 1 could not be read: all that stood below it was dropped." in output
