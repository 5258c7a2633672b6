"""The `Context` of a question: its budget, and all that a method may do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import BudgetSpent, ConfigError, CorpusError, GraphError
from hoptree.core.values import DEFAULT_MAX_FACTS, Answer, Fact, Passage
from hoptree.engine import trace as tracing
from hoptree.engine.calls import Call, Calls, OnRetry, passage_limit
from hoptree.engine.events import Event, NodeEvent, NodeStarted, Warned
from hoptree.engine.prompts import Filled
from hoptree.engine.trace import FactsNear, Trace
from hoptree.models.model import Capability, Model, Progress, Reply, Request, Signal, on_progress
from hoptree.retrieval.retriever import FactGuided, NameGuided, RanksSentences, Retriever, signals_of
from hoptree.text.question_tree import Node

if TYPE_CHECKING:
    from hoptree.graph.facts import Candidate, Direction, Entity, KnowledgeGraph, Neighbourhood


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one question; None means no limit.

    Calls and tokens count whether or not the cache answered; `cost` counts what is really paid. The budget is checked
    before each call, so the last calls may exceed tokens and cost.
    """

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def check(self, calls: int, tokens: int, cost: float) -> None:
        """Raise if no further call is allowed after these."""
        if self.calls is not None and calls >= self.calls:
            raise BudgetSpent("calls", self.calls)
        if self.tokens is not None and tokens >= self.tokens:
            raise BudgetSpent("tokens", self.tokens)
        if self.cost is not None and cost >= self.cost:
            raise BudgetSpent("cost", self.cost)

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `calls=20,seconds=60`; a bare number means calls."""
        names = {field.name: field for field in fields(cls)}
        values: dict[str, float] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = part.rpartition("=")
            name = name.strip() or "calls"
            try:
                number = float(value)
            except ValueError:
                number = -1.0
            if name not in names or not 0 <= number < float("inf"):
                cause = f"'{part}' is not a budget."
                raise ConfigError(cause, "Use calls, tokens, cost or seconds: --budget calls=20,seconds=60")
            values[name] = int(number) if name in ("calls", "tokens") else number
            if not values[name]:
                raise ConfigError(f"A budget of '{part}' allows nothing.", "Give more, or leave that limit out.")
        return cls(**values)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per million tokens, in the currency of the budget."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None

    @classmethod
    def parse(cls, text: str) -> Prices:
        """Read IN/OUT: `0.15/0.60`."""
        try:
            prompt, completion = (float(part) for part in text.split("/"))
        except ValueError:
            prompt = completion = math.nan
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise ConfigError(f"'{text}' are not prices.", "Write IN/OUT, for example --prices 0.15/0.60.")
        return cls(prompt, completion)

    def of(self, prompt: int, cached: int, completion: int) -> float:
        cached_price = self.prompt if self.cached is None else self.cached
        return ((prompt - cached) * self.prompt + cached * cached_price + completion * self.completion) / 1e6


Gate = Callable[[Request], AbstractAsyncContextManager[None]]
"""Entered before a call of a model is sent, which it may hold back or refuse, and left when its reply is counted."""


class Context:
    """All that a method can do for a question, counted, limited and traced."""

    def __init__(
        self,
        *,
        method: str,
        model: Model,
        calls: Calls,
        trace: Trace,
        retriever: Retriever | None = None,
        budget: Budget | None = None,
        prices: Prices | None = None,
        roles: Mapping[str, Model] | None = None,
        graph: KnowledgeGraph | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.method = method
        self.model = model
        self._roles = roles or {}
        self.trace = trace
        self.best: Answer | None = None
        self.best_note = ""
        self._best_order = 0
        self._calls_made = self._tokens = 0
        self._cost = 0.0
        self._calls = calls
        self._retriever = retriever
        self._graph = graph
        self._budget = budget or Budget()
        self._prices = prices or Prices()
        self._gate = gate
        self._cache_lost = False

    def model_for(self, role: str) -> Model:
        """Return the model of a role, by default the one for all roles."""
        return self._roles.get(role, self.model)

    def require(self, capability: Capability, role: str = "answer") -> None:
        """Raise unless the model gives a signal that the method needs."""
        model = self.model_for(role)
        if capability not in model.capabilities:
            cause = f"{self.method} with these options needs {capability}, which {model.name} does not give."
            raise ConfigError(cause, "Choose another model or other options: hoptree methods lists what each needs.")

    def require_corpus(self, *, instead: str = "") -> None:
        """Raise if there is no corpus; `instead` names an alternative that needs none."""
        if self._retriever is None:
            without = f" {instead} does without." if instead else ""
            raise CorpusError(
                f"{self.method} reads documents, and no corpus was given.",
                "Index a folder with: hoptree index FOLDER --out DIR, then add --corpus DIR (or --corpus sample)."
                f"{without}",
            )

    def require_graph(self, *, instead: str = "") -> None:
        """Raise if there is no graph; `instead` names an alternative that needs none."""
        if self._graph is None:
            without = f" {instead} does without." if instead else ""
            cause = f"{self.method} with these options looks facts up, and no knowledge graph was given."
            raise GraphError(cause, f"Load one with: hoptree graph load FILE --out DIR, then add --graph DIR.{without}")

    async def generate(
        self,
        step: str,
        prompt: Filled,
        *,
        max_tokens: int,
        role: str = "answer",
        node: Node | None = None,
        top_logprobs: int = 0,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        seed: int = 0,
        n: int = 1,
        stop: tuple[str, ...] = (),
        json_schema: str = "",
        prefix: str = "",
        signals: frozenset[Signal] = frozenset(),
        attention_of: tuple[tuple[int, int], ...] = (),
        part: bool = False,
    ) -> Reply:
        """Call the model of a role, within the budget; a `part` may be cut off unwarned."""
        self._budget.check(self._calls_made, self._tokens, self._cost)
        self._calls_made += 1
        request = Request(
            messages=prompt.messages,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            stop=stop,
            n=n,
            top_logprobs=top_logprobs,
            json_schema=json_schema,
            prefix=prefix,
            signals=signals,
            attention_of=attention_of,
            top_p=top_p,
            top_k=top_k,
            opening=prompt.opening,
            template=prompt.template,
        )
        async with self._gate(request) if self._gate else nullcontext():
            reply = await self._send(step, request, role, node)
        if reply.finish == "length" and not part:
            self.warn("cut_off", f"The model's reply in step {step} was cut off after {max_tokens} tokens.")
        return reply

    async def _send(self, step: str, request: Request, role: str, node: Node | None) -> Reply:
        """Have a model reply, and count what that took."""
        issued = self.trace.now()
        token = on_progress.set(lambda now: self._tell_progress(step, now, node))
        try:
            call = await self._calls.generate(
                self.model_for(role), request, step=f"{self.method}/{step}", on_retry=self._on_retry(step)
            )
        finally:
            on_progress.reset(token)
        usage = call.reply.usage
        price = self._prices.of(usage.prompt, 0, usage.completion)
        cost = 0.0 if call.cached else self._prices.of(usage.prompt, usage.cached, usage.completion)
        self._tokens += usage.prompt + usage.completion
        self._cost += cost
        self._record_call(
            tracing.ModelCalled(
                step=step,
                template=request.template,
                role=role,
                reply=call.reply.text,
                finish=call.reply.finish,
                prompt_tokens=usage.prompt,
                cached_tokens=usage.cached,
                completion_tokens=usage.completion,
                reasoning_tokens=usage.reasoning,
                price=price,
                cost=cost,
                **_times(issued, call),
            ),
            node,
        )
        return call.reply

    async def search(
        self,
        query: str,
        *,
        k: int,
        where: Mapping[str, str] | None = None,
        facts: Sequence[Fact] | None = None,
        names: Sequence[str] | None = None,
        node: Node | None = None,
    ) -> tuple[Passage, ...]:
        """Return the k best passages for a query, of those with the metadata `where`.

        The search starts from `facts` of the corpus instead of those nearest to the query, or from `names`, if the
        retriever supports them.
        """
        self.require_corpus()
        assert self._retriever is not None
        retriever = self._retriever
        if facts is not None:
            assert isinstance(retriever, FactGuided)
            retriever = retriever.guided(facts)
        elif names is not None:
            assert isinstance(retriever, NameGuided)
            retriever = retriever.named(names)
        if k < 1:
            raise ConfigError(f"{k} passages cannot be read.", "Set k to 1 or more: --set k=5.")
        issued = self.trace.now()
        call = await self._calls.search(retriever, query, k=k, where=where, on_retry=self._on_retry("search"))
        hits = [tracing.hit_of(passage) for passage in call.reply]
        if any(len(passage.text) == (limit := passage_limit(len(call.reply))) for passage in call.reply):
            self.warn("truncated", f"Of a passage only the first {limit:,} characters were read.")
        only = dict(where) if where else None
        retrieved = tracing.Retrieved(
            query=query, kind=retriever.kind, k=k, where=only, passages=hits, **_times(issued, call)
        )
        self._record_call(retrieved, node)
        return call.reply

    async def titles(
        self, name: str, *, k: int, where: Mapping[str, str] | None = None, node: Node | None = None
    ) -> tuple[str, ...]:
        """Return the titles of the k best passages for a name; no passage counts as read."""
        self.require_corpus()
        assert self._retriever is not None
        issued = self.trace.now()
        call = await self._calls.search(self._retriever, name, k=k, where=where, on_retry=self._on_retry("search"))
        titles = list(dict.fromkeys(passage.title for passage in call.reply))
        self._record_call(tracing.TitlesFound(name=name, k=k, titles=titles, **_times(issued, call)), node)
        return tuple(titles)

    async def sentence_scores(self, query: str, passages: Sequence[Passage]) -> list[list[float]] | None:
        """Return the relevance of each sentence; None if the retriever cannot rank them."""
        if not isinstance(self._retriever, RanksSentences):
            return None
        return await asyncio.to_thread(self._retriever.sentence_scores, query, passages)

    @property
    def corpus_tells(self) -> frozenset[str]:
        """The signals of the retriever; with `facts`, `facts_near` can be called."""
        return signals_of(self._retriever)

    async def facts_near(self, query: str, *, k: int) -> tuple[Fact, ...]:
        """Return the k facts nearest to a query, with their similarity as confidence."""
        assert isinstance(self._retriever, FactGuided)
        facts = await self._retriever.facts_near(query, k=k)
        self.emit(FactsNear(value=[[f.subject, f.relation, f.object, f.passage_id] for f in facts], query=query))
        return facts

    async def facts(
        self, entity: Entity, *, direction: Direction = "both", limit: int = DEFAULT_MAX_FACTS, node: Node | None = None
    ) -> Neighbourhood:
        """Return the facts of the knowledge graph one step around an entity."""
        self.require_graph()
        assert self._graph is not None
        issued = self.trace.now()
        call = await self._calls.facts(self._graph, entity.id, direction=direction, limit=limit)
        self._record_call(
            tracing.FactsFound(
                entity=entity.id,
                label=entity.label,
                direction=direction,
                facts=[fact.text for fact in call.reply.facts],
                complete=call.reply.complete,
                **_times(issued, call),
            ),
            node,
        )
        return call.reply

    async def entities(self, name: str, *, limit: int = 10, node: Node | None = None) -> tuple[Entity, ...]:
        """Return the entities of the graph with this label or alias, best first."""
        self.require_graph()
        assert self._graph is not None
        issued = self.trace.now()
        call = await self._calls.entities(self._graph, name, limit=limit)
        matches = [[entity.id, entity.label] for entity in call.reply]
        self._record_call(tracing.EntitiesFound(name=name, found=matches, **_times(issued, call)), node)
        return call.reply

    @property
    def names_indexed(self) -> bool:
        """Whether the graph has an index of its names, which `candidates` needs."""
        from hoptree.graph.facts import NamesIndexed  # a question without a graph does not need it

        return isinstance(self._graph, NamesIndexed)

    async def candidates(
        self, text: str, *, is_name: bool, limit: int = 10, node: Node | None = None
    ) -> tuple[Candidate, ...]:
        """Return the entities that a name (`is_name`) or the names in a text may mean."""
        from hoptree.graph.facts import NamesIndexed

        assert isinstance(self._graph, NamesIndexed)
        issued = self.trace.now()
        names = await asyncio.to_thread(self._graph.candidates)
        candidates = await (names.of_mention(text, limit=limit) if is_name else names.of_text(text, limit=limit))
        looked_up = tracing.EntitiesFound(
            name=text,
            whole=is_name,
            found=[[candidate.entity.id, candidate.entity.label] for candidate in candidates],
            scores=[candidate.score for candidate in candidates],
            issued=round(issued, 4),
            seconds=round(self.trace.now() - issued, 4),
        )
        self.emit(looked_up, node=node)
        return candidates

    @property
    def tokens_left(self) -> float:
        """The tokens that the budget still allows; infinite without a limit."""
        return float("inf") if self._budget.tokens is None else float(max(self._budget.tokens - self._tokens, 0))

    def propose(self, answer: Answer, *, order: int, note: str = "") -> None:
        """Offer an answer in case the budget ends; the last of the highest order counts."""
        if answer.known and order >= self._best_order:
            self.best, self.best_note, self._best_order = answer, note, order

    def withdraw_proposal(self) -> None:
        """Give no answer if the budget ends, until another is proposed."""
        self.best = None

    def begin_node(self, node: Node, resolved: str) -> None:
        """Record that a node of the plan is being worked on."""
        self.trace.emit(NodeStarted(id=node.id, resolved=resolved))

    def end_node(self, node: Node, answer: Answer, **details: Any) -> None:
        """Record a node's answer and how it was found, for the papers' tables.

        An answer that none of the passages it cites states is recorded as a guess, unless `details` has a verdict or
        facts.
        """
        source = answer.source if answer.known else "none"
        if source == "external" and not (details.get("verdict") or details.get("facts")) and not self._states(answer):
            source = "fallback"
        self.trace.add(
            "node",
            id=node.id,
            state="answered" if answer.known else "unanswered",
            parent=node.parent,
            question=node.question,
            refs=list(node.refs),
            answer=answer.text if answer.known else "",
            source=source,
            confidence=answer.confidence,
            evidence=list(answer.support),
            **details,
            **tracing.record_of(tracing.events_of(self.trace.events, node.id)),
        )

    def _states(self, answer: Answer) -> bool:
        """Return whether the cited passages state an answer; yes if it cites none."""
        from hoptree.text.grounding import is_stated  # imported late, so that the first call starts sooner

        cited = tracing.passages_of(self.trace.events, answer.support)
        return not cited or is_stated(answer.text, cited)

    def emit(self, event: Event, *, node: Node | None = None) -> None:
        """Record a typed event, such as a Decision, for a node if one is given."""
        if node is not None and isinstance(event, NodeEvent):
            event.place(node.id, node.depth)
        self.trace.emit(event)

    def decide(self, kind: str, value: Any, *, node: Node | None = None, **inputs: Any) -> None:
        """Record a decision and its `inputs`, for methods without types of their own."""
        place = {} if node is None else {"node": node.id, "depth": node.depth}
        self.trace.add("decision", kind=kind, value=value, **place, **inputs)

    def warn(self, kind: str, message: str) -> None:
        """Record a warning for the user."""
        self.trace.emit(Warned(kind=kind, message=message))

    def _tell_progress(self, step: str, now: Progress, node: Node | None) -> None:
        event = tracing.ModelProgress(step=step, **now._asdict())
        if node is not None:
            event.place(node.id, node.depth)
        self.trace.tell(event)

    def _on_retry(self, step: str) -> OnRetry:
        return lambda error, wait: self.trace.emit(tracing.Retried(step=step, error=str(error), wait=round(wait, 2)))

    def _record_call(self, event: tracing.ExternalCall, node: Node | None) -> None:
        if self._calls.cache_failure is not None and not self._cache_lost:
            self._cache_lost = True
            self.warn("cache_lost", f"{self._calls.cache_failure} Replies are not remembered in this run.")
        self.emit(event, node=node)


def _times(issued: float, call: Call[Any]) -> dict[str, Any]:
    return {"cached": call.cached, "issued": round(issued, 4), "seconds": round(call.seconds, 4)}
