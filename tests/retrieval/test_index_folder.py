"""An index folder: one writer, changes in one step, kill -9 at any point, damage of every kind."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_indexes import found, graph, hoptree, put_in_place, rows, write_rows

from hoptree.errors import CorpusError, IndexUnavailable
from hoptree.indexing import add_to_index, build_index, compact_index, index_passages, update_index
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Change, Index
from hoptree.retrieval.index.lock import WriteLock
from hoptree.retrieval.index.manifest import MANIFEST, Settings, read_manifest
from hoptree.retrieval.index.tantivy_folder import writing
from hoptree.retrieval.linked import Linked
from hoptree.values import Passage

ROOT = Path(__file__).resolve().parents[2]
PASSAGES = [Passage(f"p{n}", f"Person Number{n}", f"The friend of Person Number{n + 1}.") for n in range(20)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    build_index(write_rows(tmp_path / "docs" / "a.jsonl", rows(20)), tmp_path / "idx")
    return tmp_path / "idx"


# One writer


HOLD = """
import sys, time
from pathlib import Path
from hoptree.retrieval.index.folder import Change
from hoptree.retrieval.index.manifest import Settings
with Change(Path(sys.argv[1]), Settings(), intent={"what": "hold"}):
    print("held", flush=True)
    time.sleep(100)
"""


def test_a_second_writer_is_refused_until_the_first_is_gone(out: Path, tmp_path: Path) -> None:
    before = read_manifest(out)
    more = write_rows(tmp_path / "more.jsonl", rows(3, 50))
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        refused = hoptree(tmp_path, "index", "add", "more.jsonl", "--out", "idx")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Another process is writing" in refused.stderr and "Traceback" not in refused.stderr
        assert list(out.glob("*.part")), "what the first one does is left alone"
        assert found(out, "number3")
    finally:
        holder.kill()
        holder.wait()
    assert read_manifest(out) == before
    assert add_to_index([more], out).added == 3
    assert not list(out.glob("*.part"))


def test_a_lock_is_given_back(tmp_path: Path) -> None:
    first, second = WriteLock(tmp_path), WriteLock(tmp_path)
    first.take()
    with pytest.raises(IndexUnavailable, match="Another process"):
        second.take()
    first.give_back()
    first.give_back()
    second.take()
    second.give_back()


# Kill -9

DRIVER = """
import sys
from pathlib import Path
import hoptree.indexing as indexing
import hoptree.indexing.run as run
run._SAVE_EVERY, run._AT_ONCE = 300, 150
what, source, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
print("begun", flush=True)
if what == "build":
    indexing.build_index(source, out)
elif what == "add":
    indexing.add_to_index([source], out)
else:
    indexing.update_index(out)
print("done", flush=True)
"""
QUERIES = ("friend of Person Number77", "town3 number3700", "lives in town5")


def run_driver(*arguments: object, kill_after: float | None = None) -> float | None:
    """Run to the end, or kill it so many seconds after it began; the seconds to its end, where it came to it."""
    command = [sys.executable, "-c", DRIVER, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    began = time.monotonic()
    if kill_after is not None:
        time.sleep(kill_after)
        process.kill()
    rest = process.stdout.read()
    process.wait()
    return time.monotonic() - began if "done" in rest else None


def searched(folder: Path) -> list[object]:
    index = Index(folder)
    return [retriever.search_now(query, 10) for query in QUERIES for retriever in (BM25(index), Linked(index))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path, float]:
    """Two files, the index of both, built at once, and the seconds that took."""
    home = tmp_path_factory.mktemp("kill")
    write_rows(home / "docs" / "a.jsonl", rows(2_000), ns=10**18)
    write_rows(home / "docs" / "b.jsonl", rows(2_000, 2_000), ns=10**18)
    seconds = run_driver("build", home / "docs", home / "whole")
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
        if run_driver("build", docs, out, kill_after=rng.uniform(0.05, 0.6) * seconds):
            break
        killed += 1
        if read_manifest(out) == old:
            assert found(out, "number3", 1) in (["p3"], ["p2"])
        else:  # it came so far as to take the place of the old one
            assert read_manifest(out).digest == read_manifest(whole).digest
    assert killed
    assert run_driver("build", docs, out)
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
        if run_driver(what, tmp_path / "b.jsonl", out, kill_after=rng.uniform(0.05, 0.3) * seconds):
            break
        killed += 1
        assert read_manifest(out) == half or read_manifest(out).digest == read_manifest(whole).digest
        assert found(out, "number77", 1)
    assert killed
    assert run_driver(what, tmp_path / "b.jsonl", out)
    made, meant = read_manifest(out), read_manifest(whole)
    assert (made.passages, made.digest) == (meant.passages, meant.digest)
    compact_index(out)
    assert_same(out, whole)


def cut_off(out: Path, *, sources: str = "x") -> None:
    """What a killed addition leaves: a part with some passages in it, made safe."""
    script = f"""
import os
from pathlib import Path
import hoptree.indexing as indexing
import hoptree.indexing.run as run
run._SAVE_EVERY = run._AT_ONCE = 2
run.link_passages = lambda *args, **kwargs: os.kill(os.getpid(), 9)
indexing.add_to_index([Path({sources!r})], Path({str(out)!r}))
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9


def test_the_same_command_goes_on_and_another_one_does_not(out: Path, tmp_path: Path) -> None:
    digest = read_manifest(out).digest
    more = write_rows(tmp_path / "more.jsonl", rows(6, 50))
    cut_off(out, sources=str(more))
    assert list(out.glob("*.part"))
    outcome = update_index(out)
    assert not outcome.resumed and outcome.manifest.digest == digest
    assert found(out, "number52") == []
    cut_off(out, sources=str(more))
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


def test_files_of_others_in_an_index_folder_are_left_alone(out: Path) -> None:
    (out / "film.part").write_text("mine", encoding="utf-8")
    (out / "notes").mkdir()
    update_index(out)
    assert (out / "film.part").read_text() == "mine" and (out / "notes").is_dir()


def test_a_change_before_its_intent_is_written_is_not_taken_up(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.index.folder._write_json", fail)
        with pytest.raises(CorpusError, match="No space"):
            update_index(out)
    assert not update_index(out).resumed


def fail(*args: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_index_as_it_was(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_manifest(out)
    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.index.folder.write_manifest", fail)
        with pytest.raises(CorpusError, match="No space left on device") as failure:
            add_to_index([write_rows(tmp_path / "more.jsonl", rows(3, 50))], out)
    assert "Free some space" in failure.value.remedy and failure.value.exit_code == 1
    assert read_manifest(out) == before and found(out, "number3")
    assert add_to_index([tmp_path / "more.jsonl"], out).manifest.passages == 23


FULL = """
set -e
mkdir {home}/full
mount -t tmpfs -o size={size} tmpfs {home}/full
cd {home}
{python} -m hoptree index docs --out full/idx && exit 9 || [ $? = 1 ]
"""


@pytest.mark.parametrize("size", ["8k", "80k", "300k"])
def test_a_disk_that_is_full_is_a_matter_of_trying_again_later(out: Path, tmp_path: Path, size: str) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    probe = f"mount -t tmpfs -o size=200k tmpfs {tmp_path}"
    if subprocess.run(["unshare", "-m", "sh", "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("no disk can be made here")
    write_rows(tmp_path / "docs" / "b.jsonl", rows(5000, 100))
    script = FULL.format(home=tmp_path, size=size, python=sys.executable)
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Free some space" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (OSError(28, "No space left on device"), 1, "Free some space"),
        (OSError(122, "Disk quota exceeded"), 1, "Free some space"),
        (PermissionError(13, "Permission denied"), 2, "Allow writing"),
        (OSError(30, "Read-only file system"), 2, "Allow writing"),
        (NotADirectoryError(20, "Not a directory"), 2, "another --out"),
    ],
)
def test_what_keeps_an_index_from_being_written_has_its_own_remedy(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, code: int, remedy: str
) -> None:
    def refuse(*args: object) -> None:
        raise error

    monkeypatch.setattr("hoptree.retrieval.index.folder.write_manifest", refuse)
    with pytest.raises(CorpusError, match=str(error.strerror)) as failure:
        update_index(out)
    assert failure.value.exit_code == code and remedy in failure.value.remedy
    assert ("Free some space" in failure.value.remedy) == (code == 1)


@pytest.mark.parametrize(
    ("said", "code", "remedy"),
    [
        ("IoError { kind: PermissionDenied, message: ... }", 2, "allow"),
        ("IoError { kind: StorageFull, message: No space left on device }", 1, "Free some space"),
        ("An index writer was killed.", 1, "Free some space"),
    ],
)
def test_tantivy_s_errors_when_writing_are_told_apart(said: str, code: int, remedy: str) -> None:
    with pytest.raises(CorpusError) as failure, writing("The index cannot be written"):
        raise ValueError(said)
    assert failure.value.exit_code == code and remedy in failure.value.remedy


def reading(error: OSError) -> Iterator[Passage]:
    yield PASSAGES[0]
    raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file or directory", "/nosuch"), "/nosuch cannot be read: No such file"),
        (gzip.BadGzipFile("Not a gzipped file"), "cannot be read: Not a gzipped file"),
    ],
)
def test_what_cannot_be_read_is_not_said_to_be_unwritable(tmp_path: Path, error: OSError, said: str) -> None:
    with pytest.raises(CorpusError, match=said) as failure:
        index_passages(reading(error), tmp_path / "idx")
    assert "written" not in str(failure.value) and failure.value.exit_code == 2
    assert not (tmp_path / "idx").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left", "/tmp/x"), OSError(5, "Input/output error")])
def test_what_may_have_come_up_in_writing_is_said_to(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(IndexUnavailable, match="cannot be written"):
        index_passages(reading(error), tmp_path / "idx")


def test_a_file_of_the_index_itself_is_not_taken_for_a_document(tmp_path: Path) -> None:
    error = PermissionError(13, "Permission denied", str(tmp_path / "idx" / "000001.part" / "x"))
    with pytest.raises(CorpusError, match="cannot be written"):
        index_passages(reading(error), tmp_path / "idx")


# Damage


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "[]", "{}", "null", '{"format": 1}', '{"format": 3}', '{"format": 2}', "[" * 5000, "\udc80"],
)
def test_a_damaged_manifest_is_one_sentence(out: Path, tmp_path: Path, text: str) -> None:
    (out / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    for act in (Index, update_index, compact_index):
        with pytest.raises(CorpusError) as failure:
            act(out)
        assert "index" in failure.value.remedy


@pytest.mark.parametrize("field", ["generation", "passages", "digest", "settings", "sources", "reading", "bytes"])
@pytest.mark.parametrize("value", [None, 99, "x", [], {}])
def test_a_manifest_with_a_field_of_another_kind_never_gives_a_traceback(out: Path, field: str, value: object) -> None:
    data = json.loads((out / MANIFEST).read_text())
    (out / MANIFEST).write_text(json.dumps(data | {field: value}))
    try:
        BM25(Index(out)).search_now("friend", 3)
        update_index(out)
    except CorpusError:
        pass


def test_a_missing_generation_is_damage(out: Path) -> None:
    shutil.rmtree(out / "000001")
    for act in (Index, update_index, compact_index):
        with pytest.raises(CorpusError, match="damaged"):
            act(out)


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "cut", "another"])
def test_a_damaged_ledger_is_found_before_anything_is_changed(out: Path, tmp_path: Path, damage: str) -> None:
    ledger = out / "000001" / "ledger.sqlite"
    whole = ledger.read_bytes()
    ledger.unlink()
    if damage == "another":
        index_passages(PASSAGES[:3], tmp_path / "other")
        shutil.copy(tmp_path / "other" / "000001" / "ledger.sqlite", ledger)
    elif damage != "missing":
        ledger.write_bytes({"empty": b"", "garbage": b"x" * 5000, "cut": whole[: len(whole) // 2]}[damage])
    before = read_manifest(out)
    more = write_rows(tmp_path / "more.jsonl", rows(3, 50))
    for _ in range(2):
        with pytest.raises(CorpusError):
            add_to_index([more], out)
        with pytest.raises(CorpusError):
            update_index(out)
        with pytest.raises(CorpusError):
            compact_index(out)
    assert read_manifest(out) == before
    assert found(out, "number3"), "the texts are whole"
    assert build_index(tmp_path / "docs", out).manifest.passages == 20


@pytest.mark.parametrize("name", ["meta.json", "*.store", "*.term", "*.idx", "*.fast", "*.fieldnorm"])
def test_a_damaged_text_index_is_one_sentence(out: Path, tmp_path: Path, name: str) -> None:
    for path in (out / "000001" / "text").glob(name):
        put_in_place(path, path.read_bytes()[: path.stat().st_size // 2])
    done = hoptree(tmp_path, "search", "friend", "--corpus", "idx")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "damaged" in done.stderr
    assert "hoptree index" in done.stderr


def test_texts_that_are_garbled_are_found_by_info(out: Path, tmp_path: Path) -> None:
    """The place where the texts begin is looked at in every segment; their end is what an index is opened by."""
    stores = sorted((out / "000001" / "text").glob("*.store"))
    for path in stores:
        whole = path.read_bytes()
        put_in_place(path, bytes(64) + whole[64:])
        done = hoptree(tmp_path, "index", "info", "--out", "idx")
        assert done.returncode == 2 and "damaged" in done.stderr and "Traceback" not in done.stderr, done.stderr
        put_in_place(path, whole)
    assert stores and hoptree(tmp_path, "index", "info", "--out", "idx").returncode == 0


def test_one_byte_anywhere_in_the_texts_is_one_sentence_at_most(tmp_path: Path) -> None:
    index_passages([PASSAGES[0], Passage("b#1", "Title", "A friend.", document="b", metadata=(("k", "v"),))], tmp_path)
    told = 0
    for path in sorted(path for path in (tmp_path / "000001" / "text").iterdir() if path.suffix in (".store", ".term")):
        whole = path.read_bytes()
        for place in range(len(whole)):
            put_in_place(path, whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
            try:
                texts = Index(tmp_path).texts
                texts.check()
                texts.rarity(["friend"]), texts.search("friend", 5), list(texts.scan())
                list(texts.containing("friend", before=9, most=5))
            except CorpusError:
                told += 1
        put_in_place(path, whole)
    assert told


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_links_are_one_sentence(out: Path, damage: str) -> None:
    if damage == "missing":
        shutil.rmtree(out / "000001" / "links")
    else:
        (out / "000001" / "links" / "meta.json").write_text("{")
    with pytest.raises(CorpusError, match="links"):
        Linked(Index(out))
    assert found(out, "number3")
    compact_index(out)
    assert Linked(Index(out)).search_now("number3", 1)


# Where it lies


def test_a_folder_with_a_strange_name_is_an_index_like_any_other(tmp_path: Path) -> None:
    out = tmp_path / "a b?c#d%41é"
    build_index(write_rows(tmp_path / "x y.jsonl", rows(3)), out)
    assert update_index(out).unchanged == 0
    assert found(out, "number2", 1)


READ_ONLY = """
set -e
mount --bind {home} {home}
mount -o remount,ro,bind {home}
! touch {home}/x 2>/dev/null
cd {root}
{python} -c '{script}' {home}
"""
READ_AND_WRITE = """
import json, os, sys
from pathlib import Path
from tests.command_line import call
home = sys.argv[1]
commands = [
    ["search", "number3", "--corpus", f"{home}/idx", "--json"],
    ["search", "number3", "--corpus", f"{home}/idx", "--retriever", "linked", "--json"],
    ["index", "info", "--out", f"{home}/idx"],
    ["index", "update", "--out", f"{home}/idx"],
    ["index", "compact", "--out", f"{home}/idx"],
    ["index", "add", f"{home}/docs/a.jsonl", "--out", f"{home}/idx"],
    ["index", "build", f"{home}/docs", "--out", f"{home}/idx"],
]
done = [call(*command, folder=Path("/"), environment=dict(os.environ)) for command in commands]
print(json.dumps([(one.returncode, one.stdout, one.stderr) for one in done]))
"""


def test_a_read_only_disk_can_be_searched_and_not_written(out: Path, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    probe = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"
    if subprocess.run(["unshare", "-m", "sh", "-c", probe], capture_output=True, check=False).returncode:
        pytest.skip("no disk can be made read-only here")
    before = read_manifest(out)
    script = READ_ONLY.format(home=tmp_path, root=ROOT, python=sys.executable, script=READ_AND_WRITE)
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    told = json.loads(done.stdout)
    assert [code for code, _, _ in told] == [0, 0, 0, 2, 2, 2, 2], told
    assert [json.loads(out)[0]["id"] in ("p2", "p3") for _, out, _ in told[:2]] == [True, True]
    assert ["Read-only file system" in err for _, _, err in told] == [False] * 3 + [True] * 4
    assert "Traceback" not in f"{done.stderr}{told}"
    assert read_manifest(out) == before


def test_links_are_the_same_after_a_copy_of_the_folder(out: Path, tmp_path: Path) -> None:
    shutil.copytree(out, tmp_path / "copy")
    assert graph(tmp_path / "copy") == graph(out)
    assert (tmp_path / "copy" / "000001" / "ledger.sqlite").stat().st_nlink == 1


def test_a_finished_change_cannot_be_mistaken_for_one_that_is_not(out: Path) -> None:
    with pytest.raises(CorpusError, match="is no index"), Change(out / "000001", Settings(), intent={}):
        pass


def test_folders_of_others_are_never_taken_away(tmp_path: Path) -> None:
    for name in ("20240115", "000003", "000004.part"):
        (tmp_path / "backups" / name).mkdir(parents=True)
        (tmp_path / "backups" / name / "photo.jpg").write_bytes(b"x")
    with pytest.raises(CorpusError, match="is no index"):
        index_passages(PASSAGES, tmp_path / "backups")
    assert len(list((tmp_path / "backups").rglob("photo.jpg"))) == 3
    index_passages(PASSAGES, tmp_path / "idx")
    (tmp_path / "idx" / "123456").mkdir()
    (tmp_path / "idx" / "123456" / "photo.jpg").write_bytes(b"x")
    index_passages(PASSAGES[:5], tmp_path / "idx")
    assert (tmp_path / "idx" / "123456" / "photo.jpg").exists()


def test_a_run_killed_just_before_the_manifest_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_rows(tmp_path / "docs" / "a.jsonl", rows(20))

    def die(folder: Path, manifest: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hoptree.retrieval.index.folder.write_manifest", die)
        with pytest.raises(KeyboardInterrupt):
            build_index(source, tmp_path / "idx")
    again = build_index(source, tmp_path / "idx")
    assert (again.resumed, again.added, again.manifest.passages) == (True, 0, 20)
    build_index(source, tmp_path / "fresh")
    assert graph(tmp_path / "idx") == graph(tmp_path / "fresh") and found(tmp_path / "idx", "number3")


@pytest.mark.parametrize("kind", [BM25, Linked])
def test_a_lock_that_cannot_be_opened_does_not_keep_an_index_from_being_read(
    out: Path, kind: type[BM25] | type[Linked]
) -> None:
    """As on a read-only disk to which an index was copied that had been searched before."""
    for part in ("text", "links"):
        lock = out / "000001" / part / ".tantivy-meta.lock"
        lock.unlink(missing_ok=True)
        lock.mkdir()
    assert [passage.id for passage in kind(Index(out)).search_now("number3", 5)]


def test_an_index_that_lost_its_manifest_is_told_from_a_folder_of_documents(out: Path, tmp_path: Path) -> None:
    (out / MANIFEST).unlink()
    with pytest.raises(CorpusError, match=f"lost its file {MANIFEST}") as failure:
        Index(out)
    assert failure.value.remedy == f"Build it again: hoptree index … --out {out}"
    assert build_index(tmp_path / "docs", out).manifest.passages == 20
