"""Read the tables of reStructuredText, drawn with lines or as directives."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from textwrap import dedent

from hoptree.corpus.document import table_lines

_SIMPLE = re.compile(r"\s*=+(?: +=+)+\s*$")
_GRID = re.compile(r"\s*\+(?:-+\+)+\s*$")
_RULE = re.compile(r"\s*\+?[=+-][=+ -]*$")
_DIRECTIVE = re.compile(
    r"(\s{0,20})\.\. (list|csv)-table::\s*(.*)$"
)  # deeper ones would be read again for each that they are in
_OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)$", re.MULTILINE)
_FIRST_CELL = re.compile(r"[*+-] +([*+-])(?: |$)")
_SEPARATORS = {"": ",", "tab": "\t", "space": " "}
_MAX_LINES = 10_000
_WIDE = "\0"  # stands behind a character that is two columns wide

Row = dict[int, str]


def with_rows(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a text, in which each row of a table has become a paragraph."""
    at = 0
    while at < len(lines):
        if table := _table_at(lines, at):
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            for row in table[0]:
                yield ""
                yield indent + row
            yield ""
            at = table[1]
        else:
            yield lines[at]
            at += 1


def _table_at(lines: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """Return a line for each row of the table here, and where it ends."""
    if _SIMPLE.match(lines[at]):
        end, rules = at + 1, [at]
        while end < min(len(lines), at + _MAX_LINES):
            if _SIMPLE.match(lines[end]):
                rules.append(end)
                if len(rules) > 2 or end + 1 == len(lines) or not lines[end + 1].strip():
                    break
            end += 1
        if len(rules) not in (2, 3) or rules[-1] != end:
            return None
        starts = [match.start() for match in re.finditer("=+", lines[at])]
        header = list(_simple_rows(lines[at + 1 : rules[1]], starts)) if len(rules) == 3 else []
        body = list(_simple_rows(lines[rules[-2] + 1 : end], starts))
    elif _GRID.match(lines[at]):
        end = at
        while end + 1 < len(lines) and lines[end + 1].strip()[:1] in ("+", "|"):
            end += 1
        marks = [match.start() for match in re.finditer(r"\+", lines[at])]
        rows = list(_grid_rows(lines[at : end + 1], marks))
        above = next((number for number, row in enumerate(rows) if not row), 0)  # an empty one ends the header
        header, body = rows[:above], list(filter(None, rows[above:]))
    else:
        return _directive_at(lines, at)
    return _row_lines(header, body), end + 1


def _row_lines(header: Sequence[Row], body: Sequence[Row]) -> list[str]:
    if not header:
        return [" | ".join(filter(None, (" ".join(cell.split()) for cell in row.values()))) for row in body]
    return list(table_lines([_merged(header), *body], named=True))


def _directive_at(lines: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """Return the title and the rows of a list-table or csv-table, and where it ends."""
    match = _DIRECTIVE.match(lines[at])
    if not match:
        return None
    inside = takewhile(
        lambda line: not line.strip() or line[: len(match[1]) + 1].isspace(), lines[at + 1 : at + 1 + _MAX_LINES]
    )
    block = [line.rstrip() for line in dedent("\n".join(inside)).split("\n")]
    head = list(takewhile(bool, block))
    title = " ".join((match[3], *takewhile(lambda line: not line.startswith(":"), head)))
    options = dict(_OPTION.findall("\n".join(head)))
    body, above = dedent("\n".join(block[len(head) :])).split("\n"), options.get("header-rows", "")
    header: list[Row] = []
    if match[2] == "list":
        rows = list(_list_rows(body))
    else:
        separator: str = options.get("delim", "")
        separator = _SEPARATORS.get(separator, separator)
        try:
            header, rows = (
                [dict(enumerate(row)) for row in csv.reader(part, delimiter=separator, skipinitialspace=True) if row]
                for part in ([options.get("header", "")], [f"{line}\n" for line in body])
            )
        except (csv.Error, TypeError, ValueError):  # the separator may be none
            return None
    if not rows:
        return None
    count = int(above) if above.isdecimal() else 0
    return [*filter(None, [title.strip()]), *_row_lines([*header, *rows[:count]], rows[count:])], at + 1 + len(block)


def _list_rows(lines: Sequence[str]) -> Iterator[Row]:
    """Yield rows: "* -" begins one, and "-" below that a cell."""
    cells: list[str] = []
    column = 0
    for line in lines:
        if match := _FIRST_CELL.match(line):
            if cells:
                yield dict(enumerate(cells))
            column = match.start(1)
            cells = [line[column + 1 :]]
        elif cells and line[:column].isspace() and f"{line} "[column : column + 2] in ("* ", "+ ", "- "):
            cells.append(line[column + 1 :])
        elif cells:
            cells[-1] += f" {line.strip()}"
    if cells:
        yield dict(enumerate(cells))


def _merged(rows: Sequence[Row]) -> Row:
    """Return one row with the words of all."""
    return {at: " ".join(row[at] for row in rows if at in row) for at in sorted({at for row in rows for at in row})}


def _simple_rows(lines: Sequence[str], starts: Sequence[int]) -> Iterator[Row]:
    """Yield rows; a line without a first cell goes on with the row above."""
    group: list[Row] = []
    for line in map(_in_columns, lines):
        if not line.strip() or _RULE.match(line):
            continue
        cells = {at: line[a:b].replace(_WIDE, "") for at, (a, b) in enumerate(pairwise((*starts, len(line))))}
        if group and cells[0].strip():
            yield _merged(group)
            group.clear()
        group.append(cells)
    if group:
        yield _merged(group)


def _grid_rows(lines: Sequence[str], marks: Sequence[int]) -> Iterator[Row]:
    """Yield rows; an empty one stands for the line below the header."""
    group: list[Row] = []
    for line in map(_in_columns, lines):
        if _RULE.match(line):
            if group:
                yield _merged(group)
                group.clear()
            if "=" in line:
                yield {}
            continue
        bounds = [at for at, mark in enumerate(marks) if line[mark : mark + 1] in ("|", "+")]
        group.append({a: line[marks[a] + 1 : marks[b]].replace(_WIDE, "") for a, b in pairwise(bounds)})
    if group:
        yield _merged(group)


def _in_columns(line: str) -> str:
    """Return a line in which every character is where it is seen."""
    if line.isascii():
        return line
    return "".join(
        f"{character}{_WIDE}" if unicodedata.east_asian_width(character) in "WF" else character for character in line
    )
