"""What a run cost, by hand."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import InputError
from hoptree.core.values import Usage
from hoptree.evaluation.run_folder import Spread, spread, summarise_usage


def test_a_spread_by_hand() -> None:
    assert spread([4.0, 1.0, 10.0]) == Spread(15.0, 5.0, 4.0, 10.0)
    assert spread([1.0, 2.0, 3.0, 4.0]).median == 2.5


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (19, 19), (20, 19), (21, 20), (100, 95), (101, 96)])
def test_p95_is_the_smallest_value_that_95_percent_do_not_exceed(count: int, expected: int) -> None:
    assert spread([float(value) for value in range(count, 0, -1)]).p95 == expected


def test_nothing_has_no_mean() -> None:
    assert spread([]) == Spread(0.0, None, None, None)
    assert asdict(spread([])) == {"total": 0.0, "mean": None, "median": None, "p95": None}


def test_every_figure_of_the_usage_and_all_tokens() -> None:
    one = Usage(llm_calls=2, prompt_tokens=100, completion_tokens=20, retrievals=1, cost=0.1, seconds=3.0)
    other = Usage(llm_calls=4, prompt_tokens=300, completion_tokens=0, cost=0.2, critical_path_seconds=1.5)
    found = summarise_usage([one.as_dict(), other.as_dict()])
    assert set(found) == {*Usage().as_dict(), "tokens"}
    assert found["llm_calls"] == Spread(6.0, 3.0, 3.0, 4)
    assert found["tokens"] == Spread(420.0, 210.0, 210.0, 300)
    assert found["cost"].total == pytest.approx(0.3)
    assert found["critical_path_seconds"] == Spread(1.5, 0.75, 0.75, 1.5)


def test_a_usage_without_its_figures_is_refused() -> None:
    usage = Usage().as_dict()
    del usage["cost"], usage["seconds"]
    with pytest.raises(InputError, match="does not say its cost, seconds"):
        summarise_usage([Usage().as_dict(), usage])


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_a_spread_lies_within_its_values(values: list[float]) -> None:
    found = spread(values)
    assert found.mean is not None and found.median is not None and found.p95 is not None
    slack = 1e-9 * max(values)
    for value in (found.mean, found.median, found.p95):
        assert min(values) - slack <= value <= max(values) + slack
    assert found.median <= found.p95 + slack
    assert 100 * sum(value <= found.p95 for value in values) >= 95 * len(values)
