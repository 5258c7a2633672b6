"""Known answers for every metric."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import InputError
from hoptree.evaluation.metrics import (
    Overlap,
    best_overlap,
    contains,
    exact_match,
    normalise,
    overlap,
    score_answer,
    yes_no,
)

WORDS = st.sampled_from(["yes", "no", "noanswer", "The", "a", "Eiffel", "Tower", "Paris", "1889", "!!", "O'Brien", "İ"])
PHRASES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
TEXTS = st.one_of(PHRASES, st.text(max_size=30))
GOLDS = st.lists(st.one_of(PHRASES, st.text(min_size=1, max_size=20).filter(str.strip)), min_size=1, max_size=4)


def test_normal_form_is_squads() -> None:
    assert normalise("The  Eiffel-Tower, a landmark!") == "eiffeltower landmark"


@pytest.mark.parametrize(
    ("text", "form"),
    [("The The", "the the"), ("The The.", "the the"), ("A+", "a"), ("!!!", "!!!"), ("the!", "the"), (" \n", "")],
)
def test_a_text_of_articles_and_punctuation_keeps_a_form(text: str, form: str) -> None:
    assert normalise(text) == form


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("the Eiffel Tower", ["Eiffel Tower"], True),
        ("Eiffel Tower.", ["Big Ben", "eiffel tower"], True),
        ("Eiffel Tower in Paris", ["Eiffel Tower"], False),
        ("", ["Eiffel Tower"], False),
        ("anything", [], False),
        ("", ["The The"], False),
        ("", [""], False),
        ("The", ["!!!"], False),
        ("the the", ["The The"], True),
    ],
)
def test_exact_match(prediction: str, golds: list[str], expected: bool) -> None:
    assert exact_match(prediction, golds) is expected


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("It is the Eiffel Tower in Paris.", ["Eiffel Tower"], True),
        ("I know", ["no"], False),
        ("north", ["no"], False),
        ("No, they are not.", ["no"], True),
        ("Eiffel", ["Eiffel Tower"], False),
        ("anything", ["the"], False),
        ("", [""], False),
    ],
)
def test_containment_is_of_whole_words(prediction: str, golds: list[str], expected: bool) -> None:
    assert contains(prediction, golds) is expected


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        # Three words said, two wanted, both of them among the three.
        ("Eiffel Tower Paris", "the Eiffel Tower", Overlap(0.8, 2 / 3, 1.0)),
        # One of two words is right, one of four is found.
        ("Barack Clinton", "Barack Hussein Obama II", Overlap(1 / 3, 1 / 2, 1 / 4)),
        # A word counts as often as both have it.
        ("new new york", "new york city", Overlap(2 / 3, 2 / 3, 2 / 3)),
        ("London", "Paris", Overlap()),
        ("", "Paris", Overlap()),
        ("", "", Overlap()),
        ("Yes.", "yes", Overlap(1.0, 1.0, 1.0)),
        # HotpotQA: yes, no and noanswer are all or nothing, whichever side they are on.
        ("yes it is", "yes", Overlap()),
        ("no", "no man's land", Overlap()),
        ("noanswer", "noanswer given", Overlap()),
        ("no way", "way no", Overlap(1.0, 1.0, 1.0)),
    ],
)
def test_overlap(prediction: str, gold: str, expected: Overlap) -> None:
    found = overlap(prediction, gold)
    assert (found.f1, found.precision, found.recall) == pytest.approx(
        (expected.f1, expected.precision, expected.recall)
    )


def test_the_best_overlap_is_of_one_answer() -> None:
    found = best_overlap("Springfield Illinois", ["Illinois", "Springfield Illinois United States"])
    assert found == overlap("Springfield Illinois", "Illinois")  # 2/3 both; the first of equals
    assert (found.precision, found.recall) == (0.5, 1.0)
    assert best_overlap("anything", []) == Overlap()


def test_each_score_is_its_maximum_over_the_aliases() -> None:
    scores = score_answer("Springfield Illinois", ["Chicago Illinois", "Illinois", "Springfield Illinois USA"])
    assert scores == pytest.approx(
        {
            "em": 0.0,
            "f1": 0.8,  # the third: 2 of 2 and 2 of 3
            "precision": 1.0,  # the third
            "recall": 1.0,  # the second
            "contains": 1.0,  # the second
            "hits@1": 1.0,
            "em_first": 0.0,
            "f1_first": 0.5,
            "yes_no": None,
        }
    )


def test_the_value_without_aliases_is_kept() -> None:
    scores = score_answer("NYC", ["New York City", "NYC"])
    assert (scores["em"], scores["f1"], scores["em_first"], scores["f1_first"]) == (1.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("prediction", "golds", "expected"),
    [
        ("Yes", ["yes"], 1.0),
        ("No, they are not.", ["no"], 1.0),
        ("Yes, both are.", ["no"], 0.0),
        ("north", ["no"], 0.0),
        ("They are: no", ["no"], 0.0),
        ("", ["no"], 0.0),
        ("no", ["noanswer"], None),
        ("no", ["Norway", "no"], None),
        ("no", [], None),
    ],
)
def test_yes_no_accuracy_is_for_yes_no_questions(prediction: str, golds: list[str], expected: float | None) -> None:
    assert yes_no(prediction, golds) == expected


@pytest.mark.parametrize("prediction", ["", " \n"])
def test_no_answer_scores_nothing(prediction: str) -> None:
    assert not any(score_answer(prediction, ["no", "The The", ""]).values())
    assert score_answer(prediction, ["no"])["yes_no"] == 0.0


@pytest.mark.parametrize("golds", [[], [""], [" ", ""]])
def test_a_question_without_answers_is_refused(golds: list[str]) -> None:
    with pytest.raises(InputError, match="without an accepted answer"):
        score_answer("Paris", golds)


@given(TEXTS)
def test_the_normal_form_is_its_own_and_empty_for_blanks_alone(text: str) -> None:
    form = normalise(text)
    assert normalise(form) == form
    assert bool(form) == bool(text.strip())


@given(TEXTS, GOLDS)
def test_scores_are_bounded_and_ordered(prediction: str, golds: list[str]) -> None:
    scores = score_answer(prediction, golds)
    assert all(value is None or 0 <= value <= 1 for value in scores.values())
    em, f1, precision, recall = (scores[name] or 0.0 for name in ("em", "f1", "precision", "recall"))
    assert f1 <= max(precision, recall) + 1e-12
    assert em <= (scores["contains"] or 0.0)
    assert em == 0 or (f1, precision, recall) == (1, 1, 1)
    assert em >= (scores["em_first"] or 0.0) and f1 >= (scores["f1_first"] or 0.0)


@given(TEXTS, GOLDS)
def test_more_aliases_never_score_less_and_their_order_does_not_matter(prediction: str, golds: list[str]) -> None:
    fewer, all_of_them = score_answer(prediction, golds[:1]), score_answer(prediction, golds)
    turned = score_answer(prediction, golds[::-1])
    for name in ("em", "f1", "precision", "recall", "contains"):
        assert (fewer[name] or 0.0) <= (all_of_them[name] or 0.0) == turned[name]


@given(TEXTS, TEXTS)
def test_overlap_turned_round_swaps_precision_and_recall(one: str, other: str) -> None:
    there, back = overlap(one, other), overlap(other, one)
    assert (there.precision, there.recall) == (back.recall, back.precision)
    assert there.f1 == pytest.approx(back.f1)


@given(GOLDS)
def test_an_accepted_answer_is_right(golds: list[str]) -> None:
    for gold in golds:
        scores = score_answer(gold, golds)
        assert (scores["em"], scores["f1"], scores["contains"]) == (1.0, 1.0, 1.0)
