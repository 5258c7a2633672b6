"""Judging and repeating runs from the command line: what is printed, and the exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.small_indexes import hoptree

COUNT = 12


@pytest.fixture(scope="module")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions, a model that knows half of the answers, two judges, and a run."""
    folder = tmp_path_factory.mktemp("made")
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(COUNT)]
    (folder / "numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    known = [{"contains": f"number {n}?", "reply": f"answer {n}"} for n in range(6)]
    script(folder, "model.json", *known, {"reply": "\u001b[31mnonsense"})
    right = [{"contains": f"Predicted answer: answer {n}\n", "reply": "Yes"} for n in range(6)]
    script(folder, "judge.json", *right, {"contains": "number 11?", "reply": "Perhaps"}, {"reply": "No"})
    script(folder, "kind.json", {"reply": "Yes"})
    done = hoptree(folder, *RUN, "--out", "run")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def home(prepared_home: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared_home, tmp_path / "home")


RUN = ("run", "--data", "numbers.jsonl", "--method", "direct", "-m", "scripted/model.json", "--no-cache")


def script(folder: Path, name: str, *replies: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps({"replies": replies}), encoding="utf-8")


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_judges_their_agreement_and_what_compare_makes_of_them(home: Path) -> None:
    first = hoptree(home, "eval", "judge", "run", "-m", "scripted/judge.json")
    assert first.returncode == 0, first.stderr
    assert "12 answers judged by scripted/judge.json" in first.stdout
    assert "accuracy  50.0 %" in first.stdout and "unparsed  8.3 %" in first.stdout
    second = hoptree(home, "eval", "judge", ".", "-m", "scripted/kind.json", "--json")
    (comparison,) = json.loads(second.stdout)["runs"]
    assert comparison["judge"]["accuracy"] == 1.0
    assert comparison["agreement"] == {
        "scripted/judge.json": {"questions": 11, "rate": pytest.approx(6 / 11), "kappa": pytest.approx(0)}
    }
    assert hoptree(home, *RUN, "--out", "other", "--judge", "scripted/judge.json").returncode == 0
    done = hoptree(home, "eval", "compare", "run", "other", "--metric", "judge:scripted/judge.json", "--json")
    assert json.loads(done.stdout)["metrics"]["judge:scripted/judge.json"][0]["difference"] == 0
    refused(
        hoptree(home, "eval", "compare", "run", "other", "--metric", "judge"), "different models", "--metric judge:NAME"
    )


def test_an_experiment_file_can_name_a_judge(home: Path) -> None:
    plan = (
        "data: {numbers: {questions: numbers.jsonl}}\n"
        "every: {model: scripted/model.json, judge: scripted/judge.json}\n"
        "runs:\n  strict: {method: direct}\n  kind: {method: direct, judge: scripted/kind.json}\n"
    )
    (home / "plan.yaml").write_text(plan, encoding="utf-8")
    done = hoptree(home, "run", "plan.yaml", "--out", "runs", "--json")
    assert done.returncode == 0, done.stderr
    assert [run["metrics"]["judge"]["mean"] for run in json.loads(done.stdout)] == [0.5, 1.0]


def test_what_cannot_be_judged_is_refused(home: Path) -> None:
    refused(hoptree(home, "eval", "judge", "run"), "--model")
    refused(hoptree(home, "eval", "judge", "nowhere", "-m", "scripted/kind.json"), "holds no run")
    refused(hoptree(home, "eval", "judge", "run", "-m", "nonsense"), "names no model")


def test_a_run_comes_out_again(home: Path) -> None:
    done = hoptree(home, "eval", "reproduce", "run")
    assert done.returncode == 0, done.stderr
    assert "everything that it depends on is the same" in done.stdout
    assert done.stdout.splitlines()[-1] == "reproduced: 12 of 12 answers identical, F1 50.0 against 50.0"
    assert (home / "run-again" / "run.json").exists()


def test_a_run_that_does_not_come_out_again_leaves_with_1(home: Path) -> None:
    script(home, "model.json", {"reply": "nothing"})
    done = hoptree(home, "eval", "reproduce", "run", "--out", "again")
    assert done.returncode == 1 and not done.stderr
    assert "changed: model was scripted:" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not reproduced: 0 of 12 answers identical, F1 0.0 against 50.0")
    reproduction = json.loads(hoptree(home, "eval", "reproduce", "run", "--out", "third", "--json").stdout)
    assert reproduction["reproduced"] is False and len(reproduction["unlike"]) == 12
    assert reproduction["failed"] == {"was": 0, "is": 0, "both": 0}


def test_what_cannot_be_told_leaves_with_1(home: Path) -> None:
    hoptree(home, "run", "--data", "numbers.jsonl", "--method", "direct", "-m", "scripted/model.json", "--out", "few",
            "--limit", "4", "--no-cache")  # fmt: skip
    script(home, "model.json", {"reply": "nothing"})
    done = hoptree(home, "eval", "reproduce", "few", "--tolerance", "1")
    assert done.returncode == 1 and done.stdout.splitlines()[-1].startswith("cannot be told: 0 of 4")


def test_a_run_that_cannot_be_made_again_leaves_with_2(home: Path) -> None:
    (home / "numbers.jsonl").unlink()
    refused(hoptree(home, "eval", "reproduce", "run"), "--data FILE")
    refused(hoptree(home, "eval", "reproduce", "nowhere"), "holds no run")
