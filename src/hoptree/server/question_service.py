"""Prepare and answer questions, and journal those that a stop interrupts."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hoptree.core.errors import HoptreeError
from hoptree.core.files import atomic_write
from hoptree.core.values import Question
from hoptree.engine.calls import Calls
from hoptree.engine.context import Budget
from hoptree.engine.engine import MAX_QUESTION, Engine
from hoptree.engine.events import Event
from hoptree.engine.prompts import OwnPrompts
from hoptree.engine.registry import Method, find_method, read_options
from hoptree.engine.result import Result
from hoptree.engine.trace import Listener, ModelCalled
from hoptree.retrieval.retriever import Retriever
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.keys import HeldCalls, Key, Quotas
from hoptree.server.prometheus import Metrics
from hoptree.server.resources import Corpora, Graphs, Models, Retrievers
from hoptree.server.settings import Settings
from hoptree.server.views import is_free_text
from hoptree.server.workers import WorkerEnded, Workers

T = TypeVar("T")
_LOG = logging.getLogger("hoptree.server")
_IDENTITY = ("question", "history", "method", "model", "corpus", "graph", "retriever", "rerank", "options", "budget")
"""Entries that agree in these fields are the same question, for any key."""
_OWNER_ONLY = 0o600


class Journal:
    """A file with a JSON line for each interrupted question, removed when empty.

    Without a `path` nothing is stored.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._open = {_identity(entry) for entry in self._read()}

    def __len__(self) -> int:
        """The number of interrupted questions that nobody has asked again."""
        return len(self._open)

    def write(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Add interrupted questions, whose finished calls are in the cache."""
        if self._path is None:
            _LOG.warning("stopping: %d questions are cancelled", len(entries))
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{json.dumps({'stopped_at': time.time(), **entry})}\n" for entry in entries)
            with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _OWNER_ONLY), "rb+") as file:
                self._path.chmod(_OWNER_ONLY)  # also of an existing file
                complete = not file.seek(0, os.SEEK_END) or (file.seek(-1, os.SEEK_END) >= 0 and file.read(1) == b"\n")
                file.write(("" if complete else "\n").encode() + lines.encode())
            _LOG.warning("stopping: %d questions are written to %s", len(entries), self._path)
        except OSError as error:
            _LOG.error("stopping: %d questions could not be written down: %s", len(entries), error.strerror)

    def take_out(self, entry: Mapping[str, Any]) -> None:
        """Remove an interrupted question that is answered now."""
        if not self._open or self._path is None or (answered := _identity(entry)) not in self._open:
            return
        self._open.discard(answered)
        try:
            left = [other for other in self._read() if _identity(other) != answered]
            if left:
                atomic_write(self._path, (f"{json.dumps(other)}\n" for other in left), mode=_OWNER_ONLY)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            _LOG.error("the journal %s cannot be changed: %s", self._path, error.strerror)

    def _read(self) -> list[dict[str, Any]]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines() if self._path else []
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):  # an interrupted stop may have left half a line
                entries.append(json.loads(line))
        return [entry for entry in entries if isinstance(entry, dict)]


def _identity(entry: Mapping[str, Any]) -> str:
    return json.dumps([entry.get(name) or None for name in _IDENTITY], sort_keys=True)


class RunningQuestions:
    """Runs a bounded number of questions; a stop journals and cancels late ones."""

    def __init__(self, limit: int, journal: Journal, *, cached: bool) -> None:
        self._limit = limit
        self._remedy = f"Ask again when it is back{': replies that came are remembered' if cached else ''}."
        self.journal = journal
        self._entries: dict[asyncio.Task[Any], dict[str, Any]] = {}  # for the journal, by the task of a question
        self._stopped: set[asyncio.Task[Any]] = set()
        self.stopping = False

    def __len__(self) -> int:
        return len(self._entries)

    def check(self) -> None:
        """Refuse a question if too many are running, or the server is stopping."""
        if self.stopping:
            raise Refusal(503, "Stopped", "The server is stopping.", "Ask again when it is back.", retry_after=5)
        if len(self._entries) >= self._limit:
            cause = f"{self._limit} questions are being answered, and no more are taken at once."
            raise Refusal(429, "Busy", cause, "Wait as long as Retry-After says.", retry_after=1)

    async def run(
        self, work: Awaitable[T], entry: dict[str, Any], answered: Callable[[T], bool] = lambda result: True
    ) -> T:
        """Run a question; once `answered`, it leaves the journal."""
        task = asyncio.current_task()
        assert task is not None
        self._entries[task] = entry
        try:
            result = await work
            if answered(result):
                self.journal.take_out(entry)
            return result
        except asyncio.CancelledError:
            if task not in self._stopped:
                raise
            task.uncancel()
            cause = "The server was stopped while it answered."
            raise Refusal(503, "Stopped", cause, self._remedy, retry_after=5) from None
        finally:
            del self._entries[task]
            self._stopped.discard(task)

    async def stop(self, seconds: float) -> None:
        """Refuse new questions, wait for running ones, then journal and cancel the rest.

        A second call may wait less.
        """
        self.stopping = True
        if self._entries:
            _LOG.info("stopping: waiting up to %g s for %d questions", seconds, len(self._entries))
            await asyncio.wait(list(self._entries), timeout=seconds)
        left = {task: entry for task, entry in self._entries.items() if task not in self._stopped}
        if left:
            self.journal.write(list(left.values()))
            self._stopped.update(left)
            for task in left:
                task.cancel()


_MAX_COUNT = 100  # of what an option counts: passages, samples, examples, turns
_MAX_TEXT_COUNT = 10_000
_TEXT_OPTIONS = frozenset({"max_tokens", "information", "stretch", "look_ahead", "words", "draw"})
"""Options that count tokens or words, or nothing (`draw`)."""
_SAMPLE_OPTIONS = frozenset({"samples", "voters", "sampled"})
"""Options that count completions of one call, each of which costs as much as a call."""


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A question from a client; None stands for the server's default."""

    question: str
    _: KW_ONLY
    method: str | None = None
    model: str | None = None
    corpus: str | None = None
    graph: str | None = None
    retriever: str | None = None
    rerank: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    history: Sequence[Sequence[str]] = ()  # earlier questions with their answers

    @property
    def asked(self) -> Question:
        """The question with the conversation before it."""
        return Question(self.question, history=tuple((question, answer) for question, answer in self.history))


@dataclass(frozen=True, slots=True)
class PreparedQuestion:
    """A question with all names looked up, which was not refused."""

    request: AskRequest
    key: Key
    method: Method
    model_name: str
    corpus: str | None
    budget: Budget
    engine: Engine

    @property
    def journal_entry(self) -> dict[str, Any]:
        """What asking the question again needs, and the name of its key."""
        resolved = self._resolved
        limits = {name: limit for name, limit in resolved["budget"].items() if limit is not None}
        return resolved | {"budget": limits, "key": self.key.name}

    @property
    def worker_message(self) -> dict[str, Any]:
        """What a worker needs to answer the question, with its budget."""
        return self._resolved | {"budget": asdict(self.budget)}

    @property
    def _resolved(self) -> dict[str, Any]:
        names = {"method": self.method.name, "model": self.model_name, "corpus": self.corpus}
        return asdict(self.request) | names


@dataclass(frozen=True, slots=True)
class QuestionService:
    """Answers questions with shared models, corpora and limits."""

    settings: Settings
    models: Models
    corpora: Corpora
    retrievers: Retrievers
    graphs: Graphs
    calls: Calls
    running: RunningQuestions
    quotas: Quotas
    metrics: Metrics
    workers: Workers | None

    async def aclose(self) -> None:
        """Close all parts, workers first, as they use the others."""
        if self.workers is not None:
            await self.workers.aclose()
        await self.retrievers.aclose()
        await self.graphs.aclose()
        await self.models.aclose()
        self.calls.close()

    def forget(self, corpus: str) -> None:
        """Close a corpus that is to be removed."""
        self.retrievers.forget(corpus)
        self.corpora.forget(corpus)
        if self.workers is not None:
            self.workers.forget(corpus)

    async def prepare(self, request: AskRequest, key: Key) -> PreparedQuestion:
        """Look up all names of a question, or refuse it."""
        self.running.check()
        if not request.question.strip():
            raise Refusal(400, "InputError", "The question is empty.", "Ask one.")
        if len(request.question) > MAX_QUESTION:
            cause = f"The question has {len(request.question):,} characters; {MAX_QUESTION:,} are the most."
            raise Refusal(400, "InputError", cause, "Put the material into a corpus and ask about it.")
        budget = self._budget(request.budget, self.quotas.remaining(key))
        method = find_method(request.method or self.settings.method)
        options = self._options(method, request.options, budget)
        model_name, model = self.models.find(request.model)
        try:
            corpus, retriever = await self._retriever(method, request)
            named = request.graph or (next(iter(self.graphs.names), None) if "graph" in method.needs else None)
            graph = await self.graphs.find(named) if named else None
        except HoptreeError as error:
            if not isinstance(error, Refusal):
                log_failure(error, what=f"opening what {method.name} reads")
            raise
        engine = Engine(
            method=method.name,
            model=model,
            corpus=retriever,
            graph=graph,
            options=options,
            prompts=OwnPrompts(self.settings.prompts),
            budget=budget,
            prices=self.settings.prices,
            calls=self.calls,
        )
        return PreparedQuestion(request, key, method, model_name, corpus, budget, engine)

    async def ask(self, prepared: PreparedQuestion, listeners: Sequence[Listener] = ()) -> Result:
        """Answer a question; the result may hold a failure."""
        self.running.check()

        def charge(event: Event) -> None:
            if isinstance(event, ModelCalled):
                self.quotas.charge(prepared.key, event.prompt_tokens + event.completion_tokens, event.cost)

        # Concurrent questions of a key share its budget.
        held = HeldCalls(self.quotas, prepared.key, self.settings.prices) if prepared.key.budget != Budget() else None
        with self.metrics.question(prepared.method.name) as outcome:
            heard = (charge, *listeners)
            if self.workers is None:
                answering = prepared.engine.ask(
                    prepared.request.asked, listeners=heard, gate=held.admit if held else None
                )
            else:  # events of a key with a budget are sent at once, so that its other questions see what is left
                answering = self.workers.ask(
                    prepared.worker_message, heard, live=bool(listeners or held is not None), held=held
                )
            try:
                # An abstention counts as an answer.
                result = await self.running.run(
                    answering, prepared.journal_entry, lambda result: not result.error and not result.stopped_by
                )
            except WorkerEnded:
                outcome.failed = True
                raise
            if isinstance(result.failure, Refusal):  # other questions of the key spent the rest of its budget
                outcome.failed = True
                raise result.failure
            outcome.result = result
        if result.failure:
            log_failure(result.failure, what=f"a question ({prepared.method.name} with {prepared.model_name})")
        return result

    def _budget(self, wanted: Budget, remaining: Budget) -> Budget:
        """Return the smallest of the wanted, the key's remaining, and the server's budget."""
        limits, cost = self.settings.limits, _least(wanted.cost, remaining.cost)
        if cost is not None and self.settings.prices is None:
            cause = "A budget of money needs prices, and this server has none."
            raise Refusal(400, "ConfigError", cause, "Limit tokens instead.")
        return Budget(
            calls=_least(wanted.calls, remaining.calls, limits.calls),
            tokens=_least(wanted.tokens, remaining.tokens, limits.tokens),
            cost=cost,
            seconds=_least(wanted.seconds, limits.seconds),
        )

    def _options(self, method: Method, given: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """Read the options of a method; clients cannot set texts, which may name files."""
        fixed = {name.replace("-", "_"): value for name, value in self.settings.options.get(method.name, {}).items()}
        known = {option.name: option for option in method.options}
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            name = key.replace("-", "_")
            if name in chosen:
                raise Refusal(400, "ConfigError", f"{method.name}: {name[:80]} is given twice.", "Give it once.")
            chosen[name] = value
            if name in fixed or (name in known and is_free_text(known[name])):
                cause = f"{method.name}: {name} is set by the server's administrator."
                raise Refusal(403, "NotAllowed", cause, "Leave it out.")
            _check_size(name, value, budget)
        return read_options(method, {**chosen, **fixed})

    async def _retriever(self, method: Method, request: AskRequest) -> tuple[str | None, Retriever | None]:
        corpus = request.corpus or (self.corpora.default if "corpus" in method.needs else None)
        if corpus is None:
            return None, None
        kind = request.retriever or self.settings.retriever
        return corpus, await self.retrievers.find(corpus, kind, request.rerank or "", facts=method.goes_by_facts)


def _least(*numbers: Any) -> Any:
    return min((number for number in numbers if number is not None), default=None)


def _check_size(name: str, value: Any, budget: Budget) -> None:
    """Refuse numbers that would make one question as costly as thousands."""
    limit, why = (_MAX_TEXT_COUNT if name in _TEXT_OPTIONS else _MAX_COUNT), ""
    if name in _SAMPLE_OPTIONS and budget.calls is not None and budget.calls < limit:
        limit, why = budget.calls, ", the calls of the budget"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        return
    if not math.isfinite(number) or abs(number) > limit:
        cause = f"{name}={str(value)[:40]} is more than is allowed here."
        raise Refusal(400, "ConfigError", cause, f"Give at most {limit}{why}.")
