"""An answer counts only where a passage holds it together with what was asked about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Answer, Passage
from hoptree.text.grounding import grounded, stems

HAS = Passage("has", "Wojciech Jerzy Has", "The director died in Łódź in 2000.")
CEMETERY = Passage("cemetery", "Assistens Cemetery", "Assistens Cemetery is in Copenhagen.")
CAHILL = Passage("cahill", "Thaddeus Cahill", "Thaddeus Cahill was an American engineer who died in 1934.")


def test_the_answer_takes_the_passages_spelling() -> None:
    answer = grounded(Answer("lódź"), "In which city did Wojciech Jerzy Has die?", [CEMETERY, HAS])
    assert (answer.text, answer.support, answer.known) == ("Łódź", ("has",), True)


def test_an_answer_that_a_passage_has_to_the_letter_stays_as_it_is() -> None:
    heading = Passage("a", "asn1 delete structure", "How to delete it.")
    text = Passage("b", "Functions", "Call asn1_delete_structure to delete it.")
    assert grounded(Answer("asn1_delete_structure"), "which function?", [heading, text]).text == "asn1_delete_structure"


def test_a_language_is_not_another_one_of_the_same_letter() -> None:
    page = Passage("page", "Git", "Git is written in C.")
    assert not grounded(Answer("C++"), "Which language is Git written in?", [page]).known
    assert grounded(Answer("c#"), "Which is it?", [Passage("page", "X", "It is C#, not C.")]).text == "C#"


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("30%", "About 30 % of the kits were lost.", "30%"),
        ("30 %", "About 30% of the kits were lost.", "30 %"),
        ("€48,000", "It cost 48,000 euros.", "€48,000"),
        ("€12", "A ticket is 12 €.", "€12"),
        ("12 €", "A ticket is €12.", "12 €"),
        ("US$ 1.5 Million", "It was sold for US$1.5 million.", "US$1.5 million"),
        ("$1.5 Million", "It was sold for $1.5 million.", "$1.5 Million"),
        ("Apollo-11", "It was apollo 11.", "apollo 11"),
        ("30 Kits", "About 30 kits were lost.", "30 kits"),
        ("the 30 kits.", "About 30 kits were lost.", "30 kits"),
        ("*kits*", "About 30 kits were lost.", "kits"),
    ],
)
def test_an_answer_keeps_the_sign_of_its_number(answer: str, text: str, expected: str) -> None:
    assert grounded(Answer(answer), "how many?", [Passage("page", "Page", text)]).text == expected


def test_white_space_of_a_passage_is_one_blank_in_an_answer() -> None:
    page = Passage("page", "Page", "Wojciech" + " " * 1000 + "\n Has died.")
    assert grounded(Answer("wojciech has"), "Who died?", [page]).text == "Wojciech Has"


def test_another_subjects_fact_is_no_evidence() -> None:
    answer = grounded(Answer("Assistens Cemetery"), "Where is Thaddeus Cahill buried?", [CAHILL, CEMETERY])
    assert (answer.status, answer.support) == ("unknown", ())


def test_words_must_stand_in_a_row() -> None:
    assert not grounded(Answer("American 1934"), "Who was Thaddeus Cahill?", [CAHILL]).known


def test_a_question_without_names_asks_for_the_words_alone() -> None:
    assert grounded(Answer("1934"), "When did he die?", [CAHILL]).support == ("cahill",)


def test_nothing_is_never_grounded() -> None:
    assert not grounded(Answer(""), "When did he die?", [CAHILL]).known
    assert not grounded(Answer("1934"), "When did he die?", []).known


def test_possessives_are_names_too() -> None:
    assert grounded(Answer("engineer"), "What was Thaddeus Cahill's profession?", [CAHILL]).known


@pytest.mark.parametrize(
    ("question", "text", "named"),
    [
        ("Who was in the cast of Grey's Anatomy?", "Grey's Anatomy stars Kevin McKidd.", True),
        ("Who was in the cast of Grey’s Anatomy?", "Grey's Anatomy stars Kevin McKidd.", True),
        ("Who was Grey's Anatomy's star?", "Grey's Anatomy stars Kevin McKidd.", True),
        ("Who sang on Big Sean's Dark Sky Paradise?", "Dark Sky Paradise by Big Sean has Kevin McKidd.", True),
        ("Who sang on Big Sean's Dark Sky Paradise?", "Big Sean met Kevin McKidd.", False),
        ("Who sang on Big Sean's Dark Sky Paradise?", "Sean has a sky with Kevin McKidd.", False),
    ],
)
def test_a_possessive_inside_a_name_is_a_part_of_it_or_has_a_name_on_both_sides(
    question: str, text: str, named: bool
) -> None:
    assert grounded(Answer("Kevin McKidd"), question, [Passage("p", "", text)]).known is named


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("the city of Paris", "It is in Warsaw, the city of kings."),
        ("born in 1822", "He was born in 1922."),
        ("August 12 1925", "He died on August 12, 1926."),
        ("1 August 1925", "He died on 2 August 1925."),
        ("Damien Sayre Chazelle", "Damien Sayre was somebody else."),
        ("president of France", "France is a country."),
        ("City of God", "God made it."),
        ("the Who", "A man who sang."),
        ("in the film", "It is in the end a novel."),
        ("a big band", "A big hall."),
        ("Los Angeles River", "Los Angeles is a city."),
    ],
)
def test_what_tells_an_answer_apart_is_never_left_off(answer: str, text: str) -> None:
    assert not grounded(Answer(answer), "what is it?", [Passage("p", "", text)]).known


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("the city of Łódź", "He died in Lodz.", "Lodz"),
        ("Père Lachaise Cemetery", "He lies in Pere Lachaise.", "Pere Lachaise"),
        ("the film Lost Highway", "Lost Highway is by David Lynch.", "Lost Highway"),
        ("director David Lynch", "Lost Highway is by David Lynch.", "David Lynch"),
        ("Sir Alec Guinness", "A film with Alec Guinness.", "Alec Guinness"),
        ("in New York City", "She lives in New York.", "New York"),
        ("the Night Watch", "Rembrandt's Night Watch", "Night Watch"),
        ("12 million people", "It has 12 million inhabitants.", "12 million"),
    ],
)
def test_what_only_says_what_kind_of_thing_it_is_may_be_left_off(answer: str, text: str, expected: str) -> None:
    assert grounded(Answer(answer), "what is it?", [Passage("p", "", text)]).text == expected


TELLING = ("Paris", "Warsaw", "1822", "1922", "Lachaise", "Lynch", "12")
OTHERS = ("the", "city", "of", "in", "born", "film", "director", "Cemetery", "people", "Sir", "a")


@given(
    answer=st.lists(st.sampled_from(TELLING + OTHERS), min_size=1, max_size=6),
    text=st.lists(st.sampled_from(TELLING + OTHERS), max_size=9),
)
def test_names_and_numbers_of_a_grounded_answer_are_all_in_the_passage(answer: list[str], text: list[str]) -> None:
    checked = grounded(Answer(" ".join(answer)), "what is it?", [Passage("p", "", " ".join(text))])
    if checked.known:
        assert set(answer).intersection(TELLING) <= set(text)
        assert checked.text in " ".join(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The Directors of İzmir's well_known bridge", {"direc", "i̇zmi", "s", "well", "bridg"}),
        ("STRASSE und Straße, 東京", {"stras", "und", "東", "京"}),
        ("", set[str]()),
    ],
)
def test_stems_are_the_beginnings_of_folded_content_words(text: str, wanted: set[str]) -> None:
    assert stems(text) == wanted
