"""Is a difference luck: the paired test, the interval, whole comparisons, and what they take."""

from __future__ import annotations

import math
import random
import sys
import tracemalloc
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import product
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.paired_scores import flipped, named

from hoptree.core.errors import InputError, MissingExtra
from hoptree.evaluation.statistics import Change, PairedComparison, compare, compare_pair, interval

pytestmark = pytest.mark.skipif(find_spec("numpy") is None, reason="needs the extra 'eval'")

Pairs = dict[str, tuple[float, float]]


def of_differences(differences: Sequence[float]) -> PairedComparison:
    return compare_pair(named([0.0] * len(differences)), named(differences), samples=2_000)


def by_hand(differences: Sequence[float]) -> float:
    """The exact p-value, one toss of all signs after the other."""
    observed = abs(sum(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in _signs(len(differences))]
    return sum(one >= observed - 1e-9 for one in sums) / len(sums)


def _signs(count: int) -> list[tuple[int, ...]]:
    return list(product((-1, 1), repeat=count))


# The paired test


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        ((0.5, 0.3, -0.1), 4 / 8),  # 0.9, 0.7 and their opposites reach 0.7
        ((0.5, 0.3, 0.1), 2 / 8),
        ((0.5, 0.3, 0.1, 0.0, 0.0), 2 / 8),  # what does not differ does not matter
        ((1.0, 1.0, 1.0), 2 / 8),
        ((1.0, -1.0), 1.0),
        ((0.25,), 1.0),  # one changed question proves nothing
        ((0.1, 0.2, -0.3), 1.0),  # 0.1 + 0.2 - 0.3 is nothing, whatever a float says
        ((0.1, 0.2, 0.3, -0.6), 1.0),
    ],
)
def test_small_samples_by_hand(differences: tuple[float, ...], p_value: float) -> None:
    result = of_differences(differences)
    assert result.exact
    assert result.p_value == pytest.approx(p_value, abs=1e-12)


@pytest.mark.parametrize(
    ("wins", "losses", "p_value"),
    [
        (6, 1, 2 * (1 + 7) / 2**7),
        (10, 2, 2 * (1 + 12 + 66) / 2**12),
        (2, 10, 2 * (1 + 12 + 66) / 2**12),
        (60, 40, 0.0568879336409),  # the exact binomial test of 60 heads in 100
        (5, 5, 1.0),
    ],
)
def test_right_and_wrong_is_exact_however_many_flip(wins: int, losses: int, p_value: float) -> None:
    result = flipped(wins, losses, ties=30)
    assert result.exact
    assert result.p_value == pytest.approx(p_value, rel=1e-9)


def test_a_chance_too_small_for_a_float_is_not_nothing() -> None:
    assert 0 < flipped(3_000, 0).p_value < 1e-300


@given(st.lists(st.sampled_from((-1.0, -0.5, -0.4, -0.1, 0.0, 0.1, 0.4, 0.5, 1.0)), min_size=1, max_size=9))
def test_all_tosses_gone_through_one_by_one_agree(differences: list[float]) -> None:
    assert of_differences(differences).p_value == pytest.approx(by_hand(differences), abs=1e-9)


def test_drawn_tosses_come_near_all_tosses() -> None:
    numpy = pytest.importorskip("numpy")
    draw = random.Random(3)
    differences = [draw.uniform(-0.6, 1.0) for _ in range(18)]
    sums = numpy.zeros(1)
    for difference in differences:
        sums = numpy.concatenate((sums + difference, sums - difference))
    exact = float((abs(sums) >= abs(sum(differences)) - 1e-9).mean())
    result = compare_pair(named([0.0] * 18), named(differences))
    assert not result.exact
    assert 0.01 < exact < 0.5
    assert result.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 10_000))


def test_drawn_tosses_count_the_one_observed() -> None:
    differences = [0.5 + place / 100 for place in range(40)]
    assert of_differences(differences).p_value == pytest.approx(1 / 2_001)


# The interval


@pytest.mark.parametrize("distinct", [3, 5_000])
def test_a_large_sample_agrees_with_the_normal_approximation(distinct: int) -> None:
    draw = random.Random(distinct)
    scores = [draw.randrange(distinct) / (distinct - 1) for _ in range(3_000)]
    result = interval(scores, samples=3_000)
    half = 1.96 * stdev(scores) / math.sqrt(len(scores))
    assert result.mean == pytest.approx(fmean(scores))
    assert result.low == pytest.approx(result.mean - half, abs=0.1 * half)
    assert result.high == pytest.approx(result.mean + half, abs=0.1 * half)
    assert result.level == 0.95


def test_the_interval_of_two_scores_is_the_binomial_one() -> None:
    # Two draws of 0 or 1 give 0, a half or 1 with chances of a quarter, a half, a quarter.
    assert (interval([0.0, 1.0]).low, interval([0.0, 1.0]).high) == (0.0, 1.0)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    draw = random.Random(11)
    held = 0
    for _ in range(300):
        scores = [float(draw.random() < 0.3) for _ in range(150)]
        result = interval(scores, samples=500)
        held += result.low <= 0.3 <= result.high
    assert 273 <= held <= 297  # 91 % to 99 %: three standard errors, and the steps of a count


def test_paired_intervals_are_narrower_than_those_of_two_strangers() -> None:
    draw = random.Random(2)
    hard = [draw.random() for _ in range(400)]
    a = [float(one < 0.55) for one in hard]
    b = [float(one < 0.50) for one in hard]
    result = compare_pair(named(b), named(a), samples=2_000)
    alone = interval(a, samples=2_000)
    assert result.interval.high - result.interval.low < 0.6 * (alone.high - alone.low)
    assert result.interval.low > 0 and result.p_value < 0.001


@pytest.mark.parametrize("scores", [[0.3], [0.3] * 7, [0.0] * 200])
def test_scores_that_are_all_the_same_have_no_width(scores: list[float]) -> None:
    result = interval(scores)
    assert (result.mean, result.low, result.high) == (scores[0],) * 3


def test_no_scores_are_refused() -> None:
    with pytest.raises(InputError, match="no score"):
        interval([])


# Whole comparisons


def test_a_comparison_by_hand() -> None:
    a = {"q1": 1.0, "q2": 1.0, "q3": 0.0, "q4": 1.0}
    b = {"q4": 0.0, "q3": 1.0, "q2": 0.0, "q1": 1.0}
    result = compare_pair(a, b)
    assert (result.questions, result.wins, result.losses, result.ties) == (4, 1, 2, 1)
    assert (result.mean_a, result.mean_b, result.difference) == (0.75, 0.5, -0.25)
    assert result.interval.mean == -0.25 and -1 <= result.interval.low < -0.25 < result.interval.high <= 1
    assert result.flips and result.changes == (Change("q2", 1, 0), Change("q3", 0, 1), Change("q4", 1, 0))
    assert result.p_value == result.adjusted_p == 1.0
    assert result.deviation == pytest.approx(math.sqrt(((0.25) ** 2 + 2 * 0.75**2 + 1.25**2) / 3))
    assert (result.left_out, result.not_applicable) == (0, 0)


def test_graded_scores_show_those_that_differ_most() -> None:
    result = of_differences([place / 100 * (-1) ** place for place in range(60)])
    assert not result.flips and len(result.changes) == 20
    assert [change.id for change in result.changes[:3]] == ["q00059", "q00058", "q00057"]


def test_identical_runs() -> None:
    draw = random.Random(1)
    scores = named([draw.random() for _ in range(50)])
    result = compare_pair(scores, dict(scores))
    assert (result.p_value, result.exact, result.difference, result.ties) == (1.0, True, 0.0, 50)
    assert (result.interval.low, result.interval.high) == (0.0, 0.0)
    assert result.changes == () and result.detectable is None


def test_rounding_is_no_win() -> None:
    result = compare_pair({"q": 0.1 + 0.2}, {"q": 0.3})
    assert (result.wins, result.ties, result.difference) == (0, 1, 0.0)


SCORES = st.sampled_from((0.0, 0.25, 0.4, 0.5, 2 / 3, 1.0))
PAIRS = st.dictionaries(st.text(max_size=3), st.tuples(SCORES, SCORES), min_size=1, max_size=40)


@given(PAIRS)
def test_runs_that_change_places_change_signs(pairs: Pairs) -> None:
    a, b = ({key: pair[side] for key, pair in pairs.items()} for side in (0, 1))
    one, other = compare_pair(a, b, samples=200), compare_pair(b, a, samples=200)
    assert one.p_value == other.p_value and 0 < one.p_value <= 1
    assert one.difference == -other.difference and one.deviation == other.deviation
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))
    assert (one.wins, one.losses, one.ties) == (other.losses, other.wins, other.ties)
    assert one.wins + one.losses + one.ties == len(pairs)
    assert one.difference == pytest.approx(one.mean_b - one.mean_a)
    assert -1 <= one.interval.low <= one.interval.high <= 1


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_questions_does_not_matter(pairs: Pairs, shuffler: random.Random) -> None:
    keys = list(pairs)
    shuffler.shuffle(keys)
    a, b = ({key: pair[side] for key, pair in pairs.items()} for side in (0, 1))
    again = compare_pair({key: a[key] for key in keys}, {key: b[key] for key in reversed(keys)}, samples=200)
    assert again == compare_pair(a, b, samples=200)
    assert interval([a[key] for key in keys], samples=200) == interval(a.values(), samples=200)


# The paired test alone


def test_a_small_comparison_is_exact() -> None:
    result = compare([1.0, 1.0, 1.0, 0.5], [0.0, 0.5, 0.0, 0.5])
    assert (result.better, result.worse, result.same) == (3, 0, 1)
    assert result.difference == pytest.approx(0.625)
    assert result.p_value == pytest.approx(2 / 2**3)  # all three the same way round: two of eight tosses


def test_a_large_comparison_repeats_and_tells_luck_from_gain() -> None:
    draw = random.Random(7)
    base = [draw.choice((0.0, 0.5, 1.0)) for _ in range(400)]
    luck = [draw.choice((0.0, 0.5, 1.0)) for _ in range(400)]
    gain = [min(1.0, score + draw.choice((0.0, 0.5))) for score in base]
    assert compare(luck, base).p_value > 0.05
    assert compare(gain, base).p_value < 0.001
    assert compare(luck, base) == compare(luck, base)
    assert compare(luck, base).p_value == compare(base, luck).p_value


@pytest.mark.parametrize("scores", [[], [0.5, 1.0]])
def test_no_difference_is_no_surprise(scores: list[float]) -> None:
    result = compare(scores, scores)
    assert (result.difference, result.p_value, result.same) == (0.0, 1.0, len(scores))


# What it takes


@pytest.mark.parametrize("distinct", [400, 10**9])
def test_memory_stays_small_however_much_is_drawn(distinct: int) -> None:
    draw = random.Random(6)
    a, b = (named([draw.randrange(distinct) / distinct for _ in range(5_000)]) for _ in range(2))
    compare_pair(a, b, samples=2)
    tracemalloc.start()
    try:
        compare_pair(a, b, samples=150)
        assert tracemalloc.get_traced_memory()[1] < 30 * 2**20
    finally:
        tracemalloc.stop()


def test_without_numpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingExtra, match=r"hoptree\[eval\]"):
        compare_pair({"q": 1.0, "p": 0.0}, {"q": 0.0, "p": 0.0})
