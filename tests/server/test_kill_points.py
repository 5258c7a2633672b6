"""A change that is killed at each of its steps: documents and index are afterwards those of before, or of after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.server.killed_at import is_killed_at
from tests.server.running import Running, eventually, running, settings

pytestmark = pytest.mark.usefixtures("forked_workers")

_BEFORE = {"a.txt": "Ada keeps bees.", "b.txt": "Bob keeps ants.", "c/d.txt": "Dan keeps cats."}
_NEW = {"a.txt": "Ada keeps wasps.", "c/d.txt": "Dan keeps dogs.", "e.txt": "Eve keeps eels."}
_MOST = 40
"""More steps than any change has."""


def _documents(corpus: Path) -> dict[str, str]:
    texts = {path: path.read_text("utf-8") for path in (corpus / "documents").rglob("*") if path.is_file()}
    return {path.relative_to(corpus / "documents").as_posix(): text for path, text in texts.items()}


def _indexed(server: Running) -> dict[str, str]:
    """The texts that a question would find, by the files that are listed as having passages."""
    reply = server.client.post("/v1/search", json={"query": "keeps", "corpus": "mine", "k": 20})
    assert reply.status_code == 200, reply.text
    texts = {row["text"] for row in reply.json()["passages"]}
    listed = server.client.get("/v1/corpora/mine/documents").json()["documents"]
    assert sum(row["passages"] for row in listed) == len(texts)
    return {name: text for name, text in _documents_of(server).items() if text in texts}


def _documents_of(server: Running) -> dict[str, str]:
    folder = server.state.settings.corpora_folder
    assert folder is not None
    return _documents(folder / "mine")


@pytest.mark.parametrize(
    ("what", "files", "after"),
    [
        ("add", _NEW, _BEFORE | _NEW),
        ("add", {"a.txt": "", "c/d.txt": "", "e.txt": ""}, None),
        ("add", {"a.txt": "", "e.txt": _NEW["e.txt"]}, _BEFORE | {"e.txt": _NEW["e.txt"]}),
        ("b.txt", {}, {name: text for name, text in _BEFORE.items() if name != "b.txt"}),
        ("create", _NEW, _NEW),
        ("create", {"a.txt": ""}, None),
    ],
    ids=["replaces", "fails", "keeps-one", "removes", "makes", "fails-to-make"],
)
def test_whenever_a_change_is_killed_it_happens_as_a_whole_or_not_at_all(
    tmp_path: Path, what: str, files: dict[str, str], after: dict[str, str] | None
) -> None:
    own, kept = tmp_path / "own", tmp_path / "kept"
    before = None if what == "create" else _BEFORE
    settings(tmp_path)
    if before:
        assert not is_killed_at(0, tmp_path, "create", before)
        shutil.copytree(own, kept)
    ends = []
    for number in range(1, _MOST):
        shutil.rmtree(own, ignore_errors=True)
        if before:
            shutil.copytree(kept, own)
        killed = is_killed_at(number, tmp_path, what, files)
        with running(settings(tmp_path, corpora_folder=own)) as server:
            eventually(lambda: not server.state.jobs.running())
            there = _documents(own / "mine") or None
            assert there in (before, after), f"killed before step {number}"
            if there:
                assert _indexed(server) == there, f"killed before step {number}"
        ends.append(there)
        left = sorted(path.name for path in own.rglob("*") if path.name in ("pending", "replaced"))
        assert not left, f"killed before step {number}"
        if not killed:
            break
    assert ends[0] == before and ends[-1] == (after or before)
    assert len(ends) > 1
