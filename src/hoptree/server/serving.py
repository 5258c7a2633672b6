"""Running the application: a listening socket, slow clients, and a stop in order."""

from __future__ import annotations

import asyncio
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from hoptree.errors import ConfigError
from hoptree.server.app import house_of
from hoptree.server.limits import Limits

__all__ = ["Server", "listen"]

_HEADER_BYTES = 32 * 2**10
_KEEP_ALIVE = 15
_AFTER_STOP = 5.0


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on an address; 0 is a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"The server cannot listen on {host}, port {port}: {error.strerror or error}.",
            "Choose another --port or --host.",
        ) from error
    return listening


class Server(uvicorn.Server):
    """uvicorn that lets questions finish, or writes them down, when it is told to stop."""

    def __init__(self, app: FastAPI) -> None:
        self._house = house_of(app)
        limits = self._house.settings.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=_patient(limits),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=int(limits.stop_seconds + _AFTER_STOP),
                limit_concurrency=limits.connections,
                h11_max_incomplete_event_size=_HEADER_BYTES,
            )
        )
        self._stopping: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal stops in order; a second one at once."""
        if self._stopping is None and not self.should_exit:
            loop = asyncio.get_event_loop()
            loop.call_soon_threadsafe(self._begin_stop)
        super().handle_exit(sig, frame)

    def stop(self) -> None:
        """Stop in order, as a signal would; call it in the server's loop."""
        self._begin_stop()
        self.should_exit = True

    def _begin_stop(self) -> None:
        if self._stopping is None:
            work = self._house.live.stop(self._house.settings.limits.stop_seconds)
            self._stopping = asyncio.get_running_loop().create_task(work)


def _patient(limits: Limits) -> type[H11Protocol]:
    """HTTP that waits only so long for the head of a request."""

    class Patient(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._heard()
            elif self._timer is None and not self.transport.is_closing():
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._heard()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._timer = self.loop.call_later(limits.header_seconds, self._hang_up)

        def _heard(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _hang_up(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Patient
