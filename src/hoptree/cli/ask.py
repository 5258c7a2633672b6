"""`hoptree ask`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from hoptree.cli.console import print_error, print_json, run, warn, what_stays
from hoptree.cli.options import (
    AsJson,
    BaseURL,
    Concurrency,
    Corpus,
    Graph,
    Model,
    NoCache,
    PricesText,
    Rerank,
    RetrieverKind,
    Roles,
    Settings,
    Trace,
    open_engine,
)
from hoptree.core.errors import InputError
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.retrieval import DEFAULT_RETRIEVER

if TYPE_CHECKING:
    from hoptree.cli.outcome import Outcome
    from hoptree.engine.engine import Engine
    from hoptree.engine.events import Event
    from hoptree.engine.result import Result


_INDEXING_INTERVAL_S = 5.0
_FILE_COLUMNS = 200


def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    corpus: Corpus = None,
    graph: Graph = None,
    retriever: RetrieverKind = DEFAULT_RETRIEVER,
    rerank: Rerank = "",
    model: Model = "",
    roles: Roles = [],  # noqa: B006 - typer copies it
    method: Annotated[str, typer.Option(help="hoptree methods lists them.")] = DEFAULT_METHOD,
    settings: Settings = [],  # noqa: B006 - typer copies it
    budget: Annotated[
        str,
        typer.Option(
            metavar="LIMITS", help="Stop at calls=20,tokens=9000,seconds=60,cost=0.1 (any of them; cached calls count)."
        ),
    ] = "",
    prices: PricesText = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    trace: Trace = None,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question, and show the tree of sub-questions and evidence behind the answer.

    \b
    hoptree ask "Who is the spouse of the director of film X?" --corpus docs.idx
    hoptree ask "…" --corpus docs.idx --set worth=0 --budget calls=20        goes on while it is in doubt
    hoptree ask "…" --corpus docs.idx --method taikc --set robust=on
    hoptree ask "…" --corpus sample --json --trace run.jsonl
    hoptree ask "…" --corpus wikipedia --method treeqa --set evidence=text
    """
    text = sys.stdin.read() if question == "-" else question
    with open_engine(
        corpus=corpus,
        retriever=retriever,
        graph=graph,
        method=method,
        model=model,
        settings=settings,
        roles=roles,
        budget=budget,
        prices=prices,
        trace=trace,
        no_cache=no_cache,
        rerank=rerank,
        base_url=base_url,
        concurrency=concurrency,
    ) as (engine, writer):
        report_name_index(engine.graph)
        result = run(ask_and_show(engine, text, as_json=as_json), stays=what_stays(cached=not no_cache))
    if failure := result.failure or (writer and writer.failure):
        print_error(failure)
        raise typer.Exit(failure.exit_code)


async def ask_and_show(engine: Engine, question: str, *, as_json: bool) -> Result:
    """Ask one question, showing the tree while it grows, and print the result."""
    from hoptree.cli.outcome import Outcome

    heard: list[Event] = []
    async with engine:
        if as_json:
            result = await engine.ask(question, listeners=(heard.append,))
        else:
            from rich.console import Console

            from hoptree.cli.render import GrowingTree

            with GrowingTree(Console(stderr=True)) as growing:
                result = await engine.ask(question, listeners=(growing, heard.append))
        # Of a question that was refused before anything began, the error says all.
        refused = isinstance(result.failure, InputError) and not result.tree and not result.usage.llm_calls
        if as_json or not refused:
            print_outcome(Outcome.of(result, heard), as_json=as_json)
    return result


def print_outcome(outcome: Outcome, *, as_json: bool = False, heading: str = "") -> None:
    """Print a result as JSON, or drawn under a heading, with what its method decided."""
    if as_json:
        print_json(outcome.as_dict())
        return
    from rich.console import Console

    from hoptree.cli.render import show_result

    # In a file or a pipe nobody wants lines broken at 80 columns.
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_COLUMNS)
    show_result(console, outcome.result, heading, outcome.lines)


def report_name_index(graph: object) -> None:
    """Have a graph report every few seconds when it makes the index of its names."""
    if graph is None:
        return
    from hoptree.graph.facts import NamesIndexed

    if not isinstance(graph, NamesIndexed):
        return
    next_time = 0.0

    def report(done: int, total: int) -> None:
        nonlocal next_time
        if time.monotonic() >= next_time:
            once = "" if next_time else " This is done once."
            next_time = time.monotonic() + _INDEXING_INTERVAL_S
            warn(f"indexing the names of the graph: {done:,} of {total:,}.{once}")

    graph.on_indexing = report
