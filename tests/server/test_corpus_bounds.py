"""How much a corpus may hold, by whatever uploads it got there, and where its files are counted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import Running, limits, running, settings

from hoptree.server import jobs as staging
from hoptree.server.error_responses import Refusal
from hoptree.server.resources import ManagedCorpus
from hoptree.server.uploads import Names

pytestmark = pytest.mark.usefixtures("forked_workers")

_BESIDE = "Bob keeps ants."


def _post(server: Running, path: str, files: dict[str, str], **data: str) -> Any:
    sent = [("files", (name, content.encode())) for name, content in files.items()]
    return server.client.post(path, data=data, files=sent)


def _some(first: int, last: int) -> dict[str, str]:
    return {f"{n}.txt": f"Number {n} keeps bees." for n in range(first, last)}


def _refused(reply: Any) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["class"]


def test_the_files_of_a_corpus_are_counted_over_all_its_uploads(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own", limits=limits(files=4))) as server:
        documents = "/v1/corpora/mine/documents"
        assert server.job(_post(server, "/v1/corpora", _some(0, 3), name="mine"))["state"] == "done"
        assert _refused(_post(server, documents, _some(3, 5))) == (413, "TooMany")
        assert server.client.get(documents).json()["total"] == 3
        assert server.job(_post(server, documents, _some(2, 4)))["state"] == "done", "one of them is there already"
        assert _refused(_post(server, documents, _some(4, 5))) == (413, "TooMany")
        assert server.job(server.client.delete(f"{documents}/0.txt"))["state"] == "done"
        assert server.job(_post(server, documents, _some(4, 5)))["state"] == "done"
        assert not list((tmp_path / "own" / ".incoming").iterdir())


def test_as_many_files_as_allowed_come_at_once_and_more_are_refused_in_our_words(tmp_path: Path) -> None:
    most = 1_005  # the framework takes 1,000
    with running(settings(tmp_path, corpora_folder=tmp_path / "own", limits=limits(files=most))) as server:
        job = server.job(_post(server, "/v1/corpora", _some(0, most), name="mine"))
        assert (job["state"], job["message"].partition(" (")[0]) == ("done", "1,005 passages")
        reply = _post(server, "/v1/corpora", _some(0, most + 1), name="other")
        assert _refused(reply) == (413, "TooMany")
        assert "More than 1,005 files" in reply.json()["error"]["message"]


def test_what_a_corpus_holds_is_bounded_as_it_will_be(tmp_path: Path) -> None:
    large = "Ada keeps bees. " * 40
    bounds = limits(stored=len(large) + len(_BESIDE))
    with running(settings(tmp_path, corpora_folder=tmp_path / "own", limits=bounds)) as server:
        both = {"a.txt": large, "b.txt": large}
        assert _refused(_post(server, "/v1/corpora", both, name="mine")) == (413, "TooLarge")
        assert not (tmp_path / "own" / "mine").exists()
        first = {"a.txt": large, "b.txt": _BESIDE}
        assert server.job(_post(server, "/v1/corpora", first, name="mine"))["state"] == "done"
        again = _post(server, "/v1/corpora/mine/documents", {"a.txt": large.replace("bees", "ants")})
        assert server.job(again)["state"] == "done"
        assert _refused(_post(server, "/v1/corpora/mine/documents", {"b.txt": _BESIDE + "!"})) == (413, "TooLarge")


def _outside(work: Callable[..., Any], inside: list[bool]) -> Callable[..., Any]:
    """The same work, with a note of whether it is done where questions wait."""

    def watched(*given: Any) -> Any:
        try:
            asyncio.get_running_loop()
            inside.append(True)
        except RuntimeError:
            inside.append(False)
        return work(*given)

    return watched


def test_files_are_not_looked_for_and_not_moved_where_questions_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, moved = list[bool](), list[bool]()
    monkeypatch.setattr(ManagedCorpus, "files", _outside(ManagedCorpus.files, looked))
    monkeypatch.setattr(staging, "_move", _outside(staging._move, moved))
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        server.job(_post(server, "/v1/corpora", _some(0, 2), name="mine"))
        server.job(_post(server, "/v1/corpora/mine/documents", _some(1, 3)))
        server.job(server.client.delete("/v1/corpora/mine/documents/0.txt"))
        assert server.job(_post(server, "/v1/corpora/mine/documents", {"1.txt": ""}))["state"] == "failed"
        assert server.client.get("/v1/corpora/mine/documents").json()["total"] == 2
    assert len(looked) >= 3 and not any(looked)
    assert len(moved) >= 6 and not any(moved)


def _calls(work: Callable[[], object]) -> int:
    """How many calls something takes, steps of generators among them."""
    calls = 0

    def count(frame: Any, event: str, given: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_name_is_held_against_ten_thousand_as_against_ten() -> None:
    few, many = (Names(f"a/b{n}.txt/{n}.md" for n in range(most)) for most in (10, 10_000))
    for name in ("new.md", "a/new/c/new.md", "a/b5.txt/new.md"):
        assert _calls(partial(few.check_beside, name)) == _calls(partial(many.check_beside, name))
        assert _calls(partial(few.__contains__, name)) == _calls(partial(many.__contains__, name))


@pytest.mark.parametrize("name", ["a", "a/b", "a/b.md", "a/b.md/c.md", "a/b.md/c.md/d.md", "b.md", "a/b.m", "a/b.mdx"])
def test_a_file_is_no_folder(name: str) -> None:
    beside = ["a/b.md", "c.md"]
    clash = any(name.startswith(f"{other}/") or other.startswith(f"{name}/") for other in beside)
    with pytest.raises(Refusal, match="file and a folder") if clash else nullcontext():
        Names(beside).check_beside(name)


def test_a_job_that_is_done_is_so_wholly(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = server.job(_post(server, "/v1/corpora", _some(0, 4), name="mine"))
        assert job["total"] and job["done"] == job["total"]


def test_a_form_of_no_encoding_is_a_mistake_of_the_client(tmp_path: Path) -> None:
    body = b'--x\r\ncontent-disposition: form-data; name="name"\r\n\r\nmine\r\n--x--\r\n'
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        for kind in (
            "multipart/form-data; boundary=x; charset=undefined",
            "multipart/form-data; boundary=x; charset=idna",
        ):
            reply = server.client.post("/v1/corpora", content=body, headers={"content-type": kind})
            assert 400 <= reply.status_code < 500, reply.text


def test_a_body_that_is_no_form_is_told_what_to_send(tmp_path: Path) -> None:
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        reply = server.client.post("/v1/corpora", json={"name": "mine", "files": []})
        assert reply.status_code == 415 and "multipart/form-data" in reply.text
        document = server.client.get("/openapi.json").json()
        assert all(len(operation["tags"]) == 1 for path in document["paths"].values() for operation in path.values())
