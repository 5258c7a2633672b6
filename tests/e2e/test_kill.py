"""Kill -9 in the middle of a run, then the same command again: no finished call is paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.endpoint import FILM_STEPS, Endpoint, Seen, film_question, films, index_of, number_of, script_films

import hoptree
from hoptree.runtime.result import read_result
from hoptree.runtime.trace import read_traces

QUESTIONS = 6
CALLS = QUESTIONS * len(FILM_STEPS)

CHILD = """
import asyncio, sys
from pathlib import Path
from hoptree import Engine
from hoptree.runtime.trace import TraceFile

async def main(url, folder, questions):
    trace = TraceFile(folder / "trace.jsonl")
    async with Engine(
        model="openai/test", base_url=url, corpus=folder / "index", cache=folder / "replies.sqlite", listeners=(trace,)
    ) as engine:
        for result in await asyncio.gather(*(engine.ask(question) for question in questions)):
            print(result.answer, result.usage.llm_calls, result.usage.cached_calls)

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
"""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        script_films(running)
        yield running


@dataclass(slots=True)
class Killed:
    """A run that was killed when its Nth request arrived, and everything the endpoint saw of it."""

    seen: list[Seen]

    def in_flight(self) -> dict[int, str]:
        """Each question's last request: all before it were committed, since it was made from their replies."""
        return {number_of(seen): seen.key for seen in self.seen}

    def committed(self) -> set[str]:
        return {seen.key for seen in self.seen} - set(self.in_flight().values())


def start(endpoint: Endpoint, folder: Path) -> subprocess.Popen[str]:
    script = folder / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    source = str(Path(hoptree.__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, str(script), endpoint.url, str(folder), *map(film_question, range(QUESTIONS))],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_and_kill(endpoint: Endpoint, folder: Path, nth: int) -> Killed:
    """Start the child and kill it before its Nth request is answered."""
    child = start(endpoint, folder)

    def kill(_: Seen) -> None:
        if len(endpoint.requests) == nth:
            os.kill(child.pid, signal.SIGKILL)

    endpoint.on_request = kill
    child.communicate()
    endpoint.on_request = None
    assert child.returncode == -signal.SIGKILL
    killed = Killed(list(endpoint.requests))
    endpoint.requests.clear()
    return killed


def run_to_the_end(endpoint: Endpoint, folder: Path) -> list[list[str]]:
    """What the child says of each question: answer, calls, calls that were not paid for."""
    output, errors = start(endpoint, folder).communicate()
    assert not errors
    return [line.split() for line in output.splitlines()]


@pytest.mark.parametrize("nth", [QUESTIONS + 1, CALLS // 2, CALLS - 2], ids=["early", "half way", "late"])
def test_no_call_whose_reply_was_used_is_sent_again(nth: int, endpoint: Endpoint, tmp_path: Path) -> None:
    index_of(tmp_path, *films(QUESTIONS))
    killed = run_and_kill(endpoint, tmp_path, nth)
    assert len(killed.committed()) == len(killed.seen) - len(killed.in_flight()) > 0
    lines = run_to_the_end(endpoint, tmp_path)
    assert [line[0] for line in lines] == [str(1900 + number) for number in range(QUESTIONS)]
    sent_again = {seen.key for seen in endpoint.requests} & {seen.key for seen in killed.seen}
    assert not sent_again & killed.committed()
    assert sent_again <= set(killed.in_flight().values())
    paid = Counter(seen.key for seen in (*killed.seen, *endpoint.requests))
    assert len(paid) == CALLS, "both runs together asked everything"
    assert sum(paid.values()) == CALLS + len(sent_again), "and nothing more, but for what was in flight"


def test_before_the_kill_every_request_is_sent_once(endpoint: Endpoint, tmp_path: Path) -> None:
    index_of(tmp_path, *films(QUESTIONS))
    killed = run_and_kill(endpoint, tmp_path, CALLS // 2)
    assert len(killed.seen) >= CALLS // 2
    assert len({seen.key for seen in killed.seen}) == len(killed.seen)


def test_the_second_run_counts_what_the_first_one_paid(endpoint: Endpoint, tmp_path: Path) -> None:
    index_of(tmp_path, *films(QUESTIONS))
    killed = run_and_kill(endpoint, tmp_path, CALLS // 2)
    lines = run_to_the_end(endpoint, tmp_path)
    assert {line[1] for line in lines} == {str(len(FILM_STEPS))}
    assert sum(int(line[2]) for line in lines) == CALLS - len(endpoint.requests)
    assert len(endpoint.requests) <= CALLS - len(killed.committed())


def test_a_third_run_sends_nothing(endpoint: Endpoint, tmp_path: Path) -> None:
    index_of(tmp_path, *films(QUESTIONS))
    run_and_kill(endpoint, tmp_path, CALLS // 2)
    second = run_to_the_end(endpoint, tmp_path)
    endpoint.requests.clear()
    third = run_to_the_end(endpoint, tmp_path)
    assert not endpoint.requests
    assert [line[0] for line in third] == [line[0] for line in second]


def test_the_trace_of_a_killed_run_can_be_read_and_says_that_it_was_killed(endpoint: Endpoint, tmp_path: Path) -> None:
    index_of(tmp_path, *films(QUESTIONS))
    run_and_kill(endpoint, tmp_path, CALLS // 2)
    results = [read_result(events) for events in read_traces(tmp_path / "trace.jsonl")]
    assert sorted(result.question for result in results) == sorted(map(film_question, range(QUESTIONS)))
    assert "killed" in {result.stopped_by for result in results}
    assert all(result.answer == "" for result in results if result.stopped_by == "killed")
