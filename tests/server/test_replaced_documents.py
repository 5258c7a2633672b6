"""New versions of documents: one of which nothing can be read does not take the place of the old one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import add, class_of, create, documents, make_corpora_folder, passages, search_texts
from tests.server.running import eventually, running, settings

from hoptree.server.jobs import Change, Stage
from hoptree.server.resources import ManagedCorpus

pytestmark = pytest.mark.usefixtures("forked_workers")

_FILES = {"ada.txt": b"Ada keeps bees.", "bob.txt": b"Bob paints boats."}
_BINARY = bytes(range(256)) * 4


@pytest.mark.parametrize("content", [_BINARY, b"", b"K\xe4se \1\2"], ids=["binary", "empty", "latin"])
def test_the_old_version_stays_and_the_job_says_so(tmp_path: Path, content: bytes) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        create(server, _FILES)
        job = add(server, {"ada.txt": content, "bob.txt": b"Bob paints barns.", "cid.txt": b"Cid counts cats."})
        assert (job["state"], job["message"].partition(";")[0]) == ("done", "3 passages (1 added, 1 replaced)")
        (passed,) = job["passed_over"]
        assert passed["file"] == "ada.txt" and "stays" in passed["cause"] and passed["remedy"]
        assert search_texts(server, "bees") and search_texts(server, "barns") and search_texts(server, "cats")
        assert passages(server) == {"ada.txt": 1, "bob.txt": 1, "cid.txt": 1}
        assert documents(tmp_path / "own")["ada.txt"] == b"Ada keeps bees."
        assert not (tmp_path / "own" / "mine" / "replaced").exists()
        alone = add(server, {"ada.txt": content})
        assert (alone["state"], alone["error"]["class"]) == ("failed", "CorpusError")
        assert search_texts(server, "bees") and documents(tmp_path / "own")["ada.txt"] == b"Ada keeps bees."


def test_a_kill_while_old_versions_are_put_back_loses_none(tmp_path: Path) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    corpus = ManagedCorpus("mine", own / "mine")
    corpus.replaced.mkdir()
    for name in _FILES:
        (corpus.documents / name).rename(corpus.replaced / name)
        (corpus.documents / name).write_bytes(_BINARY)
    (corpus.documents / "cid.txt").write_bytes(b"Cid counts cats.")
    (corpus.replaced / "ada.txt").replace(corpus.documents / "ada.txt")  # and here the kill came
    added, kept = ("ada.txt", "bob.txt", "cid.txt"), ("ada.txt", "bob.txt")
    Change("add", added, kept=kept, stage=Stage.INDEXING, tries=1, stale=True).write(corpus)
    with running(settings(tmp_path, corpora_folder=own)) as server:
        eventually(lambda: not server.state.jobs.running())
        assert documents(own) == {**_FILES, "cid.txt": b"Cid counts cats."}
        assert passages(server) == {"ada.txt": 1, "bob.txt": 1, "cid.txt": 1}
    assert not corpus.pending.exists() and not corpus.replaced.exists()


def test_the_last_document_that_can_be_read_is_not_removed(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        create(server, {"ada.txt": b"Ada keeps bees.", "empty.txt": b""})
        reply = server.client.delete("/v1/corpora/mine/documents/ada.txt")
        assert class_of(reply) == (409, "LastDocument")
        assert "read" in reply.json()["error"]["message"]
        assert search_texts(server, "bees")
