"""A small sound document of every format, and hostile ones: bombs, entities, macros, path names, endless lines."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable

from tests.corpus.test_corpus_office import WORD, docx, epub, p, packed, pptx, shape, xlsx
from tests.corpus.test_corpus_pdf import pdf

__all__ = ["HOSTILE", "SOUND"]

_WORDS = "Ada keeps bees in Riga."
_PAGE = f"<html><body><h1>Bees</h1><p>{_WORDS}</p><table><tr><th>A<th>B<tr><td>1<td>2</table></body></html>"


def _row(*cells: str) -> str:
    shown = "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in cells)
    return f"<row>{shown}</row>"


SOUND: dict[str, bytes] = {
    "a.txt": _WORDS.encode(),
    "a.md": f"# Bees\n\n{_WORDS}\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode(),
    "a.html": _PAGE.encode(),
    "a.rst": f"Bees\n====\n\n{_WORDS}\n\n.. note:: So.\n".encode(),
    "man.txt": f".TH BEES 1\n.SH NAME\nbees \\- kept\n.SH DESCRIPTION\n.TP\n.B \\-a\n{_WORDS}\n".encode(),
    "a.js": f'Search.setIndex({{"docnames": ["a"], "titles": ["Bees"]}});\n// {_WORDS}\n'.encode(),
    "a.ipynb": json.dumps({"cells": [{"cell_type": "markdown", "source": [_WORDS]}]}).encode(),
    "a.eml": f"From: Ada <a@b.c>\nSubject: =?utf-8?q?Bees?=\nContent-Type: text/plain\n\n{_WORDS}\n".encode(),
    "a.mbox": f"From a\nSubject: Bees\n\n{_WORDS}\n\nFrom b\nSubject: Ants\n\nNone.\n".encode(),
    "a.csv": b"name,kept\nAda,bees\nBob,ants\n",
    "a.tsv": b"name\tkept\nAda\tbees\n",
    "a.json": json.dumps([{"id": "p1", "title": "Bees", "text": _WORDS}]).encode(),
    "a.jsonl": (json.dumps({"id": "p1", "text": _WORDS}) + "\n").encode(),
    "a.jsonl.gz": gzip.compress((json.dumps({"id": "p1", "text": _WORDS}) + "\n").encode(), mtime=0),
    "a.docx": docx(p(_WORDS)),
    "a.xlsx": xlsx(_row("name", "kept") + _row("Ada", "bees")),
    "a.pptx": pptx(shape("body", _WORDS)),
    "a.epub": epub(a=_PAGE),
    "a.pdf": pdf(_WORDS),
}
"""By file name; man.txt is a man page."""


def _ten(entity: str) -> str:
    return f"&{entity};" * 10


_LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha ha ha ">'
_LAUGHS += "".join(f'<!ENTITY {new} "{_ten(old)}">' for old, new in zip("abcdefghi", "bcdefghij", strict=True))
_LAUGHS += "]>"
_STOLEN = '<!DOCTYPE x [<!ENTITY j SYSTEM "file:///etc/passwd">]>'


def _word(body: str, doctype: str = "", macros: bytes = b"") -> bytes:
    document = f'{doctype}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return packed({"word/document.xml": document, "word/vbaProject.bin": macros})


def _shared(doctype: str) -> bytes:
    """A workbook whose strings begin with a document type."""
    with zipfile.ZipFile(io.BytesIO(xlsx('<row><c t="s"><v>0</v></c></row>', "<si><t>&j;</t></si>"))) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    return packed({**parts, "xl/sharedStrings.xml": doctype + parts["xl/sharedStrings.xml"]})


_FIRST_STRING = '<c t="s"><v>0</v></c>'


def _goes_on_below(size: int) -> str:
    """A table whose upper cell all rows below it repeat."""
    upper = f'<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{p("a " * (size // 2))}'
    below = "<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr></w:tc></w:tr>" * 1_000
    return f"<w:tbl><w:tr><w:tc>{upper}</w:tc></w:tr>{below}</w:tbl>"


def _spanned(times: int) -> bytes:
    """A table of named columns whose cells are repeated in a thousand rows each."""
    names = "".join(f"<th>{'a' * 90}{number}" for number in range(50))
    cells = "<tr>" + "<td rowspan=999>a" * 49 + "<td>a" + "<tr>" * 998
    return f"<table><tr>{names}{cells * times}".encode()


HOSTILE: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "a bomb in a Word file": ("a.docx", lambda size: _word(p("a " * (size // 2)))),
    "spaces without end in a Word file": ("a.docx", lambda size: _word(" " * size)),
    "a bomb in an Excel file": ("a.xlsx", lambda size: xlsx(_row("a " * (size // 2)))),
    "rows without end in an Excel file": ("a.xlsx", lambda size: xlsx(_row("a") * (size // 50))),
    "a bomb in a PowerPoint file": ("a.pptx", lambda size: pptx(shape("body", "a " * (size // 2)))),
    "a bomb in an e-book": ("a.epub", lambda size: epub(a="a " * (size // 2))),
    "chapters without end in an e-book": (
        "a.epub",
        lambda size: epub(**{f"c{number}": "a " * 5_000 for number in range(size // 10_000)}),
    ),
    "a bomb in gzip": ("a.txt.gz", lambda size: gzip.compress(b"a " * (size // 2), 1)),
    "a row in gzip": ("a.jsonl.gz", lambda size: gzip.compress(b'{"text": "' + b"a" * size, 1)),
    "a cell that goes on below in a Word file": ("a.docx", lambda size: _word(_goes_on_below(size // 10))),
    "paragraphs without end in a cell of a Word file": (
        "a.docx",
        lambda size: _word("<w:tbl><w:tr><w:tc>" + p("a") * (size // 40) + "</w:tc></w:tr></w:tbl>"),
    ),
    "a string that every cell of an Excel file shows": (
        "a.xlsx",
        lambda size: xlsx(f"<row>{_FIRST_STRING * 1_000}</row>", f"<si><t>{'a ' * (size // 20)}</t></si>"),
    ),
    "laughs in a Word file": ("a.docx", lambda _: _word(p("&j;"), _LAUGHS)),
    "laughs in an Excel file": ("a.xlsx", lambda _: _shared(_LAUGHS)),
    "laughs in an e-book": ("a.epub", lambda _: epub(a=f"{_LAUGHS}<html><body><p>&j;</p></body></html>")),
    "a stolen file in a Word file": ("a.docx", lambda _: _word(p("&j;"), _STOLEN)),
    "a stolen file in an Excel file": ("a.xlsx", lambda _: _shared(_STOLEN)),
    "a stolen file in an e-book": ("a.epub", lambda _: epub(a=f"{_STOLEN}<html><body><p>&j;</p></body></html>")),
    "macros in a Word file": ("a.docx", lambda _: _word(p(_WORDS), macros=b"\xd0\xcf\x11\xe0" * 99)),
    "path names in an e-book": ("a.epub", lambda _: epub(**{"../../../../etc/passwd": "", "/etc/passwd": ""})),
    "a line without end": ("a.txt", lambda size: b"a " * (size // 2)),
    "a word without end": ("a.txt", lambda size: b"a" * size),
    "a row without end": ("a.jsonl", lambda size: json.dumps({"text": "a " * (size // 2)}).encode()),
    "a cell without end": ("a.csv", lambda size: b"name,kept\n" + b"a" * size),
    "a page without end": ("a.html", lambda size: b"<p>" + b"a " * (size // 2)),
    "tags without end": ("a.html", lambda size: b"<div>" * (size // 40)),
    "cells that span rows without end": ("a.html", lambda size: _spanned(size // 44_000)),
    "a message without end": ("a.eml", lambda size: b"Subject: a\n\n" + b"a " * (size // 2)),
    "a subject without end": ("a.eml", lambda size: b"Subject: " + b"=?utf-8?q?a?= " * (size // 40) + b"\n\na"),
    "a notebook without end": (
        "a.ipynb",
        lambda size: json.dumps({"cells": [{"cell_type": "raw", "source": "a " * (size // 2)}]}).encode(),
    ),
    "brackets without end": ("a.json", lambda size: b"[" * size),
    "quotations without end": ("a.md", lambda size: b"> " * (size // 40)),
    "a page of a PDF without end": ("a.pdf", lambda size: pdf("a " * (size // 40))),
}
"""By what is hostile: a file name, and the content for a size in bytes."""
