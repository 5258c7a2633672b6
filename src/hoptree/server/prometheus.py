"""The server's metrics, in the text format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from hoptree.engine.result import Result

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


@dataclass(slots=True)
class Outcome:
    """The outcome of a question; `gone` if the client left before a result."""

    result: Result | None = None
    failed: bool = False

    @property
    def name(self) -> str:
        if self.failed or (self.result and self.result.error):
            return "failed"
        if self.result is None:
            return "gone"
        if self.result.stopped_by:
            return "stopped"
        return "abstained" if self.result.abstained else "answered"


class Metrics:
    """The metrics of one server.

    Labels take only values that the server knows, so that their number is bounded.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self._registry)
        self._requests = counter("hoptree_http_requests", "Requests answered.", ["route", "method", "status"])
        until, name = "Until the end of the reply.", "hoptree_http_request_seconds"
        self._request_seconds = histogram(name, until, ["route"])
        self._refused = counter("hoptree_refused", "Requests refused, by why.", ["reason"])
        self._questions = counter("hoptree_questions", "Questions by what became of them.", ["method", "outcome"])
        self._question_seconds = histogram("hoptree_question_seconds", "Until the answer.", ["method"])
        self._calls = counter("hoptree_model_calls", "Calls of models.", ["cached"])
        self._tokens = counter("hoptree_tokens", "Tokens of all calls.", ["kind"])
        self._cost = counter("hoptree_cost", "Money paid, by the prices given.")
        self._asking = Gauge("hoptree_questions_under_way", "Questions being answered.", registry=self._registry)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def watch(self, name: str, about: str, count: Callable[[], int]) -> None:
        """Report a number that `count` gives whenever metrics are read."""
        Gauge(name, about, registry=self._registry).set_function(count)

    @contextmanager
    def question(self, method: str) -> Iterator[Outcome]:
        """Count a question and its outcome."""
        outcome, began = Outcome(), time.perf_counter()
        self._asking.inc()
        try:
            yield outcome
        finally:
            self._asking.dec()
            self._questions.labels(method, outcome.name).inc()
            self._question_seconds.labels(method).observe(time.perf_counter() - began)
            if outcome.result:
                usage = outcome.result.usage
                self._calls.labels("yes").inc(usage.cached_calls)
                self._calls.labels("no").inc(usage.llm_calls - usage.cached_calls)
                self._tokens.labels("prompt").inc(usage.prompt_tokens)
                self._tokens.labels("completion").inc(usage.completion_tokens)
                self._cost.inc(max(0.0, usage.cost))

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
