"""Knowledge-boundary awareness, where a run's folder holds it (TAIKC, Table 4 and Figures 5 and 8 to 11).

`boundary.json` is what `BoundaryAwareness.as_dict` gives, or an object with one of these for each data set.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hoptree.errors import InputError
from hoptree.evaluation.report.runs import Run
from hoptree.evaluation.report.tables import Number, Table, TableRow

__all__ = ["BOUNDARY", "DOMAINS", "Awareness", "boundary_table", "read_boundary"]

BOUNDARY = "boundary.json"
DOMAINS = {"direct_f1": "Direct QA", "confident_f1": "Confident knowledge", "knowledge_gap_f1": "Knowledge gap"}
_COLUMNS = {
    "questions": "Questions",
    "answered": "Answered",
    "refused": "Refused",
    **{name: f"{title} F1" for name, title in DOMAINS.items()},
    **{name.replace("f1", "judged"): f"{title} judged" for name, title in DOMAINS.items()},
    "gap_f1": "Gap F1",
    "consistency_f1": "Consistency F1",
    "consistency_judged": "Consistency judged",
}
_COUNTS = ("questions", "answered", "refused")


@dataclass(frozen=True, slots=True)
class Awareness:
    """The measures of one run on one data set, as shares of 1; None where one was not taken."""

    run: Run
    data: str
    measures: Mapping[str, float | None]

    @property
    def label(self) -> str:
        return f"{self.run.label}, {self.data}" if self.data else self.run.label


def read_boundary(runs: Iterable[Run]) -> list[Awareness]:
    """The measures of all runs that have them."""
    found = []
    for run in runs:
        path = run.folder / BOUNDARY
        if path.exists():
            data = _load(path)
            parts = {"": data} if "direct_f1" in data else data
            found += [Awareness(run, str(name), _measures(part, path)) for name, part in parts.items()]
    return found


def boundary_table(runs: Iterable[Run]) -> Table | None:
    known = read_boundary(runs)
    if not known:
        return None
    rows = [
        TableRow(one.label, one.run.id, tuple(_cell(name, one.measures[name]) for name in _COLUMNS)) for one in known
    ]
    return Table("Knowledge-boundary awareness", tuple(_COLUMNS.values()), tuple(rows))


def _cell(name: str, value: float | None) -> Number | None:
    if value is None:
        return None
    return Number(value, digits=0) if name in _COUNTS else Number(100 * value)


def _load(path: Path) -> dict[str, object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Measure it again: hoptree boundary") from error
    if not isinstance(data, dict):
        raise InputError(f"{path} is no measurement.", "Measure it again: hoptree boundary")
    return data


def _measures(part: object, path: Path) -> dict[str, float | None]:
    values = {name: part.get(name) for name in _COLUMNS} if isinstance(part, dict) else {}
    good = all(value is None or (isinstance(value, int | float) and math.isfinite(value)) for value in values.values())
    if values.get("direct_f1") is None or not good:
        raise InputError(f"{path} is no measurement.", "Measure it again: hoptree boundary")
    return values
