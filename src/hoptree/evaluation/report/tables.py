"""Tables of figures, and their Markdown, LaTeX, CSV and HTML forms."""

from __future__ import annotations

import csv
import html
import io
import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from itertools import compress
from typing import Any

NOT_KNOWN = "n/a"
NO_FIGURE = "–"  # where no figure is possible, as for a run against itself
NOTES: dict[str, list[str]] = tomllib.loads((files(__package__) / "notes.toml").read_text(encoding="utf-8"))
"""Explanations of tables."""
# Control characters, direction marks and lone surrogates, which all formats drop.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\|*\[\]`])")
_LATEX = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "{}$&#_%"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CSV_HEADER = ("table", "run", "run id", "column", "value", "low", "high", "questions", "best")


@dataclass(frozen=True, slots=True)
class Number:
    """A figure with an optional 95 % interval."""

    value: float
    low: float | None = None
    high: float | None = None
    digits: int = 1
    questions: int | None = None  # its number of questions, if fewer than the run has
    after: str = ""  # printed behind the figure
    best: bool = False  # printed in bold

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


Cell = Number | str | None  # None is printed as n/a


@dataclass(frozen=True, slots=True)
class TableRow:
    """The figures of one run; `run` is its id."""

    name: str
    run: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of runs with named columns; `notes` explain how to read them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def filled(self) -> Table:
        """The table without empty columns."""
        known = [any(row.cells[at] not in (None, "") for row in self.rows) for at in range(len(self.columns))]
        rows = (replace(row, cells=tuple(compress(row.cells, known))) for row in self.rows)
        return self if all(known) else replace(self, columns=tuple(compress(self.columns, known)), rows=tuple(rows))

    def as_dict(self) -> dict[str, Any]:
        rows = []
        for row in self.rows:
            cells = [asdict(cell) if isinstance(cell, Number) else cell for cell in row.cells]
            rows.append({"run": row.name, "id": row.run, **dict(zip(self.columns, cells, strict=True))})
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "notes": list(self.notes)}


def make_table(title: str, columns: Iterable[str], rows: Iterable[TableRow], *notes: str) -> Table | None:
    """Return a table, or None if it has no rows."""
    rows = tuple(rows)
    return Table(title, tuple(columns), rows, notes) if rows else None


def count(number: float) -> Number:
    return Number(number, digits=0)


def percent(part: float, total: float) -> Number | None:
    return Number(100 * part / total) if total else None


def points(share: float | None, **more: Any) -> Number | None:
    """Return a share of 1 as points of 100."""
    return None if share is None else Number(100 * share, **more)


def plain(text: str) -> str:
    """Return a text on one line, without control characters."""
    return " ".join(_CONTROL.sub("", text).split())


def as_markdown(tables: Iterable[Table]) -> str:
    lines: list[str] = []
    for table in (table.filled for table in tables):
        lines += [f"## {_escape_markdown(table.title)}", ""]
        rows = [["Run", "Id", *map(_escape_markdown, table.columns)], ["---", "---", *("---:" for _ in table.columns)]]
        for row in table.rows:
            run_id = f"`{plain(row.run).replace('`', '')}`"
            rows.append([_escape_markdown(row.name), run_id, *map(_markdown_cell, row.cells)])
        lines += [f"| {' | '.join(cells)} |" for cells in rows]
        for note in table.notes:
            lines += ["", _escape_markdown(note)]
        lines.append("")
    return "\n".join(lines)


def _markdown_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        return NOT_KNOWN if cell is None else _escape_markdown(cell)
    value = f"**{cell.text}**" if cell.best else cell.text
    return " ".join(filter(None, (value, f"({cell.interval})" if cell.interval else "", cell.scope)))


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(plain(text), quote=False))


def as_latex(tables: Iterable[Table]) -> str:
    r"""Return floats for a paper; the preamble needs \usepackage{booktabs}."""
    lines = [r"% \usepackage{booktabs}"]
    for table in (table.filled for table in tables):
        lines += [f"% {plain(note)}" for note in table.notes]
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{_escape_latex(table.title)}}}"]
        lines += [rf"\begin{{tabular}}{{ll{'r' * len(table.columns)}}}", r"\toprule"]
        lines += [rf"{' & '.join(['Run', 'Id', *map(_escape_latex, table.columns)])} \\", r"\midrule"]
        for row in table.rows:
            cells = [_escape_latex(row.name), rf"\texttt{{{_escape_latex(row.run)}}}", *map(_latex_cell, row.cells)]
            lines.append(rf"{' & '.join(cells)} \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join(lines)


def _latex_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        return _escape_latex(NOT_KNOWN if cell is None else cell)
    value = rf"\textbf{{{_escape_latex(cell.text)}}}" if cell.best else _escape_latex(cell.text)
    small = ", ".join(filter(None, (cell.interval.replace("–", "--"), cell.scope)))
    return rf"{value} {{\scriptsize ({small})}}" if small else value


def _escape_latex(text: str) -> str:
    return plain(text).translate(_LATEX)


def as_csv(tables: Iterable[Table]) -> str:
    """Return one line for each figure: tables of all shapes fit into one file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_CSV_HEADER)
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                labels = map(_escape_csv, (table.title, row.name, row.run, column))
                if isinstance(cell, Number):
                    writer.writerow([*labels, cell.value, cell.low, cell.high, cell.questions, int(cell.best)])
                else:
                    writer.writerow([*labels, NOT_KNOWN if cell is None else _escape_csv(cell), None, None, None, 0])
    return file.getvalue()


def _escape_csv(text: str) -> str:
    """Quote a text that a spreadsheet would execute as a formula."""
    text = plain(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def as_html(table: Table) -> str:
    table = table.filled
    of_text = [all(_is_text(row.cells[at]) for row in table.rows) for at in range(len(table.columns))]
    head = '<th scope="col">Run</th>' + "".join(
        f'<th scope="col"{" class=text" if is_text else ""}>{escape_html(name)}</th>'
        for name, is_text in zip(table.columns, of_text, strict=True)
    )
    body = "".join(
        f'<tr><th scope="row">{escape_html(row.name)} <small class="id">{escape_html(row.run)}</small></th>'
        f"{''.join(map(_html_cell, row.cells))}</tr>"
        for row in table.rows
    )
    notes = "".join(f'<p class="note">{escape_html(note)}</p>' for note in table.notes)
    title = escape_html(table.title)
    return (
        f'<div><div class="wide" tabindex="0" role="region" aria-label="{title}"><table><caption>{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}</div>"
    )


def _is_text(cell: Cell) -> bool:
    return isinstance(cell, str) and cell != NO_FIGURE


def _html_cell(cell: Cell) -> str:
    if not isinstance(cell, Number):
        kind = "text" if _is_text(cell) else "absent"
        text = escape_html(NOT_KNOWN if cell is None else cell).replace(
            "/", "/<wbr>"
        )  # paths break between their parts
        return f'<td class="{kind}">{text}</td>'
    value = f"<strong>{escape_html(cell.figure)}</strong>" if cell.best else escape_html(cell.figure)
    small = ", ".join(filter(None, (cell.after, cell.interval, cell.scope)))
    return f"<td>{value}{f' <small>{escape_html(small)}</small>' if small else ''}</td>"


def escape_html(text: str) -> str:
    return html.escape(plain(text))
