"""The table of the ways that methods chose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.doubting_runs import decided, doubting_run
from tests.evaluation.hypothesis_runs import Asked
from tests.evaluation.report_runs import cells, table

from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.run_tables import routes_of
from hoptree.evaluation.report.tables import Table
from hoptree.evaluation.run_folder import TRACES

TITLE = "hand: ways chosen"
Event = dict[str, Any]


def made(folder: Path, name: str, *events: list[Event]) -> Path:
    asked = [Asked(f"q{number}", "Rome", events=some) for number, some in enumerate(events)]
    return doubting_run(folder, name, asked, {})


def shown(folder: Path) -> Table:
    return table(tables_of(read_groups([folder])), TITLE)


def test_each_way_has_its_share_and_its_scores(tmp_path: Path) -> None:
    made(tmp_path, "dyplan", *[[decided("route", way)] for way in ("Reason", "Retrieval", "Reason", "Reason")])
    found = shown(tmp_path)
    assert [row.name for row in found.rows] == ["dyplan: Reason", "dyplan: Retrieval"], "the commonest first"
    reason = cells(found, "dyplan: Reason")
    assert (reason["Questions"].text, reason["Share, %"].text) == ("3", "75.0")
    assert reason["F1"] is not None and reason["EM"] is not None


@pytest.mark.parametrize(
    ("events", "way"),
    [
        ([decided("need", True)], "documents"),
        ([decided("need", False)], "memory"),
        ([decided("route", False, step="neighbours")], "memory"),
        ([decided("retrieve", True)], "documents"),
        ([decided("route", "Reason"), decided("route", "Retrieval")], "Reason → Retrieval"),
        ([decided("ended", "no paths", level=1)], "no paths"),
        ([decided("agreement", False), decided("ended", "depth")], "depth"),
        ([decided("agreement", True)], "chains agree"),
        ([decided("route", {"of": "another kind"})], "{'of': 'another kind'}"),
    ],
)
def test_what_decisions_say(tmp_path: Path, events: list[Event], way: str) -> None:
    (group,) = read_groups([made(tmp_path, "run", events)])
    assert routes_of(group.runs[0]) == {way: {"q0"}}


def test_a_method_that_does_not_choose_has_no_row(tmp_path: Path) -> None:
    made(tmp_path, "plain", [decided("answered", True)])
    assert not any(one.title == TITLE for one in tables_of(read_groups([tmp_path])))
    (made(tmp_path, "bare", [decided("route", "A")]) / TRACES).unlink()
    assert not any(one.title == TITLE for one in tables_of(read_groups([tmp_path])))


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    out = made(
        tmp_path, "run", [decided("route", "A"), {"event": "decision"}, {"event": "decision", "kind": ["route"]}]
    )
    with (out / TRACES).open("ab") as file:
        file.write(b'["decision"]\n{"event": "decision", "run": 5, "kind": "route"}\n{"event": "decision", "ki')
    (group,) = read_groups([out])
    assert routes_of(group.runs[0]) == {"A": {"q0"}}
