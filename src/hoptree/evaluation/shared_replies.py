"""The call cache that the workers of a run share, at both ends of their pipes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from hoptree.core.errors import CacheError
from hoptree.engine.cache import Cache, Form, from_text, to_text

T = TypeVar("T")


class SharedReplies:
    """The call cache of a run for all workers, in the main process.

    A worker waits for a call that another worker is making. The claims of a lost worker are released.
    """

    def __init__(self, path: str) -> None:
        self._cache = Cache(Path(path))
        self._claims: dict[bytes, tuple[int, asyncio.Future[None]]] = {}

    def claimed(self, key: bytes, worker: int) -> tuple[bool, str | None]:
        """Claim a call unless another worker holds it.

        Return whether the worker can go on, and the cached reply, if any.
        """
        if (text := self._cache.text(key)) is not None:
            return True, text
        if key in self._claims:
            return False, None
        self._claims[key] = (worker, asyncio.get_running_loop().create_future())
        return True, None

    async def claim(self, key: bytes, worker: int) -> str | None:
        """Return the cached reply; None means that this worker makes the call."""
        while True:
            done, text = self.claimed(key, worker)
            if done:
                return text
            await asyncio.shield(self._claims[key][1])

    def put_soon(self, key: bytes, text: str, worker: int) -> asyncio.Future[None]:
        """Store a reply durably; return a future of that.

        The claim is released when the future is done.
        """
        stored = self._cache.put_soon(key, text)
        stored.add_done_callback(lambda _: self.release(key, worker))
        return stored

    async def put(self, key: bytes, text: str, worker: int) -> None:
        """Store a reply durably."""
        await self.put_soon(key, text, worker)

    def release(self, key: bytes, worker: int) -> None:
        """Release a claim so that others may send the request."""
        if key in self._claims and self._claims[key][0] == worker:
            self._claims.pop(key)[1].set_result(None)

    async def give_up(self, key: bytes, worker: int) -> None:
        self.release(key, worker)

    async def lost(self, worker: int) -> None:
        """Release all claims of a lost worker."""
        for key in [key for key, (claimed_by, _) in self._claims.items() if claimed_by == worker]:
            self.release(key, worker)

    def close(self) -> None:
        self._cache.close()


class WorkerPipe:
    """The worker's end of the pipe, with the shared cache."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._waiting: dict[int, asyncio.Future[str | None]] = {}
        self._unsent: list[bytes] = []
        self._numbers = 0

    def tell(self, *, trace: bytes = b"", **message: Any) -> None:
        """Send a message at once; end this process if the main process is gone."""
        self._unsent.append(json.dumps(message).encode() + b"\n" + trace)
        self._flush()

    def _send(self, written: bytes) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(written)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        try:
            self._out.write(b"".join(unsent))
            self._out.flush()
        except BrokenPipeError:
            os._exit(1)

    def heard(self, number: int, text: str | None, failure: str = "") -> None:
        """Pass a reply of the cache, or its failure, to the waiting call."""
        waiting = self._waiting.pop(number, None)
        if waiting is None or waiting.done():
            return
        if failure:
            waiting.set_exception(CacheError(failure))
        else:
            waiting.set_result(text)

    async def _wanted(self, do: bytes, key: bytes, text: str = "") -> str | None:
        reply: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting[number := self._ask(do, key, text)] = reply
        try:
            return await reply
        except asyncio.CancelledError:
            self._send(b"cancel %d\n" % number)
            raise

    def _ask(self, do: bytes, key: bytes, text: str = "") -> int:
        self._numbers += 1
        held = b" " + text.encode("utf-8", "surrogatepass") if text else b""
        self._send(b"%b %d %b%b\n" % (do, self._numbers, key.hex().encode(), held))
        return self._numbers

    async def get(self, key: bytes, form: Form[T]) -> tuple[T, float] | None:
        text = await self._wanted(b"claim", key)
        return None if text is None else from_text(form, text)

    async def put(self, key: bytes, form: Form[T], value: T, seconds: float) -> None:
        await self._wanted(b"put", key, to_text(form, value, seconds))

    def give_up(self, key: bytes) -> None:
        self._ask(b"give_up", key)

    def close(self) -> None:
        """Do nothing: the main process closes the file."""
