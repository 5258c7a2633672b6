"""`hoptree graph extract` as a person meets it; also killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.small_indexes import hoptree, rows, write_rows

import hoptree as package
from hoptree.extraction.folder import FACTS, LOG

COUNT = 24
needs_graph = pytest.mark.skipif(find_spec("pyoxigraph") is None, reason="needs the extra graph")

KILLED = """
import os, pathlib, signal
from hoptree.__main__ import main
from hoptree.models.scripted import ScriptedModel

plain, log = ScriptedModel.generate, pathlib.Path({log!r})

async def generate(*given, **named):
    if log.exists() and log.read_bytes().count(b"\\n") >= {passages}:
        os.kill(os.getpid(), signal.SIGKILL)
    return await plain(*given, **named)

ScriptedModel.generate = generate
main()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_rows(tmp_path / "corpus.jsonl", rows(COUNT))
    script(tmp_path / "model.json")
    return tmp_path


def script(path: Path, *first: dict[str, Any]) -> None:
    replies = [
        {"contains": f"Number{n}\n", "reply": f"Person Number{n} | friend | Person Number{n + 1}"} for n in range(COUNT)
    ]
    path.write_text(json.dumps({"replies": [*first, *replies]}), encoding="utf-8")


def extract(home: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return hoptree(home, "graph", "extract", "corpus.jsonl", "--out", "out", "-m", "scripted/model.json", *more)


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_an_estimate_then_all_then_nothing(home: Path) -> None:
    first = extract(home, "--dry-run", "--prices", "1/2")
    assert first.returncode == 0, first.stderr
    assert "5 facts from 5 of 24 passages, in out/facts.jsonl" in first.stdout
    assert "the other 19 passages: 19 calls" in first.stdout
    assert "cost 0.00" in first.stdout
    data = json.loads(extract(home, "--json").stdout)
    assert (data["new"], data["finished"], data["facts"], data["failed"]) == (19, 24, 24, [])
    again = extract(home)
    assert "0 passages in" in again.stdout
    assert "24 passages were done before" in again.stdout


@needs_graph
def test_facts_go_into_a_graph_with_the_passage_that_states_them(home: Path) -> None:
    done = extract(home, "--into", "kg")
    assert "loaded    24 facts as out into kg" in done.stdout, done.stderr
    shown = hoptree(home, "graph", "entity", "person number3", "--graph", "kg")
    assert "Person Number3 | friend | Person Number4   [out: p3]" in shown.stdout
    assert json.loads(extract(home, "--into", "kg", "--json").stdout)["loaded"]["facts_in_graph"] == 24
    assert hoptree(home, "graph", "load", f"out/{FACTS}", "--out", "kg2", "--json").returncode == 0


@needs_graph
def test_a_place_that_is_no_graph_is_refused_before_anything_is_paid(home: Path) -> None:
    refused(extract(home, "--into", "model.json"), "model.json")
    write_rows(home / "mine" / "notes.jsonl", rows(1))
    refused(extract(home, "--into", "mine"), "mine")
    assert not (home / "out").exists()


def test_bad_input_is_one_sentence(home: Path) -> None:
    refused(hoptree(home, "graph", "extract", "nowhere", "--out", "out", "-m", "scripted/model.json"), "nowhere")
    refused(extract(home, "--budget", "cost=1"), "needs prices")
    refused(extract(home, "--budget", "nonsense"), "not a budget")
    (home / "empty.jsonl").write_text("", encoding="utf-8")
    empty = hoptree(home, "graph", "extract", "empty.jsonl", "--out", "out", "-m", "scripted/model.json")
    refused(empty, "holds no passage")
    assert extract(home, "--limit", "2").returncode == 0
    write_rows(home / "corpus.jsonl", rows(COUNT - 1))
    refused(extract(home), "another corpus", "--anyway")
    assert extract(home, "--anyway").returncode == 0


def test_failed_passages_are_named_and_the_exit_code_says_so(home: Path) -> None:
    script(home / "model.json", {"contains": "Number7\n", "fault": "401"})
    done = extract(home)
    refused(done, "1 passage could not be read. The same command tries again", code=1)
    assert "failed    p7: The script says 401." in done.stdout
    data = json.loads(extract(home, "--json").stdout)
    assert [failure["passage"] for failure in data["failed"]] == ["p7"]


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is not known there")
def test_killed_again_and_again_it_ends_like_one_that_never_was(home: Path) -> None:
    for wanted in (4, 12):
        kill_at(home, wanted)
    done = sum(1 for line in (home / "out" / LOG).read_bytes().split(b"\n")[:-1] if json.loads(line))
    assert 12 <= done < COUNT, "it was killed in the middle"
    data = json.loads(extract(home, "--json", "--no-cache").stdout)
    assert (data["new"], data["finished"], data["now"]["calls"]) == (COUNT - done, COUNT, COUNT - done)
    logged = Counter(json.loads(line)["passage"] for line in (home / "out" / LOG).read_bytes().splitlines())
    assert set(logged.values()) == {1}
    unbroken = hoptree(home, "graph", "extract", "corpus.jsonl", "--out", "new", "-m", "scripted/model.json")
    assert unbroken.returncode == 0, unbroken.stderr
    killed, uninterrupted = (sorted((home / name / FACTS).read_bytes().splitlines()) for name in ("out", "new"))
    assert killed == uninterrupted


def kill_at(home: Path, passages: int) -> None:
    """Begin, and kill it when so many passages are on disk."""
    command = ("graph", "extract", "corpus.jsonl", "--out", "out", "-m", "scripted/model.json")
    killed = KILLED.format(log=str(home / "out" / LOG), passages=passages)
    child = subprocess.run(
        [sys.executable, "-c", killed, *command, "--no-cache", "--concurrency", "1"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)},
        capture_output=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
