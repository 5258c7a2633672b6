"""Drawing plots as SVG that stands in a page: colours come from the page's style sheet, by class."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoptree.evaluation.report.tables import plain

__all__ = [
    "HEIGHT",
    "SERIES",
    "WIDTH",
    "Scale",
    "bar",
    "colour",
    "key",
    "line",
    "marker",
    "picture",
    "shortened",
    "text",
]

WIDTH, HEIGHT = 460, 300
SERIES = 8
"""Colours in the style sheet; beyond them each comes again, paler and with an outline."""
_SHAPES = (
    "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0Z",
    "M-4.5,-4.5h9v9h-9Z",
    "M0,-6L5.5,4.5H-5.5Z",
    "M0,-6.5L6.5,0L0,6.5L-6.5,0Z",
    "M-5.5,-4.5H5.5L0,6Z",
    "M-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4Z",
    "M-3,-6h6l3,6l-3,6h-6l-3,-6Z",
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a value lies between two places of the picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps: tuple[int, ...] = (1, 2, 5) if len(powers) <= 4 else (1,)
            return [step * 10.0**power for power in powers for step in steps if self._holds(step * 10.0**power)]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        values = (step * (first + number) for number in range(20))
        return [value for value in values if self._holds(value)]

    def _holds(self, value: float) -> bool:
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return self.low - slack <= value <= self.high + slack


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= least * (1 - 1e-9))


def picture(name: str, title: str, about: str, parts: Iterable[str], height: float = HEIGHT) -> str:
    """A whole plot; `about` says in words what it shows, for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{_safe(title)}</title><desc id="{name}-d">{_safe(about)}</desc>{"".join(parts)}</svg>'
    )


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}{turn}>{_safe(said)}</text>'


def line(points: Sequence[tuple[float, float]], kind: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"/>'


def bar(x: float, y: float, width: float, height: float, series: int, said: str) -> str:
    """A bar; pointing at it shows what it stands for."""
    return (
        f'<rect class="{colour(series)}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}"><title>{_safe(said)}</title></rect>'
    )


def marker(x: float, y: float, series: int, said: str) -> str:
    return (
        f'<path class="{colour(series)}" transform="translate({x:.1f} {y:.1f})" d="{_SHAPES[series % len(_SHAPES)]}">'
        f"<title>{_safe(said)}</title></path>"
    )


def key(series: int, *, shaped: bool) -> str:
    """The mark of a series in a legend."""
    drawn = _SHAPES[series % len(_SHAPES)] if shaped else "M-6,-6h12v12h-12Z"
    return (
        f'<svg class="key" viewBox="-8 -8 16 16" aria-hidden="true"><path class="{colour(series)}" d="{drawn}"/></svg>'
    )


def colour(series: int) -> str:
    """The class that gives a series its colour."""
    return f"c{series % SERIES}{' again' if series // SERIES % 2 else ''}"


def shortened(said: str, letters: int) -> str:
    said = plain(said)
    return said if len(said) <= letters else f"{said[: letters - 1]}…"


def _safe(said: str) -> str:
    return html.escape(plain(said))
