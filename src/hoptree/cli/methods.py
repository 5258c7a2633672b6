"""`hoptree methods`: which there are, what each does, needs and costs."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Option
from typer.core import TyperGroup

from hoptree.cli import chooser, method_facts
from hoptree.cli.console import AS_BEFORE, clean, echo, print_json, run_to_end, stoppable, warn
from hoptree.cli.method_costs import Cost, Setting, costs_of_runs, read_costs, short_name, write_costs
from hoptree.cli.method_costs import measure as measure_one
from hoptree.cli.method_facts import PAPERS, MethodFacts, cost_cells
from hoptree.cli.options import AsJson, BaseURL, Graph, Model, NoCache, Prompts, complete_method, warn_unused_prompts
from hoptree.cli.progress import progress_bar
from hoptree.core.errors import HoptreeError
from hoptree.engine import own_prompts
from hoptree.engine.context import Budget
from hoptree.engine.registry import Method, find_method, list_methods, unusable_methods
from hoptree.evaluation.running import Progress
from hoptree.models import DEFAULT_MODEL, open_model


class _ShowOrList(TyperGroup):
    """Makes `methods` mean `methods list`, and `methods NAME` `methods show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["list" if not args or args[0].startswith("-") else "show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ShowOrList,
    rich_markup_mode=None,
    help="""List the methods with what they need and cost, or explain one.

\b
hoptree methods                                    all of them in a table
hoptree methods show taikc                         one: steps, options, roles, needs, an example
hoptree methods prompts taikc --out mine           its prompts, to change for --prompts mine
hoptree methods -m openai/NAME -m hf/NAME          how close to its paper each is with these models
hoptree methods measure oner ircot                 what a question costs, on the packaged sample
hoptree methods chooser show                       the weights that hop chooses answers by
""",
)
app.add_typer(chooser.app, name="chooser")

Models = Annotated[
    list[str],
    Option(
        "--model",
        "-m",
        help="A model to compare methods with their papers by; may be repeated. It is not loaded.  "
        "[env: HOPTREE_MODEL]  [default: the embedded model]",
    ),
]
Costs = Annotated[Path | None, Option(metavar="FILE", help="Figures of hoptree methods measure --out FILE.")]


@app.command("list")
def list_all(
    name: Annotated[str | None, Argument(help="Only this one, as show does.")] = None,
    model: Models = [],
    costs: Costs = None,
    prompts: Prompts = None,
    as_json: AsJson = False,
) -> None:
    """List all methods with their papers, fidelity, needs, retrieval and costs."""
    if name is not None:
        show(name, model=model, costs=costs, prompts=prompts, as_json=as_json)
        return
    models = _capabilities(model)
    facts = method_facts.gather(list_methods(), models, costs, prompts)
    for error in unusable_methods():
        warn(str(error))
    warn_unused_prompts(prompts, [name for fact in facts for name in fact.own_prompts])
    if as_json:
        print_json([fact.as_dict() for fact in facts])
    else:
        _show_all(facts, models)


@app.command()
def show(
    name: Annotated[str, Argument(help="A method; hoptree methods lists them.", autocompletion=complete_method)],
    model: Models = [],
    costs: Costs = None,
    prompts: Prompts = None,
    as_json: AsJson = False,
) -> None:
    """Explain a method: steps, options, roles, needs, and an example."""
    (facts,) = method_facts.gather((find_method(name),), _capabilities(model), costs, prompts)
    warn_unused_prompts(prompts, facts.own_prompts, name)
    if as_json:
        print_json(facts.explained())
    else:
        show_one(facts)


def _capabilities(models: list[str]) -> dict[str, frozenset[str] | None]:
    names = models or [os.environ.get("HOPTREE_MODEL") or DEFAULT_MODEL]
    return {spec: method_facts.capabilities_of(spec) for spec in names}


@app.command("prompts")
def write_prompts(
    name: Annotated[str, Argument(help="A method; hoptree methods lists them.", autocompletion=complete_method)],
    out: Annotated[Path, Option(metavar="FOLDER", help="Where they go; no file is overwritten.")],
) -> None:
    """Write a method's prompts and demonstrations, to change them for --prompts.

    METHOD/FILE is for one method, shared/FILE for all that share it; unchanged files may be deleted. A prompt keeps its
    variables, such as {question}. A trained adapter is used only with the prompts it knows.

    \b
    hoptree methods prompts taikc --out mine
    hoptree ask "…" --method taikc --prompts mine --corpus docs.idx
    """
    for path in own_prompts.write_prompts(find_method(name), out):
        echo(str(path))


@app.command()
@stoppable(AS_BEFORE)
def measure(
    names: Annotated[list[str] | None, Argument(help="Methods; all by default.")] = None,
    model: Model = "",
    graph: Graph = None,
    limit: Annotated[int, Option(min=1, help="So many of the sample's 20 questions.")] = 20,
    budget: Annotated[
        str, Option(metavar="LIMITS", help="Of one question: calls=60,seconds=300 (see hoptree ask).")
    ] = "",
    prompts: Prompts = None,
    runs: Annotated[
        list[Path] | None,
        Option(
            "--from",
            metavar="FOLDER",
            help="Ask nothing: take the figures of runs of the sample with default options in it.",
        ),
    ] = None,
    out: Annotated[Path, Option(help="Where the figures go; those of other methods in it stay.")] = Path(
        "method-costs.json"
    ),
    base_url: BaseURL = "",
    no_cache: NoCache = False,
) -> None:
    """Measure each method's cost of a question, on the packaged sample.

    Methods run with default options. One that cannot run (a graph is missing, the model lacks a signal) is named and
    left out. Calls are cached, so that the same command resumes.

    \b
    hoptree methods measure --out costs.json
    hoptree methods measure oner ircot --limit 5 -m openai/NAME --out costs.json
    hoptree methods measure --from runs/sample --out costs.json
    hoptree methods --costs costs.json
    """
    chosen = tuple(find_method(name) for name in names) if names else list_methods()
    costs = read_costs(out) if out.exists() else {}
    if runs:
        for name, cost in costs_of_runs(runs, chosen).items():
            _keep_cost(out, costs, name, cost)
        return
    spec = model or DEFAULT_MODEL
    parts = [f"--model {short_name(spec)}", "--graph …" if graph else "", f"--limit {limit}"]
    parts += [f"--budget {budget}" if budget else "", "--prompts …" if prompts else ""]
    setting = Setting(
        open_model(spec, base_url=base_url),
        limit,
        " ".join(["hoptree methods measure", *filter(None, parts)]),
        graph,
        Budget.parse(budget),
        str(prompts) if prompts else None,
        cached=not no_cache,
    )
    measured = run_to_end(_measure_all(chosen, setting, out, costs), "methods", cached=not no_cache)
    if not measured:
        raise typer.Exit(1)


def _keep_cost(out: Path, costs: dict[str, Cost], name: str, cost: Cost) -> None:
    """Print a cost, and write it to the file at once."""
    costs[name] = cost
    write_costs(out, costs, [method.name for method in list_methods()])
    echo(f"{name}: {_figures(cost)} searches a question")


async def _measure_all(methods: tuple[Method, ...], setting: Setting, out: Path, costs: dict[str, Cost]) -> int:
    """Measure the methods in turn; return how many could be measured."""
    measured = 0
    try:
        with progress_bar(quiet=False) as show_progress:
            for method in methods:

                def on_progress(now: Progress, name: str = method.name) -> None:
                    show_progress(len(now.rows), now.total, lambda: name)

                try:
                    cost, warnings = await measure_one(method, setting, on_progress)
                except HoptreeError as error:
                    warn(f"{method.name} could not be measured: {error}")
                    continue
                measured += 1
                _keep_cost(out, costs, method.name, cost)
                for kind, warned in warnings.items():
                    echo(f"  {warned.describe(kind, cost.questions)}")
    finally:
        await setting.model.aclose()
    return measured


_FILE_COLUMNS = 200
_MAX_TEXT_COLUMNS = 110
_MIN_CELL_COLUMNS = 20
_NOT_MEASURED = "not measured"
_CHANGED = "*"
_WRAPPED = ("title", "strategy", "query")


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: list[str]
    wraps: bool = False

    @property
    def width(self) -> int:
        """The columns it takes, including the space after it."""
        widest = max(map(len, (self.title, *self.cells)))
        return 2 + (min(_MIN_CELL_COLUMNS, widest) if self.wraps else widest)


def _show_all(facts: Sequence[MethodFacts], models: Mapping[str, frozenset[str] | None]) -> None:
    """Draw the table, split where the terminal is narrow, with a legend."""
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_COLUMNS)
    name = _Column("method", [fact.method.name for fact in facts])
    for columns in _fit(_columns(facts, list(models)), console.width - name.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
        for column in (name, *columns):
            table.add_column(column.title, no_wrap=not column.wraps)
        for cells in zip(name.cells, *(column.cells for column in columns), strict=True):
            table.add_row(*(Text(clean(cell) or "–") for cell in cells))
        console.print(table, "", sep="\n")
    for line in _legend(facts, models):
        echo(line)


def _fit(columns: Iterable[_Column], width: int) -> list[list[_Column]]:
    """Distribute columns, in order, over as few tables as fit."""
    tables: list[list[_Column]] = [[]]
    for column in columns:
        if tables[-1] and sum(other.width for other in (*tables[-1], column)) > width:
            tables.append([])
        tables[-1].append(column)
    return tables


def _columns(facts: Sequence[MethodFacts], models: Sequence[str]) -> list[_Column]:
    rows = [method_facts.overview_cells(fact.method) for fact in facts]
    costs = [cost_cells(fact.cost) if fact.cost else (_NOT_MEASURED, "", "") for fact in facts]
    calls = [f"{cells[0]}{_CHANGED if fact.cost_is_old else ''}" for fact, cells in zip(facts, costs, strict=True)]
    return [
        *(_Column(title, [row[title] for row in rows], wraps=title in _WRAPPED) for title in rows[0]),
        *(
            _Column(
                _published(number, models),
                [method_facts.as_published(fact.method, fact.fidelity[model]) for fact in facts],
            )
            for number, model in enumerate(models, start=1)
        ),
        _Column("calls", calls),
        _Column("tokens", [cells[1] for cells in costs]),
        _Column("searches", [cells[2] for cells in costs]),
    ]


def _published(number: int, models: Collection[str]) -> str:
    return f"as published {number}" if len(models) > 1 else "as published"


def _legend(facts: Sequence[MethodFacts], models: Mapping[str, frozenset[str] | None]) -> list[str]:
    lines = []
    for number, (model, gives) in enumerate(models.items(), start=1):
        lines.append(f"{_published(number, models)}: with {model}, by default options")
        if gives is None:
            lines.append(f"    {method_facts.UNKNOWN}: {model} is not on this machine, so what it gives is not known")
    lines.append("not exactly: otherwise, or without a signal the paper uses; prompted: without the model it trained")
    for fact in facts:
        if any(method_facts.BY_CORPUS in value for value in fact.fidelity.values()):
            either = f"yes{method_facts.BY_CORPUS}not exactly"
            lines.append(f"{either}: by what the corpus holds (hoptree methods show NAME says what)")
            break
    measured: dict[str, list[str]] = {}
    for fact in facts:
        if fact.cost:
            measured.setdefault(fact.cost.command, []).append(fact.method.name)
    for command, names in measured.items():
        which = "" if len(measured) == 1 else f" of {', '.join(names)}"
        lines.append(f"calls, tokens (prompt + completion) and searches a question{which}: by {command}")
    if any(fact.cost_is_old for fact in facts):
        lines.append(f"{_CHANGED} {method_facts.OLD_COST}")
    return [*lines, "hoptree methods show NAME explains one: its steps, options and needs"]


def show_one(facts: MethodFacts) -> None:
    """Explain one method on the terminal."""
    method = facts.method
    lines = [f"{method.name}: {method.title}{f'  ({method.paper})' if method.paper else ''}"]
    for paper in PAPERS.get(method.paper, ()):
        lines += _wrap(f"{paper.cited} {paper.link}".rstrip(), "  ", "    ")
    lines.append("")
    for part in method_facts.paragraphs(method):
        lines += [*_wrap(part, "  "), ""]
    lines += [] if method.paper else ["of no paper"]
    lines.append(f"iterative: {'yes' if method.iterative else 'no'}, dynamic: {'yes' if method.dynamic else 'no'}")
    lines += [f"strategy: {method.strategy}"] if method.strategy else []
    lines += [f"query: {method.query}"] if method.query else []
    for model, fidelity in facts.fidelity.items() if method.paper else ():
        absent = ", which is not on this machine" if fidelity == method_facts.UNKNOWN else ""
        lines.append(f"as published: {method_facts.as_published(method, fidelity)} with {model}{absent}")
    for note in method_facts.notes_of(method):
        lines += _wrap(note, "  ", "    ")
    lines += ["", *_cost_lines(facts)]
    if figures := method.figures():
        lines += ["", *figures]
    lines += ["", "options:" if method.options else "options: none"]
    settings = [f"--set {option.name}={method_facts.default_of(option)}" for option in method.options]
    width = max(map(len, settings), default=0)
    lines += [f"  {text:{width}}  {option.describe()}" for text, option in zip(settings, method.options, strict=True)]
    if len(method.roles) > 1:
        roles = "|".join(method.roles)
        lines += ["", "roles, each with a model of its own if you like:", f"  --role ROLE=MODEL    {roles}"]
    lines += ["", "needs:" if method.needs else "needs: nothing but a model"]
    for need in method.needs:
        lines += _wrap(f"{need}: {method_facts.how_to_meet(need)}", "  ", "    ")
    for signal in method_facts.held_by_corpus(method):
        lines += _wrap(f"{signal} in the corpus, else it is approx: {method_facts.how_to_meet(signal)}", "  ", "    ")
    if used := own_prompts.files_of(method):
        lines += ["", *_wrap(f"prompts and demonstrations: {', '.join(used)}", "", "  ")]
    if own := facts.own_prompts:
        lines += _wrap(f"of your own: {', '.join(f'{name} ({digest})' for name, digest in own.items())}", "", "  ")
    for line in (*lines, "", "for example:", f"  {method_facts.example_of(method)}"):
        echo(line)


def _cost_lines(facts: MethodFacts) -> list[str]:
    cost = facts.cost
    if cost is None:
        mine = " with these prompts" if facts.own_prompts else ""
        return [f"a question costs: {_NOT_MEASURED}{mine} (hoptree methods measure {facts.method.name})"]
    asked = f"{cost.questions} questions of the sample"
    asked += f", {cost.failed} of which failed" if cost.failed else ""
    asked += f", {cost.stopped} ended by the budget" if cost.stopped else ""
    lines = _wrap(f"a question costs {_figures(cost)} searches (mean of {asked}; {cost.command})", "", "  ")
    if facts.cost_is_old:
        lines.append(f"  ({method_facts.OLD_COST})")
    steps = ", ".join(f"{step} {calls:g}" for step, calls in facts.steps.items())
    return [*lines, *_wrap(f"steps that ask the model, in order, with their calls a question: {steps}", "", "  ")]


def _figures(cost: Cost) -> str:
    calls, tokens, searches = cost_cells(cost)
    return f"{calls} calls, {tokens} tokens, {searches}"


def _wrap(text: str, first: str, later: str | None = None) -> list[str]:
    width = min(_MAX_TEXT_COLUMNS, shutil.get_terminal_size((_MAX_TEXT_COLUMNS, 0)).columns)
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )
