"""`hoptree ask`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hoptree.cli.console import print_error, print_json, run, say, what_stays
from hoptree.cli.options import (
    AsJson,
    BaseURL,
    Concurrency,
    Graph,
    Model,
    NoCache,
    PricesText,
    Roles,
    Settings,
    read_prices,
    read_roles,
    read_settings,
)
from hoptree.cli.search import Rerank, RetrieverKind, say_without_links
from hoptree.core.errors import InputError
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.graph.facts import NamesIndexed
from hoptree.retrieval import DEFAULT_RETRIEVER

if TYPE_CHECKING:
    from hoptree.cli.outcome import Outcome
    from hoptree.engine.engine import Engine
    from hoptree.engine.events import Event
    from hoptree.engine.result import Result


_EVERY = 5.0
"""Seconds between two lines."""


def say_of_names(graph: object) -> None:
    """Have a graph tell when it makes the index of its names, and how far that is."""
    if isinstance(graph, NamesIndexed):
        graph.on_indexing = _Said()


class _Said:
    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        once = "" if self._next else " This is done once."
        self._next = now + _EVERY
        say(f"indexing the names of the graph: {done:,} of {total:,}.{once}")


_FILE_WIDTH = 200


def ask(
    question: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    corpus: Annotated[
        str | None,
        typer.Option(
            help="An index made by hoptree index, 'sample', an elasticsearch://… or milvus://… address, or a wiki "
            "as it is now: wikipedia, wikipedia:de, mediawiki+URL of its api.php.",
            show_default=False,
        ),
    ] = None,
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
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append what happens to a JSONL file.", show_default=False)
    ] = None,
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
    from hoptree.engine.budget import Budget
    from hoptree.engine.engine import Engine
    from hoptree.engine.trace import TraceFile
    from hoptree.models import DEFAULT_MODEL

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
        say_without_links(corpus, retriever)
        say_without_graph(method, graph)
        say_of_names(engine.graph)
        result = run(ask_and_show(engine, text, as_json=as_json), stays=what_stays(cached=not no_cache))
    finally:
        if writer:
            writer.close()
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
        if as_json or not _refused(result):
            print_outcome(Outcome.of(result, heard), as_json=as_json)
    return result


def _refused(result: Result) -> bool:
    """Whether nothing was begun, so that the error says all there is to say."""
    return isinstance(result.failure, InputError) and not result.tree and not result.usage.llm_calls


def say_without_graph(method: str, graph: str | None) -> None:
    """Tell whoever gives a knowledge graph to a method that has no use for one."""
    from hoptree.engine.registry import find_method

    if graph is not None and "graph" not in find_method(method).needs:
        say(f"{method} does not look into a knowledge graph: --graph {graph} changes nothing.")


def print_outcome(outcome: Outcome, *, as_json: bool = False, heading: str = "") -> None:
    """A result as JSON, or drawn under a heading, with what its method decided."""
    if as_json:
        print_json(outcome.as_dict())
        return
    from rich.console import Console

    from hoptree.cli.render import show_result

    # In a file or a pipe nobody wants lines broken at 80 columns.
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    show_result(console, outcome.result, heading, outcome.lines)
