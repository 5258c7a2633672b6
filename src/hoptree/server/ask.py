"""From a request to an answer: names become models, corpora and graphs, and limits become a budget."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any

from hoptree.core.errors import HoptreeError
from hoptree.engine.budget import Budget
from hoptree.engine.calls import Calls
from hoptree.engine.engine import MAX_QUESTION, Engine
from hoptree.engine.events import Event
from hoptree.engine.registry import Method, find_method, read_options
from hoptree.engine.result import Result
from hoptree.engine.trace import Listener
from hoptree.graph.facts import KnowledgeGraph
from hoptree.models.model import Model
from hoptree.retrieval.opening import KINDS
from hoptree.retrieval.retriever import Retriever
from hoptree.server.corpora import Corpora
from hoptree.server.error_responses import Refusal, log_failure
from hoptree.server.keys import Key, Quotas
from hoptree.server.metrics import Metrics
from hoptree.server.names import unknown
from hoptree.server.running_questions import RunningQuestions
from hoptree.server.settings import Settings
from hoptree.server.sources import Graphs, Models, Retrievers
from hoptree.server.views import is_free_text
from hoptree.server.workers import WorkerEnded, Workers

_MOST = 100
"""Of whatever an option counts: passages, samples, examples, turns."""
_MOST_TEXT = 10_000
_OF_TEXT = frozenset({"max_tokens", "information", "stretch", "look_ahead", "words", "draw"})
"""Options that count tokens or words, or that are no count at all."""
_DRAWN = frozenset({"samples", "voters", "sampled"})
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
    """A question whose names are known: everything that can be refused beforehand was not."""

    wanted: AskRequest
    key: Key
    method: Method
    model_name: str
    corpus: str | None
    budget: Budget
    engine: Engine

    @property
    def told(self) -> dict[str, Any]:
        """What the journal says of it: all that it takes to ask it again, and whose it was."""
        wanted = self.wanted
        return {
            "question": wanted.question,
            "method": self.method.name,
            "model": self.model_name,
            "corpus": self.corpus,
            "graph": wanted.graph,
            "retriever": wanted.retriever,
            "rerank": wanted.rerank,
            "options": dict(wanted.options),
            "budget": {name: most for name, most in asdict(wanted.budget).items() if most is not None},
            "key": self.key.name,
        }

    @property
    def told_to_workers(self) -> dict[str, Any]:
        """The same with what it may spend at most; whose it is does not matter there."""
        told = self.told | {"budget": asdict(self.budget)}
        del told["key"]
        return told


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
        """Close what was opened for it; those who use the rest end first."""
        if self.workers is not None:
            await self.workers.aclose()
        await self.retrievers.aclose()
        await self.graphs.aclose()
        await self.models.aclose()
        self.calls.close()

    def forget(self, corpus: str) -> None:
        """Let go of a corpus that is to be removed."""
        self.retrievers.forget(corpus)
        if self.workers is not None:
            self.workers.forget(corpus)

    async def prepare(self, wanted: AskRequest, key: Key) -> PreparedQuestion:
        """Look up all that the question names, or refuse it."""
        self.running.check()
        if not wanted.question.strip():
            raise Refusal(400, "InputError", "The question is empty.", "Ask one.")
        if len(wanted.question) > MAX_QUESTION:
            raise Refusal(
                400,
                "InputError",
                f"The question has {len(wanted.question):,} characters; {MAX_QUESTION:,} are the most.",
                "Put the material into a corpus and ask about it.",
            )
        budget = self._budget(wanted.budget, self.quotas.left(key))
        method = find_method(wanted.method or self.settings.method)
        options = self._options(method, wanted.options, budget)
        name, model = self.models.find(wanted.model)
        try:
            corpus, retriever = await self._retriever(method, wanted)
            graph = await self._graph(method, wanted)
        except HoptreeError as error:
            if not isinstance(error, Refusal):
                log_failure(error, what=f"opening what {method.name} reads")
            raise
        engine = self._engine(method, model, options, budget, retriever, graph)
        return PreparedQuestion(wanted, key, method, name, corpus, budget, engine)

    async def ask(self, prepared: PreparedQuestion, listeners: Sequence[Listener] = ()) -> Result:
        """Answer a question; a failure is a result too."""
        self.running.check()

        longest = len(prepared.wanted.question) // 4

        def charge(event: Event) -> None:
            nonlocal longest
            if event["event"] == "llm":
                self.quotas.charge(prepared.key, event)
                longest = max(longest, event["prompt_tokens"])

        with self.metrics.question(prepared.method.name) as outcome:
            try:
                result = await self.running.run(self._answer(prepared, charge, listeners), prepared.told, _is_answered)
            except (asyncio.CancelledError, WorkerEnded) as error:  # the endpoint was asked all the same
                self.quotas.charge_unheard(prepared.key, longest)
                outcome.failed = isinstance(error, WorkerEnded)
                raise
            outcome.take(result)
        if result.failure:
            log_failure(result.failure, what=f"a question ({prepared.method.name} with {prepared.model_name})")
        return result

    def _answer(
        self, prepared: PreparedQuestion, charge: Listener, listeners: Sequence[Listener]
    ) -> Coroutine[Any, Any, Result]:
        if self.workers is not None:
            # Of a key with a budget the next question is to know what this one has spent until then.
            live = bool(listeners) or prepared.key.budget != Budget()
            return self.workers.ask(prepared.told_to_workers, (charge, *listeners), live=live)
        return prepared.engine.ask(prepared.wanted.question, listeners=(charge, *listeners))

    def _budget(self, wanted: Budget, left: Budget) -> Budget:
        """The least of what is wanted, what the key has left, and what any question may spend."""
        limits = self.settings.limits
        cost = _least(wanted.cost, left.cost)
        if cost is not None and self.settings.prices is None:
            raise Refusal(
                400, "ConfigError", "A budget of money needs prices, and this server has none.", "Limit tokens instead."
            )
        return Budget(
            calls=_least(wanted.calls, left.calls, limits.calls),
            tokens=_least(wanted.tokens, left.tokens, limits.tokens),
            cost=cost,
            seconds=_least(wanted.seconds, limits.seconds),
        )

    def _options(self, method: Method, given: Mapping[str, Any], budget: Budget) -> dict[str, Any]:
        """The options of a method; texts may name files or models, and are for an administrator to set."""
        fixed = {_key(name): value for name, value in self.settings.options.get(method.name, {}).items()}
        known = {option.name: option for option in method.options}
        wanted: dict[str, Any] = {}
        for name, value in given.items():
            key = _key(name)
            if key in wanted:
                raise Refusal(400, "ConfigError", f"{method.name}: {key[:80]} is given twice.", "Give it once.")
            wanted[key] = value
            option = known.get(key)
            if key in fixed or (option is not None and is_free_text(option)):
                raise Refusal(
                    403, "NotAllowed", f"{method.name}: {key} is set by whoever runs the server.", "Leave it out."
                )
            _check_size(key, value, budget)
        return read_options(method, {**wanted, **fixed})

    async def _retriever(self, method: Method, wanted: AskRequest) -> tuple[str | None, Retriever | None]:
        if "corpus" not in method.needs and wanted.corpus is None:
            return None, None
        corpus = wanted.corpus or self.corpora.default
        if corpus is None:
            return None, None
        kind = wanted.retriever or self.settings.retriever
        if kind not in KINDS:
            raise unknown("retriever", kind, KINDS)
        return corpus, await self.retrievers.find(corpus, kind, wanted.rerank or "", facts=method.goes_by_facts)

    async def _graph(self, method: Method, wanted: AskRequest) -> KnowledgeGraph | None:
        name = wanted.graph or (next(iter(self.graphs.names), None) if "graph" in method.needs else None)
        return None if name is None else await self.graphs.find(name)

    def _engine(
        self,
        method: Method,
        model: Model,
        options: Mapping[str, Any],
        budget: Budget,
        retriever: Retriever | None,
        graph: KnowledgeGraph | None,
    ) -> Engine:
        return Engine(
            method=method.name,
            model=model,
            corpus=retriever,
            graph=graph,
            options=options,
            budget=budget,
            prices=self.settings.prices,
            calls=self.calls,
        )


def _is_answered(result: Result) -> bool:
    """Whether a question was carried to its end; that nothing was found is an answer, too."""
    return not result.error and not result.stopped_by


def _key(name: str) -> str:
    return name.replace("-", "_")


def _least(*numbers: Any) -> Any:
    return min((number for number in numbers if number is not None), default=None)


def _check_size(name: str, value: Any, budget: Budget) -> None:
    """Refuse numbers that would make one question cost what thousands do."""
    most, why = (_MOST_TEXT if name in _OF_TEXT else _MOST), ""
    if name in _DRAWN and budget.calls is not None and budget.calls < most:
        most, why = budget.calls, ", the calls of the budget"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        return
    if not math.isfinite(number) or abs(number) > most:
        raise Refusal(
            400, "ConfigError", f"{name}={str(value)[:40]} is more than is allowed here.", f"Give at most {most}{why}."
        )
