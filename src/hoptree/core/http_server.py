"""How many connections one address may have at once, so that one machine cannot take the place of all."""

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

from hoptree.core.errors import ConfigError
from hoptree.core.redaction import without_keys

_WAITING = 1_024
"""Connections that wait to be accepted."""


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int, *, remedy: str = "Choose another --port or --host.") -> socket.socket:
    """A socket that listens on an address; 0 is a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(_WAITING)
    except (OSError, UnicodeError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"The server cannot listen on {host}, port {port}: {why}.", remedy) from error
    return listening


def bearer_key(header: str) -> str:
    """The key in the value of an Authorization header; empty where there is none."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


_LOG = logging.getLogger("hoptree.http")


class Crowd:
    """The connections of each address, `each` at most.

    Those of this machine have no bound: to a server behind a proxy here, all clients come from it. Of IPv6, whoever has
    one address has all of its first 64 bits, so these count as one.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._counts: Counter[str] = Counter()
        self._told: set[str] = set()

    def enters(self, host: str) -> bool:
        """Count a connection; whether it may stay."""
        whose = _whose(host)
        self._counts[whose] += 1
        if self._counts[whose] <= self._each or is_loopback(whose):
            return True
        if whose not in self._told:
            self._told.add(whose)
            _LOG.warning("%s has %d connections, and gets no more", whose, self._each)
        return False

    def leaves(self, host: str) -> None:
        whose = _whose(host)
        self._counts[whose] -= 1
        if self._counts[whose] < self._each:
            self._told.discard(whose)
        if not self._counts[whose]:
            del self._counts[whose]


def _whose(host: str) -> str:
    """What an address counts as: itself, the IPv4 address that it stands for, or the network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


_SECONDS = 2.0
_BYTES = 4 * 2**20
"""What a client may take, and send, until the connection is closed for good."""


class Parting:
    """A transport whose `close` lets a client that is sending a body end, or stop: what comes then is thrown away.

    A socket that is closed with something unread in it is reset, and the reply that the client was to read is lost.
    """

    def __init__(self, transport: asyncio.Transport, conversation: h11.Connection) -> None:
        self._transport = transport
        self._conversation = conversation
        self._read = 0
        self._timer: asyncio.TimerHandle | None = None
        self.parting = False
        self.write: Callable[[bytes], None] = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self.parting or self._transport.is_closing()

    def close(self) -> None:
        """Hang up; told so again, at once."""
        sending = self._conversation.their_state is h11.SEND_BODY
        if self.parting or self._transport.is_closing() or not sending:
            self._end()
            return
        self.parting = True
        self.write = _dropped  # what an application says that does not know yet
        self._transport.write_eof()
        self._transport.resume_reading()
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._end)

    def thrown_away(self, data: bytes) -> None:
        """Count what came after the reply."""
        self._read += len(data)
        if self._read > _BYTES:
            self._end()

    def _end(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._transport.close()


def _dropped(data: bytes) -> None:
    """Nobody hears it any more."""


_UNREAD_SECONDS = 30.0
_LEAST_READ = 64 * 2**10
"""Bytes that a client must take within that time, or all that is left."""


def patient(header_seconds: float, body_seconds: float | None = None, *, each: int) -> type[H11Protocol]:
    """HTTP that waits only so long for the head of a request, for its body, and for replies to be read.

    Without `body_seconds` the application sees to bodies. Closing is not enough for a client that does not read:
    a transport that is closed waits for what was written to leave, for ever. An address has `each` connections at most.
    """

    class Patient(_Patient):
        pass

    Patient.header_seconds, Patient.body_seconds, Patient.crowd = header_seconds, body_seconds, Crowd(each)
    return Patient


class _Patient(H11Protocol):
    header_seconds: float
    body_seconds: float | None
    crowd: Crowd
    _host: str
    _timers: dict[str, asyncio.TimerHandle]
    _parting: Parting

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._timers = {}
        self._parting = Parting(transport, self.conn)
        super().connection_made(cast(asyncio.Transport, self._parting))
        self._host = (self.client or ("",))[0]
        if not self.crowd.enters(self._host):
            transport.abort()
            return
        # So that writing counts as paused whenever anything is left unsent.
        transport.set_write_buffer_limits(high=0)
        self._wait("head", self.header_seconds, self._no_head)

    def data_received(self, data: bytes) -> None:
        if self._parting.parting:
            self._parting.thrown_away(data)
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._heard("head")
        elif not self.transport.is_closing():
            self._wait("head", self.header_seconds, self._no_head)
        if self.cycle is not None and self.cycle.more_body and self.body_seconds is not None:
            self._wait("body", self.body_seconds, self.transport.close)
        else:
            self._heard("body")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        self._heard("unread")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.leaves(self._host)
        for name in list(self._timers):
            self._heard(name)
        super().connection_lost(exc)

    def _wait(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        """Begin to wait, unless that is being done."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _heard(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def _no_head(self) -> None:
        self._heard("head")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _watch(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._wait("unread", _UNREAD_SECONDS, lambda: self._look(left))

    def _look(self, before: int) -> None:
        self._heard("unread")
        if self.transport.get_write_buffer_size() > before - _LEAST_READ:
            self.transport.abort()
        else:
            self._watch()


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `stop` in the running loop, each time they come.

    uvicorn raises the signal again at its end, which keeps what is open from being closed, and skips atexit.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
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


_REFUSED_LOG = logging.getLogger("hoptree.refused")
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_LONGEST = 600


def log_refusal(kind: str, *, client: str, cause: str, key: str = "-") -> None:
    """Who was refused, and why; `key` is the name of one that is known, and never a key itself."""
    _REFUSED_LOG.warning("refused %s key=%s from %s: %s", kind, key, client, as_line(cause))


def as_line(text: str) -> str:
    """A text on one line of the log, without keys: causes quote what clients sent."""
    shown = "".join(letter if letter.isprintable() else " " for letter in without_keys(text))
    return " ".join(shown.split())[:_LONGEST]
