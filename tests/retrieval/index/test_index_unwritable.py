"""What keeps an index from being written or read: full disks, rights, files of another kind."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.retrieval.index.numbered_people import PASSAGES
from tests.small_indexes import rows, write_rows

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.values import Passage
from hoptree.retrieval.index.links import LinkWriter
from hoptree.retrieval.indexing import index_passages, update_index

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

    monkeypatch.setattr("hoptree.core.files.VersionedFolder.write_manifest", refuse)
    with pytest.raises(CorpusError, match=str(error.strerror)) as failure:
        update_index(out)
    assert failure.value.exit_code == code and remedy in failure.value.remedy
    assert ("Free some space" in failure.value.remedy) == (code == 1)


@pytest.mark.parametrize(
    ("said", "code", "remedy"),
    [
        ("IoError { kind: PermissionDenied, message: ... }", 2, "permission"),
        ("IoError { kind: StorageFull, message: No space left on device }", 1, "Free some space"),
        ("An index writer was killed.", 1, "Free some space"),
    ],
)
def test_tantivy_s_errors_when_writing_are_told_apart(tmp_path: Path, said: str, code: int, remedy: str) -> None:
    writer = LinkWriter(tmp_path / "links", memory=20_000_000)
    with pytest.raises(CorpusError) as failure, writer._writing:
        raise ValueError(said)
    assert failure.value.exit_code == code and remedy in failure.value.remedy
    assert "killed" not in str(failure.value)


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
