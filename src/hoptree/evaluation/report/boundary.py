"""Tables of knowledge-boundary awareness (TAIKC, Table 4 and Figure 7).

A run takes part if its folder holds the `boundary.json` that `hoptree boundary` writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.core.errors import InputError
from hoptree.evaluation.boundary import BOUNDARY, LEAST_GAP, LEAST_RIGHT
from hoptree.evaluation.report.measures import DataGroup, Run, row_of_runs
from hoptree.evaluation.report.tables import Cell, Number, Table, TableRow, count, make_table, points

DOMAINS = {"direct_f1": "Direct QA", "confident_f1": "Confident knowledge", "knowledge_gap_f1": "Knowledge gap"}
_COUNTS = {"questions": "Questions", "answered": "Answered", "refused": "Refused", "failed": "Failed"}
_SHARES = {
    **{name: f"{title} F1" for name, title in DOMAINS.items()},
    "gap_f1": "Gap F1",
    "consistency_f1": "Consistency F1",
    "consistency_judged": "Consistency judged",
    "precision": "Right when sure",
}
_MISTAKES = {"overconfident": "Sure and wrong", "underconfident": "Refused and right"}
_OTHER_SHARES = {
    **{name.replace("f1", "em"): f"{title} EM" for name, title in DOMAINS.items()},
    **{name.replace("f1", "judged"): f"{title} judged" for name, title in DOMAINS.items()},
    "kept_f1": "Direct QA F1 where confident",
}
_MAX_FLIPS = 5
_FLIP_TEXTS = ("question", "direct", "confident")
_NOTES = (
    "Direct QA asks for an answer, Confident QA lets the model refuse; the knowledge gap are the questions it "
    "refused, with their direct answers. Points of 100; a failed question is wrong in Direct QA, and in no other "
    "figure. ECE: expected calibration error of the least token probability.",
    f"Usable: surely (by 95 % intervals) {100 * LEAST_RIGHT:.0f} % or more of what it was sure of is right, and at "
    f"least {100 * LEAST_GAP:.0f} points of F1 lie between confident knowledge and knowledge gap. "
    "TAIKC's source=unified rests on that; with a model whose boundary is not usable, use source=external. "
    "n/a where questions are too few or too close to tell, and while some have failed.",
)


@dataclass(frozen=True, slots=True)
class Awareness:
    """The measurements of one run: shares of 1, None if not measured.

    `curve` holds coverage and precision at every confidence, from the highest down; `flips` are the answers that
    changed between the two settings. `usable` is None if it cannot be decided.
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
    """Return the measurements of all runs that have them."""
    return [_read(run, group.name) for group in groups for run in group.runs if (run.folder / BOUNDARY).exists()]


def _read(run: Run, data: str) -> Awareness:
    path = run.folder / BOUNDARY
    invalid = InputError(f"{path} is not a measurement.", "Measure it again: hoptree boundary")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        measures = {name: _number(content.get(name)) for name in (*_COUNTS, *_SHARES, *_MISTAKES, *_OTHER_SHARES)}
        probability = content.get("probability") or {}
        curve = [(_number(at["coverage"]), _number(at["precision"])) for at in probability.get("curve") or ()]
        flips = [
            {name: str(flip[name]) for name in _FLIP_TEXTS}
            | {name: bool(flip[name]) for name in ("direct_correct", "confident_correct")}
            for flip in content.get("flips") or ()
        ]
        ece = _number(probability.get("ece"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.", "Make it readable.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise invalid from error
    if measures["direct_f1"] is None and measures["questions"] != 0:
        raise invalid
    known = tuple((x, y) for x, y in curve if x is not None and y is not None)
    usable = content.get("usable")
    return Awareness(run, data, measures, ece, known, tuple(flips), usable if isinstance(usable, bool) else None)


def _number(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("not a number")
    return value


def measured_on_all(known: Sequence[Awareness]) -> dict[str, list[Awareness]]:
    """Return the measurements of models that were measured on all of several data sets, by label."""
    sets = {awareness.data for awareness in known}
    by_model: dict[str, list[Awareness]] = {}
    for awareness in known:
        by_model.setdefault(awareness.run.label, []).append(awareness)
    complete = {
        label: measured for label, measured in by_model.items() if {awareness.data for awareness in measured} == sets
    }
    return complete if len(sets) > 1 else {}


def mean_over(known: Sequence[Awareness], name: str) -> float | None:
    """Return the mean of data sets, each counting the same; None if one of them has no figure."""
    values = [value for awareness in known if (value := awareness.measures[name]) is not None]
    return math.fsum(values) / len(values) if values and len(values) == len(known) else None


def boundary_tables(groups: Iterable[DataGroup]) -> list[Table]:
    """Return the tables of awareness; none if no run was measured."""
    known = read_boundary(groups)
    rows = [(awareness.label, [awareness]) for awareness in known]
    rows += [(f"{label} (mean of {len(sets)})", sets) for label, sets in measured_on_all(known).items()]
    columns = (*_COUNTS.values(), *_SHARES.values(), *_MISTAKES.values(), "ECE", "Usable")
    main, others = (
        [row_of_runs(label, [awareness.run for awareness in sets], cells(sets)) for label, sets in rows]
        for cells in (_main_cells, lambda sets: _points(sets, _OTHER_SHARES))
    )
    tables = (
        make_table("Knowledge-boundary awareness", columns, main, *_NOTES),
        make_table("Knowledge-boundary awareness: other scores", _OTHER_SHARES.values(), others),
        _flips(known),
    )
    return [table for table in tables if table is not None]


def _main_cells(sets: Sequence[Awareness]) -> tuple[Cell, ...]:
    """Return the figures of one data set; of several, the sums of counts and the means of shares."""
    ece = sets[0].ece if len(sets) == 1 else None
    usable = [awareness.usable for awareness in sets]
    return (
        *(_sum(sets, name) for name in _COUNTS),
        *_points(sets, _SHARES),
        *(_sum(sets, name) for name in _MISTAKES),
        None if ece is None else Number(ece, digits=3),
        "no" if False in usable else None if None in usable else "yes",
    )


def _sum(sets: Sequence[Awareness], name: str) -> Number | None:
    mean = mean_over(sets, name)
    return None if mean is None else count(round(mean * len(sets)))


def _points(sets: Sequence[Awareness], names: Iterable[str]) -> tuple[Number | None, ...]:
    return tuple(points(mean_over(sets, name)) for name in names)


def _flips(known: Sequence[Awareness]) -> Table | None:
    """TAIKC's Figure 7, with all answers that changed."""
    rows = [
        TableRow(awareness.label, awareness.run.id, (*(flip[name] for name in _FLIP_TEXTS), _right_setting(flip)))
        for awareness in known
        for flip in awareness.flips[:_MAX_FLIPS]
    ]
    left_out = sum(max(0, len(awareness.flips) - _MAX_FLIPS) for awareness in known)
    notes = (f"{left_out:,} more are in the runs' folders.",) if left_out else ()
    columns = ("Question", "Direct QA", "Confident QA", "Right")
    return make_table("Answers that changed with the setting", columns, rows, *notes)


def _right_setting(flip: Mapping[str, Any]) -> str:
    return "Direct QA" if flip["direct_correct"] else "Confident QA" if flip["confident_correct"] else "neither"
