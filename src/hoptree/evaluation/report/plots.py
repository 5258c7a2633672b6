"""The kinds of plots: dots, lines, bars, shares and a distribution, each from plain numbers to SVG."""

from __future__ import annotations

import html
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hoptree.evaluation.report.tables import plain

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


_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 16, 12, 48
_NAMES = 158
"""Room for names to the left of bars that lie."""
_NAME_LETTERS = 20
_BINS = 10
_CURVE = 80
_TICKS = 10
_ASIDE = 5
"""How far the points of two series with the same value stand apart, so that both intervals are seen."""
_BESIDE = 8
"""How far a name stands from its point."""
_LETTER = 7
"""About the width of a letter."""
_BANDWIDTHS = (0.05, 0.2)

Bars = tuple[float, float | None, float | None] | None
"""A value with the ends of its interval; None where there is none."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A run in a plot of one mean against another; `low` and `high` are the ends of y's interval."""

    series: int
    name: str
    x: float
    y: float
    low: float | None
    high: float | None


def dots(name: str, title: str, x_label: str, y_label: str, points: Sequence[Dot]) -> str:
    """Each point with the interval of its height; the x axis is logarithmic where the points are far apart.

    A line joins the points that nothing to their left is as high as, and these have their names beside them.
    """
    xs = [point.x for point in points]
    x = _x_scale(min(xs), max(xs))
    y = _y_scale(points)
    parts = _axes(x, y, f"{x_label}{' (logarithmic)' if x.log else ''}", y_label)
    told = []
    for point in points:
        said = f"{point.name}: {y_label} {point.y:.1f} at {_short(point.x)}"
        told.append(said)
        if point.low is not None and point.high is not None:
            parts.append(line([(x(point.x), y(point.low)), (x(point.x), y(point.high))], "whisker"))
    best = best_for_less(points)
    if len(best) > 1:
        parts.append(line([(x(one.x), y(one.y)) for one in best], "best"))
    parts += [marker(x(one.x), y(one.y), one.series, said) for one, said in zip(points, told, strict=True)]
    for one in best if len(best) < len(points) else ():
        name_of = shortened(one.name, _NAME_LETTERS)
        before = x(one.x) - _BESIDE - _LETTER * len(name_of) > x.start  # up and to the left of these there is nothing
        aside = -_BESIDE if before else _BESIDE
        parts.append(text(x(one.x) + aside, y(one.y) - _BESIDE, name_of, "best", "end" if before else "start"))
    return picture(name, title, f"{y_label} against {x_label}. {'; '.join(told)}.", parts)


def best_for_less(points: Sequence[Dot]) -> list[Dot]:
    """The points that no other with as small an x or a smaller one is as high as, from left to right."""
    found: list[Dot] = []
    for point in sorted(points, key=lambda one: (one.x, -one.y)):
        if not found or point.y > found[-1].y:
            found.append(point)
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points in percent, and a mark of its own beside it."""

    series: int
    name: str
    points: Sequence[tuple[float, float]]
    mark: tuple[float, float] | None


def lines(name: str, title: str, x_label: str, y_label: str, drawn: Sequence[Line]) -> str:
    """Lines from 0 to 100 both ways; the words tell where each begins and ends."""
    x, y = Scale(0, 100, _LEFT, WIDTH - _RIGHT), Scale(0, 100, HEIGHT - _BOTTOM, _TOP)
    parts = _axes(x, y, x_label, y_label)
    told = []
    for one in drawn:
        (first, high), (last, low) = one.points[0], one.points[-1]
        told.append(f"{one.name}: {high:.1f} at {first:.1f}, {low:.1f} at {last:.1f}")
        parts.append(line([(x(across), y(up)) for across, up in one.points], f"series {colour(one.series)}"))
        if one.mark is not None:
            said = f"{one.name}: {one.mark[1]:.1f} at {one.mark[0]:.1f}"
            parts.append(marker(x(one.mark[0]), y(one.mark[1]), one.series, said))
            told.append(f"its own word {one.mark[1]:.1f} at {one.mark[0]:.1f}")
    return picture(name, title, f"{y_label} against {x_label}. {'; '.join(told)}.", parts)


def swept(
    name: str, title: str, x_label: str, y_label: str, drawn: Sequence[Sequence[Dot]], levels: Sequence[Dot]
) -> str:
    """A line through the points of each series, with their intervals; `levels` go all across, whatever their x is."""
    points = [point for one in drawn for point in one]
    values = sorted({point.x for point in points})
    x, y = _value_scale(values), _y_scale([*points, *levels])
    parts = _axes(
        x, y, f"{x_label}{' (logarithmic)' if x.log else ''}", y_label, values if len(values) <= _TICKS else None
    )
    told = []
    for point in levels:
        told.append(f"{point.name}: {y_label} {point.y:.1f}")
        parts.append(line([(x.start, y(point.y)), (x.end, y(point.y))], f"series level {colour(point.series)}"))
        parts.append(marker(x.end, y(point.y), point.series, told[-1]))
    for place, one in enumerate(drawn):
        aside = _ASIDE * (place - (len(drawn) - 1) / 2)
        at = [(x(point.x) + aside, y(point.y)) for point in one]
        parts.append(line(at, f"series {colour(one[0].series)}"))
        for point, (across, up) in zip(one, at, strict=True):
            told.append(f"{point.name}: {y_label} {point.y:.1f} at {_short(point.x)}")
            if point.low is not None and point.high is not None:
                parts.append(line([(across, y(point.low)), (across, y(point.high))], "whisker"))
            parts.append(marker(across, up, point.series, told[-1]))
    return picture(name, title, f"{y_label} against {x_label}. {'; '.join(told)}.", parts)


def _value_scale(values: Sequence[float]) -> Scale:
    """From a little below the least value to a little above the greatest."""
    ends, (low, high) = (_LEFT, WIDTH - _RIGHT), (values[0], values[-1])
    if low > 0 and high / low > 12:
        return Scale(low / 1.5, high * 1.5, *ends, log=True)
    room = 0.08 * (high - low) or 1.0
    return Scale(low - room, high + room, *ends)


def _y_scale(points: Sequence[Dot]) -> Scale:
    lows = [point.y if point.low is None else point.low for point in points]
    highs = [point.y if point.high is None else point.high for point in points]
    bottom, top = max(0.0, min(lows) - 3), min(100.0, max(highs) + 3)
    return Scale(bottom, max(top, bottom + 1), HEIGHT - _BOTTOM, _TOP)


def _x_scale(low: float, high: float) -> Scale:
    ends = (_LEFT, WIDTH - _RIGHT)
    if low > 0 and high / low > 12:
        return Scale(low / 1.5, high * 1.5, *ends, log=True)
    return Scale(0.0, high * 1.08 or 1.0, *ends)


def _axes(x: Scale, y: Scale, x_label: str, y_label: str, x_ticks: Sequence[float] | None = None) -> list[str]:
    bottom = HEIGHT - _BOTTOM
    parts = []
    for value in y.ticks():
        parts.append(line([(x.start, y(value)), (x.end, y(value))], "grid"))
        parts.append(text(x.start - 6, y(value) + 4, _short(value), anchor="end"))
    for value in x.ticks() if x_ticks is None else x_ticks:
        parts.append(line([(x(value), bottom), (x(value), bottom + 4)], "tick"))
        parts.append(text(x(value), bottom + 17, _short(value)))
    parts.append(line([(x.start, bottom), (x.end, bottom)], "tick"))
    parts.append(text((x.start + x.end) / 2, HEIGHT - 8, x_label, "label"))
    parts.append(text(13, (y.start + y.end) / 2, y_label, "label", turned=True))
    return parts


def bars(name: str, title: str, label: str, series: Sequence[str], rows: Sequence[tuple[str, Sequence[Bars]]]) -> str:
    """Groups of lying bars, 0 to 100, with intervals; a series without a value in a group says n/a."""
    thick = max(6, min(14, 60 // max(1, len(series))))
    step = thick * len(series) + 14
    height = _TOP + step * len(rows) + _BOTTOM
    x = Scale(0, 100, _NAMES, WIDTH - _RIGHT)
    parts = _lying_axis(x, label, height)
    told = []
    for place, (group, values) in enumerate(rows):
        above = _TOP + place * step + 7
        parts += _name(above + thick * len(series) / 2, group)
        for number, value in enumerate(values):
            y = above + number * thick
            if value is None:
                told.append(f"{group}, {series[number]}: n/a")
                parts.append(text(x.start + 4, y + thick - 2, "n/a", "small", anchor="start"))
                continue
            said = f"{group}, {series[number]}: {value[0]:.1f}"
            told.append(said)
            parts.append(bar(x.start, y, x(value[0]) - x.start, thick - 1.5, number, said))
            if value[1] is not None and value[2] is not None:
                middle = y + (thick - 1.5) / 2
                parts.append(line([(x(value[1]), middle), (x(value[2]), middle)], "whisker"))
    return picture(name, title, f"{label}. {'; '.join(told)}.", parts, height)


def _lying_axis(x: Scale, label: str, height: float) -> list[str]:
    bottom = height - _BOTTOM
    parts = []
    for value in x.ticks():
        parts.append(line([(x(value), _TOP), (x(value), bottom)], "grid"))
        parts.append(text(x(value), bottom + 17, _short(value)))
    parts.append(text((x.start + x.end) / 2, height - 8, label, "label"))
    return parts


def _name(middle: float, said: str) -> list[str]:
    """A name before its bars; what stands in brackets at its end goes below."""
    first, _, rest = said.rpartition(" (")
    lines = [first, f"({rest}"] if first else [said]
    down = middle + 4 - 6.5 * (len(lines) - 1)
    return [
        text(_NAMES - 8, down + 13 * place, shortened(one, _NAME_LETTERS), "name", anchor="end")
        for place, one in enumerate(lines)
    ]


def shares(
    name: str, title: str, series: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], label: str
) -> str:
    """A bar a row, divided into shares of 1."""
    step, thick = 34, 22
    height = _TOP + step * len(rows) + _BOTTOM
    x = Scale(0, 100, _NAMES, WIDTH - _RIGHT)
    parts = _lying_axis(x, label, height)
    told = []
    for place, (row, values) in enumerate(rows):
        y = _TOP + place * step + 6
        parts += _name(y + thick / 2, row)
        begun = 0.0
        for number, value in enumerate(values):
            said = f"{row}, {series[number]}: {100 * value:.1f} %"
            told.append(said)
            left, right = x(100 * begun), x(100 * (begun + value))
            parts.append(bar(left, y, right - left, thick, number, said))
            if right - left > 34:
                parts.append(text((left + right) / 2, y + thick / 2 + 4, f"{100 * value:.0f} %", "inside"))
            begun += value
    return picture(name, title, f"{'; '.join(told)}.", parts, height)


def distribution(name: str, title: str, ends: tuple[str, str], label: str, values: Sequence[float], series: int) -> str:
    """How often values from 0 to 1 occur: bars as counted, and a curve of what a bar around each place would be.

    It is smoothed by a kernel. Near the ends the bar around a place is the outermost one.
    """
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int(value * _BINS + 1e-9))] += 1
    percent = [100 * count / len(values) for count in counts]
    share, wide = smoothed(values), 1 / _BINS
    places = [at / _CURVE for at in range(_CURVE + 1)]
    lefts = [min(1 - wide, max(0.0, place - wide / 2)) for place in places]
    curve = [(place, 100 * share(left, left + wide)) for place, left in zip(places, lefts, strict=True)]
    x = Scale(0, 100, _LEFT, WIDTH - _RIGHT)
    y = Scale(0, 1.1 * max(*percent, *(height for _, height in curve)), HEIGHT - _BOTTOM, _TOP)
    parts = _axes(x, y, f"0: {ends[0]}; 100: {ends[1]}", label)
    told = []
    for number, value in enumerate(percent):
        left, right = x(100 * number / _BINS), x(100 * (number + 1) / _BINS)
        said = f"{100 * number // _BINS} to {100 * (number + 1) // _BINS}: {value:.1f} %"
        told.append(said)
        parts.append(bar(left + 1, y(value), right - left - 2, y.start - y(value), series, said))
    parts.append(line([(x(100 * at), y(height)) for at, height in curve], "curve"))
    return picture(name, title, f"{label}, from 0, {ends[0]}, to 100, {ends[1]}. {'; '.join(told)}.", parts)


def smoothed(values: Sequence[float]) -> Callable[[float, float], float]:
    """The share of values from 0 to 1 that lie between two places, each value spread by a Gaussian kernel.

    What a kernel would have outside is folded back at the ends.
    """
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    least, most = _BANDWIDTHS
    width = min(most, max(least, 1.06 * spread * math.pow(len(values), -0.2))) * math.sqrt(2)
    counted = Counter(values)

    def between(low: float, high: float) -> float:
        total = 0.0
        for value, times in counted.items():
            folded = (value, -value, 2 - value)
            total += times * sum(math.erf((high - one) / width) - math.erf((low - one) / width) for one in folded)
        return total / 2 / len(values)

    return between


def _short(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"
