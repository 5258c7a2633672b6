"""`hoptree align build` at the command line: counts, one JSON object, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets.reading import half_of
from hoptree.retrieval.indexing import build_index

REPLIES = [{"step": "direct", "contains": "number 0?", "reply": "zero"}, {"step": "direct", "reply": "\x1b[31mMilan"}]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "m.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    words = ("zero", "one", "two", "three")
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [words[n]]} for n in range(4)]
    write(tmp_path / "questions.jsonl", rows)
    return tmp_path


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def align(here: Path, *arguments: object, kind: str = "ra-isf-know", data: str = "questions.jsonl") -> Result:
    usual = ["--data", here / data, "--out", here / "out.jsonl", "--model", f"scripted/{here / 'm.json'}", "--no-cache"]
    return CliRunner().invoke(app, ["align", "build", kind, *map(str, (*usual, *arguments))])


def test_counts_and_lengths(here: Path) -> None:
    printed = align(here)
    assert printed.exit_code == 0, printed.exception
    lines = printed.output.splitlines()
    assert lines[0] == f"ra-isf-know: 4 rows from 4 of 4 questions, in {here / 'out.jsonl'}"
    assert lines[1].startswith("  labels by the answers of scripted/") and lines[1].endswith("F1 of 0.8 on")
    assert lines[2].split() == ["questions", "3", "no", "(75%),", "1", "yes", "(25%)"]
    assert lines[-2] == "  4 questions do not say of which split they are, nor does their file's name"
    assert lines[-1] == "  no evaluation questions were excluded: name those you will measure on with --exclude"
    assert len((here / "out.jsonl").read_text(encoding="utf-8").splitlines()) == 4


def test_one_object_and_nothing_else(here: Path) -> None:
    excluded = write(here / "dev.jsonl", [{"id": "q3", "dataset": "questions", "question": "Which?", "answers": ["x"]}])
    summary = json.loads(align(here, "--json", "--exclude", excluded, "--balance", 1, "--seed", 2).output)
    assert summary["labels"] == {"yes": 1, "no": 1} and summary["questions"] == {"read": 4, "asked": 3, "in_rows": 2}
    assert summary["excluded"] == {"files": [str(excluded)], "questions": 1, "without_steps": 1}
    assert summary["left_out"] == {"evaluation question by id": 1, "'no' by balance": 1}
    assert summary["prompt_words"]["max"] > 10 and summary["failed"] == []


def test_hop_is_built_from_several_corpora(here: Path) -> None:
    rows = [
        {"id": f"q{n}", "dataset": "nq", "question": f"Who has {n}?", "answers": ["x"], "hops": 1} for n in range(4)
    ]
    write(here / "dev.jsonl", rows)
    split = ("--any-split", "--exclude", f"{here / 'dev.jsonl'}:3")
    printed = align(here, *split, kind="hop", data="dev.jsonl")
    assert printed.exit_code == 0, printed.exception
    assert (
        printed.output.startswith("hop: 1 row from 1 of 4 questions")
        and "3 evaluation question by id" in printed.output
    )
    for corpora, why in (("a=x.idx a=y.idx", "given twice for a"), ("x.idx y.idx", "given twice for all data sets")):
        refused = align(here, *split, *(f"--corpus={name}" for name in corpora.split()), kind="hop", data="dev.jsonl")
        assert isinstance(refused.exception, InputError) and why in str(refused.exception)
    refused = align(here, "--corpus", "x.idx", "--corpus", "y.idx", kind="ra-isf-relevance")
    assert isinstance(refused.exception, InputError) and "Only hop" in str(refused.exception)
    refused = align(here, "--rows", 3)
    assert isinstance(refused.exception, InputError) and "--rows is for hop" in str(refused.exception)


def test_sampled_runs_are_counted(here: Path) -> None:
    build_index(
        write(here / "corpus.jsonl", [{"id": "p0", "title": "Zero", "text": "Zero is number 0 of all."}]), here / "idx"
    )
    reply = "Zero\nSentence: Zero is number 0 of all."
    replies = [{"step": "read", "contains": "number 0?", "reply": reply}, {"step": "decompose", "reply": "{}"}]
    (here / "m.json").write_text(json.dumps({"replies": [*replies, {"reply": "NOT FOUND"}]}), encoding="utf-8")
    (here / "ids.txt").write_text("q2\nq3\n", encoding="utf-8")
    arguments = ("--corpus", here / "idx", "--exclude", f"questions={here / 'ids.txt'}", "--samples", 2)
    printed = align(here, *arguments, "--temperature", 0.5, kind="sampled")
    assert printed.exit_code == 0, printed.exception
    output = printed.output.splitlines()
    assert output[0].startswith("sampled: 2 rows from 2 of 4 questions")
    assert output[1].endswith("at temperature 0.5, 2 a question: 2 with the right answer")
    assert output[2] == "  by their evidence: 0 plans and 2 first readings were right"
    assert "  left out: 2 evaluation question by id" in output
    assert "  left out: 2 questions: samples whose first reading was wrong" in output
    for option in ("--samples", "--temperature"):
        refused = align(here, option, 1)
        assert isinstance(refused.exception, InputError) and f"{option} is for sampled" in str(refused.exception)


def test_evaluation_questions_are_refused(here: Path) -> None:
    write(here / "dev.jsonl", [{"id": "q0", "question": "What is number 0?", "answers": ["zero"]}])
    refused = align(here, data="dev.jsonl")
    assert isinstance(refused.exception, InputError) and refused.exception.exit_code == 2
    assert not (here / "out.jsonl").exists()


def test_the_excluded_file_itself_is_refused(here: Path) -> None:
    refused = align(here, "--exclude", here / "questions.jsonl")
    assert isinstance(refused.exception, InputError) and "among the excluded" in str(refused.exception)


def test_questions_that_failed_end_in_1_and_a_sentence(here: Path) -> None:
    replies = [{"contains": "number 2?", "fault": "401"}, *REPLIES]
    (here / "m.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    printed = align(here)
    assert printed.exit_code == 1 and "left out: 1 not answered by the model" in printed.output
    assert "1 question was not answered" in printed.stderr and "asks again" in printed.stderr


def test_a_file_named_for_evaluation_is_refused_whatever_its_rows_say(here: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": ["zero"]} for n in range(2)]
    write(here / "dev.jsonl", [row | {"source_split": "train"} for row in rows])
    refused = align(here, data="dev.jsonl")
    assert isinstance(refused.exception, InputError) and refused.exception.exit_code == 2
    assert "--exclude" in str(refused.exception)
    assert not (here / "out.jsonl").exists()
    measured = write(here / "measured.jsonl", rows[:1])
    assert align(here, "--exclude", measured, data="dev.jsonl").exit_code == 0


def test_what_should_be_known_is_said_and_the_set_is_built(here: Path) -> None:
    write(here / "questions.jsonl", [{"id": "q", "question": "What is number 0?", "answers": ["zero"]}])
    printed = align(here)
    assert printed.exit_code == 0 and "All rows have" not in printed.stderr
    assert "the label 'yes'" in printed.stderr
    assert len(json.loads(align(here, "--json").output)["warnings"]) == 1
    refused = align(here, "--balance", 1)
    assert isinstance(refused.exception, InputError) and refused.exception.exit_code == 2
    assert "no --balance" in str(refused.exception)


def test_sub_questions(here: Path) -> None:
    steps = ["Which country is A from?", "Which country is B from?", "Is #1 the same as #2?"]
    row = {"id": "q", "question": "Are A and B from one country?", "answers": ["no"], "decomposition": steps}
    write(here / "questions.jsonl", [row | {"source_split": "train"}])
    printed = align(here, kind="ra-isf-decompose")
    assert printed.exit_code == 0 and "1 row from 1 of 1 questions" in printed.output


def test_a_set_for_the_boundary_of_one_half(here: Path) -> None:
    printed = align(here, "--half", "first", kind="kbae")
    assert printed.exit_code == 0, printed.exception
    asked = [n for n in range(4) if half_of(f"q{n}") == "first"]
    assert 1 < len(asked) < 4
    lines = printed.output.splitlines()
    assert lines[0].startswith(f"taikc-kbae: {len(asked)} rows from {len(asked)} of 4 questions")
    assert "right by exact match, and for it alone" in lines[1]
    assert any(line.split()[:2] == ["gap", str(len(asked) - (0 in asked))] and "Table 6" in line for line in lines)
    assert lines[-2] == "  checked against 1 question of the other half"
    assert lines[-1] == "  1 of 1 excluded questions tells no steps: only their ids and words were compared"


def test_a_set_from_gold_in_the_form_of_another_program(here: Path) -> None:
    steps = {
        "decomposition": ["Who is the director of Alpha?", "Where was #1 born?"],
        "decomposition_answers": ["X", "Y"],
    }
    row = {"id": "q", "question": "Where was the director of Alpha born?", "answers": ["Y"]}
    write(here / "questions.jsonl", [row | steps])
    out = here / "sets" / "gold.json"
    printed = align(here, "--format", "llama-factory", "--out", out, kind="gold")
    assert printed.exit_code == 0, printed.exception
    assert "1 decompose (33%), 1 read (33%), 1 summary (33%)" in printed.output and "Table 5" in printed.output
    assert len(json.loads(out.read_text(encoding="utf-8"))) == 3
    assert (
        json.loads((out.parent / "dataset_info.json").read_text(encoding="utf-8"))["gold"]["file_name"] == "gold.json"
    )


def test_any_split_needs_to_know_what_is_measured_on(here: Path) -> None:
    write(here / "dev_open.jsonl", [{"id": "q0", "question": "What is number 0?", "answers": ["zero"]}])
    refused = align(here, "--any-split", data="dev_open.jsonl")
    assert isinstance(refused.exception, InputError) and "--exclude" in str(refused.exception)
    taken = align(here, "--any-split", "--exclude", here / "questions.jsonl", data="dev_open.jsonl")
    assert isinstance(taken.exception, InputError) and "1 evaluation question by words" in str(taken.exception)
    row = {"id": "m", "question": "Who sang?", "answers": ["x"]}
    measured = write(here / "measured.jsonl", [row | {"dataset": "songs"}])
    refused = align(here, "--any-split", "--exclude", measured, data="dev_open.jsonl")
    assert isinstance(refused.exception, InputError) and "is of that data set" in str(refused.exception)
    write(here / "dev_open.jsonl", [{"id": "q0", "dataset": "songs", "question": "What is it?", "answers": ["zero"]}])
    taken = align(here, "--any-split", "--exclude", measured, data="dev_open.jsonl")
    assert taken.exit_code == 0 and "EVALUATION QUESTIONS" not in taken.output
    assert "1 question of the split 'dev' was taken, by --any-split" in taken.output


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("kbae", ("--half", "third"), "not a half of a data set"),
        ("gold", ("--set", "k=3"), "--set is for taikc-if"),
        ("gold", ("--judge", "openai/x"), "--judge is for taikc-kbae"),
        ("gold", ("--format", "csv"), "no form of training sets"),
        ("if", ("--corpus", "sample", "--set", "kk=3"), "kk"),
        ("if", (), "Give --corpus"),
        ("ra-isf-nothing", (), "There is no training set"),
        ("ra-isf-relevance", (), "Give --corpus"),
        ("ra-isf-decompose", ("--balance", 2), "no labels to balance"),
        ("ra-isf-know", ("--right-f1", 2), "F1 of 2"),
        ("ra-isf-know", ("--balance", "inf"), "balance of inf"),
        ("ra-isf-know", ("--exclude", "nowhere.jsonl"), "There is no nowhere.jsonl"),
    ],
)
def test_what_cannot_be_is_one_sentence(here: Path, kind: str, arguments: tuple[object, ...], message: str) -> None:
    error = align(here, *arguments, kind=kind).exception
    assert isinstance(error, InputError | ConfigError) and message in str(error)
