"""An index folder: one writer at a time, what lies beside it, and where it lies."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.retrieval.index.numbered_people import PASSAGES
from tests.small_indexes import hoptree, mention_pairs, rows, search_ids, write_rows

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import Checksums
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import MANIFEST, Index, read_manifest
from hoptree.retrieval.indexing import add_to_index, build_index, index_passages, update_index
from hoptree.retrieval.linked import Linked
from hoptree.retrieval.retriever import open_retriever

ROOT = Path(__file__).resolve().parents[3]

HOLD = """
import sys, time
from pathlib import Path
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.folder import Settings
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
        assert search_ids(out, "number3")
    finally:
        holder.kill()
        holder.wait()
    assert read_manifest(out) == before
    assert add_to_index([more], out).added == 3
    assert not list(out.glob("*.part"))


def test_files_of_others_in_an_index_folder_are_left_alone(out: Path) -> None:
    (out / "film.part").write_text("mine", encoding="utf-8")
    (out / "notes").mkdir()
    update_index(out)
    assert (out / "film.part").read_text() == "mine" and (out / "notes").is_dir()


def test_a_folder_with_a_strange_name_is_an_index_like_any_other(tmp_path: Path) -> None:
    out = tmp_path / "a b?c#d%41é"
    build_index(write_rows(tmp_path / "x y.jsonl", rows(3)), out)
    assert update_index(out).unchanged == 0
    assert search_ids(out, "number2", 1)


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
    assert mention_pairs(tmp_path / "copy") == mention_pairs(out)
    assert (tmp_path / "copy" / "000001" / "ledger.sqlite").stat().st_nlink == 1


def test_folders_of_others_are_never_taken_away(tmp_path: Path) -> None:
    for name in ("20240115", "000003", "000004.part"):
        (tmp_path / "backups" / name).mkdir(parents=True)
        (tmp_path / "backups" / name / "photo.jpg").write_bytes(b"x")
    with pytest.raises(CorpusError, match="is not an index"):
        index_passages(PASSAGES, tmp_path / "backups")
    assert len(list((tmp_path / "backups").rglob("photo.jpg"))) == 3
    index_passages(PASSAGES, tmp_path / "idx")
    (tmp_path / "idx" / "123456").mkdir()
    (tmp_path / "idx" / "123456" / "photo.jpg").write_bytes(b"x")
    index_passages(PASSAGES[:5], tmp_path / "idx")
    assert (tmp_path / "idx" / "123456" / "photo.jpg").exists()


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


def test_parts_that_a_writer_has_swept_are_not_called_damaged(out: Path, tmp_path: Path) -> None:
    index = Index(out)
    add_to_index([write_rows(tmp_path / "more.jsonl", rows(3, 50))], out)
    for opens in (index.open_links, index.ledger):
        with pytest.raises(IndexUnavailable, match="was changed while"):
            opens()


@pytest.mark.parametrize("part", ["text/", "links/"])
def test_an_index_that_is_swept_while_it_is_opened_is_opened_anew(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    check_file, swept = Checksums.check_file, list[str]()

    def sweep_before(self: Checksums, name: str) -> None:
        if name.startswith(part) and not swept:
            swept.append(name)
            add_to_index([write_rows(tmp_path / "more.jsonl", rows(3, 50))], out)
        check_file(self, name)

    monkeypatch.setattr(Checksums, "check_file", sweep_before)
    assert open_retriever(out, "linked").identity == Linked(Index(out)).identity and swept
