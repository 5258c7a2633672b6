"""What code makes of the answers of a plan's branches: which thing each is about."""

from __future__ import annotations

import pytest

from hoptree.core.values import Answer
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.hop.compare import compare_branches
from hoptree.models.scripted import ScriptedModel
from hoptree.text.question_tree import Node, Plan


@pytest.fixture
def ctx() -> Context:
    return Context(method="hop", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("test"))


@pytest.mark.parametrize("things", [("Alien 3", "Alien"), ("Alien", "Alien 3")])
def test_a_name_inside_another_does_not_claim_its_branch(ctx: Context, things: tuple[str, str]) -> None:
    question = f"Which film was released first, {things[0]} or {things[1]}?"
    years = {"Alien": Answer("1979"), "Alien 3": Answer("1992")}
    asked = {number: f"When was {thing} released?" for number, thing in enumerate(things, 1)}
    plan = Plan(tuple(Node(number, text) for number, text in asked.items()))
    by_branch = compare_branches(ctx, question, plan, asked, {n: years[t] for n, t in enumerate(things, 1)})
    assert by_branch is not None and by_branch.text == "Alien"
