"""Writings read off traces: what was doubted, asked, remembered and written again, method by method."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run, Search
from tests.methods.mind_asked import ARMAND, CHARLES, DOUBTED, FATHER, JEAN, LAST, SECOND, WRITTEN, figure
from tests.methods.written_runs import (
    APART,
    ARMANDS,
    asked_dragin,
    asked_flare,
    asked_mind,
    asked_seakr,
    by_samples,
    contradicted,
    from_memory,
)
from tests.traced import as_dicts, changed

from hoptree.core.errors import TraceError
from hoptree.engine.context import Budget
from hoptree.engine.events import parse_event
from hoptree.engine.generation_view import Writing, read_writing
from hoptree.engine.result import read_result
from hoptree.models.scripted import Rule


def read(run: Run) -> Writing:
    """From the file, as it were."""
    writing = read_writing([parse_event(json.loads(json.dumps(event))) for event in as_dicts(run.events)])
    assert writing is not None and writing == run.result.writing
    return writing


def test_figure_1_is_two_doubts_and_an_answer() -> None:
    writing = read(asked_mind(figure(needed=["[1]", "[2]"]), k=1, top_k=1))
    first, second, last = writing.parts
    assert [part.said.text for part in writing.parts] == [FATHER, DOUBTED, LAST]
    assert [part.said.triggered for part in writing.parts] == [True, True, False]
    assert [word.text for word in first.said.words if word.hit] == ["Louis"]
    assert (first.final, second.final, last.final) == (WRITTEN, SECOND, LAST)
    assert all(part.kept and not part.outcome for part in writing.parts)
    assert [(name.name, name.dropped_by) for name in first.names] == [
        (CHARLES, ""),
        ("paternal grandfather", "confidence"),
        ("Louis", "cot"),
    ]
    assert first.queries[0].query == f"{CHARLES} father" and first.queries[0].sought == ("father",)
    assert (first.queries[0].search, second.queries[0].search) == (0, 1)
    assert second.queries[0].passages == (("p2", JEAN),)
    assert first.shown == (f"- {CHARLES} | father | {JEAN}",)
    assert (writing.extracted, writing.stopped, writing.skips) == ((CHARLES, "paternal grandfather"), "answer", 0)
    assert (writing.told_by, writing.missing) == ("entropy", ())


def test_memory_has_facts_with_their_confidence_and_source() -> None:
    writing = read(from_memory())
    assert [(fact.fact, fact.confidence, fact.passage, fact.title, fact.turn) for fact in writing.facts] == [
        ((CHARLES, "father", JEAN), 0.9512, "p1", CHARLES, 1),
        ((JEAN, "father", ARMAND), 0.9512, "p2", JEAN, 1),
    ]
    assert writing.facts[1].sentence == DUKES[1].text
    skipped = writing.parts[1].skipped
    assert skipped is not None and (skipped.fact, skipped.confidence) == ((JEAN, "father", ARMAND), 0.9512)
    assert writing.skips == 1 and writing.parts[1].queries == [] and writing.parts[1].replaced


def test_facts_that_were_not_taken_are_told_and_not_held() -> None:
    made_up = Rule(f"{CHARLES} | father | Louis of France", step="facts", logprob=-0.05)
    unsure = Rule(f"{CHARLES} | father | {JEAN}", step="facts", logprob=-3.0)
    outcomes = []
    for rule in (made_up, unsure):
        writing = read(asked_mind(figure(rule, needed="[1]"), k=1))
        outcomes.append(writing.parts[0].facts[0].outcome)
        assert writing.facts == ()
    assert outcomes == ["not stated", "unsure"]


def test_what_sources_contradict() -> None:
    writing = read(contradicted())
    assert writing.conflicts == (((CHARLES, "father", JEAN, "p1"), (CHARLES, "father", "Louis Stanislas", "p4")),)
    assert [fact.outcome for fact in writing.parts[1].facts] == ["known", "known"] and len(writing.facts) == 2


def test_where_nothing_may_be_searched_for_any_more_the_sentence_is_left_out() -> None:
    script = figure(Rule(f": {ARMAND}.", step="conclude"), needed=["[1]", "[3]"])
    writing = read(asked_mind(script, k=1, retrievals=1))
    assert [part.kept for part in writing.parts] == [True, False]
    assert writing.parts[1].outcome == "left out: nothing may be searched for any more"
    assert writing.stopped == "retrievals" and writing.asked_for_answer


def test_without_a_word_to_search_for_the_sentence_stays() -> None:
    script = [
        Rule("Louis father.", step="draft", entropy=3.0, attention=0.2),
        Rule(step="look_back", attended={}),
        Rule(": Louis.", step="conclude", entropy=0.1),
    ]
    (part,) = read(Run("dragin", script, question="Who?")).parts
    assert (part.outcome, part.queries[0].search) == ("stays as it is: there is nothing to search with", None)


def test_dragin() -> None:
    writing = read(asked_dragin())
    assert [part.said.triggered for part in writing.parts] == [False, True, False]
    assert writing.parts[0].said.compared == "S 0.10 ≤ θ 1.00"
    assert writing.parts[1].queries[0].query == "Charles paternal grandfather Charles"
    assert writing.parts[1].final == "His father is Jean." and writing.facts == ()


def test_flare_searches_first_and_masks() -> None:
    writing = read(asked_flare())
    assert [query.query for query in writing.first] == [GRANDFATHER] and writing.first[0].search == 0
    part = writing.parts[0]
    assert [word.text for word in part.said.words if word.hit] == ["Jean", "Bretagne"]
    assert (part.left_out, part.queries[0].query) == (("Jean",), "His father is Bretagne.")
    assert part.final == "His father is Charles." and writing.told_by == "−ln p"


def test_seakr_tells_which_passage_settled_a_step_and_which_answer_counts() -> None:
    writing = read(asked_seakr())
    first = writing.parts[0]
    assert first.said.triggered and first.said.words[1].probability == 0.99
    assert first.again is not None and first.again.text == "His father is Charles Armand."
    assert [name for name, _ in first.tried] == ["p1", "p2", "p3"]
    assert first.again.measured == dict(first.tried)["p2"]
    assert {way for way, _, _ in writing.answers} == {"steps", "documents"} and writing.taken
    assert writing.parts[-1].outcome == "left out: it says nothing new"


def test_a_repeated_query_and_one_that_finds_nothing_new() -> None:
    script = [
        Rule("x", step="sample", hidden=APART),
        Rule(["His father is Jean. More.", "Then his father is Jean again. More.", ARMANDS], step="draft"),
        Rule(": Charles Armand.", step="conclude"),
    ]
    outcomes = [part.outcome for part in read(Run("seakr", script, shelf=Search(), max_steps=9)).parts]
    assert outcomes[:2] == ["stays as it is: nothing new was found", "stays as it is: this was searched for before"]


def test_samples_in_place_of_signals() -> None:
    writing = read(by_samples())
    assert writing.parts[0].said.samples == ("Louis.", "Jean.", "Henri.", "Max.", "Guy.")
    assert "Louis" in [word.text for word in writing.parts[0].said.words if word.hit]
    assert (writing.told_by, writing.missing) == ("", ("entropy", "logprobs"))


def test_a_run_that_was_stopped_in_the_middle() -> None:
    writing = read(asked_mind(figure(needed=["[1]", "[3]"]), budget=Budget(calls=3)))
    (part,) = writing.parts
    assert (part.kept, part.outcome, writing.stopped) == (None, "not written again", "")


def test_where_nothing_is_written_again_the_sentence_is_left_out() -> None:
    writing = read(asked_mind(figure(Rule("", step="rewrite"), Rule(": Jean.", step="conclude"), needed="[1]")))
    (part,) = writing.parts
    assert (part.kept, part.outcome) == (False, "left out: nothing was written in its place")


def test_other_methods_have_no_writing() -> None:
    run = Run("oner", [Rule("Jean")])
    assert run.result.writing is None and "writing" not in run.result.as_dict()


def test_json_has_the_writing() -> None:
    rows = json.loads(json.dumps(from_memory().result.as_dict(), allow_nan=False))["writing"]
    assert rows["parts"][0]["said"]["words"][-1]["hit"] and rows["facts"][0]["passage"] == "p1"


def test_traces_from_before_hold_less() -> None:
    """The first traces of these methods lack what was added since."""
    new = ("in_doubt", "safe", "again", "beta", "tokens", "confidence")
    for run in (asked_seakr(), from_memory(), asked_flare()):
        old = [{key: value for key, value in event.items() if key not in new} for event in as_dicts(run.events)]
        writing = read_writing([parse_event(event) for event in old if event.get("kind") != "extracted"])
        assert writing is not None and writing.parts[0].said.triggered and writing.parts[0].queries


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("sentence", {"words": [["x"]]}),
        ("sentence", {"words": 5}),
        ("sentence", {"hits": None}),
        ("sentence", {"text": "x", "words": [[1, 2, 3, 4, 5]]}),
        ("filtered", {"candidates": [[1]]}),
        ("memory", {"value": 5}),
        ("skipped", {"fact": None}),
    ],
)
def test_what_cannot_be_understood_is_an_error_of_the_trace(kind: str, damage: dict[str, Any]) -> None:
    events = from_memory().events
    at = next(place for place, event in enumerate(as_dicts(events)) if event.get("kind") == kind)
    spoilt = changed(events[at], **damage)
    with pytest.raises(TraceError):
        read_result([*events[: at + 1], spoilt])
