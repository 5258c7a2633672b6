"""Lists of corpora and documents: right while files move, and quick where there are many."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import make_corpora_folder
from tests.server.running import running, settings

from hoptree.core.values import Passage
from hoptree.retrieval.indexing import build_index, index_passages
from hoptree.server.resources import Corpora, ManagedCorpus

pytestmark = pytest.mark.usefixtures("forked_workers")

_FILES = {"ada.txt": b"Ada keeps bees.", "bob.txt": b"Bob paints boats."}


def _walk_then(monkeypatch: pytest.MonkeyPatch, then: Any) -> None:
    """Have something happen between the finding of files and the look at them."""
    walk = os.walk

    def watched(*given: Any, **how: Any) -> Any:
        for step in list(walk(*given, **how)):
            then()
            yield step

    monkeypatch.setattr(os, "walk", watched)


@pytest.mark.parametrize("all_of_it", [True, False], ids=["corpus", "file"])
def test_what_goes_while_it_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_of_it: bool
) -> None:
    own = make_corpora_folder(tmp_path, _FILES)
    (own / "mine" / "passages").unlink()  # as in the making
    with running(settings(tmp_path, corpora_folder=own)) as server:

        def goes() -> None:
            if all_of_it:
                shutil.rmtree(own / "mine", ignore_errors=True)
            else:
                (own / "mine" / "documents" / "bob.txt").unlink(missing_ok=True)

        _walk_then(monkeypatch, goes)
        listed = server.client.get("/v1/corpora/mine/documents")
        assert listed.status_code == 200, listed.text
        assert [document["id"] for document in listed.json()["documents"]] == ([] if all_of_it else ["ada.txt"])
        every = server.client.get("/v1/corpora")
        assert every.status_code == 200, every.text


def test_documents_are_counted_without_a_walk_through_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = b'{"_id": "q", "text": "Who?"}\n'  # of a BEIR folder, where nothing is read of it
    own = make_corpora_folder(
        tmp_path, {**_FILES, "corpus.jsonl": b'{"_id": "p", "text": "Cid counts cats."}\n', "queries.jsonl": rows}
    )
    looked = []
    files = ManagedCorpus.files
    monkeypatch.setattr(ManagedCorpus, "files", lambda self: looked.append(self.name) or files(self))  # type: ignore[func-returns-value]
    with running(settings(tmp_path, corpora_folder=own)) as server:
        corpora = {corpus["name"]: corpus for corpus in server.client.get("/v1/corpora").json()["corpora"]}
        assert (corpora["mine"]["documents"], looked) == (3, []), "without what gave no passage"
        assert server.client.get("/v1/corpora/mine/documents").json()["total"] == 4


def test_titles_are_looked_for_in_the_beginning_of_passages_alone(tmp_path: Path) -> None:
    long = "word " * 2_000
    passages = [
        Passage("a", "Ada Lovelace", f"She met Mary Somerville. {long}"),
        Passage("b", "Mary Somerville", f"{long} Ada Lovelace was her pupil."),
    ]
    index_passages(passages, tmp_path / "index")
    topics = Corpora({"long": str(tmp_path / "index")}, None).topics("long")
    assert {topic["title"]: topic["mentions"] for topic in topics} == {
        "Ada Lovelace": "Mary Somerville",
        "Mary Somerville": None,
    }


def test_topics_are_of_small_files_beside_a_large_table(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "people.csv").write_text("Name,Work\n" + "".join(f"Arne Holt{n},none\n" for n in range(2_000)))
    (docs / "pumps.md").write_text("# Pumps\n\n## Oil the gears well\n\nDo it once a week.\n")
    (docs / "tanks.md").write_text("# Tanks\n\n## Rinse the lids well\n\nDo it once a year.\n")
    build_index(docs, tmp_path / "index")
    topics = [topic["title"] for topic in Corpora({"mixed": str(tmp_path / "index")}, None).topics("mixed")]
    assert {"Oil the gears well", "Rinse the lids well"} < set(topics)
