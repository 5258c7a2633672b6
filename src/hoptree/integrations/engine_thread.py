"""An engine that stays open while a framework asks it, from code with or without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.engine.result import Result
from hoptree.integrations.summary_text import answer_text, quote

T = TypeVar("T")

TOOL_DESCRIPTION = (
    "Answers a question that needs several facts joined together. The question is split into sub-questions, each of "
    "them answered from documents; the answer comes with that tree and the passages behind it. Give the whole question."
)
"""What an agent reads about the tool."""


class Hoptree:
    """A method, a model and a corpus, with the settings of `Engine`, to be asked from anywhere.

    Models and connections belong to one event loop: that of a thread of its own here. `close` ends it, as does leaving
    a `with` block.
    """

    def __init__(self, **settings: Any) -> None:
        self.engine = Engine(**settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hoptree", daemon=True)
        self._thread.start()

    def ask(self, question: str) -> Result:
        """Answer a question; a failure is raised."""
        return self._submit(self._ask(question)).result()

    async def aask(self, question: str) -> Result:
        """Answer a question as `ask` does; when it is cancelled, nothing further is asked."""
        return await asyncio.wrap_future(self._submit(self._ask(question)))

    def passages(self, query: str, *, k: int, multi_hop: bool = False) -> tuple[Passage, ...]:
        """Return the best k passages for a query; with `multi_hop` those that the answer to it rests on, k at most."""
        return self._submit(self._passages(query, k, multi_hop)).result()

    async def apassages(self, query: str, *, k: int, multi_hop: bool = False) -> tuple[Passage, ...]:
        """Return passages as `passages` does."""
        return await asyncio.wrap_future(self._submit(self._passages(query, k, multi_hop)))

    def as_text(self, result: Result) -> str:
        """Return a result as a model reads it: the answer, the tree, and the evidence marked as data."""
        evidence, left_out = quote(result.evidence, self.engine.model)
        return answer_text(result, evidence, [*dict.fromkeys([*result.warnings, *left_out])])

    def close(self) -> None:
        """Close what the engine opened."""
        if self._loop.is_closed():
            return
        self._submit(self.engine.aclose()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Hoptree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _ask(self, question: str) -> Result:
        result = await self.engine.ask(question)
        if result.failure:
            raise result.failure
        return result

    async def _passages(self, query: str, k: int, multi_hop: bool) -> tuple[Passage, ...]:
        if multi_hop:
            return (await self._ask(query)).evidence[:k]
        if self.engine.retriever is None:
            raise CorpusError("There is nothing to search.", "Give a corpus: Hoptree(corpus=…).")
        return await self.engine.retriever.search(query, k=k)
