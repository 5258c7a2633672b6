"""TAIKC with robust=on compares in code only by facts of the kind that the question compares."""

from __future__ import annotations

import pytest
from tests.methods.asked import Shelf
from tests.methods.taikc_asked import Run, plan, rules

from hoptree.core.values import Passage
from hoptree.models.scripted import Rule


@pytest.mark.parametrize(("asked", "decided"), [("did {} die", True), ("was {} born", False)])
def test_births_do_not_tell_who_died_later(asked: str, decided: bool) -> None:
    questions = [f"When {asked.format(name)}?" for name in ("Alan Turing", "Jane Austen")]
    tree = {"query1": questions[0], "query2": questions[1]}
    script = [
        plan(tree),
        Rule("1912", step="read", contains=f"Question: {questions[0]}"),
        Rule("1817", step="read", contains=f"Question: {questions[1]}"),
        *rules(tree, read="Jane Austen", final="Jane Austen")[1:],
    ]
    shelf = Shelf(Passage("a", "Alan Turing", "Alan Turing, 1912"), Passage("b", "Jane Austen", "Jane Austen, 1817"))
    run = Run(script, question="Who died later, Alan Turing or Jane Austen?", robust=True, shelf=shelf)
    assert run.of("decision", kind="compared")[0]["value"] is decided
    assert run.result.answer == ("Alan Turing" if decided else "Jane Austen")
