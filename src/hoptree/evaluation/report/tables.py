"""A table of figures, each with its run, and how it looks in Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

NOT_KNOWN = "n/a"
# Controls, marks that turn the direction of writing, and halves of characters: no format has a use for them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\|*\[\]`])")
_LATEX = {
    **{letter: f"\\{letter}" for letter in "{}$&#_%"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CSV = ("table", "run", "run id", "column", "value", "low", "high", "questions", "best")


@dataclass(frozen=True, slots=True)
class Number:
    """A figure, with its 95 % interval where it has one.

    `questions` is how many it is of, where that is fewer than the run has; `after` follows it in print. `best` is
    printed bold.
    """

    value: float
    low: float | None = None
    high: float | None = None
    digits: int = 1
    questions: int | None = None
    after: str = ""
    best: bool = False

    @property
    def figure(self) -> str:
        return f"{self.value:,.{self.digits}f}"

    @property
    def text(self) -> str:
        return f"{self.figure} {self.after}" if self.after else self.figure

    @property
    def interval(self) -> str:
        if self.low is None or self.high is None:
            return ""
        return f"{self.low:,.{self.digits}f}–{self.high:,.{self.digits}f}"

    @property
    def scope(self) -> str:
        return "" if self.questions is None else f"n={self.questions:,}"


Cell = Number | str | None
"""None is printed as n/a."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """The figures of one run; `run` is its id."""

    name: str
    run: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of runs; `columns` name their cells, and `notes` say how to read them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        rows = [
            {
                "run": row.name,
                "id": row.run,
                **{
                    column: asdict(cell) if isinstance(cell, Number) else cell
                    for column, cell in zip(self.columns, row.cells, strict=True)
                },
            }
            for row in self.rows
        ]
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "notes": list(self.notes)}


def plain(text: str) -> str:
    """Text from a model, a document or a file in one line, without what is not meant to be read."""
    return " ".join(_CONTROL.sub("", text).split())


def as_markdown(tables: Iterable[Table]) -> str:
    return "\n".join(_markdown(table) for table in tables)


def _markdown(table: Table) -> str:
    lines = [
        f"## {_in_markdown(table.title)}",
        "",
        _piped(["Run", "Id", *map(_in_markdown, table.columns)]),
        _piped(["---", "---", *("---:" for _ in table.columns)]),
    ]
    for row in table.rows:
        cells = [_markdown_cell(cell) for cell in row.cells]
        lines.append(_piped([_in_markdown(row.name), f"`{plain(row.run).replace('`', '')}`", *cells]))
    for note in table.notes:
        lines += ["", _in_markdown(note)]
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        return NOT_KNOWN if cell is None else _in_markdown(cell)
    value = f"**{cell.text}**" if cell.best else cell.text
    return " ".join(filter(None, (value, f"({cell.interval})" if cell.interval else "", cell.scope)))


def _piped(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _in_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(plain(text), quote=False))


def as_latex(tables: Iterable[Table]) -> str:
    r"""Floats for a paper; the preamble needs \usepackage{booktabs}."""
    return "% \\usepackage{booktabs}\n" + "\n".join(_latex(table) for table in tables)


def _latex(table: Table) -> str:
    head = " & ".join(["Run", "Id", *map(_in_latex, table.columns)])
    lines = [
        *(f"% {plain(note)}" for note in table.notes),
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_in_latex(table.title)}}}",
        rf"\begin{{tabular}}{{ll{'r' * len(table.columns)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for row in table.rows:
        cells = [_in_latex(row.name), rf"\texttt{{{_in_latex(row.run)}}}", *(_latex_cell(cell) for cell in row.cells)]
        lines.append(rf"{' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _latex_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        return _in_latex(NOT_KNOWN if cell is None else cell)
    value = rf"\textbf{{{_in_latex(cell.text)}}}" if cell.best else _in_latex(cell.text)
    small = ", ".join(filter(None, (cell.interval.replace("–", "--"), cell.scope)))
    return rf"{value} {{\scriptsize ({small})}}" if small else value


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in plain(text))


def as_csv(tables: Iterable[Table]) -> str:
    """One line a figure, so that tables of all kinds fit into one file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_CSV)
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                texts = [_in_csv(text) for text in (table.title, row.name, row.run, column)]
                writer.writerow([*texts, *_csv_cell(cell)])
    return file.getvalue()


def _csv_cell(cell: Cell) -> Sequence[Any]:
    if isinstance(cell, Number):
        return (cell.value, cell.low, cell.high, cell.questions, int(cell.best))
    return (NOT_KNOWN if cell is None else _in_csv(cell), None, None, None, 0)


def _in_csv(text: str) -> str:
    """Spreadsheets would carry out a text that begins like a formula."""
    text = plain(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_html(table: Table) -> str:
    head = "".join(f'<th scope="col">{_in_html(name)}</th>' for name in ("Run", *table.columns))
    body = "".join(
        f'<tr><th scope="row">{_in_html(row.name)} <small class="id">{_in_html(row.run)}</small></th>'
        f"{''.join(_html_cell(cell) for cell in row.cells)}</tr>"
        for row in table.rows
    )
    notes = "".join(f'<p class="note">{_in_html(note)}</p>' for note in table.notes)
    title = _in_html(table.title)
    return (
        f'<div><div class="wide" tabindex="0" role="region" aria-label="{title}"><table><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}</div>"
    )


def _html_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        kind = "absent" if cell is None else "text"
        return f'<td class="{kind}">{_in_html(NOT_KNOWN if cell is None else cell)}</td>'
    value = f"<strong>{_in_html(cell.figure)}</strong>" if cell.best else _in_html(cell.figure)
    small = ", ".join(filter(None, (cell.after, cell.interval, cell.scope)))
    return f"<td>{value}{f' <small>{_in_html(small)}</small>' if small else ''}</td>"


def _in_html(text: str) -> str:
    return html.escape(plain(text))
