"""SKR: documents only where the model, or questions like this one, say that they help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import GRANDFATHER, Run

import hoptree.methods.baselines.skr as module
from hoptree.engine.context import Budget
from hoptree.engine.registry import find_method
from hoptree.models.scripted import Rule

LAST = "So the answer is: Charles Armand."


def ask(need: str, **options: Any) -> Run:
    return Run("skr", [Rule(need, step="need"), Rule(f"His father is Jean. {LAST}", step="think")], **options)


def test_a_model_that_knows_thinks_alone() -> None:
    run = ask("No.")
    assert run.result.fidelity == "prompted"
    assert (run.queries, run.result.answer, run.steps) == ([], "Charles Armand", ["need", "think"])
    assert run.values("need") == [False]
    assert run.of("final")[0]["source"] == "internal"
    assert "additional information" in run.sent("need")[0].messages[-1].content


def test_one_that_does_not_thinks_with_what_the_question_finds() -> None:
    run = ask("Yes, I do.", k=2)
    assert run.shelf.asked == [(GRANDFATHER, 2)] and run.values("need") == [True]
    assert "[2] Jean Bretagne" in run.sent("think")[0].messages[-1].content
    assert run.of("final")[0]["source"] == "external"


@pytest.mark.parametrize("reply", ["", "I have no idea.", "Charles Armand", "{}"])
def test_what_is_neither_yes_nor_no_is_looked_up_and_counts_as_unread(reply: str) -> None:
    run = ask(reply)
    assert run.queries == [GRANDFATHER]
    (parse,) = run.of("parse", step="need")
    assert not parse["ok"] and parse["error"] == "none of Yes, No"


@pytest.mark.parametrize(
    "reply",
    [
        "I do not need additional information.",
        "I don’t really need to look anything up.",
        "Additional information is not needed.",
        "I need no additional information to answer this.",
        "There is no need to search.",
    ],
)
def test_a_sentence_that_needs_nothing_says_no(reply: str) -> None:
    run = ask(reply)
    assert run.queries == [] and run.of("parse", step="need")[0]["ok"]


@pytest.mark.parametrize("reply", ["I do not know him, and need to look it up.", "I do not have what I need."])
def test_not_knowing_is_no_no(reply: str) -> None:
    assert ask(reply).queries == [GRANDFATHER]


def test_nothing_found_is_thought_about_alone() -> None:
    run = ask("yes", shelf=Shelf())
    assert run.result.answer == "Charles Armand" and "Context:" not in run.sent("think")[0].messages[-1].content


def test_a_spent_budget_answers_nothing_and_does_not_fail() -> None:
    run = ask("yes", budget=Budget(calls=1))
    assert run.result.stopped_by and run.result.error == "" and run.result.answer == ""


class Words:
    """Turns a question into the letters that tell these ones apart."""

    identity = "words"

    async def encode(self, texts: Any, *, role: str) -> Any:
        rows = numpy.array([[float(text.count(letter)) for letter in "Gvz"] for text in texts])
        return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "open_encoder", lambda name: Words())
    near = [("G", "better"), ("GG", "worse"), ("GGGv", "worse")]
    far = [("z", "better"), ("zz", "better"), ("zzz", "better"), ("v", "tie")]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps({"question": q, "label": mark}) + "\n" for q, mark in near + far), "utf-8")
    return path


def knn(file: Path | str, question: str, neighbours: int = 3) -> Run:
    script = [Rule(LAST, step="think")]
    return Run("skr", script, question=question, how="knn", labels=str(file), neighbours=neighbours)


def test_the_nearest_questions_decide(labels: Path) -> None:
    run = knn(labels, "Good question?")
    (event,) = run.of("decision", kind="route")
    assert [question for question, _, _ in event["near"]] == ["G", "GG", "GGGv"] and event["value"] is False
    assert (run.queries, run.steps, run.result.fidelity) == ([], ["think"], "exact")
    assert knn(labels, "zoo?").queries == ["zoo?"]


def test_more_neighbours_than_there_are_are_all_of_them(labels: Path) -> None:
    (event,) = knn(labels, "Good?", neighbours=99).of("decision", kind="route")
    assert len(event["near"]) == 6 and event["value"] is True  # 4 of 6 better, the bound is 2


@pytest.mark.parametrize(
    ("file", "neighbours", "message"),
    [("", 5, "hoptree align skr"), ("nowhere.jsonl", 5, "nowhere.jsonl cannot be read"), (None, 0, "neighbours=5")],
)
def test_what_cannot_be_decided_is_refused(labels: Path, file: str | None, neighbours: int, message: str) -> None:
    run = knn(labels if file is None else file, "Good?", neighbours)
    assert run.result.error in ("ConfigError", "InputError") and message in run.result.error_message


def test_a_run_rests_on_its_labels(tmp_path: Path) -> None:
    uses = find_method("skr").uses
    assert uses({"how": "prompt", "labels": ""}) == {}
    file = tmp_path / "labels.jsonl"
    file.write_text('{"question": "Who?", "label": "better"}\n')
    first = uses({"how": "knn", "labels": str(file)})["labels"]
    file.write_text('{"question": "Who?", "label": "worse"}\n')
    assert first and uses({"how": "knn", "labels": str(file)})["labels"] != first
