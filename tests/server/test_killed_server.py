"""A server that is killed while it indexes, and an index that another process writes: no upload is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")

from tests.server.running import Running, eventually, limits, running, settings

from hoptree.errors import IndexUnavailable
from hoptree.lock import WriteLock
from hoptree.server import changing
from hoptree.server.refusals import Refusal

_ROWS = 4_000
_CHANGE = {"kind": "create", "added": ["a.txt", "b.txt"], "removed": [], "kept": []}


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """`hoptree serve` in a process of its own, which is killed at the end."""
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"reply": "1948"}]}))
    options = ["--port", "0", "--no-cache", "--corpora", str(folder / "own"), "-m", f"demo=scripted/{script}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hoptree", "serve", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
        assert found
        with httpx.Client(base_url=found[0], timeout=20, trust_env=False) as client:
            eventually(lambda: _answers(client), seconds=20)
            yield process, client
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def _mine(client: httpx.Client) -> dict[str, Any]:
    return next((one for one in client.get("/v1/corpora").json()["corpora"] if one["name"] == "mine"), {})


def _is_locked(index: Path) -> bool:
    try:
        with WriteLock(index, IndexUnavailable):
            return False
    except FileNotFoundError:
        return False
    except IndexUnavailable:
        return True


def test_a_server_that_is_killed_while_it_indexes_loses_nothing_and_leaves_nobody_behind(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": f"p{n}", "text": f"Thing {n} is here."}) + "\n" for n in range(_ROWS))
    sent = [("files", ("rows.jsonl", rows.encode())), ("files", ("ada.txt", b"Ada keeps bees."))]
    index = tmp_path / "own" / "mine" / "index"
    with _serving(tmp_path) as (process, client):
        assert client.post("/v1/corpora", data={"name": "mine"}, files=sent).status_code == 202
        eventually(lambda: _mine(client)["job"]["done"] > 0)
        process.kill()
        process.wait()
    eventually(lambda: not _is_locked(index), seconds=0.5)
    assert (tmp_path / "own" / "mine" / "pending").exists(), "the worker was done before the kill"
    with _serving(tmp_path) as (_, client):
        eventually(lambda: _mine(client).get("job") is None, seconds=30)
        assert (_mine(client)["documents"], _mine(client)["passages"]) == (2, _ROWS + 1)
    assert not (tmp_path / "own" / "mine" / "pending").exists()


def _cut_off(own: Path) -> Path:
    """A corpus whose making a kill cut off."""
    corpus = own / "mine"
    (corpus / "documents").mkdir(parents=True)
    (corpus / "index").mkdir()
    for name, keeper in (("a.txt", "Ada"), ("b.txt", "Bob")):
        (corpus / "documents" / name).write_text(f"{keeper} keeps bees.", encoding="utf-8")
    (corpus / "pending").write_text(json.dumps(_CHANGE), encoding="utf-8")
    return corpus


def _job(server: Running) -> dict[str, Any]:
    job: dict[str, Any] = _mine(server.client)["job"]
    return job


def test_an_index_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    corpus = _cut_off(tmp_path / "own")
    with WriteLock(corpus / "index", IndexUnavailable):
        server = Running(settings(tmp_path, corpora_folder=tmp_path / "own"))
        server.start()
        try:
            eventually(lambda: "another process" in _job(server)["message"])
        except BaseException:
            server.stop()
            raise
    try:
        eventually(lambda: _job(server) is None)
        assert (_mine(server.client)["documents"], _mine(server.client)["passages"]) == (2, 2)
    finally:
        server.stop()
    assert not (corpus / "pending").exists()


def test_where_it_stays_taken_the_documents_are_kept_until_the_next_start(tmp_path: Path) -> None:
    corpus = _cut_off(tmp_path / "own")
    short = settings(tmp_path, corpora_folder=tmp_path / "own", limits=limits(indexing_seconds=1.0))
    with WriteLock(corpus / "index", IndexUnavailable), running(short) as server:
        job = _job(server)["id"]
        eventually(lambda: server.client.get(f"/v1/jobs/{job}").json()["state"] != "running")
        told = server.client.get(f"/v1/jobs/{job}").json()
        assert (told["state"], told["error"]["class"]) == ("failed", "IndexUnavailable")
        more = server.client.post("/v1/corpora/mine/documents", files={"files": ("c.txt", b"Cid keeps ants.")})
        assert (more.status_code, more.json()["error"]["class"]) == (409, "Unfinished")
        gone = server.client.delete("/v1/corpora/mine/documents/a.txt")
        assert (gone.status_code, gone.json()["error"]["class"]) == (409, "Unfinished")
    assert (corpus / "pending").exists()
    assert sorted(path.name for path in (corpus / "documents").iterdir()) == ["a.txt", "b.txt"]
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        eventually(lambda: _job(server) is None)
        assert _mine(server.client)["passages"] == 2


@pytest.mark.parametrize(
    "failure",
    [
        OSError(24, "Too many open files"),
        Refusal(500, "IndexingDied", "Indexing ended without a word.", "Upload less at once."),
        Refusal(504, "TooSlow", "Indexing took longer than allowed.", "Upload less at once."),
        Refusal(400, "CorpusError", "Nothing of what was uploaded can be read.", "Mend it."),
    ],
    ids=lambda failure: getattr(failure, "kind", type(failure).__name__),
)
def test_what_is_taken_up_is_given_up_only_where_its_files_are_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def fails(*_: Any) -> str:
        raise failure

    corpus = _cut_off(tmp_path / "own")
    monkeypatch.setattr(changing, "bring_up_to_date", fails)
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        eventually(lambda: not server.house.jobs.running())
        at_fault = isinstance(failure, Refusal) and failure.kind == "CorpusError"
        assert (corpus / "pending").exists() is not at_fault
        assert (corpus / "documents" / "a.txt").exists() is not at_fault
        assert at_fault or server.client.delete("/v1/corpora/mine").status_code == 204
