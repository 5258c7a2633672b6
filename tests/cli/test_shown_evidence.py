"""What a person sees of facts, guesses and passages behind an answer."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from hoptree.cli.ask import EventLines
from hoptree.cli.render import show_result
from hoptree.engine.events import parse_event
from hoptree.engine.result import read_result
from hoptree.engine.trace import ModelProgress

FACT = ["Bird Box", "cast member", "Sandra Bullock"]
PASSAGE = {"id": "p1", "title": "Bird Box", "text": "Bird Box stars Sandra Bullock.", "score": 1.0}
RETRIEVED = {"event": "retrieve", "passages": [PASSAGE], "issued": 0.0, "seconds": 0.0}


def drawn(*events: dict[str, Any], hypothesis: str = "", answer: str = "Sandra Bullock", **options: Any) -> str:
    """The drawing of a question with one sub-question, number 1."""
    begin: dict[str, Any] = {
        "event": "start",
        "question": "Who was in both?",
        "method": "treeqa",
        "model": "m",
        "options": options,
    }
    node: dict[str, Any] = {"id": 1, "question": "Who was in Bird Box?", "parent": None, "hypothesis": hypothesis}
    plan: dict[str, Any] = {"event": "plan", "nodes": [node]}
    final: dict[str, Any] = {"event": "final", "answer": answer}
    written = [parse_event({"run": "r", "t": 0.0, **event}) for event in (begin, plan, *events, final)]
    console = Console(record=True, width=200, file=io.StringIO())
    show_result(console, read_result(written))
    return console.export_text()


def ended(**details: Any) -> dict[str, Any]:
    return {
        "event": "node",
        "id": 1,
        "state": "answered",
        "resolved": "",
        "answer": "Sandra Bullock",
        "source": "external",
        **details,
    }


def test_an_answer_from_facts_alone_is_not_told_as_one_from_documents() -> None:
    text = drawn(ended(facts=[FACT]), evidence="graph")
    assert "Sandra Bullock  [from the graph: Bird Box-cast member-Sandra Bullock]" in text
    assert "from documents" not in text


def test_without_an_answer_it_is_told_how_much_was_read() -> None:
    assert "No answer was found in the passage that was read." in drawn(RETRIEVED, answer="")


def test_of_what_was_read_in_vain_five_passages_are_listed_and_the_rest_counted() -> None:
    passages = [PASSAGE | {"id": f"p{number}"} for number in range(12)]
    text = drawn({"event": "retrieve", "passages": passages, "issued": 0.0, "seconds": 0.0}, answer="")
    assert "p4  Bird Box" in text and "p5  Bird Box" not in text and "and 7 more" in text


def test_a_log_says_what_the_model_is_doing_from_time_to_time() -> None:
    reading = ModelProgress(step="read", read=40, total=90, seconds=2.0)
    file = io.StringIO()
    EventLines(file, progress_interval_s=0.0)(reading)
    assert file.getvalue() == "  the model is reading 40 of 90 tokens, 20 a second, about 2 s left\n"
    EventLines(file, progress_interval_s=float("inf"))(reading)
    assert file.getvalue().count("\n") == 1


def test_an_answer_from_both_names_both() -> None:
    text = drawn(RETRIEVED, ended(facts=[FACT], evidence=["p1"]), evidence="hybrid")
    assert "[from documents and the graph: p1, Bird Box-cast member-Sandra Bullock]" in text


def test_without_a_citation_the_sources_that_were_asked_are_told() -> None:
    assert "Sandra Bullock  [from the graph]" in drawn(ended(), evidence="graph")
    assert "Sandra Bullock  [from documents]" in drawn(ended(), evidence="text")
    assert "Sandra Bullock  [from documents]" in drawn(ended())
    assert "Sandra Bullock  [from documents or the graph]" in drawn(ended(), evidence="hybrid")


def test_cited_facts_stand_in_the_evidence_each_once() -> None:
    text = drawn(RETRIEVED, ended(verdict="supported", facts=[FACT, FACT], evidence=["p1"]))
    block = text.split("\nEvidence\n")[1]
    assert block.count("fact  Bird Box | cast member | Sandra Bullock") == 1
    assert block.index("p1  Bird Box: ") < block.index("fact  Bird Box")
    assert "\nEvidence\n  fact  Bird Box | cast member | Sandra Bullock" in drawn(ended(facts=[FACT]))


def test_controls_in_a_fact_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in drawn(ended(facts=[["a", "\x1b[2Jb", "c"]]))


def test_a_guess_that_was_never_looked_at_is_shown_as_one() -> None:
    text = drawn(hypothesis="Sarah Paulson")
    assert "1. Who was in Bird Box?  → Sarah Paulson  [a guess, not checked]" in text
    begun = {"event": "node", "id": 1, "state": "asking", "resolved": "Who was in Bird Box?"}
    assert "1. Who was in Bird Box?  … Sarah Paulson  [a guess, not checked]" in drawn(
        begun, hypothesis="Sarah Paulson"
    )
    assert "guess, not" not in drawn(begun)
    assert "guess" not in drawn(ended(verdict="supported"), hypothesis="Sarah Paulson")


def test_lines_tell_each_question_once_and_none_that_is_not_in_the_tree() -> None:
    """A method may begin what is likely, more than once or in vain."""
    asking: list[dict[str, Any]] = [
        {"event": "node", "id": n, "state": "asking", "resolved": f"Who is {n}?"} for n in (1, 1, 9)
    ]
    root: dict[str, Any] = {"event": "plan", "nodes": [{"id": 0, "question": "Who was in both?", "parent": None}]}
    plan: dict[str, Any] = {"event": "plan", "nodes": [{"id": 1, "question": "Who is 1?", "parent": 0}], "under": 0}
    ends = [ended(id=9), ended(id=1), ended(id=0)]
    file = io.StringIO()
    write_line = EventLines(file)
    for event in (root, plan, *asking, *ends):
        write_line(parse_event({"run": "r", "t": 0.0, **event}))
    assert file.getvalue().splitlines() == [
        "plan: 1 sub-question",
        "  1. Who is 1?",
        "  1. → Sandra Bullock [looked up]",
        "  0. → Sandra Bullock [looked up]",
    ]


def test_what_took_the_place_of_a_refuted_guess_is_called_corrected_only_where_evidence_has_it() -> None:
    """The golden tree calls it unknown, and has no reference for it."""
    refuted = ended(
        verdict="refuted", struck=["Tom Cruise"], hypothesis="Sandra Bullock", evidence=["p1"], facts=[FACT]
    )
    assert "Tom Cruise ⇒ Sandra Bullock  [refuted, and corrected: p1" in drawn(RETRIEVED, refuted)
    guessed = drawn(RETRIEVED, refuted | {"source": "internal"})
    assert "Tom Cruise ⇒ Sandra Bullock  [refuted; what took its place is not verified]" in guessed
    assert "Bird Box-cast member" not in guessed and "fact" not in guessed


def test_a_passage_is_cut_around_the_answer_where_no_step_cites_it() -> None:
    text = f"{'Many words stand before. ' * 20}It stars Sandra Bullock.{' Many words stand behind.' * 20}"
    begin: dict[str, Any] = {"event": "start", "question": "Who was in it?", "method": "oner", "model": "m"}
    retrieved = {**RETRIEVED, "passages": [{**PASSAGE, "text": text}]}
    final: dict[str, Any] = {"event": "final", "answer": "Sandra Bullock", "source": "external", "support": ["p1"]}
    console = Console(record=True, width=300, file=io.StringIO())
    show_result(
        console, read_result([parse_event({"run": "r", "t": 0.0, **fields}) for fields in (begin, retrieved, final)])
    )
    shown = console.export_text()
    assert "Bird Box: …" in shown and "It stars Sandra Bullock. Many" in shown
