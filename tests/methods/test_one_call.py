"""Direct QA and one-time retrieval: one call, and a reply that says there is no answer is none."""

from __future__ import annotations

import pytest
from tests.methods.continuation_asked import GRANDFATHER, Run, Search

from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule


def test_direct_asks_once_without_documents() -> None:
    run = Run("direct", [Rule("The answer is Charles Armand.\nHe was a duke.")], budget=Budget(calls=1))
    assert (run.result.answer, run.steps, run.queries) == ("Charles Armand", ["direct"], [])
    (sent,) = run.sent("direct")
    assert (sent.temperature, sent.max_tokens) == (0.0, 64)
    assert sent.messages[-1].content.startswith(f"Question: {GRANDFATHER}\n")
    assert (run.result.fidelity, run.result.stopped_by) == ("exact", "")


def test_one_time_retrieval_searches_once_with_the_question_and_reads() -> None:
    run = Run("oner", [Rule("Charles Armand René")], budget=Budget(calls=1))
    assert (run.result.answer, run.steps) == ("Charles Armand René", ["read"])
    assert run.shelf.asked == [(GRANDFATHER, 5)]
    assert [passage.id for passage in run.result.evidence] == ["p2"]
    assert (run.result.fidelity, run.result.stopped_by) == ("exact", "")


@pytest.mark.parametrize("method", ["direct", "oner"])
@pytest.mark.parametrize("reply", ["", "unknown", "Unknown.", "N/A", "Not mentioned in the passages.", "not specified"])
def test_a_reply_that_says_that_there_is_no_answer_is_none(method: str, reply: str) -> None:
    run = Run(method, [Rule(reply)])
    assert (run.result.answer, run.result.abstained, run.result.error) == ("", True, "")
    assert run.of("final")[0]["raw"] == reply, "what it said can still be seen"


@pytest.mark.parametrize("method", ["direct", "oner"])
@pytest.mark.parametrize("reply", ["No", "None", "Unknown Pleasures", "Not Fade Away", "Lost and Found"])
def test_answers_that_only_look_like_none_are_answers(method: str, reply: str) -> None:
    run = Run(method, [Rule(reply)])
    assert (run.result.answer, run.result.abstained) == (reply, False)


def test_where_nothing_is_found_nothing_is_asked() -> None:
    run = Run("oner", [Rule("Louis")], shelf=Search())
    assert (run.result.answer, run.result.abstained, run.steps) == ("", True, [])
    assert run.of("decision", kind="answered")[0]["continuation_hit"] == "no passages"


def test_the_surest_of_three_readings_is_taken_where_asked_for() -> None:
    """Two see fewer passages, and the third sees all, the best one last."""
    run = Run("oner", [Rule("Charles Armand"), Rule("Louis"), Rule("Charles Armand")], surest=True)
    assert (run.result.answer, run.steps) == ("Charles Armand", ["read"] * 3)
    assert len(run.shelf.asked) == 1
    assert [event["when"] for event in run.of("decision", kind="surest")] == ["own", "final"]
    assert run.result.fidelity == "approx"
