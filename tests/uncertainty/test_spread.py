"""SeaKR's measure on matrices whose determinant is known."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.methods.baselines.seakr import least_spread, shortest, spread


@pytest.fixture(params=["numpy", "plain"])
def _arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "numpy", None)
    else:
        pytest.importorskip("numpy")


@pytest.mark.usefixtures("_arithmetic")
def test_known_matrices() -> None:
    # Centred over its own numbers, (3, 1) is (1, -1) and (2, 2) is nothing: the products are [[2, 0], [0, 0]].
    assert spread([(3.0, 1.0), (2.0, 2.0)]) == pytest.approx((math.log(2.001) + math.log(0.001)) / 2)
    # Equal samples: [[2, 2], [2, 2]], with eigenvalues 4 and 0.
    assert spread([(3.0, 1.0), (3.0, 1.0)]) == pytest.approx((math.log(4.001) + math.log(0.001)) / 2)
    # (1, -1, 0) and (1, 1, -2): at right angles, of square lengths 2 and 6.
    assert spread([(1, -1, 0), (1, 1, -2)], alpha=1.0) == pytest.approx((math.log(3) + math.log(7)) / 2)
    assert spread([(1.0, -1.0)]) == pytest.approx(math.log(2.001))
    # J centres the numbers of a state, not the samples: a shift of all numbers of one changes nothing.
    assert spread([(13.0, 11.0), (2.0, 2.0)]) == pytest.approx(spread([(3.0, 1.0), (2.0, 2.0)]))


@pytest.mark.usefixtures("_arithmetic")
def test_samples_without_a_state_are_left_out() -> None:
    assert spread([]) is None and spread([(), (math.nan, 1.0)]) is None
    assert spread([(), (1.0, -1.0), (math.inf, 0.0), (1e200, 0.0)]) == pytest.approx(math.log(2.001))
    with pytest.raises(ValueError, match="one layer"):
        spread([(1.0,), (1.0, 2.0)])


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_no_samples_are_nearer_to_each_other_than_equal_ones(count: int) -> None:
    """For 20 samples of an encoder SeaKR's threshold is next to the least there is, and for fewer below it.

    So it is for 20 states of SmolLM2's, whose squared length is at least 14,686.
    """
    root = math.sqrt(0.5)
    assert spread([(root, -root)] * count) == pytest.approx(least_spread(count, square=1.0))
    assert (least_spread(count, square=1.0) < -6.0) is (count == 20)
    assert least_spread(count, square=14_686.0) > -6.0
    assert spread([(3.0, 1.0)] * count, alpha=0.1) == pytest.approx(least_spread(count, square=2.0, alpha=0.1))


@given(st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=1, max_size=6))
def test_nothing_is_below_what_the_shortest_state_allows(states: list[list[float]]) -> None:
    square, found = shortest(states), spread(states)
    assert square is not None and found is not None
    assert found >= least_spread(len(states), square=square) - 1e-4


def test_the_shortest_state_is_centred_and_known() -> None:
    assert shortest([(13.0, 11.0), (), (math.nan, 1.0), (5.0, -5.0)]) == 2.0 and shortest([()]) is None


@given(st.lists(st.lists(st.floats(-100, 100), min_size=3, max_size=3), min_size=1, max_size=6))
def test_both_ways_give_the_same(states: list[list[float]]) -> None:
    pytest.importorskip("numpy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "numpy", None)
        plain = spread(states)
    assert spread(states) == pytest.approx(plain, rel=1e-4, abs=1e-4)
