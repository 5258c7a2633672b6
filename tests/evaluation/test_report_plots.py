"""Plots of a report: which points are joined and named, and what is folded away."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hoptree.evaluation.report.plots import Dot, dots, pareto_front


def dot(name: str, x: float, y: float) -> Dot:
    return Dot(0, name, x, y, None, None)


def test_what_nothing_cheaper_scores_as_much_as_is_joined_and_named() -> None:
    points = [
        dot("dear", 900, 50),
        dot("poor", 500, 20),
        dot("cheap", 100, 30),
        dot("same", 950, 50),
        dot("b", 100, 25),
    ]
    assert [one.name for one in pareto_front(points)] == ["cheap", "dear"]
    drawn = dots("p", "F1 against tokens", "tokens", "F1", points)
    named = [name for name in ("dear", "poor", "cheap", "same") if f">{name}</text>" in drawn]
    assert named == ["dear", "cheap"] and drawn.count('<polyline class="best"') == 1


def test_a_plot_in_which_all_are_best_names_none_beside_its_legend() -> None:
    drawn = dots("p", "F1 against tokens", "tokens", "F1", [dot("one", 1, 10), dot("two", 2, 20)])
    assert ">one</text>" not in drawn and '<polyline class="best"' in drawn
    assert '<polyline class="best"' not in dots("p", "F1 against tokens", "tokens", "F1", [dot("one", 1, 10)])


def test_the_name_of_a_perfect_run_is_within_the_picture() -> None:
    drawn = dots("p", "F1 against tokens", "tokens", "F1", [dot("one", 900, 100), dot("two", 950, 60)])
    label = re.search(r'y="([-\d.]+)"[^>]*>one</text>', drawn)
    assert label and float(label[1]) >= 12, "letters stand above their place"


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 100)), min_size=1, max_size=30))
def test_every_point_has_a_best_one_that_is_no_dearer_and_no_worse(at: list[tuple[float, float]]) -> None:
    points = [dot(str(number), x, y) for number, (x, y) in enumerate(at)]
    best = pareto_front(points)
    assert all(any(one.x <= point.x and one.y >= point.y for one in best) for point in points)
    assert all(first.x < second.x and first.y < second.y for first, second in pairwise(best))
