"""The exceptions of Hoptree with their remedies, and redaction for clients."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hoptree.core.lazy import lazy_re


class HoptreeError(Exception):
    """Base class: one sentence for the cause, one for the remedy.

    `exit_code` is 2 if the command must be changed, 1 if the same command may work later.
    """

    exit_code = 1

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy

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
    """Input from the caller that cannot be used."""

    exit_code = 2


class ConfigError(InputError):
    """An unknown option, method or model, or a value of the wrong kind."""


class CorpusError(InputError):
    """A corpus or index that is missing, empty or damaged."""


class IndexUnavailable(CorpusError):
    """An index that cannot be written now: it is locked, or the disk is full."""

    exit_code = 1


class OtherRun(InputError):
    """A folder with a run of other data, model or options than the one to resume."""


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
        self.exit_code, self.status, self.retryable = exit_code, status, retryable
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
    """A graph or file of triples that is missing, damaged or of another kind."""


class GraphUnavailable(GraphError):
    """A graph that is locked by another process, or needs too many open files."""

    exit_code = 1


class QueryTooLong(EndpointError):
    """A query that was ended because it took too long."""


@contextmanager
def file_errors(path: object, what: str, remedy: str) -> Iterator[None]:
    """Raise an OSError as an InputError; `what` was tried: "read", "written" …"""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be {what}: {error.strerror or error}.", remedy) from error


def closest(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str:
    """Return the known name most like a misspelled one; "" if none is that similar."""
    from difflib import get_close_matches  # slow to import, and only needed after a mistake

    return next(iter(get_close_matches(name, list(known), 1, similarity)), "")


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the remedy for an unknown name: the closest, `otherwise`, or all names."""
    close = closest(name, known)
    return f"Did you mean {close}?" if close else otherwise or f"There are {', '.join(known)}."


ASK_OPERATOR = "Tell the server's administrator; the log says more."
_LATER = "Ask again later, or tell the server's administrator."
_MAX_CHARS = 2_000
_PATH = lazy_re(r"(?<![\w/.:])(?:file:/|/|~/|[A-Za-z]:\\)[^\s'\",;()<>]*[/\\][^\s'\",;()<>]*")
_ADDRESS = lazy_re(r"\b[a-z][a-z0-9+.-]{0,30}://[^\s'\",;()<>]+", re.IGNORECASE)
_SOCKET = lazy_re(
    r"\('[^'\s]*', \d+(?:, \d+)*\)|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b[a-z][\w.-]{0,99}:\d{2,5}\b", re.IGNORECASE
)
_KEY = lazy_re(r"\b(?:sk|pk|rk|hf|gsk|xai)[-_](?=[\w-]{0,99}\d)[\w-]{16,}|\bBearer\s+\S{8,}", re.IGNORECASE)
"""Keys of providers are long and have digits; shorter names of files and people may begin alike."""
_COMMAND = lazy_re(r"\bhoptree [a-z]|(?<!\w)--[a-z]|\bpip install|\b[A-Z]+_API_KEY\b")
_SENTENCE_END = lazy_re(r"(?<=[.!?…])\s+")
_PUBLIC_TEXTS: tuple[tuple[type[HoptreeError], str, str], ...] = (
    (RateLimited, "The endpoint that the server asks wants fewer requests.", "Wait as long as Retry-After says."),
    (RequestTooLong, "The request is longer than the model takes.", "Ask a shorter question, or for fewer passages."),
    (EndpointError, "An endpoint that the server asks failed.", _LATER),
    (UnusableReply, "The endpoint that the server asks sent a reply that cannot be read.", ASK_OPERATOR),
    (ModelError, "The model could not do what the method asks of it.", "Choose another method or model."),
    (CacheError, "The server cannot remember replies.", ASK_OPERATOR),
    (MissingModel, "The model is not there.", ASK_OPERATOR),
    (GraphUnavailable, "The graph cannot be used at this moment.", "Ask again later."),
    (IndexUnavailable, "The corpus cannot be used at this moment.", "Ask again later."),
    (InternalError, "Something went wrong inside Hoptree.", "The server's log says more; try again."),
)
"""Cause and remedy for clients, of errors whose own text comes from elsewhere or is for the operator."""


_HIDDEN_PATHS: set[str] = set()


def hide_path(path: str) -> str:
    """Return the absolute path, and let `redact` hide it from now on.

    Without this, `redact` cannot see where a path with spaces ends.
    """
    full = str(Path(path).absolute())
    _HIDDEN_PATHS.add(full)
    return full


def redact(text: str, *, known: Iterable[str] = ()) -> str:
    """Replace paths of this machine, addresses of endpoints and keys by "…".

    This is the second line of defence: messages of endpoints are not passed on at all. Text inside a `known` name, of
    a file or passage that the client has seen, stays.
    """
    names = [name for name in known if name in text]
    for path in sorted(_HIDDEN_PATHS, key=len, reverse=True):
        text = text.replace(path, "…")
    for pattern in (_ADDRESS, _PATH, _SOCKET, _KEY):
        text = pattern.sub(lambda match: match[0] if _is_within(match, names) else "…", text)
    return text[:_MAX_CHARS]


def _is_within(match: re.Match[str], names: Iterable[str]) -> bool:
    """Return whether a match is a known name, or a part of one."""
    start, end = match.span()
    return any(match.string.find(name, max(0, end - len(name)), start + len(name)) >= 0 for name in names)


def redact_keys(text: str) -> str:
    """Replace what looks like a key by "…"."""
    return _KEY.sub("…", text)


def public_error(error: HoptreeError, remedy: str) -> tuple[str, str]:
    """Return cause and remedy for a client, without sentences about the command line."""
    if type(error) is EndpointError:
        return _public_endpoint_error(error)
    for kind, cause, public_remedy in _PUBLIC_TEXTS:
        if isinstance(error, kind):
            return cause, public_remedy
    kept = " ".join(sentence for sentence in _SENTENCE_END.split(remedy) if not _COMMAND.search(sentence))
    return redact(error.cause), redact(kept)


def public_failure(kind: str, message: str) -> str:
    """Return the text for a client, from the class and message of a failure."""
    for error, cause, remedy in _PUBLIC_TEXTS:
        if error.__name__ == kind:
            return cause if error is InternalError else f"{cause} {remedy}"
    return redact(message)


def _public_endpoint_error(error: EndpointError) -> tuple[str, str]:
    if error.status in (401, 403):
        return f"The endpoint that the server asks refused the server's key (HTTP {error.status}).", ASK_OPERATOR
    if error.status is not None and error.status < 500:
        return f"The endpoint that the server asks refused the request (HTTP {error.status}).", ASK_OPERATOR
    if error.status is not None:
        return f"The endpoint that the server asks failed (HTTP {error.status}).", _LATER
    if error.retryable:
        return "The endpoint that the server asks cannot be reached, or did not answer.", _LATER
    return "The model could not answer.", ASK_OPERATOR
