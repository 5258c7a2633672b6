"""`hoptree eval boundary` at the command line: a table and a verdict, one JSON object, plain errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets.reading import half_of

REPLIES = [
    {"step": "judge", "reply": "No"},
    {"step": "confident", "contains": "number 0?", "reply": "answer 0"},
    {"step": "confident", "contains": "number 1?", "reply": "\x1b[31mMilan"},
    {"step": "confident", "reply": "RAG_REQUIRED"},
    {"step": "direct", "regex": "number [01]\\?", "reply": "answer 0"},
    {"step": "direct", "reply": "Lima"},
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "m.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    for name in ("nq", "popqa"):
        rows = [
            {"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {min(n, 2) // 2 * n}"]}
            for n in range(5)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def boundary(here: Path, *arguments: object) -> Result:
    usual = ["--model", f"scripted/{here / 'm.json'}", "--out", str(here / "out"), "--no-cache"]
    return CliRunner().invoke(app, ["eval", "boundary", *usual, *map(str, arguments)])


def test_a_table_and_a_verdict(here: Path) -> None:
    printed = boundary(here, "--data", here / "nq.jsonl", "--data", here / "popqa.jsonl")
    assert printed.exit_code == 0, printed.exception
    lines = printed.output.splitlines()
    assert lines[0] == f"scripted/{here / 'm.json'}"
    assert lines[1].split("  ")[-1] == "Right if sure" and "Confident F1" in lines[1]
    assert [line.split()[0] for line in lines[2:6]] == ["nq", "popqa", "all", "mean"]
    assert lines[2].split()[1:4] == ["5", "3", "60.0"] and lines[4].split()[1:4] == ["10", "6", "60.0"]
    assert "n/a" in lines[5] and "judged" not in printed.output
    assert "sure and wrong: 2; refused and right: 0; failed, and so wrong if asked directly: 0" in printed.output
    assert "  What is number 1?  answer 0 (right) -> [31mMilan\n" in printed.output, "and no control sequence"
    assert "sure of 4 questions and refused 6: too few to tell" in lines[-1]


def test_one_object_and_nothing_else(here: Path) -> None:
    summary = json.loads(boundary(here, "--data", here / "nq.jsonl", "--json", "--limit", 4, "--seed", 3).output)
    (model,) = summary["models"]
    assert summary["folder"] == str(here / "out") and model["sets"]["nq"]["questions"] == 4
    assert model["folders"] == {"nq": str(here / "out" / "nq")} and model["all"] is None


def test_judged_figures_have_a_table_of_their_own(here: Path) -> None:
    judge = ("--judge", f"scripted/{here / 'm.json'}")
    printed = boundary(here, "--data", here / "nq.jsonl", *judge)
    assert "Direct judged" in printed.output and "Same, judged" in printed.output


def test_an_experiment_file(here: Path) -> None:
    plan = here / "plan.yaml"
    plan.write_text(
        "data: {NQ: {questions: nq.jsonl}}\nevery: {method: boundary, limit: 2}\nruns: {mine: {}}\n", encoding="utf-8"
    )
    printed = boundary(here, plan, "--data", here)
    assert printed.exit_code == 0 and printed.output.startswith("mine\n")
    assert (here / "out" / "NQ" / "mine" / "boundary.json").exists()
    printed = boundary(here, plan, "--limit", 2)
    assert printed.exit_code == 0, "paths are relative to the file's own folder where no other is told"


def test_one_half_of_a_data_set_is_measured_on(here: Path) -> None:
    plan = here / "plan.yaml"
    text = "data: {nq: {questions: nq.jsonl, half: second}, popqa: {questions: popqa.jsonl}}\n"
    plan.write_text(text + "runs: {boundary: {method: boundary}}\n", encoding="utf-8")
    measured = boundary(here, plan, "--data", here, "--json")
    assert measured.exit_code == 0, measured.exception
    (model,) = json.loads(measured.output)["models"]
    second = [f"q{n}" for n in range(5) if half_of(f"q{n}") == "second"]
    assert 0 < model["sets"]["nq"]["questions"] == len(second) < model["sets"]["popqa"]["questions"] == 5
    run = json.loads((Path(model["folders"]["nq"]) / "run.json").read_text(encoding="utf-8"))
    assert run["questions"] == second and run["experiment"]["half"] == "second"


def test_what_hoptree_run_has_asked_is_only_measured(here: Path) -> None:
    plan = here / "plan.yaml"
    plan.write_text("data: {NQ: {questions: nq.jsonl}}\nruns: {mine: {method: boundary}}\n", encoding="utf-8")
    usual = ["--model", f"scripted/{here / 'm.json'}", "--out", str(here / "out"), "--no-cache"]
    asked = CliRunner().invoke(app, ["run", str(plan), *usual])
    assert asked.exit_code == 0, asked.exception
    results = here / "out" / "NQ" / "mine" / "results.jsonl"
    before = results.read_bytes()
    assert boundary(here, plan).exit_code == 0 and results.read_bytes() == before
    assert json.loads((results.parent / "boundary.json").read_text(encoding="utf-8"))["questions"] == 5


def test_what_cannot_be_asked_is_a_sentence(here: Path) -> None:
    for arguments, kind, words in (
        ((), InputError, "no questions"),
        ((here / "plan.yaml",), InputError, "cannot be read"),
        ((here / "plan.yaml", "--data", here, "--data", here), InputError, "one folder"),
        (("--data", here / "none.jsonl"), InputError, "none.jsonl"),
        (("--data", here / "nq.jsonl", "--judge", "nobody"), ConfigError, "names no model"),
    ):
        result = boundary(here, *arguments)
        assert isinstance(result.exception, kind) and words in str(result.exception), arguments
        assert result.exception.remedy


def test_questions_that_cannot_be_scored_are_told(here: Path) -> None:
    broken = {"id": "q5", "question": "What is number 5?", "answers": ["[", "'", "A", "p", "l", "e", "]"]}
    with (here / "nq.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(broken) + "\n")
    printed = boundary(here, "--data", here / "nq.jsonl")
    assert "\n  1 question of nq was left out: with accepted answers that are a printed list" in printed.output
    counts = json.loads(boundary(here, "--data", here / "nq.jsonl", "--json").output)["models"][0]["sets"]["nq"]
    assert counts["questions"] == 5 and any("(the first: q5)" in warning for warning in counts["warnings"])
