"""An index that is damaged or gone: made anew from the documents, blamed on no upload, and told without its path."""

from __future__ import annotations

import asyncio
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

from tests.graph.graph_files import TRUTHY, written
from tests.server.corpora_made import add, class_of, make_corpora_folder, passages, remove, search_texts
from tests.server.running import running, settings

from hoptree.core.errors import CorpusError, GraphError, GraphUnavailable, HoptreeError

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
    own = make_corpora_folder(tmp_path, _FILES)
    damage(own / "mine" / "index")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        job = add(server, {"cid.txt": b"Cid counts cats."})
        assert (job["state"], job["error"]) == ("done", None)
        assert search_texts(server, "bees") and search_texts(server, "boats") and search_texts(server, "cats")
        assert passages(server) == {"ada.txt": 1, "bob.txt": 1, "cid.txt": 1}
        assert remove(server, "bob.txt")["state"] == "done" and not search_texts(server, "boats")


def test_an_index_that_cannot_be_made_is_not_the_uploads_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    shutil.rmtree(own / "mine" / "index")
    (own / "mine" / "index").mkdir()
    (own / "mine" / "index" / "somebodys.txt").write_text("x", encoding="utf-8")
    with running(settings(tmp_path, corpora_folder=own)) as server, caplog.at_level(logging.WARNING, "hoptree.server"):
        job = add(server, {"cid.txt": b"Cid counts cats."})
        assert (job["state"], job["error"]["class"]) == ("failed", "IndexUnavailable")
        assert "the server's administrator" in job["error"]["remedy"] and "retryable" not in job["error"]
        assert "own" not in job["error"]["message"]
    assert "is not an index" in caplog.text
    assert (own / "mine" / "index" / "somebodys.txt").exists()


@pytest.mark.parametrize("way", ["/v1/search", "/v1/ask"])
def test_a_damaged_index_is_the_servers_fault_and_its_path_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    own = make_corpora_folder(tmp_path, _FILES)
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
            error = reply.json()["error"]
            assert f"'{name}'" in error["message"] and "own/" not in reply.text and "hoptree-index" not in reply.text
            assert "retryable" not in error and error["remedy"]
    assert "own/mine/index is damaged" in caplog.text


def test_an_index_that_is_gone_is_not_said_to_be_in_the_making(tmp_path: Path) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    _gone(own / "mine" / "index")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        reply = server.client.post("/v1/search", json={"query": "bees", "corpus": "mine"})
        assert class_of(reply) == (409, "NotReady")
        assert "job" not in reply.text and "rebuilds the index" in reply.json()["error"]["remedy"]
        assert remove(server, "bob.txt")["state"] == "done" and search_texts(server, "bees")


def _cut_graph(graph: Path) -> None:
    (graph / "hoptree-graph.json").write_text("{", encoding="utf-8")


def _other_graph(graph: Path) -> None:
    (graph / "hoptree-graph.json").write_text("{}", encoding="utf-8")


@pytest.mark.parametrize("damage", [_cut_graph, _other_graph, _gone])
def test_a_damaged_graph_is_the_servers_fault_and_its_path_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    loading = pytest.importorskip("hoptree.graph.loading")
    monkeypatch.chdir(tmp_path)
    graph = tmp_path / "our data" / "kg.graph"
    loading.load_graph(graph, [written(tmp_path / "truthy.nt", TRUTHY)])
    damage(graph)
    with (
        running(settings(tmp_path, graphs={"facts": "our data/kg.graph"})) as server,
        caplog.at_level(logging.WARNING, "hoptree.server"),
    ):
        reply = server.ask(method="tog")
        assert reply.status_code == 500
        assert reply.json()["error"]["message"] == "The graph 'facts' is damaged, or gone."
        assert "our data" not in reply.text and "kg.graph" not in reply.text
    assert "our data/kg.graph" in caplog.text


@pytest.mark.parametrize("failure", [GraphError, GraphUnavailable, CorpusError])
def test_what_is_noticed_while_answering_names_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[HoptreeError]
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = settings(tmp_path)
    (tmp_path / "index").rename(tmp_path / "our index")

    async def search(*args: Any, **more: Any) -> Any:
        raise failure(f"{tmp_path}/our index/000001 is damaged: x.sst is not what was written.")

    with running(replace(wanted, corpora={"films": "our index"})) as server:
        find = server.state.questions.retrievers.find
        retriever = asyncio.run_coroutine_threadsafe(find("films", "bm25"), server.loop).result(60)
        monkeypatch.setattr(type(retriever), "search", search)
        reply = server.ask(method="oner", retriever="bm25")
        assert (reply.status_code >= 400 and "…" in reply.text) or failure is GraphUnavailable
        assert "our index" not in reply.text and str(tmp_path) not in reply.text


@pytest.mark.parametrize("way", ["topics", "passages/a", "files/a"])
def test_addresses_of_a_corpus_name_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.chdir(tmp_path)
    with running(settings(tmp_path, corpora={"films": "index"})) as server:
        _gone(tmp_path / "index")
        reply = server.client.get(f"/v1/corpora/films/{way}")
        assert reply.status_code == (404 if way.startswith("files") else 500)
        assert ("index at" not in reply.text and "retryable" not in reply.json()["error"]) or reply.status_code == 404


@pytest.mark.parametrize("name", ["nope", "NOPE", "..", "%2e%2e", "a b", "nul", "x" * 300])
def test_an_address_that_names_no_corpus_is_not_found(tmp_path: Path, name: str) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        client, place = server.client, f"/v1/corpora/{quote(name, safe='%')}"
        place = place.replace("..", "%2e%2e")
        files = {"files": ("a.txt", b"Words.")}
        replies = [client.get(f"{place}/{rest}") for rest in ("documents", "topics", "passages/a", "files/a")]
        replies += [client.post(f"{place}/documents", files=files)]
        replies += [client.delete(place), client.delete(f"{place}/documents/a.txt")]
        assert [reply.status_code for reply in replies] == [404] * 7
        for reply in replies:
            assert reply.json()["error"]["message"].startswith(("There is no corpus '", "There is nothing at this"))
