"""`hoptree serve` and `hoptree mcp`."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from unicodedata import normalize

from typer import Option

from hoptree.cli import options
from hoptree.cli.console import run_to_end, warn
from hoptree.cli.options import read_named, read_prices
from hoptree.core.config import VARIABLES, is_plain_name
from hoptree.core.errors import InputError, MissingExtra
from hoptree.engine.own_prompts import open_prompts
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.retrieval import DEFAULT_RETRIEVER

_OTHER_USERS_MODE = 0o077
_LOCAL_QUESTION_S = 3600.0


def serve(
    models: Annotated[
        list[str],
        Option(
            "--model",
            "-m",
            metavar="[NAME=]SPEC",
            envvar="HOPTREE_MODEL",
            help="A model clients may choose; the first is the default.  [default: the embedded model]",
        ),
    ] = [],
    base_urls: Annotated[
        list[str], Option("--base-url", metavar="[NAME=]URL", help="Of the openai/… models, or of one by its name.")
    ] = [],
    corpora: Annotated[
        list[str],
        Option(
            "--corpus",
            metavar="[NAME=]WHERE",
            help="An index or address clients may ask about; the first is the default.  [default: sample]",
        ),
    ] = [],
    corpora_folder: Annotated[
        Path | None,
        Option(
            "--corpora",
            metavar="DIR",
            help="Folder of the corpora that clients upload; 'none' disables uploads.  "
            "[default: the user's data folder, where only this machine can ask]",
        ),
    ] = None,
    graphs: Annotated[
        list[str], Option("--graph", metavar="NAME=WHERE", help="A knowledge graph clients may ask.")
    ] = [],
    rerankers: Annotated[
        list[str], Option("--rerank", metavar="NAME=SPEC", help="A reranker clients may choose.")
    ] = [],
    runs: Annotated[Path | None, Option(metavar="DIR", help="Evaluation runs to browse.")] = None,
    method: Annotated[str, Option(envvar="HOPTREE_METHOD", help="The default method.")] = DEFAULT_METHOD,
    retriever: Annotated[str, Option(envvar="HOPTREE_RETRIEVER", help="The default retriever.")] = DEFAULT_RETRIEVER,
    settings: Annotated[
        list[str], Option("--set", metavar="METHOD.KEY=VALUE", help="An option of a method that clients cannot change.")
    ] = [],
    prompts: options.Prompts = None,
    host: Annotated[str, Option(help="The address to listen on; any but this machine's own needs --keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    keys: Annotated[Path | None, Option(metavar="FILE", help="TOML with the keys of clients, as above.")] = None,
    limits: Annotated[
        str, Option(metavar="LIMITS", help="Such as seconds=60,rate=30,upload=10M; all of them are above.")
    ] = "",
    hosts: Annotated[
        list[str], Option("--allow-host", metavar="NAME", help="A further name the server is reached by.")
    ] = [],
    origins: Annotated[
        list[str], Option("--allow-origin", metavar="URL", help="A web page elsewhere whose scripts may ask (CORS).")
    ] = [],
    journal: Annotated[
        Path | None, Option(metavar="FILE", help="File for questions that a shutdown interrupts.")
    ] = None,
    workers: Annotated[
        int,
        Option(min=0, max=64, help="Processes that answer, for models elsewhere; 0: the server's own, on one core."),
    ] = 0,
    prices: options.PricesText = "",
    concurrency: options.Concurrency = None,
    no_cache: options.NoCache = False,
) -> None:
    """Serve answers over HTTP: OpenAI's chat completions, our own API, a web page.

    \b
    hoptree serve                                           the sample, the embedded model, this machine only
    hoptree serve --corpus docs=docs.idx -m openai/NAME --base-url http://localhost:8000/v1
    hoptree serve --host 0.0.0.0 --keys keys.toml --corpora corpora/ --runs runs/

    \b
    Its address, opened in a browser, is the page. OpenAI's clients name a method as the model, with the first
    model, or METHOD@MODEL with another one: taikc, taikc@NAME. GET /v1/models lists them.

    \b
    --keys FILE is TOML, one part a key; all but name and secret may be left out:
      [[key]]
      name = "search-team"               in the log, never the secret
      secret = "…"                       16 characters or more; or sha256 = "…" of it
      rate = 60                          requests a minute
      budget = "tokens=2000000,cost=5"   of one day: calls, tokens, cost
      corpora = true                     may make, change and remove corpora

    \b
    --limits NAME=VALUE,… changes what holds otherwise:
      body=1M, upload=64M, unpacked=256M, files=1000     of a request, of an upload as sent, unpacked, in number
                                                         (and of files in one corpus)
      stored=2G, corpora=100                             of files in one corpus, corpora in all
      calls=500, tokens=2000000, seconds=300             of one question (3600 s with a model of this machine)
      asking=256, connections=1024                       at once
      rate=0                                             requests a minute of a key that names none; 0: no limit
      header_seconds=10, body_seconds=30, upload_seconds=600    for a client to send them
      stop_seconds=20                                    that a stop waits for questions under way
      indexing_seconds=3600, indexing_memory=4G          of one indexing process
    """
    try:
        from hoptree.server.app import Server, create_app, state_of
        from hoptree.server.settings import Settings, model_name
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "hoptree":
            raise
        raise MissingExtra("hoptree serve", "server") from error

    from hoptree.core.files import cache_dir
    from hoptree.core.http_server import LOG_FORMAT, listen
    from hoptree.models import DEFAULT_MODEL
    from hoptree.server.app import raise_open_file_limit
    from hoptree.server.keys import read_keys
    from hoptree.server.settings import Limits

    chosen = dict(model_name(spec) for spec in models or [DEFAULT_MODEL])
    if len(chosen) < len(models):
        raise InputError("Two models have the same name.", "Name them: --model NAME=SPEC")
    urls = _read_base_urls(base_urls, chosen)
    own_prompts = open_prompts(prompts)
    options.warn_unused_prompts(prompts, own_prompts.texts)
    uploads, uploads_off = _uploads_folder(corpora_folder, host)
    server_settings = Settings(
        models=chosen,
        base_urls=urls,
        corpora=read_corpora(corpora, os.environ.get(VARIABLES["corpus"], "")),
        graphs=read_named(graphs, "--graph"),
        rerankers=read_named(rerankers, "--rerank"),
        options=_read_options(settings, options.options_of_files()),
        prompts=own_prompts.texts,
        corpora_folder=uploads,
        uploads_off=uploads_off,
        runs=runs,
        keys=read_keys(keys) if keys else (),
        limits=Limits.parse(limits, **_usual_limits(chosen, urls)),
        method=method,
        retriever=retriever,
        prices=read_prices(prices),
        cache=None if no_cache else "default",
        concurrency=concurrency,
        host=host,
        hosts=tuple(hosts),
        origins=tuple(origin.rstrip("/") for origin in origins),
        journal=journal or cache_dir() / f"server-unfinished-{port}.jsonl",
        workers=workers,
    )
    server_settings.check()
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    if keys and keys.stat().st_mode & _OTHER_USERS_MODE:
        may = "change" if keys.stat().st_mode & stat.S_IWGRP else "read"
        warn(f"others on this machine may {may} {keys}; chmod 600 {keys} keeps it yours.")
    app = create_app(server_settings)
    if trouble := raise_open_file_limit(server_settings.limits.connections):
        warn(trouble)
    if cut_off := len(state_of(app).questions.running.journal):
        questions = "There is a question" if cut_off == 1 else f"There are {cut_off} questions"
        cost = "" if no_cache else "costs only what is missing, and "
        warn(
            f"{questions} that an earlier shutdown interrupted: see {server_settings.journal}. "
            f"Asking one again {cost}removes it from that file."
        )
    with listen(host, port) as listening:
        address = listening.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        access = f"{len(server_settings.keys)} keys" if server_settings.keys else "no key needed"
        warn(f"serving http://{shown}:{address[1]}/ ({access}); Ctrl-C stops it.")
        Server(app).run(sockets=[listening])


def read_corpora(texts: list[str], usual: str) -> dict[str, str]:
    """Return the corpora by name, else the configured one, else the sample.

    Documents are indexed into the cache.
    """
    from hoptree.retrieval.index.folder import holds_documents
    from hoptree.retrieval.retriever import is_remote

    named = read_named([with_name(text) for text in texts or ([usual] if usual else [])], "--corpus")
    for name, where in named.items():
        if where != "sample" and not is_remote(where) and holds_documents(Path(where)):
            from hoptree.retrieval.indexing import cached_index

            warn(f"reading {where} …")
            named[name] = str(cached_index(Path(where))[0])
    return named or {"sample": "sample"}


def with_name(text: str) -> str:
    """Return NAME=WHERE; the name is the last part of the path if missing."""
    named, sign, _ = text.partition("=")
    if sign and "://" not in named:
        return text
    from hoptree.retrieval.retriever import is_remote

    if text != "sample" and not is_remote(text) and not Path(text).exists():
        cause = f"--corpus {text} is not possible: there is no index."
        raise InputError(cause, "Build one with: hoptree index; or write --corpus NAME=VALUE.")
    name = normalize("NFKC", Path(text.partition("?")[0]).stem.lower())
    if not is_plain_name(name):
        raise InputError(f"--corpus {text} has no name that clients could use.", f"Give one: --corpus NAME={text}")
    return f"{name}={text}"


def _uploads_folder(given: Path | None, host: str) -> tuple[Path | None, str]:
    """Return the folder for uploads, or the reason for having none."""
    from hoptree.core.config import is_loopback
    from hoptree.core.errors import IndexUnavailable
    from hoptree.core.files import FolderLock, data_dir

    if given is not None:
        return (None, "It was started with --corpora none.") if str(given) == "none" else (given, "")
    if not is_loopback(host):
        return None, "Other machines can reach this server; --corpora DIR allows uploads."
    folder = data_dir() / "corpora"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FolderLock(folder, IndexUnavailable):
            return folder, ""
    except IndexUnavailable:
        return None, "Another server of this machine has the folder for them: give this one its own with --corpora DIR."
    except OSError as error:
        return None, f"The user's data folder cannot hold them ({error.strerror}): give another with --corpora DIR."


def _usual_limits(models: dict[str, str], urls: Mapping[str, str]) -> dict[str, float]:
    """Allow more time for a question where a model runs locally."""
    from hoptree.models.model import runs_here

    here = any(runs_here(spec, urls.get(name, "")) for name, spec in models.items())
    return {"seconds": _LOCAL_QUESTION_S} if here else {}


def _read_base_urls(texts: list[str], models: dict[str, str]) -> dict[str, str]:
    """Return the address of each openai/… model."""
    urls: dict[str, str] = {}
    for text in texts:
        name, sign, url = text.partition("=")
        if sign and "/" not in name:
            urls[name.strip()] = url.strip()
        else:
            urls |= {model: text for model, spec in models.items() if spec.startswith("openai/") and model not in urls}
    return urls


def _read_options(texts: list[str], of_files: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Read METHOD.KEY=VALUE texts by method; they override configuration files."""
    options = {method: dict(values) for method, values in of_files.items()}
    for text in texts:
        where, sign, value = text.partition("=")
        method, dot, key = where.strip().partition(".")
        if not sign or not dot or not key:
            raise InputError(f"--set {text} is not possible.", "Write --set METHOD.KEY=VALUE: --set taikc.k=3")
        options.setdefault(method, {})[key] = value.strip()
    return options


def mcp(
    corpus: options.Corpus = None,
    graph: options.Graph = None,
    retriever: options.RetrieverKind = DEFAULT_RETRIEVER,
    rerank: options.Rerank = "",
    model: options.Model = "",
    roles: options.Roles = [],
    method: Annotated[str, Option(help="How questions are answered; hoptree methods lists them.")] = DEFAULT_METHOD,
    settings: options.Settings = [],
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
    """Serve ask, search, decompose and verify_claim over the Model Context Protocol.

    Corpus, model, method and limits are those given here; clients cannot choose others. Without --http it speaks over
    standard input and output, for a client that starts it; started by hand, it waits silently.

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
    # Before the SDK does, as that wraps lines to the width of a terminal.
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
        run_to_end(serving, cached=not no_cache)
