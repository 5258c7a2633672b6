"""An index that is damaged or gone: made anew from the documents, blamed on no upload, and told without its path."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import add, class_of, found, made, passages, remove
from tests.server.running import running, settings

pytestmark = pytest.mark.usefixtures("forked_workers")

_FILES = {"ada.txt": b"Ada keeps bees.", "bob.txt": b"Bob paints boats."}


def _no_ledger(index: Path) -> None:
    next(index.glob("0*/ledger.sqlite")).unlink()


def _scribbled_ledger(index: Path) -> None:
    ledger = next(index.glob("0*/ledger.sqlite"))
    ledger.write_bytes(ledger.read_bytes()[:4096] + b"\xff" * 20_000)


def _cut_manifest(index: Path) -> None:
    manifest = index / "hoptree-index.json"
    manifest.write_text(manifest.read_text("utf-8")[:40], encoding="utf-8")


def _no_texts(index: Path) -> None:
    for path in index.glob("0*/text/*.store"):
        path.unlink()


def _no_generation(index: Path) -> None:
    for path in index.glob("0*"):
        shutil.rmtree(path)


def _gone(index: Path) -> None:
    shutil.rmtree(index)


@pytest.mark.parametrize("damage", [_no_ledger, _scribbled_ledger, _cut_manifest, _no_texts, _no_generation, _gone])
def test_the_next_change_makes_it_anew_from_the_documents(tmp_path: Path, damage: Any) -> None:
    own = made(tmp_path, _FILES)
    damage(own / "mine" / "index")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        job = add(server, {"cid.txt": b"Cid counts cats."})
        assert (job["state"], job["error"]) == ("done", None)
        assert found(server, "bees") and found(server, "boats") and found(server, "cats")
        assert passages(server) == {"ada.txt": 1, "bob.txt": 1, "cid.txt": 1}
        assert remove(server, "bob.txt")["state"] == "done" and not found(server, "boats")


def test_an_index_that_cannot_be_made_is_not_the_uploads_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = made(tmp_path, _FILES)
    shutil.rmtree(own / "mine" / "index")
    (own / "mine" / "index").mkdir()
    (own / "mine" / "index" / "somebodys.txt").write_text("x", encoding="utf-8")
    with running(settings(tmp_path, corpora_folder=own)) as server, caplog.at_level(logging.WARNING, "hoptree.server"):
        job = add(server, {"cid.txt": b"Cid counts cats."})
        assert (job["state"], job["error"]["class"]) == ("failed", "IndexUnavailable")
        assert "whoever runs the server" in job["error"]["remedy"] and "retryable" not in job["error"]
        assert "own" not in job["error"]["message"]
    assert "is no index" in caplog.text
    assert (own / "mine" / "index" / "somebodys.txt").exists()


@pytest.mark.parametrize("way", ["/v1/search", "/v1/ask"])
def test_a_damaged_index_is_the_servers_fault_and_its_path_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    own = made(tmp_path, _FILES)
    asked = {"query": "bees"} if way == "/v1/search" else {"question": "Who keeps bees?", "method": "oner"}
    named = {"films": str((tmp_path / "index").relative_to(tmp_path))}
    with (
        running(settings(tmp_path, corpora=named, corpora_folder=Path("own"))) as server,
        caplog.at_level(logging.WARNING, "hoptree.server"),
    ):
        no_vectors = server.client.post(way, json={**asked, "corpus": "films", "retriever": "dense"})
        assert no_vectors.status_code == 400 and "films" in no_vectors.json()["error"]["message"]
        for name, where in (("films", tmp_path / "index"), ("mine", own / "mine" / "index")):
            _cut_manifest(where)
            reply = server.client.post(way, json={**asked, "corpus": name})
            assert reply.status_code == 500, reply.text
            told = reply.json()["error"]
            assert f"'{name}'" in told["message"] and "own/" not in reply.text and "hoptree-index" not in reply.text
            assert "retryable" not in told and told["remedy"]
    assert "own/mine/index is damaged" in caplog.text


def test_an_index_that_is_gone_is_not_said_to_be_in_the_making(tmp_path: Path) -> None:
    own = made(tmp_path, _FILES)
    _gone(own / "mine" / "index")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        reply = server.client.post("/v1/search", json={"query": "bees", "corpus": "mine"})
        assert class_of(reply) == (409, "NotReady")
        assert "job" not in reply.text and "made anew" in reply.json()["error"]["remedy"]
        assert remove(server, "bob.txt")["state"] == "done" and found(server, "bees")
