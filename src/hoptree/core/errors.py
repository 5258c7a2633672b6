"""The exceptions of Hoptree; each carries a remedy for its user."""

from __future__ import annotations


class HoptreeError(Exception):
    """Base class: one sentence for the cause, one for the remedy.

    `exit_code` is 2 if the command must be changed to work, 1 if the same one may work later.
    """

    exit_code = 1

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}".strip()


class InternalError(HoptreeError):
    """A bug in Hoptree; the original error is its `__cause__`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"Something went wrong inside Hoptree ({type(error).__name__}: {error}).",
            "Please report it; HOPTREE_DEBUG=1 shows where.",
        )
        self.__cause__ = error


class InputError(HoptreeError):
    """Input from the caller that cannot be used as it is."""

    exit_code = 2


class ConfigError(InputError):
    """An unknown option, method or model, or a value of the wrong kind."""


class CorpusError(InputError):
    """A corpus or index that is missing, empty or damaged."""


class IndexUnavailable(CorpusError):
    """An index that cannot be written now: it is locked, or the disk is full."""

    exit_code = 1


class TraceError(InputError):
    """A trace file that cannot be read back."""


class MissingExtra(InputError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the optional dependency group '{extra}'.",
            f"Install it: pip install 'hoptree[{extra}]'",
        )


class MissingModel(InputError):
    """A local model whose weights are not on this machine."""


class CacheError(HoptreeError):
    """The call cache cannot be opened or written."""


class BudgetSpent(HoptreeError):
    """A limit of the question's budget was reached before this call."""

    def __init__(self, limit: str, allowed: float) -> None:
        super().__init__(f"The budget of {allowed:g} {limit} is spent.", f"Raise it with --budget {limit}=…")
        self.limit = limit


class ModelError(HoptreeError):
    """A model call that failed."""

    retryable = False
    retry_after: float | None = None


class EndpointError(ModelError):
    """An endpoint that did not answer, or answered with a failure.

    `retryable` says whether the same request may succeed later (broken connection, 5xx).
    """

    def __init__(
        self,
        cause: str,
        remedy: str = "",
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        exit_code: int = 1,
    ) -> None:
        super().__init__(cause, remedy)
        self.exit_code = exit_code
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class RateLimited(EndpointError):
    """An endpoint that asks for fewer requests (HTTP 429)."""


class RequestTooLong(EndpointError):
    """A request with more tokens than the model takes."""

    def __init__(self, cause: str, remedy: str = "", *, status: int | None = None) -> None:
        super().__init__(cause, remedy, status=status, exit_code=2)


class UnusableReply(ModelError):
    """A reply that is not a completion (HTML, half a JSON object)."""

    retryable = True


class GraphError(InputError):
    """A knowledge graph, or a file of triples, that is missing, damaged or of another kind."""


class GraphUnavailable(GraphError):
    """A graph that cannot be written now: another process has locked it."""

    exit_code = 1


class QueryTooLong(EndpointError):
    """A query that was ended because it took too long."""
