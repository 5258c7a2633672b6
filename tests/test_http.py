"""The HTTP client of models and engines, against a local server with set replies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import pytest

from hoptree.core.errors import ConfigError, EndpointError, HoptreeError, RateLimited, UnusableReply
from hoptree.core.http_body import describe_body, error_text
from hoptree.core.http_client import HttpClient, without_password


@dataclass
class Server:
    """A server that sends `response`, bytes of HTTP, to every request."""

    response: bytes = b""
    delay: float = 0.0
    endless: bool = False
    port: int = 0
    connections: int = 0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/base"

    def say(self, status: int, body: bytes, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.response = ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.requests.append((head[0], headers, body))
                await asyncio.sleep(self.delay)
                writer.write(self.response)
                while self.endless:
                    writer.write(b"x" * 10_000)
                    await writer.drain()
                await writer.drain()
                if not self.response.endswith(b"}"):
                    break
        writer.close()


def talk(
    work: Callable[[HttpClient], Awaitable[Any]],
    server: Server,
    *,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> Any:
    async def run() -> Any:
        async with server.running():
            http = HttpClient(server.url, headers=headers, **options)
            try:
                return await work(http)
            finally:
                await http.aclose()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Server:
    server = Server()
    server.say(200, b'{"a": [1]}')
    return server


def failing(work: Callable[[HttpClient], Awaitable[Any]], server: Server, **options: Any) -> HoptreeError:
    with pytest.raises(HoptreeError) as failed:
        talk(work, server, **options)
    return failed.value


async def get(http: HttpClient) -> Any:
    return await http.json("GET", "/x")


def test_json_is_sent_and_received_over_one_connection(server: Server) -> None:
    async def work(http: HttpClient) -> list[Any]:
        return [await http.json("POST", "/x?y=1", {"é": "ü"}), await http.json("GET", "/z")]

    assert talk(work, server, headers={"X-Key": "k"}) == [{"a": [1]}, {"a": [1]}]
    (line, headers, body), (second, _, nothing) = server.requests
    assert (line, second) == ("POST /base/x?y=1 HTTP/1.1", "GET /base/z HTTP/1.1")
    assert (headers["content-type"], headers["x-key"], json.loads(body)) == ("application/json", "k", {"é": "ü"})
    assert nothing == b"" and server.connections == 1


def test_bytes_are_sent_unchanged_with_their_headers(server: Server) -> None:
    async def work(http: HttpClient) -> tuple[int, Any, bytes]:
        return await http.send("POST", "/_bulk", content=b"a\nb\n", headers={"Content-Type": "application/x-ndjson"})

    status, headers, body = talk(work, server)
    assert (status, headers["content-length"], body) == (200, "10", b'{"a": [1]}')
    assert server.requests[0][1]["content-type"] == "application/x-ndjson" and server.requests[0][2] == b"a\nb\n"


def test_a_closed_client_works_in_another_event_loop(server: Server) -> None:
    http = HttpClient("http://127.0.0.1:1")

    async def once() -> Any:
        async with server.running():
            http.url = server.url
            reply = await http.json("GET", "")
            await http.aclose()
            return reply

    assert asyncio.run(once()) == asyncio.run(once()) == {"a": [1]}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_permanent_failures_are_not_retryable(status: int, server: Server) -> None:
    server.say(status, b'{"error": {"message": "because of\\n this"}}')
    failure = failing(get, server)
    assert isinstance(failure, EndpointError)
    assert (failure.status, failure.retryable, failure.exit_code) == (status, False, 2)
    assert f"HTTP {status}: because of this" in str(failure) and failure.remedy


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 529])
def test_transient_failures_are_retryable(status: int, server: Server) -> None:
    server.say(status, b"<html>Bad gateway</html>", retry_after="3")
    failure = failing(get, server)
    assert isinstance(failure, EndpointError)
    assert (failure.status, failure.retryable, failure.retry_after, failure.exit_code) == (status, True, 3.0, 1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "2.5"}, 2.5),
        ({"retry_after": "20", "retry_after_ms": "150"}, 0.15),
        ({"retry_after": "soon"}, None),
    ],
)
def test_a_rate_limit_may_give_seconds_to_wait(headers: dict[str, str], seconds: float | None, server: Server) -> None:
    server.say(429, b'{"detail": "slow down"}', **headers)
    failure = failing(get, server)
    assert isinstance(failure, RateLimited) and failure.retryable and "slow down" in str(failure)
    assert failure.retry_after == seconds


def test_a_rate_limit_may_give_a_date(server: Server) -> None:
    server.say(429, b"{}", retry_after=formatdate(time.time() + 100, usegmt=True))
    failure = failing(get, server)
    assert isinstance(failure, RateLimited) and failure.retry_after == pytest.approx(100, abs=10)


def test_an_exhausted_quota_is_not_retryable(server: Server) -> None:
    server.say(429, b'{"error": {"message": "You exceeded your current quota"}}')
    failure = failing(get, server)
    assert isinstance(failure, RateLimited) and not failure.retryable


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<!DOCTYPE html><html>", "a web page"),
        (b'{"half": ', "half a JSON object"),
        (b"", "nothing"),
        (b"OK", "something else"),
        (b"[" * 100_000, "something else"),
        (b'{"a": "\xff"}', "half a JSON object"),
    ],
)
def test_a_reply_that_is_no_json_is_an_error(body: bytes, message: str, server: Server) -> None:
    server.say(200, body)
    failure = failing(get, server)
    assert isinstance(failure, UnusableReply) and failure.retryable
    assert message in str(failure) and describe_body(body) == message


def test_a_slow_server_times_out(server: Server) -> None:
    server.delay = 5.0
    failure = failing(get, server, timeout=0.1)
    assert isinstance(failure, EndpointError) and failure.retryable
    assert "within 0.1 seconds" in str(failure)


def test_an_endless_reply_is_cut_off(server: Server) -> None:
    server.response, server.endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", True
    failure = failing(get, server, max_body=50_000)
    assert isinstance(failure, UnusableReply) and "without end" in str(failure)


@pytest.mark.parametrize("response", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", b"SSH-2.0-OpenSSH\r\n"])
def test_a_broken_connection_is_retryable(response: bytes, server: Server) -> None:
    server.response = response
    failure = failing(get, server)
    assert isinstance(failure, EndpointError) and failure.retryable and "broke off" in str(failure)


def test_the_error_for_an_unreachable_server_names_the_source_of_its_url() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        http = HttpClient(f"http://ada:secret@127.0.0.1:{reserved.getsockname()[1]}/v1", url_source="--embeddings")
        with pytest.raises(EndpointError, match=r"cannot be reached.*correct --embeddings") as failed:
            asyncio.run(get(http))
    assert failed.value.retryable and failed.value.exit_code == 1 and "secret" not in str(failed.value)


@pytest.mark.parametrize("url", ["", "localhost:8000", "http://", "http://x:99999", "ftp://x/v1", "http://[::1", "x y"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a base URL"):
        HttpClient(url)


def test_a_password_is_never_shown() -> None:
    assert without_password("https://ada:p@ss@host:1/v1/a@b") == "https://host:1/v1/a@b"
    assert without_password("https://ada:se/cret@host/v1") == "https://host/v1"
    assert without_password("ada:secret@host/v1") == "host/v1"
    for address in ("https://host/v1/a@b", "https://host:80/a@b", "http://[::1]:80/a@b", "http://[::1]/a:b@c"):
        assert without_password(address) == address
    http = HttpClient("http://ada:secret@host:1/v1/")
    assert (http.url, http.shown) == ("http://ada:secret@host:1/v1", "http://host:1/v1")
    assert "secret" not in str(http.failure(500, {}, b""))


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_a_key_quoted_in_an_error_is_never_shown(status: int, server: Server) -> None:
    """Errors are written to traces. Placeholders for keys are not masked."""
    server.say(status, b'{"error": {"message": "No such key: Bearer corporate0key, c2VjcmV0IQ==. Not EMPTY"}}')
    message = str(failing(get, server, headers={"Authorization": "Bearer corporate0key"}))
    assert "corporate0key" not in message and "No such key: Bearer …, c2V" in message
    assert "Not EMPTY" in str(failing(get, server, headers={"Authorization": "Bearer EMPTY"}))
    with_password = HttpClient("http://:secret!@host/")
    assert b"OnNlY3JldCE=" not in with_password.without_secrets(b"Basic OnNlY3JldCE=")


@pytest.mark.parametrize("name", ["key", "apikey", "api_key", "subscription-key", "access_token", "sig", "Password"])
def test_a_key_in_the_query_of_an_address_is_never_shown(name: str) -> None:
    url = f"https://host/sparql?{name}=secret&monkeys=5;x.{name}=secret"
    assert without_password(url) == f"https://host/sparql?{name}=…&monkeys=5;x.{name}=…"
    http = HttpClient(url)
    assert http.url == url and "secret" not in http.shown + str(http.failure(401, {}, b""))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a  b"}}', "a b"),
        (b'{"error": {"type": "index_not_found_exception", "reason": "no such index [x]"}}', "no such index [x]"),
        (b'{"error": "plain"}', "plain"),
        (b'{"detail": "d"}', "d"),
        (b'{"message": "m"}', "m"),
        (b"<html>", ""),
        (b"[]", ""),
        (b'"text"', ""),
        (b"[" * 100_000, ""),
    ],
)
def test_the_message_of_an_error_is_shown(body: bytes, message: str) -> None:
    assert error_text(body) == message


def test_requests_need_no_client_library() -> None:
    check = "import sys, hoptree.core.http_client; sys.exit(bool({'httpx', 'certifi'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
