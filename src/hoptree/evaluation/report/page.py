"""The page of a report: tables, plots and question browser in one file that loads nothing and sends nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.core.files import atomic_write
from hoptree.evaluation.report.boundary import boundary_tables
from hoptree.evaluation.report.browser import Room, browser_data, script_json
from hoptree.evaluation.report.contents import group_tables, overall_tables, runs_table
from hoptree.evaluation.report.figures import Figure, boundary_figures, group_figures, overall_figures
from hoptree.evaluation.report.measures import DataGroup
from hoptree.evaluation.report.plots import legend_key
from hoptree.evaluation.report.tables import Table, as_html, escape_html
from hoptree.evaluation.report.trace_view import RunTraces, read_run_traces

_MAX_RUNS_IN_CAPTION = 12
"""More runs than these are folded away."""


def write_page(groups: Sequence[DataGroup], path: Path) -> None:
    """Write the page of these runs."""
    write_text(path, make_page(groups))


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "It is a folder")
        atomic_write(path, [text])
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be written: {cause}.", "Choose another file.") from error


def make_page(groups: Sequence[DataGroup], room: Room | None = None) -> str:
    """Return the whole page; the same runs make the same page."""
    traces = {
        (place, number): read_run_traces(run)
        for place, group in enumerate(groups)
        for number, run in enumerate(group.runs)
    }
    style, script = _part("page.css"), _part("doubts.js") + _part("page.js")
    sections = _sections(groups, traces)
    links = [(f"part{number}", title) for number, (title, _) in enumerate(sections)]
    links += [("questions", "Questions"), ("runs", "Runs")]
    return Template(_part("page.html")).substitute(
        policy=_policy(style, script),
        version=escape_html(__version__),
        title=escape_html(_title(groups)),
        style=style,
        about=escape_html(_about(groups)),
        links="".join(f'<li><a href="#{name}">{escape_html(title)}</a></li>' for name, title in links),
        sections="\n".join(_section(f"part{number}", *section) for number, section in enumerate(sections)),
        runs=_section("runs", "Runs", as_html(runs_table(groups))),
        data=script_json(browser_data(groups, traces, room)),
        script=script,
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _policy(style: str, script: str) -> str:
    """Return a content policy that allows no network, and no style or script but these two."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _title(groups: Sequence[DataGroup]) -> str:
    names = list(dict.fromkeys(run.label for group in groups for run in group.runs))
    runs = ", ".join(names) if len(names) <= 4 else f"{len(names)} runs"
    return f"{runs} on {groups[0].name}" if len(groups) == 1 else f"{runs} on {len(groups)} data sets"


def _about(groups: Sequence[DataGroup]) -> str:
    runs = [run for group in groups for run in group.runs]
    outcomes = sum(len(run.rows) for run in runs)
    unfinished = sum(not run.finished for run in runs)
    about = f"{_number_of(len(runs), 'run')}, {_number_of(outcomes, 'outcome')}, made with hoptree {__version__}."
    if unfinished:
        about += f" {_number_of(unfinished, 'run')} not finished: figures are of the questions so far."
    return about


def _number_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _sections(groups: Sequence[DataGroup], traces: Mapping[tuple[int, int], RunTraces]) -> list[tuple[str, str]]:
    sections = []
    for place, group in enumerate(groups):
        attempts = {number: traces[place, number].attempts for number in range(len(group.runs))}
        figures = group_figures(group, attempts, f"f{place}")
        sections.append((group.name, _tables(group_tables(group)) + _figures(figures)))
    if overall := overall_tables(groups):
        sections.append((overall[0].title, _tables(overall) + _figures(overall_figures(groups))))
    if bounds := boundary_tables(groups):
        figures, (first, *others) = boundary_figures(groups), bounds
        sections.append((first.title, _tables([first]) + _figures(figures) + _tables(others)))
    return sections


def _section(name: str, title: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape_html(title)}</h2>{body}</section>'


def _tables(tables: Sequence[Table]) -> str:
    return f'<div class="tables">{"".join(map(as_html, tables))}</div>'


def _figures(figures: Sequence[Figure]) -> str:
    return f'<div class="figures">{"".join(map(_figure, figures))}</div>' if figures else ""


def _figure(figure: Figure) -> str:
    legend = "".join(
        f"<li>{legend_key(series, shaped=figure.shaped)}{escape_html(name)}</li>"
        for series, name in figure.legend.items()
    )
    ids = figure.run_ids
    runs = f'<span class="runid">Runs: {escape_html(", ".join(ids))}</span>'
    if len(ids) > _MAX_RUNS_IN_CAPTION:
        runs = f"<details><summary>Its {len(ids)} runs</summary>{runs}</details>"
    return (
        f'<figure><h3>{escape_html(figure.title)}</h3>{figure.svg}<ul class="legend">{legend}</ul>'
        f"<figcaption>{escape_html(figure.caption)} {runs}</figcaption></figure>"
    )
