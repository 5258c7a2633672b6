"""A folder of corpora that was copied, moved or restored: what is indexed are the documents that lie in it now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import add, create, documents, make_corpora_folder, passages, remove, search_texts
from tests.server.running import running, settings

from hoptree.retrieval.indexing import add_to_index

pytestmark = pytest.mark.usefixtures("forked_workers")

_FILES = {"ada.txt": b"Ada keeps bees.", "bob.txt": b"Bob paints boats."}


@pytest.mark.parametrize("stays", [True, False], ids=["copied", "moved"])
def test_a_folder_elsewhere_goes_by_its_own_documents(tmp_path: Path, stays: bool) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    there = tmp_path / "elsewhere" / "corpora"
    there.parent.mkdir()
    (shutil.copytree if stays else shutil.move)(own, there)
    with running(settings(tmp_path, corpora_folder=there)) as server:
        job = remove(server, "bob.txt")
        assert (job["state"], job["message"]) == ("done", "1 passage (the index was made anew)")
        assert not search_texts(server, "boats") and search_texts(server, "bees")
        assert add(server, {"cid.txt": b"Cid counts cats."})["state"] == "done"
        assert search_texts(server, "cats") == ["Cid counts cats."]
        assert passages(server) == {"ada.txt": 1, "cid.txt": 1}
        job = add(server, {"cid.txt": b"Cid counts cows."})
        assert (job["state"], job["message"]) == ("done", "2 passages (1 replaced)"), "only what changed is read"
    assert not stays or documents(own) == _FILES


def test_what_lies_in_the_old_place_does_not_come_along(tmp_path: Path) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    shutil.copytree(own, tmp_path / "copy")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert add(server, {"dan.txt": b"Dan hides dollars."})["state"] == "done"
    with running(settings(tmp_path, corpora_folder=tmp_path / "copy")) as server:
        assert add(server, {"eve.txt": b"Eve eats eels."})["state"] == "done"
        assert search_texts(server, "eels") and not search_texts(server, "dollars")
        assert passages(server) == {"ada.txt": 1, "bob.txt": 1, "eve.txt": 1}


def test_a_corpus_that_was_copied_beside_itself_is_one_of_its_own(tmp_path: Path) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    shutil.copytree(own / "mine", own / "twin")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert remove(server, "bob.txt", "twin")["state"] == "done"
        assert not search_texts(server, "boats", "twin") and search_texts(server, "boats")
        assert create(server, {"x.txt": b"Another."}, "third")["state"] == "done"


def test_what_whoever_runs_the_server_has_added_to_an_index_stays(tmp_path: Path) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    more = tmp_path / "more.txt"
    more.write_text("Zoe zips zebras.", encoding="utf-8")
    add_to_index([more], own / "mine" / "index")
    with running(settings(tmp_path, corpora_folder=own)) as server:
        assert remove(server, "bob.txt")["message"] == "2 passages (1 removed)"
        assert search_texts(server, "zebras") and not search_texts(server, "boats")
