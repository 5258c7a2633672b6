"""`hoptree ask` and `hoptree show`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import print_error, print_json, run
from hoptree.cli.search import Rerank, RetrieverKind
from hoptree.errors import ConfigError, InputError

if TYPE_CHECKING:
    from hoptree.engine import Engine
    from hoptree.runtime.context import Prices
    from hoptree.runtime.result import Result

__all__ = [
    "BaseURL",
    "Concurrency",
    "Graph",
    "Model",
    "NoCache",
    "Roles",
    "Settings",
    "ask",
    "ask_and_show",
    "read_prices",
    "read_roles",
    "read_settings",
    "show",
]

_FILE_WIDTH = 200
_HOW_PRICES = "Write IN/OUT, for example --prices 0.15/0.60."

Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        envvar="HOPTREE_MODEL",
        help="openai/NAME, local/NAME, local/FILE.gguf, hf/NAME or scripted/FILE.  [default: the embedded model]",
        show_default=False,
    ),
]
Graph = Annotated[
    str | None,
    typer.Option(
        help="A knowledge graph made by hoptree graph load, a SPARQL endpoint's URL, or wikidata.", show_default=False
    ),
]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="An option of the method; hoptree methods lists them.")
]
Roles = Annotated[
    list[str],
    typer.Option(
        "--role", metavar="ROLE=MODEL", help="A model for a part of the method; hoptree methods NAME lists its roles."
    ),
]
BaseURL = Annotated[
    str, typer.Option(help="Of an OpenAI-compatible endpoint.  [env: OPENAI_BASE_URL]", show_default=False)
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Requests at once, at most.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep remembered replies.")]


def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    corpus: Annotated[
        str | None,
        typer.Option(
            help="An index made by hoptree index, 'sample', or an elasticsearch://… or milvus://… address.",
            show_default=False,
        ),
    ] = None,
    graph: Graph = None,
    retriever: RetrieverKind = "bm25",
    rerank: Rerank = "",
    model: Model = "",
    roles: Roles = [],  # noqa: B006 - typer copies it
    method: Annotated[str, typer.Option(help="hoptree methods lists them.")] = "taikc",
    settings: Settings = [],  # noqa: B006 - typer copies it
    budget: Annotated[
        str,
        typer.Option(
            metavar="LIMITS", help="Stop at calls=20,tokens=9000,seconds=60,cost=0.1 (any of them; cached calls count)."
        ),
    ] = "",
    prices: Annotated[
        str, typer.Option(metavar="IN/OUT", help="Price of a million prompt and completion tokens, e.g. 0.15/0.60.")
    ] = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append what happens to a JSONL file.", show_default=False)
    ] = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question, and show the tree of sub-questions and evidence behind the answer.

    \b
    hoptree ask "Who is the spouse of the director of film X?" --corpus docs.idx
    hoptree ask "…" --corpus docs.idx --set robust=on --set k=3 --budget calls=20
    hoptree ask "…" --corpus sample --json --trace run.jsonl
    """
    from hoptree.engine import Engine
    from hoptree.models import DEFAULT_MODEL
    from hoptree.runtime.budget import Budget
    from hoptree.runtime.trace import TraceFile

    limits = Budget.parse(budget)
    text = sys.stdin.read() if question == "-" else question
    options = read_settings(settings)
    writer = TraceFile(trace) if trace else None
    try:
        engine = Engine(
            method=method,
            model=model or DEFAULT_MODEL,
            corpus=corpus,
            graph=graph,
            retriever=retriever,
            rerank=rerank,
            options=options,
            budget=limits,
            prices=read_prices(prices),
            cache=None if no_cache else "default",
            base_url=base_url,
            concurrency=concurrency,
            listeners=(writer,) if writer else (),
            roles=read_roles(roles),
        )
        result = run(ask_and_show(engine, text, as_json=as_json))
    finally:
        if writer:
            writer.close()
    if failure := result.failure or (writer and writer.failure):
        print_error(failure)
        raise typer.Exit(failure.exit_code)


async def ask_and_show(engine: Engine, question: str, *, as_json: bool) -> Result:
    """Ask one question, showing the tree while it grows, and print the result."""
    async with engine:
        if as_json:
            result = await engine.ask(question)
        else:
            from rich.console import Console

            from hoptree.cli.render import GrowingTree

            with GrowingTree(Console(stderr=True)) as growing:
                result = await engine.ask(question, listeners=(growing,))
        _print(result, as_json)
    return result


def _print(result: Result, as_json: bool) -> None:
    if as_json:
        print_json(result.as_dict())
        return
    from rich.console import Console

    from hoptree.cli.render import show_result

    # In a file or a pipe nobody wants lines broken at 80 columns.
    show_result(Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH), result)


def show(
    trace: Annotated[Path, typer.Argument(help="A file written by --trace.")],
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it as a picture.", show_default=False)
    ] = None,
    golden: Annotated[bool, typer.Option("--golden", help="Print the trees as JSON of TreeQA's paper.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the trees of a trace again, with evidence and verdicts."""
    from hoptree.runtime.result import read_result
    from hoptree.runtime.trace import read_traces

    results = [read_result(events) for events in read_traces(trace)]
    if svg:
        from hoptree.cli.render import draw_svg

        try:
            svg.write_text(draw_svg(results), encoding="utf-8")
        except OSError as error:
            cause = f"The picture cannot be written to {svg}: {error.strerror}."
            raise InputError(cause, "Choose another --svg.") from error
    if golden or as_json:
        from hoptree.runtime.golden import golden_tree

        told = [golden_tree(result) if golden else result.as_dict() for result in results]
        print_json(told if len(told) > 1 else told[0])
        return
    for result in results:
        _print(result, as_json=False)


def read_settings(settings: list[str]) -> dict[str, Any]:
    """KEY=VALUE texts as a mapping."""
    options = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key.strip():
            raise InputError(f"--set {setting} is not possible.", "Write --set KEY=VALUE, for example --set k=3.")
        options[key.strip()] = value.strip()
    return options


def read_roles(roles: list[str]) -> dict[str, str]:
    """ROLE=MODEL texts as a mapping."""
    found: dict[str, str] = {}
    for said in roles:
        role, sign, spec = said.partition("=")
        if not sign or not role.strip() or not spec.strip():
            raise InputError(
                f"--role {said} is not possible.", "Write --role ROLE=MODEL: --role decompose=openai/NAME."
            )
        role, spec = role.strip(), spec.strip()
        if role in found:
            raise InputError(f"--role {role} was given twice: {found[role]} and {spec}.", "Name one model for a role.")
        found[role] = spec
    return found


def read_prices(text: str) -> Prices | None:
    """IN/OUT as prices; none for an empty text."""
    from hoptree.runtime.context import Prices

    if not text:
        return None
    try:
        prompt, completion = (float(part) for part in text.split("/"))
    except ValueError as error:
        raise ConfigError(f"'{text}' are no prices.", _HOW_PRICES) from error
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        raise ConfigError(f"'{text}' are no prices.", _HOW_PRICES)
    return Prices(prompt, completion)
