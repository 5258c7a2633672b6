"""The middleware of every request: host, origin, key, rate, size, time, log."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Collection
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hoptree.core.config import is_loopback
from hoptree.core.http_server import bearer_key, log_refusal
from hoptree.server.error_responses import Refusal, clear_frames, log_internal_error, refusal_of
from hoptree.server.keys import ANYBODY, Key, Quotas, find_key
from hoptree.server.prometheus import Metrics
from hoptree.server.settings import Limits, Settings
from hoptree.server.views import refusal_response

_LOG = logging.getLogger("hoptree.server")
_OPEN_PATHS = frozenset({"/", "/docs", "/health", "/openapi.json"})
"""Served without a key, as they tell nothing about corpora, questions or keys."""
_PAGE_PATH = "/page/"
_CORPORA_PATH = "/v1/corpora"
_CITED = re.compile(r"/v1/corpora/([^/]+)/passages/(.+)", re.DOTALL)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = _SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"}
_HOST = re.compile(r"(?P<name>\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]{1,5})?", re.ASCII)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
}
EXPOSED_HEADERS = ("Retry-After", "x-should-retry", "Hoptree-Answer")  # scripts of allowed origins may read these
_TAIL_SECONDS = 30.0  # beyond the limits of question and body, before a request is cancelled


def speaks_openai(path: str) -> bool:
    """Return whether errors of a path have OpenAI's form."""
    return path.startswith(("/v1/chat/", "/v1/models", "/v1/responses"))


class Guard:
    """The outermost layer of the server."""

    def __init__(self, app: ASGIApp, *, settings: Settings, quotas: Quotas, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._limits = settings.limits
        self._quotas = quotas
        self._metrics = metrics
        # Other addresses take any name: they need keys, which no browser sends by itself.
        local = is_loopback(settings.host)
        self._hosts = frozenset((*_LOOPBACK, settings.host, *settings.hosts)) if local or settings.hosts else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._metrics, self._settings.origins)
        try:
            key = self._admit(scope, exchange)
            body = _Body(scope, receive, self._limits)
            scope.setdefault("state", {}).update(key=key, body=body)
            exchange.body = body
            async with asyncio.timeout(self._limits.seconds + body.seconds + _TAIL_SECONDS):
                await self._app(scope, body.receive, exchange.send)
            if body.refused:
                raise body.refused
        except Refusal as refusal:
            await exchange.refuse(refusal)
        except TimeoutError:
            await exchange.refuse(Refusal(504, "TooSlow", "The answer took too long.", "Ask for less: budget seconds."))
        except Exception as error:
            log_internal_error(error)
            await exchange.refuse(refusal_of(error))
        finally:
            # Break reference cycles of the body with the scope, and of its refusal with frames: see `clear_frames`.
            received: _Body | None = scope.get("state", {}).pop("body", None)
            if received and received.refused:
                clear_frames(received.refused)
                received.refused = None
            exchange.close()

    def _admit(self, scope: Scope, exchange: _Exchange) -> Key:
        """Return the key of a request; refuse a wrong host or origin, or a missing key."""
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        self._check_host(headers)
        self._check_origin(headers, method)
        is_open = method in _SAFE_METHODS and (path in _OPEN_PATHS or path.startswith(_PAGE_PATH))
        if is_open or (method == "OPTIONS" and headers.get("origin") in self._settings.origins):
            return ANYBODY
        key = self._authenticate(headers)
        exchange.key = key.name
        if method not in _SAFE_METHODS and path.startswith(_CORPORA_PATH) and not key.corpora:
            remedy = "Ask the server's administrator to allow it."
            raise Refusal(403, "NotAllowed", "This key may not change corpora.", remedy)
        self._quotas.take(key)
        return key

    def _check_host(self, headers: Headers) -> None:
        """Refuse foreign host names, against DNS rebinding by web pages."""
        if self._hosts is None:
            return
        host = _HOST.fullmatch(headers.get("host", ""))
        if host is None or host["name"].lower() not in self._hosts or len(headers.getlist("host")) != 1:
            remedy = "Use localhost, or ask the server's administrator to allow that name."
            raise Refusal(421, "WrongHost", "This server does not answer to that name.", remedy)

    def _check_origin(self, headers: Headers, method: str) -> None:
        """Refuse requests that pages of other sites send from a user's browser."""
        origin = headers.get("origin")
        if origin is not None:
            if origin in self._settings.origins or _host_and_port(origin) == headers.get("host", "").lower():
                return
        elif headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
            return
        elif method in _SAFE_METHODS and headers.get("sec-fetch-dest", "document") == "document":
            return  # a link that a user follows; embedded requests would cost without being seen
        remedy = "Ask the server's administrator to allow its origin."
        raise Refusal(403, "WrongOrigin", "A page of another site may not ask here.", remedy)

    def _authenticate(self, headers: Headers) -> Key:
        if not self._settings.keys:
            return ANYBODY
        secret = bearer_key(headers.get("authorization", ""))
        if not secret:
            raise Refusal(401, "NoKey", "A key is needed.", "Send it as the header Authorization: Bearer KEY.")
        key = find_key(self._settings.keys, secret)
        if key is None:
            raise Refusal(401, "WrongKey", "That key is not known.", "Ask the server's administrator for one.")
        return key


def _host_and_port(origin: str) -> str | None:
    """Return host and port of an origin; None if it cannot be read."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


class _Exchange:
    """One request and its reply: common headers, the log line, the counters."""

    def __init__(self, scope: Scope, send: Send, metrics: Metrics, origins: Collection[str]) -> None:
        origin = Headers(scope=scope).get("origin", "")
        self._origin = origin if origin in origins else ""
        self._scope = scope
        self._client = (scope.get("client") or ("-",))[0]
        self._send = send
        self._metrics = metrics
        self._began = time.perf_counter()
        self._status = 0
        self.key = "-"
        self.body: _Body | None = None

    async def send(self, message: Message) -> None:
        if self.body and self.body.refused and not self._status:
            return  # a consequence of a body that broke off, which the guard reports
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._add_headers(MutableHeaders(raw=message["headers"]))
        await self._send(message)

    def _add_headers(self, headers: MutableHeaders) -> None:
        for name, value in _SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        if self._scope["path"].startswith("/v1/"):
            headers.setdefault("Cache-Control", "no-store")
        # Refusals of the guard do not pass through the CORS middleware.
        if self._origin and "Access-Control-Allow-Origin" not in headers:
            headers["Access-Control-Allow-Origin"] = self._origin
            headers["Access-Control-Expose-Headers"] = ", ".join(EXPOSED_HEADERS)
            headers.add_vary_header("Origin")

    async def refuse(self, refusal: Refusal) -> None:
        """Send the refusal, unless a reply has begun; uvicorn then ends the connection."""
        self._metrics.refused(refusal.kind)
        log_refusal(refusal.kind, key=self.key, client=self._client, cause=refusal.cause)
        if self._status:
            return
        self.body = None
        reply = _key_page(refusal, self._scope) or refusal_response(refusal, openai=speaks_openai(self._scope["path"]))
        reply.headers["Connection"] = "close"  # do not wait for a body that was not read
        await reply(self._scope, _disconnected, self.send)

    def close(self) -> None:
        seconds = time.perf_counter() - self._began
        route = getattr(self._scope.get("route"), "path", "other")
        method = self._scope["method"] if self._scope["method"] in _METHODS else "other"
        self._metrics.request(route, method, self._status, seconds)
        # Quoted, so that no path can begin a new line in the log.
        path = quote(self._scope["path"][:200])
        _LOG.info("%s %s %d %.0f ms key=%s from %s", method, path, self._status, 1000 * seconds, self.key, self._client)


def _key_page(refusal: Refusal, scope: Scope) -> Response | None:
    """Lead a browser that follows a citation to the page, which asks for the key."""
    cited = _CITED.fullmatch(scope["path"])
    accepts_html = "text/html" in Headers(scope=scope).get("accept", "")
    if refusal.kind != "NoKey" or scope["method"] != "GET" or cited is None or not accepts_html:
        return None
    place = "/".join(quote(part, safe="") for part in cited.groups())
    return RedirectResponse(f"{quote(scope.get('root_path', ''))}/#/passage/{place}", 303)


async def _disconnected() -> Message:
    return {"type": "http.disconnect"}


class _Body:
    """The body of a request, with limits on its size and time."""

    def __init__(self, scope: Scope, receive: Receive, limits: Limits) -> None:
        headers = Headers(scope=scope)
        upload = headers.get("content-type", "").lower().startswith("multipart/form-data")
        upload = upload and scope["path"].startswith(_CORPORA_PATH)
        self._receive = receive
        self._max_bytes = limits.upload if upload else limits.body
        self.seconds = limits.upload_seconds if upload else limits.body_seconds
        self._until = time.monotonic() + self.seconds
        self._read = 0
        self._complete = False
        self.refused: Refusal | None = None
        if "transfer-encoding" in headers and "content-length" in headers:
            raise Refusal(400, "BadRequest", "The request has two lengths.", "Send Content-Length alone.")
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > self._max_bytes:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._until - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            cause = f"The request did not arrive within {self.seconds:g} seconds."
            self.refused = Refusal(408, "BodyTooSlow", cause, "Send it faster.")
            raise self.refused from None
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._read > self._max_bytes:
                self.refused = self._too_large()
                raise self.refused
        return message

    def _too_large(self) -> Refusal:
        cause = f"The request is larger than the {self._max_bytes:,} bytes allowed."
        return Refusal(413, "TooLarge", cause, "Send less, in parts.")
