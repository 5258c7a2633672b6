"""The check of an index finds damage anywhere, and none in an intact index."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.small_indexes import hoptree, replace_file, rows, write_rows

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.values import Passage
from hoptree.retrieval.index import folder
from hoptree.retrieval.index.folder import MANIFEST, Index, Settings
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    compact_index,
    index_passages,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.indexing.check import Checked, check_all, check_parts
from hoptree.retrieval.indexing.sources import Progress

DECOMPOSED = "Cafe\u0301 Zu\u0308rich"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_rows(tmp_path / "docs" / "a.jsonl", rows(30), ns=10**18)
    build_index(tmp_path / "docs", tmp_path / "idx")
    return tmp_path / "idx"


def test_an_unreadable_file_is_reported_in_the_foreground_and_background(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = hashlib.file_digest

    def cannot_read(file: Any, kind: str) -> Any:
        if str(file.name).endswith(".store"):
            raise OSError(errno.EIO, "Input/output error")
        return read(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", cannot_read)
    with pytest.raises(CorpusError, match=r"store cannot be read: Input/output error"):
        Index(out)
    monkeypatch.setattr(folder, "_CHECKED_AT_ONCE_BYTES", 0)
    monkeypatch.setattr(Thread, "start", Thread.run)
    with pytest.raises(CorpusError, match=r"store cannot be read: Input/output error"):
        Index(out).texts.search("bees", 3)


def summed_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix not in (".json", ".lock"))


def checked(out: Path) -> tuple[int, int | None, int | None]:
    index = Index(out)
    result = check_all(index)
    assert bool(result.bytes) is bool(index.manifest.checksums)
    return result.passages, result.linked, result.vectors


def test_an_intact_index_passes_the_check_after_every_change(out: Path, tmp_path: Path) -> None:
    assert checked(out) == (30, 30, None)
    more = write_rows(tmp_path / "more.jsonl", rows(5, 50))
    add_to_index([more], out)
    assert checked(out) == (35, 35, None)
    changed = rows(30)
    changed[3]["text"] = "Another one."
    write_rows(tmp_path / "docs" / "a.jsonl", changed[:29], ns=10**18 + 1)
    update_index(out)
    remove_from_index(out, ids=["p7", "p51"])
    assert checked(out) == (32, 32, None)
    compact_index(out)
    assert checked(out) == (32, 32, None)
    build_index(more, tmp_path / "plain", settings=Settings(links=False))
    assert checked(tmp_path / "plain") == (5, None, None)


def test_normalised_content_is_no_damage(tmp_path: Path) -> None:
    passages = [
        Passage("a", DECOMPOSED, f"{DECOMPOSED} is a caf\u00e9."),
        Passage(f"{DECOMPOSED}#1", DECOMPOSED, DECOMPOSED, 0.0, DECOMPOSED, 3, 3 + len(DECOMPOSED)),
        Passage("b", "Half \ud800", "of \ud800 one", aliases=("A\ud800", DECOMPOSED), metadata=(("k", DECOMPOSED),)),
        Passage("c\ud800", "", "Nothing\0 else\r\n"),
    ]
    index_passages(passages, tmp_path / "idx")
    assert checked(tmp_path / "idx") == (4, 4, None)
    compact_index(tmp_path / "idx")
    assert checked(tmp_path / "idx") == (4, 4, None)


def test_vectors_are_counted(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_checksums(out)
    np = pytest.importorskip("numpy")
    pytest.importorskip("usearch")
    from hoptree.retrieval.vectors import VectorWriter

    index = Index(out)
    keys = [key for _, key, _ in index.texts.scan()]
    writer = VectorWriter.create(index.vectors, 4)
    writer.add(keys, np.eye(30, 4, dtype=np.float32))
    writer.save()
    manifest = json.loads((out / "hoptree-index.json").read_text(encoding="utf-8"))
    manifest["settings"]["encoder"] = "static/x y"
    (out / "hoptree-index.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert checked(out) == (30, 30, 30)
    writer.remove(keys[:2])
    writer.add([5], np.eye(1, 4, dtype=np.float32))
    writer.save()
    check_parts(Index(out))
    with pytest.raises(CorpusError, match="29 for 30 passages, of which 2 have none") as failure:
        check_all(Index(out))
    assert "hoptree index encode --encoder 'static/x y'" in failure.value.remedy


def test_one_byte_anywhere_in_a_file_is_found(out: Path) -> None:
    """Except for the writer's version in a file's footer, which has no effect."""
    index = Index(out)
    files = [path for folder in ("text", "links") for path in summed_files(index.generation / folder)]
    assert {path.suffix for path in files} >= {".fast", ".fieldnorm", ".idx", ".store", ".term"}
    for path in files:
        intact = path.read_bytes()
        content = len(intact) - 8 - int.from_bytes(intact[-8:-4], "little")
        for place in {0, content // 3, content // 2, len(intact) - 12}:
            replace_file(path, intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
            with pytest.raises(CorpusError, match="damaged") as failure:
                check_all(Index(out))
            assert "hoptree index" in failure.value.remedy
        for cut in (b"", intact[:4], intact[: len(intact) // 2]):
            replace_file(path, cut)
            with pytest.raises(CorpusError):
                check_all(Index(out))
        replace_file(path, intact)
    assert checked(out) == (30, 30, None)


@pytest.mark.parametrize(
    "harm",
    [
        "update passages set content = zeroblob(16) where key = (select min(key) from passages)",
        "update passages set number = number + 100 where number = 3",
        "delete from passages where number = 3",
        "update facts set value = 7 where name = 'next'",
        "update facts set value = 'x' where name = 'passages'",
        "update facts set value = 'abc' where name = 'next'",
        "alter table passages rename column content to contents",
        "drop table names",
        "update passages set file = file + 64",
        "update passages set file = null where number = 3",
        "delete from files",
        "delete from facts where name like 'prefix %'; update files set source = 'elsewhere'",
    ],
)
def test_a_ledger_that_does_not_match_the_passages_is_found(out: Path, harm: str) -> None:
    with sqlite3.connect(Index(out).generation / "ledger.sqlite") as ledger:
        ledger.executescript(harm)
    ledger.close()
    with pytest.raises(CorpusError, match=r"damaged|cannot be opened") as failure:
        check_all(Index(out))
    assert failure.value.exit_code == 2


def test_a_ledger_whose_schema_is_no_text_is_found(out: Path) -> None:
    path = Index(out).generation / "ledger.sqlite"
    intact = path.read_bytes()
    place = intact.index(b"tablepassagespassages") + len("table")
    path.write_bytes(intact[:place] + b"\x9d" + intact[place + 1 :])
    for look in (check_parts, check_all, lambda index: update_index(index.folder)):
        with pytest.raises(CorpusError, match="ledger"):
            look(Index(out))


@pytest.mark.parametrize("part", ["text", "links"])
def test_a_missing_file_is_found_before_any_change(out: Path, tmp_path: Path, part: str) -> None:
    remove_from_index(out, ids=["p7"])
    more = write_rows(tmp_path / "more.jsonl", rows(5, 50))
    before = Index(out).manifest
    files = summed_files(Index(out).generation / part)
    assert {path.suffix for path in files} == {".del", ".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term"}
    for path in files:
        intact = path.read_bytes()
        path.unlink()
        for look in (check_parts, check_all, lambda index: add_to_index([more], index.folder)):
            with pytest.raises(CorpusError, match="damaged"):
                look(Index(out))
        path.write_bytes(intact)
    assert Index(out).manifest == before and checked(out) == (29, 29, None)


def test_an_index_without_its_links_takes_no_passages_until_compacted(out: Path, tmp_path: Path) -> None:
    shutil.rmtree(Index(out).links)
    with pytest.raises(CorpusError, match="links") as failure:
        add_to_index([write_rows(tmp_path / "more.jsonl", rows(5, 50))], out)
    assert "compact" in failure.value.remedy
    compact_index(out)
    assert checked(out) == (30, 30, None)


def test_damage_in_the_middle_of_a_ledger_is_found(out: Path) -> None:
    path = Index(out).generation / "ledger.sqlite"
    intact = path.read_bytes()
    path.write_bytes(intact[:8192] + b"\xff" * 64 + intact[8256:])
    with pytest.raises(CorpusError, match="ledger"):
        check_all(Index(out))


def test_links_of_another_index_are_found(out: Path, tmp_path: Path) -> None:
    build_index(write_rows(tmp_path / "other.jsonl", rows(30, 20)), tmp_path / "other")
    shutil.rmtree(Index(out).links)
    shutil.copytree(Index(tmp_path / "other").links, Index(out).links)
    for look in (check_parts, check_all):
        with pytest.raises(CorpusError, match=r"The links of the index .* are damaged") as failure:
            look(Index(out))
        assert "compact" in failure.value.remedy


@pytest.mark.parametrize(
    ("error", "remedy"),
    [(OSError(5, "Input/output error"), "Build"), (PermissionError(13, "Not for you"), "permission")],
)
def test_a_file_that_cannot_be_read_is_named(
    out: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, remedy: str
) -> None:
    opened: Callable[..., object] = Path.open

    def refuse(path: Path, *args: object, **kwargs: object) -> object:
        if path.suffix == ".idx":
            raise error
        return opened(path, *args, **kwargs)

    index = Index(out)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CorpusError, match=rf"\.idx cannot be read: {error.strerror}") as failure:
        check_all(index)
    assert remedy in failure.value.remedy


def test_an_unreadable_ledger_needs_no_rebuild(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: Callable[..., object] = Path.open

    def refuse(path: Path, *args: object, **kwargs: object) -> object:
        if path.suffix == ".sqlite":
            raise PermissionError(13, "Not for you")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CorpusError, match="cannot be read") as failure:
        check_parts(Index(out))
    assert "permission to read" in failure.value.remedy


def without_checksums(out: Path) -> None:
    """Turn an index into one of an earlier version, without checksums."""
    manifest = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    del manifest["checksums"], manifest["sum"]
    (out / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def test_an_index_of_an_earlier_version_opens_and_gets_checksums_with_the_next_change(out: Path) -> None:
    without_checksums(out)
    assert checked(out) == (30, 30, None) and not Index(out).manifest.checksums
    remove_from_index(out, ids=["p1"])
    assert checked(out) == (29, 29, None) and Index(out).manifest.checksums


def test_damage_in_a_big_index_ends_the_next_search(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files too big to be checked before the first search are checked in the background."""
    monkeypatch.setattr(folder, "_CHECKED_AT_ONCE_BYTES", 0)
    begun: list[Callable[[], None]] = []

    class Later:
        def __init__(self, target: Callable[..., None], args: tuple[object, ...], daemon: bool) -> None:
            begun.append(lambda: target(*args))

        def start(self) -> None:
            pass

    monkeypatch.setattr(folder, "Thread", Later)
    path = next(path for path in summed_files(Index(out).generation / "text") if path.suffix == ".fieldnorm")
    intact = path.read_bytes()
    replace_file(path, intact[:3] + bytes([intact[3] ^ 1]) + intact[4:])
    index = Index(out)
    index.texts.search("passage", 3)
    begun[-1]()
    for look in (lambda: index.texts.search("passage", 3), lambda: index.texts.fetch([1])):
        with pytest.raises(CorpusError, match=f"{path.name} is not what was written"):
            look()


def test_a_change_does_not_copy_damage(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_CHECKED_AT_ONCE_BYTES", 0)
    path = next(path for path in summed_files(Index(out).generation / "text") if path.suffix == ".fieldnorm")
    intact = path.read_bytes()
    replace_file(path, intact[:3] + bytes([intact[3] ^ 1]) + intact[4:])
    with pytest.raises(CorpusError, match="fieldnorm is not what was written"):
        remove_from_index(out, ids=["p1"])


def test_an_index_changed_during_the_check_is_not_called_damaged(out: Path) -> None:
    index = Index(out)
    remove_from_index(out, ids=["p1"])
    with pytest.raises(IndexUnavailable, match="was changed"):
        check_all(index)
    assert checked(out) == (29, 29, None)


def test_progress_is_reported(out: Path) -> None:
    heard: list[Progress] = []
    result = check_all(Index(out), on_progress=heard.append)
    assert {progress.stage for progress in heard} == {"checking files", "comparing"}
    assert all(0 <= progress.done <= progress.total for progress in heard)
    assert isinstance(result, Checked) and heard[-1].done == 30


def test_the_check_reads_every_file(out: Path, tmp_path: Path) -> None:
    done = hoptree(tmp_path, "index", "check", "--out", "idx")
    assert done.returncode == 0, done.stderr
    assert "sound: 30 passages by their digests" in done.stdout and "the links of 30 passages" in done.stdout
    checked = json.loads(hoptree(tmp_path, "index", "check", "--out", "idx", "--json").stdout)["checked"]
    assert checked["passages"] == 30
    assert json.loads(hoptree(tmp_path, "index", "info", "--out", "idx", "--json").stdout)["passages"] == 30
    path = next(path for path in summed_files(Index(out).generation / "text") if path.suffix == ".idx")
    intact = path.read_bytes()
    replace_file(path, intact[:20] + b"\xff" + intact[21:])
    for command in ("info", "check"):
        done = hoptree(tmp_path, "index", command, "--out", "idx")
        assert done.returncode == 2 and done.stdout == ""
        assert path.name in done.stderr and "is not what was written" in done.stderr
        assert "Traceback" not in done.stderr and "Build it again" in done.stderr
