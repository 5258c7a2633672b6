"""Shared parts of the HTTP servers: sockets, limits, timeouts, signals, log lines."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hoptree.core.config import is_loopback
from hoptree.core.errors import ConfigError, redact_keys

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_LOG = logging.getLogger("hoptree.http")
_REFUSED_LOG = logging.getLogger("hoptree.refused")
_MAX_LOG_CHARS = 600
_BACKLOG = 1_024  # connections that wait to be accepted
_LINGER_S, _LINGER_BYTES = 2.0, 4 * 2**20  # how much a client may still send before its connection is closed for good
_UNREAD_TIMEOUT_S, _MIN_READ_BYTES = 30.0, 64 * 2**10  # a client must read this much in this time, or all that is left
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def listen(host: str, port: int, *, remedy: str = "Choose another --port or --host.") -> socket.socket:
    """Open a listening socket; port 0 takes a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that name their protocol; without it a body is sent 40 ms after its head.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"The server cannot listen on {host}, port {port}: {why}.", remedy) from error
    return listening


def bearer_key(header: str) -> str:
    """Return the bearer key in the value of an Authorization header, or ""."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


class ConnectionLimit:
    """Count the connections of each address, so that one machine cannot take all.

    Loopback has no limit: behind a proxy on this machine all clients come from it. An IPv6 client owns all addresses
    with its first 64 bits, so these count as one.
    """

    def __init__(self, per_address: int) -> None:
        self._per_address = per_address
        self._counts: Counter[str] = Counter()
        self._warned: set[str] = set()

    def admit(self, host: str) -> bool:
        """Count a connection; return whether it may stay."""
        client = _client_address(host)
        self._counts[client] += 1
        if self._counts[client] <= self._per_address or is_loopback(client):
            return True
        if client not in self._warned:
            self._warned.add(client)
            _LOG.warning("%s has %d connections, and gets no more", client, self._per_address)
        return False

    def release(self, host: str) -> None:
        client = _client_address(host)
        self._counts[client] -= 1
        if self._counts[client] < self._per_address:
            self._warned.discard(client)
        if not self._counts[client]:
            del self._counts[client]


def _client_address(host: str) -> str:
    """Return an IPv4 address, also if mapped in IPv6, or the /64 network of another."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


class LingeringTransport:
    """A transport whose `close` first reads on while a client is still sending a body.

    A socket that is closed with unread data in it is reset, and the client loses the reply.
    """

    def __init__(self, transport: asyncio.Transport, http: h11.Connection) -> None:
        self._transport, self._http = transport, http
        self._discarded = 0
        self._timer: asyncio.TimerHandle | None = None
        self.lingering = False
        self.write: Callable[[bytes], None] = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.lingering or self._transport.is_closing()

    def close(self) -> None:
        """Close once the client has sent its body or lingered; a second call does at once."""
        sending = self._http.their_state is h11.SEND_BODY
        if self.lingering or self._transport.is_closing() or not sending:
            self._end()
            return
        self.lingering = True
        self.write = lambda data: None  # the application may still write
        self._transport.write_eof()
        self._transport.resume_reading()
        self._timer = asyncio.get_running_loop().call_later(_LINGER_S, self._end)

    def discard(self, data: bytes) -> None:
        """Drop data that arrived after the reply; close after too much of it."""
        self._discarded += len(data)
        if self._discarded > _LINGER_BYTES:
            self._end()

    def _end(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._transport.close()


def protocol_with_timeouts(
    header_seconds: float, body_seconds: float | None = None, *, per_address: int
) -> type[H11Protocol]:
    """Make an HTTP protocol with a connection limit and timeouts.

    Without `body_seconds` the application limits bodies itself. A client that does not read is aborted, not closed: a
    closed transport waits for ever to send what was written.
    """
    limits = {"header_s": header_seconds, "body_s": body_seconds, "connection_limit": ConnectionLimit(per_address)}
    return type("TimedProtocol", (_TimedProtocol,), limits)


class _TimedProtocol(H11Protocol):
    header_s: float
    body_s: float | None
    connection_limit: ConnectionLimit
    _host: str
    _timers: dict[str, asyncio.TimerHandle]
    _lingering: LingeringTransport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._timers = {}
        self._lingering = LingeringTransport(transport, self.conn)
        super().connection_made(cast(asyncio.Transport, self._lingering))
        self._host = (self.client or ("",))[0]
        if not self.connection_limit.admit(self._host):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=0)  # calls `pause_writing` whenever anything is left unsent
        self._start_timer("head", self.header_s, self._head_timed_out)

    def data_received(self, data: bytes) -> None:
        if self._lingering.lingering:
            self._lingering.discard(data)
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer("head")
        elif not self.transport.is_closing():
            self._start_timer("head", self.header_s, self._head_timed_out)
        if self.cycle is not None and self.cycle.more_body and self.body_s is not None:
            self._start_timer("body", self.body_s, self.transport.close)
        else:
            self._stop_timer("body")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        self._stop_timer("unread")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection_limit.release(self._host)
        for name in list(self._timers):
            self._stop_timer(name)
        super().connection_lost(exc)

    def _start_timer(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        """Start a timer unless it is running."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _stop_timer(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def _head_timed_out(self) -> None:
        self._stop_timer("head")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _watch_reading(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._start_timer("unread", _UNREAD_TIMEOUT_S, lambda: self._check_reading(unsent))

    def _check_reading(self, unsent_before: int) -> None:
        self._stop_timer("unread")
        if self.transport.get_write_buffer_size() > unsent_before - _MIN_READ_BYTES:
            self.transport.abort()
        else:
            self._watch_reading()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM call `stop` in the running loop, each time they come.

    uvicorn's own handler raises the signal again at its end, which skips clean-up and atexit.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_refusal(kind: str, *, client: str, cause: str, key: str = "-") -> None:
    """Log a refused client and the cause; `key` is the name of a key, not the key."""
    _REFUSED_LOG.warning("refused %s key=%s from %s: %s", kind, key, client, log_line(cause))


def log_line(text: str) -> str:
    """Return a text on one line, without keys that a client may have sent."""
    printable = "".join(letter if letter.isprintable() else " " for letter in redact_keys(text))
    return " ".join(printable.split())[:_MAX_LOG_CHARS]
