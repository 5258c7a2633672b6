"""Serving the tools over the standard streams, or over HTTP."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.core.http_server import bearer_key, is_loopback, listen, log_refusal, stopped_by_signals
from hoptree.engine.engine import Engine
from hoptree.mcp.tools import open_server

KEY = "HOPTREE_MCP_KEY"
"""The environment variable with the bearer key that clients must send."""
MAX_BODY_BYTES = 256 * 1024
"""Of a request; the longest question takes a tenth of it."""
PATH = "/mcp"
_SHUTDOWN_TIMEOUT_S = 5
_HEADER_TIMEOUT_S, _BODY_TIMEOUT_S = 10.0, 30.0
_MAX_CONNECTIONS, _MAX_SESSIONS = 128, 1_000
_ADDRESSES = 4
"""Addresses that it takes to use up all connections: one alone cannot keep others out."""
_MIN_KEY_CHARS = 16

_Scope = MutableMapping[str, Any]
_Send = Callable[[_Scope], Awaitable[None]]
_App = Callable[[_Scope, Callable[[], Awaitable[_Scope]], _Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read PORT, which means this machine alone, or HOST:PORT."""
        host, _, port = text.strip().rpartition(":")
        if not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
            raise ConfigError(f"--http {text} is no address.", "Write --http 8765, or --http HOST:PORT.")
        return cls(host.strip("[]") or "127.0.0.1", int(port))

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}{PATH}"


async def serve_streams(engine: Engine) -> None:
    """Serve over standard input and output until the client closes them."""
    async with engine:
        await open_server(engine).run_stdio_async()


async def serve_http(engine: Engine, address: Address, *, started: Callable[[str], None]) -> None:
    """Serve over streamable HTTP until stopped; `started` gets the URL."""
    import uvicorn

    from hoptree.core.http_server import protocol_with_timeouts

    key = os.environ.get(KEY, "")
    if not address.local and not key:
        raise ConfigError(
            f"{address.host} can be reached from other machines, and no key was set.",
            f"Set {KEY} to a long random text that clients send as a bearer key, or listen on 127.0.0.1.",
        )
    _check_key(key)
    listening = listen(address.host, address.port, remedy="Choose another --http port or host.")
    async with engine:
        app: Any = open_server(engine, outside=True).streamable_http_app(
            streamable_http_path=PATH,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=_MAX_SESSIONS,
            transport_security=_transport_security(address),
        )
        # A redirect would name the host that the client named, and no TLS.
        app.router.redirect_slashes = False
        server: Any = uvicorn.Server(
            uvicorn.Config(
                _KeyGuard(app, key) if key else app,
                http=protocol_with_timeouts(
                    _HEADER_TIMEOUT_S, _BODY_TIMEOUT_S, per_address=_MAX_CONNECTIONS // _ADDRESSES
                ),
                ws="none",
                log_config=None,
                log_level="warning",
                timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
                limit_concurrency=_MAX_CONNECTIONS,
                server_header=False,
            )
        )
        server.capture_signals = lambda: stopped_by_signals(lambda: _stop(server))
        started(replace(address, port=listening.getsockname()[1]).url)
        await server.serve(sockets=[listening])


def _transport_security(address: Address) -> Any:
    """Allow only local host names, against DNS rebinding by a web page; elsewhere the key keeps such pages out."""
    from mcp.server.transport_security import TransportSecuritySettings

    if not address.local:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = ("127.0.0.1", "localhost", "[::1]", address.host)
    return TransportSecuritySettings(
        allowed_hosts=[f"{name}:*" for name in names], allowed_origins=[f"http://{name}:*" for name in names]
    )


def _stop(server: Any) -> None:
    """Stop in order; called again, without waiting for anybody."""
    server.force_exit = server.should_exit
    server.should_exit = True


def _check_key(key: str) -> None:
    """Refuse a key that could be guessed, or not be sent."""
    if key and (len(key) < _MIN_KEY_CHARS or not key.isascii() or not key.isprintable() or " " in key):
        raise ConfigError(
            f"{KEY} has fewer than {_MIN_KEY_CHARS} characters, or others than ASCII letters, digits and signs.",
            f"Make one: export {KEY}=$(openssl rand -hex 32)",
        )


class _KeyGuard:
    """Refuses requests without the key."""

    def __init__(self, app: _App, key: str) -> None:
        self._app, self._key = app, key.encode()

    async def __call__(self, scope: _Scope, receive: Callable[[], Awaitable[_Scope]], send: _Send) -> None:
        if scope["type"] == "http":
            header: bytes = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            given = bearer_key(header.decode("latin-1"))
            if not hmac.compare_digest(given.encode("latin-1"), self._key):
                await self._refuse(scope, send, missing=not given)
                return
        await self._app(scope, receive, send)

    async def _refuse(self, scope: _Scope, send: _Send, *, missing: bool) -> None:
        kind, cause = ("NoKey", "missing") if missing else ("WrongKey", "wrong")
        log_refusal(kind, client=(scope.get("client") or ("-",))[0], cause=f"The bearer key is {cause}.")
        body = json.dumps({"error": f"The bearer key is missing or wrong. Send the server's {KEY}."}).encode()
        headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})
