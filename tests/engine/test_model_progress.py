"""How far a model is while it reads and writes: told to who watches, kept in no trace."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.spinner import Spinner

import hoptree
from hoptree.cli.progress import draw_progress
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.trace import LiveListener, ModelProgress, TraceFile, read_events
from hoptree.models.llama_cpp import progress_of_chunks
from hoptree.models.model import Progress, Reply, Request, on_progress, runs_here
from hoptree.models.scripted import Rule, ScriptedModel


class Slow(ScriptedModel):
    """A model that says how far it is."""

    async def generate(self, request: Request, *, step: str) -> Reply:
        if (listener := on_progress.get()) is not None:
            listener(Progress(512, 1536, seconds=8.0))
        return await super().generate(request, step=step)


def test_who_watches_is_told_and_no_trace_keeps_it(tmp_path: Path) -> None:
    watched: list[Event] = []
    plain: list[Event] = []
    file = TraceFile(tmp_path / "t.jsonl")

    async def ask() -> None:
        async with Engine(method="direct", model=Slow(rules=[Rule("Oslo")]), cache=None, listeners=(file,)) as engine:
            await engine.ask("Where?", listeners=(LiveListener(watched.append), plain.append))

    asyncio.run(ask())
    file.close()
    (progress,) = (event for event in watched if isinstance(event, ModelProgress))
    assert (
        progress.describe() == "reading 512 of 1,536 tokens, 64 a second, about 16 s left" and progress.step == "direct"
    )
    assert [event for event in watched if event is not progress] == plain
    assert not any(isinstance(event, ModelProgress) for event in read_events(tmp_path / "t.jsonl"))


def test_a_stream_has_it_too() -> None:
    async def kinds() -> set[str]:
        updates = hoptree.stream("Where?", method="direct", model=Slow(rules=[Rule("Oslo")]), cache=None)
        return {type(update).__name__ async for update in updates}

    assert {"ModelProgress", "Result"} <= asyncio.run(kinds())


def test_the_terminal_shows_it_until_the_reply_is_there() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120)
    console.print(draw_progress([ModelProgress(step="read", read=5, total=9)], 3.0, Spinner("dots")))
    assert "the model is reading 5 of 9 tokens" in out.getvalue()


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (ModelProgress(read=0, total=1000), "reading 0 of 1,000 tokens"),
        (
            ModelProgress(read=600, total=1000, cached=500, seconds=2.0),
            "reading 600 of 1,000 tokens, 50 a second, about 8 s left",
        ),
        (
            ModelProgress(read=40, total=140, cached=40, rate=10.0),
            "reading 40 of 140 tokens, 10 a second, about 10 s left",
        ),
        (ModelProgress(read=1000, total=1000, seconds=2.0), "writing"),
        (ModelProgress(read=1000, total=1000, written=12, seconds=2.0), "writing, 12 tokens"),
        (ModelProgress(read=1000, total=1000, written=1, seconds=2.0), "writing"),
    ],
)
def test_in_words(progress: ModelProgress, words: str) -> None:
    assert progress.describe() == words


def test_chunks_of_llama_cpp_tell_it() -> None:
    now = 0.0
    follow = progress_of_chunks(lambda: now)
    read = {"choices": [], "prompt_progress": {"total": 300, "cache": 44, "processed": 256, "time_ms": 2000}}
    word = {"choices": [{"delta": {"content": "a"}}]}
    assert follow(read) == Progress(256, 300, 44, 0, 2.0)
    assert follow({"choices": [{"delta": {"content": None}}]}) is None
    assert follow(word) == Progress(256, 300, 44, 1, 2.0)
    assert follow(word) is None, "once a second"
    now = 1.5
    assert follow(word) == Progress(256, 300, 44, 3, 2.0)


def test_models_of_this_machine_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert runs_here("local/qwen") and runs_here("hf/x") and runs_here("ollama/x")
    assert runs_here("openai/x", "http://127.0.0.1:8000/v1") and not runs_here("openai/x")
    assert not runs_here("ollama/x", "http://gpu.example:11434/v1") and not runs_here("scripted/x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    assert runs_here("openai/x")
