"""Reports on methods that look up what they doubt: triggers, filters and bridges, memory, and draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.doubting_runs import doubting_run, filtered, judged, remembered, skipped, understood
from tests.evaluation.hypothesis_runs import Asked, llm
from tests.evaluation.report_runs import cells, table

from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.figures import sweeps_of
from hoptree.evaluation.report.lookups import bridge_titles, look_ups_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page
from hoptree.evaluation.report.tables import Number, Table, as_csv
from hoptree.evaluation.run_folder import TRACES

FILM = "Who is the mother of the director of Film N?"
OPTIONS = {"filters": "cot+confidence", "memory": True, "draw": 0, "theta": 1.0}
LOOKED_UP = "hand: triggers, searches and memory"
DROPPED = "hand: what filters drop"
SKIPPED = "hand: what skipping a search changed"
DRAWN = "hand: over demonstration draws"


def film(answer: str = "Oslo") -> Asked:
    """Two bridges: Ann Dee is kept once and then dropped by confidence, Eva Roe is dropped by reasoning."""
    first = filtered(("Film N", None), ("director", "cot"), ("the actress Ann Dee", None), ("Bob", "confidence"))
    second = filtered(("Film N", None), ("Ann Dee", "confidence"), ("Eva Roe", "cot"))
    events = [
        *judged(False, True),
        understood(True),
        first,
        remembered(2),
        *judged(False, rewritten=True),
        *judged(True),
        skipped(),
        *judged(True),
        understood(True),
        second,
        remembered(5, conflicts=1),
        llm("draft", 100),
    ]
    titles = ("Film N (1999 film)", "Ann Dee (director)", "Eva Roe")
    return Asked("q1", answer, question=FILM, titles=titles, events=events)


def others(sure: str = "Rome", kept: str = "rome.") -> list[Asked]:
    """One that is sure of itself, and one whose bridge is kept."""
    names = filtered(("Eva Roe", None), ("X", "cot"))
    return [
        Asked("q2", sure, question="Who is Ann Dee?", titles=("Ann Dee",), events=judged(False, False)),
        Asked("q3", kept, titles=("Eva Roe",), events=[*judged(True), understood(False), names, remembered(1)]),
    ]


def remembering(folder: Path, **more: Any) -> Path:
    return doubting_run(folder, "both, draw 0", [film(), *others()], OPTIONS | more)


def tables(folder: Path) -> list[Table]:
    return tables_of(read_groups([folder]))


def value(cell: Any) -> float:
    assert isinstance(cell, Number)
    return round(cell.value, 2)


def test_triggers_and_memory_a_question(tmp_path: Path) -> None:
    remembering(tmp_path)
    found = cells(table(tables(tmp_path), LOOKED_UP), "both, draw 0")
    assert value(found["Judged"]) == round(7 / 3, 2), "what was written again is not judged"
    assert value(found["Triggers"]) == round(4 / 3, 2)
    assert value(found["Questions that trigger, %"]) == 66.67
    assert value(found["Skipped by memory"]) == 0.33
    assert value(found["Facts"]) == 2.0 and value(found["Conflicts"]) == 0.33, "as memory was in the end"
    assert value(found["Tokens"]) == 33.33


def test_each_filter_is_held_against_what_it_was_shown(tmp_path: Path) -> None:
    remembering(tmp_path)
    found = cells(table(tables(tmp_path), DROPPED), "both, draw 0")
    assert (value(found["Searches with names"]), value(found["Names each"])) == (3, 3)
    assert value(found["Dropped by CoT, %"]) == 33.33, "3 of 9"
    assert value(found["Dropped by confidence, %"]) == 33.33, "2 of the 6 that are left"
    assert value(found["Dropped, %"]) == 55.56
    assert value(found["CoT not understood, %"]) == 33.33


def test_relations_are_no_names(tmp_path: Path) -> None:
    """The model that reasons is shown none, so rates that count them could not be held against each other."""
    event = filtered(
        ("Film N", None), ("Ann Dee", None), ("Bob", "confidence"), ("Eva", "confidence"), filters="confidence"
    )
    event["candidates"] += [
        [name, "relation", "question", 0.5, "confidence"] for name in ("director", "mother", "born")
    ]
    doubting_run(tmp_path, "sure", [Asked("q", "Rome", events=[*judged(True), event])], OPTIONS)
    (group,) = read_groups([tmp_path])
    (found,) = look_ups_of(group.runs[0]).values()
    assert [one.name for one in found.filterings[0].names] == ["Film N", "Ann Dee", "Bob", "Eva"]
    shown = cells(table(tables(tmp_path), DROPPED), "sure")
    assert value(shown["Names each"]) == 4
    assert value(shown["Dropped by confidence, %"]) == value(shown["Dropped, %"]) == 50


def test_how_many_bridges_survive_each_filter(tmp_path: Path) -> None:
    remembering(tmp_path)
    found = cells(table(tables(tmp_path), DROPPED), "both, draw 0")
    assert (value(found["Bridges"]), value(found["Named, %"])) == (3, 100)
    assert value(found["Kept by CoT, %"]) == 75, "Ann Dee twice, Eva Roe once of twice"
    assert value(found["Kept by confidence, %"]) == 66.67, "Ann Dee once of twice, Eva Roe"
    assert value(found["Kept, %"]) == 50, "Ann Dee once of twice, Eva Roe once of twice"
    assert value(found["Searched with, %"]) == 66.67


def test_a_filter_that_is_not_set_has_no_rate(tmp_path: Path) -> None:
    asked = Asked("q", "Rome", titles=("Eva Roe",), events=[*judged(True), filtered(("Eva Roe", None), filters="none")])
    doubting_run(tmp_path, "no filter", [asked], OPTIONS | {"filters": "none"})
    found = cells(table(tables(tmp_path), DROPPED), "no filter")
    assert found["Dropped by CoT, %"] is None and found["Kept by confidence, %"] is None
    assert found["CoT not understood, %"] is None
    assert value(found["Dropped, %"]) == 0 and value(found["Kept, %"]) == 100


def test_titles_in_the_question_are_no_bridges() -> None:
    row = film().row()
    assert bridge_titles(row) == ("Ann Dee (director)", "Eva Roe")
    assert bridge_titles(others()[0].row()) == ()


def test_skips_are_held_against_the_same_run_without_memory(tmp_path: Path) -> None:
    remembering(tmp_path)
    without = [film("Rome"), *others(kept="Paris")]
    doubting_run(tmp_path, "memory off, draw 0", without, OPTIONS | {"memory": False})
    doubting_run(tmp_path, "another", without, OPTIONS | {"memory": False, "theta": 2.0})
    found = cells(table(tables(tmp_path), SKIPPED), "both, draw 0")
    assert found["Held against"] == "memory off, draw 0"
    assert (value(found["Skips"]), value(found["Questions with skips"])) == (1, 1)
    assert (value(found["Other answer, skipped, %"]), value(found["Other answer, not skipped, %"])) == (100, 50)
    assert (value(found["EM, skipped"]), value(found["EM, without memory"])) == (0, 100)
    assert (value(found["Lost"]), value(found["Won"])) == (1, 0)
    looked_up = cells(table(tables(tmp_path), LOOKED_UP), "memory off, draw 0")
    assert looked_up["Skipped by memory"] is None and looked_up["Facts"] is None
    assert len(table(tables(tmp_path), SKIPPED).rows) == 1


def test_without_such_a_run_it_is_not_known_what_skips_changed(tmp_path: Path) -> None:
    remembering(tmp_path)
    found = cells(table(tables(tmp_path), SKIPPED), "both, draw 0")
    assert value(found["Skips"]) == 1 and found["Held against"] is None and found["Lost"] is None


def test_the_spread_over_draws(tmp_path: Path) -> None:
    remembering(tmp_path)
    third = [film("Paris"), *others("Rome", "Oslo")]
    doubting_run(tmp_path, "both, draw 1", third, OPTIONS | {"draw": 1})
    doubting_run(tmp_path, "words, draw 1", third, OPTIONS | {"draw": 1, "sub_query": "words"})
    drawn = table(tables(tmp_path), DRAWN)
    assert [row.name for row in drawn.rows] == ["both"], "a single draw has no spread"
    found = cells(drawn, "both")
    assert value(found["Draws"]) == 2
    assert (value(found["EM"]), value(found["EM, sd"])) == (50.0, 23.57), "two of three, and one of three"
    assert (value(found["Triggers"]), value(found["Triggers, sd"])) == (1.33, 0)
    assert drawn.rows[0].run == "id-both,-draw-0 id-both,-draw-1"


def test_draws_are_no_sweep(tmp_path: Path) -> None:
    remembering(tmp_path)
    doubting_run(tmp_path, "both, draw 1", [film(), *others()], OPTIONS | {"draw": 1})
    doubting_run(tmp_path, "both, theta 2", [film(), *others()], OPTIONS | {"theta": 2.0})
    (group,) = read_groups([tmp_path])
    assert list(sweeps_of(group)) == ["theta"]


def test_steps_of_seakr_count_and_methods_without_doubts_do_not(tmp_path: Path) -> None:
    steps = [{"event": "decision", "kind": "step", "value": doubted, "text": "x"} for doubted in (True, False)]
    doubting_run(tmp_path, "seakr", [Asked("q", "Rome", events=steps)], {"draw": 0}, method="seakr")
    doubting_run(tmp_path, "direct", [Asked("q", "Rome", events=[llm("direct", 5)])], {}, method="direct")
    found = tables(tmp_path)
    looked_up = table(found, LOOKED_UP)
    assert [row.name for row in looked_up.rows] == ["seakr"]
    assert value(cells(looked_up, "seakr")["Triggers"]) == 1 and cells(looked_up, "seakr")["Facts"] is None
    assert not {DROPPED, SKIPPED, DRAWN} & {one.title for one in found}


def test_searches_stand_beside_each_other_data_set_by_data_set(tmp_path: Path) -> None:
    for name in ("one", "two"):
        out = doubting_run(tmp_path / name, "both", [film(), *others()], OPTIONS)
        about = json.loads((out / "run.json").read_text(encoding="utf-8"))
        about |= {"name": f"both on {name}", "rests_on": about["rests_on"] | {"data": name}}
        (out / "run.json").write_text(json.dumps(about), encoding="utf-8")
    found = table(tables(tmp_path), "Searches by data set")
    assert found.columns == ("one", "two") and [row.name for row in found.rows] == ["both"]


def test_the_page_and_the_csv_hold_the_tables(tmp_path: Path) -> None:
    remembering(tmp_path)
    groups = read_groups([tmp_path])
    assert "what filters drop" in make_page(groups)
    assert "Kept by confidence" in as_csv(tables_of(groups))


DAMAGED: list[Any] = [
    {"event": "decision", "kind": "filtered", "filters": 5, "candidates": [["a", None]]},
    {"event": "decision", "kind": "filtered", "filters": "cot", "candidates": [5]},
    {"event": "decision", "kind": "memory", "facts": "many", "conflicts": 5},
    {"event": "decision", "kind": "memory", "facts": 10**15 + 1, "conflicts": []},
    {"event": "decision", "kind": ["sentence"]},
    {"event": "parse", "step": "filter", "ok": None},
    {"event": "decision"},
]


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    events = [*judged(True), *DAMAGED, filtered(("Eva Roe", "cot"))]
    out = doubting_run(tmp_path, "both", [Asked("q", "Rome", titles=("Eva Roe",), events=events)], OPTIONS)
    with (out / TRACES).open("a", encoding="utf-8") as file:
        file.write('{"event": "decision", "kind": "sent')
    (group,) = read_groups([tmp_path])
    (found,) = look_ups_of(group.runs[0]).values()
    assert (found.judged, found.triggers, found.facts, found.unread) == (1, 1, None, 1)
    assert [one.names[0].name for one in found.filterings] == ["Eva Roe"]
    assert value(cells(table(tables(tmp_path), DROPPED), "both")["Kept, %"]) == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(["filtered", "memory", "skipped", "step"]), json_values, json_values)))
def test_no_record_breaks_the_tables(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, Any, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    names = ("filters", "candidates", "safe", "facts", "conflicts", "value")
    events: list[dict[str, Any]] = [
        {"event": "decision", "kind": kind, **{name: one for name in names[::2]}, **{name: two for name in names[1::2]}}
        for kind, one, two in told
    ]
    doubting_run(folder, "any", [Asked("q", "Rome", titles=("Eva Roe",), events=[*judged(True), *events])], OPTIONS)
    assert table(tables(folder), LOOKED_UP)
