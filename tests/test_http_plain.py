"""The two ways to a server: plain HTTP of our own for servers next door, httpx for all else."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.held import PATIENCE

from hoptree.core import http_client as plain
from hoptree.core.errors import EndpointError, HoptreeError, UnusableReply
from hoptree.core.http_client import BrokenOff, Http, Plain, TooLong, is_plain

BODY = b'{"a": [1]}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + BODY
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n" + BODY[:4] + b"\r\n6\r\n" + BODY[4:]


class Server:
    """Sends the bytes it is given to every request; `hang_up` ends each connection after that."""

    def __init__(self, response: bytes, *, hang_up: bool = False, delay: float = 0.0) -> None:
        self.response, self.hang_up, self.delay = response, hang_up, delay
        self.connections = self.ended = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.port = 0

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
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                length = next((line for line in head.split("\r\n") if line.lower().startswith("content-length")), ":0")
                self.bodies.append(await reader.readexactly(int(length.partition(":")[2])))
                await asyncio.sleep(self.delay)
                writer.write(self.response)
                await writer.drain()
                if self.hang_up:
                    break
        writer.close()
        self.ended += 1


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(autouse=True)
def kept_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test stands still between two requests."""
    monkeypatch.setattr(plain, "_SPARE_SECONDS", PATIENCE)
    monkeypatch.setattr(httpx._config.DEFAULT_LIMITS, "keepalive_expiry", PATIENCE)


def talk(server: Server, work: Callable[[Http], Awaitable[Any]], *, user: str = "", **options: Any) -> Any:
    async def run() -> Any:
        async with server.running():
            http = Http(f"http://{user}127.0.0.1:{server.port}/base", **options)
            try:
                return await work(http)
            finally:
                await http.aclose()

    return asyncio.run(run())


async def post(http: Http) -> Any:
    return await http.json("POST", "/x", {"q": "é"})


WAYS = pytest.mark.parametrize("user", ["", "ada:secret@"], ids=["plain", "general"])


@WAYS
@pytest.mark.parametrize(
    ("response", "hang_up"),
    [
        (WHOLE, False),
        (CHUNKED + b"\r\n0\r\n\r\n", False),
        (CHUNKED + b"\r\n0\r\nX-Trailer: 1\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE, False),
        (WHOLE.replace(b"\r\n", b"\n"), False),
        (WHOLE.replace(b"OK\r", b"OK\r\nConnection: close\r"), True),
        (b"HTTP/1.1 200 OK\r\n\r\n" + BODY, True),
        (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, True),
        (b"HTTP/1.1 200\r\ncontent-encoding: gzip\r\nContent-Length: %d\r\n\r\n", False),
    ],
)
def test_a_reply_is_read_however_it_is_written(user: str, response: bytes, hang_up: bool) -> None:
    if b"gzip" in response:
        packed = gzip.compress(BODY)
        response = response % len(packed) + packed
    server = Server(response, hang_up=hang_up)

    async def twice(http: Http) -> list[Any]:
        return [await post(http), await post(http)]

    assert talk(server, twice, user=user) == [{"a": [1]}, {"a": [1]}]
    assert server.connections == (2 if hang_up else 1), "a connection that stays open is used again"
    assert server.heads[0].startswith("POST /base/x HTTP/1.1\r\n")
    assert ("authorization: basic" in server.heads[0].lower()) == bool(user)


@WAYS
def test_requests_at_once_have_connections_of_their_own_which_are_kept(user: str) -> None:
    server = Server(WHOLE, delay=0.05)

    async def many(http: Http) -> None:
        for _ in range(2):
            await asyncio.gather(*(post(http) for _ in range(7)))
        await post(http)

    talk(server, many, user=user)
    assert server.connections == 7 and len(server.heads) == 15


@WAYS
def test_a_connection_that_the_server_ended_meanwhile_is_not_used(user: str) -> None:
    server = Server(WHOLE, hang_up=True)

    async def later(http: Http) -> Any:
        await post(http)
        while not server.ended:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        return await post(http)

    assert talk(server, later, user=user) == {"a": [1]}


@WAYS
@pytest.mark.parametrize(
    ("response", "kind", "said"),
    [
        (b"", EndpointError, "broke off"),
        (WHOLE[:-3], EndpointError, "broke off"),
        (CHUNKED, EndpointError, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", EndpointError, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n" + BODY, EndpointError, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, UnusableReply, "without end"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, UnusableReply, "without end"),
    ],
)
def test_what_is_no_whole_reply_is_said(user: str, response: bytes, kind: type[HoptreeError], said: str) -> None:
    with pytest.raises(kind, match=said):
        talk(Server(response, hang_up=True), post, user=user, max_body=1000)


@WAYS
def test_a_small_reply_may_not_grow_without_end(user: str) -> None:
    packed = gzip.compress(b"x" * 1_000_000)
    response = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    with pytest.raises(UnusableReply, match="without end"):
        talk(Server(response), post, user=user, max_body=10_000)


@WAYS
def test_who_gives_up_leaves_nothing_behind(user: str) -> None:
    """A reply that comes after its request was given up must not answer the next request."""
    server = Server(WHOLE, delay=0.2)

    async def impatient(http: Http) -> Any:
        with pytest.raises(EndpointError, match=r"within 0\.1 seconds"):
            await post(http)
        server.delay, server.response = 0.0, WHOLE.replace(b"[1]", b"[2]")
        http._timeout = PATIENCE
        return await post(http)

    assert talk(server, impatient, user=user, timeout=0.1) == {"a": [2]}
    assert server.connections == 2


@WAYS
@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("HEAD", 404), ("DELETE", 204), ("GET", 304)])
def test_a_reply_without_a_body_is_not_waited_for(user: str, method: str, status: int) -> None:
    length = b"Content-Length: 10\r\n" if method == "HEAD" else b""
    server = Server(b"HTTP/1.1 %d Said\r\n" % status + length + b"\r\n")

    async def twice(http: Http) -> list[Any]:
        return [await http.send(method, "/x"), await http.send(method, "/x")]

    for said, _, body in talk(server, twice, user=user, timeout=PATIENCE):
        assert (said, body) == (status, b"")
    assert server.connections == 1


def test_a_header_cannot_bring_another_one() -> None:
    async def smuggle(http: Http) -> Any:
        return await http.send("GET", "/x", headers={"X-Step": "a\r\nX-Other: b"})

    server = Server(WHOLE)
    with pytest.raises(EndpointError):
        talk(server, smuggle)
    assert not server.heads


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://gpu-7.lan", True),
        ("https://api.example.org/v1", False),
        ("http://ada:secret@host/v1", False),
        ("http://bücher.example/v1", False),
        ("http://host/v 1", False),
        ("http://host?x=1", False),
    ],
)
def test_which_servers_are_spoken_to_plainly(url: str, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert is_plain(url) == plain


def test_a_proxy_is_used_unless_the_server_is_excepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1,.lan")
    assert not is_plain("http://host:8000/v1")
    assert is_plain("http://127.0.0.1:8000/v1") and is_plain("http://gpu-7.lan:8000/v1")


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=40).map(lambda noise: b"HTTP/1.1 200 OK\r\n" + noise + b"\r\n\r\n" + BODY),
        st.binary(max_size=40).map(
            lambda noise: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + noise + b"\r\n0\r\n\r\n"
        ),
        st.integers(0, len(WHOLE)).map(lambda cut: WHOLE[:cut]),
    )
)
def test_whatever_a_server_sends_is_a_reply_or_a_known_failure(response: bytes) -> None:
    server = Server(response, hang_up=True)

    async def run() -> None:
        async with server.running():
            plain = Plain()
            with contextlib.suppress(BrokenOff, TooLong):
                status, _, body = await plain.send("GET", f"http://127.0.0.1:{server.port}/", b"", {}, 1000)
                assert 200 <= status <= 999 and len(body) <= 1000
            await plain.aclose()

    asyncio.run(asyncio.wait_for(run(), PATIENCE))


def test_a_body_is_json_in_ascii_and_may_hold_anything() -> None:
    server = Server(WHOLE)

    async def send(http: Http) -> Any:
        return await http.json("POST", "/x", {"half": "\ud800", "word": "né"})

    assert talk(server, send) == {"a": [1]}
    assert json.loads(server.bodies[0]) == {"half": "\ud800", "word": "né"}
    assert server.bodies[0].isascii()
