"""A scripted model, a small corpus, and servers over both: in this process, over streams, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from tests.e2e.endpoint import index_of
from tests.forking import Command
from tests.timing import TIMEOUT_S

from hoptree.engine.engine import Engine
from hoptree.models.scripted import Rule, ScriptedModel

pytest.importorskip("mcp_types")

from mcp import Client, StdioServerParameters

from hoptree.mcp.server import Address, open_server, serve_http

__all__ = [
    "PASSAGES",
    "PLAN",
    "QUESTION",
    "Heard",
    "answering",
    "checking",
    "command",
    "connected",
    "forked_streams",
    "http",
    "in_process",
    "new_interpreter",
    "raw_streams",
    "script",
    "text_of",
]

QUESTION = "In which year was the director of Night Train to Lisbon born?"
PLAN = {
    "query1": {
        "question": "Who directed Night Train to Lisbon?",
        "children": {"query2": {"question": "In which year was #query1 born?"}},
    }
}
PASSAGES = (
    ("Night Train to Lisbon", "Night Train to Lisbon is a film of 2013. Bille August directed it."),
    ("Bille August", "Bille August was born in 1948 in Denmark. He directed several films."),
)


def answering(**every: Any) -> list[Rule]:
    """A model that answers QUESTION well."""
    return [
        Rule(json.dumps(PLAN), step="decompose", **every),
        Rule("RAG_REQUIRED", step="confident", **every),
        Rule("Bille August", step="read", contains="Question: Who directed", **every),
        Rule("1948", step="read", **every),
        Rule("He was born in 1948.", step="summarise", **every),
        Rule("1948", step="final", **every),
    ]


def checking(*verdicts: dict[str, Any]) -> list[Rule]:
    """A model that holds claims against evidence with these verdicts in turn."""
    replies = [json.dumps({"fact_sufficient": True, "reason": "So it is.", **verdict}) for verdict in verdicts]
    return [
        Rule("[]", step="mentions"),
        Rule(replies, step="validate"),
        Rule('{"new_clue": "Denmark"}', step="clue"),
    ]


def script(folder: Path, rules: Sequence[Rule]) -> Path:
    """A script for a server in a process of its own."""
    names = ("reply", "step", "contains", "fault", "times", "latency")
    rules_as_dicts = [{name: getattr(rule, name) for name in names if getattr(rule, name)} for rule in rules]
    path = folder / "script.json"
    path.write_text(json.dumps({"replies": rules_as_dicts}), encoding="utf-8")
    return path


class Heard:
    """What progress a client was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: list[float] = []
        self.first = asyncio.Event()

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.values.append(progress)
        self.lines.append(message or "")
        self.first.set()


@contextlib.asynccontextmanager
async def connected(
    rules: Sequence[Rule] | ScriptedModel,
    folder: Path,
    *passages: tuple[str, str],
    mode: str = "auto",
    corpus: bool = True,
    **settings: Any,
) -> AsyncIterator[tuple[Client, ScriptedModel]]:
    """A client of a server in this process; the passages are those of the small corpus unless others are given."""
    model = rules if isinstance(rules, ScriptedModel) else ScriptedModel(rules=list(rules))
    index = index_of(folder, *(passages or PASSAGES)) if corpus else None
    async with (
        Engine(**{"method": "taikc", **settings}, model=model, corpus=index, cache=None) as engine,
        Client(open_server(engine), mode=mode) as client,
    ):
        yield client, model


def command(folder: Path, rules: Sequence[Rule], *options: str, model: Sequence[str] = ()) -> list[str]:
    """The arguments of `hoptree mcp` over the small corpus; `model` are those of another one than the scripted."""
    return [
        "mcp",
        "--method",
        "taikc",
        "--corpus",
        str(index_of(folder, *PASSAGES)),
        *(model or ("--model", f"scripted/{script(folder, rules)}")),
        *options,
    ]


def streams(arguments: Sequence[str]) -> StdioServerParameters:
    """How a client starts a server and talks to it over its streams."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "hoptree", *arguments],
        env={name: os.environ[name] for name in ("PATH", "HOME", "HOPTREE_CACHE") if name in os.environ},
    )


def _take_streams(source: str, target: str) -> None:
    """In a forked process: read from one pipe and write to the other."""
    os.dup2(os.open(source, os.O_RDONLY), 0)
    os.dup2(os.open(target, os.O_WRONLY), 1)
    sys.stdin = os.fdopen(0, encoding="utf-8")


@contextlib.contextmanager
def raw_streams(arguments: Sequence[str]) -> Iterator[tuple[IO[bytes], IO[bytes], Command]]:
    """The input and output of a forked server over streams, for bytes that no client would send."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = [f"{folder}/in", f"{folder}/out"]
        for pipe in pipes:
            os.mkfifo(pipe)
        process = Command(arguments, os.environ, before=partial(_take_streams, *pipes))
        try:
            with Path(pipes[0]).open("wb", buffering=0) as given, Path(pipes[1]).open("rb") as output:
                yield given, output, process
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def forked_streams(arguments: Sequence[str], mode: str) -> AsyncIterator[Client]:
    """A client that talks over its streams to a forked server: a new interpreter loads for longer than it serves."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = [f"{folder}/in", f"{folder}/out"]
        for pipe in pipes:
            os.mkfifo(pipe)
        process = Command(arguments, os.environ, before=partial(_take_streams, *pipes))
        joined = StdioServerParameters(command="sh", args=["-c", 'cat "$1" & exec cat > "$0"', *pipes])
        async with Client(joined, mode=mode) as client:
            yield client
        _, errors = await asyncio.to_thread(process.communicate, None, TIMEOUT_S)
    assert (process.returncode, errors) == (0, ""), "it ends with its input"


def new_interpreter(arguments: Sequence[str], environment: Mapping[str, str], first: str = "") -> subprocess.Popen[str]:
    """The command as a person starts it; `first` is done before."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{first}from hoptree.__main__ import main; main()", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


@contextlib.asynccontextmanager
async def http(
    arguments: Sequence[str],
    *,
    address: str = "0",
    environment: Mapping[str, str] | None = None,
    start: Callable[[Sequence[str], Mapping[str, str]], Command | subprocess.Popen[str]] = Command,
) -> AsyncIterator[tuple[str, Command | subprocess.Popen[str]]]:
    """A server over HTTP at a free port; its URL, once it listens."""
    process = start([*arguments, "--http", address], {**os.environ, "NO_PROXY": "127.0.0.1", **(environment or {})})
    assert process.stderr is not None
    try:
        log_line = await asyncio.to_thread(process.stderr.readline)
        url = re.search(r"http://\S+/mcp", log_line)
        assert url, log_line
        yield url[0], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.communicate, None, TIMEOUT_S)


async def in_process(do: Callable[[int], Awaitable[Any]], model: ScriptedModel | None = None) -> Any:
    """What is done at the port of a server in this process, which a signal ends then."""
    urls: asyncio.Queue[str] = asyncio.Queue()
    engine = Engine(model=model or ScriptedModel(rules=answering()), method="taikc", cache=None)
    serve = asyncio.create_task(serve_http(engine, Address.parse("0"), started=urls.put_nowait))
    try:
        return await do(int((await urls.get()).rpartition(":")[2].partition("/")[0]))
    finally:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(serve, TIMEOUT_S)


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)
