"""What became of an upload that was accepted can be asked after a restart, by the job's id."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import add, create, make_corpora_folder, search_texts
from tests.server.running import Running, eventually, running, settings

from hoptree.server import corpus_service
from hoptree.server.jobs import Change, Failure, Job, Stage
from hoptree.server.resources import ManagedCorpus
from hoptree.server.settings import Limits

pytestmark = pytest.mark.usefixtures("forked_workers")

_FILES = {"ada.txt": b"Ada keeps bees."}


def _told(server: Running, job: str) -> dict[str, Any]:
    reply = server.client.get(f"/v1/jobs/{job}")
    assert reply.status_code == 200, reply.text
    state: dict[str, Any] = reply.json()
    return state


def _cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> str:
    """The job of an upload whose indexing a stop cut off."""

    async def lasts(corpus: ManagedCorpus, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
        await asyncio.sleep(600)
        return ""

    with monkeypatch.context() as patched, running(settings(folder, corpora_folder=folder / "own")) as server:
        patched.setattr(corpus_service, "run_indexing", lasts)
        sent = [("files", (name, content)) for name, content in files.items()]
        reply = server.client.post("/v1/corpora/mine/documents", files=sent)
        assert reply.status_code == 202
        job: str = reply.json()["job"]
    return job


@pytest.mark.parametrize("good", [True, False])
def test_a_job_that_is_taken_up_keeps_its_id_and_tells_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, good: bool
) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    job = _cut_off(tmp_path, monkeypatch, {"bob.txt": b"Bob paints boats." if good else b""})
    with running(settings(tmp_path, corpora_folder=own)) as server:
        eventually(lambda: _told(server, job)["state"] != "running")
        first = _told(server, job)
        assert first["state"] == ("done" if good else "failed")
        assert good or (first["error"]["class"] == "CorpusError" and "bob.txt" in first["error"]["message"])
        assert search_texts(server, "boats") == (["Bob paints boats."] if good else [])
    assert good or "bob.txt" in caplog.text
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert _told(server, job) == first
        assert add(server, {"cid.txt": b"Cid counts cats."})["state"] == "done"


@pytest.mark.parametrize("good", [True, False])
def test_a_job_that_had_ended_is_known_after_a_restart(tmp_path: Path, good: bool) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    with running(settings(tmp_path, corpora_folder=own)) as server:
        job = add(server, {"ada.txt": b"Ada keeps wasps." if good else b""})
        other = create(server, {"x.txt": b"Another."}, "other")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert _told(server, job["id"]) == job and _told(server, other["id"]) == other


def test_a_change_that_was_being_undone_is_told_as_failed(tmp_path: Path) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    corpus = ManagedCorpus("mine", own / "mine")
    corpus.replaced.mkdir()
    (corpus.documents / "ada.txt").rename(corpus.replaced / "ada.txt")
    why = Failure(400, "CorpusError", "ada.txt is empty.", "Leave it out.")
    Change("add", ("ada.txt",), kept=("ada.txt",), stage=Stage.UNDOING, stale=True, job="abc", failure=why).write(
        corpus
    )
    with running(settings(tmp_path, corpora_folder=own)) as server:
        eventually(lambda: _told(server, "abc")["state"] != "running")
        job = _told(server, "abc")
        assert (job["state"], job["error"]["message"]) == ("failed", "ada.txt is empty.")
        assert search_texts(server, "bees") and not corpus.pending.exists()


def test_a_note_that_cannot_be_read_at_this_moment_is_no_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    corpus = ManagedCorpus("mine", own / "mine")
    (corpus.documents / "bob.txt").write_bytes(b"Bob paints boats.")
    Change("add", ("bob.txt",), stage=Stage.INDEXING, stale=True).write(corpus)
    read = Path.read_text

    def fails(self: Path, *given: Any, **how: Any) -> str:
        if self.name == "pending":
            raise OSError(24, "Too many open files")
        return read(self, *given, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", fails)
        with pytest.raises(OSError, match="Too many"):
            Change.read(corpus)
        with running(settings(tmp_path, corpora_folder=own)) as server, caplog.at_level(logging.ERROR):
            assert search_texts(server, "bees"), "the others are served all the same"
        assert "mine" in caplog.text
    assert corpus.pending.exists()
    with running(settings(tmp_path, corpora_folder=own)) as server:
        eventually(lambda: not server.state.jobs.running())
        assert search_texts(server, "boats")


def test_a_corpus_that_was_copied_with_its_note_has_a_job_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    job = _cut_off(tmp_path, monkeypatch, {"bob.txt": b"Bob paints boats."})
    shutil.copytree(own / "mine", own / "a-twin")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert server.state.jobs.running() == 2
        eventually(lambda: not server.state.jobs.running())
        assert _told(server, job)["state"] == "done"
        assert search_texts(server, "boats") and search_texts(server, "boats", "a-twin")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert len(server.state.jobs._jobs) == 2
