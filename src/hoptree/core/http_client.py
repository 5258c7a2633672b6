"""A small HTTP/1.1 client over asyncio with keep-alive, TLS and proxies.

httpx takes ten times the CPU per request and 0.2 s to import, which would be most of the start of `hoptree ask`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import ssl
import sys
import time
import zlib
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from hoptree.core.backoff import retry_after_s
from hoptree.core.errors import ConfigError, EndpointError, RateLimited, UnusableReply
from hoptree.core.http_body import describe_body, error_text, parse_json, read_body

MAX_BODY_BYTES = 16 * 2**20  # a longer response is an error, as some servers never end their reply
_CONNECT_TIMEOUT_S = 10.0
_MAX_IDLE_S = 5.0  # older idle connections are closed: a firewall may have dropped them, and the request would be lost
_MAX_HEADERS = 200
_MAX_INTERIM = 10  # interim replies (1xx) before the final one
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |\r?\n)")
_encode = json.JSONEncoder(separators=(",", ":")).encode
_CREDENTIALS = re.compile(r"^(\w+://|(?!\w+://))(?:[^/]*@|[^/:@\[]*:(?!\d+(?:/|$))[^@]*@)")  # also with a bare "/"
_SECRET_PARAMETER = re.compile(r"(?i)([?&;][\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|sig|signature)=)[^&;#]+")
_MIN_SECRET_CHARS = 8  # a shorter key is a placeholder such as "EMPTY", and may be a word of a message
_PATH_CHARS = "!#$%&'()*+,/:;=?@[]~"

Response = tuple[int, Mapping[str, str], bytes]  # status, headers (names in lower case) and body


class InvalidUrl(Exception):
    """The URL cannot be requested."""


class Unreachable(Exception):
    """No connection could be made."""


class ConnectionBroken(Exception):
    """The connection ended before the reply did, or the reply is not HTTP."""


class BodyTooLarge(Exception):
    """The reply has more bytes than the limit."""


class HttpClient:
    """A server at a base URL, over keep-alive connections that are opened when needed.

    `url_source` names for the user where the URL came from. `unreachable_remedy` replaces the advice to start the
    server, for servers such as Wikipedia's.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 120.0,
        url_source: str = "its URL",
        max_body: int = MAX_BODY_BYTES,
        unreachable_remedy: str = "",
    ) -> None:
        self.url = url.rstrip("/")
        self.shown = without_password(self.url)
        if not _is_url(self.url):
            cause = f"'{self.shown}' is not a base URL."
            raise ConfigError(cause, "It begins with http:// or https:// and often ends in /v1.")
        self._headers = dict(headers or {})
        self._timeout, self._url_source, self._max_body = timeout, url_source, max_body
        self._unreachable_remedy = unreachable_remedy
        sent = (*self._headers.get("Authorization", "").split()[1:], *_basic_auth(urlsplit(self.url)).split()[1:])
        self._secrets = [secret.encode() for secret in sent if len(secret) >= _MIN_SECRET_CHARS]
        self._connections = ConnectionPool()

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of a reply; raise for any status but success."""
        status, headers, received = await self.send(method, path, body)
        if not 200 <= status < 300:
            raise self.failure(status, headers, received)
        return await read_body(self.parse, received)

    def parse(self, received: bytes) -> Any:
        """Parse a body that should hold JSON."""
        try:
            return parse_json(received)
        except (ValueError, RecursionError) as error:
            cause = f"{self.shown} answered with {describe_body(received)} instead of JSON."
            raise UnusableReply(cause, f"Check {self._url_source}.") from error

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Response:
        """Send a request with a JSON `body` or raw `content`; return any response."""
        sent = {**self._headers, **(headers or {})}
        if body is not None:
            content = _encode(body).encode()
            sent["Content-Type"] = "application/json"
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._connections.send(
                    method, f"{self.url}{path}", content or b"", sent, self._max_body
                )
            status, fields, received = response
            return response if 200 <= status < 300 else (status, fields, self.without_secrets(received))
        except TimeoutError as error:
            cause = f"{self.shown} did not answer within {self._timeout:g} seconds."
            remedy = self._unreachable_remedy or "Check that the server is running and not overloaded."
            raise EndpointError(cause, remedy, retryable=True) from error
        except Unreachable as error:
            remedy = self._unreachable_remedy or f"Start the server, or correct {self._url_source}."
            raise EndpointError(f"{self.shown} cannot be reached ({error}).", remedy, retryable=True) from error
        except ConnectionBroken as error:
            cause = f"The connection to {self.shown} broke off ({error})."
            raise EndpointError(cause, "Try again.", retryable=True) from error
        except BodyTooLarge as error:
            cause = f"{self.shown} sent a reply without end."
            raise UnusableReply(cause, "Look at what the server answers.") from error
        except InvalidUrl as error:
            raise ConfigError(f"'{self.shown}' is not a base URL ({error}).", f"Correct {self._url_source}.") from error

    def without_secrets(self, body: bytes) -> bytes:
        """Return a body without the key that was sent, which some endpoints quote."""
        for secret in self._secrets:
            body = body.replace(secret, "…".encode())
        return body

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> EndpointError:
        """Build the error for a status that is not success."""
        message = error_text(body)
        quoted = f": {message[:300]}" if message else ""
        if status == 429:
            cause = f"{self.shown} asks for fewer requests (HTTP 429{quoted})."
            remedy = "Wait a little or lower --concurrency; replies in the cache are kept."
            retryable = "quota" not in message and "billing" not in message  # waiting does not pay a bill
            return RateLimited(cause, remedy, status=status, retryable=retryable, retry_after=retry_after_s(headers))
        if status >= 500 or status in (408, 409, 425):
            cause = f"{self.shown} failed (HTTP {status}{quoted})."
            remedy = "Try again later; replies in the cache are kept."
            return EndpointError(cause, remedy, status=status, retryable=True, retry_after=retry_after_s(headers))
        if status in (401, 403):
            cause, remedy = f"refused the key (HTTP {status}{quoted})", "Give a key or password that it accepts."
        elif 300 <= status < 400:
            cause, remedy = f"sends requests elsewhere (HTTP {status})", f"Correct {self._url_source}."
        elif status == 404:
            cause, remedy = f"has no such page (HTTP 404{quoted})", f"Check that {self._url_source} is complete."
        else:
            cause, remedy = f"refused the request (HTTP {status}{quoted})", "Look at what it says."
        return EndpointError(f"{self.shown} {cause}.", remedy, status=status, exit_code=2)

    async def aclose(self) -> None:
        self._connections.close()


class ConnectionPool:
    """Connections to one server, one for each request in progress, kept for others."""

    def __init__(self) -> None:
        self._idle: list[tuple[_Connection, float]] = []
        self._proxy_for = lru_cache(maxsize=64)(_proxy_for)

    async def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str], max_body: int) -> Response:
        """Exchange one request and response; failures are the exceptions of this module."""
        parts = urlsplit(url)
        proxy = self._proxy_for(parts)
        message = _request_head(method, parts, headers, len(body), proxy) + body
        connection = self._take_idle() or await _connect(parts, proxy)
        finished = False
        try:
            response = await connection.exchange(message, max_body, bodiless=method == "HEAD")
            finished = True
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise ConnectionBroken(type(error).__name__) from error
        finally:
            if finished and connection.reusable:
                self._idle.append((connection, time.monotonic()))
            else:
                connection.close()
        return response

    def _take_idle(self) -> _Connection | None:
        """Return the connection that was used last and is still open."""
        while self._idle:
            connection, since = self._idle.pop()
            if connection.reusable and time.monotonic() - since < _MAX_IDLE_S:
                return connection
            connection.close()
        return None

    def close(self) -> None:
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()


def _request_head(
    method: str, parts: SplitResult, headers: Mapping[str, str], body_length: int, proxy: SplitResult | None
) -> bytes:
    head = _fixed_head(method, parts, tuple(headers.items()), proxy)
    if body_length or method not in ("GET", "HEAD"):
        return head + b"Content-Length: %d\r\n\r\n" % body_length
    return head + b"\r\n"


@lru_cache(maxsize=256)
def _fixed_head(
    method: str, parts: SplitResult, headers: tuple[tuple[str, str], ...], proxy: SplitResult | None
) -> bytes:
    """Return the request line and headers that many requests share, with line ends."""
    target = quote(parts.path or "/", _PATH_CHARS) + (f"?{quote(parts.query, _PATH_CHARS)}" if parts.query else "")
    tls = parts.scheme == "https"
    host = _ascii_host(parts)
    # Without TLS the server is on this machine or network, where decompression costs more than it saves.
    encoding = "gzip" if tls else "identity"
    fields = {"Host": host, "Accept": "*/*", "Accept-Encoding": encoding, "User-Agent": "Hoptree", **dict(headers)}
    if authorization := _basic_auth(parts):
        fields["Authorization"] = authorization
    if proxy is not None and not tls:
        target = f"http://{host}{target}"
        if authorization := _basic_auth(proxy):
            fields["Proxy-Authorization"] = authorization
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ConnectionBroken("a header with a line end")
    try:
        return ("\r\n".join(lines) + "\r\n").encode("latin-1")
    except UnicodeError as error:
        raise ConnectionBroken("a header that is not Latin-1") from error


def _ascii_host(parts: SplitResult) -> str:
    """Return host and port for the Host header, without user name and password."""
    host = parts.netloc.rpartition("@")[2]
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise InvalidUrl(str(error)) from error


def _basic_auth(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _proxy_for(parts: SplitResult) -> SplitResult | None:
    """Return the proxy for a URL by http_proxy, https_proxy, all_proxy and no_proxy."""
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # slow to import; reads the settings of macOS and Windows too

    proxies = getproxies()
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = urlsplit(address if "://" in address else f"http://{address}")
    if proxy.scheme not in ("http", "https") or not _is_url(proxy.geturl()):
        remedy = f"Set {parts.scheme}_proxy to an http:// or https:// address, or except the server with no_proxy."
        raise ConfigError(f"The proxy {without_password(address)} cannot be used.", remedy)
    return proxy


async def _connect(parts: SplitResult, proxy: SplitResult | None) -> _Connection:
    tls, first_hop = parts.scheme == "https", proxy or parts
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            context = tls_context() if first_hop.scheme == "https" else None
            port = first_hop.port or (80 if context is None else 443)
            streams = await asyncio.open_connection(first_hop.hostname, port, ssl=context)
            connection = _Connection(*streams)
            if proxy is not None and tls:
                try:
                    await connection.start_tunnel(parts, proxy)
                except BaseException:
                    connection.close()
                    raise
            return connection
    except UnicodeError as error:
        raise InvalidUrl(str(error)) from error
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise Unreachable(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error


@cache
def tls_context() -> ssl.SSLContext:
    """Trust the authorities of $SSL_CERT_FILE or $SSL_CERT_DIR, else those of certifi."""
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        context = ssl.create_default_context()
    else:
        import certifi

        context = ssl.create_default_context(cafile=certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Connection:
    """A connection that serves one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._keep_alive = True

    @property
    def reusable(self) -> bool:
        return self._keep_alive and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def start_tunnel(self, parts: SplitResult, proxy: SplitResult) -> None:
        """Have the proxy connect to the server, and begin TLS with the server."""
        target = _ascii_host(parts) if parts.port else f"{_ascii_host(parts)}:443"
        authorization = _basic_auth(proxy)
        extra = f"Proxy-Authorization: {authorization}\r\n" if authorization else ""
        self._writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{extra}\r\n".encode("latin-1"))
        await self._writer.drain()
        status, _, _ = await self._read_head()
        if not 200 <= status < 300:
            raise OSError(f"the proxy answered HTTP {status}")
        await self._writer.start_tls(tls_context(), server_hostname=parts.hostname)

    async def exchange(self, message: bytes, max_body: int, *, bodiless: bool) -> Response:
        """Send a request and read the reply.

        Raise ValueError if it is not HTTP, EOFError if it breaks off.
        """
        self._writer.write(message)
        await self._writer.drain()
        status, version, headers = await self._read_head()
        for _ in range(_MAX_INTERIM):
            if status >= 200:
                break
            status, version, headers = await self._read_head()
        else:
            raise ValueError("interim replies without end")
        self._keep_alive = version == 1 and headers.get("connection", "").lower() != "close"
        if bodiless or status in (204, 304):
            return status, headers, b""
        body = await self._read_body(headers, max_body)
        if headers.get("content-encoding", "identity") != "identity":
            body = zlib.decompressobj(wbits=47).decompress(body, max_body + 1)  # 47: gzip or zlib
        if len(body) > max_body:
            raise BodyTooLarge
        return status, headers, body

    async def _read_head(self) -> tuple[int, int, dict[str, str]]:
        """Read the status, the minor version of HTTP/1 and the headers."""
        line = await self._reader.readline()
        if not line:
            raise EOFError
        status_line = _STATUS_LINE.match(line)
        if status_line is None:
            raise ValueError("no HTTP")
        headers: dict[str, str] = {}
        for _ in range(_MAX_HEADERS):
            line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            if line in (b"\r\n", b"\n"):
                return int(status_line[2]), int(status_line[1]), headers
            name, _, value = line.decode("latin-1").partition(":")
            name = name.strip().lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        raise ValueError("headers without end")

    async def _read_body(self, headers: Mapping[str, str], max_body: int) -> bytes:
        if headers.get("transfer-encoding", "").lower().endswith("chunked"):
            return await self._read_chunks(max_body)
        if (length := headers.get("content-length")) is not None:
            if int(length) > max_body:
                raise BodyTooLarge
            return await self._reader.readexactly(int(length))
        self._keep_alive = False
        received = bytearray()
        while (part := await self._reader.read(1 << 16)) and len(received) <= max_body:
            received += part
        return bytes(received)

    async def _read_chunks(self, max_body: int) -> bytes:
        received = bytearray()
        while size := int((await self._reader.readline()).partition(b";")[0], 16):
            if size < 0 or len(received) + size > max_body:
                raise BodyTooLarge
            received += await self._reader.readexactly(size)
            await self._reader.readline()
        for _ in range(_MAX_HEADERS):
            if not (await self._reader.readline()).strip():
                return bytes(received)
        raise ValueError("trailers without end")


def key_header(variable: str, scheme: str = "Bearer") -> dict[str, str]:
    """Return the header with the key in an environment variable; {} without a key."""
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError("The key holds a character that no key has.", f"Copy {variable} again.")
    return {"Authorization": f"{scheme} {key}"} if key else {}


def without_password(url: str) -> str:
    """Return a URL for messages and traces, without user, password and keys."""
    return _SECRET_PARAMETER.sub(r"\1…", _CREDENTIALS.sub(r"\1", url))


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port out of range, brackets that do not close
        return False
