"""How much of what is too large, too slow or never read the server puts up with."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")

import uvicorn
from tests.server.hostile import all_of, deaf, drip, head, until
from tests.server.running import QUESTION, Running, eventually, limits, running, script, settings
from tests.timing import TIMEOUT_S, Clock

from hoptree.core import http_server
from hoptree.core.errors import ConfigError
from hoptree.core.http_server import listen
from hoptree.server.keys import Key


def test_a_gigabyte_is_refused_without_being_read(server: Running) -> None:
    for path in ("/v1/ask", "/v1/chat/completions", "/v1/corpora"):
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(
                head(server, path, "Content-Length: 1073741824\r\nContent-Type: multipart/form-data; boundary=x")
            )
            reply = all_of(raw)  # the server hangs up, though nothing of the body was sent
        assert reply.startswith(b"HTTP/1.1 413 ")
        assert b"TooLarge" in reply


def test_a_body_without_an_end_is_cut_off_at_the_limit(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(head(server, "/v1/ask", "Transfer-Encoding: chunked"))
        sent = 0
        try:
            while sent < 64 * 2**20:
                raw.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
                sent += 2**20
        except OSError:
            pass
    assert sent < 16 * 2**20


@pytest.mark.parametrize("size", [300, 3 * 2**20])
def test_a_client_that_is_still_sending_gets_to_read_why_it_is_refused(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_LINGER_S", TIMEOUT_S)
    with running(settings(tmp_path, keys=(Key("team", b"x" * 32),))) as server:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(head(server, "/v1/ask", f"Content-Length: {size}\r\nContent-Type: application/json"))
                assert select.select([raw], [], [], TIMEOUT_S)[0], "the server has not replied"
                raw.sendall(b" " * size)
                reply = all_of(raw)
            assert b"401" in reply.split(b"\r\n")[0] or b"413" in reply.split(b"\r\n")[0]
            assert reply.endswith(b"}")
        eventually(lambda: not server._server.server_state.connections)


def test_a_client_that_sends_on_and_on_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LINGER_S", 0.3)
    with running(settings(tmp_path, keys=(Key("team", b"x" * 32),))) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(head(server, "/v1/ask", "Content-Length: 900000\r\nContent-Type: application/json"))
            eventually(lambda: not _takes(raw, b" "))
        eventually(lambda: not server._server.server_state.connections)


def test_an_application_may_speak_to_a_client_that_was_hung_up_on(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            await asyncio.sleep(0.4)  # by then the time for the body is over
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"late"})

    async def ask() -> bytes:
        listening = listen("127.0.0.1", 0)
        served = uvicorn.Server(
            uvicorn.Config(
                app, http=http_server.protocol_with_timeouts(5.0, 0.1, per_address=4), lifespan="off", log_config=None
            )
        )
        serving = asyncio.create_task(served.serve(sockets=[listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        received = await reader.read()
        await asyncio.sleep(0.6)
        writer.close()
        served.should_exit = True
        await serving
        return received

    assert asyncio.run(ask()) == b""
    assert "Exception" not in caplog.text and "RuntimeError" not in caplog.text


def _takes(raw: socket.socket, data: bytes) -> bool:
    """Whether the other side still has the connection open."""
    try:
        raw.sendall(data)
    except OSError:
        return False
    return True


def test_slow_clients_are_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"X: {'y' * 900}"
    with running(settings(tmp_path, limits=limits(header_seconds=TIMEOUT_S))) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as second:  # slow only after a first request
            second.sendall(head(server, "/health", "X: y", method="GET"))
            assert b"200 OK" in until(second, b"}")
            monkeypatch.setattr(server._server.config.http, "header_s", 0.3)
            assert drip(second, head(server, "/health", text)) == b""
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            assert all_of(silent) == b""
        with socket.create_connection(("127.0.0.1", server.port)) as dripping:
            assert drip(dripping, head(server, "/health", text)) == b""
        monkeypatch.undo()
        assert server.ask().status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with running(settings(tmp_path, limits=limits(header_seconds=TIMEOUT_S, body_seconds=0.3))) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(head(server, "/v1/ask", "Content-Length: 100") + b"{")
            assert b"408" in all_of(slow).split(b"\r\n")[0]
        assert server.client.get("/health").status_code == 200


def test_clients_that_never_read_do_not_keep_others_out(tmp_path: Path) -> None:
    bounds = limits(connections=16, header_seconds=600)
    with running(settings(tmp_path, limits=bounds)) as server, contextlib.ExitStack() as held:
        asked = head(server, "/openapi.json", "X: y", method="GET")
        state = server._server.server_state

        def stuck() -> int:
            return sum(connection.transport.get_write_buffer_size() > 0 for connection in list(state.connections))

        def health() -> int:
            return httpx.get(f"{server.url}/health", trust_env=False, timeout=TIMEOUT_S).status_code

        for _ in range(5):
            held.enter_context(deaf(server, asked))
        eventually(lambda: stuck() == 5)
        for _ in range(10):
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert health() == 503
        server.clock.advance(http_server._UNREAD_TIMEOUT_S)
        eventually(lambda: health() == 200)
        eventually(lambda: stuck() == 0 and not state.tasks)


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    crowd = http_server.ConnectionLimit(2)
    assert [crowd.admit(f"2001:db8:1:2::{number}") for number in range(4)] == [True, True, False, False]
    assert crowd.admit("2001:db8:1:3::1"), "another network has connections of its own"
    crowd.release("2001:db8:1:2::9")
    crowd.release("2001:db8:1:2::9")
    crowd.release("2001:db8:1:2::9")
    assert crowd.admit("2001:db8:1:2::1")
    assert [crowd.admit("::ffff:192.0.2.1") for _ in range(3)] == [True, True, False]
    assert not crowd.admit("192.0.2.1"), "the same address, written in two ways"
    assert all(crowd.admit(host) for host in ("::1", "127.0.0.1", "::ffff:127.0.0.1") for _ in range(5))


def test_one_address_cannot_take_the_place_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd = http_server.ConnectionLimit(3)
    monkeypatch.setattr(http_server, "ConnectionLimit", lambda per_address: crowd)
    with running(settings(tmp_path)) as server, contextlib.ExitStack() as held:
        for _ in range(5):  # a proxy on this machine has as many as it likes
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert server.client.get("/health").status_code == 200
        server.client.close()
        held.close()
        eventually(lambda: not server._server.server_state.connections)
        monkeypatch.setattr(http_server, "is_loopback", lambda host: False)
        for _ in range(3):
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        for _ in range(4):
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{server.url}/health", trust_env=False)
        assert caplog.text.count("127.0.0.1 has 3 connections, and gets no more") == 1
        held.close()
        eventually(lambda: not server._server.server_state.connections)
        assert httpx.get(f"{server.url}/health", trust_env=False, timeout=TIMEOUT_S).status_code == 200


def test_a_client_that_reads_slowly_gets_all_of_it() -> None:
    """It takes several times as long as one may read nothing at all, by a clock that only its reading moves on."""
    size = 24 * 2**20
    byte_seconds = 3 * http_server._UNREAD_TIMEOUT_S / size

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": bytes(size)})

    async def read() -> int:
        clock = Clock(asyncio.get_running_loop())
        listening = listen("127.0.0.1", 0)
        served = uvicorn.Server(
            uvicorn.Config(
                app, http=http_server.protocol_with_timeouts(5.0, per_address=4), lifespan="off", log_config=None
            )
        )
        serving = asyncio.create_task(served.serve(sockets=[listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        got = 0
        while part := await reader.read(2**17):
            got += len(part)
            clock.advance(len(part) * byte_seconds)
        writer.close()
        served.should_exit = True
        await serving
        return got

    assert asyncio.run(read()) > size


def test_a_question_that_takes_too_long_ends_with_what_there_is(tmp_path: Path) -> None:
    with running(settings(tmp_path, models={"demo": script(5.0)}, limits=limits(seconds=0.2))) as server:
        assert server.ask().json()["stopped_by"] == "seconds"
        assert server.ask(budget={"seconds": 100}).json()["stopped_by"] == "seconds"


def test_more_questions_than_allowed_at_once_are_asked_to_wait(tmp_path: Path) -> None:
    with running(settings(tmp_path, models={"demo": script(TIMEOUT_S)}, limits=limits(asking=1))) as server:
        with server.client.stream("POST", "/v1/ask", json={"question": QUESTION, "stream": True}) as first:
            lines = first.iter_lines()  # held: what is dropped hangs up
            next(lines)
            refused = server.ask("another?")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_body_does_not_wait_until_its_head_is_acknowledged(host: str) -> None:
    """Without TCP_NODELAY each reply on a kept connection takes 40 ms."""

    async def accepted() -> int:
        option: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            option.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        try:
            listening = listen(host, 0)
        except ConfigError:
            return 1  # a machine without IPv6
        async with await asyncio.start_server(look, sock=listening):
            _, writer = await asyncio.open_connection(host, listening.getsockname()[1])
            writer.close()
            return await option

    assert asyncio.run(accepted())
