"""SKR's labels from two runs: better, worse or tie, and no question that is measured on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.training.labelled_runs import write_run

from hoptree.core.errors import InputError
from hoptree.methods.steps.route import read_labels
from hoptree.training.skr_labels import LabelsSpec, label_questions

ALONE = {"a": 0.0, "b": 1.0, "c": 1.0, "d": 0.0, "e": 1.0}
READ = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "e": 0.0}


def label(folder: Path, alone: dict[str, Any] | None = None, read: dict[str, Any] | None = None, **more: Any) -> Any:
    first: dict[str, Any] = {"scores": ALONE, "searched": False, **(alone or {})}
    second: dict[str, Any] = {"scores": READ, "searched": True, **(read or {})}
    one, other = write_run(folder / "alone", **first), write_run(folder / "read", **second)
    return label_questions(LabelsSpec(one, other, folder / "labels.jsonl", **more))


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def test_the_better_run_gives_the_label(tmp_path: Path) -> None:
    told = label(tmp_path)
    assert {name: row["label"] for name, row in rows(tmp_path).items()} == {
        "a": "better",
        "b": "worse",
        "c": "tie",
        "d": "tie",
        "e": "worse",
    }
    assert told["labels"] == {"better": 1, "worse": 2, "tie": 2} and told["left_out"] == {} and not told["warnings"]
    read = read_labels(str(tmp_path / "labels.jsonl"))
    assert (read.better, read.ties) == ((True, False, False), 2)
    assert rows(tmp_path)["a"] | {"hoptree": ""} == {
        "question": "What is aa in aland?",
        "label": "better",
        "id": "a",
        "dataset": "quiz",
        "metric": "em",
        "without": 0.0,
        "with": 1.0,
        "hoptree": "",
    }


def test_what_failed_or_is_in_one_run_only_is_left_out(tmp_path: Path) -> None:
    told = label(tmp_path, {"failed": ("b",)}, {"scores": {"a": 1.0, "b": 1.0, "c": None}})
    assert list(rows(tmp_path)) == ["a"]
    assert told["left_out"] == {"in one run only": 2, "failed in one run": 1, "without a score of em in one run": 1}


def test_another_score_and_other_models(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no answer better or worse"):
        label(tmp_path / "f1", metric="f1")
    with pytest.raises(InputError, match="no score 'rouge'"):
        label(tmp_path / "rouge", metric="rouge")
    assert "different models" in label(tmp_path / "models", read={"model": "another"})["warnings"][0]


@pytest.mark.parametrize(
    ("alone", "read", "said"),
    [
        ({"searched": True}, {}, "without documents"),
        ({}, {"searched": False}, "never searched"),
        ({}, {"data": "other"}, "different data"),
    ],
)
def test_runs_that_do_not_belong_together(
    tmp_path: Path, alone: dict[str, Any], read: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        label(tmp_path, alone, read)
    assert not (tmp_path / "labels.jsonl").exists()


def test_evaluation_questions_are_left_out_or_refused(tmp_path: Path) -> None:
    dev = {"file": "quiz/dev.jsonl"}
    with pytest.raises(InputError, match="for evaluation \\('dev'\\)"):
        label(tmp_path / "refused", dev, dev)
    measured = write_run(tmp_path / "measured", {"a": 1.0}, searched=True)
    told = label(tmp_path / "excluded", dev, dev, exclude=(measured,))
    assert told["left_out"] == {"evaluation question by id": 1} and "a" not in rows(tmp_path / "excluded")
    label(tmp_path / "allowed", dev, dev, allow_evaluation=True)
    assert rows(tmp_path / "allowed")["a"]["evaluation"] == "dev"


def test_nothing_is_written_into_a_run(tmp_path: Path) -> None:
    one = write_run(tmp_path / "alone", ALONE, searched=False)
    other = write_run(tmp_path / "read", READ, searched=True)
    with pytest.raises(InputError, match="inside the run"):
        label_questions(LabelsSpec(one, other, other / "labels.jsonl"))
    with pytest.raises(InputError, match="holds no run"):
        label_questions(LabelsSpec(tmp_path / "nowhere", other, tmp_path / "labels.jsonl"))
