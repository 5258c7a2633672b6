"""Questions leave nothing behind that only a search for garbage would find: the server seldom makes one."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.server.running import QUESTION, limits, script, settings

from hoptree.models.model import Reply, Request
from hoptree.models.scripted import ScriptedModel
from hoptree.server.answering_worker import EventSender, start_question
from hoptree.server.app import Server, create_app, open_question_service, state_of

_SLOW = "When will it come?"


class _Stuck(ScriptedModel):
    """Does not answer the call of the number that is set, and says that it has come."""

    def __init__(self) -> None:
        super().__init__(rules=script().rules)
        self.number = 0
        self.came = asyncio.Event()

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.number -= 1
        if self.number == 0:
            self.came.set()
            await asyncio.Event().wait()
        return await super().generate(request, step=step)


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector of garbage is afterwards as it was, and what was frozen stays so: all tests and modules are."""
    before = gc.get_threshold()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.set_threshold(*before)
    gc.enable()


async def _visit(app: Any, goes: asyncio.Event, question: str = QUESTION, *, stream: bool) -> list[dict[str, Any]]:
    """Ask, and go away when that happens; what the server sent until then."""
    return await _send(app, json.dumps({"question": question, "stream": stream}).encode(), goes)


async def _send(app: Any, body: bytes, goes: asyncio.Event, *, missing: int | None = 0) -> list[dict[str, Any]]:
    """Send a body but for its last bytes, as many as `missing`; None says no length."""
    headers = {b"host": b"127.0.0.1", b"content-type": b"application/json"}
    headers |= {} if missing is None else {b"content-length": b"%d" % (len(body) + missing)}
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
    }
    scope |= {"method": "POST", "path": "/v1/ask", "raw_path": b"/v1/ask", "query_string": b"", "state": {}}
    scope |= {"server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "headers": list(headers.items())}
    arriving = [{"type": "http.request", "body": body, "more_body": missing != 0}]
    sent = list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        assert scope["type"] == "http"  # as in a real server, what receives holds the request
        if arriving:
            return arriving.pop()
        await goes.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("number", [1, 3, 0], ids=["while-planning", "in-the-tree", "to-the-end"])
@pytest.mark.usefixtures("collector")
def test_nothing_of_a_question_waits_for_the_collector(tmp_path: Path, stream: bool, number: int) -> None:
    async def visits() -> Counter[str]:
        app = create_app(settings(tmp_path, models={"demo": (model := _Stuck())}))
        await _visit(app, asyncio.Event(), stream=stream)  # whatever is made once is there
        _seek()
        for _ in range(2):  # the last one may still be on its way out
            model.number, model.came = number, asyncio.Event()
            sent = await _visit(app, model.came, stream=stream)
            assert any(b"1948" in message.get("body", b"") for message in sent) == (number == 0)
            assert model.came.is_set() == (number > 0)
        return _found()

    assert asyncio.run(visits()) == Counter()


@pytest.mark.parametrize(
    ("body", "missing"),
    [
        (b" ", 1),
        (b"{" * 9, 0),
        (b"\xff", 0),
        (b"[]", 0),
        (b'{"question": 5}', 0),
        (b'{"question": "x", "corpus": "y"}', 0),
    ],
)
@pytest.mark.usefixtures("collector")
def test_nor_does_a_body_that_is_refused(tmp_path: Path, body: bytes, missing: int | None) -> None:
    async def send() -> Counter[str]:
        app, gone = create_app(settings(tmp_path)), asyncio.Event()
        gone.set()
        await _send(app, body, gone, missing=missing)
        _seek()
        for _ in range(2):
            sent = await _send(app, body, gone, missing=missing)
            assert sent[0]["status"] in (400, 413, 422)
        return _found()

    assert asyncio.run(send()) == Counter()


@pytest.mark.usefixtures("collector")
def test_nor_does_a_body_that_comes_too_slowly(tmp_path: Path) -> None:
    async def send() -> Counter[str]:
        app, never = create_app(settings(tmp_path, limits=limits(body_seconds=0.01))), asyncio.Event()
        await _send(app, b" ", never, missing=1)
        _seek()
        for _ in range(2):
            assert (await _send(app, b" ", never, missing=1))[0]["status"] == 408
        return _found()

    assert asyncio.run(send()) == Counter()


@pytest.mark.usefixtures("collector")
def test_nor_does_anything_of_those_that_a_worker_answers(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    plan = {"query1": {"question": "Who directed it?"}, "query2": {"question": "When was #query1 born?"}}
    rules = [{"contains": _SLOW, "latency": 600}, {"step": "decompose", "reply": json.dumps(plan)}, {"reply": "1948"}]
    script.write_text(json.dumps({"replies": rules}))

    async def visits() -> Counter[str]:
        app = create_app(settings(tmp_path, models={"demo": f"scripted/{script}"}, workers=1))
        workers = state_of(app).questions.workers
        assert workers is not None
        await workers.start()
        try:
            for stream in (False, True):
                await _visit(app, asyncio.Event(), stream=stream)  # whatever is made once is there
            _seek()
            for question, stream in itertools.product((_SLOW, QUESTION) * 2, (False, True)):
                goes = asyncio.Event()
                if question == _SLOW:
                    asyncio.get_running_loop().call_later(0.1, goes.set)
                sent = await _visit(app, goes, question, stream=stream)
                assert any(b"1948" in message.get("body", b"") for message in sent) == (question == QUESTION)
            return _found()
        finally:
            await workers.aclose()

    assert asyncio.run(visits()) == Counter()


@pytest.mark.parametrize("number", [1, 3, 0], ids=["while-planning", "in-the-tree", "to-the-end"])
@pytest.mark.usefixtures("collector")
def test_nor_does_it_in_the_worker(tmp_path: Path, number: int) -> None:
    order: dict[str, Any] = {"question": QUESTION, "budget": {}, "options": {}, "method": "taikc", "model": "demo"}
    order |= {"corpus": "films", **dict.fromkeys(("graph", "retriever", "rerank"))}
    lines: list[bytes] = []

    async def both() -> Counter[str]:
        asking = open_question_service(settings(tmp_path, models={"demo": (model := _Stuck())}))
        await start_question(asking, order, EventSender(1, lines.append, live=False))
        _seek()
        for _ in range(2):
            model.number, model.came = number, asyncio.Event()
            task = start_question(asking, order, EventSender(1, lines.append, live=False))
            if number:
                await model.came.wait()
                task.cancel()
            await asyncio.wait({task})
        return _found()

    assert asyncio.run(both()) == Counter()
    assert [json.loads(line)["over"] for line in lines] == [True] * 3
    assert (b"final" in lines[-1]) == (number == 0)


def _seek() -> None:
    """From now on, whatever is garbage stays until it is found."""
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)


def _found() -> Counter[str]:
    gc.collect()
    return Counter(type(left).__qualname__ for left in gc.garbage if type(left).__module__.startswith("hoptree"))


@pytest.mark.usefixtures("collector")
def test_a_process_that_serves_seldom_looks_for_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda *given, **named: seen.append(gc.get_threshold()[0]))
    gc.set_threshold(700, 10, 10)  # Python's own, whatever another test has left
    gc.unfreeze()
    Server(create_app(settings(tmp_path))).run()
    assert seen[0] > 10 * 700 and gc.get_freeze_count() > 0
