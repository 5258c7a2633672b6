"""Transports that refuse malformed messages, and requests that would fill memory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, cast

import anyio
import anyio.to_thread
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_MAX_UNSENT = 64  # replies that the client has not read; beyond this, no further request is read
_MAX_LINE_BYTES = 4 * 2**20  # of a message; high, so that most long requests still get an error with their id
_SKIPPED_BYTES = 2**16  # block size for skipping a line that is too long
_MAX_OPENING_BYTES = 16 * 2**10  # of the request that opens a session, which keeps its content in memory
_NO_ID = "Invalid Request: the id of a request is a text or a whole number."
_ID_IN_USE = "Invalid Request: another request of this session has this id, and is still being worked on."
_OPENING = f"Invalid Request: the request that opens a session has at most {_MAX_OPENING_BYTES:,} bytes."
_BATCH = "Invalid Request: batches are not taken. Send each message by itself."
_NO_MESSAGE = "Invalid Request: this is not a message of JSON-RPC 2.0, is nested too deeply, or holds half a character."


def parse_message(line: bytes) -> tuple[Any, Any]:
    """Return the message in a line, or None and the error to reply with."""
    text = line.decode(errors="replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None, _error(PARSE_ERROR, "Parse error: this is not JSON, or it is nested too deeply.")
    if has_wrong_id(data):
        return None, _error(INVALID_REQUEST, _NO_ID)
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False), None
    except ValidationError:
        if isinstance(data, list):
            return None, _error(INVALID_REQUEST, _BATCH)
        request_id = data.get("id") if isinstance(data, dict) else None
        return None, _error(INVALID_REQUEST, _NO_MESSAGE, None if _has_half(request_id) else request_id)


def has_wrong_id(data: Any) -> bool:
    """Return whether a message has an invalid id, to which the SDK never replies."""
    if not isinstance(data, dict) or "id" not in data:
        return False
    return isinstance(data["id"], bool) or not isinstance(data["id"], str | int)


def _has_half(value: object) -> bool:
    return isinstance(value, str) and value != value.encode(errors="replace").decode()


def _error(code: int, message: str, request_id: str | int | None = None) -> Any:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


@asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[Any, Any]]:
    """Yield the message streams of standard input and output until the client leaves.

    Meanwhile, standard input is empty and standard output leads to standard error: other output would break the
    protocol.
    """
    source, target = _take(sys.stdin, "rb", _open_nothing), _take(sys.stdout, "wb", _open_stderr)
    too_long = _error(INVALID_REQUEST, f"Invalid Request: a message has at most {_MAX_LINE_BYTES:,} bytes.")
    sending, incoming = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        outgoing = _Outgoing(target, tasks.cancel_scope.cancel)

        async def read() -> None:
            async with sending:
                while line := await anyio.to_thread.run_sync(_read_line, source):
                    message, error = parse_message(line) if len(line) <= _MAX_LINE_BYTES else (None, too_long)
                    await outgoing.wait_until_read()
                    if message is not None:
                        await sending.send(SessionMessage(message))
                    elif not line.isspace():
                        await outgoing.send(SessionMessage(error))

        tasks.start_soon(read)
        yield incoming, outgoing


def _take(stream: Any, mode: str, open_instead: Callable[[], int]) -> BinaryIO:
    """Return a standard stream as a new file, and redirect the stream itself."""
    own = os.dup(stream.fileno())
    instead = open_instead()
    os.dup2(instead, stream.fileno())
    os.close(instead)
    return cast(BinaryIO, os.fdopen(own, mode, closefd=False))  # a thread may still read it at exit


def _open_nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _open_stderr() -> int:
    try:
        return os.dup(2)
    except OSError:  # it is closed
        return os.open(os.devnull, os.O_WRONLY)


def _read_line(source: BinaryIO) -> bytes:
    """Return a line; of one that is too long, only the start."""
    line = source.readline(_MAX_LINE_BYTES + 1)
    if len(line) > _MAX_LINE_BYTES and not line.endswith(b"\n"):
        while (rest := source.readline(_SKIPPED_BYTES)) and not rest.endswith(b"\n"):
            pass
    return line


class _Outgoing:
    """Writes messages one by one; a failed write ends the server."""

    def __init__(self, target: BinaryIO, end: Callable[[], None]) -> None:
        self._target, self._end = target, end
        self._turn = asyncio.Lock()
        self._unsent = 0
        self._few = asyncio.Event()
        self._few.set()

    async def send(self, item: Any) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        self._count(1)
        try:
            async with self._turn:
                await anyio.to_thread.run_sync(self._write, line)
        except OSError:
            self._end()
        finally:
            self._count(-1)

    async def wait_until_read(self) -> None:
        """Wait while too many replies are unread by the client."""
        await self._few.wait()

    def _count(self, change: int) -> None:
        self._unsent += change
        (self._few.set if self._unsent < _MAX_UNSENT else self._few.clear)()

    def _write(self, line: bytes) -> None:
        self._target.write(line)
        self._target.flush()

    async def aclose(self) -> None:
        """Leave the file open: it belongs to the process."""

    async def __aenter__(self) -> _Outgoing:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class RequestGuard:
    """Refuses invalid ids, ids in use in a session, and long session requests.

    The SDK keeps one reply stream for an id: of two requests with one id, the first would get no reply. Bodies must
    come in one piece.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._under_way: set[tuple[bytes, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first: list[Scope] = [await receive()]

        async def receive_again() -> Scope:
            return first.pop() if first else await receive()

        body = first[0].get("body", b"")
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):  # the application reports it
            data = None
        if has_wrong_id(data):
            await _refuse(send, _error(INVALID_REQUEST, _NO_ID))
            return
        if isinstance(data, dict) and data.get("method") == "initialize" and len(body) > _MAX_OPENING_BYTES:
            await _refuse(send, _error(INVALID_REQUEST, _OPENING))
            return
        session: bytes = next((value for name, value in scope["headers"] if name == b"mcp-session-id"), b"")
        if not session or not isinstance(data, dict) or "id" not in data or "method" not in data:
            await self._app(scope, receive_again, send)
            return
        key = session, str(data["id"])
        if key in self._under_way:
            await _refuse(send, _error(INVALID_REQUEST, _ID_IN_USE, data["id"]))
            return
        self._under_way.add(key)
        try:
            await self._app(scope, receive_again, send)
        finally:
            self._under_way.discard(key)


async def _refuse(send: Send, error: Any) -> None:
    body = json.dumps(error.model_dump(by_alias=True, exclude_unset=True)).encode()
    await send_response(send, 400, [(b"content-type", b"application/json")], body)


async def send_response(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole HTTP response."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
