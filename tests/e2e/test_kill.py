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
from hoptree.runtime.result import Result, read_result
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
    given = {"method": "taikc", "model": "openai/test", "base_url": url, "cache": folder / "replies.sqlite"}
    async with Engine(**given, corpus=folder / "index", listeners=(trace,)) as engine:
        for result in await asyncio.gather(*(engine.ask(question) for question in questions)):
            print(result.answer, result.usage.llm_calls, result.usage.cached_calls)

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with pytest.MonkeyPatch.context() as patched, Endpoint() as running:
        patched.setenv("NO_PROXY", "127.0.0.1")
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


@dataclass(frozen=True, slots=True)
class Story:
    """A run that was killed, and the same one again to its end; `sent` is what that one asked for."""

    folder: Path
    killed: Killed
    traced: list[Result]
    lines: list[list[str]]
    sent: list[Seen]


@pytest.fixture(scope="module", params=[QUESTIONS + 1, CALLS // 2, CALLS - 2], ids=["early", "half way", "late"])
def story(request: pytest.FixtureRequest, endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("killed")
    index_of(folder, *films(QUESTIONS))
    killed = run_and_kill(endpoint, folder, request.param)
    assert len(killed.seen) >= request.param
    traced = [read_result(events) for events in read_traces(folder / "trace.jsonl")]
    lines = run_to_the_end(endpoint, folder)
    sent = list(endpoint.requests)
    endpoint.requests.clear()
    return Story(folder, killed, traced, lines, sent)


def test_no_call_whose_reply_was_used_is_sent_again(story: Story) -> None:
    killed = story.killed
    assert len(killed.committed()) == len(killed.seen) - len(killed.in_flight()) > 0
    assert [line[0] for line in story.lines] == [str(1900 + number) for number in range(QUESTIONS)]
    sent_again = {seen.key for seen in story.sent} & {seen.key for seen in killed.seen}
    assert not sent_again & killed.committed()
    assert sent_again <= set(killed.in_flight().values())
    paid = Counter(seen.key for seen in (*killed.seen, *story.sent))
    assert len(paid) == CALLS, "both runs together asked everything"
    assert sum(paid.values()) == CALLS + len(sent_again), "and nothing more, but for what was in flight"


def test_before_the_kill_every_request_is_sent_once(story: Story) -> None:
    assert len({seen.key for seen in story.killed.seen}) == len(story.killed.seen)


def test_the_second_run_counts_what_the_first_one_paid(story: Story) -> None:
    assert {line[1] for line in story.lines} == {str(len(FILM_STEPS))}
    assert sum(int(line[2]) for line in story.lines) == CALLS - len(story.sent)
    assert len(story.sent) <= CALLS - len(story.killed.committed())


def test_the_trace_of_a_killed_run_can_be_read_and_says_that_it_was_killed(story: Story) -> None:
    assert sorted(result.question for result in story.traced) == sorted(map(film_question, range(QUESTIONS)))
    assert "killed" in {result.stopped_by for result in story.traced}
    assert all(result.answer == "" for result in story.traced if result.stopped_by == "killed")


@pytest.mark.parametrize("story", [CALLS // 2], ids=["half way"], indirect=True)
def test_a_third_run_sends_nothing(story: Story, endpoint: Endpoint) -> None:
    third = run_to_the_end(endpoint, story.folder)
    assert not endpoint.requests
    assert [line[0] for line in third] == [line[0] for line in story.lines]
