"""The benchmark of TreeQA's traversals: its clock, its trees and its goals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import treeqa_latency
from benchmarks.treeqa_latency import Goal, main, measure
from benchmarks.treeqa_world import ONE_TOP, TREES, World, grown


def world(refuted: float = 0.0, unknown: float = 0.0, foreseen: float = 0.0) -> World:
    return World(1, refuted, unknown, foreseen, 0.5)


def test_trees_have_the_published_shape() -> None:
    trees = [grown(14, number) for number in range(TREES)]
    assert sum(len(tops) == 1 for tops in trees) == ONE_TOP
    assert max(top.levels for tops in trees for top in tops) == 3
    assert sum(top.size for tops in trees for top in tops) / TREES == pytest.approx(3.6, abs=0.05)


def test_the_clock_counts_sequential_calls() -> None:
    measured = measure(world(), 0.3, 2, lambda: None)
    serial, _, speculative = measured.ways
    assert serial.seconds == pytest.approx(0.1 * serial.calls) and speculative.seconds == pytest.approx(0.6)
    assert serial.refutations == serial.unknown == measured.different == 0
    foreseen = measure(world(foreseen=1.0), 0.3, 2, lambda: None).ways[2]
    assert foreseen.seconds == pytest.approx(0.5) and foreseen.calls == serial.calls


def test_all_traversals_give_the_same_trees_and_refutations_cost_calls() -> None:
    measured = measure(world(0.5, 0.1, 0.5), 1.2, 4, lambda: None)
    assert measured.different == 0 and measured.ways[0].refutations > 0
    faster, dearer = measured.times("speculative")
    assert faster > 1 and dearer > 1 and measured.times("serial") == (1, 1)


def test_a_missed_goal_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Goal("", 2.4, 2.5).missed and Goal("", 1.4, 1.3, most=True).missed and not Goal("", 2.5, 2.5).missed
    for least, missed in ((1000.0, True), (0.0, False)):
        monkeypatch.setattr(treeqa_latency, "GOALS", {0.3: (least, 1000.0)})
        assert main(["--trees", "2", "--json", str(tmp_path / "f.json")]) == int(missed)
        same, faster, tokens = json.loads((tmp_path / "f.json").read_text())["goals"]
        assert (same["value"], same["missed"], faster["missed"], tokens["missed"]) == (0, False, missed, False)
        assert faster["goal"] == least and faster["value"] > 1
        (line,) = (line for line in capsys.readouterr().out.splitlines() if "times as fast as serial" in line)
        assert line.endswith("FAIL" if missed else "pass")
