"""What several files say in the same words takes one place, and rows of passage files keep theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.retrieval.small_models import save_static
from tests.retrieval.test_hippo import write

from hoptree.core.values import Passage
from hoptree.corpus.read import read_passages
from hoptree.retrieval.indexing import add_facts, encode_index, index_passages
from hoptree.retrieval.retriever import open_retriever, without_copies

ORPHAN = "To orphan a package, set its maintainer to the QA group and file a bug against the pseudo package wnpp."
OTHERS = [
    f"A package of the archive may be removed for reason {number}, and orphans are adopted." for number in range(9)
]


def passage(document: str, text: str = ORPHAN, title: str = "Guide") -> Passage:
    return Passage(f"{document}#1", title, text, 1.0, document)


def kept(*passages: Passage, query: str = "How do I orphan a package?", most: int = 5) -> list[str]:
    return [each.document for each in without_copies(passages, query, most)]


def test_the_same_text_of_another_file_is_left_out() -> None:
    pages = passage("guide.pdf#page=3", f"{ORPHAN} This is done at once."), passage("guide.txt", ORPHAN.upper())
    assert kept(passage("guide.html"), *pages, most=2) == ["guide.html", "guide.pdf#page=3"]  # the page says more
    other = passage("other.txt", OTHERS[0])
    assert kept(*pages, passage("guide.html"), other, most=2) == ["guide.pdf#page=3", "other.txt"]


def test_copies_take_no_place_where_little_else_is_found() -> None:
    assert kept(*(passage(f"{name}.txt") for name in "abc"), passage("other.txt", OTHERS[0])) == ["a.txt", "other.txt"]


def test_a_near_copy_has_a_place_that_is_left() -> None:
    forms = [
        passage(f"{name}.txt", f"{ORPHAN} {ORPHAN} The fee is {euros} euros.")
        for name, euros in (("a", 4), ("b", 4), ("c", 7))
    ]
    other = passage("other.txt", OTHERS[0])
    assert kept(forms[0], forms[2], other, most=2) == ["a.txt", "other.txt"]
    assert kept(*forms, other, most=3) == ["a.txt", "c.txt", "other.txt"]


def test_other_texts_pages_of_one_file_and_rows_stay() -> None:
    last = passage("z.html", OTHERS[1])
    assert kept(passage("a.html"), passage("b.html", OTHERS[0]), last, most=2) == ["a.html", "b.html"]
    assert kept(passage("a.pdf#page=1"), passage("a.pdf#page=2"), last, most=2) == ["a.pdf#page=1", "a.pdf#page=2"]
    rows = [Passage(name, name, ORPHAN, 1.0, name) for name in "ab"]
    assert without_copies([*rows, last], "q", 2) == tuple(rows)


def test_a_copy_that_the_question_names_stays() -> None:
    names = ["gzip/copyright", "tar/copyright"]
    found = *(passage(name, "Free software.") for name in names), passage("other.txt", OTHERS[0])
    assert kept(*found, query="Do gzip and tar have the same licence?", most=2) == names
    assert kept(*found, query="Is it free?", most=2) == ["gzip/copyright", "other.txt"]


@pytest.mark.parametrize("kind", ["bm25", "linked", "dense", "hybrid", "hippo"])
def test_a_manual_in_four_formats_takes_one_place(tmp_path: Path, kind: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    copied = f"{ORPHAN} river"  # a word that the encoder knows
    for name in ("a.txt", "b.md", "c.html", "d.rst"):
        (docs / name).write_text(f"<p>{copied}</p>" if name == "c.html" else copied)
    for number, text in enumerate(OTHERS):
        (docs / f"other-{number}.txt").write_text(f"{text} water")
    passages = list(read_passages(docs))
    index_passages(passages, tmp_path / "idx")
    if kind in ("dense", "hybrid"):
        encode_index(tmp_path / "idx", f"static/{save_static(tmp_path / 'encoder')}")
    elif kind == "hippo":
        pytest.importorskip("rustworkx")
        write(tmp_path / "facts", [("package", "is", "orphaned", each.id) for each in passages])
        add_facts(tmp_path / "facts", tmp_path / "idx")
    found = asyncio.run(open_retriever(tmp_path / "idx", kind).search("How is a package orphaned? river", k=5))
    assert len(found) == 5 and sum(each.text == copied for each in found) == 1
    few = asyncio.run(open_retriever(tmp_path / "idx", kind).search("How is a package orphaned? river", k=100))
    assert sum(each.text == copied for each in few) == 1, "also where everything is found"
