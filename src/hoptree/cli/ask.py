"""`hoptree ask`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from hoptree.cli import options
from hoptree.cli.console import clean, counted, print_error, print_json, run_to_end, warn
from hoptree.cli.options import Argument, Option, open_engine
from hoptree.core.errors import InputError
from hoptree.core.lazy import lazy_re
from hoptree.core.values import Question
from hoptree.engine.events import Decision, Event, NodeSettled, NodeStarted, Planned
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.engine.trace import LiveListener, ModelProgress, QuestionRewritten, Retried
from hoptree.retrieval import DEFAULT_RETRIEVER

if TYPE_CHECKING:
    from hoptree.engine.engine import Engine
    from hoptree.engine.result import Result


_INDEXING_INTERVAL_S = 5.0
_PROGRESS_INTERVAL_S = 30.0  # between two lines about a model that reads or writes
_FILE_COLUMNS = 200
_DRAWING_DELAY_S = 0.1


def ask(
    question: Annotated[str, Argument(help="The question; - reads it from standard input.")] = "",
    documents: Annotated[str | None, Argument(help="A folder or file to ask about, indexed into the cache.")] = None,
    corpus: options.Corpus = None,
    graph: options.Graph = None,
    retriever: options.RetrieverKind = DEFAULT_RETRIEVER,
    rerank: options.Rerank = "",
    model: options.Model = "",
    roles: options.Roles = [],
    method: options.MethodName = DEFAULT_METHOD,
    settings: options.Settings = [],
    prompts: options.Prompts = None,
    budget: Annotated[
        str,
        Option(
            envvar="HOPTREE_BUDGET",
            metavar="LIMITS",
            help="Stop at calls=20,tokens=9000,seconds=60,cost=0.1 (any of them; a bare number means calls). "
            "Cached calls count; a call that has begun is finished.",
        ),
    ] = "",
    prices: options.PricesText = "",
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    trace: options.Trace = None,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
    chat: Annotated[
        bool, Option("--chat", help="Go on asking; each question is read with those before it. Short: hoptree chat")
    ] = False,
) -> None:
    """Answer a question, and show the tree of sub-questions and evidence behind it.

    \b
    hoptree ask "Who is the spouse of the director of film X?" docs/           indexed once, then kept up to date
    hoptree ask "…" --corpus docs.idx                                          an index made by hoptree index
    hoptree ask "…" --corpus docs.idx --set effort=high --budget calls=20      goes on while it is in doubt
    hoptree ask "…" --corpus docs.idx --method taikc --set k=8
    hoptree ask "…" --corpus sample --json --trace run.jsonl
    hoptree ask "…" --corpus wikipedia --method treeqa --set evidence=text
    hoptree chat --corpus docs.idx                                             a conversation: "and his wife?"
    """
    if chat and documents is None and _names_documents(question):
        documents, question = question, ""
    text = sys.stdin.read().strip() if question == "-" and not chat else question
    if not text and not chat:
        cause = "There is no question."
        raise InputError(cause, 'Ask one: hoptree ask "Which …?", or begin a conversation: hoptree chat')
    if documents is not None and corpus not in (None, os.environ.get("HOPTREE_CORPUS")):
        raise InputError(f"Both {documents} and --corpus {corpus} were given.", "Give one of them.")
    if documents is not None and not Path(documents).exists():
        usage = "hoptree chat docs/" if chat else 'hoptree ask "…" docs/'
        raise InputError(f"There is no {documents}.", f"Give a folder or a file: {usage}")
    with open_engine(
        corpus=corpus if documents is None else documents,
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
    ) as (engine, writer):
        report_name_index(engine.graph)
        if chat:
            raise SystemExit(converse(engine, text, as_json=as_json))
        result = run_to_end(ask_and_show(engine, text, as_json=as_json), cached=not no_cache)
    if failure := result.failure or (writer and writer.failure):
        print_error(failure)
        raise SystemExit(failure.exit_code)


def _names_documents(word: str) -> bool:
    """Return whether the first argument of a conversation is a folder or file."""
    if os.path.exists(word):  # noqa: PTH110 - Path raises an error for a question that is too long for a name
        return True
    is_path = "/" in word or lazy_re(r"\.[A-Za-z]\w{0,4}\Z").search(word)
    return word.endswith("/") or bool(is_path and not word.endswith("?") and len(word.split()) == 1)


async def ask_and_show(engine: Engine, question: str, *, as_json: bool) -> Result:
    """Ask a question, showing the tree while it grows, and print the result."""
    async with engine:
        return await _ask(engine, question, as_json=as_json)


async def _ask(engine: Engine, question: str | Question, *, as_json: bool) -> Result:
    if as_json:
        result = await engine.ask(question)
    elif sys.stderr.isatty():
        result = await _ask_live(engine, question)
    else:
        result = await engine.ask(question, listeners=(LiveListener(EventLines(sys.stderr)),))
    # If a question failed before anything began, the error is enough.
    refused = result.failure and not result.tree and not result.usage.llm_calls
    if as_json:
        print_json(result.as_dict())
    elif not refused:
        print_result(result, f"Read as: {result.question}" if result.asked else "")
    return result


def converse(engine: Engine, first: str, *, as_json: bool) -> int:
    """Ask questions until the input ends; return the last exit code."""
    import asyncio

    history: list[tuple[str, str]] = []
    code = 0
    if sys.stdin.isatty():
        warn("Ctrl-C stops an answer; an empty line ends the conversation.")
    with asyncio.Runner() as runner:
        try:
            text = first or _next_question()
            while text:
                try:
                    result = runner.run(_ask(engine, Question(text, history=tuple(history)), as_json=as_json))
                except KeyboardInterrupt:
                    if not sys.stdin.isatty():
                        raise
                    warn("Stopped.")
                    text = _next_question()
                    continue
                code = result.failure.exit_code if result.failure else 0
                if result.failure:
                    print_error(result.failure)
                else:
                    history.append((result.question, result.answer))
                text = _next_question()
        except KeyboardInterrupt:
            code = 130
        finally:
            runner.run(engine.aclose())
    return code


def _next_question() -> str:
    """Read the next question; "exit" or "quit" ends, and on a terminal an empty line."""
    if sys.stdin.isatty():
        try:
            text = input("\n> ").strip()
        except EOFError:
            return ""
    else:
        text = next((line.strip() for line in sys.stdin if line.strip()), "")
    return "" if text.lower() in ("exit", "quit") else text


async def _ask_live(engine: Engine, question: str | Question) -> Result:
    """Ask while the tree is drawn; the request goes out before rich is loaded."""
    import asyncio

    events: list[Event] = []
    asking = asyncio.ensure_future(engine.ask(question, listeners=(LiveListener(events.append),)))
    try:
        await asyncio.wait({asking}, timeout=_DRAWING_DELAY_S)
        if asking.done():
            return asking.result()
        from rich.console import Console

        from hoptree.cli.progress import live_tree

        with live_tree(Console(stderr=True), events):
            return await asking
    finally:
        asking.cancel()


def print_result(result: Result, heading: str = "") -> None:
    """Draw a result under a heading."""
    from rich.console import Console

    from hoptree.cli.render import show_result

    # Lines in a file or a pipe are not broken at 80 columns.
    show_result(Console() if sys.stdout.isatty() else Console(width=_FILE_COLUMNS), result, heading)


class EventLines:
    """A listener that writes a line for each event worth one, for logs and pipes."""

    def __init__(self, file: TextIO, progress_interval_s: float = _PROGRESS_INTERVAL_S) -> None:
        self._file = file
        self._interval_s, self._next_time = progress_interval_s, time.monotonic() + progress_interval_s
        self._planned: set[int] = set()
        self._written: set[str] = set()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Planned):
            self._planned.update(node["id"] for node in event.nodes)
        if isinstance(event, ModelProgress) and time.monotonic() < self._next_time:
            return
        line = clean(self._describe(event))
        if isinstance(event, NodeStarted | NodeSettled) and self._planned:
            if line in self._written or event.id not in self._planned:  # of no node of the tree
                return
            self._written.add(line)
        if line:
            print(line, file=self._file, flush=True)
            self._next_time = time.monotonic() + self._interval_s

    def _describe(self, event: Event) -> str:
        if isinstance(event, Planned):
            count = sum(node["id"] > 0 for node in event.nodes)
            where = f"plan of {event.under}" if event.under else "plan"
            return f"{where}: {counted(count, 'sub-question')}" if count else ""
        if isinstance(event, NodeStarted):
            return f"  {event.id}. {event.resolved}"
        if isinstance(event, NodeSettled):
            return f"  {event.id}. → {event.answer or '?'} [{event.outcome}{f'; {event.why}' if event.why else ''}]"
        if isinstance(event, ModelProgress):
            return f"  the model is {event.describe()}"
        if isinstance(event, QuestionRewritten):
            return f"read as: {event.question}"
        if isinstance(event, Retried):
            again = event.error in self._written
            self._written.add(event.error)
            cause = event.error.partition(" (")[0]
            return f"  waiting {event.wait:g} s{'' if again else f': {cause}'}"
        line = event.log_line() if isinstance(event, Decision) else ""
        return f"  {line}" if line else ""


def report_name_index(graph: object) -> None:
    """Report every few seconds while a graph builds the index of its names."""
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
