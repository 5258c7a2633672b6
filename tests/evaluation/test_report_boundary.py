"""Reports on what models know of what they know, and on whether judges agree."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.report_runs import HOSTILE, cells, data, right, run, script, table

from hoptree.core.errors import InputError
from hoptree.evaluation.boundary import BOUNDARY
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page
from hoptree.evaluation.running import RunOptions, judge_run, run_experiment
from hoptree.models.scripted import ScriptedModel


def awareness(**more: Any) -> dict[str, Any]:
    flip = {"question": HOSTILE, "direct": "Rome", "confident": "Milan", "direct_correct": True}
    counts = {"questions": 8, "answered": 6, "refused": 2, "failed": 0, "overconfident": 2, "underconfident": 1}
    f1 = {"direct_f1": 0.5, "confident_f1": 0.75, "kept_f1": 0.7, "knowledge_gap_f1": 0.25, "gap_f1": 0.5}
    curve = [{"coverage": 0.5, "precision": 1.0}, {"coverage": 1.0, "precision": 0.5}]
    other: dict[str, Any] = {"consistency_f1": 0.9, "precision": 0.6, "judge": None}
    flips = [flip | {"confident_correct": False}] * 30
    return counts | f1 | other | {"probability": {"ece": 0.125, "curve": curve}, "flips": flips} | more


def measured(folder: Path, called: str, count: int, **more: Any) -> Path:
    """A run over so many questions, with a measurement in its folder."""
    folder.mkdir(exist_ok=True)
    model = script(folder / "model.json", right(range(count)))
    wanted = Experiment(data(folder, count), method="direct", model=model, name=f"{called} on {folder.name}")
    asyncio.run(run_experiment(wanted, folder / called, RunOptions(cache=None)))
    (folder / called / BOUNDARY).write_text(json.dumps(awareness(**more)), encoding="utf-8")
    return folder / called


def test_boundary_awareness_of_several_models_on_several_data_sets(tmp_path: Path) -> None:
    nq, popqa = tmp_path / "nq", tmp_path / "popqa"
    outs = [measured(nq, "big", 8, usable=True), measured(nq, "small", 8, confident_f1=0.25, gap_f1=0, usable=False)]
    groups = read_groups([*outs, measured(popqa, "big", 7, confident_f1=1.0, usable=None)])
    tables = tables_of(groups)
    bounds = table(tables, "Knowledge-boundary awareness")
    assert [row.name for row in bounds.rows] == ["big (nq)", "small (nq)", "big (popqa)", "big (mean of 2)"]
    assert cells(bounds, "big (nq)")["Gap F1"].value == 50 and cells(bounds, "big (nq)")["ECE"].value == 0.125
    mean = cells(bounds, "big (mean of 2)")
    assert mean["Confident knowledge F1"].value == 87.5 and mean["Questions"].value == 16
    assert mean["Consistency judged"] is None and cells(bounds, "small (nq)")["Sure and wrong"].value == 2
    assert (cells(bounds, "big (nq)")["Usable"], cells(bounds, "small (nq)")["Usable"]) == ("yes", "no")
    assert cells(bounds, "big (popqa)")["Usable"] is None and mean["Usable"] is None, "nobody can tell"
    others = table(tables, "Knowledge-boundary awareness: other scores")
    assert cells(others, "big (mean of 2)")["Direct QA F1 where confident"].value == 70
    flips = table(tables, "Answers that changed with the setting")
    assert len(flips.rows) == 15 and flips.rows[0].cells[1:] == ("Rome", "Milan", "Direct QA")
    assert flips.notes == ("75 more are in the runs' folders.",)
    text = make_page(groups)
    assert "<h3>Consistency of models, F1</h3>" in text and "popqa, small: n/a" in text
    assert "big: 100.0 at 50.0, 50.0 at 100.0; its own word 60.0 at 75.0" in text
    assert "<img" not in text.lower()


def test_two_judges_are_held_against_each_other(tmp_path: Path) -> None:
    out = run(tmp_path, "good", right(range(8)))
    (tmp_path / "yes.json").write_text('{"replies": [{"reply": "Yes"}]}', encoding="utf-8")
    replies = [{"contains": "number 1?", "reply": "No"}, {"reply": "Yes"}]
    (tmp_path / "strict.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    for name in ("yes", "strict"):
        judge = ScriptedModel(str(tmp_path / f"{name}.json"))
        asyncio.run(judge_run(out, judge, cache=None))
        assert bool([one for one in tables_of(read_groups([out])) if "judges" in one.title]) is (name == "strict")
    found = list(cells(table(tables_of(read_groups([out])), "numbers: judges"), "good").values())
    assert [cell.value if cell else None for cell in found] == [100, 87.5, 87.5, 0]
    assert found[2].questions == 8


@pytest.mark.parametrize("damage", ["[]", '{"questions": 3}', "{", '{"direct_f1": "high"}', '{"flips": [1]}', "[1]"])
def test_a_measurement_that_is_none_is_refused(tmp_path: Path, damage: str) -> None:
    out = measured(tmp_path / "nq", "big", 4)
    (out / BOUNDARY).write_text(damage, encoding="utf-8")
    with pytest.raises(InputError, match=r"boundary\.json is not a measurement"):
        tables_of(read_groups([out]))


def test_a_model_that_was_asked_nothing_has_no_figures(tmp_path: Path) -> None:
    empty = dict.fromkeys(awareness(), None) | {"questions": 0, "answered": 0, "refused": 0, "flips": []}
    out = measured(tmp_path / "nq", "big", 4, **empty)
    bounds = table(tables_of(read_groups([out])), "Knowledge-boundary awareness")
    assert cells(bounds, "big (nq)")["Direct QA F1"] is None, "n/a, never 0"
    assert "Consistency" in make_page(read_groups([out]))
