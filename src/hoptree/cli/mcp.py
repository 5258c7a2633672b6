"""`hoptree mcp`."""

from __future__ import annotations

import logging
from typing import Annotated

from typer import Option

from hoptree.cli import options
from hoptree.cli.console import run, warn, what_stays
from hoptree.core.errors import MissingExtra
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.retrieval import DEFAULT_RETRIEVER


def mcp(
    corpus: options.Corpus = None,
    graph: options.Graph = None,
    retriever: options.RetrieverKind = DEFAULT_RETRIEVER,
    rerank: options.Rerank = "",
    model: options.Model = "",
    roles: options.Roles = [],  # noqa: B006 - typer copies it
    method: Annotated[str, Option(help="How questions are answered; hoptree methods lists them.")] = DEFAULT_METHOD,
    settings: options.Settings = [],  # noqa: B006 - typer copies it
    prompts: options.Prompts = None,
    budget: options.QuestionBudget = "",
    prices: options.PricesText = "",
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    http: Annotated[
        str,
        Option(
            metavar="[HOST:]PORT",
            help="Serve over HTTP. A HOST but this machine needs a key of 16 characters in HOPTREE_MCP_KEY.",
        ),
    ] = "",
    trace: options.Trace = None,
    no_cache: options.NoCache = False,
) -> None:
    """Serve the tools ask, search, decompose and verify_claim over the Model Context Protocol.

    Corpus, model, method and limits are those given here; clients cannot choose others. Without --http a client
    starts it and speaks to it over standard input and output: started by hand, it waits there silently.

    \b
    hoptree mcp --corpus docs.idx --budget calls=40,seconds=120
    hoptree mcp --corpus docs.idx --http 8765
    """
    try:
        from hoptree.mcp.server import Address, serve_http, serve_streams
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
            raise
        raise MissingExtra("hoptree mcp", "mcp") from error
    from hoptree.core.http_server import LOG_FORMAT

    address = Address.parse(http) if http else None
    # Before the SDK does, which breaks lines to the width of a terminal.
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    with options.open_engine(
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
        prompts_folder=prompts,
    ) as (engine, _):
        if address is None:
            serving = serve_streams(engine)
        else:
            serving = serve_http(engine, address, started=lambda url: warn(f"serving at {url}; Ctrl-C stops it."))
        run(serving, stays=what_stays(cached=not no_cache))
