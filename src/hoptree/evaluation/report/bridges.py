"""Whether filters keep the pages that lead from one hop to the next: gold titles that the question does not name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoptree.evaluation.report.gold import named
from hoptree.evaluation.report.lookups import FILTERS, Filtering, LookUps
from hoptree.evaluation.run_folder import Row

__all__ = ["Bridges", "bridge_titles", "bridges_of"]


@dataclass(frozen=True, slots=True)
class Bridges:
    """The bridges of some questions.

    `titles` are how many there are, `found` those that were a name to search with before some search, `used` those of
    them that one search at least was made with. `reached` and `kept` count each search for itself: how often a bridge
    was among the names that a filter was shown, and how often it still was behind it. `all` stands for both filters.
    """

    titles: int
    found: int
    used: int
    reached: dict[str, int]
    kept: dict[str, int]


def bridge_titles(row: Row) -> tuple[str, ...]:
    """The supporting titles that the question does not name, what stands in brackets behind them left out."""
    return tuple(title for title in row.gold_titles if not named([title], [row.question]))


def bridges_of(questions: Iterable[tuple[Row, LookUps]]) -> Bridges:
    titles = found = used = 0
    reached = dict.fromkeys((*FILTERS, "all"), 0)
    kept = dict(reached)
    for row, look_ups in questions:
        for title in bridge_titles(row):
            titles += 1
            seen = [passed for one in look_ups.filterings if (passed := _passed(title, one))]
            found += bool(seen)
            used += any(passed["all"] for passed in seen)
            for passed in seen:
                for place, stays in passed.items():
                    reached[place] += 1
                    kept[place] += stays
    return Bridges(titles, found, used, reached, kept)


def _passed(title: str, filtering: Filtering) -> dict[str, bool]:
    """Which filters that were shown a title kept it, by any of the names for it; nothing where none is for it."""
    names = [one for one in filtering.names if named([title], [one.name])]
    if not names:
        return {}
    shown = {place: [one for one in filtering.reached(place) if one in names] for place in filtering.filters}
    passed = {place: any(one.dropped_by != place for one in some) for place, some in shown.items() if some}
    return {**passed, "all": any(not one.dropped_by for one in names)}
