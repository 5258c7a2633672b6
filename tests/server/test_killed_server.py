"""A server that is killed while it indexes, and an index that another process writes: no upload is lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi")

from tests.server.held_worker import HeldWorker
from tests.server.running import Running, eventually, limits, running, settings
from tests.timing import TIMEOUT_S

from hoptree.core.errors import IndexUnavailable
from hoptree.core.files import FolderLock
from hoptree.server import corpus_service, indexing
from hoptree.server.error_responses import Refusal
from hoptree.server.indexing import run_indexing
from hoptree.server.jobs import Change, Job, Stage
from hoptree.server.resources import ManagedCorpus
from hoptree.server.settings import Limits

pytestmark = pytest.mark.usefixtures("forked_workers")

_ROWS = 400
_CHANGE = Change("create", ("a.txt", "b.txt"), stage=Stage.INDEXING, tries=1, stale=True)


@contextmanager
def _serving(folder: Path, held: HeldWorker) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """`hoptree serve` in a process of its own, which is killed at the end."""
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"reply": "1948"}]}))
    options = ["--port", "0", "--no-cache", "--corpora", str(folder / "own"), "-m", f"demo=scripted/{script}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "hoptree", "serve", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **held.environment},
    )
    try:
        assert process.stderr is not None
        url = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
        assert url
        with httpx.Client(base_url=url[0], timeout=TIMEOUT_S, trust_env=False) as client:
            eventually(lambda: _answers(client))
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
    return next((corpus for corpus in client.get("/v1/corpora").json()["corpora"] if corpus["name"] == "mine"), {})


def _is_locked(index: Path) -> bool:
    try:
        with FolderLock(index, IndexUnavailable):
            return False
    except FileNotFoundError:
        return False
    except IndexUnavailable:
        return True


def test_a_server_that_is_killed_while_it_indexes_loses_nothing_and_leaves_nobody_behind(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": f"p{n}", "text": f"Thing {n} is here."}) + "\n" for n in range(_ROWS))
    sent = [("files", ("rows.jsonl", rows.encode())), ("files", ("ada.txt", b"Ada keeps bees."))]
    index, held = tmp_path / "own" / "mine" / "index", HeldWorker(tmp_path)
    with _serving(tmp_path, held) as (process, client):
        assert client.post("/v1/corpora", data={"name": "mine"}, files=sent).status_code == 202
        eventually(held.is_held)
        assert _mine(client)["job"]["done"] > 0 and _is_locked(index)
        process.kill()
        process.wait()
    eventually(lambda: not _is_locked(index))
    assert (tmp_path / "own" / "mine" / "pending").exists()
    held.let_go()
    with _serving(tmp_path, held) as (_, client):
        eventually(lambda: _mine(client).get("job") is None)
        assert (_mine(client)["documents"], _mine(client)["passages"]) == (2, _ROWS + 1)
    assert not (tmp_path / "own" / "mine" / "pending").exists()


def _cut_off(own: Path) -> Path:
    """A corpus whose making a kill cut off."""
    corpus = own / "mine"
    (corpus / "documents").mkdir(parents=True)
    (corpus / "index").mkdir()
    for name, keeper in (("a.txt", "Ada"), ("b.txt", "Bob")):
        (corpus / "documents" / name).write_text(f"{keeper} keeps bees.", encoding="utf-8")
    _CHANGE.write(ManagedCorpus("mine", corpus))
    return corpus


def _job(server: Running) -> dict[str, Any]:
    job: dict[str, Any] = _mine(server.client)["job"]
    return job


def test_an_index_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    corpus = _cut_off(tmp_path / "own")
    with FolderLock(corpus / "index", IndexUnavailable):
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


def _ended(server: Running) -> dict[str, Any]:
    """The last job, when it is over."""
    eventually(lambda: not server.state.jobs.running())
    return list(server.state.jobs._jobs.values())[-1].as_dict()


def _class(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["class"]


def test_where_it_stays_taken_the_documents_are_kept_until_the_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = _cut_off(tmp_path / "own")
    monkeypatch.setattr(indexing, "MAX_WAIT_S", 0.3)
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        with FolderLock(corpus / "index", IndexUnavailable):
            eventually(lambda: not server.state.jobs.running())
            for _ in range(4):  # however often: the files are not at fault
                more = server.client.post("/v1/corpora/mine/documents", files={"files": ("c.txt", b"Cid keeps ants.")})
                assert _class(more) == (409, "Unfinished") and more.headers["retry-after"]
                job = _ended(server)
                assert (job["state"], job["error"]["class"]) == ("failed", "IndexUnavailable")
            assert sorted(path.name for path in (corpus / "documents").iterdir()) == ["a.txt", "b.txt"]
        gone = server.client.delete("/v1/corpora/mine/documents/a.txt")
        assert _class(gone) == (409, "Unfinished")
        assert _ended(server)["state"] == "done"
        assert _mine(server.client)["passages"] == 2
        assert server.job(server.client.delete("/v1/corpora/mine/documents/a.txt"))["state"] == "done"
    assert not (corpus / "pending").exists()


def test_who_waits_for_an_index_takes_nobodys_place(tmp_path: Path) -> None:
    own = tmp_path / "own"
    files = {"files": ("a.txt", b"Ada keeps bees.")}
    with running(settings(tmp_path, corpora_folder=own)) as server, ExitStack() as locks:
        waiting = []
        for name in ("first", "second", "third"):
            assert server.job(server.client.post("/v1/corpora", data={"name": name}, files=files))["state"] == "done"
            locks.enter_context(FolderLock(own / name / "index", IndexUnavailable))
            more = server.client.post(f"/v1/corpora/{name}/documents", files={"files": ("b.txt", b"Bob keeps ants.")})
            waiting.append(more)
        other = server.client.post("/v1/corpora", data={"name": "other"}, files=files)
        assert server.job(other)["state"] == "done"
        assert server.state.jobs.running() == len(waiting)
        locks.close()
        assert [server.job(reply)["state"] for reply in waiting] == ["done"] * len(waiting)


@pytest.mark.parametrize("given_back", [True, False])
def test_where_another_process_is_quicker_it_is_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_back: bool
) -> None:
    """The lock is taken after it was seen free, just before the worker would take it."""
    looks = []
    lock = FolderLock(_made(tmp_path) / "index", IndexUnavailable)

    async def looked(index: Path, job: Job) -> None:
        looks.append(index)
        if len(looks) > 1 and given_back:
            lock.release()

    monkeypatch.setattr(corpus_service, "wait_until_free", looked)
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        lock.acquire()
        more = server.client.post("/v1/corpora/mine/documents", files={"files": ("b.txt", b"Bob keeps ants.")})
        job = server.job(more)
        lock.release()
        assert len(looks) > 1
        assert (job["state"], (job["error"] or {}).get("class")) == (
            ("done", None) if given_back else ("failed", "IndexUnavailable")
        )
        assert (tmp_path / "own" / "mine" / "documents" / "b.txt").exists(), "the files are not at fault"


def _made(folder: Path) -> Path:
    with running(settings(folder, corpora_folder=folder / "own")) as server:
        files = {"files": ("a.txt", b"Ada keeps bees.")}
        assert server.job(server.client.post("/v1/corpora", data={"name": "mine"}, files=files))["state"] == "done"
    return folder / "own" / "mine"


def test_a_worker_that_says_nothing_is_too_slow_and_waits_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = _made(tmp_path)
    begin = asyncio.create_subprocess_exec

    async def sleeps(*words: str, **how: Any) -> Any:
        return await begin(sys.executable, "-c", "import time; time.sleep(600)", **how)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", sleeps)
    short = settings(tmp_path, corpora_folder=tmp_path / "own", limits=limits(indexing_seconds=0.2))
    with running(short) as server:
        job = server.job(server.client.post("/v1/corpora/mine/documents", files={"files": ("a.txt", b"Wrong.")}))
        assert (job["state"], job["error"]["class"]) == ("failed", "TooSlow")
        assert (corpus / "documents" / "a.txt").read_bytes() == b"Ada keeps bees."


_OF_THE_MOMENT = [
    OSError(24, "Too many open files"),
    Refusal(500, "IndexingDied", "Indexing ended without a word.", "Upload less at once."),
    Refusal(504, "TooSlow", "Indexing took longer than allowed.", "Upload less at once."),
]
_OF_FILES = Refusal(400, "CorpusError", "Nothing of what was uploaded can be read.", "Mend it.")


def _failing(tries: list[str], failure: Exception) -> Any:
    async def fails(corpus: ManagedCorpus, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
        """Indexing that fails with a new a.txt."""
        if "a.txt" not in added:
            return await run_indexing(corpus, limits, job, added)
        tries.append(corpus.name)
        raise failure

    return fails


@pytest.mark.parametrize(
    "failure", [*_OF_THE_MOMENT, _OF_FILES], ids=lambda failure: getattr(failure, "kind", type(failure).__name__)
)
def test_what_is_taken_up_is_given_up_at_once_only_where_its_files_are_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    corpus = _cut_off(tmp_path / "own")
    monkeypatch.setattr(corpus_service, "run_indexing", _failing([], failure))
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        eventually(lambda: not server.state.jobs.running())
        assert corpus.exists() is (failure is not _OF_FILES)
        assert failure is _OF_FILES or server.client.delete("/v1/corpora/mine").status_code == 204


@pytest.mark.parametrize(
    "failure", _OF_THE_MOMENT, ids=lambda failure: getattr(failure, "kind", type(failure).__name__)
)
def test_what_fails_again_and_again_is_undone_without_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    tries: list[str] = []
    _replacing(corpus := ManagedCorpus("mine", _made(tmp_path)), tries=1)
    monkeypatch.setattr(corpus_service, "run_indexing", _failing(tries, failure))
    add = {"files": ("b.txt", b"Bob keeps ants.")}
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        eventually(lambda: not server.state.jobs.running())
        assert _class(server.client.post("/v1/corpora/mine/documents", files=add)) == (409, "Unfinished")
        eventually(lambda: not server.state.jobs.running())
        assert not corpus.pending.exists()
        assert (corpus.documents / "a.txt").read_bytes() == b"Ada keeps bees."
        assert server.job(server.client.post("/v1/corpora/mine/documents", files=add))["state"] == "done"
        assert _mine(server.client)["passages"] == 2
    assert len(tries) == 2


def test_what_killed_the_server_each_time_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []
    _replacing(corpus := ManagedCorpus("mine", _made(tmp_path)), tries=3)
    monkeypatch.setattr(corpus_service, "run_indexing", _failing(tries, _OF_FILES))
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        eventually(lambda: not server.state.jobs.running())
        assert not tries and not corpus.pending.exists()
        assert (corpus.documents / "a.txt").read_bytes() == b"Ada keeps bees."


def _replacing(corpus: ManagedCorpus, tries: int) -> None:
    """A replacement of the one file of a corpus that a kill cut off while it was indexed."""
    corpus.replaced.mkdir()
    (corpus.documents / "a.txt").rename(corpus.replaced / "a.txt")
    (corpus.documents / "a.txt").write_bytes(b"Ada keeps wasps.")
    Change("add", ("a.txt",), kept=("a.txt",), stage=Stage.INDEXING, tries=tries, stale=True).write(corpus)


def test_a_stop_is_not_counted_among_the_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    _replacing(corpus := ManagedCorpus("mine", _made(tmp_path)), tries=1)

    async def lasts(*_: Any) -> str:
        change = Change.read(corpus)
        assert change is not None
        begun.append(change.tries)
        await asyncio.sleep(600)
        return ""

    with monkeypatch.context() as patched:
        patched.setattr(corpus_service, "run_indexing", lasts)
        for number in range(1, 5):
            with running(settings(tmp_path, corpora_folder=tmp_path / "own")):
                eventually(lambda: len(begun) == number)  # noqa: B023
    assert begun == [2] * 4
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        eventually(lambda: not server.state.jobs.running())
        assert (corpus.documents / "a.txt").read_bytes() == b"Ada keeps wasps."
    assert not corpus.pending.exists()


def test_what_was_taken_out_does_not_stay_on_the_disk(tmp_path: Path) -> None:
    corpus = ManagedCorpus("mine", _made(tmp_path))
    corpus.replaced.mkdir()  # a kill came after the change was settled, and before this was removed
    (corpus.replaced / "old.txt").write_bytes(b"Old keeps owls.")
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        assert not corpus.replaced.exists()
        assert _mine(server.client)["passages"] == 1
