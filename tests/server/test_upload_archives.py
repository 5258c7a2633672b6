"""Archives that are made to do harm, or are damaged: refused with what to do, in bounded time and memory."""

from __future__ import annotations

import gzip
import io
import random
import struct
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import create, passages
from tests.server.hostile import locked
from tests.server.running import limits, running, settings

from hoptree.server.error_responses import Refusal
from hoptree.server.indexing import _left_out
from hoptree.server.uploads import UploadFolder


def _take(folder: Path, name: str, content: bytes, **bounds: int) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    staging = UploadFolder(folder, limits(**bounds))
    staging.add(name, io.BytesIO(content))
    staging.check_filled()
    return list(staging.names)


def _zip(how: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.txt", content)
    return buffer.getvalue()


def _zip_without_flag(name: bytes) -> bytes:
    """An archive of one file with these bytes as its name."""
    placeholder, buffer = "x" * len(name), io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(placeholder, b"Text.")
    return buffer.getvalue().replace(placeholder.encode(), name)


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_cannot_be_unpacked_block_by_block_is_refused(tmp_path: Path, how: int) -> None:
    with pytest.raises(Refusal) as refused:
        _take(tmp_path / "up", "a.zip", _zip(how, a=b" " * 10**6))
    assert (refused.value.status, refused.value.kind) == (400, "BadArchive")
    assert refused.value.remedy == "Pack it with deflate, or upload the files themselves."


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_can_be_is_taken(tmp_path: Path, how: int) -> None:
    assert _take(tmp_path / "up", "a.zip", _zip(how, a=b"Text.", b=b"More.")) == ["a.txt", "b.txt"]
    assert (tmp_path / "up" / "b.txt").read_bytes() == b"More."


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("عربي.txt".encode(), "عربي.txt"),  # of Linux and macOS, without the flag of UTF-8
        ("文档/说明.txt".encode(), "文档/说明.txt"),
        ("Prüfung.txt".encode(), "Prüfung.txt"),
        ("Prüfung.txt".encode("cp437"), "Prüfung.txt"),  # of old Windows
        ("Überblick über Ärger & Größe.txt".encode("cp437"), "Überblick über Ärger & Größe.txt"),
        ("été à Orléans.txt".encode("cp437"), "été à Orléans.txt"),
        ("售后服务.txt".encode("gbk"), "售后服务.txt"),  # of Chinese Windows
        ("合同 2026/付款（草案）.txt".encode("gb18030"), "合同 2026/付款（草案）.txt"),
        ("镕基A公司报告.txt".encode("gbk"), "镕基A公司报告.txt"),
        (b"plain.txt", "plain.txt"),
    ],
)
def test_names_are_read_as_utf8_then_chinese_then_cp437(tmp_path: Path, written: bytes, name: str) -> None:
    assert _take(tmp_path / "up", "a.zip", _zip_without_flag(written)) == [name]
    flagged = io.BytesIO()
    with zipfile.ZipFile(flagged, "w") as archive:
        archive.writestr(name, b"Text.")
    assert _take(tmp_path / "flagged", "a.zip", flagged.getvalue()) == [name]


def test_a_name_in_utf8_cannot_lead_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        _take(tmp_path / "up", "a.zip", _zip_without_flag("../ع.txt".encode()))
    assert refused.value.kind == "BadFileName"


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        _take(tmp_path / "up", "Berichte 2026.zip", b"Text.")
    assert refused.value.cause == "'Berichte 2026.zip' is damaged, or no .zip file."


def test_what_is_damaged_is_left_out_beside_what_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "up"
    folder.mkdir()
    staging = UploadFolder(folder, limits())
    packed = bytearray(_zip(zipfile.ZIP_STORED, a=b"Ada keeps bees.", b=b"Bo keeps goats."))
    packed[packed.index(b"goats")] = 0
    staging.add("docs.zip", io.BytesIO(bytes(packed)))
    staging.add("broken.zip", io.BytesIO(b"Text."))
    staging.add("c.txt", io.BytesIO(b"Cy keeps hens."))
    staging.check_filled()
    assert list(staging.names) == sorted(path.name for path in folder.iterdir()) == ["a.txt", "c.txt"]
    assert staging.left_out == ["b.txt", "broken.zip"]
    assert ["damaged" in _left_out(name)["cause"] for name in staging.left_out] == [True, True]


def test_a_large_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    size = 2**20
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0)  # speaks of one entry
    with pytest.raises(Refusal) as refused:
        _take(tmp_path / "up", "a.zip", bytes(size) + end, files=10)
    assert (refused.value.status, refused.value.kind) == (413, "TooMany")


def test_pieces_of_a_gz_file_are_counted(tmp_path: Path) -> None:
    assert _take(tmp_path / "few", "a.txt.gz", gzip.compress(b"Text.") * 100, files=1) == ["a.txt.gz"]
    with pytest.raises(Refusal) as refused:
        _take(tmp_path / "many", "a.txt.gz", gzip.compress(b"") * 10_100, files=1)
    assert (refused.value.status, refused.value.kind) == (413, "TooMany")


def test_damaged_archives_are_refused_and_never_a_failure_of_ours(tmp_path: Path) -> None:
    chance = random.Random(7)
    intact = _zip(a=b"Text " * 50, b=bytes(range(256)))
    packed = gzip.compress(b"Text " * 500)
    refused: list[Refusal] = []
    for number in range(600):
        name, kept = ("a.zip", intact) if number % 3 else ("a.txt.gz", packed)
        damaged = bytearray(kept)
        for _ in range(chance.choice((1, 2, 8))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            _take(tmp_path / str(number), name, bytes(damaged[: chance.choice((None, None, len(damaged) // 2))]))
        except Refusal as error:
            refused.append(error)
    assert len(refused) > 100
    assert all(error.status < 500 and error.remedy for error in refused)


def test_a_name_that_is_no_utf8_and_an_offset_before_the_file(tmp_path: Path) -> None:
    named = bytearray(_zip(a=b"Text."))
    at = named.index(b"PK\x01\x02")
    named[at + 9] |= 0x08  # says that the name is UTF-8
    named[at + 46] = 0xFF
    before = bytearray(_zip(a=b"Text."))
    before[before.index(b"PK\x05\x06") + 16] += 40  # where the directory is said to begin
    for number, content in enumerate((named, before)):
        with pytest.raises(Refusal) as refused:
            _take(tmp_path / str(number), "a.zip", bytes(content))
        assert refused.value.kind == "BadArchive"


def test_a_disk_that_is_full_is_not_the_archives_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: UploadFolder, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(UploadFolder, "_count", full)
    with pytest.raises(OSError, match="No space"):
        _take(tmp_path / "up", "a.zip", _zip(a=b"Text."))


def _locked(names: set[str], **files: bytes) -> bytes:
    """An archive in which the files of these names have a password."""
    packed = bytearray(_zip(zipfile.ZIP_STORED, **files))
    with zipfile.ZipFile(io.BytesIO(bytes(packed))) as archive:
        starts = {entry.filename: entry.header_offset for entry in archive.infolist()}
    for name in names:
        packed[starts[name] + 6] |= 1
        directory = packed.rindex(name.encode()) - 46
        packed[directory + 8] |= 1
    return bytes(packed)


def test_files_with_a_password_are_passed_over_beside_others(tmp_path: Path) -> None:
    archive = _locked({"b.txt"}, a=b"Ada keeps bees.", b=b"Bo keeps goats.")
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = create(server, {"docs.zip": archive, "all.zip": locked().replace(b"a.txt", b"c.txt")})
        assert job["state"] == "done" and passages(server) == {"a.txt": 1}
        problems = {problem["file"]: problem for problem in job["passed_over"]}
        assert set(problems) == {"b.txt", "c.txt"}
        assert problems["b.txt"]["cause"] == "b.txt is locked with a password."
        assert problems["b.txt"]["remedy"] == "Upload it without one."


def test_an_archive_of_nothing_but_files_with_a_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        _take(tmp_path / "up", "a.zip", _locked({"a.txt", "b.txt"}, a=b"Text.", b=b"More."))
    assert refused.value.cause == "'a.zip' is locked with a password."
    assert refused.value.remedy == "Upload it without one."
