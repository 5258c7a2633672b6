"""`Engine`, and the functions that ask a question, behind all interfaces."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec

from hoptree import __version__
from hoptree.core.config import settings_of_files
from hoptree.core.errors import BudgetSpent, ConfigError, HoptreeError, InputError, InternalError, MissingExtra
from hoptree.core.values import Answer, Question, Usage
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.context import Budget, Context, Gate, Prices
from hoptree.engine.events import FORMAT, Event, Finished, Started
from hoptree.engine.prompts import OwnPrompts, using_prompts
from hoptree.engine.registry import DEFAULT_METHOD, OFF, ON, check_role, find_method, read_options
from hoptree.engine.schedule import fold_events
from hoptree.engine.trace import Listener, LiveListener, Trace, TraceFile, usage_of
from hoptree.models import DEFAULT_MODEL, open_model
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.retriever import Retriever, signals_of
from hoptree.text.parse import looks_unanswered

if TYPE_CHECKING:
    from hoptree.engine.cache import Store
    from hoptree.engine.result import Result
    from hoptree.engine.telemetry import SpanListener
    from hoptree.graph.facts import KnowledgeGraph

P = ParamSpec("P")

MAX_QUESTION = 8_000  # characters; a longer text is not a question but a document
_MIN_REPEATS = 8
_REPEATED = re.compile(rf"(\S+(?: \S+){{0,3}}?)(?: \1){{{_MIN_REPEATS - 1},}}")
_SPANS_SWITCH = "HOPTREE_OTEL"  # the environment variable that has spans sent to OTEL_EXPORTER_OTLP_ENDPOINT


class Engine:
    """A method, a model and a corpus, ready to answer any number of questions at once.

    `graph` is a knowledge graph beside the corpus: a folder, an endpoint's URL, "wikidata", or an open graph. `roles`
    gives parts of the method a model of their own (`{"decompose": "openai/NAME"}`); `model` plays all others. `cache`
    is the file or store of replies, by default the user's file; None caches nothing. `prompts` is a folder of prompts
    that replace ours by file name. `calls` lets engines share a cache and limits. Use the engine as an async context
    manager: it closes what it opened, not what was passed in open.
    """

    def __init__(
        self,
        *,
        method: str = DEFAULT_METHOD,
        model: str | Model = DEFAULT_MODEL,
        corpus: str | Path | Retriever | None = None,
        retriever: str = DEFAULT_RETRIEVER,
        rerank: str = "",
        options: Mapping[str, Any] | None = None,
        budget: Budget | str | int | None = None,
        prices: Prices | None = None,
        cache: str | Path | Store | None = "default",
        base_url: str = "",
        concurrency: int | None = None,
        listeners: Sequence[Listener] = (),
        roles: Mapping[str, str | Model] | None = None,
        graph: str | Path | KnowledgeGraph | None = None,
        prompts: str | Path | OwnPrompts | None = None,
        calls: Calls | None = None,
    ) -> None:
        limits = budget if budget is None or isinstance(budget, Budget) else Budget.parse(str(budget))
        if limits and limits.cost is not None and prices is None:
            raise ConfigError("A budget of money needs prices.", "Give them: --prices IN/OUT, or Prices(…) in Python.")
        self.method = find_method(method)
        self.options = read_options(self.method, options or {})
        self.prompts = _open_prompts(prompts)
        self.retriever = _open_corpus(
            corpus, retriever, rerank, cached=cache is not None, facts=self.method.goes_by_facts
        )
        self.model = open_model(model, base_url=base_url) if isinstance(model, str) else model
        self.graph = _open_graph(graph)
        self._opened: list[Model | Retriever | KnowledgeGraph] = [
            part
            for part, given in ((self.model, model), (self.retriever, corpus), (self.graph, graph))
            if isinstance(given, str | Path) and part is not None
        ]
        self.roles = self._open_roles(roles or {}, base_url)
        self._budget = limits
        self._prices = prices
        self._spans = open_telemetry()
        self._listeners: tuple[Listener, ...] = (*listeners, self._spans) if self._spans else tuple(listeners)
        self._calls = calls or open_calls(cache, concurrency=concurrency)
        self._shares_calls = calls is not None

    def _open_roles(self, roles: Mapping[str, str | Model], base_url: str) -> dict[str, Model]:
        """Return a model for each role; a name that several roles share is opened once."""
        opened: dict[str, Model] = {}
        by_role: dict[str, Model] = {}
        for role, given in roles.items():
            check_role(self.method, role)
            if not isinstance(given, str):
                by_role[role] = given
                continue
            if given not in opened:
                opened[given] = open_model(given, base_url=base_url if given.startswith("openai/") else "")
                self._opened.append(opened[given])
            by_role[role] = opened[given]
        return by_role

    @property
    def models_identity(self) -> str:
        """The model and those of the roles, on which all replies depend."""
        others = (f"{role}={model.identity}" for role, model in sorted(self.roles.items()))
        return " ".join((self.model.identity, *others))

    @property
    def fidelity(self) -> str:
        """How close to the method's paper the answers are."""
        capabilities = self.roles.get("answer", self.model).capabilities
        return self.method.fidelity(self.options, capabilities | signals_of(self.retriever))

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for part in self._opened:
            await part.aclose()
        if not self._shares_calls:
            self._calls.close()
        if self._spans:
            await self._spans.flush()

    async def ask(
        self, question: str | Question, *, listeners: Sequence[Listener] = (), gate: Gate | None = None
    ) -> Result:
        """Answer one question; a failure is a result too, with class and message."""
        events, failure = await self.trace(question, listeners=listeners, gate=gate)
        from hoptree.engine.result import read_result  # imported late, so that the first call starts sooner

        return await fold_events(lambda recorded: read_result(recorded, failure), events)

    async def trace(
        self, question: str | Question, *, listeners: Sequence[Listener] = (), gate: Gate | None = None
    ) -> tuple[Sequence[Event], HoptreeError | None]:
        """Answer one question; return its events and the failure, if any."""
        asked = check_question(question)
        trace = Trace(secrets.token_hex(6), (*self._listeners, *listeners))
        ctx = Context(
            method=self.method.name,
            model=self.model,
            calls=self._calls,
            trace=trace,
            retriever=self.retriever,
            budget=self._budget,
            prices=self._prices,
            roles=self.roles,
            graph=self.graph,
            gate=gate,
        )
        self._begin(trace, asked)
        with using_prompts(self.prompts.texts, self.method.name):
            answer, stopped_by, failure = await self._answer(asked, ctx)
        if stopped_by:
            answer = drop_refusal(ctx.best) if ctx.best else None
            ctx.warn(
                "stopped", f"The budget of {stopped_by} ended the run; {ctx.best_note or _describe_proposal(answer)}."
            )
        elif overrun := self._describe_overrun(usage_of(trace.events)):
            ctx.warn("overrun", overrun)
        self._finish(trace, answer or Answer(""), stopped_by, failure)
        return trace.events, failure

    def _describe_overrun(self, used: Usage) -> str:
        """Return how far the tokens exceed the budget; "" if they do not."""
        tokens, most = used.prompt_tokens + used.completion_tokens, self._budget.tokens if self._budget else None
        if most is None or tokens <= most:
            return ""
        return f"{tokens:,} tokens were used of a budget of {most:,}, which is checked before each call."

    def _begin(self, trace: Trace, asked: Question) -> None:
        language = ""
        if asked.history:
            from hoptree.text.tokens import language_of

            language = language_of("\n".join(question for question, _ in asked.history), "")
        trace.emit(
            Started(
                format=FORMAT,
                question=asked.text,
                question_id=asked.id or hashlib.sha256(asked.text.encode()).hexdigest()[:12],
                type=asked.type,
                hops=asked.hops,
                language=language,
                method=self.method.name,
                options={option.name: self.options.get(option.name, option.default) for option in self.method.options},
                model=self.model.name,
                roles={role: model.name for role, model in self.roles.items()},
                corpus=self.retriever.identity if self.retriever else None,
                graph=self.graph.identity if self.graph else None,
                prompts=self.prompts.of(self.method),
                fidelity=self.fidelity,
                version=__version__,
            )
        )

    async def _answer(self, asked: Question, ctx: Context) -> tuple[Answer | None, str, HoptreeError | None]:
        """Return the method's answer; else the limit that ended it, or the failure."""
        try:
            async with asyncio.timeout(self._budget.seconds if self._budget else None) as clock:
                if asked.history:
                    from hoptree.engine.conversation import rewrite_question

                    asked = await rewrite_question(asked, ctx)
                answer = await self.method.run(asked, ctx, **self.options)
                return drop_refusal(answer), "", None
        except BudgetSpent as spent:
            return None, spent.limit, None
        except HoptreeError as error:
            return None, "", error
        except Exception as error:  # one failed question must not end a run of a thousand
            if isinstance(error, TimeoutError) and clock.expired():
                return None, "seconds", None
            if os.environ.get("HOPTREE_DEBUG"):
                raise
            return None, "", InternalError(error)

    def _finish(self, trace: Trace, answer: Answer, stopped_by: str, failure: HoptreeError | None) -> None:
        trace.emit(
            Finished(
                answer=answer.text,
                raw=answer.raw,
                source=answer.source,
                support=list(answer.support),
                abstained=not failure and not answer.text,
                stopped_by=stopped_by,
                error=type(failure).__name__ if failure else "",
                error_message=str(failure) if failure else "",
            )
        )


def drop_refusal(answer: Answer) -> Answer:
    """Empty the text of a refusal or an endless repetition, in all methods alike."""
    is_none = not answer.known or looks_unanswered(answer.text) or _is_stuck(answer.text)
    return replace(answer, text="") if is_none else answer


def _is_stuck(text: str) -> bool:
    """Return whether a text repeats up to four words at least eight times in a row."""
    # The pattern takes 0.1 s for a thousand characters without a space.
    return text.count(" ") >= _MIN_REPEATS - 1 and _REPEATED.search(text) is not None


async def aask(
    question: str | Question,
    *,
    corpus: str | Path | Retriever | None = None,
    retriever: str = "",
    rerank: str = "",
    model: str | Model = "",
    method: str = "",
    options: Mapping[str, Any] | None = None,
    budget: Budget | str | int | None = None,
    prices: Prices | None = None,
    base_url: str = "",
    concurrency: int | None = None,
    cache: str | Path | None = "default",
    trace: str | Path | None = None,
    listeners: Sequence[Listener] = (),
    roles: Mapping[str, str | Model] | None = None,
    graph: str | Path | KnowledgeGraph | None = None,
    prompts: str | Path | OwnPrompts | None = None,
) -> Result:
    """Answer one question; a failure is raised.

    Settings that are not given come from the environment, .env and hoptree.toml, as in the terminal.
    """
    settings, tables = settings_of_files()
    method = method or settings.get("method", DEFAULT_METHOD)
    writer = TraceFile(Path(trace)) if trace else None
    try:
        async with Engine(
            method=method,
            model=model or settings.get("model", DEFAULT_MODEL),
            corpus=corpus if corpus is not None else settings.get("corpus"),
            retriever=retriever or settings.get("retriever", DEFAULT_RETRIEVER),
            rerank=rerank,
            options={**tables.get(method, {}), **(options or {})},
            budget=settings.get("budget") if budget is None else budget,
            prices=prices or (Prices.parse(settings["prices"]) if "prices" in settings else None),
            base_url=base_url or ("" if model else settings.get("base_url", "")),
            concurrency=concurrency,
            cache=cache,
            listeners=(*listeners, writer) if writer else listeners,
            roles=roles,
            graph=graph if graph is not None else settings.get("graph"),
            prompts=prompts,
        ) as engine:
            result = await engine.ask(question)
    finally:
        if writer:
            writer.close()
    if result.failure:
        raise result.failure
    return result


def _synchronous(asynchronous: Callable[P, Coroutine[Any, Any, Result]]) -> Callable[P, Result]:
    @functools.wraps(asynchronous)
    def synchronous(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(asynchronous(*args, **kwargs))
        from concurrent.futures import ThreadPoolExecutor

        # A notebook already runs a loop in this thread: the question gets a loop in another thread.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(asynchronous(*args, **kwargs))).result()

    return synchronous


ask = _synchronous(aask)  # `aask` for code without an event loop, and for notebooks


async def stream(question: str | Question, **settings: Any) -> AsyncIterator[Event | Result]:
    """Yield a question's events as they happen, then its result.

    Settings are those of `aask`. A failure is raised. Leaving the loop cancels the question.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    listeners = (*settings.pop("listeners", ()), LiveListener(events.put_nowait))
    asking = asyncio.ensure_future(aask(question, **settings, listeners=listeners))
    asking.add_done_callback(lambda done: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        yield await asking
    finally:
        asking.cancel()


def index(sources: str | Path | Sequence[str | Path], out: str | Path | None = None, **settings: Any) -> Path:
    """Index documents, and return the folder of the index, which `corpus` takes.

    Without `out` it is in the user's cache. An existing index of the same sources is updated. `settings` are those of
    `hoptree.retrieval.index.folder.Settings`: `index("docs", "docs.idx", language="german")`.
    """
    from hoptree.retrieval.index.folder import MANIFEST, Settings, read_manifest
    from hoptree.retrieval.indexing import build_index, cached_index, update_index
    from hoptree.retrieval.indexing.sources import source_name

    paths = [Path(path) for path in ([sources] if isinstance(sources, str | Path) else sources)]
    if not paths:
        raise InputError("There is nothing to index.", 'Name files or folders: hoptree.index("docs/")')
    if out is None:
        if len(paths) > 1 or settings:
            raise InputError("Such an index needs a place of its own.", 'Name it: hoptree.index(…, "docs.idx")')
        return cached_index(paths[0])[0]
    folder = Path(out)
    same = (folder / MANIFEST).exists() and [*read_manifest(folder).sources] == [*map(source_name, paths)]
    if same and not settings:
        update_index(folder)
    else:
        build_index(paths, folder, settings=Settings(**settings))
    return folder


def check_question(question: str | Question) -> Question:
    """Return a valid question; raise an InputError for an invalid one."""
    asked = Question(question) if isinstance(question, str) else question
    if not asked.text.strip():
        raise InputError("The question is empty.", 'Ask one: hoptree ask "Which …?"')
    try:
        asked.text.encode()
    except UnicodeEncodeError as error:
        raise InputError("The question is not valid text.", "Give it as UTF-8.") from error
    if len(asked.text) > MAX_QUESTION:
        name = f"The question '{asked.id[:100]}'" if asked.id else "The question"
        cause = f"{name} has {len(asked.text):,} characters; {MAX_QUESTION:,} are the most."
        raise InputError(cause, "Put the material into a corpus (hoptree index) and ask about it.")
    return asked


def _describe_proposal(answer: Answer | None) -> str:
    if answer is None:
        return "no answer was found until then"
    if answer.source == "fallback":
        return "the answer is a guess that nothing found until then confirms"
    return "the answer is the best found until then"


def _open_corpus(
    corpus: str | Path | Retriever | None, kind: str, rerank: str, *, cached: bool, facts: bool
) -> Retriever | None:
    if corpus is None or not isinstance(corpus, str | Path):
        return corpus
    from hoptree.retrieval.retriever import locate_corpus, open_retriever

    corpus, _ = locate_corpus(corpus)
    return open_retriever(corpus, kind, rerank=rerank, cached=cached, facts=facts)


def _open_prompts(prompts: str | Path | OwnPrompts | None) -> OwnPrompts:
    if prompts is None or isinstance(prompts, OwnPrompts):
        return prompts or OwnPrompts()
    from hoptree.engine.own_prompts import open_prompts

    return open_prompts(prompts)


def _open_graph(graph: str | Path | KnowledgeGraph | None) -> KnowledgeGraph | None:
    if graph is None or not isinstance(graph, str | Path):
        return graph
    from hoptree.graph import open_graph

    return open_graph(str(graph), cached=False)  # the call cache holds its replies


def open_telemetry() -> SpanListener | None:
    """Return a listener that sends spans, if the environment asks for them."""
    value = os.environ.get(_SPANS_SWITCH, "").strip().casefold()
    if value in ("", *OFF):
        return None
    if value not in ON:
        remedy = f"Set {_SPANS_SWITCH}=1 to send spans, or leave it out."
        raise ConfigError(f"{_SPANS_SWITCH}={value} is not possible.", remedy)
    try:
        from hoptree.engine.telemetry import open_spans

        return open_spans()
    except ImportError as error:
        raise MissingExtra(f"{_SPANS_SWITCH}=1", "otel") from error
