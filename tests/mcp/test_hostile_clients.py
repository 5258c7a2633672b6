"""Clients that send what no client should: each message is answered with an error, and memory stays flat."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import pytest
from tests.mcp.served import QUESTION, answering, command, in_process, raw_streams
from tests.timing import TIMEOUT_S, PausedModel

from hoptree.models.scripted import Rule, ScriptedModel

pytest.importorskip("mcp_types")

from hoptree.mcp import transport

Streams = tuple[IO[bytes], IO[bytes]]
VERSION = "2025-06-18"
HELLO = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
HALF = '{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": "\\ud800"}}'
DEEP = '{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": %s}}' % ("[" * 100_000 + "]" * 100_000)
PARSE, INVALID, UNKNOWN, PARAMETERS = -32700, -32600, -32601, -32602

NO_MESSAGES: dict[str, tuple[str, int, Any]] = {
    "no JSON": ("{", PARSE, None),
    "half a message": ('{"jsonrpc": "2.0", "id": 5, "meth', PARSE, None),
    "bytes that are no text": ("\udcff\udcfe\x00", PARSE, None),
    "brackets without end": ("[" * 100_000, PARSE, None),
    "deeply nested arguments": (DEEP, PARSE, None),
    "half a character": (HALF, INVALID, 5),
    "null": ("null", INVALID, None),
    "a number": ("5", INVALID, None),
    "an empty object": ("{}", INVALID, None),
    "an empty batch": ("[]", INVALID, None),
    "a batch": ('[{"jsonrpc": "2.0", "id": 5, "method": "ping"}]', INVALID, None),
    "another version": ('{"jsonrpc": "1.0", "id": 5, "method": "ping"}', INVALID, 5),
    "a method that is a number": ('{"jsonrpc": "2.0", "id": 5, "method": 5}', INVALID, 5),
    "parameters in a list": ('{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": []}', INVALID, 5),
    "parameters in a text": ('{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": "x"}', INVALID, 5),
    "an id that is half a character": ('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', INVALID, None),
    **{
        f"the id {wrong}": (f'{{"jsonrpc": "2.0", "id": {wrong}, "method": "ping"}}', INVALID, None)
        for wrong in ("null", "true", "1.5", "[1]", '{"a": 1}')
    },
}
"""What is sent, with the code of the error and the id that it names."""

WRONG_REQUESTS: dict[str, tuple[str, Any, int]] = {
    "an unknown method": ("nonsense", None, UNKNOWN),
    "no method": ("", None, UNKNOWN),
    "a method without end": ("x" * 100_000, None, UNKNOWN),
    "a notification with an id": ("notifications/cancelled", {"requestId": 9}, UNKNOWN),
    "no name": ("tools/call", {}, PARAMETERS),
    "a name that is a number": ("tools/call", {"name": 5}, PARAMETERS),
    "arguments in a list": ("tools/call", {"name": "search", "arguments": [1]}, PARAMETERS),
    "a token that is none": (
        "tools/call",
        {"name": "search", "arguments": {"query": "film"}, "_meta": {"progressToken": {}}},
        PARAMETERS,
    ),
}
IGNORED = (
    '{"jsonrpc": "2.0", "id": 5, "result": {}}',
    '{"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}}',
    '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999}}',
    '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}',
    '{"jsonrpc": "2.0", "method": "notifications/nonsense", "params": {"a": "b"}}',
    '{"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "search", "arguments": {"query": "film"}}}',
    "  ",
)
TEXTS = {"ask": "question", "decompose": "question", "search": "query", "verify_claim": "claim"}
NO_TEXTS: tuple[Any, ...] = (None, 5, 1.5, True, [], {}, ["x"], "", " \n", "x" * 100_000)
NO_COUNTS: tuple[Any, ...] = (None, True, -1, 0, 51, 2**70, 1e308, 1.5, "x", "[" * 100_000, "1" * 100_000, [5], {})
WRONG_ARGUMENTS = [
    *((tool, {name: wrong}) for tool, name in TEXTS.items() for wrong in NO_TEXTS),
    *(("search", {"query": "film", "k": wrong}) for wrong in NO_COUNTS),
    *((tool, {}) for tool in TEXTS),
    ("verify_claim", {"claim": "x", "question": []}),
    ("search", {f"a{number}": number for number in range(5_000)}),
    ("nonsense", {}),
    ("x" * 100_000, {}),
]


def request(method: str, parameters: Any = None, number: Any = 1) -> bytes:
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(message | ({} if parameters is None else {"params": parameters})).encode()


def calling(tool: str, arguments: Any, number: Any = 1) -> bytes:
    return request("tools/call", {"name": tool, "arguments": arguments}, number)


# Over streams


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    """One server for all of them, which is not ended by any."""
    arguments = command(tmp_path_factory.mktemp("streams"), answering(), "--no-cache")
    with raw_streams(arguments) as (given, output, process):
        assert "result" in answered((given, output), request("initialize", HELLO, 0))
        given.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield given, output
        assert answered((given, output), request("ping", None, "last")) == {
            "jsonrpc": "2.0",
            "id": "last",
            "result": {},
        }
        given.close()
        _, errors = process.communicate(None, TIMEOUT_S)
    assert "Traceback" not in errors and process.returncode == 0


def answered(streams: Streams, message: bytes) -> dict[str, Any]:
    given, output = streams
    given.write(message + b"\n")
    reply: dict[str, Any] = json.loads(output.readline())
    return reply


@pytest.mark.parametrize("what", NO_MESSAGES)
def test_what_is_no_message_is_answered_with_an_error(what: str, streams: Streams) -> None:
    message, code, number = NO_MESSAGES[what]
    reply = answered(streams, message.encode(errors="surrogateescape"))
    assert (reply["error"]["code"], reply["id"]) == (code, number) and len(json.dumps(reply)) < 300


@pytest.mark.parametrize("what", WRONG_REQUESTS)
def test_requests_that_cannot_be_met_are_answered_with_an_error(what: str, streams: Streams) -> None:
    method, parameters, code = WRONG_REQUESTS[what]
    reply = answered(streams, request(method, parameters, "7"))
    assert (reply["error"]["code"], reply["id"]) == (code, "7")


def test_wrong_arguments_are_named_in_a_short_sentence(streams: Streams) -> None:
    for number, (tool, arguments) in enumerate(WRONG_ARGUMENTS):
        reply = answered(streams, calling(tool, arguments, number))
        (content,) = reply["result"]["content"]
        assert reply["id"] == number and reply["result"]["isError"] and len(content["text"]) < 200, reply


def test_what_wants_no_answer_gets_none(streams: Streams) -> None:
    for message in IGNORED:
        streams[0].write(message.encode() + b"\n")
    assert answered(streams, request("ping", None, "next"))["id"] == "next"


def test_a_message_without_end_is_refused_and_not_kept(streams: Streams) -> None:
    for _ in range(3 * transport._MAX_LINE_BYTES // 2**20):
        streams[0].write(b"x" * 2**20)
    reply = answered(streams, b"")
    assert (reply["error"]["code"], reply["id"]) == (INVALID, None) and "4,194,304 bytes" in reply["error"]["message"]


def test_requests_are_not_read_while_their_replies_are_not(streams: Streams) -> None:
    """A client that only sends fills its pipe, not the server's memory; once it reads, nothing is missing."""
    given, output = streams
    count = 5_000
    requests = [request("ping", {"a": "x" * 1_000}, number) + b"\n" for number in range(count)]
    flood = threading.Thread(target=given.writelines, args=(requests,))
    flood.start()
    flood.join(1.0)
    assert flood.is_alive(), "the server reads on, whatever its client does"
    numbers = [json.loads(output.readline())["id"] for _ in range(count)]
    flood.join(TIMEOUT_S)
    assert sorted(numbers) == list(range(count))


def test_a_client_that_stops_listening_ends_the_server_without_a_word(tmp_path: Path) -> None:
    with raw_streams(command(tmp_path, answering(), "--no-cache")) as (given, output, process):
        answered((given, output), request("initialize", HELLO, 0))
        output.close()
        given.write(request("ping") + b"\n")
        given.close()
        _, errors = process.communicate(None, TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")


def test_half_characters_of_a_model_are_replaced(tmp_path: Path) -> None:
    """No UTF-8 holds them: the whole server ended when it wrote its reply."""
    plan = json.dumps({"query1": {"question": "Who \ud800 directed it?"}})
    rules = [Rule(plan, step="decompose"), Rule("RAG_REQUIRED", step="confident"), Rule("A \ud800")]
    with raw_streams(command(tmp_path, rules, "--no-cache")) as (given, output, _):
        answered((given, output), request("initialize", HELLO, 0))
        parameters = {"name": "ask", "arguments": {"question": QUESTION}, "_meta": {"progressToken": 1}}
        given.write(request("tools/call", parameters, 5) + b"\n")
        while "id" not in (reply := json.loads(output.readline())):
            assert reply["method"] == "notifications/progress"
        assert reply["result"]["structuredContent"]["answer"] == "A ?"


# Over HTTP


class Session:
    """A session of a client that sends what it likes."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client, self._url = client, url
        self._headers: dict[str, str] = {}

    async def post(self, message: bytes, **headers: str) -> httpx.Response:
        return await self._client.post(self._url, content=message, headers=self._headers | headers)

    async def delete(self) -> int:
        return (await self._client.delete(self._url, headers=self._headers)).status_code

    async def open(self) -> Session:
        opened = await self.post(request("initialize", HELLO, 0))
        self._headers = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": VERSION}
        await self.post(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return self


def in_session(do: Callable[[Session], Awaitable[Any]], model: ScriptedModel | None = None) -> Any:
    known = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

    async def connect(port: int) -> Any:
        async with httpx.AsyncClient(headers=known, timeout=TIMEOUT_S, trust_env=False) as client:
            return await do(await Session(client, f"http://127.0.0.1:{port}/mcp").open())

    return asyncio.run(in_process(connect, model))


def reply_of(response: httpx.Response) -> dict[str, Any]:
    text = response.text.partition("data: ")[2] if response.text.startswith("event:") else response.text
    reply: dict[str, Any] = json.loads(text)
    return reply


def test_every_wrong_message_over_http_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def send_all(session: Session) -> None:
        for message, _, _ in NO_MESSAGES.values():
            refused = await session.post(message.encode(errors="surrogateescape"))
            assert refused.status_code == 400 and reply_of(refused)["error"]["code"] in (PARSE, INVALID, PARAMETERS)
        for method, parameters, code in WRONG_REQUESTS.values():
            reply = reply_of(await session.post(request(method, parameters, "7")))
            assert (reply["error"]["code"], reply["id"]) == (code, "7")
        for tool, arguments in WRONG_ARGUMENTS:
            reply = reply_of(await session.post(calling(tool, arguments)))
            assert reply["result"]["isError"] and len(reply["result"]["content"][0]["text"]) < 200
        for message in IGNORED[:-1]:
            assert (await session.post(message.encode())).status_code == 202
        assert "result" in reply_of(await session.post(request("ping")))

    in_session(send_all)
    assert "Traceback" not in caplog.text


def test_wrong_messages_leave_nothing_in_memory() -> None:
    messages = [message.encode(errors="surrogateescape") for message, _, _ in NO_MESSAGES.values()]
    messages += [request(method, parameters) for method, parameters, _ in WRONG_REQUESTS.values()]
    messages += [calling(tool, arguments) for tool, arguments in WRONG_ARGUMENTS[:20]]

    async def send_all(session: Session, times: int) -> int:
        for _ in range(times):
            for message in messages:
                await session.post(message)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async def growth(session: Session) -> int:
        tracemalloc.start()
        try:
            return -await send_all(session, 1) + await send_all(session, 4)
        finally:
            tracemalloc.stop()

    assert in_session(growth) < 2**17, "it grows with what is sent"


@pytest.mark.parametrize("where", ["capabilities", "_meta", "more"])
def test_a_session_keeps_little_of_what_opens_it(where: str) -> None:
    """A thousand sessions of 200 kB each, full of small objects, would take five gigabytes."""
    hello = HELLO | {where: {"experimental": {str(number): {} for number in range(2_000)}}}

    async def knock(session: Session) -> httpx.Response:
        return await session.post(request("initialize", hello, 0), **{"mcp-session-id": ""})

    refused = in_session(knock)
    assert refused.status_code == 400 and "at most 16,384 bytes" in reply_of(refused)["error"]["message"]


def test_an_id_that_is_in_use_is_refused_and_the_first_call_is_answered() -> None:
    """Its reply had nowhere to go: the first client waited for ever."""
    held = PausedModel(answering())

    async def send_twice(session: Session) -> None:
        first = asyncio.create_task(session.post(calling("decompose", {"question": QUESTION}, 7)))
        async with asyncio.timeout(TIMEOUT_S):
            while not held.arrived:
                await asyncio.sleep(0.01)
        for number in (7, "7"):
            second = await session.post(calling("decompose", {"question": QUESTION}, number))
            assert second.status_code == 400 and "has this id" in reply_of(second)["error"]["message"]
            assert reply_of(second)["id"] == number
        held.paused = False
        assert not reply_of(await first)["result"]["isError"]
        assert not reply_of(await session.post(calling("decompose", {"question": QUESTION}, 7)))["result"]["isError"]

    in_session(send_twice, held)


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_call_that_is_cancelled_or_whose_session_is_closed_ends(how: str) -> None:
    held = PausedModel(answering())

    async def end(session: Session) -> None:
        call = asyncio.create_task(session.post(calling("decompose", {"question": QUESTION}, 7)))
        async with asyncio.timeout(TIMEOUT_S):
            while not held.arrived:
                await asyncio.sleep(0.01)
        if how == "closed":
            assert await session.delete() == 200
        else:
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await session.post(json.dumps(cancelled).encode())).status_code == 202
        assert '"result"' not in (await asyncio.wait_for(call, TIMEOUT_S)).text
        await asyncio.wait_for(held.wait_for_cancellation(), TIMEOUT_S)
        after = await session.post(request("ping"))
        assert after.status_code == (404 if how == "closed" else 200)

    in_session(end, held)


def test_requests_of_no_session_are_refused() -> None:
    async def send_all(session: Session) -> None:
        for identifier in ("nonsense", "x" * 5_000):
            refused = await session.post(request("ping"), **{"mcp-session-id": identifier})
            assert refused.status_code == 404 and "Session not found" in refused.text
        assert await session.delete() == 200
        assert await session.delete() == 404
        assert (await session.post(request("ping"))).status_code == 404

    in_session(send_all)


def test_half_characters_of_the_newest_protocol_are_refused() -> None:
    """Its messages are read by a parser that lets them through."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }

    async def send(session: Session) -> str:
        parameters = {"name": "ask", "arguments": {"question": "x \ud800"}, "_meta": meta}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "ask"}
        reply = reply_of(await session.post(request("tools/call", parameters), **headers))
        assert reply["result"]["isError"]
        return str(reply["result"]["content"][0]["text"])

    assert in_session(send).startswith("question: Input should be a valid string")
