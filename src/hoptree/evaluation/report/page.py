"""The page: tables, plots and the browser in one file that loads nothing and sends nothing."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.evaluation.report.boundary import boundary_tables
from hoptree.evaluation.report.browser import Room, browser_data, script_json
from hoptree.evaluation.report.contents import group_tables, overall_tables, runs_table
from hoptree.evaluation.report.figures import (
    Figure,
    boundary_figures,
    error_figures,
    group_figures,
    module_figures,
    overall_figures,
    sweep_figures,
)
from hoptree.evaluation.report.measures import DataGroup
from hoptree.evaluation.report.plots import key
from hoptree.evaluation.report.tables import Table, as_html, plain
from hoptree.evaluation.report.trace_view import RunTraces, read_run_traces

_RUNS_IN_SIGHT = 12
"""Runs whose names stand under a figure; more of them are folded away."""


def write_page(groups: Sequence[DataGroup], path: Path) -> None:
    """Write the page of these runs."""
    write_text(path, make_page(groups))


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is either the old one or the new one, whatever happens."""
    part = path.with_name(f"{path.name}.part")
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "It is a folder")
        part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        part.replace(path)
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be written: {cause}.", "Choose another file.") from error


def make_page(groups: Sequence[DataGroup], room: Room | None = None) -> str:
    """The whole page; the same runs make the same page."""
    traces = {
        (place, number): read_run_traces(run)
        for place, group in enumerate(groups)
        for number, run in enumerate(group.runs)
    }
    style, script = _part("page.css"), _part("doubts.js") + _part("page.js")
    sections = _sections(groups, traces)
    links = [*((f"part{number}", title) for number, (title, _) in enumerate(sections)), ("questions", "Questions")]
    return Template(_part("page.html")).substitute(
        policy=_policy(style, script),
        version=_safe(__version__),
        title=_safe(_title(groups)),
        style=style,
        about=_safe(_about(groups)),
        links="".join(f'<li><a href="#{name}">{_safe(title)}</a></li>' for name, title in (*links, ("runs", "Runs"))),
        sections="\n".join(_section(f"part{number}", *one) for number, one in enumerate(sections)),
        runs=_section("runs", "Runs", as_html(runs_table(groups))),
        data=script_json(browser_data(groups, traces, room)),
        script=script,
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _policy(style: str, script: str) -> str:
    """No network at all, and no style or script but these two."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _title(groups: Sequence[DataGroup]) -> str:
    names = list(dict.fromkeys(run.label for group in groups for run in group.runs))
    said = ", ".join(names) if len(names) <= 4 else f"{len(names)} runs"
    return f"{said} on {groups[0].name}" if len(groups) == 1 else f"{said} on {len(groups)} data sets"


def _about(groups: Sequence[DataGroup]) -> str:
    runs = [run for group in groups for run in group.runs]
    outcomes = sum(len(run.rows) for run in runs)
    open_ones = sum(not run.finished for run in runs)
    said = f"{_several(len(runs), 'run')}, {_several(outcomes, 'outcome')}, made with hoptree {__version__}."
    return (
        f"{said} {_several(open_ones, 'run')} not finished: figures are of the questions so far." if open_ones else said
    )


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _sections(groups: Sequence[DataGroup], traces: Mapping[tuple[int, int], RunTraces]) -> list[tuple[str, str]]:
    found = []
    for place, group in enumerate(groups):
        iterations = {number: traces[place, number].iterations for number in range(len(group.runs))}
        name = f"f{place}"
        figures = [*group_figures(group, iterations, name), *module_figures(group, name)]
        figures += [*error_figures(group, name), *sweep_figures(group, name)]
        found.append((group.name, _tables(group_tables(group)) + _figures(figures)))
    if overall := overall_tables(groups):
        found.append((overall[0].title, _tables(overall) + _figures(overall_figures(groups))))
    if bounds := boundary_tables(groups):
        figures, (first, *others) = boundary_figures(groups), bounds
        found.append((first.title, _tables([first]) + _figures(figures) + _tables(others)))
    return found


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}"><h2>{_safe(title)}</h2>{body}</section>'


def _tables(tables: Sequence[Table]) -> str:
    return f'<div class="tables">{"".join(as_html(table) for table in tables)}</div>'


def _figures(figures: Sequence[Figure]) -> str:
    return f'<div class="figures">{"".join(_figure(figure) for figure in figures)}</div>' if figures else ""


def _figure(figure: Figure) -> str:
    legend = "".join(f"<li>{key(series, shaped=figure.shaped)}{_safe(text)}</li>" for series, text in figure.legend)
    told = f'<span class="runid">Runs: {_safe(", ".join(figure.runs))}</span>'
    if len(figure.runs) > _RUNS_IN_SIGHT:
        told = f"<details><summary>Its {len(figure.runs)} runs</summary>{told}</details>"
    return (
        f'<figure><h3>{_safe(figure.title)}</h3>{figure.svg}<ul class="legend">{legend}</ul>'
        f"<figcaption>{_safe(figure.caption)} {told}</figcaption></figure>"
    )


def _safe(text: str) -> str:
    return html.escape(plain(text))
