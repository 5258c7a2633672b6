"""Connections of the HTTP client: replies in every form, keep-alive, TLS, proxies and passwords."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.timing import TIMEOUT_S

from hoptree.core import http_client
from hoptree.core.errors import ConfigError, EndpointError, HoptreeError, UnusableReply
from hoptree.core.http_client import BodyTooLarge, ConnectionBroken, ConnectionPool, HttpClient

BODY = b'{"a": [1]}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + BODY
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\n" + BODY[:4] + b"\r\n6\r\n" + BODY[4:]


class Server:
    """A server that sends the same bytes to every request; `hang_up` then closes the connection."""

    def __init__(
        self, response: bytes, *, hang_up: bool = False, delay: float = 0.0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.response, self.hang_up, self.delay, self.tls = response, hang_up, delay, tls
        self.connections = self.ended = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
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
    """Keep idle connections open however long a test pauses."""
    monkeypatch.setattr(http_client, "_MAX_IDLE_S", TIMEOUT_S)


def talk(server: Server, work: Callable[[HttpClient], Awaitable[Any]], *, user: str = "", **options: Any) -> Any:
    async def run() -> Any:
        async with server.running():
            scheme = "https" if server.tls else "http"
            http = HttpClient(f"{scheme}://{user}127.0.0.1:{server.port}/base", **options)
            try:
                return await work(http)
            finally:
                await http.aclose()

    return asyncio.run(run())


async def post(http: HttpClient) -> Any:
    return await http.json("POST", "/x", {"q": "é"})


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
def test_every_form_of_reply_is_read(response: bytes, hang_up: bool) -> None:
    if b"gzip" in response:
        packed = gzip.compress(BODY)
        response = response % len(packed) + packed
    server = Server(response, hang_up=hang_up)

    async def twice(http: HttpClient) -> list[Any]:
        return [await post(http), await post(http)]

    assert talk(server, twice) == [{"a": [1]}, {"a": [1]}]
    assert server.connections == (2 if hang_up else 1), "a connection that stays open is used again"
    assert server.heads[0].startswith("POST /base/x HTTP/1.1\r\n")


def test_concurrent_requests_have_separate_connections_that_are_kept() -> None:
    server = Server(WHOLE, delay=0.05)

    async def many(http: HttpClient) -> None:
        for _ in range(2):
            await asyncio.gather(*(post(http) for _ in range(7)))
        await post(http)

    talk(server, many)
    assert server.connections == 7 and len(server.heads) == 15


def test_a_connection_closed_by_the_server_is_not_reused() -> None:
    server = Server(WHOLE, hang_up=True)

    async def later(http: HttpClient) -> Any:
        await post(http)
        while not server.ended:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        return await post(http)

    assert talk(server, later) == {"a": [1]}


@pytest.mark.parametrize(
    ("response", "kind", "message"),
    [
        (b"", EndpointError, "broke off"),
        (WHOLE[:-3], EndpointError, "broke off"),
        (CHUNKED, EndpointError, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", EndpointError, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n" + BODY, EndpointError, "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, UnusableReply, "without end"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, UnusableReply, "without end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + WHOLE, EndpointError, "broke off"),
        (CHUNKED + b"\r\n0\r\n" + b"X: a\r\n" * 500 + b"\r\n", EndpointError, "broke off"),
    ],
)
def test_an_incomplete_reply_is_reported(response: bytes, kind: type[HoptreeError], message: str) -> None:
    with pytest.raises(kind, match=message):
        talk(Server(response, hang_up=True), post, max_body=1000)


def test_a_compressed_reply_has_a_limit() -> None:
    packed = gzip.compress(b"x" * 1_000_000)
    response = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed
    with pytest.raises(UnusableReply, match="without end"):
        talk(Server(response), post, max_body=10_000)


def test_a_cancelled_request_leaves_nothing_open() -> None:
    """A late reply to a cancelled request must not answer the next one."""
    server = Server(WHOLE, delay=0.2)

    async def impatient(http: HttpClient) -> Any:
        with pytest.raises(EndpointError, match=r"within 0\.1 seconds"):
            await post(http)
        server.delay, server.response = 0.0, WHOLE.replace(b"[1]", b"[2]")
        http._timeout = TIMEOUT_S
        return await post(http)

    assert talk(server, impatient, timeout=0.1) == {"a": [2]}
    assert server.connections == 2


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("HEAD", 404), ("DELETE", 204), ("GET", 304)])
def test_a_reply_without_a_body_is_not_waited_for(method: str, status: int) -> None:
    length = b"Content-Length: 10\r\n" if method == "HEAD" else b""
    server = Server(b"HTTP/1.1 %d Said\r\n" % status + length + b"\r\n")

    async def twice(http: HttpClient) -> list[Any]:
        return [await http.send(method, "/x"), await http.send(method, "/x")]

    for reply_status, _, body in talk(server, twice, timeout=TIMEOUT_S):
        assert (reply_status, body) == (status, b"")
    assert server.connections == 1


def test_a_header_cannot_inject_another() -> None:
    async def smuggle(http: HttpClient) -> Any:
        return await http.send("GET", "/x", headers={"X-Step": "a\r\nX-Other: b"})

    server = Server(WHOLE)
    with pytest.raises(EndpointError):
        talk(server, smuggle)
    assert not server.heads


def test_a_password_in_the_url_is_sent_and_not_shown() -> None:
    server = Server(WHOLE)
    assert talk(server, post, user="ada:se%40cret@") == {"a": [1]}
    assert f"authorization: basic {base64.b64encode(b'ada:se@cret').decode()}".lower() in server.heads[0].lower()
    assert "ada" not in server.heads[0].partition("Host:")[2].split("\r\n")[0]


@pytest.mark.parametrize(
    ("url", "line", "host"),
    [
        ("http://host", "GET / HTTP/1.1", "host"),
        ("http://host/v 1/é?x=a b", "GET /v%201/%C3%A9?x=a%20b HTTP/1.1", "host"),
        ("http://bücher.example:8000/v1", "GET /v1 HTTP/1.1", "xn--bcher-kva.example:8000"),
        ("http://[::1]:8000/v1", "GET /v1 HTTP/1.1", "[::1]:8000"),
    ],
)
def test_unusual_urls_become_plain_ascii(url: str, line: str, host: str) -> None:
    head = http_client._request_head("GET", urlsplit(url), {}, 0, None).decode()
    assert head.startswith(f"{line}\r\n") and f"\r\nHost: {host}\r\n" in head


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    options = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command = ("openssl", *options.split(), "-keyout", f"{path}.key", "-out", str(path))
    subprocess.run(command, check=True, capture_output=True)
    return path


def tls_server(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, f"{certificate}.key")
    return context


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    http_client.tls_context.cache_clear()
    yield certificate
    http_client.tls_context.cache_clear()


async def twice(http: HttpClient) -> list[Any]:
    return [await post(http), await post(http)]


def test_a_server_with_a_trusted_certificate_is_asked_over_tls(trusted: Path) -> None:
    server = Server(WHOLE, tls=tls_server(trusted))
    assert talk(server, twice) == [{"a": [1]}, {"a": [1]}]
    assert server.connections == 1 and "accept-encoding: gzip" in server.heads[0].lower()


def test_an_untrusted_certificate_is_refused(certificate: Path) -> None:
    with pytest.raises(EndpointError, match=r"cannot be reached.*certificate"):
        talk(Server(WHOLE, tls=tls_server(certificate)), post)


class Proxy:
    """A proxy that opens tunnels, and keeps the heads of all requests."""

    def __init__(self, status: int = 200) -> None:
        self.status, self.heads, self.port = status, list[str](), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        method, target, _ = head.split(" ", 2)
        if method == "CONNECT" and self.status == 200:
            host, _, port = target.rpartition(":")
            onward, back = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, back), pump(onward, writer))
        else:
            body = b"" if method == "CONNECT" else BODY
            writer.write(b"HTTP/1.1 %d Reply\r\nContent-Length: %d\r\n\r\n" % (self.status, len(body)) + body)
            await writer.drain()
            writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    writer.close()


def through(proxy: Proxy, work: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    async def run() -> Any:
        listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        proxy.port = listening.sockets[0].getsockname()[1]
        monkeypatch.setenv(name, f"http://eve:pw@127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "excepted.example")
        try:
            return await work()
        finally:
            listening.close()

    return asyncio.run(run())


_PROXY_KEY = f"proxy-authorization: basic {base64.b64encode(b'eve:pw').decode()}".lower()


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_plain_http_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    proxy = Proxy()

    async def ask() -> Any:
        http = HttpClient("http://ada:secret@nowhere.example:81/base")
        try:
            return await http.json("GET", "/x?y=1")
        finally:
            await http.aclose()

    assert through(proxy, ask, monkeypatch, name) == {"a": [1]}
    assert proxy.heads[0].startswith("GET http://nowhere.example:81/base/x?y=1 HTTP/1.1\r\n")
    assert _PROXY_KEY in proxy.heads[0].lower() and "\r\nHost: nowhere.example:81\r\n" in proxy.heads[0]


def test_tls_goes_through_a_proxy_tunnel_unread(trusted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, proxy = Server(WHOLE, tls=tls_server(trusted)), Proxy()

    async def ask() -> Any:
        async with server.running():
            http = HttpClient(f"https://127.0.0.1:{server.port}/base")
            try:
                return await twice(http)
            finally:
                await http.aclose()

    assert through(proxy, ask, monkeypatch, "https_proxy") == [{"a": [1]}, {"a": [1]}]
    assert proxy.heads[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n") and len(proxy.heads) == 1
    assert _PROXY_KEY in proxy.heads[0].lower() and "proxy-authorization" not in server.heads[0].lower()


def test_a_proxy_that_refuses_a_tunnel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> Any:
        return await HttpClient("https://nowhere.example/v1").json("GET", "/x")

    with pytest.raises(EndpointError, match=r"cannot be reached .the proxy answered HTTP 407"):
        through(Proxy(407), ask, monkeypatch, "https_proxy")


def test_a_server_may_be_exempt_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1,.lan")
    assert http_client._proxy_for(urlsplit("http://host:8000/v1")) is not None
    for url in ("http://127.0.0.1:8000/v1", "http://gpu-7.lan:8000/v1", "http://ada:secret@gpu-7.lan/v1"):
        assert http_client._proxy_for(urlsplit(url)) is None


def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://eve:pw@proxy.example:1080")
    with pytest.raises(ConfigError, match="cannot be used") as refused:
        http_client._proxy_for(urlsplit("http://host/v1"))
    assert "pw" not in str(refused.value)


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
def test_any_bytes_are_a_reply_or_a_known_error(response: bytes) -> None:
    server = Server(response, hang_up=True)

    async def run() -> None:
        async with server.running():
            pool = ConnectionPool()
            with contextlib.suppress(ConnectionBroken, BodyTooLarge):
                status, _, body = await pool.send("GET", f"http://127.0.0.1:{server.port}/", b"", {}, 1000)
                assert 200 <= status <= 999 and len(body) <= 1000
            pool.close()

    asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))


def test_a_body_is_ascii_json_of_any_value() -> None:
    server = Server(WHOLE)

    async def send(http: HttpClient) -> Any:
        return await http.json("POST", "/x", {"half": "\ud800", "word": "né"})

    assert talk(server, send) == {"a": [1]}
    assert json.loads(server.bodies[0]) == {"half": "\ud800", "word": "né"}
    assert server.bodies[0].isascii()
