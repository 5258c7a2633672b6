"""`hoptree methods`: which there are, what each does, needs and costs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hoptree.cli import chooser
from hoptree.cli.console import clean, interruptible, print_json, run, say, what_stays
from hoptree.cli.options import BaseURL, Graph, Model, NoCache
from hoptree.cli.progress import shown
from hoptree.core.errors import ConfigError, HoptreeError, InputError

if TYPE_CHECKING:
    from hoptree.cli.method_costs import Cost, Setting
    from hoptree.cli.method_facts import Told
    from hoptree.engine.registry import Method


class _ShowOrList(TyperGroup):
    """`hoptree methods` means `hoptree methods list`, and `hoptree methods NAME` means `hoptree methods show NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            listed = not args or args[0].startswith("-")
            args = ["list" if listed else "show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ShowOrList,
    rich_markup_mode=None,
    help="""List the methods with what they need and cost, or explain one.

\b
hoptree methods                                    all of them in a table
hoptree methods show taikc                         one: steps, options, roles, needs, an example
hoptree methods -m openai/NAME -m hf/NAME          how close to its paper each is with these models
hoptree methods measure oner ircot                 what a question costs, on the packaged sample
hoptree methods chooser show                       the weights that hop chooses answers by
""",
)

app.add_typer(chooser.app, name="chooser")

Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        "-m",
        help="A model to tell the fidelity with; may be repeated. It is not loaded.  [env: HOPTREE_MODEL]  "
        "[default: the embedded model]",
        show_default=False,
    ),
]
Costs = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Figures of hoptree methods measure --out FILE.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@app.command("list")
def list_all(
    name: Annotated[str | None, typer.Argument(help="Only this one, as show does.", show_default=False)] = None,
    model: Models = [],  # noqa: B006 - typer copies it
    costs: Costs = None,
    as_json: AsJson = False,
) -> None:
    """List all methods: paper, needs, when and with what they retrieve, fidelity, and what a question costs."""
    from hoptree.cli.methods_output import show_all
    from hoptree.engine.registry import list_methods

    if name is not None:
        show(name, model=model, costs=costs, as_json=as_json)
        return
    models = _models(model)
    told = _tell(list_methods(), models, costs)
    if as_json:
        print_json([one.as_dict() for one in told])
    else:
        show_all(told, models)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A method; hoptree methods lists them.")],
    model: Models = [],  # noqa: B006 - typer copies it
    costs: Costs = None,
    as_json: AsJson = False,
) -> None:
    """Explain a method: its steps in order, options with defaults and choices, roles, needs, and an example."""
    from hoptree.cli.methods_output import show_one
    from hoptree.engine.registry import find_method

    (told,) = _tell((find_method(name),), _models(model), costs)
    if as_json:
        print_json(told.explained())
    else:
        show_one(told)


def _models(given: list[str]) -> dict[str, frozenset[str] | None]:
    """What each model tells beside its text."""
    from hoptree.cli.method_facts import capabilities_of
    from hoptree.models import DEFAULT_MODEL

    named = given or [os.environ.get("HOPTREE_MODEL") or DEFAULT_MODEL]
    return {spec: capabilities_of(spec) for spec in named}


def _tell(
    methods: tuple[Method, ...], models: dict[str, frozenset[str] | None], costs: Path | None
) -> tuple[Told, ...]:
    from hoptree.cli.method_costs import read_costs
    from hoptree.cli.method_facts import tell

    measured = read_costs(costs)
    return tuple(tell(method, models, measured) for method in methods)


@app.command()
@interruptible
def measure(
    names: Annotated[list[str] | None, typer.Argument(help="Methods; all by default.", show_default=False)] = None,
    model: Model = "",
    graph: Graph = None,
    limit: Annotated[int, typer.Option(min=1, help="So many of the sample's 20 questions.")] = 20,
    budget: Annotated[
        str, typer.Option(metavar="LIMITS", help="Of one question: calls=60,seconds=300 (see hoptree ask).")
    ] = "",
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Ask nothing; take the figures of runs of the sample with default options that are in it.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the figures go; those of other methods in it stay.")] = Path(
        "method-costs.json"
    ),
    base_url: BaseURL = "",
    no_cache: NoCache = False,
) -> None:
    """Measure what a question costs with each method's default options, on the packaged sample.

    A method that cannot be asked (a graph is missing, the model lacks a signal) is named and left out. What was paid
    for is remembered, so that the same command goes on where it was stopped.

    \b
    hoptree methods measure --out costs.json
    hoptree methods measure oner ircot --limit 5 -m openai/NAME --out costs.json
    hoptree methods measure --from runs/sample --out costs.json
    hoptree methods --costs costs.json
    """
    from hoptree.cli.method_costs import Setting, costs_of_runs, read_costs, short_name
    from hoptree.engine.budget import Budget
    from hoptree.engine.registry import find_method, list_methods
    from hoptree.models import DEFAULT_MODEL, open_model
    from hoptree.sample import sample_questions

    chosen = tuple(find_method(name) for name in names) if names else list_methods()
    ledger = _Ledger(out, read_costs(out) if out.exists() else {})
    if runs:
        for name, cost in costs_of_runs(runs, chosen).items():
            ledger.add(name, cost)
        return
    spec = model or DEFAULT_MODEL
    said = [f"--model {short_name(spec)}", *(["--graph …"] if graph else []), f"--limit {limit}"]
    said += [f"--budget {budget}"] if budget else []
    setting = Setting(
        open_model(spec, base_url=base_url),
        sample_questions()[:limit],
        f"hoptree methods measure {' '.join(said)}",
        graph,
        Budget.parse(budget),
        cached=not no_cache,
    )
    run(_measure_all(chosen, setting, ledger), stays=what_stays("methods", cached=not no_cache))
    if not ledger.added:
        raise typer.Exit(1)


@dataclass(slots=True)
class _Ledger:
    """Figures on their way into a file, which is written after each method."""

    out: Path
    costs: dict[str, Cost]
    added: int = 0

    def add(self, name: str, cost: Cost) -> None:
        from hoptree.cli.method_costs import write_costs
        from hoptree.engine.registry import list_methods

        self.added += 1
        self.costs[name] = cost
        write_costs(self.out, self.costs, [method.name for method in list_methods()])
        typer.echo(
            f"{name}: {cost.calls:.1f} calls, {cost.prompt_tokens:,.0f} + {cost.completion_tokens:,.0f} tokens, "
            f"{cost.retrievals:.1f} searches a question"
        )


async def _measure_all(methods: tuple[Method, ...], setting: Setting, ledger: _Ledger) -> None:
    """Measure one method after the other; what cannot be measured is said and left out."""
    from hoptree.cli.method_costs import measure as measure_one

    done, total = 0, len(methods) * len(setting.questions)
    try:
        with shown(quiet=False) as show_progress:
            for method in methods:

                def on_done(name: str = method.name) -> None:
                    nonlocal done
                    done += 1
                    show_progress(done, total, lambda: name)

                try:
                    cost, warned = await measure_one(method, setting, on_done)
                except HoptreeError as error:
                    say(f"{method.name} could not be measured: {error}")
                else:
                    ledger.add(method.name, cost)
                    for kind, found in warned.items():
                        typer.echo(clean(f"  {found.said_of(kind, cost.questions)}"))
    finally:
        await setting.model.aclose()


@app.command()
def docs(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there instead of printing it.", show_default=False)
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 unless FILE is as it would be written.")
    ] = False,
) -> None:
    """Write the description of all methods of this package as Markdown, from their docstrings and code.

    \b
    hoptree methods docs --out docs/methods.md
    hoptree methods docs --out docs/methods.md --check
    """
    from hoptree.cli.method_docs import as_markdown

    text = as_markdown()
    if check:
        if out is None:
            raise ConfigError("--check needs a file.", "Write --check --out docs/methods.md.")
        there = out.read_text(encoding="utf-8") if out.is_file() else ""
        if there != text:
            say(f"{out} is not up to date. Write it anew: hoptree methods docs --out {out}")
            raise typer.Exit(1)
    elif out is None:
        typer.echo(text, nl=False)
    else:
        from hoptree.core.files import atomic_write

        try:
            atomic_write(out, [text])
        except OSError as error:
            raise InputError(
                f"{out} cannot be written: {error.strerror or error}.", "Give --out a file in a folder that is there."
            ) from error
