"""TAIKC with robust=on, asked whether something holds of both of two things."""

from __future__ import annotations

import pytest
from tests.methods.asked import Shelf
from tests.methods.taikc_asked import Run, rules

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule
from hoptree.text.comparison_questions import detect_comparison

QUESTION = "Are both Elko Regional Airport and Ford Airport (Grand Rapids) located in Michigan?"
ELKO = Passage("p1", "Elko Regional Airport", "It lies a mile west of Elko in Nevada.", 3.0)
FORD = Passage("p2", "Ford Airport", "Ford Airport is an airport of Grand Rapids, Michigan.", 2.0)
OTHER = Passage("p3", "Nevada", "Nevada has many airports.", 1.0)


def checks(**said: str) -> list[Rule]:
    """What is said of each of the two, by a word of its name."""
    return [Rule(text, step="bear_out", contains=f"Claim about {name}") for name, text in said.items()]


def asked(*passages: Passage, script: list[Rule], question: str = QUESTION) -> Run:
    return Run([*script, *rules()], question=question, shelf=Shelf(*passages), robust=True)


@pytest.mark.parametrize(
    ("elko", "ford", "answer"), [("No. It is in Nevada.", "Yes", "no"), ("Yes", "yes.", "yes"), ("No", "No", "no")]
)
def test_each_is_checked_alone_and_code_joins_the_two(elko: str, ford: str, answer: str) -> None:
    run = asked(ELKO, FORD, OTHER, script=checks(Elko=elko, Ford=ford))
    assert run.result.answer == answer
    assert run.steps == ["bear_out", "bear_out"]
    assert run.node(1)["question"] == "Is it true of Elko Regional Airport: located in Michigan?"
    assert run.node(2)["answer"] == ("Yes" if ford.lower().startswith("yes") else "No")
    assert set(run.of("final")[0]["support"]) == {"p1", "p2"}


def test_each_is_shown_what_its_own_page_says() -> None:
    run = asked(ELKO, FORD, OTHER, script=checks(Elko="Yes", Ford="Yes"))
    shown = [prompt for _, prompt in run.model.requests]
    assert ["Nevada." in text for text in shown] == [True, False]
    assert ["Grand Rapids, Michigan" in text for text in shown] == [False, True]


def test_where_nothing_tells_of_one_of_them_the_tree_is_asked() -> None:
    run = asked(ELKO, OTHER, script=checks(Elko="Yes", Ford="Yes"))
    assert run.steps.count("bear_out") == 1
    assert "decompose" in run.steps


def test_a_reply_that_is_neither_yes_nor_no_decides_nothing() -> None:
    run = asked(ELKO, FORD, script=checks(Elko="The text", Ford="Yes"))
    assert "decompose" in run.steps


def test_a_no_of_one_is_enough() -> None:
    run = asked(ELKO, FORD, script=checks(Elko="Unclear", Ford="No"))
    assert (run.result.answer, "decompose" in run.steps) == ("no", False)


def test_a_page_that_only_mentions_one_of_them_decides_nothing() -> None:
    mentions = Passage("p4", "Airports", "Ford Airport is one, and Elko Regional Airport is another.", 2.0)
    run = asked(ELKO, mentions, script=checks(Elko="Yes", Ford="No"))
    assert run.steps.count("bear_out") == 1 and "decompose" in run.steps


def test_where_no_guess_is_wanted_what_a_page_does_not_say_is_no_no() -> None:
    script = [*checks(Elko="No", Ford="No"), *rules()]
    run = Run(script, question=QUESTION, shelf=Shelf(ELKO, FORD), robust=True, continuation=False)
    assert "bear_out" not in run.steps


def test_the_paper_s_form_asks_the_tree() -> None:
    run = Run([*checks(Elko="No", Ford="No"), *rules()], question=QUESTION, shelf=Shelf(ELKO, FORD))
    assert "bear_out" not in run.steps


@pytest.mark.parametrize(
    ("question", "claim"),
    [
        ("Are The Datsuns and The Black Crowes both rock bands?", "rock bands"),
        ("Have Marc Rosset and Max Mirnyi both been professional tennis players?", "been professional tennis players"),
        ("Are both Don Giovanni and Cardillac operas with three acts?", "operas with three acts"),
        ("Are both magazines, the Woman's Viewpoint and Pick Me Up, British publications?", "British publications"),
    ],
)
def test_what_is_claimed_of_both_is_read_off_the_question(question: str, claim: str) -> None:
    found = detect_comparison(question)
    assert found is not None
    assert (found.kind, found.claim) == ("both", claim)


@pytest.mark.parametrize(
    "question",
    [
        "Are Ann Lee and Bob Ray not both singers?",
        "Aren't Ann Lee and Bob Ray both singers?",
        "Are Ann Lee and Bob Ray both American or both British?",
        "Are both Paris, France and Berlin, Germany capitals?",
    ],
)
def test_what_is_not_plainly_said_of_both_is_left_to_the_tree(question: str) -> None:
    found = detect_comparison(question)
    assert found is None or found.kind != "both"


MERCURY = "Are both Mercury (planet) and Venus planets?"


def test_a_page_of_another_thing_of_that_name_is_not_its_own() -> None:
    element = Passage("p1", "Mercury (element)", "Mercury is a metal.", 3.0)
    venus = Passage("p2", "Venus", "Venus is a planet.", 2.0)
    run = asked(element, venus, script=checks(Mercury="No", Venus="Yes"), question=MERCURY)
    assert run.steps.count("bear_out") == 1 and "decompose" in run.steps


@pytest.mark.parametrize("title", ["The Black Crowes", "Black Crowes", "Bláck Crowes"])
def test_articles_and_accents_do_not_hide_its_own_page(title: str) -> None:
    band = Passage("p1", title, "The band is American.", 3.0)
    venus = Passage("p2", "Venus", "Venus is a planet.", 2.0)
    said = {"The band is American.": "Yes", "Venus is a planet.": "No"}
    script = [Rule(text, step="bear_out", contains=page) for page, text in said.items()]
    run = asked(band, venus, script=script, question="Are The Black Crowes and Venus both American?")
    assert (run.steps.count("bear_out"), run.result.answer) == (2, "no")


def test_what_a_page_does_not_say_is_told_as_such() -> None:
    run = asked(ELKO, FORD, script=checks(Elko="No", Ford="Yes"))
    assert [node.why for node in run.result.tree] == [
        "its own page does not say so, which counts as no",
        "its own page says so",
    ]
    assert run.result.why.startswith("compared in code: ")


def test_a_no_in_hand_is_given_where_the_budget_ends() -> None:
    script = [*checks(Elko="No", Ford="No"), *rules()]
    run = Run(script, question=QUESTION, shelf=Shelf(ELKO, FORD), robust=True, budget=Budget(calls=1))
    assert (run.result.stopped_by, run.result.answer) == ("calls", "no")


def test_a_check_that_decided_nothing_is_no_part_of_the_tree() -> None:
    run = asked(ELKO, OTHER, script=checks(Elko="Yes", Ford="Yes"))
    assert all("Is it true of" not in node.question for node in run.result.tree)
