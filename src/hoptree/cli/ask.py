"""`hoptree ask` and `hoptree show`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hoptree.cli.console import print_error, print_json, run, say, what_stays
from hoptree.cli.names_indexing import say_of_names
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
from hoptree.errors import InputError

if TYPE_CHECKING:
    from hoptree.engine import Engine
    from hoptree.runtime.result import Result

__all__ = ["ask", "ask_and_show", "say_without_graph", "show"]

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
    hoptree ask "…" --corpus docs.idx --set robust=on --set k=3 --budget calls=20
    hoptree ask "…" --corpus sample --json --trace run.jsonl
    hoptree ask "…" --corpus wikipedia --method treeqa --set evidence=text
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
    async with engine:
        if as_json:
            result = await engine.ask(question)
        else:
            from rich.console import Console

            from hoptree.cli.render import GrowingTree

            with GrowingTree(Console(stderr=True)) as growing:
                result = await engine.ask(question, listeners=(growing,))
        if as_json or not _refused(result):
            _print(result, as_json)
    return result


def _refused(result: Result) -> bool:
    """Whether nothing was begun, so that the error says all there is to say."""
    return isinstance(result.failure, InputError) and not result.tree and not result.usage.llm_calls


def say_without_graph(method: str, graph: str | None) -> None:
    """Tell whoever gives a knowledge graph to a method that has no use for one."""
    from hoptree.methods.registry import find_method

    if graph is not None and "graph" not in find_method(method).needs:
        say(f"{method} does not look into a knowledge graph: --graph {graph} changes nothing.")


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
    """Draw the trees or texts of a trace again, with evidence and verdicts.

    An answer that evidence struck out stands before the one that took its place: old ⇒ new. A guess that nothing was
    held against is called one.

    Of methods that look up what they doubt while they write, it draws the text with its words shaded by doubt: which
    made it search, what it asked and found, what it wrote instead, and what its memory held.
    """
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
