"""What the thresholds of MIND and SeaKR are set by: where the values lie that they are held against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hoptree.runtime.result import Result

__all__ = ["quantiles", "told_quantiles"]

_SHARES = (10, 25, 50, 75, 90)


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """What 10, 25, 50, 75 and 90 % of the values lie below, on the line between the two nearest."""
    ordered = sorted(values)
    found = []
    for share in _SHARES:
        place, rest = divmod((len(ordered) - 1) * share, 100)
        above = ordered[min(place + 1, len(ordered) - 1)]
        found.append(ordered[place] + (above - ordered[place]) * rest / 100)
    return tuple(found)


def told_quantiles(results: Iterable[Result]) -> Iterator[str]:
    """A line for the names that the confidence filter saw, and one for the steps that were sampled."""
    parts = [part for result in results if result.writing for part in result.writing.parts]
    sure = [one.confidence for part in parts for one in part.names if one.dropped_by != "cot"]
    yield from _line("confidence", "name", sure, "--set cut=… drops what lies below")
    apart = [part.said.measured for part in parts if part.said.measure == "spread"]
    yield from _line("U", "step", apart, "--set theta=… looks up what lies above")


def _line(what: str, of: str, values: Iterable[float | None], use: str) -> Iterator[str]:
    known = [value for value in values if value is not None]
    if not known:
        return
    (first, least), *others = zip(_SHARES, quantiles(known), strict=True)
    more = "".join(f", {share} % below {value:.2f}" for share, value in others)
    count = f"{len(known):,} {of}{'' if len(known) == 1 else 's'}"
    yield f"{what} of {count}: {first} % lie below {least:.2f}{more} ({use})"
