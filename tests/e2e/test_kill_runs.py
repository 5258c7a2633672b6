"""Kill -9 in the middle of `hoptree run`, several times: every question once, no call twice, the same results."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.e2e.endpoint import FILM_STEPS, Endpoint, Seen, film_question, films, index_of, script_films
from tests.forking import Command

from hoptree.evaluation.run_folder import Row, read_rows

QUESTIONS = int(os.environ.get("HOPTREE_KILL_QUESTIONS", "24"))
KILLS = int(os.environ.get("HOPTREE_KILLS", "3"))


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        script_films(running)
        yield running


def start(endpoint: Endpoint, folder: Path, out: str) -> Command:
    command = (
        "run",
        "--method",
        "taikc",
        "--data",
        "data.jsonl",
        "--corpus",
        "index",
        "--model",
        "openai/test",
        "--base-url",
        endpoint.url,
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / f"cache-{out}"), "OPENAI_API_KEY": "none"}
    return Command([*command, "--out", out, "--json", "--concurrency", "8"], environment, folder)


def kill_after(endpoint: Endpoint, folder: Path, requests: int) -> None:
    child = start(endpoint, folder, "killed")
    before = len(endpoint.requests)

    def kill(_: Seen) -> None:
        if len(endpoint.requests) == before + requests:
            child.send_signal(signal.SIGKILL)

    endpoint.on_request = kill
    child.communicate()
    endpoint.on_request = None
    assert child.returncode == -signal.SIGKILL


def finish(endpoint: Endpoint, folder: Path, out: str) -> dict[str, object]:
    output, errors = start(endpoint, folder, out).communicate(timeout=100)
    assert not errors, errors
    summary: dict[str, object] = json.loads(output)
    return summary


def timeless(row: Row) -> Row:
    """A row without what differs from run to run: times, what the cache saved, and its name in the trace."""
    fixed = {name: row.usage[name] for name in ("llm_calls", "prompt_tokens", "completion_tokens", "retrievals")}
    return replace(row, usage=fixed, trace="")


def test_a_run_killed_again_and_again_ends_like_one_that_never_was(endpoint: Endpoint, tmp_path: Path) -> None:
    index_of(tmp_path, *films(QUESTIONS))
    rows = [{"id": f"f{n}", "question": film_question(n), "answers": [str(1900 + n)]} for n in range(QUESTIONS)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    calls = QUESTIONS * len(FILM_STEPS)
    chance = random.Random(11)
    for _ in range(KILLS):
        kill_after(endpoint, tmp_path, chance.randint(2, calls // (KILLS + 1)))
    summary = finish(endpoint, tmp_path, "killed")
    sent = Counter(seen.key for seen in endpoint.requests)
    assert (summary["finished"], summary["failed"]) == (QUESTIONS, 0)
    assert len(sent) == calls, "everything was asked"
    # What was under way when a kill came is not finished: as many calls as go out at once, and as many whose replies
    # had arrived and were not on disk yet.
    assert sum(sent.values()) - calls <= KILLS * 16
    endpoint.requests.clear()
    finish(endpoint, tmp_path, "unbroken")
    killed, unbroken = read_rows(tmp_path / "killed"), read_rows(tmp_path / "unbroken")
    assert [timeless(row) for row in killed] == [timeless(row) for row in unbroken]
    lines = (tmp_path / "killed" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == QUESTIONS, "each question was finished once"
