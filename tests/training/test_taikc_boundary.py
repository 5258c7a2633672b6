"""Boundary awareness: answers where the model was right, RAG_REQUIRED where it was wrong, and whose labels they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.training.film_world import QUESTIONS, REPLIES, built, make_world, sent_by

from hoptree.core.errors import EndpointError, InputError
from hoptree.models.scripted import ScriptedModel
from hoptree.training.taikc_rows import labels_of


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_world(tmp_path)


def test_a_right_answer_is_to_be_given_and_a_wrong_one_looked_up(here: Path) -> None:
    told, rows = built(here, "taikc-kbae")
    assert [row["messages"][-1]["content"] for row in rows] == ["1913", "RAG_REQUIRED"]
    assert [row["meta"]["label"] for row in rows] == ["confident", "gap"]
    assert [(row["meta"]["answer"], row["meta"]["em"]) for row in rows] == [("1913", True), ("1900", False)]
    assert told["labels"] == {"confident": 1, "gap": 1} and told["right_by"] == "exact match"
    assert [line["part"] for line in told["beside_the_paper"]] == ["confident", "gap", "boundary"]


def test_a_set_says_whose_labels_it_has(here: Path) -> None:
    told, rows = built(here, "taikc-kbae")
    identity = ScriptedModel(str(here / "m.json")).identity
    assert {row["meta"]["labels_of"] for row in rows} == {identity} == {told["labels_of"]}
    assert {row["meta"]["model"] for row in rows} == {f"scripted/{here / 'm.json'}"}


@pytest.mark.parametrize(
    ("identity", "whose"),
    [
        ("hf:abc;dtype=bf16;device=cuda;torch=2", "abc"),
        ("local:abc;n_ctx=4096;built", "abc"),
        ("hf:org/name@commit;dtype=fp32", "org/name@commit"),
        ("hf:abc;dtype=fp32;device=cpu;adapter=def;torch=2", "abc;adapter=def"),
        ("openai:http://host/v1:name", "openai:http://host/v1:name"),
    ],
)
def test_labels_are_those_of_the_weights_where_these_are_known(identity: str, whose: str) -> None:
    assert labels_of(identity) == whose


def test_prompts_are_those_that_the_method_sends(here: Path) -> None:
    asked = {"id": "q9", "question": "When was Kurt Land born?", "answers": ["1913"], "source_split": "train"}
    (here / "train.jsonl").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    _, (row,) = built(here, "taikc-kbae")
    assert row["messages"][:-1] in sent_by(here, QUESTIONS[0]["question"])["confident"]
    assert row["meta"]["template"].startswith("shared/confident@")


def test_a_judge_decides_and_both_are_on_record(here: Path) -> None:
    judge = here / "judge.json"
    replies = [{"step": "judge", "contains": "1900", "reply": "Yes"}, {"step": "judge", "reply": "No"}]
    judge.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    told, rows = built(here, "taikc-kbae", judge=f"scripted/{judge}")
    assert [row["messages"][-1]["content"] for row in rows] == ["RAG_REQUIRED", "1900"]
    assert [(row["meta"]["em"], row["meta"]["judged"]) for row in rows] == [(True, False), (False, True)]
    assert told["right_by"] == f"scripted/{judge}" == rows[0]["meta"]["judge"]


def test_what_was_not_judged_is_left_out_and_told(here: Path) -> None:
    judge = here / "judge.json"
    replies = [{"step": "judge", "contains": "1900", "fault": "401"}, {"step": "judge", "reply": "Yes"}]
    judge.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    told, rows = built(here, "taikc-kbae", judge=f"scripted/{judge}")
    assert len(rows) == 1 and told["failed"] == ["q1"] and told["left_out"] == {"not judged": 1}


def test_a_right_answer_that_reads_like_a_refusal_is_left_out(here: Path) -> None:
    make_world(here, [{"step": "direct", "contains": "Alpha", "reply": "The song is I'm not sure"}, *REPLIES])
    asked = {"id": "q9", "question": "Which song is in Alpha?", "answers": ["The song is I'm not sure"]}
    other = {"id": "q8", "question": "Which song is in Beta?", "answers": ["None"]}
    (here / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (asked, other)), encoding="utf-8")
    told, rows = built(here, "taikc-kbae")
    assert [row["meta"]["label"] for row in rows] == ["gap"]
    assert told["left_out"] == {"an answer that would be read as a refusal, or as another": 1}


def test_labels_can_be_balanced_and_failures_are_told(here: Path) -> None:
    rows = [{"id": f"x{n}", "question": f"Where is town {n}?", "answers": ["there"]} for n in range(5)]
    with (here / "train.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row | {"source_split": "train"}) + "\n" for row in rows)
    told, _ = built(here, "taikc-kbae", balance=2.0, seed=1)
    assert told["labels"] == {"confident": 1, "gap": 2} and told["left_out"] == {"'gap' by balance": 4}
    make_world(here, [{"step": "direct", "contains": "Beta", "fault": "401"}, *REPLIES])
    told, kept = built(here, "taikc-kbae")
    assert told["failed"] == ["q1"] and len(kept) == 1 and "confident" in told["warnings"][0]
    make_world(here, [{"fault": "401"}])
    with pytest.raises(EndpointError):
        built(here, "taikc-kbae")


def test_labels_come_from_answers(here: Path) -> None:
    (here / "train.jsonl").write_text(json.dumps({"question": "Who?"}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="No question has an accepted answer"):
        built(here, "taikc-kbae")
