"""HTTP/1.1 without TLS or proxy, as it is spoken with a server on this machine or next door.

That is where hundreds of replies come in a second, and where the general client takes more time for a request than all
else together.
"""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from hoptree.http.carrier import CONNECT_SECONDS, BrokenOff, TooLong, Unreachable

__all__ = ["Plain", "is_plain"]

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
