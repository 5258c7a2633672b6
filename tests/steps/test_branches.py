"""What code makes of the answers of a plan's branches: which thing each is about, and the lists that they hold."""

from __future__ import annotations

import pytest
from tests.patience import patience

from hoptree.core.values import Answer
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.hop.operators import count_listed, intersect_branches
from hoptree.methods.steps.compare import compare_branches, compare_pairs
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
    by_pair = compare_pairs(ctx, question, [(asked[n], years[t]) for n, t in enumerate(things, 1)])
    assert by_branch is not None and by_branch.text == "Alien"
    assert by_pair is not None and by_pair.text == "Alien"


def _two(one: str, two: str) -> tuple[Plan, dict[int, Answer]]:
    return Plan((Node(1, "Who was in A?"), Node(2, "Who was in B?"))), {1: Answer(one), 2: Answer(two)}


@pytest.mark.parametrize(
    ("one", "two", "shared"),
    [
        ("Ann Lee, Bob Ray, and Cy Low", "Cy Low; Di May", "Cy Low"),
        ("Sammy Davis, Jr. and Ann Lee", "Ann Lee\nSammy Davis, Jr.", "Sammy Davis, Jr, Ann Lee"),
        ("Ann  Lee,\n Bob Ray", "Ann Lee", "Ann Lee"),
    ],
)
def test_lists_are_parted_at_commas_lines_and_the_last_and(ctx: Context, one: str, two: str, shared: str) -> None:
    found = intersect_branches(ctx, *_two(one, two))
    assert found is not None and found.text == shared


@pytest.mark.parametrize("blank", [" ", "\t", "\n", " ,", ", ", " and"])
def test_a_list_with_much_white_space_takes_no_time(ctx: Context, blank: str) -> None:
    answer = Answer(f"Ann{blank * 20_000}Lee")
    with patience():
        intersect_branches(ctx, *_two(answer.text, "Ann Lee"))
        count_listed(ctx, Plan((Node(1, "Who was in A?"),)), {1: answer})
