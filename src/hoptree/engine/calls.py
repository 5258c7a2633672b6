"""Calls of models, remote searches and graphs, with cache and single flight.

Models and remote searches get slots and retries here too; a graph limits and retries its own requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hoptree.core.backoff import retry_delay_s
from hoptree.core.errors import CacheError, ModelError, RateLimited, UnusableReply
from hoptree.core.values import Passage
from hoptree.engine.cache import (
    ENTITIES,
    NEIGHBOURHOOD,
    PASSAGES,
    REPLY,
    Cache,
    Form,
    Store,
    default_cache_path,
)
from hoptree.engine.schedule import SingleFlight, in_turns
from hoptree.models.model import Choice, Model, Reply, Request, TokenUsage, trained_on
from hoptree.retrieval.retriever import Retriever, cache_lifetime

if TYPE_CHECKING:
    from hoptree.graph.facts import Direction, Entity, KnowledgeGraph, Neighbourhood


_MAX_PASSAGE_CHARS, _MIN_PASSAGE_CHARS, _MAX_SEARCH_CHARS = 20_000, 3_000, 200_000
_CHARS_PER_TOKEN, _SPARE_CHARS = 16, 2_000
"""Longer replies are cut: a token has about four characters, and some endpoints ignore `max_tokens`."""


_FIRST_WIDTH = 32
_MAX_WAIT_S = 180.0  # that rate limits of a call are waited for
_MAX_ATTEMPTS = 4  # of a call that fails in another way


def passage_limit(count: int) -> int:
    """Return how many characters of each of `count` passages a method gets.

    Prompts show at most 350 words of them.
    """
    return min(_MAX_PASSAGE_CHARS, max(_MIN_PASSAGE_CHARS, _MAX_SEARCH_CHARS // max(1, count)))


class AdaptiveLimit:
    """A first-come semaphore whose width adapts to refusals.

    The width doubles with each round of answers until the first refusal, then grows by one a round. A refusal cuts it
    to 70 %, once for all requests that were in progress when it arrived.
    """

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.width = float(min(_FIRST_WIDTH, ceiling))
        self._in_use = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._refused = False
        self._last_cut = float("-inf")

    async def acquire(self) -> None:
        if self._in_use < int(self.width) and not self._queue:
            self._in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            elif turn in self._queue:  # `release` may have removed it already
                self._queue.remove(turn)
            raise

    def release(self) -> None:
        self._in_use -= 1
        while self._queue and self._in_use < int(self.width):
            turn = self._queue.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)

    def answered(self) -> None:
        self.width = min(self.ceiling, self.width + (1 / self.width if self._refused else 1))

    def refused(self, sent_at: float) -> None:
        """Narrow the limit after the refusal of a request sent then (time.monotonic)."""
        self._refused = True
        if sent_at > self._last_cut:
            self.width = max(1.0, self.width * 0.7)
            self._last_cut = time.monotonic()


T = TypeVar("T")

OnRetry = Callable[[ModelError, float], None]
"""Called with a failed attempt and the seconds until the next one."""

REASONING_TOKENS = 4096
"""Tokens added for a model that reasons before it answers."""

SEARCH_SLOTS = 64
"""Concurrent searches of a remote engine, at most."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A reply, and the `seconds` of work on it, even if the cache answered now."""

    reply: T
    cached: bool
    seconds: float


class Calls:
    """All calls of a process: one cache, one single flight, one limit an endpoint.

    `concurrency` caps the limit of each endpoint, which `shared_by` processes divide among them.
    """

    def __init__(
        self,
        cache: Store | None,
        *,
        concurrency: int | None = None,
        shared_by: int = 1,
    ) -> None:
        self.cache = self._opened_cache = cache
        self.cache_failure: CacheError | None = None
        self._concurrency = concurrency
        self._shared_by = shared_by
        self._flights = SingleFlight(keep=False)
        self._limits: dict[str, AdaptiveLimit] = {}
        self._reasoning_models: set[str] = set()

    async def generate(self, model: Model, request: Request, *, step: str, on_retry: OnRetry) -> Call[Reply]:
        async def compute() -> tuple[Reply, float]:
            reply, seconds = await self._send(model, request, step, on_retry)
            if request.top_logprobs and not any(choice.tokens for choice in reply.choices):
                # Once a model is known to give no log-probabilities, requests omit them: store the reply for these too.
                key = call_key(model, replace(request, top_logprobs=0))
                await self._write_cache(digest(key), REPLY, reply, seconds)
            return reply, seconds

        return await self._cached(call_key(model, request), REPLY, compute)

    async def search(
        self, retriever: Retriever, query: str, *, k: int, where: Mapping[str, str] | None, on_retry: OnRetry
    ) -> Call[tuple[Passage, ...]]:
        """Return the best k passages; remote searches have slots, retries and the cache."""

        async def once() -> tuple[Passage, ...]:
            passages = await retriever.search(query, k=k, where=where)
            limit = passage_limit(len(passages))
            if all(len(passage.text) <= limit for passage in passages):
                return passages
            return tuple(replace(passage, text=passage.text[:limit]) for passage in passages)

        if not retriever.remote:
            began = time.perf_counter()
            return Call(await once(), False, time.perf_counter() - began)
        limit = self._limit(retriever.identity, SEARCH_SLOTS)
        key = search_key(retriever, query, k, where)
        return await self._cached(key, PASSAGES, lambda: self._send_with_retries(limit, once, on_retry))

    async def facts(
        self, graph: KnowledgeGraph, entity: str, *, direction: Direction, limit: int
    ) -> Call[Neighbourhood]:
        """Return the facts one step around an entity."""
        key = graph_key(graph.identity, "facts", entity=entity, direction=direction, limit=limit)
        return await self._look_up(
            graph, key, NEIGHBOURHOOD, lambda: graph.facts(entity, direction=direction, limit=limit)
        )

    async def entities(self, graph: KnowledgeGraph, name: str, *, limit: int) -> Call[tuple[Entity, ...]]:
        """Return the entities of a name."""
        key = graph_key(graph.identity, "entities", name=name, limit=limit)
        return await self._look_up(graph, key, ENTITIES, lambda: graph.entities(name, limit=limit))

    def close(self) -> None:
        """Close the cache, even if it failed before."""
        if self._opened_cache is not None:
            self._opened_cache.close()

    async def _look_up(
        self, graph: KnowledgeGraph, key: Iterable[str], form: Form[T], ask: Callable[[], Awaitable[T]]
    ) -> Call[T]:
        """Return a graph's reply; a remote one is cached, but retries itself."""

        async def timed() -> tuple[T, float]:
            began = time.perf_counter()
            return await ask(), time.perf_counter() - began

        if not graph.remote:
            reply, seconds = await timed()
            return Call(reply, False, seconds)
        return await self._cached((*key, *_period(graph)), form, timed)

    async def _cached(
        self, asked: tuple[str, ...], form: Form[T], compute: Callable[[], Awaitable[tuple[T, float]]]
    ) -> Call[T]:
        """Return the in-flight or cached result, or compute and cache it."""

        async def fetch() -> Call[T]:
            key = b"" if self.cache is None else digest(asked)
            try:
                call = await self._read_cache(key, form)
                if call is None:
                    value, seconds = await compute()
                    await self._write_cache(key, form, value, seconds)
                    call = Call(value, False, seconds)
            except BaseException:
                if self.cache is not None:
                    self.cache.give_up(key)
                raise
            return call

        call, joined = await self._flights.share(asked, fetch)
        return replace(call, cached=True) if joined else call

    async def _read_cache(self, key: bytes, form: Form[T]) -> Call[T] | None:
        if self.cache is None:
            return None
        try:
            cached = await self.cache.get(key, form)
        except CacheError as error:
            self._lose_cache(error)
            return None
        return Call(cached[0], True, cached[1]) if cached else None

    async def _write_cache(self, key: bytes, form: Form[T], value: T, seconds: float) -> None:
        if self.cache is not None:
            try:
                await self.cache.put(key, form, value, seconds)
            except CacheError as error:
                self._lose_cache(error)

    def _lose_cache(self, error: CacheError) -> None:
        """Continue without a cache that failed; the context warns of it."""
        self.cache, self.cache_failure = None, error

    async def _send(self, model: Model, request: Request, step: str, on_retry: OnRetry) -> tuple[Reply, float]:
        """Return the reply and the seconds of work, with extra tokens for reasoning."""
        limit = self._limit(model.endpoint, model.slots)
        if load := getattr(model, "load", None):  # loaded first, so that no reply's seconds include it
            await load()

        def ask(request: Request) -> Awaitable[tuple[Reply, float]]:
            return self._send_with_retries(limit, lambda: _ask(model, request, step), on_retry)

        if model.identity in self._reasoning_models and request.max_tokens:
            return await ask(_with_room(request))
        reply, seconds = await ask(request)
        # A reply that reasoning cut short is requested again with more tokens even if the model is new: the result
        # must not depend on earlier requests.
        if reply.finish == "length" and (reply.usage.reasoning or reply.choices[0].reasoning):
            self._reasoning_models.add(model.identity)
            longer, more_seconds = await ask(_with_room(request))
            return replace(longer, usage=_sum(reply.usage, longer.usage)), seconds + more_seconds
        return reply, seconds

    async def _send_with_retries(
        self, limit: AdaptiveLimit, send: Callable[[], Awaitable[T]], on_retry: OnRetry
    ) -> tuple[T, float]:
        """Send until there is a reply or a failure that is not retried."""
        failures, first_failure = 0, 0.0
        while True:
            await limit.acquire()
            sent = time.monotonic()
            try:
                reply = await send()
                limit.answered()
                return reply, time.monotonic() - sent
            except ModelError as error:
                failures, first_failure = failures + 1, first_failure or time.monotonic()
                if isinstance(error, RateLimited):
                    limit.refused(sent)
                wait = self._wait(error, failures, time.monotonic() - first_failure)
                if wait is None:
                    raise
                on_retry(error, wait)
            finally:
                limit.release()
            await asyncio.sleep(wait)

    def _wait(self, error: ModelError, failures: int, waited: float) -> float | None:
        """Return the seconds until the next attempt; None to give up."""
        if not error.retryable:
            return None
        wait = retry_delay_s(error, failures)
        if not waited + wait <= _MAX_WAIT_S:  # `not … <=` also catches NaN
            return None
        return wait if isinstance(error, RateLimited) or failures < _MAX_ATTEMPTS else None

    def _limit(self, endpoint: str, slots: int) -> AdaptiveLimit:
        limit = self._limits.get(endpoint)
        if limit is None:
            ceiling = min(slots, self._concurrency) if self._concurrency else slots
            limit = self._limits[endpoint] = AdaptiveLimit(math.ceil(ceiling / self._shared_by))
        return limit


async def _ask(model: Model, request: Request, step: str) -> Reply:
    reply = await model.generate(request, step=step)
    if not reply.choices:
        raise UnusableReply("The model's reply held no choices.", "Look at what the endpoint answers.")
    echoed = 0 if request.max_tokens else len(request.prefix)  # without a token to write, the tokens are the prefix's
    limit = _SPARE_CHARS + _CHARS_PER_TOKEN * request.max_tokens + echoed
    choices = tuple(await in_turns(lambda choice: _cut(choice, limit), reply.choices))
    return reply if choices == reply.choices else replace(reply, choices=choices)


def _cut(choice: Choice, limit: int) -> Choice:
    """Keep the first characters of a choice, and the tokens that spell as many."""
    tokens = choice.tokens[:limit]
    kept = bisect_right([*accumulate(len(token.text) for token in tokens)], limit)
    if len(choice.text) <= limit and len(choice.tokens) == kept:
        return choice
    return replace(choice, text=choice.text[:limit], tokens=tokens[:kept], finish="length")


def open_calls(
    cache: str | Path | Store | None = "default", *, concurrency: int | None = None, shared_by: int = 1
) -> Calls:
    """Make `Calls` with the cache at its "default" path, in another file, or none.

    A cache that cannot be opened is left out; `cache_failure` says why.
    """
    failure = None
    if isinstance(cache, str | Path):
        try:
            cache = Cache(default_cache_path() if cache == "default" else Path(cache))
        except CacheError as error:
            cache, failure = None, error
    calls = Calls(cache, concurrency=concurrency, shared_by=shared_by)
    calls.cache_failure = failure
    return calls


def call_key(model: Model, request: Request) -> tuple[str, ...]:
    """Return everything that determines the reply."""
    settings: tuple[object, ...] = (
        request.max_tokens,
        request.temperature,
        request.seed,
        request.stop,
        request.n,
        request.top_logprobs,
    )
    if request.signals or request.attention_of:  # only then, so that cached replies of older versions are still found
        settings += (sorted(request.signals), request.attention_of)
    if request.top_p < 1 or request.top_k:
        settings += (f"top_p={request.top_p}", f"top_k={request.top_k}")
    if trained_on(model):  # its adapter is on for some prompts and off for others
        settings += (f"template={request.template}",)
    parts = [model.identity, repr(settings), request.json_schema, request.prefix]
    for message in request.messages:
        parts += (message.role, message.content)
    return tuple(parts)


def search_key(retriever: Retriever, query: str, k: int, where: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return everything that determines what a search finds."""
    filters = [part for item in sorted((where or {}).items()) for part in item]
    return ("search", retriever.identity, query, str(k), *filters, *_period(retriever))


def graph_key(identity: str, operation: str, **settings: Any) -> list[str]:
    """Return everything that determines a graph's reply to a request."""
    return ["graph", identity, operation, json.dumps(settings, sort_keys=True)]


def _period(source: object) -> list[str]:
    """Return the current period of a source whose replies expire at its end."""
    return [] if (lasts := cache_lifetime(source)) == math.inf else [f"period {time.time() // lasts:.0f}"]


def digest(parts: Iterable[str]) -> bytes:
    """Return one digest of many texts; lengths keep their borders apart."""
    texts = (part.encode("utf-8", "surrogatepass") for part in parts)
    return hashlib.sha256(b"".join([b"%d:%b" % (len(text), text) for text in texts])).digest()


def _with_room(request: Request) -> Request:
    return replace(request, max_tokens=request.max_tokens + REASONING_TOKENS)


def _sum(first: TokenUsage, second: TokenUsage) -> TokenUsage:
    return TokenUsage(
        first.prompt + second.prompt,
        first.cached + second.cached,
        first.completion + second.completion,
        first.reasoning + second.reasoning,
    )
