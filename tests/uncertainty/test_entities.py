"""MIND's confidence in a name, and where the name is found."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Token
from hoptree.text.retrieval_triggers import entity_confidence, find_mentions, max_confidence


def test_names_are_found_by_their_words() -> None:
    text = "Émile Chautard's wife knew emile\nchautard; Chautardson did not. J. R. R. Tolkien did."
    assert [text[start:end] for start, end in find_mentions("Emile Chautard", text)] == [
        "Émile Chautard",
        "emile\nchautard",
    ]
    assert [text[start:end] for start, end in find_mentions("J.R.R. Tolkien", text)] == []
    assert [text[start:end] for start, end in find_mentions("J. R. R. Tolkien", text)] == ["J. R. R. Tolkien"]
    assert find_mentions("Chautard's wife", text) == ((6, 21),)
    assert find_mentions("", text) == find_mentions("...", text) == find_mentions("Rome", "") == ()


def test_equation_4() -> None:
    # max of 1/2 + 0.2 and 1/4 + 0.6
    assert max_confidence([(1.0, 1.0), (3.0, 3.0)]) == pytest.approx(0.85)
    assert max_confidence([(1.0, 1.0), (3.0, 3.0)], gamma=2.0, delta=0.1) == pytest.approx(1.1)
    assert max_confidence([(1.0, None)]) == max_confidence([(1.0, math.nan)]) == pytest.approx(0.7)
    assert max_confidence([(None, 1.0), (math.nan, 1.0)]) is None and max_confidence([]) is None


TEXT = "So it is Rome. Jean Bretagne knew Jean Bretagne"
TOKENS = [
    Token(text, -1.0, (), entropy, attention)
    for text, entropy, attention in [
        *[("So", 0.0, 5.0), (" it", 0.0, 5.0), (" is", 0.0, 5.0), (" Rome", 1.0, 5.0), (".", 0.0, 5.0)],
        *[(" Jean", 3.0, 0.1), (" Bret", 1.0, 0.1), ("agne", 0.25, 0.0), (" knew", 0.0, 0.1)],
        *[(" Jean", 0.0, 0.2), (" Bretagne", 0.0, None)],
    ]
]


def test_a_name_counts_where_it_first_stands() -> None:
    # The words of the second sentence get 0.1, 0.1, 0.1 and 0.2 (the last is not known), so that a is 0.8 for both of
    # the first mention; their entropies are 3 and the mean of 1 and 0.25.
    assert entity_confidence("Jean Bretagne", TEXT, TOKENS, scaled=True) == pytest.approx(1 / 1.625 + 0.2 * 0.8)
    assert entity_confidence("jean bretagne", TEXT, TOKENS, delta=1.0, scaled=True) == pytest.approx(1 / 1.625 + 0.8)
    assert entity_confidence("Jean", TEXT, TOKENS, scaled=True) == pytest.approx(1 / 4 + 0.2 * 0.8)
    assert entity_confidence("Rome", TEXT, TOKENS, scaled=True) == pytest.approx(1 / 2 + 0.2)
    assert entity_confidence("Jean Bretagne", TEXT, TOKENS) == pytest.approx(1 / 1.625 + 0.2 * 0.1), "as it is paid"
    assert entity_confidence("Bretagne", "Bretagne", TOKENS[-1:]) == pytest.approx(1 + 0.2), "no attention is known"
    assert entity_confidence("Berlin", TEXT, TOKENS) is None
    assert entity_confidence("Rome", "Rome", [Token("Rome", -1.0)]) is None
    assert entity_confidence("Rome", "Rome", []) is None


def test_a_name_is_not_sure_because_its_last_piece_is() -> None:
    """Whoever has written "Heyer" has no choice but "dahl": by tokens, every name of several would be sure."""
    pieces = [("The", 0.1), (" Hey", 8.0), ("er", 4.0), ("dahl", 0.0)]
    tokens = [Token(text, -1.0, (), entropy, 0.1) for text, entropy in pieces]
    assert entity_confidence("Heyerdahl", "The Heyerdahl", tokens, delta=0.0) == pytest.approx(1 / (1 + 12 / 3))


@given(st.text(max_size=10), st.text(max_size=60))
def test_mentions_stand_in_order(entity: str, text: str) -> None:
    for start, end in find_mentions(entity, text):
        assert 0 <= start < end <= len(text)
    assert entity_confidence(entity, text, [Token(text, math.nan, (), math.nan, math.nan)]) is None
