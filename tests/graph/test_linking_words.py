"""Words of names and questions, and how names are weighed against them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.graph.entity_linking import QuestionScorer
from hoptree.graph.relation_linking import bare_words, likeness, name_words, question_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Bartolomé Blanche", "bartolome blanche"),
        ("J. R. R. Tolkien", "jrr tolkien"),
        ("J.R.R. Tolkien", "jrr tolkien"),
        ("Craig M. Johnson", "craig m johnson"),
        ("McDonald’s", "mcdonalds"),
        ("Simon & Garfunkel", "simon and garfunkel"),
        ("place_of_birth", "place of birth"),
        ("黒澤明", "黒 澤 明"),
        ("Łódź-Fabryczna", "lodz fabryczna"),
        ("…", ""),
    ],
)
def test_names_are_folded_to_words(name: str, words: str) -> None:
    assert " ".join(name_words(name)) == words


def test_what_stands_in_brackets_can_be_left_out() -> None:
    assert bare_words("Charles Wilson (Texas politician)") == ("charles", "wilson")
    assert bare_words("Charles Wilson") == () and bare_words("(What's the Story) Morning Glory?") == ()


def test_an_owner_is_known_with_and_without_the_ending() -> None:
    words = question_words("what is Angie Estes's profession")
    assert [word.base for word in words][-3:] == ["angie", "estes", "profession"]
    assert words[3].text == "estess" and words[3].capital and not words[4].capital
    assert [word.text for word in question_words("joseph moxon 's work")] == ["joseph", "moxon", "work"]


def test_near_words_are_alike_and_others_are_not() -> None:
    assert likeness("schwimmer", "schwimer") > likeness("schwimmer", "schwimar") > 0
    assert likeness("marquis", "marqius") > 0  # two letters in the wrong order are one mistake
    assert likeness("1998", "1995") == likeness("who", "how") == likeness("roger", "marquis") == 0


@given(st.text(max_size=80))
def test_any_text_has_words_that_stay_what_they_are(text: str) -> None:
    words = name_words(text)
    assert all(words) and name_words(" ".join(words)) == name_words(" ".join(name_words(" ".join(words))))


@given(st.text("abcdeé", max_size=10), st.text("abcdeé", max_size=10))
def test_likeness_is_symmetric_and_within_bounds(word: str, other: str) -> None:
    assert likeness(word, other) == likeness(other, word)
    assert 0 <= likeness(word, other) <= 1 and (likeness(word, other) == 1) == (word == other)


def score(question: str, name: str, *, plain: frozenset[str] = frozenset(), is_mention: bool = False) -> float:
    return QuestionScorer(question_words(question), lambda word: 5.0, plain, is_mention=is_mention).score(name.split())


def test_a_name_is_weighed_by_what_it_explains_and_what_it_lacks() -> None:
    asked = "where was the stratton story filmed"
    assert score(asked, "the stratton story") > score(asked, "stratton story") > score(asked, "stratton story two")
    assert score(asked, "stratton story") > score(asked, "stratton") and score(asked, "unknown") == 0
    assert score("john born in new york", "new york") > score("new john of york", "new york")


def test_words_of_relations_and_questions_count_less() -> None:
    asked = "what genre is parody"
    assert score(asked, "genre") == score(asked, "parody")
    plain = frozenset(["genre"])
    assert score(asked, "genre", plain=plain) < score(asked, "parody", plain=plain)
    assert score(asked, "what is") < score(asked, "parody")


def test_capitals_tell_where_a_text_has_some() -> None:
    assert score("Who sang in Help with style", "help") > score("Who sang in Help with style", "style")
    assert score("who sang in help with style", "help") == score("who sang in help with style", "style")


def test_a_whole_mention_is_fitted_exactly_or_less() -> None:
    assert score("roger marquis", "roger marquis", is_mention=True) == 1
    assert 0 < score("roger marquis", "marquis", is_mention=True) < 1
    assert 0 < score("roger marquis", "roger marquis junior", is_mention=True) < 1
