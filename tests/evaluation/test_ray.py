"""Runs on a real Ray cluster of several processes: the same rows as without, nothing sent twice, nothing lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import FILM_STEPS, Endpoint, Seen, film_experiment, number_of, script_films

import hoptree
from hoptree.core.errors import InputError
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.run_folder import RESULTS, Row, read_rows, trace_of
from hoptree.evaluation.running import RunOptions, run_experiment

FILMS = 11


# Each process takes a second to start: a worker for each CPU, and what scales a cluster, collects and shows its logs.
NODE = {"num_cpus": 1, "include_log_monitor": False}


PROBE = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False); ray.get(ray.put(1))"


@pytest.fixture(scope="module", autouse=True)
def nodes() -> Iterator[Any]:
    """A cluster of two nodes, each with processes of its own.

    Skip where the machine lets Ray start no process or share no memory, as sandboxes do. Ray is loaded here, not by
    each process that collects these tests: that takes as long as hundreds of others.
    """
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # workers start when they are needed
        patch.setenv("PYTHONPATH", str(Path(hoptree.__file__).parent.parent))
        from ray.cluster_utils import Cluster

        running: Any = Cluster()
        try:
            try:
                running.add_node(**NODE | {"num_cpus": 2}, include_dashboard=False, no_monitor=True)
                running.add_node(**NODE)
                probe = [sys.executable, "-c", PROBE, running.address]
                subprocess.run(probe, check=True, capture_output=True, timeout=240)
            except Exception as error:
                pytest.skip(f"Ray starts no cluster on this machine: {error}")
            yield running
        finally:
            running.shutdown()


@pytest.fixture
def cluster(nodes: Any) -> str:
    return str(nodes.address)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with Endpoint() as running:
        script_films(running, delay=0.05)
        yield running


def timeless(row: Row) -> Row:
    """A row without what differs from run to run: times, what the cache saved, and its name in the trace."""
    fixed = {name: row.usage[name] for name in ("llm_calls", "prompt_tokens", "completion_tokens", "retrievals")}
    return replace(row, usage=fixed, trace="")


def plain_run(wanted: Experiment, folder: Path) -> list[Row]:
    asyncio.run(run_experiment(wanted, folder / "plain", RunOptions(cache=folder / "plain.sqlite")))
    return read_rows(folder / "plain")


def test_the_command_gives_the_same_rows_on_a_cluster(endpoint: Endpoint, cluster: str, tmp_path: Path) -> None:
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "hoptree", "run", "--data", "data.jsonl", "--corpus", "index", "--out", "run"),
            *("--method", "taikc", "--model", "openai/test", "--base-url", endpoint.url, "--ray", cluster, "--json"),
        ],
        cwd=tmp_path,
        env={**os.environ, "HOPTREE_CACHE": str(tmp_path / "replies.sqlite")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (2 * FILMS, 0, 1.0)
    sent = Counter(seen.key for seen in endpoint.requests)
    assert len(sent) == FILMS * len(FILM_STEPS) and set(sent.values()) == {1}, "each call was sent once, by one worker"
    rows = read_rows(tmp_path / "run")
    events = trace_of(tmp_path / "run", rows[3])
    assert events[0].as_dict()["question_id"] == "a3" and events[-1].as_dict()["answer"] == rows[3].answer == "1903"
    assert [timeless(row) for row in rows] == [timeless(row) for row in plain_run(wanted, tmp_path)]


def test_a_worker_that_is_killed_takes_nothing_with_it(
    endpoint: Endpoint, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hoptree.evaluation.ray_run import RayAsker

    askers: list[RayAsker] = []
    killed: list[tuple[int, int]] = []
    ready = RayAsker.ready

    async def watched(self: RayAsker) -> None:
        await ready(self)
        askers.append(self)

    def kill(_: Seen) -> None:
        if len(endpoint.requests) == 30:
            seat = max(askers[0].seats, key=lambda seat: seat.under_way)
            killed.append((seat.pid, seat.under_way))
            os.kill(seat.pid, signal.SIGKILL)

    monkeypatch.setattr(RayAsker, "ready", watched)
    endpoint.on_request = kill
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    ways = RunOptions(cache=tmp_path / "replies.sqlite", ray=cluster, concurrency=64)
    summary: dict[str, Any] = asyncio.run(run_experiment(wanted, tmp_path / "run", ways))
    assert len(killed) == 1 and killed[0][1] > 1, "the worker had questions under way"
    assert len(askers[0].seats) == 3
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (2 * FILMS, 0, 1.0)
    lines = (tmp_path / "run" / RESULTS).read_text(encoding="utf-8").splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == sorted(
        f"{part}{n}" for part in "ab" for n in range(FILMS)
    )
    sent = Counter(seen.key for seen in endpoint.requests)
    assert len(sent) == FILMS * len(FILM_STEPS)
    films = Counter(number_of(seen) for seen in endpoint.requests)
    assert max(films.values()) <= len(FILM_STEPS) + 1, "a question repeats at most the call that was under way"
    endpoint.requests.clear()
    again = asyncio.run(run_experiment(wanted, tmp_path / "again", RunOptions(cache=tmp_path / "replies.sqlite")))
    assert again["finished"] == 2 * FILMS and not endpoint.requests, "every reply is remembered on this machine"
    assert [timeless(row) for row in read_rows(tmp_path / "run")] == [
        timeless(row) for row in read_rows(tmp_path / "again")
    ]


def test_a_node_that_is_lost_takes_nothing_with_it(endpoint: Endpoint, nodes: Any, tmp_path: Path) -> None:
    third = nodes.add_node(**NODE)
    lost = threading.Event()

    def lose(_: Seen) -> None:
        if len(endpoint.requests) == 30:
            nodes.remove_node(third, allow_graceful=False)
            lost.set()

    endpoint.on_request = lose
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    ways = RunOptions(cache=tmp_path / "replies.sqlite", ray=nodes.address, concurrency=96)
    summary: dict[str, Any] = asyncio.run(run_experiment(wanted, tmp_path / "run", ways))
    assert lost.is_set()
    assert (summary["finished"], summary["failed"], summary["metrics"]["em"]["mean"]) == (2 * FILMS, 0, 1.0)
    assert [timeless(row) for row in read_rows(tmp_path / "run")] == [
        timeless(row) for row in plain_run(wanted, tmp_path)
    ]


@pytest.mark.parametrize("address", ["ray://127.0.0.1:1", "nonsense", "127.0.0.1:1"])
def test_an_address_without_a_cluster_is_refused(address: str, endpoint: Endpoint, tmp_path: Path) -> None:
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    with pytest.raises(InputError, match="cluster"):
        asyncio.run(run_experiment(wanted, tmp_path / "run", RunOptions(cache=None, ray=address)))


def test_a_cluster_that_goes_away_ends_the_run_and_another_one_goes_on_with_it(
    endpoint: Endpoint, nodes: Any, tmp_path: Path
) -> None:
    """What was finished is on disk by then. No test after this one has the cluster."""
    going = threading.Thread(target=nodes.shutdown)

    def shut_down(_: Seen) -> None:
        if len(endpoint.requests) == 60:
            going.start()

    endpoint.on_request = shut_down
    wanted = film_experiment(tmp_path, endpoint, FILMS)
    arguments = ["--data", "data.jsonl", "--corpus", "index", "--out", "run", "--method", "taikc", "--concurrency", "4"]
    arguments += ["--model", "openai/test", "--base-url", endpoint.url, "--json"]
    environment = {**os.environ, "HOPTREE_CACHE": str(tmp_path / "replies.sqlite")}

    def hoptree_run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hoptree", "run", *arguments, *more]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    cut_off = hoptree_run("--ray", str(nodes.address))
    going.join()
    assert cut_off.returncode == 1
    assert "The connection to the cluster was lost" in cut_off.stderr and "Traceback" not in cut_off.stderr
    finished = (tmp_path / "run" / RESULTS).read_text(encoding="utf-8").count("\n")
    assert finished < 2 * FILMS
    before = len(endpoint.requests)
    again = hoptree_run()
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["finished"] == 2 * FILMS
    sent = {seen.key for seen in endpoint.requests[:before]}
    repeated = Counter(number_of(seen) for seen in endpoint.requests[before:] if seen.key in sent)
    assert all(count == 1 for count in repeated.values()), "a question repeats at most the call that was under way"
    assert [timeless(row) for row in read_rows(tmp_path / "run")] == [
        timeless(row) for row in plain_run(wanted, tmp_path)
    ]
