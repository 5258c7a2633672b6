"""The visible text of HTML pages is read, also from broken markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.corpus import html_pages
from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.html_pages import html_document
from hoptree.corpus.read import read_passages

PAGE = """<!DOCTYPE html><html><head><title>Red Kite &amp; more</title><style>p { x: "<p>" }</style>
<script>if (a < b) { document.write("<h1>no</h1>") }</script></head><body><nav><a href="/">Home</a></nav>
<h1>Red <em>Kite</em></h1><p>A film
 of 2014,<br>by <b>A</b>da.</p><!-- <p>hidden</p> --><ul><li>one<li>two</ul>
<template><p>not yet</p></template><h2>Cast</h2><table><tr><td>Bo</td><td>Mo</td></tr></table>
<pre>a  b
  c</pre><p title="a > b">R&eacute;sum&#233; 1 < 2 &lt;b&gt;</p></body></html>"""


def passages(text: str) -> list[tuple[str, str]]:
    return [(passage.title, passage.text) for passage in chunk(html_document(text, "a.html"), Chunking())]


def test_only_visible_text_is_read() -> None:
    document = html_document(PAGE, "a.html")
    assert document.title == "Red Kite & more"
    assert passages(PAGE) == [
        ("Red Kite & more › Red Kite", "A film of 2014,\nby Ada.\n\none\ntwo"),
        ("Red Kite & more › Red Kite › Cast", "Bo Mo\n\na  b\n  c\n\nRésumé 1 < 2 <b>"),
    ]


def test_a_row_of_a_table_has_the_names_of_its_columns() -> None:
    rows = "<tr><td><a href=x>Red</a> Kite<td colspan=2>2014</tr><tr><td>Blue<td><td>x</table>"
    page = f"Before<table><caption>Films</caption><tr><th>Film<th>Year<th>Note</tr>{rows}After"
    assert passages(page) == [("a", "Before\n\nFilms\n\nFilm: Red Kite; Year: 2014\n\nFilm: Blue; Note: x\n\nAfter")]
    layout = "<table><tr><th>Menu<th>x</tr><tr><td><table><tr><td>Words</table></table>"
    assert passages(layout)[0][1].split() == ["Menu", "x", "Words"]


@pytest.mark.parametrize("head", ["<tr><th colspan=2>Films", "<thead><tr><th colspan=2>Films"])
def test_names_of_columns_may_stand_below_a_title(head: str) -> None:
    page = f"<table>{head}<tr><th>Film<th>Year<tr><td>Kite<td>2014<tr><td>Blue<td>7</table>"
    assert passages(page) == [("a", "Films\n\nFilm: Kite; Year: 2014\n\nFilm: Blue; Year: 7")]


def test_marks_that_link_to_a_heading_are_not_read() -> None:
    mark = "<a class=headerlink href='#x' title='Permalink'>¶</a>"
    page = (
        f"<title>T</title><h1>Red{mark}</h1><dl><dt id=x>kite(){mark}<dd>It flies.</dl><h2>Blue <a href=#y>#</a></h2>x"
    )
    assert passages(page) == [("T › Red", "kite()\n\nIt flies."), ("T › Red › Blue", "x")]
    assert passages("<p>Press <a href=#y>#</a> twice, § <a href=a.html>¶ 4</a></p>")[0][1] == "Press # twice, § ¶ 4"


BARS = (
    '<div class="navheader"><table><tr><th colspan=3>1. Kilns<tr><td><a href=a>Prev</a><td><a>Next</a></table></div>',
    '<div class="sphinxsidebar" role="navigation"><h4>Next topic</h4><p><a href=b>Glazes</a></div>',
    '<div class="related"><h3>Navigation</h3><ul><li><a href=i>index of all words</a> |</ul></div>',
    '<div id="nav-path" class="navpath"><ul><li><a href=d>src</a></ul></div>',
    '<div class="topNav"><ul><li><a href=o>Overview</a><li>Class</ul></div>',
    '<div class="nav-panel"><p>Next: <a href=b>Glazes</a>, Up: <a href=t>Top</a></div>',
    '<ul class="wy-breadcrumbs"><li><a href=i>Docs</a><li>Kilns</ul>',
    "<div role=search><form>Quick search</form></div>",
)


@pytest.mark.parametrize("bar", BARS)
def test_navigation_of_known_generators_is_not_read(bar: str) -> None:
    assert passages(f"<title>Kilns</title>{bar}<h1>Kilns</h1><p>They are hot.</p>{bar}") == [("Kilns", "They are hot.")]


@pytest.mark.parametrize("box", ["div class=navheader", "div role=navigation", "div class=related", "ul class=tabs"])
def test_content_in_a_box_for_navigation_is_read(box: str) -> None:
    words = "A kiln is hot, and what it is for is told at length. " * 8
    assert [text for _, text in passages(f"<{box}><a href=a>Prev</a><p>{words}")] == [f"Prev\n\n{words.strip()}"]
    if box.startswith(("div class=related", "ul")):
        assert passages(f"<{box}>Potters' Press, <a href=a>1950</a>.") == [("a", "Potters' Press, 1950.")]
    works = "".join(
        f"<li>Ada Kite: <a href=w{at}>Kilns {at}</a>. Reykjavík, Potters' Press, 19{at}." for at in range(10, 40)
    )
    assert "".join(text for _, text in passages(f"<{box}>{works}")).count("Potters' Press") == 30


def test_the_title_comes_from_the_page_its_first_heading_or_the_file() -> None:
    assert html_document("<h2>Cast</h2>x", "a.html").title == "Cast"
    assert html_document("x", "folder/a b.html").title == "a b"
    assert passages("<title>Whiplash</title>Before<h2>Cast</h2>x") == [("Whiplash", "Before"), ("Whiplash › Cast", "x")]
    assert html_document("<svg><title>Icon</title></svg><p>x", "a.html").title == "a"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<p>a<p>b", "a\n\nb"),
        ("a<b", "a<b"),
        ("a < b > c", "a < b > c"),
        ("<nav>menu <p>text", "menu\n\ntext"),
        ("<p>a<!-- never closed <p>b", "a never closed\n\nb"),
        ("<p class='x>a</p>b", "a\n\nb"),
        ("a</p></div></nav>b", "a\n\nb"),
        ("<![CDATA[x]]>y<?php z ?>w<!ELEMENT>v", "ywv"),
        ("a<script>b", "a"),
        ("<h1>Title<p>text", "text"),
        ("<h1>" + "long " * 100, "long " * 99 + "long"),
        ("<title>" + "long " * 100, "long " * 99 + "long"),
        ("&#" + "9" * 5000 + ";", "\ufffd"),
        ("&#xD800;&#0;&nbsp;x&bogus;", "\ufffd\ufffd x&bogus;"),
        ("<br/>a<br/>b<svg/>c", "a\nbc"),
    ],
)
def test_broken_markup_loses_no_text(text: str, seen: str) -> None:
    assert "\n\n".join(words for _, words in passages(text)) == seen


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ('<meta charset="iso-8859-1"><p>café “'.encode("cp1252"), "café “"),
        ('<meta http-equiv="x" content="text/html; charset=shift_jis"><p>日本'.encode("shift_jis"), "日本"),
        ('<?xml version="1.0" encoding="windows-1251"?><p>мир</p>'.encode("cp1251"), "мир"),
        ("<p>Łódź".encode("utf-16"), "Łódź"),
        ("\ufeff<p>Łódź".encode(), "Łódź"),
        ('<meta charset="iso-8859-1"><p>Łódź in UTF-8 all the same'.encode(), "Łódź in UTF-8 all the same"),
    ],
)
def test_a_page_is_decoded_by_its_declared_encoding(tmp_path: Path, content: bytes, seen: str) -> None:
    (tmp_path / "a.html").write_bytes(content)
    assert [passage.text for passage in read_passages(tmp_path / "a.html")] == [seen]


@pytest.mark.parametrize("charset", ["", "no-such", "unicode_escape", "utf-8", "zlib", "idna"])
def test_a_page_with_an_invalid_encoding_is_read_as_latin_1(tmp_path: Path, charset: str) -> None:
    (tmp_path / "a.html").write_bytes(f"<meta charset='{charset}'>caf".encode() + b"\xe9")
    assert [passage.text for passage in read_passages(tmp_path / "a.html")] == ["café"]


PIECES = [
    "<",
    ">",
    "</",
    "/>",
    "<p>",
    "<h1>",
    "</h1>",
    "<nav>",
    "</nav>",
    "<title>",
    "</title>",
    "<!--",
    "-->",
    "<![",
    "<pre>",
]
MORE = ["&amp;", "&#x", "'", '"', "=", "a", " ", "\n", "<a b='", "<script>", "</script>", "<td>", "<?", "<!"]


@given(st.lists(st.sampled_from(PIECES + MORE)).map("".join) | st.text())
def test_any_text_can_be_read_as_a_page(text: str) -> None:
    document = html_document(text, "a.html")
    assert document.title and all(0 <= section.start <= len(document.text) for section in document.sections)
    for passage in chunk(document, Chunking()):
        assert passage.text == document.text[passage.start : passage.end]


@given(st.lists(st.sampled_from(["alpha", "beta", "<b>", "</b>", "<p>", "</div>", "<td>"])))
def test_every_word_outside_tags_is_kept(pieces: list[str]) -> None:
    words = [piece for piece in pieces if not piece.startswith("<")]
    assert html_document(" ".join(pieces), "a.html").text.split() == words


@pytest.mark.parametrize("piece", [*PIECES, *MORE, "<a", "<a b", "&#", "<a x='>'", "<!--->", "</a", "<nav><p>"])
def test_time_grows_linearly_with_the_page(piece: str) -> None:
    with cpu_limit():
        html_document(piece * (100_000 // len(piece)), "a.html")


def depth_and_size(page: str) -> tuple[int, int]:
    """How deep the tree of a page is, and how many elements it has."""
    deepest = count = 0
    level = [html_pages._parse(page)]
    while level := [child for node in level if node is not None for child in node.iter()]:
        deepest, count = deepest + 1, count + len(level)
    return deepest, count


@pytest.mark.parametrize(
    "unit",
    [
        "<div>",
        "<ul><li>",
        "<pre>\n",
        "<table><td>",
        "<a><div>",
        "<span>",
        "<div></span>",
        "<div><table><td></div></table>",
        "<div><select></div></select>",
        "<div><title></div></title>",
        "<div><iframe></div></iframe>",
        "<div><textarea></div></textarea>",
        "<div a='</div>'>",
        "<div a=</div>",
        "<div><![CDATA[</div>]]>",
        "<div><?x </div>?>",
        "<div><!--</div>-->",
        "<div><svg></div></svg>",
    ],
)
def test_a_very_deeply_nested_page_is_read_as_flat(unit: str) -> None:
    """The parser's time grows with the square of the depth: 16 MB of <div> would take it hours."""
    page = f"<h1>Bees</h1><p>Ada keeps bees.</p>{unit * 4_000}"
    deepest, count = depth_and_size(page)
    assert deepest < 1_000 and count < 20_000
    document = html_document(page, "a.html")
    assert document.text.startswith("Ada keeps bees.") and document.title == "Bees"


def test_unclosed_formatting_is_not_copied_into_every_paragraph() -> None:
    """400 open elements in 4,000 paragraphs would be 1.6 million."""
    bold = "".join(f"<b id={number}>" for number in range(400))
    page = f"<p>Ada keeps bees.{bold}" + "<p>and ants" * 4_000
    assert depth_and_size(page)[1] < 20_000
    assert html_document(page, "a.html").text.startswith("Ada keeps bees.\n\nand ants")


def test_a_large_valid_page_keeps_its_tables() -> None:
    table = "<table><tr><th>Keeper</th><th>Kept</th></tr><tr><td>Ada</td><td>bees</td></tr></table>"
    text = html_document(f"<div>{table}</div>" * 300, "a.html").text
    assert text.count("Keeper: Ada") == 300


def test_a_cell_that_spans_rows_repeats_its_visible_words() -> None:
    rows = '<tr><td rowspan="2" colspan="2">Latvia<td>Riga<tr><td>H<sub>2</sub>O<style>td{}</style>'
    page = f"<table><tr><th>Country<th>Of<th>City{rows}<tr><td>Norway<td>x<td>Oslo</table>"
    assert passages(page)[0][1] == (
        "Country: Latvia; City: Riga\n\nCountry: Latvia; City: H2O\n\nCountry: Norway; Of: x; City: Oslo"
    )


def test_years_may_be_column_names() -> None:
    page = "<table><tr><th>Region<th>2019<th>Q1 2020<th>7<tr><td>North<td>1<td>2<td>3</table>"
    assert passages(page)[0][1] == "Region: North; 2019: 1; Q1 2020: 2; 7: 3"


def test_very_large_spans_take_little_time() -> None:
    cells = "<td rowspan=999 colspan=999>x" * 20_000
    with cpu_limit(10):
        text = html_document(f"<table><tr><th>a<th>b<tr>{cells}{'<tr><td>y' * 20_000}</table>", "a.html").text
    assert len(text) < 5_000_000


@pytest.mark.parametrize("head", ["", "<?xml version='1.0'?>" + "<br/>" * 600])
def test_the_heading_of_a_note_begins_no_section(tmp_path: Path, head: str) -> None:
    path = tmp_path / "a.html"
    note = '<div class="note"><h3 class="title">Note</h3><p>The lamp is new.</p></div>'
    path.write_text(f"{head}<title>Capes</title><h2>The lamp</h2>{note}<p>It is seen from afar.</p>", encoding="utf-8")
    (passage,) = read_passages(path)
    assert passage.title == "Capes › The lamp"
    assert passage.text == "Note\n\nThe lamp is new.\n\nIt is seen from afar."


def test_a_row_whose_cells_hold_paragraphs_is_one_line() -> None:
    rows = "<tr><td><p>Aurora</p></td><td><p>1901</p></td></tr><tr><td><div>Borealis</div><td>19<br>22</tr>"
    rows += '<tr><td><ul><li>Cora<li>Dora</ul><td><p>1930</p><p>sunk <a href="b.html">here</a></p></tr>'
    document = html_document(f"<p>Ships</p><table>{rows}</table><p>End<p>.", "a.html")
    assert document.text == "Ships\n\nAurora 1901\nBorealis 19 22\nCora Dora 1930 sunk here\n\nEnd\n\n."
    assert [place for _, place in document.references] == ["b.html"]


def test_tables_that_lay_out_a_page_keep_paragraphs() -> None:
    for cells in (
        "<td><p>a</p><p>b</p>",
        "<td>x<td><h2>Part</h2><p>a</p><p>b</p>",
        "<td>x<td><table><tr><td><p>a</p><p>b</p></table>",
        f"<td>x<td><p>a</p><p>b</p>{'<p>long text</p>' * 200}",
    ):
        assert "a\n\nb" in html_document(f"<table><tr>{cells}</table>", "a.html").text
