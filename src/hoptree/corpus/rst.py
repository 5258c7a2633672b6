"""Read reStructuredText, with its tables drawn in characters or as directives."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import PurePosixPath
from textwrap import dedent

from hoptree.corpus.document import Document, TextBuilder, join_lines, table_lines
from hoptree.corpus.files import stem, text_reader
from hoptree.corpus.markdown import STARS
from hoptree.corpus.references import resolve_link
from hoptree.text.names import word_set

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")
_DIRECTIVE = re.compile(r"(\s*)\.\.(?: ([\w:-]+)::)?(?: (.*))?$")
_FOOTNOTE = re.compile(r"(\s*)\.\. (\[[^\[\]]{1,100}\]\s.*)$")
_OPTION = re.compile(r"\s+:[\w-]+:(\s|$)")
_VERSIONS = word_set("versionadded versionchanged versionremoved deprecated")
_WITHOUT_ARGUMENT = word_set(
    "code-block code sourcecode highlight image figure include literalinclude index toctree raw"
)
_ROLE = re.compile(r"(?::[\w:+.-]+:)?`~?([^`<>]*?)(?:\s*<[^`<>]*>)?`_{0,2}")
_LITERAL = re.compile(r"``(.+?)``")
_LABEL = re.compile(r"\s*\.\. _`?([^`:]{1,100})`?:\s*$")
_REFERENCE = re.compile(r":(ref|numref|doc):`(?:[^`<>]*<)?([^`<>]{1,200})>?`")


def rst_document(text: str, name: str) -> Document:
    """Make a document of the titles, paragraphs, tables and directives of a text."""
    builder = TextBuilder()
    levels: list[str] = []  # the adornments of titles, from the highest level on
    paragraph: list[str] = []
    dropped_indent = -1  # of a comment or a list of files, which ends at the next line that is not indented more
    in_options = False  # whether the line above is a directive, or an option of one
    lines = list(_with_table_rows(text.split("\n")))
    for at, line in enumerate(lines):
        may_be_option, in_options = in_options, False
        indent = len(line) - len(line.lstrip())
        below = lines[at + 1] if at + 1 < len(lines) else ""
        above = lines[at - 1] if at else ""
        if dropped_indent >= 0 and (not line.strip() or indent > dropped_indent):
            continue
        dropped_indent = -1
        if _ADORNMENT.match(line):
            continue
        if not line.strip():
            builder.add([join_lines("\n".join(paragraph))])
            paragraph.clear()
        elif label := _LABEL.match(line):
            builder.anchor(_label_place(label[1]))
        elif footnote := _FOOTNOTE.match(line):
            builder.add([join_lines("\n".join(paragraph))])
            paragraph[:] = [_plain(footnote[2])]
        elif (match := _DIRECTIVE.match(line)) and not _ADORNMENT.match(below):
            kind, argument, in_options = match[2], match[3] or "", True
            if kind is None or kind in ("toctree", "index", "raw"):
                dropped_indent = indent
            elif kind not in _WITHOUT_ARGUMENT:
                paragraph.append(f"{kind}: {argument}" if kind in _VERSIONS else _plain(argument))
        elif _ADORNMENT.match(below) and len(below.rstrip()) >= len(line.strip()) * 0.9 and not paragraph:
            style = below[0] * (2 if above[:1] == below[0] and _ADORNMENT.match(above) else 1)
            if style not in levels:
                levels.append(style)
            builder.heading(levels.index(style) + 1, _plain(line.strip()))
        elif may_be_option and _OPTION.match(line):
            in_options = True
        else:
            for role, target in _REFERENCE.findall(line):
                builder.refer(_place(role, target, name))
            paragraph.append(_plain(line))
    builder.add([join_lines("\n".join(paragraph))])
    return builder.document(name, stem(name))


read_rst = text_reader(rst_document)


def _label_place(label: str) -> str:
    """Return the name of a labelled place, the same in all files."""
    return f"label:{' '.join(label.casefold().split())}"


def _place(role: str, target: str, name: str) -> str:
    """Return the place that a role leads to: a label, or a document."""
    if role != "doc":
        return _label_place(target)
    place = resolve_link(target.lstrip("/"), "" if target.startswith("/") else name)
    suffix = ".rst.txt" if name.endswith(".rst.txt") else PurePosixPath(name).suffix
    return f"{place}{suffix}" if place else ""


def _plain(line: str) -> str:
    """Return the words of a line without markup; "::" at its end becomes ":"."""
    line = STARS.sub(r"\2", _ROLE.sub(r"\1", _LITERAL.sub(r"\1", line)))
    return line.rstrip()[:-1] if line.rstrip().endswith("::") else line


_SIMPLE = re.compile(r"\s*=+(?: +=+)+\s*$")
_GRID = re.compile(r"\s*\+(?:-+\+)+\s*$")
_RULE = re.compile(r"\s*\+?[=+-][=+ -]*$")
_TABLE_DIRECTIVE = re.compile(r"(\s{0,20})\.\. (list|csv)-table::\s*(.*)$")
"""Nested at most 20 columns deep: each level reads the tables inside it again."""
_TABLE_OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)$", re.MULTILINE)
_FIRST_CELL = re.compile(r"[*+-] +([*+-])(?: |$)")
_SEPARATORS = {"": ",", "tab": "\t", "space": " "}
_MAX_TABLE_LINES = 10_000
_WIDE = "\0"  # follows each character that is two columns wide

_Row = dict[int, str]
"""The cells of a row by their columns."""


def _with_table_rows(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a text, with each row of a table as a paragraph."""
    at = 0
    while at < len(lines):
        if table := _table_at(lines, at):
            indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
            rows, at = table
            for row in rows:
                yield ""
                yield indent + row
            yield ""
        else:
            yield lines[at]
            at += 1


def _table_at(lines: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """Return a line for each row of the table that begins here, and where it ends."""
    if _SIMPLE.match(lines[at]):
        end, rules = at + 1, [at]
        while end < min(len(lines), at + _MAX_TABLE_LINES):
            if _SIMPLE.match(lines[end]):
                rules.append(end)
                if len(rules) > 2 or end + 1 == len(lines) or not lines[end + 1].strip():
                    break
            end += 1
        if len(rules) not in (2, 3) or rules[-1] != end:
            return None
        starts = [match.start() for match in re.finditer("=+", lines[at])]
        header = _simple_rows(lines[at + 1 : rules[1]], starts) if len(rules) == 3 else []
        body = _simple_rows(lines[rules[-2] + 1 : end], starts)
    elif _GRID.match(lines[at]):
        end = at
        while end + 1 < len(lines) and lines[end + 1].strip()[:1] in ("+", "|"):
            end += 1
        marks = [match.start() for match in re.finditer(r"\+", lines[at])]
        header, body = _grid_rows(lines[at : end + 1], marks)
    else:
        return _directive_at(lines, at)
    return _row_lines(header, body), end + 1


def _row_lines(header: Sequence[_Row], body: Sequence[_Row]) -> list[str]:
    if not header:
        return [" | ".join(filter(None, (" ".join(cell.split()) for cell in row.values()))) for row in body]
    return list(table_lines([_merged(header), *body], named=True))


def _directive_at(lines: Sequence[str], at: int) -> tuple[list[str], int] | None:
    """Return the title and the rows of a list-table or csv-table, and where it ends."""
    match = _TABLE_DIRECTIVE.match(lines[at])
    if not match:
        return None
    inside = takewhile(
        lambda line: not line.strip() or line[: len(match[1]) + 1].isspace(), lines[at + 1 : at + 1 + _MAX_TABLE_LINES]
    )
    block = [line.rstrip() for line in dedent("\n".join(inside)).split("\n")]
    head = list(takewhile(bool, block))
    title = " ".join((match[3], *takewhile(lambda line: not line.startswith(":"), head)))
    options = dict(_TABLE_OPTION.findall("\n".join(head)))
    body, above = dedent("\n".join(block[len(head) :])).split("\n"), options.get("header-rows", "")
    header: list[_Row] = []
    if match[2] == "list":
        rows = _list_rows(body)
    else:
        separator: str = options.get("delim", "")
        separator = _SEPARATORS.get(separator, separator)
        try:
            header, rows = (
                [dict(enumerate(row)) for row in csv.reader(part, delimiter=separator, skipinitialspace=True) if row]
                for part in ([options.get("header", "")], [f"{line}\n" for line in body])
            )
        except (csv.Error, TypeError, ValueError):  # of an invalid separator
            return None
    if not rows:
        return None
    count = int(above) if above.isdecimal() else 0
    return [*filter(None, [title.strip()]), *_row_lines([*header, *rows[:count]], rows[count:])], at + 1 + len(block)


def _list_rows(lines: Sequence[str]) -> list[_Row]:
    """Return the rows of a list in which "* -" begins a row, and "-" a further cell."""
    rows: list[list[str]] = []
    column = 0
    for line in lines:
        if match := _FIRST_CELL.match(line):
            column = match.start(1)
            rows.append([line[column + 1 :]])
        elif rows and line[:column].isspace() and f"{line} "[column : column + 2] in ("* ", "+ ", "- "):
            rows[-1].append(line[column + 1 :])
        elif rows:
            rows[-1][-1] += f" {line.strip()}"
    return [dict(enumerate(cells)) for cells in rows]


def _merged(rows: Sequence[_Row]) -> _Row:
    """Return one row with the words of all."""
    return {at: " ".join(row[at] for row in rows if at in row) for at in sorted({at for row in rows for at in row})}


def _simple_rows(lines: Sequence[str], starts: Sequence[int]) -> list[_Row]:
    """Return the rows of a simple table; a line without a first cell continues a row."""
    groups: list[list[_Row]] = []
    for line in map(_in_columns, lines):
        if not line.strip() or _RULE.match(line):
            continue
        cells = {at: line[a:b].replace(_WIDE, "") for at, (a, b) in enumerate(pairwise((*starts, len(line))))}
        if not groups or cells[0].strip():
            groups.append([])
        groups[-1].append(cells)
    return list(map(_merged, groups))


def _grid_rows(lines: Sequence[str], marks: Sequence[int]) -> tuple[list[_Row], list[_Row]]:
    """Return the header rows and the other rows of a table in a grid."""
    groups: list[list[_Row]] = [[]]
    header_rows = 0
    for line in map(_in_columns, lines):
        if _RULE.match(line):
            if groups[-1]:
                groups.append([])
            if "=" in line and not header_rows:
                header_rows = len(groups) - 1
            continue
        bounds = [at for at, mark in enumerate(marks) if line[mark : mark + 1] in ("|", "+")]
        groups[-1].append({a: line[marks[a] + 1 : marks[b]].replace(_WIDE, "") for a, b in pairwise(bounds)})
    rows = list(map(_merged, groups))
    return rows[:header_rows], rows[header_rows:]


def _in_columns(line: str) -> str:
    """Return a line with each character in the column where it is shown."""
    if line.isascii():
        return line
    return "".join(
        f"{character}{_WIDE}" if unicodedata.east_asian_width(character) in "WF" else character for character in line
    )
