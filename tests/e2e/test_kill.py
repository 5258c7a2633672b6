"""Kill -9 in the middle of a run, then the same command again: no finished call is paid twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tests.e2e.asked_apart import Told, ask_all
from tests.e2e.endpoint import FILM_STEPS, Endpoint, Seen, film_question, films, index_of, number_of, script_films
from tests.forking import PROCESSES

from hoptree.engine.result import Result, read_result
from hoptree.engine.trace import read_traces

QUESTIONS = 6
CALLS = QUESTIONS * len(FILM_STEPS)


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


def start(endpoint: Endpoint, folder: Path) -> tuple[BaseProcess, Connection]:
    hearing, telling = PROCESSES.Pipe(duplex=False)
    questions = [film_question(number) for number in range(QUESTIONS)]
    child = PROCESSES.Process(target=ask_all, args=(endpoint.url, folder, questions, dict(os.environ), telling))
    child.start()
    telling.close()
    return child, hearing


def run_and_kill(endpoint: Endpoint, folder: Path, nth: int) -> Killed:
    """Start the child and kill it before its Nth request is answered."""
    child, _ = start(endpoint, folder)

    def kill(_: Seen) -> None:
        if len(endpoint.requests) == nth:
            child.kill()

    endpoint.on_request = kill
    child.join()
    endpoint.on_request = None
    assert child.exitcode == -signal.SIGKILL
    killed = Killed(list(endpoint.requests))
    endpoint.requests.clear()
    return killed


def run_to_the_end(endpoint: Endpoint, folder: Path) -> list[Told]:
    child, hearing = start(endpoint, folder)
    child.join()
    assert child.exitcode == 0
    answers: list[Told] = hearing.recv()
    return answers


@dataclass(frozen=True, slots=True)
class Story:
    """A run that was killed, and the same one again to its end; `sent` is what that one asked for."""

    folder: Path
    killed: Killed
    traced: list[Result]
    answers: list[Told]
    sent: list[Seen]


@pytest.fixture(scope="module", params=[QUESTIONS + 1, CALLS // 2, CALLS - 2], ids=["early", "half way", "late"])
def story(request: pytest.FixtureRequest, endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("killed")
    index_of(folder, *films(QUESTIONS))
    killed = run_and_kill(endpoint, folder, request.param)
    assert len(killed.seen) >= request.param
    traced = [read_result(events) for events in read_traces(folder / "trace.jsonl")]
    answers = run_to_the_end(endpoint, folder)
    sent = list(endpoint.requests)
    endpoint.requests.clear()
    return Story(folder, killed, traced, answers, sent)


def test_no_call_whose_reply_was_used_is_sent_again(story: Story) -> None:
    killed = story.killed
    assert len(killed.committed()) == len(killed.seen) - len(killed.in_flight()) > 0
    assert [answer for answer, _, _ in story.answers] == [str(1900 + number) for number in range(QUESTIONS)]
    sent_again = {seen.key for seen in story.sent} & {seen.key for seen in killed.seen}
    assert not sent_again & killed.committed()
    assert sent_again <= set(killed.in_flight().values())
    paid = Counter(seen.key for seen in (*killed.seen, *story.sent))
    assert len(paid) == CALLS, "both runs together asked everything"
    assert sum(paid.values()) == CALLS + len(sent_again), "and nothing more, but for what was in flight"


def test_before_the_kill_every_request_is_sent_once(story: Story) -> None:
    assert len({seen.key for seen in story.killed.seen}) == len(story.killed.seen)


def test_the_second_run_counts_what_the_first_one_paid(story: Story) -> None:
    assert {calls for _, calls, _ in story.answers} == {len(FILM_STEPS)}
    assert sum(cached for _, _, cached in story.answers) == CALLS - len(story.sent)
    assert len(story.sent) <= CALLS - len(story.killed.committed())


def test_the_trace_of_a_killed_run_can_be_read_and_says_that_it_was_killed(story: Story) -> None:
    assert sorted(result.question for result in story.traced) == sorted(map(film_question, range(QUESTIONS)))
    assert "killed" in {result.stopped_by for result in story.traced}
    assert all(result.answer == "" for result in story.traced if result.stopped_by == "killed")


@pytest.mark.parametrize("story", [CALLS // 2], ids=["half way"], indirect=True)
def test_a_third_run_sends_nothing(story: Story, endpoint: Endpoint) -> None:
    third = run_to_the_end(endpoint, story.folder)
    assert not endpoint.requests
    assert [answer for answer, _, _ in third] == [answer for answer, _, _ in story.answers]
