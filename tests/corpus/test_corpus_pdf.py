"""PDF files, page by page."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import MissingExtra
from hoptree.corpus.document import Problems
from hoptree.corpus.read import read_passages


def pdf(*pages: str, title: str = "", password: str = "") -> bytes:
    """A PDF with a line of text a page."""
    generic = pytest.importorskip("pypdf.generic")
    from pypdf import PdfWriter

    writer: Any = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        font = generic.DictionaryObject()
        for key, value in (("Type", "Font"), ("Subtype", "Type1"), ("BaseFont", "Helvetica")):
            font[generic.NameObject(f"/{key}")] = generic.NameObject(f"/{value}")
        fonts = generic.DictionaryObject({generic.NameObject("/F1"): font})
        page[generic.NameObject("/Resources")] = generic.DictionaryObject({generic.NameObject("/Font"): fonts})
        stream = generic.DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        page[generic.NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def lenient(path: Path, content: bytes) -> tuple[list[Any], Problems]:
    path.write_bytes(content)
    problems = Problems()
    return list(read_passages(path, problems=problems)), problems


def test_pages_are_documents_with_their_numbers(tmp_path: Path) -> None:
    passages, problems = lenient(tmp_path / "a.pdf", pdf("A film of 2014", "", "By Ada", title="Red Kite"))
    assert [(p.id, p.title, p.text, p.metadata) for p in passages] == [
        ("a.pdf#page=1#1", "Red Kite", "A film of 2014", (("page", "1"),)),
        ("a.pdf#page=3#1", "Red Kite", "By Ada", (("page", "3"),)),
    ]
    assert problems.broken == 0 and "1 of 3 pages" in problems.notes[0]


def test_a_locked_file_is_passed_over(tmp_path: Path) -> None:
    passages, problems = lenient(tmp_path / "a.pdf", pdf("x", password="secret"))
    assert passages == [] and "password" in problems.sentences[0]


def test_a_damaged_file_is_passed_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = pdf("Some words")
    for content in (b"", b"no pdf", b"%PDF-1.7\n", whole[: len(whole) // 2], whole.replace(b"/Pages", b"/Pages[[[")):
        passages, problems = lenient(tmp_path / "a.pdf", content)
        assert passages or problems.counts["damaged PDF files"] == 1, content
    assert capfd.readouterr() == ("", "")


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(MissingExtra, match=r"hoptree\[pdf\]"):
        lenient(tmp_path / "a.pdf", b"%PDF-1.7\n")
