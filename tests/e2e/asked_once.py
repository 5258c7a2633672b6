"""A question over two passages, put to an endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.e2e.endpoint import Endpoint

from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result

__all__ = ["PASSAGES", "PLAN", "QUESTION", "answer", "run"]

QUESTION = "In which year was the director of Night Train to Lisbon born?"
PLAN = {
    "query1": {
        "question": "Who directed Night Train to Lisbon?",
        "children": {"query2": {"question": "In which year was #query1 born?"}},
    }
}
PASSAGES = (
    ("Night Train to Lisbon", "Night Train to Lisbon is a film of 2013. It was directed by Bille August."),
    ("Bille August", "Bille August is a Danish film maker. He was born in the year 1948 in Brede."),
)


async def answer(
    endpoint: Endpoint, corpus: Path, *, events: list[Event] | None = None, question: str = QUESTION
) -> Result:
    seen = [] if events is None else events
    given: dict[str, Any] = {"method": "taikc", "model": "openai/test", "base_url": endpoint.url, "corpus": corpus}
    async with Engine(**given, listeners=(seen.append,)) as engine:
        return await engine.ask(question)


def run(endpoint: Endpoint, corpus: Path, *, events: list[Event] | None = None, question: str = QUESTION) -> Result:
    return asyncio.run(answer(endpoint, corpus, events=events, question=question))
