"""Headers of e-mail are read, also raw bytes and broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.core.values import Passage
from hoptree.corpus import mail
from hoptree.corpus.document import Problems
from hoptree.corpus.read import read_passages

_GERMAN = "From: Jürgen Groß <j@example.org>\nSubject: Grüße aus\n Köln\n{0}\nSchöne Größe.\n"
_CHINESE = "From: 张伟 <z@example.org>\nSubject: 会议安排通知\n{0}\n会议在北京举行，请准时参加。\n"


def _read(path: Path, content: bytes) -> Passage:
    path.write_bytes(content)
    (passage,) = read_passages(path)
    return passage


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "cp1252", "iso-8859-15"])
@pytest.mark.parametrize("declared", [True, False])
def test_raw_headers_are_decoded_like_the_text(tmp_path: Path, encoding: str, *, declared: bool) -> None:
    kind = f'Content-Type: text/plain; charset="{encoding}"\n' if declared else ""
    mail = _read(tmp_path / "a.eml", _GERMAN.format(kind).encode(encoding))
    assert (mail.title, mail.metadata[0]) == ("Grüße aus Köln", ("from", "Jürgen Groß <j@example.org>"))
    assert mail.text.endswith("Schöne Größe.")


@pytest.mark.parametrize("kind", ["Content-Type: text/plain; charset=gb2312\n", ""])
def test_raw_chinese_headers_are_read(tmp_path: Path, kind: str) -> None:
    mail = _read(tmp_path / "a.eml", _CHINESE.format(kind).encode("gb2312"))
    assert (mail.title, mail.metadata[0]) == ("会议安排通知", ("from", "张伟 <z@example.org>"))


def test_each_header_may_have_its_own_encoding(tmp_path: Path) -> None:
    head = "From: Jürgen <j@example.org>\n".encode("latin-1") + "Subject: Grüße\n".encode()
    mail = _read(tmp_path / "a.eml", head + b"Content-Type: text/plain; charset=utf-8\n\n" + "Größe.".encode())
    assert (mail.title, mail.text) == ("Grüße", "From: Jürgen <j@example.org>\n\nGröße.")


def test_a_raw_attachment_name_is_read(tmp_path: Path) -> None:
    lines = (
        "From: a@example.org\nSubject: Maße\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
        "Content-Type: text/plain; charset=latin-1\n\nSiehe Größe.\n--b\nContent-Type: application/pdf\n"
        'Content-Disposition: attachment;\n filename="Größe.pdf"\n\nx\n--b--\n'
    )
    mail = _read(tmp_path / "a.eml", lines.encode("latin-1"))
    assert mail.title == "Maße" and mail.text.endswith("Siehe Größe.\n\nAttachment: Größe.pdf")


@pytest.mark.parametrize("address", [b'"J\xfc" <\xfc@\xfc>, <<>', b":;,\xfc,,", b"=?foo?q?x=FC?= <a@b.c>", b"<a@b.c"])
def test_a_message_with_a_broken_header_is_read(tmp_path: Path, address: bytes) -> None:
    mail = _read(tmp_path / "a.eml", b"From: " + address + b"\nSubject: Bees\n\nAda keeps bees.")
    assert mail.title == "Bees" and mail.text.endswith("Ada keeps bees.")


def test_lines_in_parts_in_parts_are_not_matched_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = "".join(f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n" for at in range(90))
    (tmp_path / "deep.eml").write_text(f"Subject: Bees\n{heads}\nBees live in hives.\n")
    assert [passage.title for passage in read_passages(tmp_path / "deep.eml")] == ["Bees"]
    monkeypatch.setattr(mail, "_MAX_MATCHES", 90 * 90)
    problems = Problems(limit=1)
    assert list(read_passages(tmp_path / "deep.eml", problems=problems)) == []
    assert "too many parts for its length" in problems.sentences[0]
