"""The bank of worked decompositions: every plan is sound, every kind is there, and the nearest are chosen the same."""

from __future__ import annotations

import json

import pytest

from hoptree.methods.steps.decompose import Demonstration, fixed_demonstrations, load_bank, nearest_demonstrations
from hoptree.text.loose_json import read_json
from hoptree.text.question_tree import Plan, make_plan

BANK = load_bank()
KINDS = {"bridge", "comparison", "bridge-comparison", "family", "time", "place", "intersection", "counting", "yes/no"}


def plan_of(shot: Demonstration) -> Plan:
    return make_plan(read_json(shot.plan).value, shot.question)


def shape(shot: Demonstration) -> list[list[tuple[int, ...]]]:
    """The references of each node, path by path."""
    return [[node.refs for node in path] for path in plan_of(shot).paths()]


def chained(plan: Plan) -> int:
    """The most nodes that wait for each other."""
    length: dict[int, int] = {}
    for node in plan.order():
        length[node.id] = 1 + max((length[ref] for ref in node.refs), default=0)
    return max(length.values())


@pytest.mark.parametrize("shot", BANK, ids=[shot.question for shot in BANK])
def test_every_plan_is_read_without_an_issue(shot: Demonstration) -> None:
    reading = read_json(shot.plan)
    assert reading.ok and not reading.repairs
    plan = plan_of(shot)
    assert plan.issues == ()
    assert len(plan.nodes) >= 2
    assert [node.id for node in plan.nodes] == list(range(1, len(plan.nodes) + 1)), "ids are in pre-order"
    assert all(ref < node.id for node in plan.nodes for ref in node.refs)


@pytest.mark.parametrize("shot", BANK, ids=[shot.question for shot in BANK])
def test_a_child_refers_to_its_parent(shot: Demonstration) -> None:
    for node in plan_of(shot).nodes:
        assert node.parent is None or node.parent in node.refs


@pytest.mark.parametrize("shot", BANK, ids=[shot.question for shot in BANK])
def test_no_plan_compares_or_sums_up(shot: Demonstration) -> None:
    asked = {node.question for node in plan_of(shot).nodes}
    assert shot.question not in asked
    assert len(asked) == len(plan_of(shot).nodes)
    words = {word.strip("?,").casefold() for question in asked for word in question.split()}
    assert not words & {"both", "same", "older", "younger", "earlier", "later", "or"}


def test_the_bank_is_large_enough_and_holds_every_kind() -> None:
    assert len(BANK) >= 24
    assert {shot.kind for shot in BANK} >= KINDS | {"3 hops", "4 hops"}
    assert len({shot.question for shot in BANK}) == len(BANK)


@pytest.mark.parametrize("hops", [3, 4])
def test_questions_of_many_hops_have_that_many(hops: int) -> None:
    shots = [shot for shot in BANK if shot.kind == f"{hops} hops"]
    assert shots
    for shot in shots:
        assert len(plan_of(shot).nodes) == hops
    assert any(chained(plan_of(shot)) == hops for shot in shots)


def test_the_fixed_ones_are_two_leaves_one_chain_and_two_chains() -> None:
    assert [shape(shot) for shot in fixed_demonstrations()] == [
        [[()], [()]],
        [[(), (1,)]],
        [[(), (1,)], [(), (3,)]],
    ]


QUESTIONS = (
    "Which film has the younger director, Heat or Alien?",
    "Who died first, the author of Emma or the author of Dracula?",
    "Who was the paternal grandfather of Louis XIV?",
    "東京 is where?",
    "",
    "?!",
    "\ud800",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_nearest_are_three_different_ones_and_the_same_every_time(question: str) -> None:
    shots = nearest_demonstrations(question)
    assert len(shots) == len(set(shots)) == 3
    assert shots == nearest_demonstrations(question)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Which film has the younger director, Heat or Alien?", "bridge-comparison"),
        ("Who died first, the author of Emma or the author of Dracula?", "bridge-comparison"),
        ("Do the directors of the films Heat and Alien come from the same country?", "bridge-comparison"),
        ("Who was the paternal grandfather of Louis XIV?", "family"),
        ("Who was born earlier, Ada Lovelace or Emmy Noether?", "comparison"),
    ],
)
def test_the_most_alike_comes_last(question: str, kind: str) -> None:
    assert nearest_demonstrations(question)[-1].kind == kind


@pytest.mark.parametrize(
    "question",
    [
        "Which film has the director who was born earlier, Heat or Alien?",
        "Which film has the director who died first, Heat or Alien?",
        "Are the directors of both films Heat and Alien from the same country?",
    ],
)
def test_a_comparison_over_a_bridge_is_shown_one(question: str) -> None:
    assert "bridge-comparison" in {shot.kind for shot in nearest_demonstrations(question)}


def test_names_do_not_count() -> None:
    assert nearest_demonstrations("Where was the wife of Niels Bohr born?") == nearest_demonstrations(
        "Where was the wife of Queen Moby Einstein born?"
    )


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_as_many_as_asked_for(n: int) -> None:
    assert len(nearest_demonstrations("Who was born earlier, A or B?", n)) == min(n, len(BANK))


def test_a_question_of_the_bank_finds_itself() -> None:
    for shot in BANK:
        assert shot.question in {near.question for near in nearest_demonstrations(shot.question)}, json.dumps(
            shot.question
        )
