"""What brings a request to a server and the reply back, and how it can fail."""

from __future__ import annotations

import asyncio
import json
import re
import time
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from hoptree.core.errors import ConfigError, EndpointError, RateLimited, UnusableReply

if TYPE_CHECKING:
    import ssl

    import httpx


CONNECT_SECONDS = 10.0


class Bad(Exception):
    """The URL cannot be asked for."""


class Unreachable(Exception):
    """No connection could be made."""


class BrokenOff(Exception):
    """The connection ended before the reply did, or what came over it is not HTTP."""


class TooLong(Exception):
    """The reply has more bytes than are read."""


class Carrier(Protocol):
    """Keep-alive connections to one server."""

    async def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], max_body: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers (in lower case) and body of a reply; failures are the errors of this module."""

    async def aclose(self) -> None: ...


class General:
    """A client for each request under way, kept for the next.

    One client with many connections would look at all of them before and after each request, which with a hundred
    takes five times as long as the request itself.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._clients: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []
        self._verify: ssl.SSLContext | bool | None = None

    async def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], max_body: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        import httpx  # takes 0.1 s to import, and most starts send nothing

        client = self._idle.pop() if self._idle else self._open(url)
        try:
            async with client.stream(method, url, content=body, headers=dict(headers)) as response:
                received = bytearray()
                async for chunk in response.aiter_bytes():
                    received += chunk
                    if len(received) > max_body:
                        raise TooLong
                return response.status_code, response.headers, bytes(received)
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except httpx.ConnectError as error:
            raise Unreachable(str(error)) from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise BrokenOff(type(error).__name__) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Bad(str(error)) from error
        finally:
            self._idle.append(client)

    def _open(self, url: str) -> httpx.AsyncClient:
        import httpx

        # Without TLS there is no need to load certificates, which takes longer than a request; with it, once is enough.
        if self._verify is None:
            self._verify = httpx.create_ssl_context() if url.startswith("https://") else False
        timeout = httpx.Timeout(self._timeout, connect=CONNECT_SECONDS)
        client = httpx.AsyncClient(timeout=timeout, verify=self._verify)
        self._clients.append(client)
        return client

    async def aclose(self) -> None:
        clients, self._clients, self._idle = self._clients, [], []
        for client in clients:
            await client.aclose()


_PLAIN = re.compile(r"http://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?(?:/[!-~]*)?")
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |\r?\n)")
_SPARE_SECONDS = 5.0
"""How long an idle connection is used again: one that a firewall forgot would swallow the request."""
_MOST_HEADERS = 200


def is_plain(url: str) -> bool:
    """Whether a server can be spoken to without more than plain HTTP: no TLS, password, proxy or unusual name."""
    if not _PLAIN.fullmatch(url):
        return False
    proxies = getproxies()
    return not (proxies.get("http") or proxies.get("all")) or bool(proxy_bypass(urlsplit(url).netloc))


class Plain:
    """A connection for each request under way, kept for the next."""

    def __init__(self) -> None:
        self._idle: list[tuple[_Connection, float]] = []

    async def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], max_body: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", "Accept: */*", "Accept-Encoding: identity"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise BrokenOff("a header with a line end")
        if body or method not in ("GET", "HEAD"):
            lines.append(f"Content-Length: {len(body)}")
        connection = self._spare() or await _connect(parts.hostname or "", parts.port or 80)
        whole = False
        try:
            message = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
            reply = await connection.exchange(message, max_body, bodiless=method == "HEAD")
            whole = True
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise BrokenOff(type(error).__name__) from error
        finally:
            if whole and connection.reusable:
                self._idle.append((connection, time.monotonic()))
            else:
                connection.close()
        return reply

    def _spare(self) -> _Connection | None:
        """The connection that was used last, if the server still holds it."""
        while self._idle:
            connection, since = self._idle.pop()
            if connection.reusable and time.monotonic() - since < _SPARE_SECONDS:
                return connection
            connection.close()
        return None

    async def aclose(self) -> None:
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


async def _connect(host: str, port: int) -> _Connection:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return _Connection(*await asyncio.open_connection(host, port))
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        raise Unreachable(error.strerror or str(error)) from error


class _Connection:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._kept = True

    @property
    def reusable(self) -> bool:
        return self._kept and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def exchange(self, message: bytes, max_body: int, *, bodiless: bool) -> tuple[int, dict[str, str], bytes]:
        """Send a request and read the whole reply; what is no HTTP raises a ValueError, a sudden end an EOFError."""
        self._writer.write(message)
        await self._writer.drain()
        status, version = 100, 1
        while status < 200:
            status, version, headers = await self._head()
        self._kept = version == 1 and headers.get("connection", "").lower() != "close"
        if bodiless or status in (204, 304):
            return status, headers, b""
        body = await self._body(headers, max_body)
        if headers.get("content-encoding", "identity") != "identity":
            body = zlib.decompressobj(wbits=47).decompress(body, max_body + 1)  # nobody asked for it
        if len(body) > max_body:
            raise TooLong
        return status, headers, body

    async def _head(self) -> tuple[int, int, dict[str, str]]:
        line = await self._reader.readline()
        if not line:
            raise EOFError
        found = _STATUS.match(line)
        if found is None:
            raise ValueError("no HTTP")
        headers: dict[str, str] = {}
        for _ in range(_MOST_HEADERS):
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            if line in (b"\r\n", b"\n"):
                return int(found[2]), int(found[1]), headers
            name, _, value = line.decode("latin-1").partition(":")
            name = name.strip().lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        raise ValueError("headers without end")

    async def _body(self, headers: Mapping[str, str], max_body: int) -> bytes:
        if headers.get("transfer-encoding", "").lower().endswith("chunked"):
            return await self._chunks(max_body)
        if (length := headers.get("content-length")) is not None:
            if int(length) > max_body:
                raise TooLong
            return await self._reader.readexactly(int(length))
        self._kept = False
        received = bytearray()
        while (part := await self._reader.read(1 << 16)) and len(received) <= max_body:
            received += part
        return bytes(received)

    async def _chunks(self, max_body: int) -> bytes:
        received = bytearray()
        while size := int((await self._reader.readline()).partition(b";")[0], 16):
            if size < 0 or len(received) + size > max_body:
                raise TooLong
            received += await self._reader.readexactly(size)
            await self._reader.readline()
        while (await self._reader.readline()).strip():
            pass
        return bytes(received)


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
