"""Clients that go away, and a server that stops."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")

from tests.server.hostile import head
from tests.server.running import QUESTION, events_of, eventually, limits, running, script, settings
from tests.timing import TIMEOUT_S, PausedModel

from hoptree.models.scripted import Rule
from hoptree.server.question_service import Journal


def _held() -> PausedModel:
    return PausedModel(script().rules)


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_question_ends_when_its_client_goes_away(tmp_path: Path, path: str, stream: bool) -> None:
    model = _held()
    with running(settings(tmp_path, models={"demo": model})) as server:
        asked: dict[str, Any] = {"question": QUESTION, "stream": stream}
        if "chat" in path:
            asked = {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
        body = json.dumps(asked).encode()
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(head(server, path, f"Content-Type: application/json\r\nContent-Length: {len(body)}") + body)
            eventually(lambda: model.arrived == ["decompose"])
            assert len(server.state.questions.running) == 1
        asyncio.run(model.wait_for_cancellation())
        eventually(lambda: len(server.state.questions.running) == 0)
        assert server.client.get("/health").json()["asking"] == 0
        assert 'outcome="gone"} 1.0' in server.client.get("/metrics").text
        assert model.arrived == ["decompose"]


def test_another_who_waits_for_the_same_reply_gets_it(tmp_path: Path) -> None:
    model = _held()
    with running(settings(tmp_path, models={"demo": model})) as server:
        asked = {"question": QUESTION, "stream": True}
        with httpx.stream("POST", f"{server.url}/v1/ask", json=asked, trust_env=False, timeout=TIMEOUT_S) as reply:
            lines = reply.iter_lines()
            next(lines)
            answers: list[httpx.Response] = []
            other = threading.Thread(target=lambda: answers.append(server.ask()))
            other.start()
            eventually(lambda: len(server.state.questions.running) == 2)
        eventually(lambda: len(server.state.questions.running) == 1)
        model.paused = False
        other.join(timeout=TIMEOUT_S)
        assert answers[0].json()["answer"] == "1948"


def test_a_stop_lets_questions_finish_and_takes_no_more(tmp_path: Path) -> None:
    model = _held()
    wanted = settings(tmp_path, models={"demo": model}, limits=limits(stop_seconds=TIMEOUT_S))
    with running(wanted) as server:
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(server.ask()))
        asking.start()
        eventually(lambda: len(server.state.questions.running) == 1)
        server.begin_stop()
        eventually(lambda: server.client.get("/health").status_code == 503)
        refused = server.ask()
        assert (refused.status_code, refused.json()["error"]["class"]) == (503, "Stopped")
        assert refused.headers["retry-after"] == "5"
        model.paused = False
        asking.join(timeout=TIMEOUT_S)
        assert answers[0].json()["answer"] == "1948"
    assert not (tmp_path / "journal.jsonl").exists()


@pytest.mark.parametrize(("seconds", "times"), [(0.3, 1), (600.0, 2)])
def test_what_a_stop_cuts_off_is_told_and_written_down(tmp_path: Path, seconds: float, times: int) -> None:
    journal = tmp_path / "journal.jsonl"
    wanted = settings(tmp_path, models={"demo": script(600.0)}, journal=journal, limits=limits(stop_seconds=seconds))
    with running(wanted) as server:
        answers: dict[bool, httpx.Response] = {}

        def ask(stream: bool) -> None:
            answers[stream] = httpx.post(
                f"{server.url}/v1/ask", json={"question": f"{QUESTION} {stream}", "stream": stream}, timeout=TIMEOUT_S
            )

        threads = [threading.Thread(target=ask, args=(stream,)) for stream in (False, True)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(server.state.questions.running) == 2)
        for _ in range(times):
            server.begin_stop()
        for thread in threads:
            thread.join(timeout=TIMEOUT_S)
    assert answers[False].status_code == 503
    assert answers[False].json()["error"]["class"] == "Stopped"
    kind, data = events_of(answers[True])[-1]
    assert (kind, data["class"]) == ("error", "Stopped")
    written = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sorted(row["question"] for row in written) == [f"{QUESTION} False", f"{QUESTION} True"]
    assert written[0]["method"] == "taikc"


def test_a_second_stop_waits_for_no_client_and_still_closes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It would wait for ten minutes, and so longer than a test may take."""
    caplog.set_level(logging.INFO, logger="uvicorn.error")
    wanted = settings(tmp_path, limits=limits(stop_seconds=600.0, body_seconds=600.0))
    with running(wanted) as server, socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(f"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 9\r\n\r\n{{".encode())
        eventually(lambda: server.busy)
        server.begin_stop()
        server.stop()
    assert "Application shutdown complete." in caplog.messages


def test_a_server_that_is_stopping_says_so(tmp_path: Path) -> None:
    with running(settings(tmp_path)) as server:
        server.state.questions.running.stopping = True
        assert server.client.get("/health").status_code == 503
        assert server.ask().status_code == 503


def test_a_question_stays_in_the_journal_until_it_is_answered(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    slow = settings(tmp_path, models={"demo": script(600.0)}, journal=journal, limits=limits(stop_seconds=0.1))
    asked: dict[str, Any] = {"retriever": "linked", "budget": {"calls": 20}}
    with running(slow) as server:
        asking = threading.Thread(target=server.ask, kwargs=asked)
        asking.start()
        eventually(lambda: len(server.state.questions.running) == 1)
        server.begin_stop()
        asking.join(timeout=TIMEOUT_S)
    (written,) = (json.loads(line) for line in journal.read_text().splitlines())
    assert (written["graph"], written["rerank"]) == (None, None)
    assert {name: written[name] for name in asked} == asked
    failing = script(before=[Rule(fault="401")])
    with running(settings(tmp_path, models={"demo": failing}, journal=journal)) as server:
        assert server.ask(**asked).status_code == 502
        assert len(server.state.questions.running.journal) == 1
    with running(settings(tmp_path, journal=journal)) as server:
        assert server.ask(**{**asked, "budget": {"calls": 1}}).json()["stopped_by"] == "calls"
        assert journal.exists()
        assert server.ask(**asked).status_code == 200
        assert not journal.exists()


def test_questions_that_differ_in_how_they_are_asked_are_two_in_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    slow = settings(tmp_path, models={"demo": script(600.0)}, journal=journal, limits=limits(stop_seconds=0.1))
    asked: list[dict[str, Any]] = [{}, {"retriever": "linked"}, {"budget": {"calls": 20}}]
    with running(slow) as server:
        asking = [threading.Thread(target=server.ask, kwargs=each) for each in asked]
        for each in asking:
            each.start()
        eventually(lambda: len(server.state.questions.running) == 3)
        server.begin_stop()
        for each in asking:
            each.join(timeout=TIMEOUT_S)
    with running(settings(tmp_path, journal=journal)) as server:
        for left, how in zip((3, 2, 1), asked, strict=True):
            assert len(server.state.questions.running.journal) == len(journal.read_text().splitlines()) == left
            assert journal.stat().st_mode & 0o777 == 0o600
            assert server.ask(**how).status_code == 200
    assert not journal.exists()


def test_a_journal_that_cannot_be_written_anew_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    rows = [json.dumps({"question": name}) + "\n" for name in ("one", "two")]
    path.write_text("".join(rows))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    Journal(path).take_out({"question": "one"})
    assert path.read_text() == "".join(rows)


def test_the_journal_is_its_owners_and_goes_once_all_of_it_was_asked_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text("half a li")
    journal.chmod(0o644)
    slow = settings(tmp_path, models={"demo": script(600.0)}, journal=journal, limits=limits(stop_seconds=0.1))
    asked: list[dict[str, Any]] = [{"question": QUESTION}, {"question": QUESTION, "options": {"k": 2}}]
    with running(slow) as server:
        asking = [threading.Thread(target=server.ask, kwargs=each) for each in asked]
        for each in asking:
            each.start()
        eventually(lambda: len(server.state.questions.running) == 2)
        server.begin_stop()
        for each in asking:
            each.join(timeout=TIMEOUT_S)
    assert journal.stat().st_mode & 0o777 == 0o600
    assert [line[:1] for line in journal.read_text().splitlines()] == ["h", "{", "{"]
    with running(settings(tmp_path, journal=journal)) as server:
        assert len(server.state.questions.running.journal) == 2
        assert server.ask().status_code == 200
        assert server.ask(method="oner").status_code == 200
        (left,) = journal.read_text().splitlines()
        assert json.loads(left)["options"] == {"k": 2}
        assert server.ask(options={"k": 2}).status_code == 200
        assert not journal.exists() and len(server.state.questions.running.journal) == 0
