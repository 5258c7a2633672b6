"""Record the requests and replies of a method."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.calls import Call, Calls, OnRetry, open_calls, search_key
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.schedule import SingleFlight
from hoptree.engine.trace import ModelCalled
from hoptree.models.model import Message, Model, Reply, Request
from hoptree.retrieval.retriever import Retriever
from hoptree.training.questions import TrainingQuestion

_SEED_BYTES = 4
_MAX_SEED = 2**31


@dataclass(frozen=True, slots=True)
class Exchange:
    """The messages of a request, and the event of its reply."""

    messages: tuple[Message, ...]
    call: ModelCalled

    @property
    def reply(self) -> str:
        return str(self.call.reply).strip()

    @property
    def prompt(self) -> str:
        """The name of its prompt, such as "hop/trained_read"."""
        return self.call.template.partition("@")[0]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the replies of one run are sampled; each request has its own seed."""

    temperature: float
    name: str
    searches: SingleFlight

    def drawn(self, request: Request) -> Request:
        """Return the request with the temperature and a seed derived from it."""
        digest = hashlib.sha256(self.name.encode("utf-8", "replace"))
        for message in request.messages:
            digest.update(f"\n{message.role}:{message.content}".encode("utf-8", "replace"))
        seed = int.from_bytes(digest.digest()[:_SEED_BYTES]) % _MAX_SEED
        return replace(request, temperature=self.temperature, seed=seed)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run of a question: answer, exchanges, events, and failure."""

    answer: str
    exchanges: list[Exchange]
    events: list[Event]
    failure: HoptreeError | None


@dataclass(frozen=True, slots=True)
class _Recording:
    sampling: Sampling | None
    sent: list[tuple[Message, ...]] = field(default_factory=list)


_RECORDING: ContextVar[_Recording] = ContextVar("_RECORDING")  # of the question asked in this context


class RecordingCalls(Calls):
    """Records every request with a reply, from the model or the cache."""

    async def generate(self, model: Model, request: Request, *, step: str, on_retry: OnRetry) -> Call[Reply]:
        recording = _RECORDING.get()
        if recording.sampling is not None:
            request = recording.sampling.drawn(request)
        call = await super().generate(model, request, step=step, on_retry=on_retry)
        recording.sent.append(request.messages)  # the call's event follows without an await between
        return call

    async def search(
        self, retriever: Retriever, query: str, *, k: int, where: Mapping[str, str] | None, on_retry: OnRetry
    ) -> Call[tuple[Passage, ...]]:
        sampling = _RECORDING.get().sampling
        search = super().search
        if sampling is None:
            return await search(retriever, query, k=k, where=where, on_retry=on_retry)
        key = search_key(retriever, query, k, where)
        return await sampling.searches(key, lambda: search(retriever, query, k=k, where=where, on_retry=on_retry))


@asynccontextmanager
async def open_recording(cache: str | None, concurrency: int | None) -> AsyncIterator[RecordingCalls]:
    """Yield the calls for engines that `record` uses."""
    plain = open_calls(cache, concurrency=concurrency)
    calls = RecordingCalls(plain.cache, concurrency=concurrency)
    calls.cache_failure = plain.cache_failure
    try:
        yield calls
    finally:
        calls.close()


async def record(engine: Engine, question: TrainingQuestion, sampling: Sampling | None = None) -> Recorded:
    """Ask an engine that uses recording calls, and return the record."""
    recording = _Recording(sampling)
    _RECORDING.set(recording)
    events: list[Event] = []
    result = await engine.ask(question.example.as_question(), listeners=(events.append,))
    if result.failure is not None:
        return Recorded("", [], events, result.failure)
    calls = (event for event in events if isinstance(event, ModelCalled))
    exchanges = [Exchange(*pair) for pair in zip(recording.sent, calls, strict=True)]
    return Recorded(result.answer, exchanges, events, None)
