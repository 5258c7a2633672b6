"""Names of uploaded files: who is refused learns which and why, and what a packer adds is passed over."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.server.corpora_made import create, documents, passages
from tests.server.hostile import link, zipped
from tests.server.running import limits, running, settings

from hoptree.server.error_responses import Refusal
from hoptree.server.indexing import _left_out
from hoptree.server.uploads import UploadFolder, check_file_name

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.mark.parametrize(
    ("name", "shown", "rule"),
    [
        ("", "", "no name"),
        ("../x.txt", "../x.txt", "'.' or '..'"),
        ("a/../../b.txt", "a/../../b.txt", "'.' or '..'"),
        ("/abs.txt", "/abs.txt", "empty part"),
        ("a//b.txt", "a//b.txt", "empty part"),
        (".hidden.txt", ".hidden.txt", "begins with a dot"),
        ("a/.b/c.txt", "a/.b/c.txt", "begins with a dot"),
        ("a /b.txt", "a /b.txt", "space"),
        ("a\\b.txt", "a\\b.txt", "\\"),
        ("a\tb.txt", "a\\u0009b.txt", "U+0009"),
        ("a\0b.txt", "a\\u0000b.txt", "U+0000"),
        ("a\u202ebxt.txt", "a\\u202ebxt.txt", "U+202E"),
        ("a\u2066b.txt", "a\\u2066b.txt", "U+2066"),
        ("a\udc80b.txt", "a\\udc80b.txt", "U+DC80"),
        ("1/2/3/4/5/6/7/8/9.txt", "1/2/3/4/5/6/7/8/9.txt", "7 folders"),
        ("x" * 201, "x" * 80, "200 bytes"),
        ("a\u200db.txt", "a\\u200db.txt", "U+200D"),
        ("\u200da.txt", "\\u200da.txt", "U+200D"),
        ("ab\u200c/c.txt", "ab\\u200c/c.txt", "U+200C"),
    ],
)
def test_a_name_that_cannot_be_is_told_with_its_rule(name: str, shown: str, rule: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_file_name(name)
    assert (refused.value.status, refused.value.kind) == (400, "BadFileName")
    assert shown in refused.value.cause and rule in refused.value.cause and refused.value.remedy
    assert refused.value.cause.isprintable()


@pytest.mark.parametrize(
    "name",
    [
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}.txt",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.txt",
        "%2e%2e.txt",
        "Käse #1.txt",
        pytest.param(
            'Who? "Me": a|b <1>*.txt', marks=pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
        ),
    ],
)
def test_names_that_people_write_are_taken(name: str) -> None:
    check_file_name(name)


def test_what_a_packer_adds_of_its_own_is_passed_over_and_told(tmp_path: Path) -> None:
    packed = {"docs/a.txt": b"Ada keeps bees.", "__MACOSX/docs/._a.txt": b"\0\5\x16\7", "docs/.DS_Store": b"\0Bud1"}
    packed["docs/kite.png"] = b"\x89PNG"
    with running(settings(tmp_path, corpora_folder=tmp_path / "own")) as server:
        job = create(server, {"mac.zip": zipped(packed)})
        assert job["state"] == "done" and passages(server) == {"docs/a.txt": 1}
        problems = {problem["file"]: problem for problem in job["passed_over"]}
        assert set(problems) == {"__MACOSX/docs/._a.txt", "docs/.DS_Store", "docs/kite.png"}
        assert all(problem["cause"] and problem["remedy"] for problem in problems.values())
        only = server.client.post(
            "/v1/corpora", data={"name": "other"}, files={"files": ("a.zip", zipped({"__MACOSX/._a": b"x"}))}
        )
        assert only.status_code == 400 and "hidden" in only.json()["error"]["message"]
    assert set(documents(tmp_path / "own")) == {"docs/a.txt"}


@pytest.mark.parametrize(
    "name", ["1/2/3/4/5/6/7/8/9.txt", "b /c.txt", f"{'x' * 210}.txt", "link.txt", "docs\\b.txt", "docs\\"]
)
def test_one_file_of_an_archive_that_cannot_be_stored_is_no_reason_to_refuse_the_rest(
    tmp_path: Path, name: str
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("good.txt", "Ada keeps bees.")
        entry = zipfile.ZipInfo(name)
        entry.create_system, entry.external_attr = 3, (0o120777 if name == "link.txt" else 0o100644) << 16
        archive.writestr(entry, "/etc/passwd")
    (tmp_path / "up").mkdir()
    upload = UploadFolder(tmp_path / "up", limits())
    upload.add("a.zip", packed)
    upload.check_filled()
    assert list(upload.names) == ["good.txt"] and len(upload.left_out) == 1
    problem = _left_out(upload.left_out[0])
    assert "a link, or has a name" in problem["cause"] and problem["remedy"]
    alone = UploadFolder(tmp_path / "alone", limits())
    alone.add("a.zip", io.BytesIO(link()))
    with pytest.raises(Refusal, match="holds a link"):
        alone.check_filled()


@pytest.mark.parametrize(
    "name",
    [
        "../.evil",
        "a/../../.b",
        "__MACOSX/../../evil.txt",
        "/.etc",
        "./.a",
        "..\\\\.up.txt",
        "a\\..\\b.txt",
        "\\b.txt",
        "a/..\\b.txt",
    ],
)
def test_what_leads_elsewhere_is_refused_however_hidden(tmp_path: Path, name: str) -> None:
    (tmp_path / "up").mkdir()
    with pytest.raises(Refusal) as refused:
        UploadFolder(tmp_path / "up", limits()).add("a.zip", io.BytesIO(zipped({name: b"x", "b.txt": b"Text."})))
    assert refused.value.kind == "BadFileName"
