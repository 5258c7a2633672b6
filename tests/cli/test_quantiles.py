"""What thresholds are set by: how sure a run's names were, and how far its steps were apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.cli.show import quantiles


def traced(folder: Path, *questions: list[dict[str, Any]]) -> Path:
    lines = []
    for number, events in enumerate(questions):
        method = "seakr" if any(event.get("kind") == "step" for event in events) else "mind"
        begin = {"event": "start", "question": f"Who is {number}?", "question_id": f"q{number}", "method": method}
        for event in (begin, *events, {"event": "final", "answer": ""}):
            lines.append(json.dumps({"run": f"r{number}", "t": 0.0, **event}) + "\n")
    (folder / "t.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder / "t.jsonl"


def shown(path: Path, *more: str) -> str:
    done = CliRunner().invoke(app, ["show", str(path), *more])
    assert done.exit_code == 0, done.output
    return done.output


def filtered(*names: tuple[str, float, str | None]) -> list[dict[str, Any]]:
    reply = {
        "event": "decision",
        "kind": "sentence",
        "value": True,
        "text": "It is.",
        "words": [],
        "theta": 1.0,
        "hits": [],
        "highest": 2.0,
        "rewritten": False,
    }
    candidates = [[name, "entity", "question", sure, dropped] for name, sure, dropped in names]
    chosen = {"event": "decision", "kind": "filtered", "value": [], "filters": "cot", "candidates": candidates}
    return [reply, chosen]


def step(spread: float | None) -> list[dict[str, Any]]:
    return [{"event": "decision", "kind": "step", "value": True, "text": "It is.", "spread": spread, "theta": -6.0}]


def test_quantiles_are_between_the_nearest_values() -> None:
    assert quantiles([5.0]) == (5.0,) * 5
    assert quantiles([1.0, 0.0]) == (0.1, 0.25, 0.5, 0.75, 0.9)
    assert quantiles([float(n) for n in range(101)]) == (10.0, 25.0, 50.0, 75.0, 90.0)


def test_the_names_of_several_questions_are_told_with_their_confidence(tmp_path: Path) -> None:
    first = filtered(("A", 0.0, None), ("B", 1.0, "confidence"), ("C", 9.0, "cot"))
    text = shown(traced(tmp_path, first, filtered(("D", 0.5, None))))
    lines = (
        "confidence of 3 names: 10 % lie below 0.10, 25 % below 0.25, 50 % below 0.50, 75 % below 0.75, 90 % below 0.90"
    )
    assert f"\n{lines} (--set cut=… drops what lies below)\n" in text, "what the filter before dropped it never saw"


def test_the_steps_of_several_questions_are_told_with_their_spread(tmp_path: Path) -> None:
    text = shown(traced(tmp_path, step(-6.0), [*step(-4.0), *step(None)]))
    assert "\nU of 2 steps: 10 % lie below -5.80, 25 % below -5.50, 50 % below -5.00, " in text
    assert "(--set theta=… looks up what lies above)" in text


def test_one_question_or_none_of_these_methods_tells_no_quantile(tmp_path: Path) -> None:
    assert "lie below" not in shown(traced(tmp_path, filtered(("A", 0.0, None))))
    two = traced(tmp_path, filtered(("A", 0.0, None)), filtered(("B", 1.0, None)))
    assert "lie below" in shown(two) and "lie below" not in shown(two, "--id", "q1")
    assert "lie below" not in shown(traced(tmp_path, [], []))
    assert "lie below" not in shown(two, "--json")
