"""What `hoptree align eval` says: scores and boundaries of a model with its adapters, and what they changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from hoptree.cli.console import chance, clean

__all__ = ["report"]

_AGAINST = "against"
_SCORES = {"em": "EM", "f1": "F1", "judge": "Judged"}
_BOUNDARY = {
    "questions": "Asked",
    "refused_share": "Refused",
    "direct_f1": "Direct F1",
    "confident_f1": "Confident F1",
    "knowledge_gap_f1": "Refused F1",
    "gap_f1": "Gap",
    "precision": "Right if sure",
    "sure_and_right": "Sure and right",
    "right_decisions": "Right decisions",
    "consistency_f1": "Consistency",
    "consistency_judged": "Same, judged",
}
_CHANGES = {
    "right_decisions": "Right decisions",
    "sure_and_right": "Sure and right",
    "gap_f1": "Gap",
    "refused_share": "Refused",
    "direct_f1": "Direct F1",
}


def report(told: Mapping[str, Any]) -> None:
    """Tables of all runs, and where they lie."""
    for version in told["versions"]:
        _version(version)
    for data in dict.fromkeys(one["data"] for one in told["runs"]):
        some = _side_by_side([one for one in told["runs"] if one["data"] == data])
        typer.echo(clean(f"{data}: {some[0]['questions']:,} questions"))
        columns = {name: title for name, title in _SCORES.items() if any(name in one for one in some)}
        _table(
            ["Run", "Model", *columns.values(), *(f"{title} {_AGAINST} base" for title in columns.values())],
            [
                [one["run"], one["version"], *(_points(one.get(name)) for name in columns)]
                + [_change(one["against_base"].get(name)) for name in columns]
                for one in some
            ],
        )
        _beyond_plain(some)
        for one in some:
            _trouble(one)
    if bounds := _side_by_side(told["boundaries"]):
        _boundaries(bounds)
    if told["runs"] or bounds:
        typer.echo(
            "p: paired, after Holm's correction over all comparisons of a score with the base, or with plain runs"
        )
    folder = told["folder"]
    typer.echo(clean(f"everything is in {folder}; all of it on a page: hoptree report {folder} --html FILE"))


def _version(version: Mapping[str, Any]) -> None:
    said = f"{version['name']}: {version['model']}"
    if version["examples"] is not None:
        sets = ", ".join(str(one.get("file")) for one in version["sets"] or () if isinstance(one, Mapping))
        said += f", trained on {version['examples']:,} examples{f' of {sets}' if sets else ''}"
    typer.echo(clean(said))
    if version["evaluation_questions"]:
        typer.echo(f"  {version['evaluation_questions']:,} OF THEM ARE EVALUATION QUESTIONS")


def _side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The versions of each run one below the other."""
    order = dict.fromkeys((one["data"], one["run"]) for one in rows)
    return [one for key in order for one in rows if (one["data"], one["run"]) == key]


def _beyond_plain(some: Sequence[Mapping[str, Any]]) -> None:
    """What a method has over plain ones by the same model."""
    rows = [one for one in some if one["against_plain"]]
    if not rows:
        return
    names = dict.fromkeys(name for one in rows for name in one["against_plain"])
    _table(
        ["Run", "Model", *(f"F1 {_AGAINST} {name}" for name in names)],
        [[one["run"], one["version"], *(_change(one["against_plain"].get(name)) for name in names)] for one in rows],
    )


def _trouble(one: Mapping[str, Any]) -> None:
    """What whoever reads the scores of a run should know."""
    name = f"{one['run']}, {one['version']}"
    if one["failed"]:
        typer.echo(clean(f"  {name}: {one['failed']:,} failed and count as wrong; --retry-failed asks them again"))
    if len(one["rests_on"]) > 1:
        typer.echo(clean(f"  {name}: a mixture of {len(one['rests_on'])} runs (--anyway)"))
    for warning in one["warnings"]:
        typer.echo(clean(f"  {name}: {warning}"))


def _boundaries(some: Sequence[Mapping[str, Any]]) -> None:
    typer.echo("boundary: does the model know what it knows?")
    columns = {name: title for name, title in _BOUNDARY.items() if any(one.get(name) is not None for one in some)}
    named = len({one["run"] for one in some}) > 1
    head = ["Data", *(["Run"] if named else []), "Model"]
    rows = [([one["data"], *([one["run"]] if named else []), one["version"]], one) for one in some]
    _table([*head, *columns.values()], [[*name, *(_figure(one, column) for column in columns)] for name, one in rows])
    changed = [(name, one["against_base"]) for name, one in rows if one["against_base"]]
    _table(
        [*head, *(f"{title} {_AGAINST} base" for title in _CHANGES.values())],
        [[*name, *(_change(against.get(column)) for column in _CHANGES)] for name, against in changed],
    )
    for warning in dict.fromkeys(warning for one in some for warning in one.get("warnings", ())):
        typer.echo(clean(f"  {warning}"))
    several = {one["run"] for one in some if one["folder"] is None}  # what is of several data sets lies in no folder
    for name, one in rows:
        if "verdict" in one and (one["folder"] is None) == (one["run"] in several):
            typer.echo(clean(f"  {', '.join(name)}: {one['verdict']}"))


def _figure(one: Mapping[str, Any], name: str) -> str:
    value = one.get(name)
    if name == "questions":
        return "" if value is None else f"{value:,}"
    around = one.get("gap_f1_plus_minus") if name == "gap_f1" else None
    return _points(value) + (f" ± {100 * around:.1f}" if around is not None else "")


def _points(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"


def _change(pair: Mapping[str, Any] | None) -> str:
    """A paired difference with its interval and p, or one of means that are not paired with what is around it."""
    if pair is None:
        return ""
    said = f"{100 * pair['difference']:+.1f}"
    if "interval" not in pair:
        return said + (f" ± {100 * pair['plus_minus']:.1f}" if pair["plus_minus"] is not None else "")
    low, high = pair["interval"]["low"], pair["interval"]["high"]
    return f"{said} [{100 * low:+.1f}, {100 * high:+.1f}], {chance(pair['adjusted_p'])}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Words to the left, figures to the right."""
    lines = [[clean(cell) for cell in line] for line in (head, *rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    words = [title in ("Data", "Run", "Model") or _AGAINST in title for title in head]
    for line in lines:
        cells = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, words, strict=True)
        ]
        typer.echo(f"  {'  '.join(cells).rstrip()}")
