"""Running the application: uvicorn with an orderly stop, garbage collection, and the limit of open files."""

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

_GC_THRESHOLD = 50_000
"""New objects between collections; 200 questions under way have fewer. With the default of 700 a busy server would
spend a sixth of its time looking for cycles among questions under way."""
_MAX_HEADER_BYTES = 32 * 2**10
_KEEP_ALIVE_SECONDS = 15
_SHUTDOWN_SECONDS = 5.0
_ADDRESSES = 4
"""Addresses that it takes to use up all connections: one alone cannot keep others out."""
_FAREWELL_SECONDS = 2.0
"""Time to tell clients that their questions were broken off."""
_OTHER_FILES = 256
"""Files beside connections: indexes, the cache, endpoints, uploads."""


def collect_garbage_rarely() -> None:
    """Collect seldom, and not among what is there for good: questions leave no cycles behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


class Server(uvicorn.Server):
    """uvicorn that lets questions finish, or writes them down, when it is stopped."""

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
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=int(limits.stop_seconds + _SHUTDOWN_SECONDS),
                limit_concurrency=limits.connections,
                h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            )
        )
        self._stopping: list[asyncio.Task[None]] = []

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve in a process that does nothing else."""
        collect_garbage_rarely()
        super().run(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop in order at a first signal, at once at a second."""
        with stopped_by_signals(self.stop):
            yield

    def stop(self) -> None:
        """Stop in order; called again, at once. Call it in the server's loop."""
        if len(self._stopping) < 2:
            work = self._stop_at_once() if self._stopping else self._stop_in_order()
            self._stopping.append(asyncio.get_running_loop().create_task(work))

    async def _stop_in_order(self) -> None:
        """Let questions finish; meanwhile new ones are refused with a reply that says why."""
        seconds = self._state.settings.limits.stop_seconds
        began = time.monotonic()
        await self._state.running.stop(seconds)
        left = max(0.0, began + seconds - time.monotonic())  # for uploads and the like
        self.config.timeout_graceful_shutdown = int(left + _SHUTDOWN_SECONDS)
        self.should_exit = True

    async def _stop_at_once(self) -> None:
        """Write down what runs, tell its clients, and close all connections."""
        await self._state.running.stop(0)
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_FAREWELL_SECONDS)
        self.should_exit = self.force_exit = True
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what is open also when forced to exit, where uvicorn closes nothing."""
        await super().shutdown(sockets)
        if self.force_exit:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.lifespan.shutdown(), _SHUTDOWN_SECONDS)


def raise_open_file_limit(connections: int) -> str:
    """Allow as many open files as the connections need; return a warning where the system refuses."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return ""
    wanted = connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return ""
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError):  # some systems have a further limit that they do not report
        limit = soft
    if limit >= wanted:
        return ""
    return (
        f"only {limit} files may be open at once, too few for {connections} connections; raise that "
        f"(ulimit -n {wanted}) or lower this (--limits connections={max(1, limit - _OTHER_FILES)})."
    )
