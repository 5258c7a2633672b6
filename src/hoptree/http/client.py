"""One server spoken to over HTTP: whatever goes wrong on the way becomes a typed error."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from hoptree.errors import ConfigError, EndpointError, RateLimited, UnusableReply
from hoptree.http.carrier import Bad, BrokenOff, Carrier, TooLong, Unreachable
from hoptree.http.general import General
from hoptree.http.plain import Plain, is_plain

__all__ = ["MAX_BODY", "Http", "error_text", "kind_of_body", "without_password"]

MAX_BODY = 16 * 2**20
"""Bytes of a response that are read; a server that never ends its reply is cut off here."""


class Http:
    """A server at a base URL, over keep-alive connections that are made when they are first needed.

    `given_as` tells a person where the URL came from; `max_body` is how many bytes of a reply are read. `elsewhere` is
    what to do where a server cannot be reached that nobody here can start, such as Wikipedia's.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        given_as: str = "its URL",
        max_body: int = MAX_BODY,
        elsewhere: str = "",
    ) -> None:
        self.url = url.rstrip("/")
        self.shown = without_password(self.url)
        if not _is_url(self.url):
            raise ConfigError(
                f"'{self.shown}' is no base URL.", "It begins with http:// or https:// and often ends in /v1."
            )
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._given_as = given_as
        self._max_body = max_body
        self._elsewhere = elsewhere
        self._open: Carrier | None = None

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a reply; any status but success is raised."""
        status, headers, received = await self.send(method, path, body)
        if not 200 <= status < 300:
            raise self.failure(status, headers, received)
        return self.parse(received)

    def parse(self, received: bytes) -> Any:
        """The JSON of a body that should hold some."""
        try:
            return json.loads(received)
        except (ValueError, RecursionError) as error:
            raise UnusableReply(
                f"{self.shown} answered with {kind_of_body(received)} instead of JSON.", f"Check {self._given_as}."
            ) from error

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of the reply to a request with `body` as its JSON, or with `content` as it is."""
        sent = {**self._headers, **(headers or {})}
        if body is not None:
            content = json.dumps(body, separators=(",", ":")).encode()
            sent["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(self._timeout):
                return await self._carrier().send(method, f"{self.url}{path}", content or b"", sent, self._max_body)
        except TimeoutError as error:
            raise EndpointError(
                f"{self.shown} did not answer within {self._timeout:g} seconds.",
                self._elsewhere or "Check that the server is running and not overloaded.",
                retryable=True,
            ) from error
        except Unreachable as error:
            raise EndpointError(
                f"{self.shown} cannot be reached ({error}).",
                self._elsewhere or f"Start the server, or correct {self._given_as}.",
                retryable=True,
                exit_code=1 if self._elsewhere else 2,
            ) from error
        except BrokenOff as error:
            raise EndpointError(
                f"The connection to {self.shown} broke off ({error}).", "Try again.", retryable=True
            ) from error
        except TooLong as error:
            raise UnusableReply(
                f"{self.shown} sent a reply without end.", "Look at what the server answers."
            ) from error
        except Bad as error:
            raise ConfigError(f"'{self.shown}' is no base URL ({error}).", f"Correct {self._given_as}.") from error

    def _carrier(self) -> Carrier:
        if self._open is None:
            self._open = Plain() if is_plain(self.url) else General(self._timeout)
        return self._open

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> EndpointError:
        """The error for a status that is not success."""
        said = error_text(body)
        quoted = f": {said[:300]}" if said else ""
        if status == 429:
            return RateLimited(
                f"{self.shown} asks for fewer requests (HTTP 429{quoted}).",
                "Wait a little or lower --concurrency; replies in the cache are kept.",
                status=status,
                retryable="quota" not in said and "billing" not in said,  # waiting does not pay a bill
                retry_after=_retry_after(headers),
            )
        if status >= 500 or status in (408, 409, 425):
            return EndpointError(
                f"{self.shown} failed (HTTP {status}{quoted}).",
                "Try again later; replies in the cache are kept.",
                status=status,
                retryable=True,
                retry_after=_retry_after(headers),
            )
        if status in (401, 403):
            cause, remedy = f"refused the key (HTTP {status}{quoted})", "Give a key or password that it accepts."
        elif status == 404:
            cause, remedy = f"has no such page (HTTP 404{quoted})", f"Check that {self._given_as} is complete."
        else:
            cause, remedy = f"refused the request (HTTP {status}{quoted})", "Look at what it says."
        return EndpointError(f"{self.shown} {cause}.", remedy, status=status, exit_code=2)

    async def aclose(self) -> None:
        if self._open is not None:
            await self._open.aclose()
            self._open = None


def error_text(body: bytes) -> str:
    """What an error response says, in one line; nothing if it is a page and not a message."""
    try:
        data = json.loads(body)
        error = data.get("error", data.get("detail", data.get("message", "")))
        said = error.get("message", error.get("reason", "")) if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        return ""
    return " ".join(str(said).split())


def kind_of_body(body: bytes) -> str:
    """What a body that cannot be read looks like, in words."""
    start = body.lstrip()[:200].lower()
    if not start:
        return "nothing"
    if start.startswith(b"<"):
        return "a web page"
    return "half a JSON object" if start.startswith(b"{") else "something else"


def without_password(url: str) -> str:
    """The URL as it may be shown and written to a trace."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return scheme + separator + host.rpartition("@")[2] + slash + path


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000
        value = headers.get("retry-after")
        if value is None:
            return None
        return (
            float(value)
            if value.replace(".", "", 1).isdigit()
            else parsedate_to_datetime(value).timestamp() - time.time()
        )
    except (ValueError, TypeError):
        return None


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, brackets that do not close
        return False
