"""Lists of contents, indexes of links and navigation bars are recognised, and rank behind text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.corpus.test_corpus_office import docx, p
from tests.cpu_limit import cpu_limit

from hoptree.core.values import CONTENTS, Passage
from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.contents import is_entry, lists_contents
from hoptree.corpus.files import text_document
from hoptree.corpus.html_pages import html_document
from hoptree.corpus.markdown import markdown_document
from hoptree.corpus.read import read_passages
from hoptree.retrieval.indexing import build_index
from hoptree.retrieval.retriever import open_retriever

CHAPTERS = ("Setting the kiln", "Glazes of copper", "Firing at 1,200 degrees", "Cooling")
LIST = "".join(f"<dt>{at}. <a href='part{at}.html'>{name}</a></dt>" for at, name in enumerate(CHAPTERS, 1))
BAR = "<table><tr><td><a href=a.html>Prev</a><td>Part II. Kilns<td><a href=c.html>Next</a><td><a href=i.html>Up</a>"
PROSE = "<p>The <a href=kiln.html>kiln</a> is set as its <a href=m.html>manual</a> says, and <a href=x.html>dried</a>."
SPHINX = "".join(f"<li><a href={name}.html>{name}</a> |" for name in ("index", "next", "previous", "Modules"))
SPHINX = f"<ul>{SPHINX}<li><a href=''>Kilns and everything that was ever said of them</a></ul>"
ELSEWHERE = LIST.replace("part", "https://example.org/part")
QUESTIONS = "".join(f"<dt>{at}. <a href=q{at}.html>How hot is {name}?</a></dt>" for at, name in enumerate(CHAPTERS, 1))
INDEX = "".join(f"<dt>{word}, <a href=a.html#{word}>Glazes of {word}</a>" for word in ("copper", "iron", "tin", "zinc"))


def listed(passages: list[Passage]) -> list[bool]:
    return [CONTENTS in passage.metadata for passage in passages]


def of_page(body: str) -> list[bool]:
    title = "Kilns and everything that was ever said of them" if body == SPHINX else "Kilns"
    return listed(list(chunk(html_document(f"<title>{title} — Manual</title>{body}", "b.html"), Chunking())))


@pytest.mark.parametrize(
    "body",
    [
        *(f"<p>Table of Contents</p><dl>{LIST}</dl>", f"<p>Kilns</p>{BAR}</table>", INDEX, f"{LIST}{BAR}</table>"),
        *(SPHINX, QUESTIONS, LIST + ELSEWHERE),
    ],
)
def test_a_passage_of_only_links_is_a_list(body: str) -> None:
    assert of_page(body) == [True]


@pytest.mark.parametrize(
    "body",
    [
        PROSE,
        f"<dl>{LIST}</dl>{PROSE * 3}",
        f"{PROSE}{BAR}</table>",
        "See <a href=kiln.html>Setting the kiln</a>.",  # with a link
        "".join(f"<li>{name}" for name in CHAPTERS),  # no links
        ELSEWHERE,  # a collection of links to elsewhere
        "".join(f"<p><a href=p{at}.html>{name}</a>: what to look for in it" for at, name in enumerate(CHAPTERS)),
    ],
)
def test_a_text_with_links_is_no_list(body: str) -> None:
    assert of_page(body) == [False]


def test_a_table_of_contents_is_a_passage_of_its_own() -> None:
    page = f"<title>Part I</title><h1>Kilns</h1><div class=toc><p>Table of Contents</p><dl>{LIST}</dl></div>{PROSE}"
    passages = list(chunk(html_document(f"{page}<h2>Ash</h2><p>It is grey.", "b.html"), Chunking()))
    assert listed(passages) == [True, False, False]
    titles = [passage.title for passage in passages]
    assert titles == ["Part I › Kilns", "Part I › Kilns", "Part I › Kilns › Ash"]
    bare = list(chunk(html_document(f"<div class=toc>{LIST}</div>{PROSE}", "b.html"), Chunking()))
    assert listed(bare) == [True, False] and {passage.title for passage in bare} == {"b"}


def test_below_a_navigation_heading_one_link_is_enough() -> None:
    body = "<h1>Kilns</h1><p>They are hot.</p><h4>Next topic</h4><p><a href=b.html>Glazes</a></p><h4>Glazes</h4>"
    assert of_page(f"{body}<p><a href=b.html>Copper</a></p>") == [False, True, False]


def test_lists_are_recognised_in_markdown_and_plain_text() -> None:
    items = "".join(f"- [{name}](#{name.lower().replace(' ', '-')})\n" for name in CHAPTERS)
    document = markdown_document(f"# Kilns\n\n{items}\n## Cooling\n\nIt [cools](a.md) for [two](b.md) days.\n", "a.md")
    assert listed(list(chunk(document, Chunking()))) == [True, False]
    leaders = "Contents\n" + "".join(f"{name} {'.' * 20} {at}\n" for at, name in enumerate(CHAPTERS, 7))
    assert listed(list(chunk(text_document(leaders, "a.txt"), Chunking()))) == [True]
    columns = "".join(f"{name}\t{at}\n" for at, name in enumerate(CHAPTERS, 7))
    assert listed(list(chunk(text_document(columns, "a.txt"), Chunking()))) == [False]


HEADWORDS = [f"{first}{second} mode" for first in "bcdfg" for second in ("ack", "ead", "it", "ore", "ump")]


def test_long_lists_of_headwords_are_lists() -> None:
    for text in (
        "\n\n   ".join(HEADWORDS),
        "\n".join(word.split()[0] for word in HEADWORDS),
        "\n\n".join((HEADWORDS[-1], *HEADWORDS)),
    ):
        assert listed(list(chunk(text_document(text, "a.txt"), Chunking()))) == [True]


def test_other_lists_of_short_lines_are_no_headwords() -> None:
    for lines in (
        HEADWORDS[:15],  # short
        [*HEADWORDS[::2], *HEADWORDS[1::2], *HEADWORDS[::-1]],  # in another order
        [f"{word}: on" for word in HEADWORDS],
        [f"{word}:on" for word in HEADWORDS],
        ["A ship that sails to the southern fjords is called an askew,", "as all keepers know.", *HEADWORDS],
        [f"{word} {len(word)}" for word in HEADWORDS],
        [f"{word} flies." for word in HEADWORDS],
        [f"{word} has a text of its own" for word in HEADWORDS],
    ):
        assert listed(list(chunk(text_document("\n\n".join(lines), "a.txt"), Chunking()))) == [False]
    rows = text_document("\n".join(HEADWORDS), "a.txt")  # of a table with two columns, each with a word
    assert listed(list(chunk(rows, Chunking()))) == [False]


def test_a_note_of_what_is_to_be_written_ranks_behind_text() -> None:
    for text, is_list in (
        ("Note\n\nTODO: 撰写本节", True),
        ("This section is yet to be written.", True),
        ("Port\n\n8080", False),
        ("Mark what is left with TODO, and the tool lists the open places of a file with their lines.", False),
    ):
        assert listed(list(chunk(text_document(text, "a.txt"), Chunking()))) == [is_list]


@pytest.mark.parametrize("piece", [".", ". ", "…", ".1", "a. ", "x.) "])
def test_time_grows_linearly_with_the_line(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    with cpu_limit():
        assert not lists_contents(text, 0, len(text), [], "")
        assert not is_entry(text, [], has_navigation_link=False)


def test_contents_of_a_word_file_are_recognised_by_style(tmp_path: Path) -> None:
    entries = "".join(p(f"{name} 7", "Verzeichnis1") for name in CHAPTERS)
    (tmp_path / "a.docx").write_bytes(docx(entries))
    assert listed(list(read_passages(tmp_path))) == [True]


@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_a_list_ranks_behind_text_and_is_found_if_there_is_no_text(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for at in range(6):
        (folder / f"list{at}.html").write_text(f"<title>Copper glazes {at}</title>{LIST.replace('1.', f'{at}1.', 1)}")
    text = "Copper gives a green that no other metal gives, in an oven with air. Without air it turns red."
    (folder / "text.html").write_text(f"<title>Colours</title><p>{text} A glaze of it is old.", encoding="utf-8")
    build_index(folder, tmp_path / "index")
    retriever = open_retriever(tmp_path / "index", kind)
    assert asyncio.run(retriever.search("glazes of copper", k=1))[0].document == "text.html"
    assert asyncio.run(retriever.search("firing degrees", k=1))[0].document.startswith("list")
    both = asyncio.run(retriever.search("glazes of copper", k=20))
    assert len(both) == 7
    assert [hit.score for hit in both] == sorted((hit.score for hit in both), reverse=True)
    of_lists = asyncio.run(retriever.search("copper", k=20, where={"contents": "yes"}))
    assert len(of_lists) == 6


def test_menus_and_tables_of_nodes_of_gnu_info_are_lists_of_contents() -> None:
    menu = "* Menu:\n\n* abbrev::\n* ABEND::\n* accumulator: Sums.\n* ACK::  What is sent back."
    nodes = "Tag table:\nNode: Top\x7f188\nNode: Introduction\x7f1823\nNode: A Few Terms\x7f4212\nRef: Notes\x7f5011"
    for text in (menu.replace("* accumulator: Sums.\n", ""), nodes):
        assert lists_contents(text, 0, len(text), [], "")
    code = "use std::io;\nuse std::fs::File;\nlet file = File::open(path);\n* The rest follows: see below."
    terms = "* cargo::\n* rustc::\n* rustup::\nThese three programs come together, and each has a manual of its own."
    for text in (code, terms):
        assert not lists_contents(text, 0, len(text), [], "")
