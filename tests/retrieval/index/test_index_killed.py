"""Kill -9 at any moment: an index is the old one or the new one, and the same command goes on."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest
from tests.forking import PROCESSES
from tests.retrieval.index.changed_apart import change, die_while_linking
from tests.retrieval.index.numbered_people import PASSAGES
from tests.small_indexes import mention_pairs, rows, search_ids, write_rows

from hoptree.core.errors import CorpusError
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.folder import Index, Settings, read_manifest
from hoptree.retrieval.index.links import Links, LinkWriter
from hoptree.retrieval.indexing import add_to_index, build_index, compact_index, index_passages, update_index
from hoptree.retrieval.linked import Linked

QUERIES = ("friend of Person Number77", "town3 number1700", "lives in town5")


def run_change(what: str, source: Path, out: Path, kill_after: float = 0.0) -> float | None:
    """Run to the end, or kill it after so many seconds of work; the seconds to its end, where it came to it.

    They are those of its processor time: a test that looked at the clock would now and then come too late.
    """
    hearing, telling = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=change, args=(what, source, out, telling, kill_after))
    process.start()
    telling.close()
    try:
        took: float = hearing.recv()
    except EOFError:
        return None
    finally:
        process.join()
        assert process.exitcode in (0, -signal.SIGPROF)
    return took


def searched(folder: Path) -> list[object]:
    index = Index(folder)
    return [retriever.search_now(query, 10) for query in QUERIES for retriever in (BM25(index), Linked(index))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path, float]:
    """Two files, the index of both, built at once, and the seconds that took."""
    home = tmp_path_factory.mktemp("kill")
    write_rows(home / "docs" / "a.jsonl", rows(1_000), ns=10**18)
    write_rows(home / "docs" / "b.jsonl", rows(1_000, 1_000), ns=10**18)
    seconds = run_change("build", home / "docs", home / "whole")
    assert seconds
    return home / "docs", home / "whole", home, seconds


@pytest.mark.timeout(300)
def test_a_build_that_is_killed_five_times_loses_nothing(
    undisturbed: tuple[Path, Path, Path, float], tmp_path: Path
) -> None:
    docs, whole, _, seconds = undisturbed
    out, rng = tmp_path / "idx", random.Random(5)
    index_passages(PASSAGES, out)
    old = read_manifest(out)
    killed = 0
    for _ in range(5):
        if run_change("build", docs, out, kill_after=rng.uniform(0.05, 0.6) * seconds):
            break
        killed += 1
        if read_manifest(out) == old:
            assert search_ids(out, "number3", 1) in (["p3"], ["p2"])
        else:  # it came so far as to take the place of the old one
            assert read_manifest(out).digest == read_manifest(whole).digest
    assert killed
    assert run_change("build", docs, out)
    assert_same(out, whole)


def assert_same(out: Path, whole: Path) -> None:
    made, meant = read_manifest(out), read_manifest(whole)
    assert (made.passages, made.digest) == (meant.passages, meant.digest)
    numbers = [passage.id for _, _, passage in Index(out).texts.scan()]
    assert len(numbers) == len(set(numbers)) == meant.passages
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == [f"{made.generation:06d}"]
    ids = [[passage.id for passage in hits] for hits in searched(out)]  # type: ignore[attr-defined]
    assert ids == [[passage.id for passage in hits] for hits in searched(whole)]  # type: ignore[attr-defined]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", ["add", "update"])
def test_a_change_that_is_killed_loses_nothing(
    undisturbed: tuple[Path, Path, Path, float], tmp_path: Path, what: str
) -> None:
    docs, whole, _, seconds = undisturbed
    shutil.copytree(docs, tmp_path / "docs")
    (tmp_path / "docs" / "b.jsonl").rename(tmp_path / "b.jsonl")
    out, rng = tmp_path / "idx", random.Random(what)
    build_index(tmp_path / "docs", out)
    half = read_manifest(out)
    if what == "update":
        (tmp_path / "b.jsonl").rename(tmp_path / "docs" / "b.jsonl")
    killed = 0
    for _ in range(3):
        if run_change(what, tmp_path / "b.jsonl", out, kill_after=rng.uniform(0.05, 0.3) * seconds):
            break
        killed += 1
        assert read_manifest(out) == half or read_manifest(out).digest == read_manifest(whole).digest
        assert search_ids(out, "number77", 1)
    assert killed
    assert run_change(what, tmp_path / "b.jsonl", out)
    made, meant = read_manifest(out), read_manifest(whole)
    assert (made.passages, made.digest) == (meant.passages, meant.digest)
    compact_index(out)
    assert_same(out, whole)


def cut_off(out: Path, source: Path) -> None:
    """What a killed addition leaves: a part with some passages in it, made safe."""
    process = PROCESSES.Process(target=die_while_linking, args=(source, out))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_the_same_command_goes_on_and_another_one_does_not(out: Path, tmp_path: Path) -> None:
    digest = read_manifest(out).digest
    more = write_rows(tmp_path / "more.jsonl", rows(6, 50))
    cut_off(out, more)
    assert list(out.glob("*.part"))
    outcome = update_index(out)
    assert not outcome.resumed and outcome.manifest.digest == digest
    assert search_ids(out, "number52") == []
    cut_off(out, more)
    outcome = add_to_index([more], out)
    assert (outcome.resumed, outcome.added, outcome.manifest.passages) == (True, 6, 26)
    assert not list(out.glob("*.part"))


def test_a_generation_that_a_killed_run_left_is_cleared_away(out: Path, tmp_path: Path) -> None:
    shutil.copytree(out / "000001", out / "000000")
    shutil.copytree(out / "000001", out / "000002")
    add_to_index([write_rows(tmp_path / "more.jsonl", rows(3, 50))], out)
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["000002"]
    assert read_manifest(out).passages == 23


def test_a_run_killed_while_it_cleared_a_generation_away_leaves_what_the_next_one_clears(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting begins with everything a generation is not known by."""
    deleted = shutil.rmtree
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda path, **_: None if Path(path).name == "text" else deleted(path))
        add_to_index([write_rows(tmp_path / "more.jsonl", rows(3, 50))], out)
    assert [path.name for path in (out / "000001").iterdir()] == ["text"]
    add_to_index([write_rows(tmp_path / "yet.jsonl", rows(3, 60))], out)
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == ["000003"]


def test_a_change_before_its_intent_is_written_is_not_taken_up(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.index.change._write_json", fail)
        with pytest.raises(CorpusError, match="No space"):
            update_index(out)
    assert not update_index(out).resumed


def fail(*args: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_index_as_it_was(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_manifest(out)
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.core.files.VersionedFolder.write_manifest", fail)
        with pytest.raises(CorpusError, match="No space left on device") as failure:
            add_to_index([write_rows(tmp_path / "more.jsonl", rows(3, 50))], out)
    assert "Free some space" in failure.value.remedy and failure.value.exit_code == 1
    assert read_manifest(out) == before and search_ids(out, "number3")
    assert add_to_index([tmp_path / "more.jsonl"], out).manifest.passages == 23


def test_a_finished_change_cannot_be_mistaken_for_one_that_is_not(out: Path) -> None:
    with pytest.raises(CorpusError, match="is not an index"), Change(out / "000001", Settings(), intent={}):
        pass


def test_a_run_killed_just_before_the_manifest_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_rows(tmp_path / "docs" / "a.jsonl", rows(20))

    def die(folder: Path, manifest: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hoptree.core.files.VersionedFolder.write_manifest", die)
        with pytest.raises(KeyboardInterrupt):
            build_index(source, tmp_path / "idx")
    again = build_index(source, tmp_path / "idx")
    assert (again.resumed, again.added, again.manifest.passages) == (True, 0, 20)
    build_index(source, tmp_path / "fresh")
    assert mention_pairs(tmp_path / "idx") == mention_pairs(tmp_path / "fresh") and search_ids(
        tmp_path / "idx", "number3"
    )


def test_what_a_killed_commit_wrote_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "links"
    writer = LinkWriter(folder, memory=20_000_000)
    for key in range(50):
        writer.add(key, key, mentions=[f"name {key}"])
    writer.commit()
    writer.close()
    before = (folder / "meta.json").read_bytes()
    for _ in range(2):
        (folder / "meta.json").write_bytes(before)  # killed after the file of what is gone, before this one
        writer = LinkWriter(folder, memory=20_000_000)
        writer.remove([3, 4])
        writer.commit()
        writer.close()
    assert Links(folder).mentions(3) == () and Links(folder).mentions(5) == ("name 5",)
