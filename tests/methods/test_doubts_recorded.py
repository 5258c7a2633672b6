"""What MIND, DRAGIN, FLARE and SeaKR leave in a trace for whoever draws it: small, rounded, and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.methods.continuation_asked import Run
from tests.methods.mind_asked import CHARLES, FACTS, JEAN
from tests.methods.written_runs import (
    asked_dragin,
    asked_flare,
    asked_mind,
    asked_seakr,
    by_samples,
    contradicted,
    from_memory,
)
from tests.traced import as_dicts

from hoptree.models.scripted import Rule

ALL = (from_memory, contradicted, by_samples, asked_dragin, asked_flare, asked_seakr)


@pytest.mark.parametrize("asked", ALL)
def test_every_event_is_json_without_numbers_that_are_none(asked: Callable[[], Run]) -> None:
    for event in as_dicts(asked().events):
        assert json.loads(json.dumps(event, allow_nan=False)) == event


def test_an_answer_of_which_no_sample_says_anything_has_no_spread() -> None:
    run = Run("seakr", [Rule("", step="sample"), Rule("So the answer is: Jean.")])
    (event,) = run.of("decision", kind="answers")
    assert event["answers"][0][2] is None and json.dumps(as_dicts(run.events), allow_nan=False)


def test_numbers_of_words_and_tokens_have_four_digits() -> None:
    script = [
        Rule("{}", step="extract"),
        Rule("Jean was Louis. So the answer is: Jean.", step="draft", entropy=1 / 3, attention=1 / 7),
    ]
    run = asked_mind(script, filters="none", threshold="fixed", theta=9.0)
    assert run.of("decision", kind="sentence")[0]["words"][0] == ["Jean", 0.3333, 1.0, 0.3333, True]
    assert asked_flare().of("decision", kind="sentence")[0]["tokens"][3] == [" Jean", 0.3]


def test_the_names_of_the_question_are_recorded_before_any_doubt() -> None:
    (event,) = from_memory().of("decision", kind="extracted")
    assert event["value"] == [[CHARLES, "entity"], ["paternal grandfather", "relation"]]


def test_what_memory_spares_is_recorded_with_its_confidence() -> None:
    (event,) = from_memory().of("decision", kind="skipped")
    assert (event["fact"], event["confidence"]) == (FACTS[1].split(" | "), 0.9512) and JEAN in event["sentence"]


def test_a_step_of_seakr_has_its_tokens_before_and_after() -> None:
    run = asked_seakr()
    step, document = run.of("decision", kind="step")[0], run.of("decision", kind="document")[0]
    assert step["tokens"][0] == ["His", 0.99] and step["text"] == "His father is Jean."
    assert (document["value"], document["text"]) == ("p2", "His father is Charles Armand.")
    assert "".join(text for text, _ in document["tokens"]) == document["text"]
