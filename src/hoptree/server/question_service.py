"""From a request to an answer: look up the models, corpora and graphs it names, bound its budget, run it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from hoptree.core.errors import HoptreeError
from hoptree.engine.calls import Calls
from hoptree.engine.context import Budget
from hoptree.engine.engine import MAX_QUESTION, Engine
from hoptree.engine.events import Event
from hoptree.engine.own_prompts import OwnPrompts
from hoptree.engine.registry import Method, find_method, read_options
from hoptree.engine.result import Result
from hoptree.engine.trace import Listener, ModelCalled
from hoptree.graph.facts import KnowledgeGraph
from hoptree.retrieval.opening import KINDS
from hoptree.retrieval.retriever import Retriever
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.keys import Key, Quotas
from hoptree.server.prometheus import Metrics
from hoptree.server.resources import Corpora, Graphs, Models, Retrievers
from hoptree.server.running_questions import RunningQuestions
from hoptree.server.settings import Settings, unknown
from hoptree.server.views import is_free_text
from hoptree.server.workers import WorkerEnded, Workers

_MAX_COUNT = 100
"""Of whatever an option counts: passages, samples, examples, turns."""
_MAX_TEXT_COUNT = 10_000
_TEXT_OPTIONS = frozenset({"max_tokens", "information", "stretch", "look_ahead", "words", "draw"})
"""Options that count tokens or words, or that are no count at all."""
_SAMPLE_OPTIONS = frozenset({"samples", "voters", "sampled"})
"""Options that count completions of one call, each of which costs what a call does."""


@dataclass(frozen=True, slots=True)
class AskRequest:
    """A question as a client asks it; None takes the server's default."""

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


@dataclass(frozen=True, slots=True)
class PreparedQuestion:
    """A question whose names are resolved: everything that can be refused beforehand was not."""

    request: AskRequest
    key: Key
    method: Method
    model_name: str
    corpus: str | None
    budget: Budget
    engine: Engine

    @property
    def journal_entry(self) -> dict[str, Any]:
        """All that it takes to ask the question again, and whose it was."""
        limits = {name: limit for name, limit in asdict(self.request.budget).items() if limit is not None}
        return self._resolved | {"budget": limits, "key": self.key.name}

    @property
    def worker_message(self) -> dict[str, Any]:
        """All that a worker needs to answer it, with what it may spend at most."""
        return self._resolved | {"budget": asdict(self.budget)}

    @property
    def _resolved(self) -> dict[str, Any]:
        request = self.request
        return {
            "question": request.question,
            "method": self.method.name,
            "model": self.model_name,
            "corpus": self.corpus,
            "graph": request.graph,
            "retriever": request.retriever,
            "rerank": request.rerank,
            "options": dict(request.options),
        }


@dataclass(frozen=True, slots=True)
class QuestionService:
    """Answers questions with what all of them share."""

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
        """Close what was opened for it; workers end first, as they use the rest."""
        if self.workers is not None:
            await self.workers.aclose()
        await self.retrievers.aclose()
        await self.graphs.aclose()
        await self.models.aclose()
        self.calls.close()

    def forget(self, corpus: str) -> None:
        """Close a corpus that is to be removed."""
        self.retrievers.forget(corpus)
        if self.workers is not None:
            self.workers.forget(corpus)

    async def prepare(self, request: AskRequest, key: Key) -> PreparedQuestion:
        """Look up all that the question names, or refuse it."""
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
            graph = await self._graph(method, request)
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
        """Answer a question; a failure is a result too."""
        self.running.check()
        longest_prompt = len(prepared.request.question) // 4

        def charge(event: Event) -> None:
            nonlocal longest_prompt
            if isinstance(event, ModelCalled):
                self.quotas.charge(prepared.key, event)
                longest_prompt = max(longest_prompt, event.prompt_tokens)

        with self.metrics.question(prepared.method.name) as outcome:
            answering = self._answer(prepared, (charge, *listeners), live=bool(listeners))
            try:
                # That nothing was found is an answer, too.
                result = await self.running.run(
                    answering, prepared.journal_entry, lambda result: not result.error and not result.stopped_by
                )
            except (asyncio.CancelledError, WorkerEnded) as error:  # the endpoint was asked all the same
                self.quotas.charge_unheard(prepared.key, longest_prompt)
                outcome.failed = isinstance(error, WorkerEnded)
                raise
            outcome.result = result
        if result.failure:
            log_failure(result.failure, what=f"a question ({prepared.method.name} with {prepared.model_name})")
        return result

    def _answer(
        self, prepared: PreparedQuestion, listeners: Sequence[Listener], *, live: bool
    ) -> Coroutine[Any, Any, Result]:
        if self.workers is None:
            return prepared.engine.ask(prepared.request.question, listeners=listeners)
        # A key with a budget is charged at once, for the next question to know what is left.
        return self.workers.ask(prepared.worker_message, listeners, live=live or prepared.key.budget != Budget())

    def _budget(self, wanted: Budget, remaining: Budget) -> Budget:
        """Return the least of what is wanted, what the key has left, and what any question may spend."""
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
        """Read the options of a method; free texts may name files or models, and are for an administrator to set."""
        fixed = {_option_name(name): value for name, value in self.settings.options.get(method.name, {}).items()}
        known = {option.name: option for option in method.options}
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            name = _option_name(key)
            if name in chosen:
                raise Refusal(400, "ConfigError", f"{method.name}: {name[:80]} is given twice.", "Give it once.")
            chosen[name] = value
            if name in fixed or (name in known and is_free_text(known[name])):
                cause = f"{method.name}: {name} is set by whoever runs the server."
                raise Refusal(403, "NotAllowed", cause, "Leave it out.")
            _check_size(name, value, budget)
        return read_options(method, {**chosen, **fixed})

    async def _retriever(self, method: Method, request: AskRequest) -> tuple[str | None, Retriever | None]:
        corpus = request.corpus or (self.corpora.default if "corpus" in method.needs else None)
        if corpus is None:
            return None, None
        kind = request.retriever or self.settings.retriever
        if kind not in KINDS:
            raise unknown("retriever", kind, KINDS)
        return corpus, await self.retrievers.find(corpus, kind, request.rerank or "", facts=method.goes_by_facts)

    async def _graph(self, method: Method, request: AskRequest) -> KnowledgeGraph | None:
        name = request.graph or (next(iter(self.graphs.names), None) if "graph" in method.needs else None)
        return None if name is None else await self.graphs.find(name)


def _option_name(name: str) -> str:
    return name.replace("-", "_")


def _least(*numbers: Any) -> Any:
    return min((number for number in numbers if number is not None), default=None)


def _check_size(name: str, value: Any, budget: Budget) -> None:
    """Refuse numbers that would make one question cost what thousands do."""
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
