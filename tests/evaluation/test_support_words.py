"""`hoptree eval support`: how often each word about an answer's support is right, from stored runs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.command_line import call as call_in

from hoptree.core.errors import InputError
from hoptree.evaluation.calibration import NO_ANSWER, measure_support

PAGES = {"A": "Ada Moor was born in Lund.", "B": "Bo Ek was born in Oslo.", "C": "Cy Dahl was born in Rome."}
QUESTIONS = {
    "Where was Ada Moor born?": ("Lund", "Lund"),  # stated, and right
    "Where was Bo Ek born?": ("Oslo", "Bergen"),  # stated, and wrong
    "Where was Cy Dahl born?": ("Paris", "Paris"),  # a guess, and right
    "Where was Dee Lund born?": ("", "Rome"),  # none
}


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call_in(*arguments, folder=Path("/tmp"), environment=os.environ)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("support")
    corpus = [{"id": name, "title": name, "text": text} for name, text in PAGES.items()]
    asked = [
        {"id": str(number), "question": question, "answers": [gold]}
        for number, (question, (_, gold)) in enumerate(QUESTIONS.items())
    ]
    replies = [{"contains": question, "reply": reply or "I don't know"} for question, (reply, _) in QUESTIONS.items()]
    for name, rows in (("corpus.jsonl", corpus), ("data.jsonl", asked)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "model.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    assert call("index", str(folder / "corpus.jsonl"), "--out", str(folder / "idx")).returncode == 0
    places = ("--data", str(folder / "data.jsonl"), "--corpus", str(folder / "idx"), "--out", str(folder / "run"))
    done = call("run", *places, "--method", "oner", "-m", f"scripted/{folder / 'model.json'}", "--no-cache")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_answers_are_counted_by_their_word(run: Path) -> None:
    told = {each.word: each for each in measure_support([run])}
    assert {word: each.answers for word, each in told.items()} == {
        "well supported": 2,
        "partly supported": 0,
        "a guess": 1,
        NO_ANSWER: 1,
    }
    right = told["well supported"].right
    assert right is not None and right.mean == 0.5 and told["partly supported"].right is None
    both = {each.word: each.answers for each in measure_support([run, run])}
    assert both["well supported"] == 4


def test_the_command_prints_the_table_and_json(run: Path) -> None:
    text = call("eval", "support", str(run)).stdout
    assert (
        "well supported" in text
        and "50.0" in text
        and text.splitlines()[0].split() == ["called", "answers", "right", "F1"]
    )
    rows = json.loads(call("eval", "support", str(run), "--json").stdout)
    assert [row["answers"] for row in rows] == [2, 0, 1, 1] and rows[2]["right"]["mean"] == 1.0


def test_a_folder_of_runs_is_taken_and_one_without_a_run_refused(run: Path, tmp_path: Path) -> None:
    assert call("eval", "support", str(run.parent)).stdout == call("eval", "support", str(run)).stdout
    for folder in (tmp_path, tmp_path / "none"):
        done = call("eval", "support", str(folder))
        assert done.returncode == 2 and f"{folder} holds no run" in done.stderr


def test_a_run_without_traces_is_refused(run: Path, tmp_path: Path) -> None:
    for name in ("run.json", "results.jsonl"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with pytest.raises(InputError, match="has no traces"):
        measure_support([tmp_path])
