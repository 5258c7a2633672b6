"""`hoptree align skr`: from two runs that were really made to labels that skr decides by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from typer.testing import CliRunner, Result

import hoptree.methods.baselines.skr as module
from hoptree.cli.main import app
from hoptree.core.errors import InputError

REPLIES = [
    {"step": "think", "regex": "Context:[\\s\\S]*number 0", "reply": "So the answer is: zero."},
    {"step": "think", "contains": "Context:", "reply": "So the answer is: seven."},
    {"step": "think", "contains": "number 0", "reply": "So the answer is: seven."},
    {"step": "think", "reply": "So the answer is: one."},
]


def hoptree(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "m.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    rows = [
        {"id": f"q{n}", "question": f"Which film is number {n}?", "answers": [("zero", "one")[n]]} for n in range(2)
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = f"scripted/{tmp_path / 'm.json'}"
    usual = ("run", "--data", tmp_path / "train.jsonl", "--model", model, "--no-cache")
    ways = {"cot": (), "iter_retgen": ("--set", "rounds=1", "--corpus", "sample")}
    for method, more in ways.items():
        invoked = hoptree(*usual, "--method", method, *more, "--out", tmp_path / method)
        assert invoked.exit_code == 0, invoked.output
    return tmp_path


class Digits:
    identity = "digits"

    async def encode(self, texts: Any, *, role: str) -> Any:
        return numpy.array([[float(text.count(digit)) for digit in "01"] for text in texts])


def test_labels_that_skr_decides_by(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoked = hoptree("align", "skr", runs / "cot", runs / "iter_retgen", "--out", runs / "labels.jsonl")
    assert invoked.exit_code == 0, invoked.output
    assert invoked.output.splitlines() == [
        f"2 questions labelled by em, in {runs / 'labels.jsonl'}",
        "  documents made the answer: 1 better (50%), 0 tie (0%), 1 worse (50%)",
        "  no evaluation questions were excluded: name those you will measure on with --exclude",
    ]
    monkeypatch.setattr(module, "open_encoder", lambda name: Digits())
    usual = ("--method", "skr", "--corpus", "sample", "--model", f"scripted/{runs / 'm.json'}", "--no-cache", "--json")
    settings = ("--set", "how=knn", "--set", f"labels={runs / 'labels.jsonl'}", "--set", "neighbours=1")
    for number, answer in enumerate(("zero", "one")):
        asked = hoptree("ask", f"Which film is number {number}?", *usual, *settings)
        assert json.loads(asked.output)["answer"] == answer


def test_one_object_and_refusals(runs: Path) -> None:
    out = runs / "labels.jsonl"
    summary = json.loads(hoptree("align", "skr", runs / "cot", runs / "iter_retgen", "--out", out, "--json").output)
    assert summary["labels"] == {"better": 1, "worse": 1, "tie": 0}
    swapped = hoptree("align", "skr", runs / "iter_retgen", runs / "cot", "--out", out)
    assert isinstance(swapped.exception, InputError) and swapped.exception.exit_code == 2
    assert "first" in str(swapped.exception)
    assert "how=knn" in hoptree("align", "skr", "--help").output
