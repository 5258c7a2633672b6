"""What has to be done with facts, by a question's own words; whether an answer is of the kind that was asked for."""

from __future__ import annotations

import pytest

from hoptree.core.values import Passage
from hoptree.methods.hop.candidates import Operator
from hoptree.methods.hop.parts import operator_of, split_by_words
from hoptree.text.answer_fit import fits_question_type
from hoptree.text.grounding import find_quote


@pytest.mark.parametrize(
    ("question", "operator"),
    [
        ("Which film has the director who was born earlier, Whiplash or Vertigo?", "compare"),
        ("Do Whiplash and Vertigo have the same director?", "compare"),
        ("Were Damien Chazelle and Alfred Hitchcock both directors?", "both"),
        ("How many films did Alfred Hitchcock direct?", "count"),
        ("Was Alfred Hitchcock knighted?", "yes_no"),
        ("Which actors starred in Vertigo and studied at Princeton University?", "intersect"),
        ("Where was the director of Whiplash born?", "lookup"),
        ("Where was Whiplash made?", "lookup"),
        ("What is the name of the town?", "lookup"),
        ("", "lookup"),
        # Several conditions on one thing, by their signs.
        ("Who acted both in Vertigo and in Whiplash?", "intersect"),
        ("Which country borders both Guyana and Paraguay?", "intersect"),
        ("Which founder of Gator Country had also played with Streetheart?", "intersect"),
        ("Who starred in Vertigo and later in Whiplash?", "intersect"),
        ("Who was in the cast of Vertigo and had acted in Whiplash?", "intersect"),
        ("Which of the stars of Vertigo have won an Academy Award?", "intersect"),
        ("For which films of Paul Verhoeven did Rob Bottin create the effects?", "intersect"),
        ("Ada Moor and Ben Hale have two films in common. Which ones?", "intersect"),
        ("Rimo I and Passu Sar are both part of which range?", "intersect"),
        # Two names, and one thing that is looked up.
        ("In which city is the Low Stadium which is home of the Lund Eagles?", "lookup"),
        ("The album titled Low Tide by Ada Moor was produced by who?", "lookup"),
        ("Which company from Kenya owns the Tusker brand?", "lookup"),
        ('Who employs the author of "Ravenswood and the Revival of Labor"?', "lookup"),
        ("In Grown Ups, who is married to the actor who also starred in Here Comes the Boom?", "lookup"),
        ("Which company, also known as Low Works, made the Lund Wheel?", "lookup"),
        ("Which man who led Lund Town and its rivals was born in Bath?", "lookup"),
        # Everything that one condition leaves, in the plural.
        ("Which films were directed by Ada Moor?", "list"),
        ("What books has Ada Moor written?", "list"),
        ("For which teams did Ben Hale play?", "list"),
        ("List the films of Ada Moor.", "list"),
        ("Name all songs that Ada Moor sang.", "list"),
        ("Who were the members of Low Tide?", "list"),
        ("Which doctor lives in Lund?", "lookup"),
        ("Which film was directed by Ada Moor?", "lookup"),
        ("What series did Ada Moor star in?", "lookup"),
        ("Name the author of the books about Lund.", "lookup"),
        ("Name the singer whose songs are in Low Tide.", "lookup"),
        ("Which city shares borders with Lund?", "lookup"),
        ("Which university with 400 students did Ada Moor attend?", "lookup"),
        ("Which films were made?", "lookup"),
        # What any of several things has, or one of them alone.
        ("Which actors starred in either Vertigo or Whiplash?", "union"),
        ("Which actors starred in Vertigo but not in Whiplash?", "difference"),
        ("Which actor starred in either Vertigo or Whiplash?", "lookup"),
        # What else there is.
        ("Besides France, which countries border Spain and Italy?", "lookup"),
        ("Apart from Ada Moor, which actors starred in both Vertigo and Whiplash?", "lookup"),
        ("Which actors excluding Ada Moor were in both Vertigo and Whiplash?", "lookup"),
        ("Which other actors starred in both Vertigo and Whiplash?", "lookup"),
        ("Who else starred in both Vertigo and Whiplash?", "lookup"),
        # Differences and lengths of time are told or computed, not counted.
        ("How many years older is Ada Moor than Ben Hale?", "lookup"),
        ("How many years after Vertigo was Whiplash made?", "lookup"),
        ("How many more goals did Ada Moor score than Ben Hale?", "lookup"),
        ("How many full years did Ada Moor live in Lund?", "lookup"),
        ("How many films did Alfred Hitchcock direct before Vertigo?", "count"),
        ("What was the number of films that Alfred Hitchcock made?", "count"),
    ],
)
def test_the_operator_of_a_question(question: str, operator: Operator) -> None:
    assert operator_of(question) == operator


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "Which actors starred in both Vertigo and the comedy Night Train?",
            ("Which actors starred in Vertigo?", "Which actors starred in the comedy Night Train?"),
        ),
        (
            "In which plays did Ada Moor and Ben Hale both sing?",
            ("In which plays did Ada Moor sing?", "In which plays did Ben Hale sing?"),
        ),
        (
            "Which clubs did Ada Moor and her brother Ben Hale have in common?",
            ("Which clubs did Ada Moor have?", "Which clubs did her brother Ben Hale have?"),
        ),
        (
            "Which guests appear on Low Tide as well as on Red House?",
            ("Which guests appear on Low Tide?", "Which guests appear on Red House?"),
        ),
        (
            "Which actors starred in Vertigo but not in Whiplash?",
            ("Which actors starred in Vertigo?", "Which actors starred in Whiplash?"),
        ),
        ("Who acted both in Vertigo and in Whiplash, the film about Charlie Low?", ()),
        ("Which actors starred in Vertigo?", ()),
        ("", ()),
    ],
)
def test_what_is_asked_of_two_things_is_asked_of_each(question: str, asked: tuple[str, ...]) -> None:
    assert split_by_words(question).asked == asked


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        ("When did he die?", "3 May 1999", True),
        ("When did he die?", "London", False),
        ("How long is it?", "6,650 km", True),
        ("How long is it?", "very", False),
        ("Is it so?", "No.", True),
        ("Is it so?", "1999", False),
        ("Who wrote it?", "Mary Shelley", True),
        ("Who wrote it?", "yes", False),
        ("Who wrote it?", "1818", False),
        ("Where is it?", "Route 66", True),
        ("What is it?", "anything", None),
    ],
)
def test_whether_an_answer_is_of_the_kind(question: str, answer: str, fits: bool | None) -> None:
    assert fits_question_type(question, answer) is fits


PAGES = (
    Passage("a", "Whiplash", "Whiplash is a film. It was directed by Damien Chazelle. Damien Chazelle was young."),
    Passage("b", "Damien Chazelle", "Damien Chazelle was born in Providence."),
)


def test_the_sentence_with_most_words_of_the_question_is_quoted() -> None:
    span = find_quote("Damien Chazelle", "Who directed the film Whiplash?", PAGES)
    assert span and (span.passage, span.text) == ("a", "It was directed by Damien Chazelle.")
    assert find_quote("damien chazelle.", "Who was born in Providence?", PAGES) == find_quote(
        "Damien Chazelle", "born?", PAGES[1:]
    )
    for nothing in ("", "yes", "No", "Paris", "Damien"[:3]):
        assert find_quote(nothing, "Who directed the film Whiplash?", PAGES) is None
    assert find_quote("Damien", "Who?", ()) is None
