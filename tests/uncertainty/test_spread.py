"""SeaKR's measure on matrices whose determinant is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.uncertainty import least_spread, smallest_square, state_spread

pytest.importorskip("numpy")


def test_known_matrices() -> None:
    # Centred over its own numbers, (3, 1) is (1, -1) and (2, 2) is nothing: the products are [[2, 0], [0, 0]].
    assert state_spread([(3.0, 1.0), (2.0, 2.0)]) == pytest.approx((math.log(2.001) + math.log(0.001)) / 2)
    # Equal samples: [[2, 2], [2, 2]], with eigenvalues 4 and 0.
    assert state_spread([(3.0, 1.0), (3.0, 1.0)]) == pytest.approx((math.log(4.001) + math.log(0.001)) / 2)
    # (1, -1, 0) and (1, 1, -2): at right angles, of square lengths 2 and 6.
    assert state_spread([(1, -1, 0), (1, 1, -2)], alpha=1.0) == pytest.approx((math.log(3) + math.log(7)) / 2)
    assert state_spread([(1.0, -1.0)]) == pytest.approx(math.log(2.001))
    # J centres the numbers of a state, not the samples: a shift of all numbers of one changes nothing.
    assert state_spread([(13.0, 11.0), (2.0, 2.0)]) == pytest.approx(state_spread([(3.0, 1.0), (2.0, 2.0)]))


def test_samples_without_a_state_are_left_out() -> None:
    assert state_spread([]) is None and state_spread([(), (math.nan, 1.0)]) is None
    assert state_spread([(), (1.0, -1.0), (math.inf, 0.0), (1e200, 0.0)]) == pytest.approx(math.log(2.001))
    with pytest.raises(ValueError, match="one layer"):
        state_spread([(1.0,), (1.0, 2.0)])


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_no_samples_are_nearer_to_each_other_than_equal_ones(count: int) -> None:
    """For 20 samples of an encoder SeaKR's threshold is next to the least there is, and for fewer below it.

    So it is for 20 states of SmolLM2's, whose squared length is at least 14,686.
    """
    root = math.sqrt(0.5)
    assert state_spread([(root, -root)] * count) == pytest.approx(least_spread(count, square=1.0))
    assert (least_spread(count, square=1.0) < -6.0) is (count == 20)
    assert least_spread(count, square=14_686.0) > -6.0
    assert state_spread([(3.0, 1.0)] * count, alpha=0.1) == pytest.approx(least_spread(count, square=2.0, alpha=0.1))


@given(st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=1, max_size=6))
def test_nothing_is_below_what_the_shortest_state_allows(states: list[list[float]]) -> None:
    square, spread = smallest_square(states), state_spread(states)
    assert square is not None and spread is not None
    assert spread >= least_spread(len(states), square=square) - 1e-4


def test_the_shortest_state_is_centred_and_known() -> None:
    assert smallest_square([(13.0, 11.0), (), (math.nan, 1.0), (5.0, -5.0)]) == 2.0 and smallest_square([()]) is None
