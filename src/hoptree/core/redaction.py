"""What is told of an error to somebody on another machine: a cause and a remedy, and nothing of this one.

Paths, addresses of endpoints, what endpoints say and commands stay inside: they are for whoever runs the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hoptree.core.errors import (
    CacheError,
    EndpointError,
    HoptreeError,
    IndexUnavailable,
    InternalError,
    MissingModel,
    ModelError,
    RateLimited,
    RequestTooLong,
    UnusableReply,
)

_PATH = re.compile(r"(?<![\w/.:])(?:file:/|/|~/|[A-Za-z]:\\)[^\s'\",;()<>]*[/\\][^\s'\",;()<>]*")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;()<>]+", re.IGNORECASE)
_SOCKET = re.compile(
    r"\('[^'\s]*', \d+(?:, \d+)*\)|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b[a-z][\w.-]*:\d{2,5}\b", re.IGNORECASE
)
_KEY = re.compile(r"\b(?:sk|pk|rk|hf|gsk|xai)[-_](?=[\w-]*\d)[\w-]{16,}|\bBearer\s+\S{8,}", re.IGNORECASE)
"""As providers make them: long, and with digits. Names of files and people begin like that as well."""
ASK_WHO_RUNS_IT = "Tell whoever runs the server; its log says more."
_LATER = "Ask again later, or tell whoever runs the server."
_INSIDE = "Something went wrong inside Hoptree."
_OUTSIDE: tuple[tuple[type[HoptreeError], str, str], ...] = (
    (RateLimited, "The endpoint that the server asks wants fewer requests.", "Wait as long as Retry-After says."),
    (RequestTooLong, "The request is longer than the model takes.", "Ask a shorter question, or for fewer passages."),
    (EndpointError, "An endpoint that the server asks failed.", _LATER),
    (UnusableReply, "The endpoint that the server asks sent a reply that cannot be read.", ASK_WHO_RUNS_IT),
    (ModelError, "The model could not do what the method asks of it.", "Choose another method or model."),
    (CacheError, "The server cannot remember replies.", ASK_WHO_RUNS_IT),
    (MissingModel, "The model is not there.", ASK_WHO_RUNS_IT),
    (IndexUnavailable, "The corpus cannot be used at this moment.", "Ask again later."),
    (InternalError, _INSIDE, "The server's log says more; try again."),
)
"""What is told of errors whose own words come from elsewhere, or are about what only the server's runner sees."""
_COMMAND = re.compile(r"\bhoptree [a-z]|(?<!\w)--[a-z]|\bpip install|\b[A-Z]+_API_KEY\b")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_LONGEST = 2_000


def hidden(text: str, *, known: Iterable[str] = ()) -> str:
    """A message without paths of this machine, addresses of endpoints and keys.

    It is the second line only: what comes from endpoints is not told at all. What stands within a `known` name, of a
    file or a passage that the client has seen, stays, whatever it looks like.
    """
    names = [name for name in known if name in text]
    for pattern in (_ADDRESS, _PATH, _SOCKET, _KEY):
        text = pattern.sub(lambda found: found[0] if _is_within(found, names) else "…", text)
    return text[:_LONGEST]


def _is_within(found: re.Match[str], names: Iterable[str]) -> bool:
    """Whether what was found is a part of a name, or a whole one."""
    start, end = found.span()
    return any(found.string.find(name, max(0, end - len(name)), start + len(name)) >= 0 for name in names)


def without_keys(text: str) -> str:
    """A message without what looks like a key."""
    return _KEY.sub("…", text)


def told_outside(error: HoptreeError, remedy: str) -> tuple[str, str]:
    """Cause and remedy of an error, of which the `remedy` is put as the client would; none about the command line."""
    for known, cause, instead in _OUTSIDE:
        if isinstance(error, known):
            return _of_endpoint(error) if type(error) is EndpointError else (cause, instead)
    kept = " ".join(one for one in _SENTENCE.split(remedy) if not _COMMAND.search(one))
    return hidden(error.cause), hidden(kept)


def told_failure(kind: str, message: str) -> str:
    """What is told of a failure of which a trace has only the class and the message."""
    for known, cause, remedy in _OUTSIDE:
        if known.__name__ == kind:
            return cause if known is InternalError else f"{cause} {remedy}"
    return hidden(message)


def _of_endpoint(error: EndpointError) -> tuple[str, str]:
    if error.status in (401, 403):
        return f"The endpoint that the server asks refused the server's key (HTTP {error.status}).", ASK_WHO_RUNS_IT
    if error.status is not None and error.status < 500:
        return f"The endpoint that the server asks refused the request (HTTP {error.status}).", ASK_WHO_RUNS_IT
    if error.status is not None:
        return f"The endpoint that the server asks failed (HTTP {error.status}).", _LATER
    if error.retryable:
        return "The endpoint that the server asks cannot be reached, or did not answer.", _LATER
    return "The model could not answer.", ASK_WHO_RUNS_IT
