"""Plots as SVG: dots, lines, bars, shares and a distribution.

The page's style sheet styles them. Each plot has a title and a description in words, and its marks have tooltips.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hoptree.evaluation.report.tables import escape_html, plain

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 54, 16, 12, 48
_COLOURS = 8  # in the style sheet; further series repeat them, paler and with an outline
_SHAPES = (
    "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0Z",
    "M-4.5,-4.5h9v9h-9Z",
    "M0,-6L5.5,4.5H-5.5Z",
    "M0,-6.5L6.5,0L0,6.5L-6.5,0Z",
    "M-5.5,-4.5H5.5L0,6Z",
    "M-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4Z",
    "M-3,-6h6l3,6l-3,6h-6l-3,-6Z",
)
_SQUARE = "M-6,-6h12v12h-12Z"
_NAMES_WIDTH = 158
_MAX_NAME_CHARS = 20
_CHAR_WIDTH = 7
_LABEL_OFFSET = 8
_SERIES_OFFSET = 5  # distance between points of two series with the same x, so that both intervals are visible
_MAX_VALUE_TICKS = 10
_BINS = 10
_CURVE_POINTS = 80
_BANDWIDTHS = (0.05, 0.2)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to coordinates."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(number) if self.log else number for number in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            values = [step * 10.0**power for power in powers for step in ((1, 2, 5) if len(powers) <= 4 else (1,))]
        else:
            least = (self.high - self.low) / 5
            power = 10.0 ** math.floor(math.log10(least))
            step = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= least * (1 - 1e-9))
            first = math.ceil(self.low / step - 1e-9)
            values = [step * (first + number) for number in range(20)]
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return [value for value in values if self.low - slack <= value <= self.high + slack]


def _scale_of(values: Sequence[float], linear: tuple[float, float]) -> Scale:
    """Return a horizontal scale: logarithmic if the values are far apart."""
    low, high = min(values), max(values)
    if low > 0 and high / low > 12:
        return Scale(low / 1.5, high * 1.5, LEFT, WIDTH - RIGHT, log=True)
    return Scale(*linear, LEFT, WIDTH - RIGHT)


def picture(name: str, title: str, description: str, parts: Iterable[str], height: float = HEIGHT) -> str:
    """Return a whole plot."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape_html(title)}</title><desc id="{name}-d">{escape_html(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "middle", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}{turn}>{escape_html(content)}</text>'


def line(points: Iterable[tuple[float, float]], kind: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{path}"/>'


def _bar(x: float, y: float, width: float, height: float, series: int, hint: str) -> str:
    return (
        f'<rect class="{_colour(series)}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}"><title>{escape_html(hint)}</title></rect>'
    )


def _marker(x: float, y: float, series: int, hint: str) -> str:
    return (
        f'<path class="{_colour(series)}" transform="translate({x:.1f} {y:.1f})" d="{_SHAPES[series % len(_SHAPES)]}">'
        f"<title>{escape_html(hint)}</title></path>"
    )


def legend_key(series: int, *, shaped: bool) -> str:
    """Return the mark of a series in a legend."""
    shape = _SHAPES[series % len(_SHAPES)] if shaped else _SQUARE
    return (
        f'<svg class="key" viewBox="-8 -8 16 16" aria-hidden="true"><path class="{_colour(series)}" d="{shape}"/></svg>'
    )


def _colour(series: int) -> str:
    """Return the CSS class of a series' colour."""
    return f"c{series % _COLOURS}{' again' if series // _COLOURS % 2 else ''}"


def _shorten(name: str) -> str:
    name = plain(name)
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 1]}…"


def _short_number(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def axes(x: Scale, y: Scale, x_label: str, y_label: str, x_ticks: Sequence[float] | None = None) -> list[str]:
    """Return both axes with a grid for y."""
    bottom = HEIGHT - BOTTOM
    parts = []
    for value in y.ticks():
        parts.append(line([(x.start, y(value)), (x.end, y(value))], "grid"))
        parts.append(text(x.start - 6, y(value) + 4, _short_number(value), anchor="end"))
    for value in x.ticks() if x_ticks is None else x_ticks:
        parts.append(line([(x(value), bottom), (x(value), bottom + 4)], "tick"))
        parts.append(text(x(value), bottom + 17, _short_number(value)))
    parts.append(line([(x.start, bottom), (x.end, bottom)], "tick"))
    label = f"{x_label} (logarithmic)" if x.log else x_label
    parts.append(text((x.start + x.end) / 2, HEIGHT - 8, label, "label"))
    parts.append(text(13, (y.start + y.end) / 2, y_label, "label", turned=True))
    return parts


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of a plot; `low` and `high` are the ends of y's interval."""

    series: int
    name: str
    x: float
    y: float
    low: float | None
    high: float | None

    def whisker(self, x: float, y: Scale) -> list[str]:
        if self.low is None or self.high is None:
            return []
        return [line([(x, y(self.low)), (x, y(self.high))], "whisker")]


def dots(name: str, title: str, x_label: str, y_label: str, points: Sequence[Dot]) -> str:
    """Draw points with their intervals, and a line through the Pareto front.

    The x axis is logarithmic if the points are far apart. Points of the front are named in the plot.
    """
    values = [point.x for point in points]
    x = _scale_of(values, (0.0, max(values) * 1.08 or 1.0))
    y = _score_scale(points)
    parts = axes(x, y, x_label, y_label)
    hints = [f"{point.name}: {y_label} {point.y:.1f} at {_short_number(point.x)}" for point in points]
    parts += [whisker for point in points for whisker in point.whisker(x(point.x), y)]
    front = pareto_front(points)
    if len(front) > 1:
        parts.append(line([(x(point.x), y(point.y)) for point in front], "best"))
    parts += [_marker(x(point.x), y(point.y), point.series, hint) for point, hint in zip(points, hints, strict=True)]
    for point in front if len(front) < len(points) else ():
        label = _shorten(point.name)
        left = x(point.x) - _LABEL_OFFSET - _CHAR_WIDTH * len(label) > x.start  # no other point is there
        offset, anchor = (-_LABEL_OFFSET, "end") if left else (_LABEL_OFFSET, "start")
        parts.append(text(x(point.x) + offset, max(y(point.y) - _LABEL_OFFSET, TOP), label, "best", anchor))
    return picture(name, title, f"{y_label} against {x_label}. {'; '.join(hints)}.", parts)


def pareto_front(points: Sequence[Dot]) -> list[Dot]:
    """Return the points that are higher than all points to their left."""
    front: list[Dot] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y)):
        if not front or point.y > front[-1].y:
            front.append(point)
    return front


def _score_scale(points: Sequence[Dot]) -> Scale:
    lows = [point.y if point.low is None else point.low for point in points]
    highs = [point.y if point.high is None else point.high for point in points]
    bottom, top = max(0.0, min(lows) - 3), min(100.0, max(highs) + 3)
    return Scale(bottom, max(top, bottom + 1), HEIGHT - BOTTOM, TOP)


class Line(NamedTuple):
    """A line through points in percent, and a separate mark."""

    series: int
    name: str
    points: Sequence[tuple[float, float]]
    mark: tuple[float, float] | None


def lines(name: str, title: str, x_label: str, y_label: str, drawn: Sequence[Line]) -> str:
    """Draw lines on axes from 0 to 100."""
    x, y = Scale(0, 100, LEFT, WIDTH - RIGHT), Scale(0, 100, HEIGHT - BOTTOM, TOP)
    parts = axes(x, y, x_label, y_label)
    hints = []
    for curve in drawn:
        (first, high), (last, low) = curve.points[0], curve.points[-1]
        hints.append(f"{curve.name}: {high:.1f} at {first:.1f}, {low:.1f} at {last:.1f}")
        parts.append(line([(x(across), y(up)) for across, up in curve.points], f"series {_colour(curve.series)}"))
        if curve.mark is not None:
            across, up = curve.mark
            parts.append(_marker(x(across), y(up), curve.series, f"{curve.name}: {up:.1f} at {across:.1f}"))
            hints.append(f"its own word {up:.1f} at {across:.1f}")
    return picture(name, title, f"{y_label} against {x_label}. {'; '.join(hints)}.", parts)


def swept(
    name: str, title: str, x_label: str, y_label: str, drawn: Sequence[Sequence[Dot]], levels: Sequence[Dot]
) -> str:
    """Draw a line through each series, with intervals, and `levels` as flat lines."""
    points = [point for series in drawn for point in series]
    values = sorted({point.x for point in points})
    margin = 0.08 * (values[-1] - values[0]) or 1.0
    x = _scale_of(values, (values[0] - margin, values[-1] + margin))
    y = _score_scale([*points, *levels])
    parts = axes(x, y, x_label, y_label, values if len(values) <= _MAX_VALUE_TICKS else None)
    hints = []
    for point in levels:
        hints.append(f"{point.name}: {y_label} {point.y:.1f}")
        parts.append(line([(x.start, y(point.y)), (x.end, y(point.y))], f"series level {_colour(point.series)}"))
        parts.append(_marker(x.end, y(point.y), point.series, hints[-1]))
    for place, series in enumerate(drawn):
        offset = _SERIES_OFFSET * (place - (len(drawn) - 1) / 2)
        path = [(x(point.x) + offset, y(point.y)) for point in series]
        parts.append(line(path, f"series {_colour(series[0].series)}"))
        for point in series:
            hints.append(f"{point.name}: {y_label} {point.y:.1f} at {_short_number(point.x)}")
            parts += point.whisker(x(point.x) + offset, y)
            parts.append(_marker(x(point.x) + offset, y(point.y), point.series, hints[-1]))
    return picture(name, title, f"{y_label} against {x_label}. {'; '.join(hints)}.", parts)


BarValue = tuple[float, float | None, float | None] | None  # a value with the ends of its interval


def bars(
    name: str, title: str, label: str, series: Sequence[str], rows: Sequence[tuple[str, Sequence[BarValue]]]
) -> str:
    """Draw groups of horizontal bars from 0 to 100, with intervals."""
    thickness = max(6, min(14, 60 // max(1, len(series))))
    step = thickness * len(series) + 14
    height = TOP + step * len(rows) + BOTTOM
    x = Scale(0, 100, _NAMES_WIDTH, WIDTH - RIGHT)
    parts = _horizontal_axis(x, label, height)
    hints = []
    for place, (group, values) in enumerate(rows):
        above = TOP + place * step + 7
        parts += _row_name(above + thickness * len(series) / 2, group)
        for number, value in enumerate(values):
            y = above + number * thickness
            if value is None:
                hints.append(f"{group}, {series[number]}: n/a")
                parts.append(text(x.start + 4, y + thickness - 2, "n/a", "small", anchor="start"))
                continue
            mean, low, high = value
            hints.append(f"{group}, {series[number]}: {mean:.1f}")
            parts.append(_bar(x.start, y, x(mean) - x.start, thickness - 1.5, number, hints[-1]))
            if low is not None and high is not None:
                middle = y + (thickness - 1.5) / 2
                parts.append(line([(x(low), middle), (x(high), middle)], "whisker"))
    return picture(name, title, f"{label}. {'; '.join(hints)}.", parts, height)


def _horizontal_axis(x: Scale, label: str, height: float) -> list[str]:
    bottom = height - BOTTOM
    parts = []
    for value in x.ticks():
        parts.append(line([(x(value), TOP), (x(value), bottom)], "grid"))
        parts.append(text(x(value), bottom + 17, _short_number(value)))
    parts.append(text((x.start + x.end) / 2, height - 8, label, "label"))
    return parts


def _row_name(middle: float, name: str) -> list[str]:
    """Write a name beside its bars; brackets at its end go on a second line."""
    first, _, rest = name.rpartition(" (")
    rows = [first, f"({rest}"] if first else [name]
    y = middle + 4 - 6.5 * (len(rows) - 1)
    return [text(_NAMES_WIDTH - 8, y + 13 * at, _shorten(row), "name", anchor="end") for at, row in enumerate(rows)]


def shares(
    name: str, title: str, series: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]], label: str
) -> str:
    """Draw a bar for each row, divided into shares that add up to 1."""
    step, thickness = 34, 22
    height = TOP + step * len(rows) + BOTTOM
    x = Scale(0, 100, _NAMES_WIDTH, WIDTH - RIGHT)
    parts = _horizontal_axis(x, label, height)
    hints = []
    for place, (row, values) in enumerate(rows):
        y = TOP + place * step + 6
        parts += _row_name(y + thickness / 2, row)
        begin = 0.0
        for number, value in enumerate(values):
            hints.append(f"{row}, {series[number]}: {100 * value:.1f} %")
            left, right = x(100 * begin), x(100 * (begin + value))
            parts.append(_bar(left, y, right - left, thickness, number, hints[-1]))
            if right - left > 34:
                parts.append(text((left + right) / 2, y + thickness / 2 + 4, f"{100 * value:.0f} %", "inside"))
            begin += value
    return picture(name, title, f"{'; '.join(hints)}.", parts, height)


def distribution(name: str, title: str, ends: tuple[str, str], label: str, values: Sequence[float], series: int) -> str:
    """Draw the distribution of values from 0 to 1: a histogram and a smoothed curve.

    The curve is the height of a bar around each value; near the ends, of the outermost bar.
    """
    counts = Counter(min(_BINS - 1, int(value * _BINS + 1e-9)) for value in values)
    percent = [100 * counts[number] / len(values) for number in range(_BINS)]
    share, width = smoothed(values), 1 / _BINS
    places = [at / _CURVE_POINTS for at in range(_CURVE_POINTS + 1)]
    lefts = [min(1 - width, max(0.0, place - width / 2)) for place in places]
    curve = [(place, 100 * share(left, left + width)) for place, left in zip(places, lefts, strict=True)]
    x = Scale(0, 100, LEFT, WIDTH - RIGHT)
    y = Scale(0, 1.1 * max(*percent, *(height for _, height in curve)), HEIGHT - BOTTOM, TOP)
    parts = axes(x, y, f"0: {ends[0]}; 100: {ends[1]}", label)
    hints = []
    for number, value in enumerate(percent):
        low, high = 100 * number // _BINS, 100 * (number + 1) // _BINS
        hints.append(f"{low} to {high}: {value:.1f} %")
        parts.append(_bar(x(low) + 1, y(value), x(high) - x(low) - 2, y.start - y(value), series, hints[-1]))
    parts.append(line([(x(100 * at), y(height)) for at, height in curve], "curve"))
    return picture(name, title, f"{label}, from 0, {ends[0]}, to 100, {ends[1]}. {'; '.join(hints)}.", parts)


def smoothed(values: Sequence[float]) -> Callable[[float, float], float]:
    """Return a function that gives the kernel-smoothed share of values in a range."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    least, most = _BANDWIDTHS
    width = min(most, max(least, 1.06 * spread * math.pow(len(values), -0.2))) * math.sqrt(2)
    counts = Counter(values)

    def between(low: float, high: float) -> float:
        total = 0.0
        for value, times in counts.items():
            for at in (value, -value, 2 - value):
                total += times * (math.erf((high - at) / width) - math.erf((low - at) / width))
        return total / 2 / len(values)

    return between
