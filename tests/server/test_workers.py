"""A server whose questions are answered by processes of their own: the same answers, limits and ends as without."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.traced import event

pytest.importorskip("fastapi")

from tests.e2e.endpoint import (
    FILM_STEPS,
    Endpoint,
    endless,
    film_question,
    films,
    index_of,
    refused,
    said,
    script_films,
)
from tests.server.corpora_made import create
from tests.server.running import QUESTION, Running, events_of, eventually, limits, running, settings

from hoptree.core import errors
from hoptree.core.errors import ConfigError, EndpointError, GraphError, HoptreeError, InternalError
from hoptree.engine.calls import Calls
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.server import workers as pool
from hoptree.server.answering_worker import EventSender, start_question
from hoptree.server.app import open_question_service
from hoptree.server.error_responses import Refusal, refusal_of
from hoptree.server.keys import ANYBODY, Key
from hoptree.server.question_service import AskRequest, QuestionService
from hoptree.server.settings import Settings, read_settings
from hoptree.server.workers import Workers, error_from_dict, error_to_dict

_FILMS = 20
_PATIENCE = 60.0
_TIMES = ("seconds", "critical_path_seconds")
_SLOW = "Is it endless?"
_NAMED = ("method", "model", "corpus", "graph", "retriever", "rerank")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as started:
        script_films(started)
        started.on("", endless(), contains=_SLOW)
        started.on("", refused(401, "who are you, sk-secret?"), contains="Who may ask?")
        yield started


def films_settings(folder: Path, endpoint: Endpoint, **changes: Any) -> Settings:
    folder.mkdir(parents=True, exist_ok=True)
    usual: dict[str, Any] = {
        "models": {"films": "openai/films"},
        "base_urls": {"films": endpoint.url},
        "corpora": {"films": str(index_of(folder, *films(_FILMS)))},
        "corpora_folder": folder / "corpora",
        "cache": None,
        "method": "taikc",
        "workers": 2,
    }
    return Settings(**usual | changes)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Running]:
    with running(films_settings(tmp_path_factory.mktemp("workers"), endpoint)) as started:
        yield started


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Running]:
    """The same server without workers."""
    with running(films_settings(tmp_path_factory.mktemp("alone"), endpoint, workers=0)) as started:
        yield started


def workers_of(server: Running) -> Workers:
    assert server.state.questions.workers is not None
    return server.state.questions.workers


def pids(server: Running) -> list[int]:
    return [worker.pid or 0 for worker in workers_of(server)._ready]


def without_times(reply: dict[str, Any]) -> dict[str, Any]:
    return reply | {"usage": {name: value for name, value in reply["usage"].items() if name not in _TIMES}}


def test_answers_are_the_same_as_without_them(server: Running, alone: Running) -> None:
    ours, theirs = (each.ask(film_question(3)) for each in (server, alone))
    assert (ours.status_code, ours.json()["answer"]) == (200, "1903")
    assert without_times(ours.json()) == without_times(theirs.json())


@pytest.mark.usefixtures("forked_workers")
def test_the_server_s_own_prompts_are_sent_by_workers_too(tmp_path: Path, endpoint: Endpoint) -> None:
    own = {"direct/direct.txt": "In a word: {question}"}
    endpoint.on("", "2", contains="In a word: What is one and one?")
    for workers in (0, 1):
        with running(films_settings(tmp_path / str(workers), endpoint, prompts=own, workers=workers)) as server:
            reply = server.ask("What is one and one?", method="direct").json()
        assert (reply["answer"], list(reply["prompts"])) == ("2", ["direct/direct.txt"])


def test_many_at_once_get_the_answers_of_their_own_from_all_of_them(server: Running) -> None:
    asked = [film_question(number) for number in range(_FILMS)]
    with ThreadPoolExecutor(_FILMS) as pool:
        answers = list(pool.map(lambda question: server.ask(question).json()["answer"], asked))
    assert answers == [str(1900 + number) for number in range(_FILMS)]


def test_steps_come_while_they_happen_and_are_the_same(server: Running, alone: Running) -> None:
    streams = []
    for each in (server, alone):
        reply = each.ask(film_question(4), stream=True, events=True)
        events = events_of(reply)
        steps = [re.sub(r" \(\d.*s\)", "", data["text"]) for kind, data in events if kind == "step"]
        traces = [data["event"] for kind, data in events if kind == "trace"]
        streams.append((steps, traces, events[-1][0], events[-1][1]["answer"]))
    assert streams[0] == streams[1]
    assert streams[0][2:] == ("result", "1904")


def test_the_tree_grows_before_the_answer_is_there(server: Running, endpoint: Endpoint) -> None:
    held = threading.Event()

    def wait(seen: Any) -> Any:
        assert held.wait(_PATIENCE)
        return said("1905")

    endpoint.on("taikc/final", wait, contains="N5 ", times=1)
    with server.client.stream("POST", "/v1/ask", json={"question": film_question(5), "stream": True}) as reply:
        lines = reply.iter_lines()
        tree = next(line for line in lines if line.startswith("event: tree"))
        held.set()
        assert tree and any(line.startswith("event: result") for line in lines)


def test_openais_clients_are_answered_too(server: Running) -> None:
    asked = {"model": "taikc", "messages": [{"role": "user", "content": film_question(6)}]}
    reply = server.client.post("/v1/chat/completions", json=asked).json()
    assert reply["choices"][0]["message"]["hoptree"]["answer"] == "1906"
    assert "Searched for" in reply["choices"][0]["message"]["reasoning_content"]


def test_failures_are_told_as_without_them(server: Running, alone: Running) -> None:
    ours, theirs = (each.ask("Who may ask?", method="direct") for each in (server, alone))
    assert ours.status_code == theirs.status_code == 502
    assert ours.json()["error"] == theirs.json()["error"]
    assert ours.headers.get("x-should-retry") == theirs.headers.get("x-should-retry")
    assert "sk-secret" not in ours.text


@pytest.mark.usefixtures("forked_workers")
def test_budgets_hold_of_the_question_and_of_the_key(tmp_path: Path, endpoint: Endpoint) -> None:
    key = Key("team", budget=Budget(calls=3))
    with running(films_settings(tmp_path, endpoint, workers=1, limits=limits(calls=5))) as server:
        assert server.ask(film_question(1)).json()["stopped_by"] == "calls"
        assert server.ask(film_question(1), budget={"calls": 2}).json()["usage"]["llm_calls"] == 2
        asking = server.state.questions

        async def ask() -> int:
            result = await asking.ask(await asking.prepare(AskRequest(film_question(2)), key))
            return result.usage.llm_calls

        first = asyncio.run_coroutine_threadsafe(ask(), server.loop).result(_PATIENCE)
        assert first == 3
        with pytest.raises(Refusal, match="spent its 3 calls"):
            asyncio.run_coroutine_threadsafe(ask(), server.loop).result(_PATIENCE)


def test_a_question_ends_in_the_worker_when_its_client_goes_away(server: Running, endpoint: Endpoint) -> None:
    before = len(endpoint.requests)
    asked = {"question": _SLOW, "method": "direct", "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/ask", json=asked, trust_env=False) as reply:
        next(reply.iter_lines())
        eventually(lambda: len(endpoint.requests) > before, seconds=_PATIENCE)
    eventually(lambda: endpoint.requests[before].hung_up, seconds=_PATIENCE)
    eventually(lambda: len(server.state.questions.running) == 0, seconds=_PATIENCE)


LEAVING = Key("leaving", budget=Budget(calls=1_000))


def test_what_a_question_has_cost_until_its_client_left_is_charged(
    server: Running, alone: Running, endpoint: Endpoint
) -> None:
    spent = []
    for each in (server, alone):
        endpoint.on("taikc/final", endless(), contains="N10 ", times=1)
        asking, key, before = each.state.questions, LEAVING, len(endpoint.texts("taikc/final"))

        async def ask(asking: QuestionService = asking, key: Key = key) -> None:
            await asking.ask(await asking.prepare(AskRequest(film_question(10)), key))

        task = asyncio.run_coroutine_threadsafe(ask(), each.loop)
        eventually(lambda before=before: len(endpoint.texts("taikc/final")) > before, seconds=_PATIENCE)  # type: ignore[misc]
        task.cancel()
        eventually(lambda asking=asking: len(asking.running) == 0, seconds=_PATIENCE)  # type: ignore[misc]
        account = asking.quotas._accounts["leaving"]
        spent.append((account.calls, account.tokens))
    assert spent[0] == spent[1]
    assert spent[0][0] == len(FILM_STEPS)


def test_one_that_is_broken_off_before_it_has_begun_is_over_too(tmp_path: Path) -> None:
    lines: list[bytes] = []

    async def ask() -> None:
        asking = open_question_service(settings(tmp_path))
        order: dict[str, Any] = {"question": QUESTION, "budget": {}, "options": {}, **dict.fromkeys(_NAMED)}
        task = start_question(asking, order, EventSender(7, lines.append, live=True))
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(0)

    asyncio.run(ask())
    assert [json.loads(line) for line in lines] == [{"id": 7, "events": [], "over": True}]


def test_many_that_leave_at_once_are_not_remembered(server: Running) -> None:
    workers = workers_of(server)

    async def ask() -> None:
        order = {"question": _SLOW, "budget": {"seconds": 60}, "options": {}, **dict.fromkeys(_NAMED)}
        tasks = [asyncio.create_task(workers.ask(order, (), live=False)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run_coroutine_threadsafe(ask(), server.loop).result(_PATIENCE)
    eventually(lambda: not any(worker.questions for worker in workers._ready), seconds=_PATIENCE)
    assert not workers._worker_of and not workers._identical


def test_what_json_cannot_hold_is_told_as_text() -> None:
    lines: list[bytes] = []
    teller = EventSender(1, lines.append, live=False)
    teller.listen(event("decision", kind="path", value=Path("a")))
    teller.end(failure={"kinds": ["HoptreeError"], "said": {"cause": "It is so.", "remedy": "", "body": b"x"}})
    assert json.loads(lines[0])["events"][0]["value"] == "a"


@pytest.mark.usefixtures("forked_workers")
def test_a_worker_that_hangs_is_killed_and_its_question_told(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "_HANG_TIMEOUT_S", 0.5)
    with running(films_settings(tmp_path, endpoint, workers=1, limits=limits(seconds=0.5))) as server:
        (hanging,) = pids(server)
        os.kill(hanging, signal.SIGSTOP)
        reply = server.ask(film_question(1))
        assert (reply.status_code, reply.json()["error"]["class"]) == (503, "WorkerEnded")
        eventually(lambda: len(workers_of(server)) == 1 and pids(server) != [hanging], seconds=_PATIENCE)
        assert not _is_there(hanging)
        assert "does not end a question" in caplog.text


def test_the_budget_of_a_key_is_charged_while_a_question_is_answered(server: Running, endpoint: Endpoint) -> None:
    asking, key = server.state.questions, Key("spender", budget=Budget(calls=100))
    endpoint.on("taikc/final", endless(), contains="N12 ", times=1)
    before = len(endpoint.texts("taikc/final"))

    async def ask() -> None:
        await asking.ask(await asking.prepare(AskRequest(film_question(12)), key))

    task = asyncio.run_coroutine_threadsafe(ask(), server.loop)
    eventually(lambda: len(endpoint.texts("taikc/final")) > before, seconds=_PATIENCE)
    eventually(lambda: asking.quotas._today(key).calls == len(FILM_STEPS) - 1, seconds=_PATIENCE)
    task.cancel()
    eventually(lambda: len(asking.running) == 0, seconds=_PATIENCE)


def test_questions_at_once_do_not_overspend_the_budget_of_a_key(server: Running, endpoint: Endpoint) -> None:
    asking, key = server.state.questions, Key("many", budget=Budget(calls=5))
    before = len(endpoint.requests)

    async def ask(number: int) -> str:
        try:
            return (await asking.ask(await asking.prepare(AskRequest(film_question(20 + number)), key))).stopped_by
        except Refusal as refusal:
            return refusal.kind

    async def ask_all() -> list[str]:
        return await asyncio.gather(*map(ask, range(6)))

    ended = asyncio.run_coroutine_threadsafe(ask_all(), server.loop).result(_PATIENCE)
    assert set(ended) <= {"calls", "BudgetSpent", ""}
    account = asking.quotas._today(key)
    assert (account.calls, account.held, account.waiting) == (5, [], [])
    assert len(endpoint.requests) - before <= 5


def test_identical_questions_at_once_are_given_to_one_worker_which_shares_their_calls(
    server: Running, endpoint: Endpoint
) -> None:
    together = threading.Event()
    endpoint.on("taikc/decompose", lambda seen: _plan_after(together), contains="N7 ", times=1)
    workers = workers_of(server)._ready
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(server.ask, film_question(7)) for _ in range(2)]
        eventually(lambda: any(len(worker.questions) == 2 for worker in workers), seconds=_PATIENCE)
        together.set()
        assert [future.result(_PATIENCE).json()["answer"] for future in asked] == ["1907", "1907"]


def _plan_after(event: threading.Event) -> Any:
    event.wait(_PATIENCE)
    second = '"query2": {"question": "In which year was #query1 born?"}'
    return said(f'{{"query1": {{"question": "Who directed Film N7?", "children": {{{second}}}}}}}')


def test_a_worker_that_is_killed_takes_its_questions_with_it_and_another_comes(
    tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with running(films_settings(tmp_path, endpoint, workers=1)) as server, ThreadPoolExecutor(1) as pool:
        assert server.ask(film_question(1)).json()["answer"] == "1901"
        before = len(endpoint.requests)
        asking = pool.submit(server.ask, _SLOW, method="direct")
        eventually(lambda: len(endpoint.requests) > before, seconds=_PATIENCE)
        (old,) = pids(server)
        os.kill(old, signal.SIGKILL)
        reply = asking.result(_PATIENCE)
        assert (reply.status_code, reply.json()["error"]["class"]) == (503, "WorkerEnded")
        assert reply.headers["retry-after"]
        eventually(lambda: len(workers_of(server)) == 1, seconds=_PATIENCE)
        assert pids(server) != [old]
        assert server.ask(film_question(2)).json()["answer"] == "1902"
        assert "ended with signal 9, and 1 question with it" in caplog.text
        assert 'outcome="failed"} 1.0' in server.client.get("/metrics").text
        assert "hoptree_workers 1.0" in server.client.get("/metrics").text


def test_while_none_can_be_started_questions_are_refused_and_cost_nothing(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with running(films_settings(tmp_path, endpoint, workers=1)) as server:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(tmp_path / "nowhere"))
            os.kill(pids(server)[0], signal.SIGKILL)
            eventually(lambda: "cannot be started: No such file" in caplog.text, seconds=_PATIENCE)
            reply = server.ask(film_question(1))
            assert (reply.status_code, reply.json()["error"]["class"]) == (503, "NoWorker")
            assert server.client.get("/health").status_code == 200
            assert not server.state.questions.quotas._today(ANYBODY).calls
        eventually(lambda: len(workers_of(server)) == 1, seconds=_PATIENCE)
        assert server.ask(film_question(2)).json()["answer"] == "1902"


def test_a_corpus_that_was_just_made_can_be_asked_about(server: Running) -> None:
    server.ask(film_question(8))
    job = create(server, {"a.txt": b"Film N8 was directed by Director N8, born in 1908."}, "fresh")
    assert job["state"] == "done"
    result = server.ask(film_question(8), corpus="fresh").json()
    assert (result["answer"], [passage["text"] for passage in result["evidence"]]) == (
        "1908",
        ["Film N8 was directed by Director N8, born in 1908."],
    )


@pytest.mark.usefixtures("forked_workers")
def test_a_corpus_that_was_removed_is_let_go_of(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    with running(films_settings(tmp_path, endpoint, workers=1)) as server:
        create(server, {"a.txt": b"Film N8 was directed by Director N8, born in 1908."}, "fresh")
        assert server.ask(film_question(8), corpus="fresh").json()["answer"] == "1908"
        (worker,) = workers_of(server)._ready
        monkeypatch.setattr(worker, "send", heard.append)
        assert server.client.delete("/v1/corpora/fresh").status_code == 204
    assert {"forget": "fresh"} in heard


@pytest.mark.usefixtures("forked_workers")
def test_a_stop_lets_them_finish_and_none_is_left(tmp_path: Path, endpoint: Endpoint) -> None:
    held = threading.Event()
    endpoint.on("taikc/final", lambda seen: said("1909") if held.wait(_PATIENCE) else said(""), contains="N9 ", times=1)
    with running(films_settings(tmp_path, endpoint, workers=1)) as server, ThreadPoolExecutor(1) as pool:
        left, before = pids(server), len(endpoint.texts("taikc/final"))
        asking = pool.submit(server.ask, film_question(9))
        eventually(lambda: len(endpoint.texts("taikc/final")) > before, seconds=_PATIENCE)
        server.begin_stop()
        eventually(lambda: server.client.get("/health").status_code == 503)
        held.set()
        assert asking.result(_PATIENCE).json()["answer"] == "1909"
    assert not any(_is_there(pid) for pid in left)


@pytest.mark.usefixtures("forked_workers")
def test_what_a_stop_cuts_off_is_told(tmp_path: Path, endpoint: Endpoint) -> None:
    journal = tmp_path / "journal.jsonl"
    wanted = films_settings(tmp_path, endpoint, workers=1, journal=journal, limits=limits(stop_seconds=0.1))
    with running(wanted) as server, ThreadPoolExecutor(1) as pool:
        before = len(endpoint.requests)
        asking = pool.submit(server.ask, _SLOW, method="direct")
        eventually(lambda: len(endpoint.requests) > before, seconds=_PATIENCE)
        server.begin_stop()
        reply = asking.result(_PATIENCE)
    assert (reply.status_code, reply.json()["error"]["class"]) == (503, "Stopped")
    assert _SLOW in journal.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_they_heed_no_ctrl_c_and_end_with_their_server(
    tmp_path: Path, endpoint: Endpoint, number: signal.Signals
) -> None:
    index = index_of(tmp_path, *films(2))
    held = threading.Event()
    endpoint.on("taikc/final", lambda seen: said("1901") if held.wait(_PATIENCE) else said(""), contains="N1 ", times=1)
    command = ["serve", "-m", "openai/films", "--base-url", endpoint.url, "--corpus", f"films={index}"]
    command += ["--method", "taikc", "--port", "0", "--no-cache", "--workers", "1"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "hoptree", *command], stderr=log, start_new_session=True)
    try:
        eventually(lambda: "startup complete" in (tmp_path / "log").read_text(), seconds=_PATIENCE)
        url = re.findall(r"http://127\.0\.0\.1:\d+", (tmp_path / "log").read_text())[0]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        before = len(endpoint.texts("taikc/final"))
        with ThreadPoolExecutor(1) as pool:
            asked = {"question": film_question(1)}
            asking = pool.submit(httpx.post, f"{url}/v1/ask", json=asked, timeout=_PATIENCE, trust_env=False)
            eventually(lambda: len(endpoint.texts("taikc/final")) > before, seconds=_PATIENCE)
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.send_signal(number)
            held.set()
            if number == signal.SIGINT:
                assert asking.result(_PATIENCE).json()["answer"] == "1901"
            else:
                with pytest.raises(httpx.TransportError):
                    asking.result(_PATIENCE)
        assert process.wait(_PATIENCE) == (0 if number == signal.SIGINT else -number)
        eventually(lambda: not any(_is_there(int(pid)) for pid in children), seconds=_PATIENCE)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert len(children) == 1
    assert "Traceback" not in (tmp_path / "log").read_text()


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"demo": "local/qwen"}, "each worker would load it again"),
        ({"demo": "hf/some"}, "each worker would load it again"),
        ({"demo": ScriptedModel(rules=[Rule("x")])}, "is open"),
    ],
)
def test_models_that_processes_cannot_share_are_refused(models: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        Settings(models=models, workers=2).check()
    assert refusal.value.remedy


def test_a_limit_that_cannot_be_parted_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be parted among 3 workers"):
        Settings(models={"demo": "openai/demo"}, workers=3, concurrency=2).check()
    Settings(models={"demo": "openai/demo"}, workers=2, concurrency=2).check()


def test_settings_cross_as_they_are_and_without_keys(tmp_path: Path, endpoint: Endpoint) -> None:
    ours = films_settings(tmp_path, endpoint, keys=(Key("team", b"digest"),), limits=limits(calls=7))
    theirs = read_settings(ours.for_workers())
    assert (theirs.keys, theirs.workers) == ((), 0)
    assert theirs.for_workers() == ours.for_workers()
    assert theirs.limits == ours.limits


_ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, HoptreeError)}


@pytest.mark.parametrize("name", sorted(_ERRORS - {"InternalError", "MissingExtra", "BudgetSpent"}))
def test_every_error_is_the_same_on_the_other_side(name: str) -> None:
    error: HoptreeError = getattr(errors, name)("It is so.", "Do this.")
    if isinstance(error, EndpointError):
        error.status, error.retryable, error.retry_after = 429, True, 3.5
    same = error_from_dict(error_to_dict(error))
    assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))
    ours, theirs = refusal_of(same), refusal_of(error)
    assert (ours.status, ours.headers, ours.cause) == (theirs.status, theirs.headers, theirs.cause)


def test_refusals_and_mistakes_cross_as_well() -> None:
    refusal = Refusal(409, "Removed", "It is gone.", "Choose another.", retry_after=2.0, param="corpus")
    same = error_from_dict(error_to_dict(refusal))
    assert isinstance(same, Refusal) and vars(same) == vars(refusal)
    mistake = error_from_dict(error_to_dict(InternalError(ValueError("half"))))
    assert isinstance(mistake, InternalError) and "ValueError" in mistake.cause


def test_kinds_of_errors_that_others_know_stay_and_one_that_nobody_knows_is_of_the_next() -> None:
    assert type(error_from_dict(error_to_dict(GraphError("It is empty.")))) is GraphError
    data = error_to_dict(EndpointError("It is odd.", status=500))
    assert type(error_from_dict({**data, "kinds": ["Odd", *data["kinds"]]})) is EndpointError


def test_processes_that_share_an_endpoint_have_a_part_of_its_limit() -> None:
    assert Calls(None, shared_by=3)._limit("here", 100).ceiling == 34
    assert Calls(None, shared_by=2, concurrency=4)._limit("here", 100).ceiling == 2
