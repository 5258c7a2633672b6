"""Corpora that clients make: uploads, jobs, changes, and what a stop leaves."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

from tests.corpus.test_corpus_pdf import pdf
from tests.server.held_worker import HeldWorker
from tests.server.running import Running, eventually, limits, running, settings

from hoptree.retrieval.indexing import build_index
from hoptree.server import corpus_routes
from hoptree.server.error_responses import Refusal
from hoptree.server.keys import Key
from hoptree.server.settings import check_name

_HTML_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"


def _post(server: Running, path: str, files: dict[str, bytes], **data: str) -> Any:
    sent = [("files", (name, content)) for name, content in files.items()]
    return server.client.post(path, data=data, files=sent)


def _found(server: Running, query: str, corpus: str = "mine") -> list[str]:
    reply = server.client.post("/v1/search", json={"query": query, "corpus": corpus})
    assert reply.status_code == 200, reply.text
    return [passage["text"] for passage in reply.json()["passages"]]


def _names(server: Running) -> dict[str, Any]:
    return {corpus["name"]: corpus for corpus in server.client.get("/v1/corpora").json()["corpora"]}


@pytest.mark.parametrize("name", ["文档甲", "مضخات", "हिन्दी-2026", "käse_ß", "ไทย"])
def test_a_corpus_is_named_in_any_script(tmp_path: Path, name: str) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = server.job(_post(server, "/v1/corpora", {"ada.txt": b"Ada keeps bees in Paris."}, name=name))
        assert (job["state"], job["corpus"]) == ("done", name)
        assert name in _names(server) and _found(server, "bees", corpus=name)
        [hit] = server.client.post("/v1/search", json={"query": "bees", "corpus": name}).json()["passages"]
        cited = server.client.get(f"/v1/corpora/{quote(name)}/passages/{quote(hit['id'], safe='')}").json()
        assert cited["file"].isascii() and server.client.get(f"/{cited['file']}").status_code == 200
        body = {"model": "oner", "corpus": name, "messages": [{"role": "user", "content": "Who keeps bees?"}]}
        completion = server.client.post("/v1/chat/completions", json=body)
        assert completion.status_code == 200
        assert server.client.delete(f"/v1/corpora/{quote(name)}").status_code == 204


def test_a_corpus_is_made_changed_asked_and_removed(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        assert server.client.get("/v1/corpora").json()["uploads"]
        job = server.job(_post(server, "/v1/corpora", {"ada.txt": b"Ada keeps bees in Paris."}, name="mine"))
        assert (job["state"], job["kind"], job["corpus"], job["error"]) == ("done", "create", "mine", None)
        assert _found(server, "bees") == ["Ada keeps bees in Paris."]
        row = _names(server)["mine"]
        assert (row["managed"], row["documents"], row["passages"], row["job"]) == (True, 1, 1, None)

        added = {"bob.md": b"# Bob\n\nBob paints boats.", "ada.txt": b"Ada keeps wasps in Rome."}
        assert server.job(_post(server, "/v1/corpora/mine/documents", added))["state"] == "done"
        assert _found(server, "boats")
        assert _found(server, "bees") == []
        assert _found(server, "wasps")

        listed = server.client.get("/v1/corpora/mine/documents", params={"limit": 1}).json()
        ada = {"id": "ada.txt", "name": "ada.txt", "bytes": 24, "passages": 1}
        assert listed == {"documents": [ada], "total": 2, "offset": 0}
        assert server.job(server.client.delete("/v1/corpora/mine/documents/ada.txt"))["state"] == "done"
        assert _found(server, "wasps") == []
        last = server.client.delete("/v1/corpora/mine/documents/bob.md")
        assert (last.status_code, last.json()["error"]["class"]) == (409, "LastDocument")
        assert server.client.delete("/v1/corpora/mine/documents/ada.txt").status_code == 404

        assert server.ask("Who paints boats?", method="oner", corpus="mine").status_code == 200
        assert server.client.delete("/v1/corpora/mine").status_code == 204
        assert "mine" not in _names(server)
        assert server.ask("Who paints boats?", method="oner", corpus="mine").status_code == 400
        assert not (tmp_path / "own" / "mine").exists()


@pytest.mark.usefixtures("forked_workers")
def test_archives_and_folders_in_them(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/one.txt", "One keeps bees.")
        archive.writestr("b/one.txt", "Another keeps wasps.")
        archive.writestr("rows.jsonl", json.dumps({"id": "x", "title": "X", "text": "X keeps ants."}))
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        assert server.job(_post(server, "/v1/corpora", {"all.zip": buffer.getvalue()}, name="mine"))["state"] == "done"
        assert _found(server, "bees") and _found(server, "wasps") and _found(server, "ants")
        names = [document["id"] for document in server.client.get("/v1/corpora/mine/documents").json()["documents"]]
        assert names == ["a/one.txt", "b/one.txt", "rows.jsonl"]
        assert server.job(server.client.delete("/v1/corpora/mine/documents/a%2Fone.txt"))["state"] == "done"
        assert not _found(server, "bees")
        both = _post(server, "/v1/corpora/mine/documents", {"b": b""})
        assert both.json()["error"]["class"] == "BadFileName"
        inside = io.BytesIO()
        with zipfile.ZipFile(inside, "w") as archive:
            archive.writestr("rows.jsonl/x.txt", "x")
        clash = _post(server, "/v1/corpora/mine/documents", {"c.zip": inside.getvalue()})
        assert clash.json()["error"]["class"] == "BadFileName"
        assert _found(server, "wasps")


@pytest.mark.usefixtures("forked_workers")
def test_a_bad_upload_leaves_everything_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        bad = server.job(_post(server, "/v1/corpora", {"bad.pdf": b"%PDF-1.4 nothing"}, name="mine"))
        assert bad["state"] == "failed"
        assert bad["error"]["message"]
        assert str(tmp_path) not in json.dumps(bad)
        assert "mine" not in _names(server)
        server.job(_post(server, "/v1/corpora", {"ada.txt": b"Ada keeps bees."}, name="mine"))
        bad = server.job(_post(server, "/v1/corpora/mine/documents", {"bad.pdf": b"%PDF-1.4 nothing"}))
        assert bad["state"] == "failed"
        assert [document["id"] for document in server.client.get("/v1/corpora/mine/documents").json()["documents"]] == [
            "ada.txt"
        ]
        assert _found(server, "bees")
        assert server.job(_post(server, "/v1/corpora/mine/documents", {"b.txt": b"Bob keeps ants."}))["state"] == "done"


@pytest.mark.usefixtures("forked_workers")
def test_names_are_given_once_and_named_corpora_are_not_changed(tmp_path: Path) -> None:
    bounds = limits(corpora=1)
    with running(settings(tmp_path, corpora_folder=tmp_path / "own", limits=bounds)) as server:
        for name in ("films", "mine"):
            server.client.post("/v1/corpora", data={"name": "mine"}, files={"files": ("a.txt", b"Text.")})
            eventually(lambda: _names(server)["mine"]["job"] is None)
            assert _post(server, "/v1/corpora", {"a.txt": b"x"}, name=name).status_code == 409
        assert _post(server, "/v1/corpora", {"a.txt": b"x"}, name="second").status_code == 409
        assert _post(server, "/v1/corpora/films/documents", {"a.txt": b"x"}).status_code == 403
        assert server.client.delete("/v1/corpora/films").status_code == 403
        assert server.client.delete("/v1/corpora/none").status_code == 404
        assert server.client.get("/v1/jobs/none").status_code == 404
        assert _post(server, "/v1/corpora/mine/documents", {}).status_code == 415


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("test eins", "test-eins"),
        ("Meine Unterlagen (Büro) 2025", "meine-unterlagen-büro-2025"),
        ("../Ｕp", "up"),
        ("\u0301-_a" + "b" * 80, "a" + "b" * 62),
        ("con", ""),
        ("…", ""),
    ],
)
def test_a_name_that_is_refused_comes_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_name(name)
    assert str(refused.value).endswith(f"beginning with a letter or digit{f': {near}' if near else '.'}")
    if near:
        check_name(near)


def test_without_a_folder_nothing_is_taken(tmp_path: Path) -> None:
    with running(settings(tmp_path)) as server:
        reply = _post(server, "/v1/corpora", {"a.txt": b"x"}, name="mine")
        assert (reply.status_code, reply.json()["error"]["class"]) == (403, "NoCorpora")
        listed = server.client.get("/v1/corpora").json()
        assert not listed["uploads"] and "--corpora DIR" in listed["uploads_off"]


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldWorker:
    worker = HeldWorker(tmp_path)
    for name, value in worker.environment.items():
        monkeypatch.setenv(name, value)
    return worker


def test_questions_are_answered_while_an_index_is_made(tmp_path: Path, held: HeldWorker) -> None:
    rows = "".join(
        json.dumps({"id": f"p{n}", "title": f"Page {n}", "text": f"Page {n} tells of thing {n}."}) + "\n"
        for n in range(1_000)
    )
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = _post(server, "/v1/corpora", {"rows.jsonl": rows.encode()}, name="mine")
        assert server.ask().json()["answer"] == "1948"
        eventually(held.is_held)
        assert server.ask().json()["answer"] == "1948"
        state = server.client.get(f"/v1/jobs/{job.json()['job']}").json()
        assert state["state"] == "running" and state["done"] > 0
        held.let_go()
        state = server.job(job)
        assert state["state"] == "done"
        assert "1,000 passages" in state["message"]
        busy = server.ask("Which thing?", method="oner", corpus="mine")
        assert busy.status_code == 200


def test_a_change_that_a_stop_cut_off_is_taken_up(tmp_path: Path, held: HeldWorker) -> None:
    own = tmp_path / "own"
    held.let_go()
    with running(settings(tmp_path, corpora_folder=own)) as server:
        server.job(_post(server, "/v1/corpora", {"ada.txt": b"Ada keeps bees."}, name="mine"))
        held.hold()
        rows = "".join(json.dumps({"id": f"p{n}", "text": f"Thing {n} is here."}) + "\n" for n in range(1_000))
        job = _post(server, "/v1/corpora/mine/documents", {"rows.jsonl": rows.encode()}).json()["job"]
        refused = _post(server, "/v1/corpora/mine/documents", {"b.txt": b"x"})
        assert (refused.status_code, refused.json()["error"]["class"]) == (409, "Busy")
        assert server.client.delete("/v1/corpora/mine").status_code == 409
    assert server.state.jobs.find(job).state == "stopped"
    assert (own / "mine" / "pending").exists()
    (own / ".incoming" / "left").mkdir(parents=True, exist_ok=True)
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert _names(server)["mine"]["job"]["kind"] == "add"
        assert _found(server, "bees")
        held.let_go()
        eventually(lambda: _names(server)["mine"]["job"] is None)
        assert _names(server)["mine"]["passages"] == 1_001
        assert not (own / ".incoming").exists()
        assert not (own / "mine" / "pending").exists()


def test_an_index_that_changed_meanwhile_is_opened_anew(tmp_path: Path) -> None:
    from hoptree.core.values import Passage
    from hoptree.retrieval.indexing import index_passages

    with running(settings(tmp_path)) as server:
        assert not _found(server, "bees", "films")
        index_passages([Passage("bee", "Bee", "Bees fly.")], tmp_path / "index")
        assert _found(server, "bees", "films") == ["Bees fly."]


def test_a_citation_opens_its_source_and_no_other_file(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    words = [f"Sentence {n} tells of thing {n}." for n in range(200)]
    (docs / "long #1.txt").write_text(" ".join(words), encoding="utf-8")
    (docs / "page.html").write_text("<script>alert(1)</script><p>Bees live in a hive.</p>", encoding="utf-8")
    encodings = {"old.txt": "cp1252", "wide.txt": "utf-16", "README": "utf-8", "main.py": "utf-8"}
    for name, encoding in encodings.items():
        (docs / name).write_bytes("Größe zählt in Brücken.\n".encode(encoding))
    (tmp_path / "secret.txt").write_text("A secret.", encoding="utf-8")
    (docs / "link.txt").symlink_to(tmp_path / "secret.txt")
    build_index(docs, tmp_path / "docs.idx")
    wanted = settings(tmp_path, corpora_folder=tmp_path / "own")
    with running(replace(wanted, corpora={**wanted.corpora, "docs": str(tmp_path / "docs.idx")})) as server:
        get = server.client.get
        cited = get("/v1/corpora/docs/passages/" + quote("long #1.txt#2", safe="")).json()
        joined = " ".join(words)
        assert cited["text"] == joined[cited["start"] : cited["end"]]
        assert joined.startswith(cited["before"]) and cited["before"] + " " + cited["text"] in joined
        assert cited["after"] and cited["text"] + " " + cited["after"] in joined
        assert cited["file"] == "v1/corpora/docs/files/long%20%231.txt"
        source = get("/" + cited["file"])
        assert source.text == joined and source.headers["content-type"] == "text/plain; charset=utf-8"
        assert source.headers["content-security-policy"].endswith("sandbox")
        shown = get("/v1/corpora/docs/passages/page.html%231", headers={"accept": "text/html"})
        assert "<mark><p>Bees live in a hive.</p></mark>" in shown.text and "<script" not in shown.text
        assert f'href="{server.url}/page/style.css"' in shown.text
        html = get("/v1/corpora/docs/files/page.html")
        assert html.headers["content-type"] == "text/html; charset=utf-8"
        assert html.headers["content-security-policy"] == _HTML_POLICY
        for name in encodings:
            text = get(f"/v1/corpora/docs/files/{name}")
            assert text.headers["content-type"].startswith("text/plain") and text.text.lstrip("\ufeff").startswith(
                "Größe"
            )
        for other in ("../secret.txt", "..%2Fsecret.txt", "link.txt", str(tmp_path / "secret.txt"), "nosuch", ""):
            assert get(f"/v1/corpora/docs/files/{other}").status_code == 404
        server.job(_post(server, "/v1/corpora", {"a.pdf": pdf("Bob paints boats.", "Ada keeps bees.")}, name="mine"))
        [passage] = server.client.post("/v1/search", json={"query": "bees", "corpus": "mine"}).json()["passages"]
        cited = get("/v1/corpora/mine/passages/" + quote(passage["id"], safe="")).json()
        assert cited["file"] == "v1/corpora/mine/files/a.pdf#page=2"
        file = get("/" + cited["file"])
        assert file.headers["content-type"] == "application/pdf" and file.content.startswith(b"%PDF")
    key = Key("team", hashlib.sha256(b"correct-horse-battery").digest())
    named = {"docs": str(tmp_path / "docs.idx")}
    with running(settings(tmp_path, corpora=named, keys=(key,))) as server:  # where others may ask
        asked = {"Authorization": "Bearer correct-horse-battery"}
        assert server.client.get("/v1/corpora/docs/files/page.html", headers=asked).status_code == 404
        opened = server.client.get("/v1/corpora/docs/passages/page.html%231", headers=asked).json()
        assert opened["text"] == "Bees live in a hive." and opened["file"] is None


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ('<meta charset="gb2312"><p>蜂箱'.encode("gb18030"), "gb2312"),
        ("<p>Größe".encode("cp1252"), "windows-1252"),
        ('<meta charset="latin1"><p>Größe'.encode("cp1252"), "windows-1252"),
        (b'<meta charset="utf-8">' + "<p>Größe ".encode() * 20 + b"\xff", "utf-8"),
    ],
)
def test_a_page_is_opened_in_the_encoding_it_is_read_in(tmp_path: Path, content: bytes, charset: str) -> None:
    (tmp_path / "page.htm").write_bytes(content)
    reply = corpus_routes._file_response(tmp_path / "page.htm")
    assert reply.headers["content-type"] == f"text/html; charset={charset}"


def test_a_packed_text_is_opened_and_no_script_in_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    page = b"<script>alert(1)</script><p>Bees live in a hive.</p>"
    plain = "Größe zählt.\n".encode("cp1252")
    contents = {
        "page.html.gz": page,
        "old.txt.gz": plain,
        "A b.PDF.GZ": pdf("Ada keeps bees."),
        "long.txt.gz": b"Bees. " * 1000,
    }
    for name, content in contents.items():
        (docs / name).write_bytes(gzip.compress(content))
    damaged = gzip.compress(random.Random(7).randbytes(9000).hex().encode())
    (docs / "cut.txt.gz").write_bytes(damaged[:-100])
    build_index(docs, tmp_path / "docs.idx")
    monkeypatch.setattr(corpus_routes, "MAX_DOCUMENT_BYTES", len(contents["A b.PDF.GZ"]))
    with running(settings(tmp_path, corpora={"docs": str(tmp_path / "docs.idx")})) as server:
        replies = {name: server.client.get(f"/v1/corpora/docs/files/{name}") for name in (*contents, "cut.txt.gz")}
        html = replies["page.html.gz"]
        assert html.content == page and html.headers["content-type"] == "text/html; charset=utf-8"
        assert html.headers["content-security-policy"] == _HTML_POLICY
        assert html.headers["content-disposition"] == "inline; filename*=utf-8''page.html"
        assert replies["old.txt.gz"].text == "Größe zählt.\n"
        paged = replies["A b.PDF.GZ"]
        assert paged.content == contents["A b.PDF.GZ"] and paged.headers["content-type"] == "application/pdf"
        assert paged.headers["content-disposition"] == "inline; filename*=utf-8''A%20b.PDF"
        for name in ("long.txt.gz", "cut.txt.gz"):  # too long, and broken in what is looked at first
            assert replies[name].headers["content-disposition"].startswith("attachment")
            assert replies[name].content == (docs / name).read_bytes()
