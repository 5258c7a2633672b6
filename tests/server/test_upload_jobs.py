"""Jobs that go wrong, files that are passed over, and what the process that reads uploads is given."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.hostile import zipped
from tests.server.running import Running, eventually, running, settings

from hoptree.core.errors import ConfigError
from hoptree.server import corpus_service
from hoptree.server import jobs as staging
from hoptree.server.app import open_state
from hoptree.server.error_responses import Refusal
from hoptree.server.indexing import run_indexing
from hoptree.server.jobs import Change, Job
from hoptree.server.resources import ManagedCorpus
from hoptree.server.settings import Limits
from hoptree.server.uploads import UploadFolder

pytestmark = pytest.mark.usefixtures("forked_workers")

_GOOD = b"Ada keeps bees."


def _post(server: Running, path: str, files: dict[str, bytes], **data: str) -> dict[str, Any]:
    sent = [("files", (name, content)) for name, content in files.items()]
    return server.job(server.client.post(path, data=data, files=sent))


def _documents(own: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (own / "mine" / "documents").iterdir()}


def _passages(server: Running) -> dict[str, int | None]:
    listed = server.client.get("/v1/corpora/mine/documents").json()["documents"]
    return {document["id"]: document["passages"] for document in listed}


async def _fails(corpus: ManagedCorpus, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
    """Indexing that fails wherever something was uploaded."""
    if added:
        raise OSError(24, "Too many open files")
    return await run_indexing(corpus, limits, job)


def test_a_job_that_fails_by_a_mistake_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own"
    with running(settings(tmp_path, corpora_folder=own)) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")
        with monkeypatch.context() as patched, caplog.at_level(logging.ERROR, "hoptree.server"):
            patched.setattr(corpus_service, "run_indexing", _fails)
            for _ in range(2):
                job = _post(server, "/v1/corpora/mine/documents", {"a.txt": b"Wrong.", "b.txt": b"New."})
                assert (job["state"], job["error"]["class"]) == ("failed", "InternalError")
                assert _documents(own) == {"a.txt": _GOOD}
                assert not (own / "mine" / "pending").exists()
            job = _post(server, "/v1/corpora", {"a.txt": b"Text."}, name="other")
            assert job["state"] == "failed"
            assert not (own / "other").exists()
        assert "in _fails" in caplog.text
        assert _post(server, "/v1/corpora/mine/documents", {"b.txt": b"Bob keeps ants."})["state"] == "done"
        assert _passages(server) == {"a.txt": 1, "b.txt": 1}


def _found(server: Running, query: str) -> list[str]:
    reply = server.client.post("/v1/search", json={"query": query, "corpus": "mine"})
    return [passage["text"] for passage in reply.json()["passages"]]


async def _too_late(corpus: ManagedCorpus, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
    """Indexing that comes to its end, and takes too long for the server to hear of it."""
    outcome = await run_indexing(corpus, limits, job, added)
    if added:
        raise Refusal(504, "TooSlow", "Indexing took longer than allowed.", "Upload less at once.")
    return outcome


@pytest.mark.parametrize(("text", "kind"), [(b"", "CorpusError"), (b"Ada keeps wasps.", "TooSlow")])
def test_a_replacement_that_fails_leaves_the_old_text_to_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, kind: str
) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD, "b.txt": b"Bob paints boats."}, name="mine")
        if kind == "TooSlow":
            monkeypatch.setattr(corpus_service, "run_indexing", _too_late)
        job = _post(server, "/v1/corpora/mine/documents", {"a.txt": text})
        assert (job["state"], job["error"]["class"]) == ("failed", kind)
        assert _found(server, "bees") == ["Ada keeps bees."] and not _found(server, "wasps")
        assert _passages(server) == {"a.txt": 1, "b.txt": 1}
        assert not (tmp_path / "own" / "mine" / "pending").exists()


def test_where_it_cannot_be_indexed_again_the_next_change_does_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def once(corpus: ManagedCorpus, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
        if not added:
            raise OSError(24, "Too many open files")
        outcome = await run_indexing(corpus, limits, job, added)
        if "a.txt" in added:
            raise Refusal(504, "TooSlow", "Indexing took longer than allowed.", "Upload less at once.")
        return outcome

    own = tmp_path / "own"
    with running(settings(tmp_path, corpora_folder=own)) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD, "b.txt": b"Bob paints boats."}, name="mine")
        monkeypatch.setattr(corpus_service, "run_indexing", once)
        job = _post(server, "/v1/corpora/mine/documents", {"a.txt": b"Ada keeps wasps."})
        assert (job["state"], job["error"]["class"]) == ("failed", "TooSlow")
        assert (own / "mine" / "pending").exists() and not _found(server, "bees")
        refused = server.client.delete("/v1/corpora/mine/documents/none.txt")
        assert refused.status_code == 404
        assert (own / "mine" / "pending").exists(), "the next start would go on with it"
        assert _post(server, "/v1/corpora/mine/documents", {"c.txt": b"Cid keeps cats."})["state"] == "done"
        assert _found(server, "bees") and _passages(server) == {"a.txt": 1, "b.txt": 1, "c.txt": 1}
        assert not (own / "mine" / "pending").exists()


def test_a_change_that_could_not_be_undone_is_undone_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    move = staging._move

    def fails(path: Path, to: Path) -> None:
        if "replaced" in path.parts:
            raise OSError(5, "Input/output error")
        move(path, to)

    with running(settings(tmp_path, corpora_folder=own)) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")
        with monkeypatch.context() as patched:
            patched.setattr(corpus_service, "run_indexing", _fails)
            patched.setattr(staging, "_move", fails)
            _post(server, "/v1/corpora/mine/documents", {"a.txt": b"Wrong."})
        assert (own / "mine" / "pending").exists()
        assert _post(server, "/v1/corpora/mine/documents", {"b.txt": b"Bob keeps ants."})["state"] == "done"
        assert _documents(own) == {"a.txt": _GOOD, "b.txt": b"Bob keeps ants."}
        assert _passages(server) == {"a.txt": 1, "b.txt": 1}


def test_documents_that_cannot_be_moved_are_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    move = staging._move

    def fails(path: Path, to: Path) -> None:
        if path.name == "b.txt" and ".incoming" in path.parts:
            raise OSError(28, "No space left on device")
        move(path, to)

    with running(settings(tmp_path, corpora_folder=own)) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")
        monkeypatch.setattr(staging, "_move", fails)
        sent = [("files", ("a.txt", b"Wrong.")), ("files", ("b.txt", b"New."))]
        assert server.client.post("/v1/corpora/mine/documents", files=sent).status_code == 503
        assert _documents(own) == {"a.txt": _GOOD}
        assert not (own / "mine" / "pending").exists()


def test_a_note_that_cannot_be_read_loses_no_document(tmp_path: Path) -> None:
    own = tmp_path / "own"
    with running(settings(tmp_path, corpora_folder=own)) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD, "b.txt": b"Bob keeps ants."}, name="mine")
    corpus = own / "mine"
    (corpus / "replaced").mkdir()
    (corpus / "documents" / "a.txt").rename(corpus / "replaced" / "a.txt")
    (corpus / "pending").write_text("{", encoding="utf-8")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        eventually(lambda: not server.state.jobs.running())
        assert _documents(own) == {"a.txt": _GOOD, "b.txt": b"Bob keeps ants."}
        assert _passages(server) == {"a.txt": 1, "b.txt": 1}
        assert not (corpus / "pending").exists()


def test_a_folder_in_which_no_file_is_left_is_no_obstacle(tmp_path: Path) -> None:
    own = tmp_path / "own"
    with running(settings(tmp_path, corpora_folder=own)) as server:
        inside = zipped({"a.txt/b.txt": _GOOD, "c.txt": b"Cid keeps cats."})
        assert _post(server, "/v1/corpora", {"all.zip": inside}, name="mine")["state"] == "done"
        assert server.job(server.client.delete("/v1/corpora/mine/documents/a.txt%2Fb.txt"))["state"] == "done"
        assert not (own / "mine" / "documents" / "a.txt").exists()
        (own / "mine" / "documents" / "a.txt").mkdir()  # as a kill would leave it
        assert _post(server, "/v1/corpora/mine/documents", {"a.txt": b""})["state"] == "failed"
        assert _documents(own) == {"c.txt": b"Cid keeps cats."}
        assert _post(server, "/v1/corpora/mine/documents", {"a.txt": _GOOD})["state"] == "done"
        assert _passages(server) == {"a.txt": 1, "c.txt": 1}


@pytest.mark.parametrize("name", ["log-10.0.0.1.txt", "hf-0123456789abcdef0.txt"])
def test_a_name_that_looks_like_something_secret_is_told_to_whoever_gave_it(tmp_path: Path, name: str) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = _post(server, "/v1/corpora", {"a.txt": _GOOD, name: b"K\xe4se."}, name="mine")
        (passed,) = job["passed_over"]
        assert passed["file"] == name and "…" not in passed["cause"]


def test_files_that_are_passed_over_are_named(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        files = {"a.txt": _GOOD, "latin.txt": b"K\xe4se.", "empty.txt": b"", "rows.jsonl": b'{"text": "Rows."}\n{oh\n'}
        files |= {"junk.txt": b"\0\1\2\3", "bad.docx": b"x", "half.txt.gz": b"\x1f\x8b nothing", "kite.png": b"\x89PNG"}
        job = _post(server, "/v1/corpora", files, name="mine")
        assert job["state"] == "done"
        assert job["message"] == "3 passages (3 added)", "the files below are counted once"
        problems = {problem["file"]: problem for problem in job["passed_over"]}
        assert set(problems) == set(files) - {"a.txt"}, "none of them is a reason to refuse the rest"
        assert problems["kite.png"]["cause"] == "kite.png is not a document of a known kind."
        assert problems["latin.txt"]["remedy"] == "Save it as UTF-8, then upload it again."
        assert "Line 2 of rows.jsonl" in problems["rows.jsonl"]["cause"]
        assert all(problem["cause"] and problem["remedy"] for problem in problems.values())
        unread = dict.fromkeys(("bad.docx", "empty.txt", "half.txt.gz", "junk.txt"), 0)
        assert _passages(server) == {"a.txt": 1, "latin.txt": 1, "rows.jsonl": 1, **unread}
        job = _post(server, "/v1/corpora/mine/documents", {"b.txt": b"Bob keeps ants."})
        assert job["passed_over"] == []
        job = _post(server, "/v1/corpora/mine/documents", {"latin.txt": b"K\xe4se \0\1\2\3"})
        assert job["state"] == "failed" and job["error"]["remedy"].startswith("Upload it as text")
        clean = _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="other")
        assert (clean["message"], clean["passed_over"]) == ("1 passage (1 added)", [])


def test_an_upload_of_which_nothing_can_be_read_names_every_kind_of_problem(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        files = {"a.docx": b"x", "b.docx": b"y", "empty.txt": b"", "kite.png": b"\x89PNG", "owl.png": b"\x89PNG"}
        first = _post(server, "/v1/corpora", files, name="mine")
        assert _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")["state"] == "done"
        for job in (first, _post(server, "/v1/corpora/mine/documents", files)):
            error = job["error"]
            assert job["state"] == "failed" and error["message"].startswith(
                "Nothing of what was uploaded can be read: "
            )
            assert all(
                name in error["message"] for name in ("a.docx", "empty.txt is empty.", "kite.png is not a document")
            )
            assert "b.docx" not in error["message"] and "owl.png" not in error["message"]
            assert "Leave it out" in error["remedy"] and "These are read: text" in error["remedy"]


def test_the_worker_gets_no_code_and_no_secrets_of_the_servers_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, mark = tmp_path / "here", tmp_path / "mark"
    here.mkdir()
    (here / "resource.py").write_text(f"open({str(mark)!r}, 'w').close()\nraise ImportError\n", encoding="utf-8")
    monkeypatch.chdir(here)
    secrets = {"DATABASE_URL": "x", "PGPASSFILE": "x", "SENTRY_DSN": "x", "HOPTREE_MCP_KEY": "x", "OPENAI_API_KEY": "x"}
    for name, value in {**secrets, "LC_TIME": "C", "HOPTREE_DEBUG": "0", "PYTHONPATH": "lib"}.items():
        monkeypatch.setenv(name, value)
    given: list[dict[str, Any]] = []
    begin = asyncio.subprocess.create_subprocess_exec  # the real one

    async def noted(*words: str, **how: Any) -> Any:
        given.append(how)
        return await begin(*words, **how)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    # A folder that is named from here, as an administrator would.
    with running(settings(tmp_path, corpora_folder=Path("own"))) as server:
        assert _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")["state"] == "done"
        assert _post(server, "/v1/corpora/mine/documents", {"b.txt": b"Bob."})["state"] == "done"
    assert not mark.exists()
    (first, _) = given
    assert not set(secrets) & set(first["env"])
    assert (first["env"]["LC_TIME"], first["env"]["HOPTREE_DEBUG"]) == ("C", "0")
    assert first["env"]["PYTHONPATH"] == str(here / "lib")
    assert Path(first["cwd"]).resolve() == here / "own" / "mine"


def test_the_log_tells_how_a_worker_ended_that_said_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin = asyncio.subprocess.create_subprocess_exec  # the real one

    async def killed(*words: str, **how: Any) -> Any:
        process = await begin(*words, **how)
        process.kill()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", killed)
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")
        assert job["error"]["class"] == "IndexingDied"
        assert not (tmp_path / "own" / "mine").exists()
    assert "the indexing worker of corpus mine ended with signal 9" in caplog.text


def test_folders_that_cannot_be_are_refused_at_the_start(tmp_path: Path) -> None:
    usual = settings(tmp_path)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="cannot hold corpora") as refused:
            open_state(replace(usual, corpora_folder=folder))
        assert refused.value.remedy
        with pytest.raises(ConfigError, match="of runs"):
            open_state(replace(usual, runs=folder))


def test_only_who_runs_the_server_may_read_uploads(tmp_path: Path) -> None:
    asyncio.run(open_state(settings(tmp_path, corpora_folder=tmp_path / "own")).aclose())
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700


@pytest.mark.parametrize("where", ["while it is unpacked", "while it is placed"])
def test_a_full_disk_is_told_as_such_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    own = tmp_path / "own"
    with running(settings(tmp_path, corpora_folder=own)) as server:
        _post(server, "/v1/corpora", {"a.txt": _GOOD}, name="mine")
        if where == "while it is unpacked":
            monkeypatch.setattr(UploadFolder, "_count", full)
        else:
            monkeypatch.setattr(Change, "write", full)
        for path, data in (("/v1/corpora/mine/documents", {}), ("/v1/corpora", {"name": "other"})):
            reply = server.client.post(path, data=data, files={"files": ("b.txt", b"Bob keeps ants.")})
            assert (reply.status_code, reply.json()["error"]["class"]) == (503, "NoSpace")
            assert "retryable" not in reply.json()["error"]
        assert _documents(own) == {"a.txt": _GOOD} and not (own / "other").exists()
        assert not list((own / ".incoming").iterdir())
