"""Conditions of a question as code reads them in a reply: with all names of the question, and what is asked of each."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.methods.robust.conditions import read_conditions
from hoptree.methods.steps.conditions import may_list, named


def split(question: str, asked: str, *conditions: str) -> tuple[str, tuple[str, ...]] | None:
    found = read_conditions(json.dumps({"asked": asked, "conditions": conditions}), question)
    return (found.asked, found.conditions) if found else None


@pytest.mark.parametrize(
    ("question", "asked", "names", "conditions"),
    [
        (
            "Which painter of The Red House sat for a bust by Carl Orr?",
            "painter",
            ("The Red House", "Carl Orr"),
            ("painter of The Red House", "sat for a bust by Carl Orr"),
        ),
        (
            "In which plays did Ada Moor and Ben Hale both sing?",
            "plays",
            ("Ada Moor", "Ben Hale"),
            ("Ada Moor sing", "Ben Hale sing"),
        ),
        (
            "Which sailors sank with the Low Tide and with the Far Shore?",
            "sailors",
            ("Low Tide", "Far Shore"),
            ("sank with the Low Tide", "sank with the Far Shore"),
        ),
        (
            "Which songs by Dan Roe did the singer Eve Zed and her sister Fay Zed record?",
            "songs",
            ("Dan Roe", "Eve Zed", "Fay Zed"),
            ("songs by Dan Roe", "the singer Eve Zed record", "her sister Fay Zed record"),
        ),
        (
            "Who wrote essays for three papers of 1911, Morning Herald and Evening Star?",
            "people",
            ("essays for three papers of 1911", "Morning Herald", "Evening Star"),
            ("wrote essays for Morning Herald", "wrote essays for Evening Star"),
        ),
    ],
    ids=["before", "behind", "listed", "of a kind", "counted"],
)
def test_a_bare_name_gets_the_words_that_the_question_has_for_it(
    question: str, asked: str, names: tuple[str, ...], conditions: tuple[str, ...]
) -> None:
    assert split(question, asked, *names) == (asked, conditions)


@pytest.mark.parametrize(
    ("question", "told", "read"),
    [
        ("Which songs did Ann Low write and Bob High sing?", ("written by Ann Low", "sung by Bob High"), None),
        ("Which plays did Ann Low write that Bob High staged?", ("written by Ann Low", "staged by Bob High"), None),
        (
            "Which albums did Ann Low produce for Bob High?",
            ("produced by Ann Low", "made for Bob High"),
            ("produced by Ann Low", "for Bob High"),
        ),
        ("Who was in Ann Low and sang in Bob High?", ("was in Ann Low", "sang in Bob High"), None),
    ],
)
def test_conditions_with_verbs_of_their_own_stay_as_they_were_told(
    question: str, told: tuple[str, ...], read: tuple[str, ...] | None
) -> None:
    found = read_conditions(json.dumps({"asked": "things", "conditions": told}), question)
    assert found is not None and found.conditions == (read or told)


@pytest.mark.parametrize(
    ("question", "asked", "conditions"),
    [
        ("Which films did Ann Low direct and Bob High produce?", "films", ("Ann Low", "Bob High")),
        ("What country are Ann Low and Bob High from?", "country", ("Ann Low from", "Bob High from")),
    ],
)
def test_bare_names_between_which_the_words_cannot_be_parted_are_no_conditions(
    question: str, asked: str, conditions: tuple[str, ...]
) -> None:
    assert may_list(question) and split(question, asked, *conditions) is None


def test_names_in_what_is_asked_for_count() -> None:
    question = "Which Baltic ports trade with Ghent and with Dover?"
    both = ("trade with Ghent", "with Dover")
    assert split(question, "Baltic ports", *both) == ("Baltic ports", both)
    assert split(question, "ports", *both) == ("Baltic ports", both), "it stands right before what is asked for"


def test_a_name_that_only_says_which_thing_another_is_may_be_left_out() -> None:
    question = "Which men rowed for Ghent and on the Belgian ship Low Tide?"
    found = split(question, "men", "rowed for Ghent", "on Low Tide")
    assert found == ("men", ("rowed for Ghent", "on Belgian ship Low Tide"))
    assert split("Which men rowed for Ghent, Dover and Lund?", "men", "rowed for Ghent", "rowed for Lund") is None


def test_what_is_asked_for_is_a_condition_where_it_names_something() -> None:
    question = "Which members of Far Shore have also sung with Low Tide?"
    found = split(question, "members of Far Shore", "sung with Low Tide")
    assert found == ("members", ("members of Far Shore", "sung with Low Tide"))
    found = split("Which towns in Aland lie on the Borg?", "towns", "lie on the Borg")
    assert found == ("towns", ("towns in Aland", "lie on the Borg"))


def test_evidence_must_have_a_name_that_the_reply_gave_and_not_one_that_only_says_which_it_is() -> None:
    question = "Which musicians were members of both Ghent bands Low Tide and Far Shore?"
    reply = json.dumps({"asked": "musicians", "conditions": ["Low Tide", "Far Shore"]})
    found = read_conditions(reply, question)
    assert found is not None and found.about == ("Low Tide", "Far Shore")
    assert found.conditions[0] == "members of Ghent bands Low Tide"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Who did Ada Moor, Countess of Ghent marry?", {"ada moor countess of ghent"}),
        ("Which films star Ada Moor, Ben Hale and Cora Lind?", {"ada moor", "ben hale", "cora lind"}),
        ("Which films star Ada Moor, Ben Hale, and Cora Lind?", {"ada moor", "ben hale", "cora lind"}),
        ("Ada Moor lived in a house. Which one?", {"ada moor"}),
        ("Which of them came from Akron, Ohio?", {"akron ohio"}),
        ("Who is Ada Moor-Low, 3Rd Baron Low's child?", {"ada moor low 3rd baron low s"}),
        ("Who taught Ada Moor, 1st Countess of Ghent, and Ben Hale?", {"ada moor 1st countess of ghent", "ben hale"}),
        (
            "Which films star Ada Moor, Count of Lund, Ben Hale and Cora Lind?",
            {"ada moor count of lund", "ben hale", "cora lind"},
        ),
        ("Which films star Ada Moor, Jr. and Ben Hale, Sr.?", {"ada moor jr", "ben hale sr"}),
        ("Which films star Ada Moor, Jr, and Ben Hale?", {"ada moor jr", "ben hale"}),
        ("Which albums are by Ada Moor, Prince and Ben Hale?", {"ada moor", "prince", "ben hale"}),
        ("Which albums are by Ada Moor, King Crimson and Queen?", {"ada moor", "king crimson", "queen"}),
    ],
)
def test_a_name_behind_a_comma_is_a_part_of_the_one_before_it_unless_they_are_listed(
    text: str, names: set[str]
) -> None:
    assert named(text) == names


def test_a_rank_behind_a_comma_makes_no_list() -> None:
    assert not may_list("Who is Ada Moor-Low, 3Rd Baron Low's child-in-law?")
    assert not may_list("Who is the father of Ada Moor, 2nd Duke of Lund?")
    assert may_list("Who taught both Ada Moor, 2nd Duke of Lund, and Ben Hale?")


def test_a_condition_without_a_name_is_dropped_where_two_others_remain() -> None:
    question = "Which billed stars of Low Tide studied at Bard College?"
    both = ("stars of Low Tide", "studied at Bard College")
    assert split(question, "stars", "billed stars", *both) == ("stars", both)
    assert split(question, "stars", "billed stars", both[0]) is None


def test_a_name_of_which_the_question_says_nothing_is_connected_with_what_is_asked_for() -> None:
    found = split("Ada Moor and Ben Hale have two films in common. Which ones?", "films", "Ada Moor", "Ben Hale")
    assert found == ("films", ("connected with Ada Moor", "connected with Ben Hale"))


@given(st.text(), st.text(), st.lists(st.text(), max_size=4))
def test_nothing_raises(question: str, asked: str, conditions: list[str]) -> None:
    may_list(question)
    split(question, asked, *conditions)
    split(f"Which Ada did {question} Ben?", "Ada", question, "Ben", *conditions)
