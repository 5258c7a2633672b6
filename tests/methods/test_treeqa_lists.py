"""TreeQA beyond its paper: what fulfils several conditions, found by intersecting what was listed for each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import Run, node, robust_run, rules, tree, verdict

from hoptree.core.values import Passage
from hoptree.methods.robust.conditions import read_conditions
from hoptree.methods.steps.conditions import may_list
from hoptree.methods.treeqa.walk import Walk
from hoptree.models.scripted import Rule

NO_GRAPH = SmallGraph()
FILM = "Who starred in Night Train and also studied at Bard College?"
CAST = Passage("n", "Night Train", "Night Train stars Ada Moor, Ben Hale and Cora Lind.")
ALUMNI = Passage("c", "Bard College", "Bard College has among its students Cora Lind and Dan Roe.")
BEN = Passage("h", "Ben Hale", "Ben Hale, of Night Train, studied at Bard College.")
CONDITIONS = Rule(
    json.dumps({"asked": "actors", "conditions": ["starred in Night Train", "studied at Bard College"]}),
    step="conditions",
)
STARRED = Rule(
    '["Ada Moor", "Ben Hale", "Cora Lind", "Zoe Nobody"]', step="candidates", contains="said: starred in Night Train"
)
STUDIED = Rule('["Cora Lind", "Dan Roe"]', step="candidates", contains="said: studied at Bard College")


def listed(*first: Rule) -> Run:
    yes = Rule(verdict(True, "T1", correct="Yes"), step="validate", contains="Is this true of Ben Hale? studied")
    return robust_run(
        rules(*first, CONDITIONS, STARRED, STUDIED, yes, validate=verdict("unknown")),
        question=FILM,
        graph=NO_GRAPH,
        pages=Pages(CAST, ALUMNI, BEN),
    )


def test_what_fulfils_all_conditions_is_intersected_in_code() -> None:
    run = listed()
    assert run.result.answer == "Cora Lind, Ben Hale"
    (candidates,) = run.of("decision", kind="candidates")
    assert candidates["value"] == ["Cora Lind", "Ada Moor", "Ben Hale", "Dan Roe"], "who stands nowhere is none"
    assert "build" not in run.steps and run.steps.count("validate") == 3
    assert [top.resolved for top in run.tops] == [
        "Of which actors is this true: starred in Night Train?",
        "Of which actors is this true: studied at Bard College?",
    ]


def test_what_the_question_names_is_no_candidate() -> None:
    named = Rule('["Night Train", "Bard College", "Cora Lind"]', step="candidates")
    run = listed(named)
    assert run.of("decision", kind="candidates")[0]["value"] == ["Cora Lind"]


def test_a_check_needs_something_that_holds_the_candidate_and_the_condition() -> None:
    run = listed(Rule(verdict(True, "T1", correct="Yes"), step="validate"))
    assert run.result.answer == "Cora Lind, Ben Hale", "no text has Ada Moor at the college, or Dan Roe on the train"
    assert sorted(event["node"] for event in run.of("decision", kind="held")) == [101, 201]


def test_a_check_that_is_answered_by_the_name_counts_as_yes() -> None:
    named = Rule(verdict(True, "T1", correct="Ben Hale"), step="validate", contains="Is this true of Ben Hale? studied")
    assert listed(named).result.answer == "Cora Lind, Ben Hale"


def test_a_condition_that_begins_with_a_name_is_no_part_of_the_name_that_is_checked() -> None:
    question = "Which films star both Ada Moor and Ben Hale?"
    conditions = Rule(
        json.dumps({"asked": "films", "conditions": ["Ada Moor among the stars", "Ben Hale among the stars"]}),
        step="conditions",
    )
    given = Rule('["Night Train"]', step="candidates", contains="said: Ada Moor")
    run = robust_run(
        rules(conditions, given, Rule("[]", step="candidates"), validate=verdict(True, "T1", correct="Yes")),
        question=question,
        graph=NO_GRAPH,
        pages=Pages(CAST),
    )
    assert run.node(201)["question"] == "Is this true of Night Train? Ben Hale among the stars?"
    assert run.result.answer == "Night Train"


@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "no idea",
        '{"asked": "actors", "conditions": ["starred in Night Train"]}',
        '{"asked": "actors", "conditions": ["starred in Night Train", "was born in Ghent"]}',
        '{"asked": "actors", "conditions": ["starred in Night Train", "are tall"]}',
        '{"asked": "actors", "conditions": ["starred in Night", "also in Night Train"]}',
    ],
    ids=["empty", "no JSON", "one", "made up", "without a name", "a name left out"],
)
def test_conditions_that_are_not_those_of_the_question_lead_to_the_tree(reply: str) -> None:
    run = listed(Rule(reply, step="conditions"))
    assert "build" in run.steps and "candidates" not in run.steps


def test_a_verb_that_the_question_does_not_have_is_left_out_of_a_condition() -> None:
    said = '{"asked": "actors", "conditions": ["starred in Night Train", "worked for Bard College"]}'
    found = read_conditions(said, FILM)
    assert found is not None and found.conditions[0] == "starred in Night Train" and "worked" not in found.conditions[1]


def many(count: int, **given: Any) -> Run:
    """So many candidates of which nothing is known, and then a tree of eight nodes of which nothing is known either."""
    actors = [f"Ada Moor{number}" for number in range(count)]
    cast = Passage("n", "Night Train", f"Night Train stars {', '.join(actors)}.")
    starred = Rule(json.dumps(actors), step="candidates", contains="said: starred in Night Train")
    nodes = [node(f"What is number {number} on the Moon?", f"thing {number}") for number in range(8)]
    script = rules(
        CONDITIONS,
        starred,
        Rule("[]", step="candidates"),
        build=tree(*nodes, question=FILM),
        validate=verdict("unknown"),
    )
    return robust_run(script, question=FILM, graph=NO_GRAPH, pages=Pages(cast, ALUMNI), **given)


def test_checks_of_a_list_and_the_tree_after_it_have_one_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Walk, "max_validations", 14)
    run = many(12)
    assert run.of("decision", kind="intersected")[0]["validations"] == 12
    assert run.node(0)["validations"] == 14
    assert sum(len(run.node(number)["attempts"]) for number in range(1, 9)) == 2


def test_no_more_candidates_are_checked_than_the_cap_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Walk, "max_validations", 5)
    run = many(12)
    assert len(run.of("decision", kind="candidates")[0]["value"]) == 5 and run.node(0)["validations"] == 5


@pytest.mark.parametrize(("found", "checked"), [(12, 12), (20, 12)])
def test_candidates_that_were_found_and_not_checked_are_told(found: int, checked: int) -> None:
    run = many(found)
    (told,) = run.of("decision", kind="intersected")
    assert (told["found"], told["candidates"]) == (found, checked)
    warned = f"{found} candidates were found, and {checked} of them checked; the answer may lack some of the others."
    assert (warned in run.result.warnings) == (found > checked)


def test_yes_is_nothing_to_look_up() -> None:
    run = listed()
    searched = [event["query"] for event in run.of("retrieve")] + run.texts("mentions")
    assert any("Is this true of Ben Hale? studied" in one for one in searched) and not any(
        "? Yes" in one for one in searched
    )


def test_where_nothing_fulfils_all_conditions_the_tree_is_built() -> None:
    run = listed(Rule("[]", step="candidates"))
    assert "build" in run.steps


@pytest.mark.parametrize(
    ("question", "may"),
    [
        (FILM, True),
        ("Which directors were born in Ghent and also made films in Oslo?", True),
        ("Name the bands that toured with both Low Tide and Far Shore.", True),
        ("Which of the stars of Night Train played in Low Tide?", True),
        ("Which actors of Night Train were born in 1958?", True),
        ("Ada Moor and Ben Hale were in two films together. Which ones?", True),
        ("Carl Orr put some actors of his first Low Tide film into Far Shore: which ones were in both?", True),
        ("Low Tide and Far Shore were made in the same year. Who starred in both?", True),
        ("Which of the stars of the first Low Tide film was later in Far Shore?", True),
        ("Which actor was the first in Night Train and in Low Tide?", False),
        ("Who has the same birthday as Ada Moor and Ben Hale?", False),
        ("Who did Ada Moor, Countess of Ghent marry?", False),
        ("Which country is Carl Orr, Lord Lund's father from?", False),
        ("Which films did Ada Moor, Ben Hale and Cora Lind make together?", True),
        ("Which films did Ada Moor make?", False),
        ("Which actors of Night Train did not study at Bard College?", False),
        ("Who starred in Night Train or studied at Bard College?", False),
        ("What is the nationality of the star of Night Train who studied at Bard College?", False),
        ("Which actor of Night Train has won most prizes of Bard College?", False),
        ("Are Night Train and Low Tide both from the same country?", False),
        ("Where was the director of Night Train born and raised?", False),
        ("Besides Ada Moor, which actors were in Night Train and Low Tide?", False),
        ("Apart from Ada Moor, who was in both Night Train and Low Tide?", False),
        ("Which actors of Night Train, excluding Ada Moor, were in Low Tide?", False),
        ("What other actors were in both Night Train and Low Tide?", False),
        ("Who else was in both Night Train and Low Tide?", False),
        ("Which actors made Night Train and Low Tide one after the other?", True),
    ],
)
def test_most_questions_can_be_told_not_to_list_anything(question: str, may: bool) -> None:
    assert may_list(question) is may
