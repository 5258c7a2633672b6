"""Uncertainty from likeliest tokens and from samples, by known answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Token
from hoptree.text.names import LexiconTagger
from hoptree.text.uncertainty import agreement, disagreement, entropy_of_top


def token_with(*shares: float, chosen: float | None = None) -> Token:
    top = tuple((str(number), math.log(share)) for number, share in enumerate(shares))
    return Token("0" if chosen is None else "x", math.log(shares[0] if chosen is None else chosen), top)


def entropy(*shares: float) -> float:
    return -sum(share * math.log(share) for share in shares)


def test_the_missing_mass_is_one_outcome() -> None:
    assert entropy_of_top(token_with(0.5, 0.5)) == pytest.approx(math.log(2))
    assert entropy_of_top(token_with(0.5, 0.25)) == pytest.approx(entropy(0.5, 0.25, 0.25))
    assert entropy_of_top(token_with(1.0)) == 0


def test_a_token_sampled_from_further_down_is_one_more() -> None:
    assert entropy_of_top(token_with(0.5, 0.3, chosen=0.1)) == pytest.approx(entropy(0.5, 0.3, 0.1, 0.1))


def test_rounded_and_impossible_shares_are_no_error() -> None:
    assert entropy_of_top(Token("a", 0.0, (("a", 1e-7), ("b", -math.inf)))) == 0
    assert entropy_of_top(Token("a", -0.6, (("a", -0.6), ("b", -0.6)))) >= 0


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=30), st.integers(1, 30))
def test_never_above_the_entropy_of_all(shares: list[float], kept: int) -> None:
    distribution = [share / sum(shares) for share in sorted(shares, reverse=True)]
    assert entropy_of_top(token_with(*distribution[:kept])) <= entropy(*distribution) + 1e-9


def test_agreement_of_words() -> None:
    assert agreement("The Córdoba river.", "the cordoba RIVER") == 1
    assert agreement("red hill", "blue town") == 0
    assert agreement("red red hill", "red hill") == pytest.approx(0.8)
    assert (agreement("", " ."), agreement("", "red")) == (1, 0)


def test_disagreement_of_samples() -> None:
    tagger = LexiconTagger()
    assert disagreement(["red hill"] * 5, tagger) == 0
    assert disagreement(["red", "blue", "red"], tagger) == pytest.approx(2 / 3)
    assert disagreement(["red hill", "red town"], tagger) == pytest.approx(0.5)
    assert disagreement(["red"], tagger) == disagreement([], tagger) == 0


@pytest.mark.parametrize(
    ("sample", "other", "differ"),
    [
        ("He was born in Oslo.", "She was born in the Oslo.", 0.0),
        ("It is of the Rome.", "It is of the Oslo.", 1.0),
        ("So the answer is: Rome.", "So the answer is: Oslo.", 1.0),
        ("So the answer is yes.", "So the answer is no.", 1.0),
        ("It is.", "It is.", 0.0),
        ("It is.", "They are.", 1.0),
        ("He was not born in Oslo.", "He was born in Oslo.", 0.2),
    ],
)
def test_samples_differ_in_what_they_say(sample: str, other: str, differ: float) -> None:
    """Words such as "the" agree whatever is said; yes, no and not do not."""
    assert disagreement([sample, other], LexiconTagger()) == pytest.approx(differ)
