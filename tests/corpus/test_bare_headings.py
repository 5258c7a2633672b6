"""Headings without text below them are passages if they are informative."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.corpus.test_corpus_pdf import pdf

from hoptree.corpus.document import is_informative
from hoptree.corpus.read import read_passages

SAYS, TOO = "Ada Brask built the lighthouse in 1902", "Bo Brask was its first keeper"
MARKDOWN = (
    f"# Capes\n\n## {SAYS}\n\n## Summary\n\n## {TOO}\n\n### The keepers of the northern cape\n\nThere were two.\n"
)
HTML = (
    f"<title>Capes</title><h1>Capes</h1><h2>{SAYS}</h2><h2>Summary</h2><h2>{TOO}</h2>"
    "<h3>The keepers of the northern cape</h3><p>There were two.</p>"
)
RST = (
    f"Capes\n=====\n\n{SAYS}\n{'-' * 40}\n\nSummary\n-------\n\n{TOO}\n{'-' * 40}\n\n"
    f"The keepers of the northern cape\n{'~' * 40}\n\nThere were two.\n"
)


@pytest.mark.parametrize(("suffix", "text"), [("md", MARKDOWN), ("html", HTML), ("rst", RST)])
def test_an_informative_heading_is_kept(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text(text, encoding="utf-8")
    assert [(p.title, p.text) for p in read_passages(path)] == [
        (f"Capes › {SAYS}", SAYS),
        (f"Capes › {TOO} › The keepers of the northern cape", "There were two."),
    ]


@pytest.mark.parametrize(
    ("suffix", "text"), [("md", f"# {SAYS}\n"), ("html", f"<h1>{SAYS}</h1>"), ("md", "# 灯塔于1902年建成\n")]
)
def test_a_document_may_be_one_heading(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text(text, encoding="utf-8")
    (passage,) = read_passages(path)
    assert passage.text in text and passage.title == passage.text


def test_a_page_of_a_pdf_may_be_one_heading(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(SAYS, f"{TOO}\nHe came.", title="Capes", outline=((SAYS, 0), (TOO, 1))))
    assert [(p.title, p.text) for p in read_passages(path)] == [
        (f"Capes › {SAYS}", SAYS),
        (f"Capes › {TOO}", "He came."),
    ]


@pytest.mark.parametrize(
    "heading", ["Summary", "See also", "3.1.2 Further reading", "Appendix A 2 3 4", "概述", "第三章"]
)
def test_a_heading_of_few_words_is_not_informative(heading: str) -> None:
    assert not is_informative(heading)
