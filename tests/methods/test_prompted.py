"""Where a method's paper trained a model and another one is asked, everything that shows its fidelity says so."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line import call
from tests.methods.another import registered

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import Method
from hoptree.methods.steps.answer import direct_answer


async def tuned(question: Question, ctx: Context, *, checkpoint: bool = False) -> Answer:
    """Ask a model that was trained to answer."""
    return await direct_answer(ctx, question.text)


@pytest.fixture(autouse=True)
def there() -> Iterator[Method]:
    with registered(tuned, trained=True) as method:
        yield method


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "script.json").write_text(json.dumps({"replies": [{"reply": "Paris"}]}), encoding="utf-8")
    rows = [{"id": "a", "question": "Where?", "answers": ["Paris"]}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def hoptree(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = call(*arguments, folder=home, environment={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    return done


ASK = ("ask", "Where?", "--method", "tuned", "-m", "scripted/script.json")


@pytest.mark.parametrize(("setting", "fidelity"), [((), "prompted"), (("--set", "checkpoint=on"), "exact")])
def test_an_answer_says_so(home: Path, setting: tuple[str, ...], fidelity: str) -> None:
    remark = "prompted where its paper trained a model"
    assert (remark in hoptree(home, *ASK, *setting).stdout) == (fidelity == "prompted")
    assert json.loads(hoptree(home, *ASK, *setting, "--json").stdout)["fidelity"] == fidelity
    hoptree(home, *ASK, *setting, "--trace", "t.jsonl")
    assert (remark in hoptree(home, "show", "t.jsonl").stdout) == (fidelity == "prompted")


def test_a_run_and_its_report_say_so(home: Path) -> None:
    run = ("run", "--data", "data.jsonl", "--method", "tuned", "-m", "scripted/script.json")
    hoptree(home, *run, "--out", "runs/plain")
    hoptree(home, *run, "--set", "checkpoint=on", "--out", "runs/trained")
    stored = {name: json.loads((home / "runs" / name / "run.json").read_text("utf-8")) for name in ("plain", "trained")}
    assert {name: run["fidelity"] for name, run in stored.items()} == {"plain": "prompted", "trained": "exact"}
    hoptree(home, "eval", "report", "runs", "--html", "report.html")
    assert "prompted" in (home / "report.html").read_text("utf-8")
