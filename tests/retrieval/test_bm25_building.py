"""Building a BM25 index: what it says of itself, what is refused, and damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.retrieval.bm25_passages import PASSAGES, found
from tests.small_indexes import replace_file

from hoptree.core.errors import CorpusError, InputError
from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import MANIFEST, Index, Settings
from hoptree.retrieval.indexing import index_passages

# Building


def test_the_manifest_says_what_is_in_the_index(tmp_path: Path) -> None:
    manifest = index_passages(PASSAGES, tmp_path / "index")
    assert (manifest.passages, manifest.settings, manifest.sources) == (len(PASSAGES), Settings(), ())
    assert manifest.bytes > 1_000
    assert Index(tmp_path / "index").manifest == manifest


def test_the_digest_is_that_of_the_passages(tmp_path: Path) -> None:
    first = index_passages(PASSAGES, tmp_path / "a").digest
    assert index_passages(PASSAGES, tmp_path / "b").digest == first
    assert index_passages(PASSAGES[:-1], tmp_path / "c").digest != first


def test_two_passages_with_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="Two passages have the id 'arrival'"):
        index_passages([*PASSAGES, replace(PASSAGES[1], text="Another text.")], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_the_same_passage_twice_is_kept_once(tmp_path: Path) -> None:
    assert index_passages([*PASSAGES, PASSAGES[1]], tmp_path / "index").passages == len(PASSAGES)
    assert found(BM25(Index(tmp_path / "index")), "Arrival") == ["arrival"]


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="empty"):
        index_passages([], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_passage_with_half_a_character_is_indexed_or_refused(tmp_path: Path) -> None:
    try:
        index_passages([*PASSAGES, Passage("odd", "T", "half \ud83d a character")], tmp_path / "index")
    except CorpusError:
        return
    assert found(BM25(Index(tmp_path / "index")), "character") == ["odd"]


def test_a_language_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="klingon"):
        index_passages(PASSAGES, tmp_path / "index", settings=Settings(language="klingon"))


def test_another_language_is_stemmed_its_own_way(tmp_path: Path) -> None:
    index_passages([Passage("a", "", "Die Häuser der Stadt")], tmp_path / "index", settings=Settings(language="german"))
    assert found(BM25(Index(tmp_path / "index")), "die der") == []
    assert found(BM25(Index(tmp_path / "index")), "Städte") == ["a"]


def test_a_new_index_takes_the_place_of_the_old(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    index_passages(PASSAGES[:1], tmp_path / "index")
    assert Index(tmp_path / "index").manifest.passages == 1
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def broken_off() -> Iterator[Passage]:
    yield PASSAGES[0]
    raise CorpusError("Line 2 is no passage.")


def test_a_build_that_fails_leaves_the_old_index(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    with pytest.raises(CorpusError, match="Line 2"):
        index_passages(broken_off(), tmp_path / "index")
    assert found(BM25(Index(tmp_path / "index")), "Arrival")[0] == "arrival"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_new_index_that_cannot_be_put_in_place_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    move = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise PermissionError(13, "Permission denied")
        return move(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CorpusError, match="cannot be written"):
        index_passages(PASSAGES[:1], tmp_path / "index")
    assert Index(tmp_path / "index").manifest.passages == len(PASSAGES)


def test_an_open_index_goes_on_while_it_is_replaced(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    old = BM25(Index(tmp_path / "index"))
    index_passages(PASSAGES[:1], tmp_path / "index")
    assert found(old, "Arrival")[0] == "arrival"


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_text("x")
    with pytest.raises(CorpusError, match="exists and is not an index"):
        index_passages(PASSAGES, tmp_path / "photos")
    assert (tmp_path / "photos" / "one.jpg").exists()


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("x")
    with pytest.raises(CorpusError):
        index_passages(PASSAGES, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "x"


def test_an_empty_folder_may_become_an_index(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    assert index_passages(PASSAGES, tmp_path / "index").passages == len(PASSAGES)


# Damage


def test_what_is_no_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is not an index") as caught:
        BM25(Index(tmp_path))
    assert "hoptree index" in caught.value.remedy
    with pytest.raises(CorpusError, match="There is no index"):
        BM25(Index(tmp_path / "none"))


def test_a_file_that_could_not_be_indexed_is_not_recommended_for_an_index(tmp_path: Path) -> None:
    (tmp_path / "kite.png").write_bytes(b"\x89PNG")
    with pytest.raises(CorpusError, match="files of this kind are not read") as caught:
        BM25(Index(tmp_path / "kite.png"))
    assert caught.value.remedy.startswith("These are read: text") and "hoptree index" not in caught.value.remedy


@pytest.mark.parametrize("text", ["", "garbage", "[]", "{}", "3", '{"format": 1}', "[" * 5000])
def test_a_damaged_manifest_is_a_corpus_error(tmp_path: Path, text: str) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    (tmp_path / "index" / MANIFEST).write_text(text)
    with pytest.raises(CorpusError):
        BM25(Index(tmp_path / "index"))


@pytest.mark.parametrize(("name", "value"), [("format", 99), ("passages", 7), ("settings", {"language": "klingon"})])
def test_a_manifest_that_does_not_fit_is_a_corpus_error(tmp_path: Path, name: str, value: object) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    path = tmp_path / "index" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(InputError):
        BM25(Index(tmp_path / "index"))


@pytest.mark.parametrize("suffix", [".json", ".fieldnorm", ".idx", ".store", ".term"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbled"])
def test_a_damaged_index_is_a_corpus_error_when_opened_or_searched(tmp_path: Path, suffix: str, damage: str) -> None:
    folder = tmp_path / "index"
    index_passages(PASSAGES, folder)
    paths = [path for path in (folder / "000001" / "text").iterdir() if path.suffix == suffix and path.name[0] != "."]
    assert paths
    for path in paths:
        whole = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "garbled":
            replace_file(path, bytes(255 - byte for byte in whole))
        else:
            replace_file(path, b"" if damage == "empty" else whole[: len(whole) // 2])
    with pytest.raises(CorpusError):
        BM25(Index(folder)).search_now("film directed by Denis Villeneuve", 3)


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("index.new", "index.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("mine", encoding="utf-8")
    index_passages(PASSAGES, tmp_path / "index")
    index_passages(PASSAGES, tmp_path / "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "index.new", "index.old"]
    assert (tmp_path / "index.old" / "thesis.txt").read_text(encoding="utf-8") == "mine"
