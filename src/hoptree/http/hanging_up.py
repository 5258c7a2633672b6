"""Hanging up on a client that is still sending, so that it gets to read why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11

__all__ = ["Parting"]

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
