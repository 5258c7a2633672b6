"""The self-contained HTML page of a report, with a browser for single questions."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from hoptree import __version__
from hoptree.core.errors import file_errors
from hoptree.core.files import atomic_write
from hoptree.evaluation.report import trace_view
from hoptree.evaluation.report.contents import group_tables, overall_tables, runs_table
from hoptree.evaluation.report.figures import Figure, boundary_figures, group_figures, overall_figures
from hoptree.evaluation.report.measures import DataGroup, scores_of
from hoptree.evaluation.report.plots import legend_key
from hoptree.evaluation.report.run_tables import boundary_tables
from hoptree.evaluation.report.tables import Table, as_html, escape_html
from hoptree.evaluation.report.trace_view import PassageText, RunTraces, TraceView
from hoptree.evaluation.run_folder import Row

_MAX_GOLD = 20
_SCORES = ("em", "f1", "contains", "judge", "retrieval_recall")
# What could end the script element or begin another, and lone surrogates, which no UTF-8 file can hold.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Room:
    """The bytes for outcomes on the page, and for traces with their passages."""

    outcomes: int = 7_000_000
    traces: int = 11_000_000


def script_json(value: Any) -> str:
    """Return JSON for a script element, which no text in it can end."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _size(value: Any) -> int:
    return len(script_json(value).encode())


def browser_data(
    groups: Sequence[DataGroup], traces: Mapping[tuple[int, int], RunTraces], room: Room
) -> dict[str, Any]:
    """Return the data of the page's script.

    `traces` are keyed by the index of a data set and of a run in it. If not everything fits, questions that failed or
    were answered wrongly come first, and `notes` say what is left out.
    """
    questions = [question for place, group in enumerate(groups) for question in _questions(place, group)]
    listed: list[_Question] = []
    bytes_left = room.outcomes
    for question in sorted(questions, key=lambda question: question.priority):
        bytes_left -= _size(question.data)
        if bytes_left < 0:
            break
        listed.append(question)
    store = _TraceStore(room.traces)
    complete = sum(store.add(question, traces) for question in listed)
    listed_ids = set(map(id, listed))
    return {
        "runs": [
            {"set": place, "place": number, "name": run.label, "id": run.id, "progress": run.progress}
            for place, group in enumerate(groups)
            for number, run in enumerate(group.runs)
        ],
        "sets": [group.name for group in groups],
        "questions": [question.data for question in questions if id(question) in listed_ids],
        "passages": list(store.passages),
        "notes": _notes(len(questions), len(listed), complete, store),
    }


@dataclass(slots=True)
class _Question:
    """A question of a data set, for the page."""

    set: int
    id: str
    runs: Sequence[int]  # indices of the runs that asked it
    data: dict[str, Any]
    priority: int  # lowest first: failures, then wrong answers


def _questions(place: int, group: DataGroup) -> Iterator[_Question]:
    scores = [[scores_of(run, metric) for metric in _SCORES] for run in group.runs]
    rows = [{row.id: row for row in run.rows} for run in group.runs]
    for name in dict.fromkeys(row.id for run in group.runs for row in run.rows):
        outcomes = {number: known[name] for number, known in enumerate(rows) if name in known}
        first = next(iter(outcomes.values()))
        data = {
            "set": place,
            "id": name,
            "question": trace_view.cut(first.question),
            "type": trace_view.cut(first.type, 60),
            "hops": first.hops,
            "answers": [trace_view.cut(answer, 300) for answer in first.answers[:_MAX_GOLD]],
            "more": max(0, len(first.answers) - _MAX_GOLD),
            "gold": list(first.gold[:_MAX_GOLD]),
            "outcomes": {
                str(number): _outcome(row, [known[name] for known in scores[number]])
                for number, row in outcomes.items()
            },
        }
        failed = any(row.error for row in outcomes.values())
        wrong = any(scores[number][0][name] != 1 for number in outcomes)
        yield _Question(place, name, list(outcomes), data, 0 if failed else 1 if wrong else 2)


def _outcome(row: Row, scores: Sequence[float | None]) -> dict[str, Any]:
    usage = row.usage
    counts = [int(usage[name]) for name in ("llm_calls", "prompt_tokens", "completion_tokens", "retrievals")]
    always = {
        "answer": trace_view.cut(row.answer, 500),
        "scores": [None if score is None else round(score, 3) for score in scores],
    }
    optional = {
        "error": trace_view.cut(row.error, 80),
        "message": trace_view.cut(row.error_message, 500),
        "stopped": trace_view.cut(row.stopped_by, 80),
        "abstained": int(row.abstained),
    }
    filled = {name: value for name, value in optional.items() if value}
    return {**always, **filled, "usage": [*counts, round(usage["seconds"], 2), usage["cost"]]}


@dataclass(slots=True)
class _TraceStore:
    """The passages of the page; it closes at the first traces that do not fit."""

    room: int
    passages: dict[PassageText, int] = field(default_factory=dict)
    closed: bool = False

    def add(self, question: _Question, traces: Mapping[tuple[int, int], RunTraces]) -> bool:
        """Add the traces of a question to its outcomes if all of them fit."""
        known = {number: traces[question.set, number] for number in question.runs if (question.set, number) in traces}
        views = {number: run.views[question.id] for number, run in known.items() if question.id in run.views}
        if self.closed or not views:
            return False
        used = dict.fromkeys(passage for view in views.values() for _, _, hits in view.searches for passage in hits)
        new = [passage for passage in used if passage not in self.passages]
        self.passages |= {passage: at for at, passage in enumerate(new, len(self.passages))}
        written = {number: self._written(view) for number, view in views.items()}
        self.room -= sum(map(_size, [*written.values(), *new]))
        if self.room < 0:
            self.closed = True
            for passage in new:
                del self.passages[passage]
            return False
        for number, trace in written.items():
            question.data["outcomes"][str(number)]["trace"] = trace
        return True

    def _written(self, view: TraceView) -> dict[str, Any]:
        trace: dict[str, Any] = {part.name: getattr(view, part.name) for part in fields(view)}
        trace["searches"] = [
            {"query": query, "node": node, "found": [self.passages[passage] for passage in hits]}
            for query, node, hits in view.searches
        ]
        return {name: value for name, value in trace.items() if value}


def _notes(asked: int, listed: int, complete: int, store: _TraceStore) -> list[str]:
    notes = []
    if listed < asked:
        notes.append(
            f"The list holds {listed:,} of {asked:,} questions: there was no room for more. Those that failed or were "
            "answered wrongly in some run come first."
        )
    if store.closed:
        notes.append(
            f"Trees and passages are here for {complete:,} questions of {listed:,}, those that failed or were answered "
            "wrongly first; the others are in the runs' folders."
        )
    elif complete < listed:
        notes.append(f"{listed - complete:,} questions have no trace in their runs' folders.")
    if any(len(text) > trace_view.MAX_PASSAGE_CHARS for _, _, text in store.passages):
        notes.append(f"Passages are cut after {trace_view.MAX_PASSAGE_CHARS:,} letters.")
    return notes


_MAX_RUNS_IN_CAPTION = 12  # a longer list of runs is collapsed


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with file_errors(path, "written", "Choose another file."):
        if path.is_dir():
            raise IsADirectoryError(None, "It is a folder")
        atomic_write(path, [text])


def make_page(groups: Sequence[DataGroup], room: Room | None = None) -> str:
    """Return the whole page; equal runs give an equal page."""
    traces = {
        (place, number): trace_view.read_run_traces(run)
        for place, group in enumerate(groups)
        for number, run in enumerate(group.runs)
    }
    style, script = _part("page.css"), _part("doubts.js") + _part("page.js")
    sections = _sections(groups, traces)
    links = [(f"part{number}", title) for number, (title, _) in enumerate(sections)]
    links += [("questions", "Each question"), ("runs", "Runs")]
    # The policy allows no network, and no other style or script.
    policy = (
        f"default-src 'none'; style-src {hash_source(style)}; script-src {hash_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    names = list(dict.fromkeys(run.label for group in groups for run in group.runs))
    runs = ", ".join(names) if len(names) <= 4 else f"{len(names)} runs"
    title = f"{runs} on {groups[0].name if len(groups) == 1 else f'{len(groups)} data sets'}"
    return Template(_part("page.html")).substitute(
        policy=policy,
        version=escape_html(__version__),
        title=escape_html(title),
        style=style,
        about=escape_html(_about(groups)),
        links="".join(f'<li><a href="#{name}">{escape_html(title)}</a></li>' for name, title in links),
        sections="\n".join(_section(f"part{number}", *section) for number, section in enumerate(sections)),
        runs=_section("runs", "Runs", as_html(runs_table(groups))),
        data=script_json(browser_data(groups, traces, room or Room())),
        script=script,
    )


def make_figure_page(title: str, figures: Sequence[Figure], tables: Sequence[Table]) -> str:
    """Return a page of plots and their tables, without runs or a script."""
    style = _part("page.css")
    policy = f"default-src 'none'; style-src {hash_source(style)}; base-uri 'none'; form-action 'none'"
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{escape_html(title)}</title><style>{style}</style></head>\n"
        f"<body><header><h1>{escape_html(title)}</h1></header><main>{_figures(figures)}{_tables(tables)}</main></body>"
        "</html>\n"
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def hash_source(text: str) -> str:
    """Return the name of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _about(groups: Sequence[DataGroup]) -> str:
    def number_of(count: int, noun: str) -> str:
        return f"{count:,} {noun}{'' if count == 1 else 's'}"

    runs = [run for group in groups for run in group.runs]
    outcomes, unfinished = sum(len(run.rows) for run in runs), sum(not run.finished for run in runs)
    about = f"{number_of(len(runs), 'run')}, {number_of(outcomes, 'outcome')}, made with hoptree {__version__}."
    if unfinished:
        about += f" {number_of(unfinished, 'run')} not finished: figures are of the questions so far."
    return about


def _sections(groups: Sequence[DataGroup], traces: Mapping[tuple[int, int], RunTraces]) -> list[tuple[str, str]]:
    sections = []
    for place, group in enumerate(groups):
        attempts = {number: traces[place, number].attempts for number in range(len(group.runs))}
        figures = group_figures(group, attempts, f"f{place}")
        sections.append((group.name, _figures(figures) + _tables(group_tables(group))))
    if overall := overall_tables(groups):
        sections.append((overall[0].title, _figures(overall_figures(groups)) + _tables(overall)))
    if bounds := boundary_tables(groups):
        figures, (first, *others) = boundary_figures(groups), bounds
        sections.append((first.title, _figures(figures) + _tables([first, *others])))
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
    ids = list(dict.fromkeys(run.id for run in figure.runs))
    runs = f'<span class="runid">Runs: {escape_html(", ".join(ids))}</span>' if ids else ""
    if len(ids) > _MAX_RUNS_IN_CAPTION:
        runs = f"<details><summary>Its {len(ids)} runs</summary>{runs}</details>"
    return (
        f'<figure><h3>{escape_html(figure.title)}</h3>{figure.svg}<ul class="legend">{legend}</ul>'
        f"<figcaption>{escape_html(figure.caption)} {runs}</figcaption></figure>"
    )
