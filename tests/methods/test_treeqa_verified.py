"""Which answers TreeQA calls guesses: those that nothing read and no verified node holds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import Run, node, rules, tree, verdict

from hoptree.core.values import Passage
from hoptree.engine.result import UNSUPPORTED
from hoptree.models.scripted import Rule

MADE = "Who made Film Alpha?"
FILM = Passage("A", "Film Alpha", "Film Alpha is a film by Zed Quux.")
UNKNOWN = verdict("unknown")


def says(question: str, reply: str) -> Rule:
    return Rule(reply, step="validate", contains=f"Question: {question}")


# Questions that changed


BORN = "Where was the maker of Film Alpha born?"


# Guesses


def test_an_answer_out_of_unverified_nodes_has_a_note_in_the_papers_form_too() -> None:
    build = tree(node(MADE, "Tom Cruise"), question=MADE, answer="Tom Cruise")
    script = rules(build=build, validate=UNKNOWN, clue="{}", final="Tom Cruise")
    run = Run(script, question=MADE, graph=SmallGraph(), pages=Pages(FILM), evidence="text")
    assert any("None of the answers below was verified" in warning for warning in run.result.warnings)
    assert run.result.tree[0].source == "fallback"


def in_the_papers_form(final: str, *, pages: tuple[Passage, ...] = (FILM,), **given: Any) -> Run:
    """A node that is supported, and one below it that is not."""
    build = tree(node(MADE, "Zed Quux", node("Where was Zed Quux born?", "Paris")), question=BORN, answer="Paris")
    holds = says(MADE, verdict(True, "T1"))
    script = rules(holds, build=build, validate=UNKNOWN, clue="{}", final=final)
    return Run(script, question=BORN, graph=SmallGraph(), pages=Pages(*pages), evidence="text", **given)


def test_an_answer_that_nothing_read_holds_is_called_a_guess_in_the_papers_form_too() -> None:
    run = in_the_papers_form("Lodz")
    assert run.result.answer == "Lodz" and UNSUPPORTED in run.result.warnings
    root, (final,) = run.result.tree[0], run.of("final")
    assert (root.source, root.evidence, final["source"]) == ("fallback", (), "fallback")
    assert final["support"] == in_the_papers_form("Zed Quux").of("final")[0]["support"], "what was cited stays"


@pytest.mark.parametrize("final", ["Zed Quux", "yes"])
def test_an_answer_that_something_read_holds_is_none(final: str) -> None:
    run = in_the_papers_form(final)
    assert run.result.answer == final and not run.result.warnings
    assert (run.result.tree[0].source, run.of("final")[0]["source"]) == ("synthesis", "synthesis")


def test_an_answer_that_a_fact_holds_is_none() -> None:
    build = tree(node(MADE, "Zed Quux"), question=MADE, answer="Zed Quux")
    graph = SmallGraph(("Film Alpha", "director", "Cy Dee"))
    script = rules(build=build, validate=verdict(True, "F1"), final="Cy Dee")
    run = Run(script, question=MADE, graph=graph, evidence="graph")
    assert run.node(1)["attempts"][0]["facts"] and not run.result.warnings


def test_an_answer_of_a_verified_node_is_none_however_evidence_writes_it() -> None:
    build = tree(node(MADE, "Mr Z. Q."), question=MADE, answer="Mr Z. Q.")
    script = rules(build=build, validate=verdict(True, "T1"), final="Mr Z. Q.")
    run = Run(script, question=MADE, graph=SmallGraph(), pages=Pages(FILM), evidence="text")
    assert run.result.answer == "Mr Z. Q." and not run.result.warnings
