"""Settings of all tests.

Each test has a cache of its own. Slow files run first. Temporary files are kept in memory if there is room; set
--basetemp or PYTEST_DEBUG_TEMPROOT for another place.
"""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
import typer.main
import typer.testing
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

import hoptree.retrieval.ranker

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# Memory is faster, as an index waits for the disk several times; all tests write some tens of megabytes.
MEMORY = Path("/dev/shm")
ROOM = 2**30

PAGE = "tests/server/page/"
NO_WEIGHTS = str(Path(__file__).parent / "no_weights")

# Files with few but slow tests, the slowest first.
LONG = (
    "test_transports.py",
    "test_ray.py",
    "test_contract.py",
    "test_malformed.py",
    "test_long_texts.py",
    "test_workers.py",
    "test_treeqa_experiments.py",
    "test_server_schema.py",
    "test_kill_points.py",
    "test_killed_server.py",
    "test_benchmark_chaos.py",
    "test_hf_batching.py",
    "test_hf.py",
    "test_corpora_over_http.py",
    "test_server_stopping.py",
    "test_server_patience.py",
    "test_server_security.py",
    "test_hostile_texts.py",
    "test_packaged_adapter.py",
    "test_tuning.py",
    "test_index_killed.py",
    "test_local.py",
    "test_mind_experiments.py",
    "test_cli.py",
    "test_serve_cli.py",
    "test_upload_jobs.py",
    "test_hf_encoder_decoder.py",
    "test_names_of_values.py",
    "test_index_cli.py",
    "test_paper_cli.py",
    "test_dataset_files.py",
    "test_statistics.py",
    "test_tune_cli.py",
    "test_fit_ranker.py",
    "test_engine.py",
    "test_docs.py",
    "test_index_damage.py",
    "test_treeqa_traversal.py",
    "test_graph_cli.py",
    "test_run_workers.py",
)


# The same examples on every machine; --hypothesis-profile=thorough tries others.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile("steady")


# Missing features of the machine, and data outside the project; `make test-all` may lack a GPU.
_MACHINE_SKIPS = (
    "recordings are of CUDA",
    "the folder of data is not there",
    "the data sets are not here",
    "HOPTREE_DATA names no folder of data sets",
    "this file system takes UTF-8 names only",
    "there is no such bound",
    "permissions of POSIX",
    "SIGKILL is not known there",
    "only Linux resets the peak of a process, and not in every sandbox",
    "no unshare",
    "no disk can be made",
    "needs a device that is always full",
    "openssl is not here to make a certificate",
    "Ray starts no cluster on this machine",
)
LISTED_SKIPS = {
    "all": _MACHINE_SKIPS,
    "test": (
        *_MACHINE_SKIPS,
        *("chromium is not installed", "needs Chromium", "node is not installed"),
        *("could not import 'torch'", "could not import 'transformers'"),
        *("could not import 'peft'", "could not import 'gguf'", "could not import 'safetensors.numpy'"),
        *("could not import 'accelerate'", "could not import 'sentence_transformers'"),
        *(
            "could not import 'hoptree.integrations.",
            "could not import 'langchain_core",
            "could not import 'llama_index",
            "could not import 'dspy'",
        ),
        "could not import 'openinference.semconv.trace'",
    ),
}
"""The beginnings of allowed reasons to skip a test, by HOPTREE_SKIPS; if it is not set, all are allowed."""


def fail_unlisted_skip(report: Report) -> Report:
    """Fail a test that is skipped for an unlisted reason, so that it is not forgotten."""
    listed = LISTED_SKIPS.get(os.environ.get("HOPTREE_SKIPS", ""))
    if listed is None or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not reason.removeprefix("Skipped: ").startswith(listed):
        report.outcome, report.longrepr = "failed", f"skipped for a reason that is not listed: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return fail_unlisted_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return fail_unlisted_skip((yield))


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # collecting tests makes no garbage, and looking for it takes a fifth of the time
    config.option.loadscopereorder = False  # else xdist begins with the files that have the most tests
    if config.option.basetemp is None and has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # Processes that tests start must not find trained weights either.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (NO_WEIGHTS, os.environ.get("PYTHONPATH"))))


def pytest_xdist_auto_num_workers() -> int | None:
    """Return twice the number of cores, as tests wait a third of the time."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist uses it
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores * 2


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Give each worker whole files, and one of them all tests of the page, for one Chromium."""

    def _split_scope(self, nodeid: str) -> str:
        return PAGE if nodeid.startswith(PAGE) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    return ByFile(config, log) if config.option.dist == "loadfile" else None


def has_room(folder: Path) -> bool:
    """Return whether a folder has room for temporary files; in containers, /dev/shm is small."""
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow files first, so that no worker is still busy with one at the end."""
    places = {name: place for place, name in enumerate(LONG)}

    def place(item: pytest.Item) -> int:
        if item.nodeid.startswith(PAGE):  # tests with the browser follow each other, so that it is started once
            return -1 if "browser" in getattr(item, "fixturenames", ()) else -2
        return places.get(item.path.name, len(LONG))

    items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude what was loaded so far from garbage collection."""
    do_once()
    send_less(session.config)
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their length: gzip headers contain the time, and workers must agree."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def do_once() -> None:
    """Cache slow work that all tests of a process share.

    A hook does this, as a session's fixtures are looked up for each of thousands of tests.
    """
    # Typer builds all commands again at every call.
    get_command = cache(typer.main.get_command)
    vars(typer.main)["get_command"] = vars(typer.testing)["_get_command"] = get_command
    # Every run records the versions of a dozen packages, each read from a long file.
    if runs := sys.modules.get("hoptree.evaluation.experiment"):  # tests of runs have loaded it
        vars(runs)["version"] = cache(importlib.metadata.version)
    # Every client of httpx reads all certificates.
    for name in ("httpx._transports.default", "httpx2._transports.default"):
        if transport := sys.modules.get(name):
            vars(transport)["create_ssl_context"] = cache(vars(transport)["create_ssl_context"])
    # Only tests of the ranker of hoptree-weights may depend on trained numbers.
    vars(hoptree.retrieval.ranker)["installed_ranker"] = cache(lambda: None)


def send_less(config: pytest.Config) -> None:
    """Let workers send one message for each test instead of five, which take longer than many tests.

    Left out are the starts of tests, and successful setups and teardowns.
    """
    if config.getoption("durations") or config.getoption("xmlpath"):
        return  # these need the other messages
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = partial(_send, plugin.sendevent)


def _send(send: Callable[..., None], name: str, **event: Any) -> None:
    report = event.get("data", {}) if name == "testreport" else {}
    uneventful = report.get("outcome") == "passed" and report["when"] != "call"
    if name not in ("logstart", "logfinish") and not uneventful:
        send(name, **event)


@pytest.fixture(scope="session")
def cache_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return new numbered folders.

    pytest looks through all existing folders for each test, which is slow if there are thousands.
    """
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_cache(cache_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = next(cache_folders)
    folder.mkdir()
    path = folder / "replies.sqlite"
    monkeypatch.setenv("HOPTREE_CACHE", str(path))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    return path


@pytest.fixture
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a pause."""
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
