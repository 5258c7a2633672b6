"""Distillation: the teacher's words on the way to right answers, behind the prompts that were really sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.training.film_world import PLAN, QUESTIONS, REPLIES, built, make_world, sent_by

from hoptree.core.errors import EndpointError, InputError
from hoptree.models.model import Reply, Request
from hoptree.models.scripted import ScriptedModel


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_world(tmp_path)


def test_the_steps_of_a_solved_question_are_kept_and_no_knowledge_from_memory(here: Path) -> None:
    told, rows = built(here, "taikc-if")
    said = {row["id"]: row["messages"][-1]["content"] for row in rows}
    assert said == {
        "films/q0/decompose": json.dumps(PLAN),
        "films/q0/read/1": "Kurt Land",
        "films/q0/read/2": "1913",
        "films/q0/final": "1913",
        "films/q0/summary/1": "Alpha is by Kurt Land, who was born in 1913.",
    }
    assert told["solved"] == 1 and told["left_out"] == {"not solved with an F1 of 1": 1} and told["failed"] == []
    assert told["questions"] == {"read": 2, "asked": 2, "in_rows": 1}
    assert told["labels"] == {"decompose": 1, "read": 3, "summary": 1}
    meta = rows[1]["meta"]
    assert meta["teacher"] == told["teacher"] == f"scripted/{here / 'm.json'}"
    assert meta["part"] == "read" and meta["template"].startswith("shared/read@")
    assert [line["part"] for line in told["beside_the_paper"]] == ["decompose", "read", "summary", "instructions"]


def test_prompts_are_those_that_were_sent(here: Path) -> None:
    sent = sent_by(here, QUESTIONS[0]["question"])
    _, rows = built(here, "taikc-if")
    prompts = {row["id"].removeprefix("films/q0/"): row["messages"][:-1] for row in rows}
    assert prompts["decompose"] == sent["decompose"][0]
    assert [prompts["read/1"], prompts["read/2"]] == sent["read"]
    assert prompts["final"] == sent["final"][0] and prompts["summary/1"] == sent["summarise"][0]


def test_what_a_node_knew_by_itself_is_no_reading(here: Path) -> None:
    known = [{"step": "confident", "contains": "film Alpha?", "reply": "Kurt Land"}, *REPLIES]
    make_world(here, known)
    _, rows = built(here, "taikc-if")
    assert [row["id"] for row in rows if "/read/" in row["id"]] == ["films/q0/read/2"]
    assert not any(row["messages"][-1]["content"] == "Kurt Land" for row in rows)


def test_of_two_plans_the_one_that_was_read_is_to_be_given_at_once(here: Path) -> None:
    again = {"step": "decompose", "contains": "cannot be used", "reply": json.dumps(PLAN)}
    make_world(here, [again, {"step": "decompose", "contains": "Alpha", "reply": "no tree"}, *REPLIES])
    _, rows = built(here, "taikc-if")
    first = rows[0]
    assert first["messages"][-1]["content"] == json.dumps(PLAN)
    assert first["messages"][-2]["content"] == f"Question: {QUESTIONS[0]['question']}"
    assert not any("cannot be used" in turn["content"] for turn in first["messages"])


def test_a_plan_in_other_words_around_it_is_written_as_the_demonstrations_are(here: Path) -> None:
    fenced = f"Here is the tree:\n```json\n{json.dumps(PLAN, indent=2)}\n```"
    make_world(here, [{"step": "decompose", "contains": "Alpha", "reply": fenced}, *REPLIES])
    _, rows = built(here, "taikc-if")
    assert rows[0]["messages"][-1]["content"] == json.dumps(PLAN)


def test_what_led_to_a_right_answer_by_chance_is_not_taught(here: Path) -> None:
    lost = {**PLAN, "query3": {"question": "When did #query9 die?"}}
    make_world(
        here,
        [
            {"step": "decompose", "reply": json.dumps(lost)},
            {"step": "read", "contains": "film Alpha?", "reply": "Answer: Kurt Land."},
            {"step": "summarise", "reply": "I cannot summarise this."},
            *REPLIES,
        ],
    )
    told, rows = built(here, "taikc-if")
    said = {row["id"].removeprefix("films/q0/"): row["messages"][-1]["content"] for row in rows}
    assert said["read/1"] == "Kurt Land" and said["final"] == "1913"
    assert "decompose" not in said and not any(name.startswith("summary") for name in said)
    assert sum(count for why, count in told["left_out"].items() if why.startswith("no plan for a tree that")) == 1
    assert told["left_out"]["no summary, as it does not say what its chain came to"] >= 1


def test_replies_that_are_remembered_make_the_same_set(
    here: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, rows = built(here, "taikc-if", cache=str(own_cache))

    async def refuse(self: ScriptedModel, request: Request, *, step: str) -> Reply:
        raise AssertionError("asked again")

    monkeypatch.setattr(ScriptedModel, "generate", refuse)
    told, again = built(here, "taikc-if", cache=str(own_cache))
    assert again == rows and told["failed"] == []


def test_failures(here: Path) -> None:
    make_world(here, [{"step": "decompose", "contains": "Beta", "fault": "401"}, *REPLIES])
    told, rows = built(here, "taikc-if")
    assert told["failed"] == ["q1"] and told["left_out"] == {"not answered by the model": 1} and len(rows) == 5
    make_world(here, [{"fault": "401"}])
    with pytest.raises(EndpointError):
        built(here, "taikc-if")
    with pytest.raises(InputError, match="no corpus"):
        built(here, "taikc-if", corpus="")
    make_world(here, [{"step": "final", "reply": "nothing of the kind"}, *REPLIES])
    (here / "out.jsonl").unlink()
    with pytest.raises(InputError, match="2 not solved with an F1 of 1"):
        built(here, "taikc-if")
    assert not (here / "out.jsonl").exists()
