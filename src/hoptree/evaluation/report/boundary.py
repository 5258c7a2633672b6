"""Knowledge-boundary awareness, where a run's folder holds it: its tables (TAIKC, Table 4 and Figure 7).

`boundary.json` is what `hoptree eval boundary` writes there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.core.errors import InputError
from hoptree.evaluation.boundary import BOUNDARY, LEAST_GAP, LEAST_RIGHT
from hoptree.evaluation.report.measures import DataGroup, Run
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow

DOMAINS = {"direct_f1": "Direct QA", "confident_f1": "Confident knowledge", "knowledge_gap_f1": "Knowledge gap"}
_COUNTS = {"questions": "Questions", "answered": "Answered", "refused": "Refused", "failed": "Failed"}
_F1 = {
    **{name: f"{title} F1" for name, title in DOMAINS.items()},
    "gap_f1": "Gap F1",
    "consistency_f1": "Consistency F1",
    "consistency_judged": "Consistency judged",
    "precision": "Right when sure",
}
_MISTAKES = {"overconfident": "Sure and wrong", "underconfident": "Refused and right"}
_OTHERS = {
    **{name.replace("f1", "em"): f"{title} EM" for name, title in DOMAINS.items()},
    **{name.replace("f1", "judged"): f"{title} judged" for name, title in DOMAINS.items()},
    "kept_f1": "Direct QA F1 where confident",
}
_FLIPS = 5
_FLIP_TEXTS = ("question", "direct", "confident")


@dataclass(frozen=True, slots=True)
class Awareness:
    """What one run came to: measures as shares of 1, None where one was not taken.

    `curve` holds coverage and precision at every confidence, from the highest down; `flips` are the answers that
    changed between the two settings. `usable` is None where nobody can tell.
    """

    run: Run
    data: str
    measures: Mapping[str, float | None]
    ece: float | None
    curve: tuple[tuple[float, float], ...]
    flips: tuple[Mapping[str, Any], ...]
    usable: bool | None = None

    @property
    def label(self) -> str:
        return f"{self.run.label} ({self.data})"


def read_boundary(groups: Iterable[DataGroup]) -> list[Awareness]:
    """The measures of all runs that have them."""
    found = []
    for group in groups:
        for run in group.runs:
            if (run.folder / BOUNDARY).exists():
                found.append(_read(run, group.name))
    return found


def _read(run: Run, data: str) -> Awareness:
    path = run.folder / BOUNDARY
    wrong = InputError(f"{path} is no measurement.", "Measure it again: hoptree eval boundary")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        measures = {name: _number(said.get(name)) for name in (*_COUNTS, *_F1, *_MISTAKES, *_OTHERS)}
        by = said.get("probability") or {}
        curve = [(_number(point["coverage"]), _number(point["precision"])) for point in by.get("curve") or ()]
        flips = [
            {name: str(flip[name]) for name in _FLIP_TEXTS}
            | {name: bool(flip[name]) for name in ("direct_correct", "confident_correct")}
            for flip in said.get("flips") or ()
        ]
        ece = _number(by.get("ece"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.", "Make it readable.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise wrong from error
    if measures["direct_f1"] is None and measures["questions"] != 0:
        raise wrong
    known = tuple((x, y) for x, y in curve if x is not None and y is not None)
    usable = said.get("usable")
    return Awareness(run, data, measures, ece, known, tuple(flips), usable if isinstance(usable, bool) else None)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("no number")
    return value


def on_all(known: Sequence[Awareness]) -> dict[str, list[Awareness]]:
    """The measurements of every model that was measured on all of several data sets, by its label."""
    sets = list(dict.fromkeys(one.data for one in known))
    if len(sets) < 2:
        return {}
    by_model: dict[str, list[Awareness]] = {}
    for one in known:
        by_model.setdefault(one.run.label, []).append(one)
    return {label: some for label, some in by_model.items() if {one.data for one in some} == set(sets)}


def mean_over(some: Sequence[Awareness], name: str) -> float | None:
    """The mean of data sets, each counting the same; None where one of them has no figure."""
    values = [value for one in some if (value := one.measures[name]) is not None]
    return math.fsum(values) / len(values) if values and len(values) == len(some) else None


def boundary_tables(groups: Iterable[DataGroup]) -> list[Table]:
    known = read_boundary(groups)
    if not known:
        return []
    models = on_all(known)
    rows = [TableRow(one.label, one.run.id, _cells([one])) for one in known]
    rows += [TableRow(_mean_label(some), _ids(some), _cells(some)) for some in models.values()]
    others = [TableRow(one.label, one.run.id, _points([one], _OTHERS)) for one in known]
    others += [TableRow(_mean_label(some), _ids(some), _points(some, _OTHERS)) for some in models.values()]
    notes = (
        "Direct QA asks for an answer, Confident QA lets the model refuse; the knowledge gap are the questions it "
        "refused, with their direct answers. Points of 100; a failed question is wrong in Direct QA, and in no other "
        "figure. ECE: expected calibration error of the least token probability.",
        f"Usable: surely (by 95 % intervals) {100 * LEAST_RIGHT:.0f} % or more of what it was sure of is right, and at "
        f"least {100 * LEAST_GAP:.0f} points of F1 lie between confident knowledge and knowledge gap. "
        "TAIKC's source=unified rests on that; with a model whose boundary is not usable, use source=external. "
        "n/a where questions are too few or too close to tell, and while some have failed.",
    )
    columns = (*_COUNTS.values(), *_F1.values(), *_MISTAKES.values(), "ECE", "Usable")
    tables = [
        Table("Knowledge-boundary awareness", columns, tuple(rows), notes),
        Table("Knowledge-boundary awareness: other scores", tuple(_OTHERS.values()), tuple(others)),
        _flips(known),
    ]
    return [table for table in tables if table is not None]


def _mean_label(some: Sequence[Awareness]) -> str:
    return f"{some[0].run.label} (mean of {len(some)})"


def _ids(some: Sequence[Awareness]) -> str:
    return " ".join(one.run.id for one in some)


def _cells(some: Sequence[Awareness]) -> tuple[Cell, ...]:
    """The figures of one data set; of several, the sums of counts and the means of shares."""
    ece = some[0].ece if len(some) == 1 else None
    return (
        *(_count(some, name) for name in _COUNTS),
        *_points(some, _F1),
        *(_count(some, name) for name in _MISTAKES),
        None if ece is None else Number(ece, digits=3),
        _usable([one.usable for one in some]),
    )


def _usable(said: Sequence[bool | None]) -> str | None:
    """Of several data sets, no if it is no for one, and yes only if it is yes for all."""
    return "no" if False in said else None if None in said else "yes"


def _count(some: Sequence[Awareness], name: str) -> Number | None:
    mean = mean_over(some, name)
    return None if mean is None else Number(round(mean * len(some)), digits=0)


def _points(some: Sequence[Awareness], names: Iterable[str]) -> tuple[Number | None, ...]:
    means = [mean_over(some, name) for name in names]
    return tuple(None if mean is None else Number(100 * mean) for mean in means)


def _flips(known: Sequence[Awareness]) -> Table | None:
    """TAIKC's Figure 7, with all there is."""
    rows = [
        TableRow(one.label, one.run.id, (*(flip[name] for name in _FLIP_TEXTS), _which(flip)))
        for one in known
        for flip in one.flips[:_FLIPS]
    ]
    left_out = sum(max(0, len(one.flips) - _FLIPS) for one in known)
    notes = (f"{left_out:,} more are in the runs' folders.",) if left_out else ()
    columns = ("Question", "Direct QA", "Confident QA", "Right")
    return Table("Answers that changed with the setting", columns, tuple(rows), notes) if rows else None


def _which(flip: Mapping[str, Any]) -> str:
    return "Direct QA" if flip["direct_correct"] else "Confident QA" if flip["confident_correct"] else "neither"
