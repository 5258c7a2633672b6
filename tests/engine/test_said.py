"""Sentences with the doubts of their words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.engine.sentence_view import LEVELS, SentenceView, WordView


def judged(text: str, *words: list[Any], hits: list[int] | None = None, **more: Any) -> SentenceView:
    return SentenceView.by_scores(text, words, hits or (), bool(hits), more.get("highest"), more.get("theta"))


def drafted(text: str, *tokens: list[Any]) -> SentenceView:
    return SentenceView.by_tokens(text, tokens, True, 0.8)


def test_words_stand_where_they_come_next_in_the_text() -> None:
    view = judged(
        "Jean saw Jean.", ["Jean", 0.1, 1.0, 0.1, True], ["saw", 2.0, 0.5, 0.0, False], ["Jean", 3, 2, 6, True]
    )
    assert [(word.start, word.end) for word in view.words] == [(0, 4), (5, 8), (9, 13)]
    assert [text for text, _ in view.pieces] == ["Jean", " ", "saw", " ", "Jean", "."]
    assert view.words[2] == WordView("Jean", 9, 13, 3.0, 2.0, 6.0, content=True)


def test_a_word_that_the_text_does_not_have_is_passed_over_and_hits_keep_their_numbers() -> None:
    view = judged("a b", ["x", 1, 1, 1, True], ["b", 3, 1, 3, True], hits=[1], theta=1.5, highest=3.0)
    assert [(word.text, word.hit) for word in view.words] == [("b", True)]
    assert view.compared == "S 3.00 > θ 1.50"


@pytest.mark.parametrize(
    ("entropy", "level"), [(None, 0), (0.0, 0), (0.2499, 0), (0.25, 1), (0.75, 2), (1.5, 3), (2.5, 4), (99.0, 4)]
)
def test_levels_of_entropy(entropy: float | None, level: int) -> None:
    assert WordView("x", 0, 1, entropy=entropy).level == level and len(LEVELS) == 4


@pytest.mark.parametrize(("probability", "level"), [(1.0, 0), (0.78, 0), (0.77, 1), (0.3, 2), (0.2, 3), (0.0, 4)])
def test_levels_of_probability_are_of_its_logarithm(probability: float, level: int) -> None:
    assert WordView("x", 0, 1, probability=probability).level == level


def test_tokens_make_words_that_are_as_probable_as_the_least_of_them() -> None:
    view = drafted("La Trémoille.", ["La", 0.9], [" Tré", 0.7], ["moille", 0.3], [".", 0.95])
    assert [(word.text, word.probability, word.hit) for word in view.words] == [
        ("La", 0.9, False),
        ("Trémoille", 0.3, True),
        (".", 0.95, False),
    ]
    assert view.compared == "least p 0.30 < θ 0.80"


def test_a_comma_may_be_what_is_improbable() -> None:
    view = drafted("Jean, a duke", ["Jean", 0.9], [",", 0.2], [" a", 0.9], [" duke", 0.9])
    assert [word.text for word in view.words if word.hit] == [","]


def test_what_is_written_again_is_held_against_nothing() -> None:
    view = SentenceView.by_tokens("Jean.", [["Jean", 0.2]])
    assert view.compared == "least p 0.20" and not any(word.hit for word in view.words)


def test_samples_tell_of_words_that_most_of_them_lack() -> None:
    view = SentenceView.by_samples("A part of art.", ["x"], ["art"], True, 1.0, 0.5)
    assert [(word.start, word.hit) for word in view.words] == [(10, True)]
    assert (view.compared, view.samples) == ("disagreement 1.00 > θ 0.50", ("x",))


def test_steps_are_told_by_how_far_samples_are_apart() -> None:
    assert SentenceView.by_spread("Jean.", (), -5.0, True, -6.0).compared == "U -5.00 > θ -6.00"
    assert SentenceView.by_spread("Jean.", [["Jean", 0.5]], -7.0, False, -6.0).words[0].probability == 0.5
    assert SentenceView.by_spread("Jean.", (), None, True, -6.0).compared == "no sample said anything"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), True, "3", None])
def test_numbers_that_are_none_are_unknown(number: Any) -> None:
    view = judged("Jean", ["Jean", number, number, number, True], theta=number, highest=number)
    assert view.words[0].told == "" and view.words[0].level == 0 and view.compared == ""


def test_words_without_content_say_so() -> None:
    view = judged("His", ["His", 9.0, 1.0, 0.0, False])
    assert view.words[0].told == ("entropy 9.00, attention share 1.00, score 0.00, carries no content: does not count")


@given(st.text(max_size=60), st.lists(st.tuples(st.text(max_size=8), st.floats()), max_size=12))
def test_the_pieces_are_the_whole_text(text: str, rows: list[tuple[str, float]]) -> None:
    tokens = [[token, value] for token, value in rows]
    words = [[token, value, value, value, True] for token, value in rows]
    for view in (drafted(text, *tokens), judged(text, *words, hits=[0])):
        assert "".join(piece for piece, _ in view.pieces) == text
        assert all(word.level in range(5) for word in view.words)
