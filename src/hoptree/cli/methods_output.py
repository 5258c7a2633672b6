"""How methods are shown on the terminal: all in a table, or one of them in full."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from hoptree.cli.console import clean
from hoptree.cli.method_facts import (
    OF_CORPUS,
    UNKNOWN,
    Told,
    default_of,
    example_of,
    held_by_corpus,
    how_to_meet,
    notes_of,
    paragraphs,
    prompts_of,
)
from hoptree.methods.papers import PAPERS

if TYPE_CHECKING:
    from rich.console import Console

    from hoptree.cli.method_costs import Cost


_WIDE = 200
"""Columns in a file or a pipe."""
_TEXT = 110
"""Columns of a text, at most: longer lines are hard to read."""
_LEAST = 20
"""Columns that a cell of several words gets, at least."""
_NOT_MEASURED = "not measured"
_CHANGED = "*"


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: list[str]
    wraps: bool = False

    @property
    def width(self) -> int:
        """What it takes, with the space between columns."""
        widest = max(map(len, (self.title, *self.cells)))
        return 2 + (min(_LEAST, widest) if self.wraps else widest)


def show_all(told: Sequence[Told], models: Mapping[str, frozenset[str] | None]) -> None:
    """Draw the table, or several where the terminal is too narrow for one, and say what its figures rest on."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=_WIDE)
    name = _Column("method", [one.method.name for one in told])
    for columns in _fitting(_columns(told, list(models)), console.width - name.width):
        _draw(console, [name, *columns])
    for line in _legend(told, models):
        typer.echo(clean(line))


def _fitting(columns: Iterable[_Column], width: int) -> list[list[_Column]]:
    """The columns in as many tables as it takes, in their order."""
    tables: list[list[_Column]] = [[]]
    for column in columns:
        if tables[-1] and sum(one.width for one in (*tables[-1], column)) > width:
            tables.append([])
        tables[-1].append(column)
    return tables


def _columns(told: Sequence[Told], models: Sequence[str]) -> list[_Column]:
    methods = [one.method for one in told]
    costs = [_cost_cells(one) for one in told]
    return [
        _Column("title", [one.title for one in methods], wraps=True),
        _Column("paper", [one.paper for one in methods]),
        _Column("needs", [", ".join(one.needs) for one in methods]),
        _Column("iterative", ["yes" if one.iterative else "no" for one in methods]),
        _Column("dynamic", ["yes" if one.dynamic else "no" for one in methods]),
        _Column("strategy", [one.strategy for one in methods], wraps=True),
        _Column("query", [one.query for one in methods], wraps=True),
        *(
            _Column(f"fidelity {number}" if len(models) > 1 else "fidelity", [one.fidelity[model] for one in told])
            for number, model in enumerate(models, start=1)
        ),
        *(_Column(title, [row[place] for row in costs]) for place, title in enumerate(("calls", "tokens", "searches"))),
    ]


def _cost_cells(told: Told) -> tuple[str, str, str]:
    cost = told.cost
    if cost is None:
        return (_NOT_MEASURED, "", "")
    mark = "" if cost.is_of(told.method) else _CHANGED
    tokens = f"{cost.prompt_tokens:,.0f} + {cost.completion_tokens:,.0f}"
    return (f"{cost.calls:.1f}{mark}", tokens, f"{cost.retrievals:.1f}")


def _draw(console: Console, columns: Sequence[_Column]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column.title, no_wrap=not column.wraps)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(Text(clean(cell) or "–") for cell in cells))
    console.print(table, "", sep="\n")


def _legend(told: Sequence[Told], models: Mapping[str, frozenset[str] | None]) -> list[str]:
    lines = []
    for number, (model, gives) in enumerate(models.items(), start=1):
        which = f"fidelity {number}" if len(models) > 1 else "fidelity"
        lines.append(f"{which}: with {model}, by default options")
        if gives is None:
            lines.append(f"    {UNKNOWN}: {model} is not on this machine, so what it tells of itself is not known")
    lines.append(
        "exact: as in the paper; approx: otherwise, or without a signal it uses; prompted: without the model it trained"
    )
    open_ones = dict.fromkeys(said for one in told for said in one.fidelity.values() if OF_CORPUS in said)
    lines += [f"{said}: by what the corpus holds (hoptree methods show NAME says what)" for said in open_ones]
    made: dict[str, list[str]] = {}
    for one in told:
        if one.cost:
            made.setdefault(one.cost.command, []).append(one.method.name)
    for command, names in made.items():
        which = "" if len(made) == 1 else f" of {', '.join(names)}"
        lines.append(f"calls, tokens (prompt + completion) and searches a question{which}: by {command}")
    if any(one.cost and not one.cost.is_of(one.method) for one in told):
        lines.append(f"{_CHANGED} measured before the method's code or prompts changed")
    lines.append("hoptree methods show NAME explains one: its steps, options and needs")
    return lines


def show_one(told: Told) -> None:
    """Explain one method."""
    method = told.method
    paper = f"  ({method.paper})" if method.paper else ""
    lines = [f"{method.name}: {method.title}{paper}"]
    for cited in PAPERS.get(method.paper, ()):
        lines += _wrapped(f"{cited.cited} {cited.link}".rstrip(), "  ", "    ")
    lines.append("")
    for part in paragraphs(method):
        lines += [*_wrapped(part, "  "), ""]
    lines += _shape(told)
    lines += ["", "steps, in the order its code names them:", *_steps(told)]
    if told.cost:
        lines += ["", *_cost(told, told.cost)]
    else:
        lines += ["", f"a question costs: {_NOT_MEASURED} (hoptree methods measure {method.name})"]
    lines += ["", "options:" if method.options else "options: none"]
    given = [f"--set {option.name}={default_of(option)}" for option in method.options]
    width = max(map(len, given), default=0)
    lines += [f"  {text:{width}}  {option.describe()}" for text, option in zip(given, method.options, strict=True)]
    if len(method.roles) > 1:
        lines += [
            "",
            "roles, each with a model of its own if you like:",
            f"  --role ROLE=MODEL    {'|'.join(method.roles)}",
        ]
    lines += ["", "needs:" if method.needs else "needs: nothing but a model"]
    for need in method.needs:
        lines += _wrapped(f"{need}: {how_to_meet(need)}", "  ", "    ")
    for held in held_by_corpus(method):
        lines += _wrapped(f"{held} in the corpus, else it is approx: {how_to_meet(held)}", "  ", "    ")
    if own := prompts_of(method):
        lines += ["", *_wrapped(f"prompts of its own: {', '.join(own)}", "", "  ")]
    lines += ["", "for example:", f"  {example_of(method)}"]
    for line in lines:
        typer.echo(clean(line))


def _shape(told: Told) -> list[str]:
    method = told.method
    lines = [f"iterative: {'yes' if method.iterative else 'no'}, dynamic: {'yes' if method.dynamic else 'no'}"]
    lines += [f"strategy: {method.strategy}"] if method.strategy else []
    lines += [f"query: {method.query}"] if method.query else []
    for model, fidelity in told.fidelity.items():
        lines.append(f"fidelity: {fidelity} with {model}{', which is not on this machine' * (fidelity == UNKNOWN)}")
    for note in notes_of(method):
        lines += _wrapped(note, "  ", "    ")
    return lines


def _steps(told: Told) -> list[str]:
    lines: list[str] = []
    only = ""
    for number, step in enumerate(told.steps, start=1):
        if step.only != only:
            only = step.only
            lines.append(f"  with {only}=on also:")
        asks = f" [{', '.join(step.asks)}]" if step.asks else ""
        lines += _wrapped(f"{number}. {step.name}{asks}: {step.about}", "  ", "     ")
    return lines or ["  (its source is not at hand)"]


def _cost(told: Told, cost: Cost) -> list[str]:
    tokens = f"{cost.prompt_tokens:,.0f} + {cost.completion_tokens:,.0f} tokens"
    figures = f"a question costs {cost.calls:.1f} calls, {tokens} and {cost.retrievals:.1f} searches"
    asked = f"{cost.questions} questions of the sample"
    asked += f", {cost.failed} of which failed" if cost.failed else ""
    asked += f", {cost.stopped} ended by the budget" if cost.stopped else ""
    lines = _wrapped(f"{figures} (mean of {asked}; {cost.command})", "", "  ")
    if not cost.is_of(told.method):
        lines.append("  (measured before the method's code or prompts changed)")
    counted = ", ".join(f"{step} {count:g}" for step, count in cost.steps.items())
    return [*lines, *_wrapped(f"calls by step: {counted}", "  ", "    ")]


def _wrapped(text: str, first: str, later: str | None = None) -> list[str]:
    indent = first if later is None else later
    width = min(_TEXT, shutil.get_terminal_size((_TEXT, 0)).columns)
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
