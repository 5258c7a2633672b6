"""Whether judges agree (TAIKC, Table 7)."""

from __future__ import annotations

from itertools import combinations

from hoptree.evaluation.judge import JudgeReport, agreement
from hoptree.evaluation.judgements import read_judgements
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.evaluation.report.tables import Number, Table, TableRow

__all__ = ["judges_table"]


def judges_table(group: DataGroup) -> Table | None:
    """What every judge says of a data set's runs, and how often each two say the same; None without two judges."""
    reports = [_reports(run) for run in group.runs]
    names = list(dict.fromkeys(name for some in reports for name in some))
    if len(names) < 2:
        return None
    pairs = list(combinations(names, 2))
    rows = []
    for run, known in zip(group.runs, reports, strict=True):
        cells = [_points(known[name].accuracy) if name in known else None for name in names]
        for pair in pairs:
            cells += _agreed(*(known.get(name) for name in pair))
        rows.append(TableRow(run.label, run.id, tuple(cells)))
    columns = [f"{one} and {other}{what}" for one, other in pairs for what in (" agree", ", kappa")]
    notes = ("Agreement is over the answers both were asked about: blank ones are wrong without a judge.",)
    return Table(f"{group.name}: judges", (*names, *columns), tuple(rows), notes)


def _reports(run: Run) -> dict[str, JudgeReport]:
    return {one.judge.name: one.report(run.rows) for one in read_judgements(run.folder)}


def _agreed(one: JudgeReport | None, other: JudgeReport | None) -> list[Number | None]:
    if one is None or other is None:
        return [None, None]
    found = agreement(one, other)
    kappa = None if found.kappa is None else Number(found.kappa, digits=3)
    rate = None if found.rate is None else Number(100 * found.rate, questions=found.questions)
    return [rate, kappa]


def _points(share: float | None) -> Number | None:
    return None if share is None else Number(100 * share)
