"""What a server of ours puts up with from a client: how slowly it sends and reads, and how often it is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from hoptree.http.crowding import Crowd
from hoptree.http.hanging_up import Parting

__all__ = ["patient"]

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
