"""`hoptree mcp`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from hoptree.cli.ask import say_without_graph
from hoptree.cli.console import run, say, what_stays
from hoptree.cli.options import (
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
from hoptree.core.errors import MissingExtra
from hoptree.core.http_server import LOG_FORMAT
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.retrieval import DEFAULT_RETRIEVER


def mcp(
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
    method: Annotated[
        str, typer.Option(help="How questions are answered; hoptree methods lists them.")
    ] = DEFAULT_METHOD,
    settings: Settings = [],  # noqa: B006 - typer copies it
    budget: Annotated[
        str,
        typer.Option(
            metavar="LIMITS",
            help="Stop every call at calls=20,tokens=9000,seconds=60,cost=0.1 (any of them; cached calls count).",
        ),
    ] = "",
    prices: PricesText = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    http: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve over streamable HTTP on this port of this machine, in place of the standard streams. "
            "Any other HOST needs a key of 16 characters or more in HOPTREE_MCP_KEY.",
        ),
    ] = "",
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append what happens to a JSONL file.", show_default=False)
    ] = None,
    no_cache: NoCache = False,
) -> None:
    """Serve the tools ask, search, decompose and verify_claim over the Model Context Protocol.

    Corpus, model, method and limits are those given here; clients cannot choose others. Without --http a client
    starts it, and speaks to it over standard input and output: by itself it waits there without a word.

    \b
    hoptree mcp --corpus docs.idx --budget calls=40,seconds=120
    hoptree mcp --corpus docs.idx --http 8765
    """
    try:
        from hoptree.mcp.serving import Address, serve_http, serve_streams
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
            raise
        raise MissingExtra("hoptree mcp", "mcp") from error
    from hoptree.engine.budget import Budget
    from hoptree.engine.engine import Engine
    from hoptree.engine.trace import TraceFile
    from hoptree.models import DEFAULT_MODEL

    address = Address.parse(http) if http else None
    # Before the SDK does, which breaks lines to the width of a terminal.
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    limits = Budget.parse(budget)
    writer = TraceFile(trace) if trace else None
    try:
        engine = Engine(
            method=method,
            model=model or DEFAULT_MODEL,
            corpus=corpus,
            graph=graph,
            retriever=retriever,
            rerank=rerank,
            options=read_settings(settings),
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
        if address is None:
            serving = serve_streams(engine)
        else:
            serving = serve_http(engine, address, started=lambda url: say(f"serving at {url}; Ctrl-C stops it."))
        run(serving, stays=what_stays(cached=not no_cache))
    finally:
        if writer:
            writer.close()
