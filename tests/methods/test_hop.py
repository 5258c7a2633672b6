"""hop: which move comes next, what a budget leaves, and why an answer is chosen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.methods.hop_asked import CHOOSER, HALF, Ask, asking, chosen, plan, reads, steps

from hoptree.engine.context import Budget
from hoptree.engine.result import UNSUPPORTED
from hoptree.models.scripted import Rule


@pytest.fixture
def asked(tmp_path: Path) -> Ask:
    return asking(tmp_path)


def test_one_reading_is_enough_where_it_is_likely_right(asked: Ask) -> None:
    run = asked(reads(In_which="Providence"), sure=0.5)
    assert run.result.answer == "Providence" and steps(run) == ["read"]
    (stood,) = run.of("decision", kind="standings")[0]["value"]
    assert stood["features"]["held"] == 1 and stood["quoted"] == {
        "passage": "c",
        "text": "He was born in 1985 in the city of Providence.",
    }


def test_doubt_leads_to_another_reading_and_agreement_ends_it(asked: Ask) -> None:
    run = asked(reads(In_which=("Providence", HALF)), sure=0.7)
    assert steps(run) == ["read", "read"] and run.result.answer == "Providence"
    first, second = (event["value"][0]["probability"] for event in run.of("decision", kind="standings"))
    assert first < 0.7 <= second, "two ways that agree are likelier right than one"


def test_no_move_is_made_that_is_not_worth_its_tokens(asked: Ask) -> None:
    script = reads(In_which=("Boston", math.log(0.05)))
    assert steps(asked(script, sure=0.99, worth=50.0)) == ["read"]
    assert steps(asked(script, sure=0.99, again=False, split=False, own=False, worth=0.0)) == ["read"]


def test_own_knowledge_is_a_candidate_and_weighs_less_than_what_was_read(asked: Ask) -> None:
    script = [*reads(In_which=("Providence", HALF)), Rule("Boston", step="confident")]
    run = asked(script, again=False, split=False, sure=0.99, worth=0.0)
    assert steps(run) == ["read", "confident"] and run.result.answer == "Providence"
    own = [one for one in run.of("decision", kind="standings")[-1]["value"] if one["ways"] == ["own"]]
    assert own[0]["features"]["own"] == 1


def test_two_close_answers_are_put_to_the_model(asked: Ask) -> None:
    rules = [
        Rule(["Boston", "Chicago"], step="read", regex="Question: In which", logprob=HALF),
        Rule("2", step="which"),
    ]
    run = asked(rules, split=False, own=False, check=True, sure=0.99, worth=0.0, close=1.0)
    assert "which" in steps(run)
    assert run.result.answer == run.of("decision", kind="which")[0]["answers"][1]
    apart = [Rule(["Providence", "Boston"], step="read", regex="Question: In which", logprob=HALF), rules[1]]
    run = asked(apart, split=False, own=False, check=True, sure=0.99, worth=0.0, close=0.1)
    assert steps(run) == ["read", "read"], "they are not close"


def test_below_a_threshold_there_is_no_answer(asked: Ask) -> None:
    script = reads(In_which=("Boston", math.log(0.01)))
    run = asked(script, again=False, split=False, own=False, abstain=0.9)
    assert run.result.answer == "" and run.result.abstained and chosen(run)["given"] is False
    assert run.result.why.endswith("not given: it is too unlikely")


def test_the_best_so_far_is_ready_when_the_budget_ends(asked: Ask) -> None:
    script = [plan(), *reads(In_which=("Providence", HALF), Who_directed="Damien Chazelle")]
    run = asked(script, sure=0.99, worth=0.0, own=False, budget=Budget(calls=3))
    assert run.result.stopped_by and run.result.answer == "Providence"


def test_a_chooser_of_ones_own(asked: Ask, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"format": 1, "weights": {"held": 9.0}, "bias": -1.0}))
    script = reads(In_which="Providence")
    run = asked(script, chooser=str(file), sure=0.9)
    assert steps(run) == ["read"] and chosen(run)["probability"] > 0.99
    for text in ("{}", "x", '{"format": 2, "weights": {}}', '{"format": 1, "weights": {"held": "much"}, "bias": 0}'):
        file.write_text(text)
        refused = asked(script, chooser=str(file)).result
        assert refused.error == "ConfigError" and "mine.json" in refused.error_message
    missing = asked(script, chooser=str(tmp_path / "none.json")).result
    assert missing.error == "ConfigError" and "cannot be read" in missing.error_message


def test_what_only_the_model_knows_is_no_answer_unless_it_knows_where_its_knowledge_ends(
    asked: Ask, tmp_path: Path
) -> None:
    script = [*reads(In_which="unknown"), Rule("Boston", step="confident")]
    options = {"again": False, "split": False, "sure": 0.99, "worth": 0.0}
    run = asked(script, **options)
    assert run.result.answer == "" and run.result.abstained and chosen(run)["given"] is False
    assert run.result.why.endswith("not given: only the model's own knowledge is behind it")
    file = tmp_path / "boundary.json"
    file.write_text(json.dumps({"confident_correct": 0.9, "usable": True}))
    run = asked(script, boundary=str(file), **options)
    assert run.result.answer == "Boston"
    (stood,) = run.of("decision", kind="standings")[-1]["value"]
    assert stood["features"]["confidence"] == 0.9, "as sure as it was measured to be right"
    file.write_text(json.dumps({"confident_correct": 0.9, "usable": None}))
    assert asked(script, boundary=str(file), **options).result.answer == ""


def test_a_model_that_knows_its_bounds_is_asked_itself_where_documents_do_not_tell(asked: Ask, tmp_path: Path) -> None:
    file = tmp_path / "boundary.json"
    told = {"confident_correct": 0.95, "usable": True, "answered": 80, "questions": 100}
    file.write_text(json.dumps(told))
    script = [*reads(In_which="unknown"), Rule("Boston", step="confident")]
    run = asked(script, again=False, split=False, boundary=str(file))
    assert run.result.answer == "Boston" and chosen(run)["probability"] == 0.95, "as it was measured"
    file.write_text(json.dumps({**told, "answered": 0}))
    assert steps(asked(script, again=False, split=False, boundary=str(file))) == ["read"]


def test_no_reason_is_given_that_speaks_against_an_answer(asked: Ask, tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps({**CHOOSER, "weights": {"held": -3.0, "typed": 0.1}}))
    script = [Rule(["Providence", "Boston"], step="read", regex="Question: Where", logprob=HALF)]
    run = asked(script, "Where was Damien Chazelle born?", chooser=str(file), split=False, own=False, worth=0)
    assert run.result.answer == "Boston" and chosen(run)["why"] == "it is likelier by these weights"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"usable": true}', "[" * 100_000])
def test_what_is_no_boundary_is_refused(asked: Ask, tmp_path: Path, text: str) -> None:
    file = tmp_path / "boundary.json"
    file.write_text(text)
    refused = asked(reads(In_which="Providence"), boundary=str(file)).result
    assert refused.error == "ConfigError" and "boundary.json" in refused.error_message


def test_plain_asks_by_the_prompts_that_adapters_learn(asked: Ask) -> None:
    script = [
        plan(),
        *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle", Where_was_Damien_Chazelle="Providence"),
        Rule("Damien Chazelle, who directed Whiplash, was born in Providence.", step="summarise"),
        Rule("Providence", step="final", regex="born in Providence"),
    ]
    run = asked(script, plain=True, again=False, own=False, sure=0.99, worth=0.0)
    assert {one["answer"] for one in run.of("decision", kind="standings")[-1]["value"]} == {"Boston", "Providence"}
    templates = {event["step"]: event["template"].split("@")[0] for event in run.of("llm")}
    assert templates == {
        "read": "shared/read",
        "decompose": "shared/decompose",
        "summarise": "shared/summarise",
        "final": "shared/read",
    }
    shown = [text for _, text in run.model.requests]
    assert any("passage: Whiplash is a film" in text for text in shown)
    assert not any("passage: Whiplash: " in text for text in shown), "no titles before the passages"


def test_an_answer_is_spelled_and_cited_as_the_passage_has_it(asked: Ask) -> None:
    run = asked(reads(In_which="the town of Próvidence"), sure=0.5)
    assert run.result.answer == "Providence"
    assert [passage.id for passage in run.result.evidence] == ["c"]


def test_a_budget_that_ends_gives_nothing_that_may_not_be_given(asked: Ask) -> None:
    options: dict[str, Any] = {"again": False, "own": False, "sure": 0.99, "worth": 0.0}
    script = [plan(), *reads(In_which=("Boston", HALF), Who_directed="Damien Chazelle")]
    run = asked(script, **options, budget=Budget(calls=3))
    assert run.result.stopped_by and run.result.answer == "Boston" and "likely right by" in run.result.why
    unlikely = asked(script, **options, abstain=0.9, budget=Budget(calls=3))
    assert unlikely.result.stopped_by and unlikely.result.answer == ""
    doubted = [plan(), Rule(["Boston", "Chicago"], step="read", regex="Question: In which", logprob=HALF)]
    run = asked(doubted, **options | {"again": True}, abstain=0.35, budget=Budget(calls=2))
    first, second = (event["probability"] for event in run.of("decision", kind="standings"))
    assert first >= 0.35 > second and run.result.answer == "", "it was likely enough only at first"


def test_no_move_is_begun_that_the_budget_cannot_pay(asked: Ask) -> None:
    script = [plan(), *reads(In_which=("Boston", HALF))]
    options: dict[str, Any] = {"again": False, "own": False, "sure": 0.99, "worth": 0.0}
    run = asked(script, **options, budget=Budget(tokens=2000))
    assert steps(run) == ["read"] and run.result.answer == "Boston" and "likely right by" in run.result.why
    assert run.result.stopped_by == "tokens", "a move that would have been made was left out"
    assert any("budget of tokens" in warning for warning in run.result.warnings)
    run = asked(script, **options, budget=Budget(tokens=3300))  # most splits take less than 3,500 on average
    assert "decompose" in steps(run)
    enough = asked(reads(In_which="Providence"), sure=0.5, budget=Budget(tokens=2000))
    assert not enough.result.stopped_by, "no move would have been made"


def test_what_is_left_out_for_its_worth_is_said_where_nothing_is_found(asked: Ask) -> None:
    run = asked(reads(In_which="unknown"), again=False, own=False, worth=9.0)
    assert run.result.answer == "" and run.result.warnings == (
        "Splitting the question was not worth its cost by these weights; --set worth=0 tries every move.",
    )
    both = asked(reads(In_which="unknown"), worth=9.0).result.warnings
    assert both and both[0].startswith("Another reading and splitting the question were not worth their cost")
    assert asked(reads(In_which=("Boston", HALF)), again=False, own=False, worth=9.0).result.warnings == (UNSUPPORTED,)
    tried = asked([plan(), *reads(In_which="unknown", Who="unknown", Where="unknown")], own=False, worth=0.0)
    assert tried.result.answer == "" and not tried.result.warnings, "every move was made"
