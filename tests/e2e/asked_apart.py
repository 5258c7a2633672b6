"""Questions asked in a process of their own, which may be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.forking import take_environment

from hoptree.engine.engine import Engine
from hoptree.engine.trace import TraceFile

__all__ = ["Told", "ask_all"]

Told = tuple[str, int, int]
"""Of a question: its answer, how many calls it took, and how many of them were not paid for."""


def ask_all(
    url: str, folder: Path, questions: Sequence[str], environment: Mapping[str, str], telling: Connection
) -> None:
    """Ask them at once, with the index, the replies and the trace in the folder, and tell how each ended."""
    take_environment(environment)
    telling.send(asyncio.run(_asked(url, folder, questions)))


async def _asked(url: str, folder: Path, questions: Sequence[str]) -> list[Told]:
    trace = TraceFile(folder / "trace.jsonl")
    given: dict[str, Any] = {"method": "taikc", "model": "openai/test", "base_url": url}
    async with Engine(**given, cache=folder / "replies.sqlite", corpus=folder / "index", listeners=(trace,)) as engine:
        results = await asyncio.gather(*(engine.ask(question) for question in questions))
    return [(result.answer, result.usage.llm_calls, result.usage.cached_calls) for result in results]
