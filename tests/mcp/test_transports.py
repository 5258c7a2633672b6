"""`hoptree mcp` as a process of its own, over streams and over HTTP, talked to by the reference client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.command_line import call
from tests.e2e.endpoint import Endpoint, silent
from tests.mcp.served import (
    PLAN,
    QUESTION,
    Heard,
    answering,
    checking,
    command,
    forked_streams,
    http,
    in_process,
    new_interpreter,
    streams,
    text_of,
)
from tests.timing import TIMEOUT_S

from hoptree.core import http_server
from hoptree.mcp import server as serving
from hoptree.mcp.server import KEY, MAX_BODY_BYTES, Address
from hoptree.models.scripted import Rule

pytest.importorskip("mcp_types")

import httpx2  # what the client is made of
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

SECRET = "a-long-and-random-text"
Do = Callable[[Client], Awaitable[Any]]
TRUE = {"isTrue": True, "correct_answer": "Yes", "ref": {"wikipedia": ["T1"]}}


async def over_streams(arguments: list[str], do: Do, mode: str) -> Any:
    async with forked_streams(arguments, mode) as client:
        return await do(client)


async def over_http(arguments: list[str], do: Do, mode: str) -> Any:
    async with http(arguments) as (url, _), Client(url, mode=mode) as client:
        return await do(client)


everywhere = pytest.mark.parametrize("over", [over_streams, over_http])


@everywhere
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_all_tools_answer(over: Any, mode: str, tmp_path: Path) -> None:
    async def use(client: Client) -> None:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} == {"ask", "search", "decompose", "verify_claim"}
        heard = Heard()
        answer = await client.call_tool("ask", {"question": QUESTION}, progress_callback=heard)
        assert answer.structured_content is not None and answer.structured_content["answer"] == "1948"
        assert "planned 2 sub-questions" in heard.lines and heard.values == sorted(set(heard.values))
        search_result = await client.call_tool("search", {"query": "Bille August", "k": 1})
        assert "Bille August was born in 1948" in text_of(search_result)
        plan = await client.call_tool("decompose", {"question": QUESTION})
        assert "2. In which year was #query1 born?" in text_of(plan)
        check = await client.call_tool("verify_claim", {"claim": "Bille August was born in 1948."})
        assert text_of(check).startswith("Verdict: supported")
        refused = await client.call_tool("ask", {"question": ""})
        assert refused.is_error and "question: String should have at least 1 character." in text_of(refused)

    rules = [*checking(TRUE), *answering(latency=0.02)]
    asyncio.run(over(command(tmp_path, rules, "--no-cache"), use, mode))


def test_what_an_endpoint_says_stays_with_who_runs_the_server(tmp_path: Path) -> None:
    """Whoever starts a server over its streams runs it; over HTTP clients may be anybody."""

    async def ask(client: Client) -> str:
        return text_of(await client.call_tool("ask", {"question": QUESTION}))

    async def ask_new_interpreter() -> str:
        async with Client(streams(arguments)) as client:
            return await ask(client)

    arguments = command(tmp_path, [Rule(fault="401")], "--no-cache")
    assert "The script says 401. Set OPENAI_API_KEY" in asyncio.run(ask_new_interpreter())
    result = asyncio.run(over_http(arguments, ask, "auto"))
    assert "refused the server's key (HTTP 401)" in result and "script" not in result


@everywhere
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_that_is_broken_off_ends_at_the_server(over: Any, mode: str, tmp_path: Path) -> None:
    """What it was asking its model is hung up on, and nothing else is asked."""

    async def break_off(client: Client) -> None:
        heard = Heard()
        asking = asyncio.create_task(client.call_tool("ask", {"question": QUESTION}, progress_callback=heard))
        async with asyncio.timeout(TIMEOUT_S):
            await heard.first.wait()
            while endpoint.steps() != ["taikc/decompose", "taikc/confident"]:
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            while not endpoint.requests[-1].hung_up:
                await asyncio.sleep(0.01)
        again = await client.call_tool("search", {"query": "Bille August", "k": 1})
        assert not again.is_error, "the server goes on"

    with Endpoint() as endpoint:
        endpoint.on("taikc/decompose", json.dumps(PLAN))
        endpoint.on("taikc/confident", silent())
        arguments = command(tmp_path, [], "--no-cache", model=["--model", "openai/test", "--base-url", endpoint.url])
        asyncio.run(over(arguments, break_off, mode))
        assert endpoint.steps() == ["taikc/decompose", "taikc/confident"]


def test_a_client_that_goes_away_ends_the_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hoptree", *command(tmp_path, answering())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate("", timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_ends_in_order(number: signal.Signals, tmp_path: Path) -> None:
    async def stop() -> tuple[int | None, str]:
        async with http(command(tmp_path, answering()), start=new_interpreter) as (url, process):
            async with Client(url) as client:
                await client.call_tool("search", {"query": "film"})
            process.send_signal(number)
            _, err = await asyncio.to_thread(process.communicate, None, TIMEOUT_S)
            return process.returncode, err

    assert asyncio.run(stop()) == (0, "")


# Who is let in


def post(url: str, body: bytes | str = b"{}", **headers: str) -> httpx.Response:
    known = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return httpx.post(url, content=body, headers=known | headers, timeout=TIMEOUT_S, trust_env=False)


def test_a_page_under_another_name_is_not_let_in(tmp_path: Path) -> None:
    async def knock() -> list[int]:
        async with http(command(tmp_path, answering())) as (url, _):
            return [
                (await asyncio.to_thread(post, url, host="evil.example")).status_code,
                (await asyncio.to_thread(post, url, origin="http://evil.example")).status_code,
                (await asyncio.to_thread(post, url, b"x" * (MAX_BODY_BYTES + 1))).status_code,
                (await asyncio.to_thread(post, url, b"not json")).status_code,
            ]

    assert asyncio.run(knock()) == [421, 403, 413, 400]


def test_a_key_is_asked_for_where_one_is_set(tmp_path: Path) -> None:
    async def knock() -> list[int]:
        async with http(command(tmp_path, answering()), environment={KEY: SECRET}) as (url, _):
            refused = [
                await asyncio.to_thread(post, url),
                await asyncio.to_thread(post, url, authorization="Bearer wrong"),
                await asyncio.to_thread(post, url, authorization=SECRET),
            ]
            assert all("HOPTREE_MCP_KEY" in response.text for response in refused)
            sent = {"Authorization": f"bearer {SECRET}"}
            async with (
                httpx2.AsyncClient(headers=sent, timeout=TIMEOUT_S, trust_env=False) as transport,
                Client(streamable_http_client(url, http_client=transport)) as client,
            ):
                assert not (await client.call_tool("search", {"query": "film"})).is_error
            return [response.status_code for response in refused]

    assert asyncio.run(knock()) == [401, 401, 401]


def test_who_is_not_let_in_is_logged_one_plain_line_each(tmp_path: Path) -> None:
    async def knock() -> str:
        async with http(command(tmp_path, answering()), environment={KEY: SECRET, "COLUMNS": "40"}) as (url, process):
            await asyncio.to_thread(post, url)
            await asyncio.to_thread(post, url, authorization="Bearer wrong")
            far = f"a-name-that-is-not-broken-over-lines.{'x' * 60}.example"
            await asyncio.to_thread(post, url, authorization=f"Bearer {SECRET}", host=far)
            process.send_signal(signal.SIGTERM)
            return (await asyncio.to_thread(process.communicate, None, TIMEOUT_S))[1]

    first, second, third = asyncio.run(knock()).splitlines()
    assert first.endswith("refused NoKey key=- from 127.0.0.1: The bearer key is missing.")
    assert second.endswith("refused WrongKey key=- from 127.0.0.1: The bearer key is wrong.")
    assert " WARNING " in first and f"{'x' * 60}.example" in third


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", "::"])
def test_other_machines_need_a_key(host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    run = refused(tmp_path, "--http", f"{host}:8765")
    assert "no key was set. Set HOPTREE_MCP_KEY" in run.stderr


@pytest.mark.parametrize(
    "key", ["kkk", "fifteen-letters", "sixteen letters and spaces", "sixteen-letters-\n", "schlüssel-von-sechzehn"]
)
def test_a_key_that_can_be_guessed_or_not_be_sent_is_refused(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, key)
    run = refused(tmp_path, "--http", "0.0.0.0:0")
    assert "fewer than 16 characters" in run.stderr and key not in run.stderr


def test_another_address_is_served_with_a_key(tmp_path: Path) -> None:
    async def knock() -> tuple[str, int]:
        arguments = command(tmp_path, answering())
        async with http(arguments, address="0.0.0.0:0", environment={KEY: SECRET}) as (url, _):
            near = url.replace("0.0.0.0", "127.0.0.1")
            return url, (await asyncio.to_thread(post, near, authorization="Bearer wrong")).status_code

    url, status = asyncio.run(knock())
    assert url.startswith("http://0.0.0.0:") and status == 401


@pytest.mark.parametrize(
    "sent", [b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nHost: localhost:1\r\nContent-Length: 9\r\n\r\n{"]
)
def test_slow_clients_are_hung_up_on(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_HEADER_TIMEOUT_S", 0.3)
    monkeypatch.setattr(serving, "_BODY_TIMEOUT_S", 0.6)

    async def drip(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        reply = await asyncio.wait_for(reader.read(), TIMEOUT_S)
        writer.close()
        return reply

    assert b" 200 " not in asyncio.run(in_process(drip))


def test_more_connections_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MAX_CONNECTIONS", 2)

    async def crowd(port: int) -> list[int]:
        url = f"http://127.0.0.1:{port}/mcp"
        first = await asyncio.to_thread(post, url, b"not json")
        _, idle = await asyncio.open_connection("127.0.0.1", port)
        second = await asyncio.to_thread(post, url, b"not json")
        idle.close()
        return [first.status_code, second.status_code]

    assert asyncio.run(in_process(crowd)) == [400, 503]


def test_one_address_cannot_take_the_place_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MAX_CONNECTIONS", 8)
    monkeypatch.setattr(http_server, "is_loopback", lambda host: host == "127.0.0.1")

    async def crowd(port: int) -> tuple[int, int]:
        held = [await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0)) for _ in range(12)]
        for _, writer in held:
            writer.write(b"POST /mcp HT")
        async with asyncio.timeout(TIMEOUT_S):
            while (refused := sum(reader.at_eof() or reader.exception() is not None for reader, _ in held)) < 10:
                await asyncio.sleep(0.01)
        probe = await asyncio.to_thread(post, f"http://127.0.0.1:{port}/mcp", b"not json")
        for _, writer in held:
            writer.close()
        return refused, probe.status_code

    assert asyncio.run(in_process(crowd)) == (10, 400)


@pytest.mark.parametrize("path", ["/mcp/", "/"])
def test_nobody_is_sent_to_another_address(path: str) -> None:
    async def knock(port: int) -> httpx.Response:
        return await asyncio.to_thread(post, f"http://127.0.0.1:{port}{path}")

    reply = asyncio.run(in_process(knock))
    assert reply.status_code == 404 and "location" not in reply.headers


OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


def test_sessions_that_are_opened_and_never_used_are_bounded_and_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_MAX_SESSIONS", 3)
    monkeypatch.setattr(serving, "_SESSION_IDLE_S", 1.0)
    headers = {"Accept": "application/json, text/event-stream"}

    async def open_many(port: int) -> list[int]:
        async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S) as client:

            async def opened() -> int:
                return (await client.post(f"http://127.0.0.1:{port}/mcp", json=OPENING)).status_code

            statuses = [await opened() for _ in range(4)]
            while (last := await opened()) != 200:  # ends once the first are closed for want of use
                await asyncio.sleep(0.1)
            return [*statuses, last]

    assert asyncio.run(in_process(open_many)) == [200, 200, 200, 503, 200]


@pytest.mark.parametrize(
    ("address", "host", "port", "local"),
    [
        ("8765", "127.0.0.1", 8765, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:80", "::1", 80, True),
        ("127.0.0.2:80", "127.0.0.2", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("example.org:80", "example.org", 80, False),
    ],
)
def test_an_address_is_read(address: str, host: str, port: int, local: bool) -> None:
    parsed = Address.parse(address)
    assert (parsed.host, parsed.port, parsed.local) == (host, port, local)


# What cannot be served


def refused(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    run = call(*command(folder, answering(), *options), folder=folder, environment=dict(os.environ))
    assert run.returncode == 2 and run.stderr.count("\n") == 1, run.stderr
    return run


@pytest.mark.parametrize("address", ["x", "99999", "127.0.0.1:", "127.0.0.1:-1", ":٣"])
def test_what_is_no_address_is_refused(address: str, tmp_path: Path) -> None:
    assert "is not an address. Write --http 8765" in refused(tmp_path, "--http", address).stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert (
            f"cannot listen on 127.0.0.1, port {port}: Address already in use. Choose another --http"
            in refused(tmp_path, "--http", str(port)).stderr
        )


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (("--method", "nonsense"), "There is no method 'nonsense'."),
        (("--budget", "much"), "'much' is not a budget."),
        (("--set", "k=0"), "k=0 is not possible"),
    ],
)
def test_an_administrators_mistake_is_told_before_anything_is_served(
    option: tuple[str, str], complaint: str, tmp_path: Path
) -> None:
    assert complaint in refused(tmp_path, *option).stderr


def test_the_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("hoptree.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    assert "pip install 'hoptree[mcp]'" in refused(tmp_path).stderr
