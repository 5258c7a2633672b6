"""Running the application: a listening socket, and a stop in order."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from hoptree.core.http_server import protocol_with_timeouts, stopped_by_signals
from hoptree.server.app import state_of

_BETWEEN_COLLECTIONS = 50_000
"""Objects that there are more than at the last look: 200 questions under way have fewer. By default it is 700, and a
busy server would spend a sixth of its time looking for cycles among questions under way."""


def collect_garbage_rarely() -> None:
    """From now on; and not among what is there for good: questions leave no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])


_HEADER_BYTES = 32 * 2**10
_KEEP_ALIVE = 15
_AFTER_STOP = 5.0
_ADDRESSES = 4
"""Addresses that it takes to have all connections: one alone cannot keep others out."""
_TELLING = 2.0
"""Seconds to tell clients that their questions were broken off."""


class Server(uvicorn.Server):
    """uvicorn that lets questions finish, or writes them down, when it is told to stop."""

    def __init__(self, app: FastAPI) -> None:
        self._state = state_of(app)
        limits = self._state.settings.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol_with_timeouts(limits.header_seconds, per_address=limits.connections // _ADDRESSES),
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
        self._stopping: list[asyncio.Task[None]] = []

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve in a process that does nothing else."""
        collect_garbage_rarely()
        super().run(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A first signal stops in order; a second one at once."""
        with stopped_by_signals(self.stop):
            yield

    def stop(self) -> None:
        """Stop in order; told so again, at once. Call it in the server's loop."""
        if len(self._stopping) < 2:
            work = self._stop_at_once() if self._stopping else self._stop_in_order()
            self._stopping.append(asyncio.get_running_loop().create_task(work))

    async def _stop_in_order(self) -> None:
        """Let questions finish; others are still told that the server is stopping, so they are listened to."""
        seconds = self._state.settings.limits.stop_seconds
        began = time.monotonic()
        await self._state.running.stop(seconds)
        left = max(0.0, began + seconds - time.monotonic())  # for uploads and the like
        self.config.timeout_graceful_shutdown = int(left + _AFTER_STOP)
        self.should_exit = True

    async def _stop_at_once(self) -> None:
        """Write down what runs, tell its clients, and hang up on everybody."""
        await self._state.running.stop(0)
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_TELLING)
        self.should_exit = self.force_exit = True
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn closes nothing when it is forced to end; here it does."""
        await super().shutdown(sockets)
        if self.force_exit:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.lifespan.shutdown(), _AFTER_STOP)


_BESIDE = 256
"""Files beside connections: indexes, the cache, endpoints, uploads."""


def raise_open_file_limit(connections: int) -> str:
    """Have as many files open as the connections need; where the system does not allow that, a sentence about it."""
    try:
        import resource
    except ImportError:  # Windows, which has no such bound
        return ""
    wanted = connections + _BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # a bound of the system's that it does not tell
        most = soft
    if most >= wanted:
        return ""
    return (
        f"only {most} files may be open at once, too few for {connections} connections; raise that "
        f"(ulimit -n {wanted}) or lower this (--limits connections={max(1, most - _BESIDE)})."
    )
