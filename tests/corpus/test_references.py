"""Cross-references in documents, and retrieval that follows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.core.values import PLACE, Passage
from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.document import Document
from hoptree.corpus.html_pages import html_document
from hoptree.corpus.markdown import markdown_document
from hoptree.corpus.references import heading_anchor, places_of, references_of, resolve_link
from hoptree.corpus.rst import rst_document
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import folded, names_of
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.indexing import build_index, update_index
from hoptree.retrieval.linked import Linked


@pytest.mark.parametrize(
    ("href", "place"),
    [
        ("tables.html", "manual/tables.html"),
        ("tables.html#keys", "manual/tables.html#keys"),
        ("#keys", "manual/index.html#keys"),
        ("../faq/a%20b.html?x=1#c%20d", "faq/a b.html#c d"),
        ("https://example.org/x.html", ""),
        ("//example.org/x.html", ""),
        ("mailto:a@example.org", ""),
        ("/etc/passwd", ""),
        ("../../outside.html", ""),
        ("", ""),
        ("#", ""),
        ("a" * 400, ""),
    ],
)
def test_a_link_is_resolved_within_the_documents(href: str, place: str) -> None:
    assert resolve_link(href, "manual/index.html") == place


def places(document: Document) -> tuple[set[str], set[str]]:
    return {name for _, name in document.anchors}, {name for _, name in document.references}


def test_links_and_anchors_of_a_page_are_read() -> None:
    page = (
        "<?xml version='1.0'?><h1 id=top>Vacuum</h1><p>It is tuned as the <a href='cost.html#delay'>section on "
        'cost</a> says, and see <a href="other.html">that page</a> too.</p><h2 id="full">Full</h2><p>Text.</p>'
    )
    page = page.replace("'cost.html#delay'", '"cost.html#delay"').replace("id=top", 'id="top"')
    for text in (page, page + "<p>more</p>" * 600):  # long pages with such a head are repaired first
        anchors, references = places(html_document(text, "m/vacuum.html"))
        assert anchors == {"m/vacuum.html#top", "m/vacuum.html#full"}
        assert references == {"m/cost.html#delay", "m/other.html"}


def test_menus_and_lists_of_contents_are_no_references() -> None:
    page = (
        '<p><a href="a.html">Previous</a> the chapter on storage <a href="b.html">Next</a></p>'
        '<ul><li><a href="c.html">Chapter three</a></li></ul><p><a href="d.html">A</a> | <a href="e.html">Bee</a></p>'
        '<p>More is in <a href="f.html">the guide</a>, which is long.</p>'
    )
    assert places(html_document(page, "x.html"))[1] == {"f.html"}


def test_links_and_headings_of_markdown_are_read() -> None:
    text = (
        "# Set up\n\nRead [the guide](guide.md#first-steps) and ![a picture](x.png).\n\n## First steps, again!\n\nText."
    )
    anchors, references = places(markdown_document(text, "docs/a.md"))
    assert anchors == {"docs/a.md#set-up", "docs/a.md#first-steps-again"} and references == {
        "docs/guide.md#first-steps"
    }
    assert heading_anchor("Don't_stop: C++") == "dont_stop-c"


def test_labels_and_documents_of_restructured_text_are_read() -> None:
    text = ".. _Set Up:\n\nSet up\n======\n\nSee :ref:`the limits <limits>`, :ref:`other` and :doc:`../howto/run`.\n"
    anchors, references = places(rst_document(text, "guide/a.rst"))
    assert anchors == {"label:set up"} and references == {"label:limits", "label:other", "howto/run.rst"}


def passage(text: str, title: str = "Manual", document: str = "m.txt") -> Passage:
    return Passage(f"{document}#1", title, text, 0.0, document, 0, len(text))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("as described in section 4.2, which", "m.txt§4.2"),
        ("(see Chapter 5).", "m.txt§5"),
        ("steht in Abschnitt 3.1.2.", "m.txt§3.1.2"),
        ("siehe Kapitel 7 und", "m.txt§7"),
        ("gemäß § 12 gilt", "m.txt§12"),
        ("见第 3.1 节。", "m.txt§3.1"),
        ("参见第5章。", "m.txt§5"),
        ("as Appendix B says", "m.txt§B"),
        ("as was proposed in [RFC2119] by", "m.txt[rfc2119]"),
        ("which was shown before [12].", "m.txt[12]"),
    ],
)
def test_numbers_and_ids_in_a_text_are_references(text: str, place: str) -> None:
    assert references_of(passage(text)) == {PLACE + place}


@pytest.mark.parametrize("text", ["in this section", "a[0] = b[x](1)", "section 4.2.", "[1]: https://x.org", "第一章"])
def test_other_texts_do_not_refer_to_section_4_2(text: str) -> None:
    assert references_of(passage(text, "Manual › 4.2. Pools")) == set()


@pytest.mark.parametrize(
    ("heading", "place"),
    [
        ("4.2. Package pools", "m.txt§4.2"),
        ("4.2 Package pools", "m.txt§4.2"),
        ("Chapter 5. Names", "m.txt§5"),
        ("Kapitel 5", "m.txt§5"),
        ("A. Licence", "m.txt§A"),
        ("第 3 章 网络", "m.txt§3"),
        ("第3.1节 接口", "m.txt§3.1"),
    ],
)
def test_a_passage_below_a_numbered_heading_has_its_number(heading: str, place: str) -> None:
    assert places_of(passage("Text.", f"Manual › {heading}")) == {f"{PLACE}m.txt", PLACE + place}


@pytest.mark.parametrize("heading", ["7 ways out", "A dog's life", "Package pools", "2001"])
def test_other_headings_have_no_number(heading: str) -> None:
    assert places_of(passage("Text.", f"Manual › {heading}")) == {f"{PLACE}m.txt"}


def test_an_entry_has_its_id_and_pages_of_a_pdf_are_one_file() -> None:
    entry = passage("[RFC2119] S. Bradner: Key words.\n[2] Another.", document="m.pdf#page=9")
    assert places_of(entry) == {f"{PLACE}m.pdf", f"{PLACE}m.pdf[rfc2119]", f"{PLACE}m.pdf[2]"}
    assert references_of(passage("as [RFC2119] says", document="m.pdf#page=2")) == {f"{PLACE}m.pdf[rfc2119]"}


def test_a_place_belongs_to_the_passage_that_contains_it() -> None:
    text = "One two three. Four five six."
    document = Document("d", "D", text, anchors=((0, "d#a"), (14, "d#b")), references=((4, "x"), (4, "x"), (20, "y")))
    first, second = chunk(document, Chunking("words", 3))
    assert (first.anchors, first.references) == (("d#a",), ("x",))
    assert (second.anchors, second.references) == (("d#b",), ("y",))


def test_a_page_of_a_manual_has_its_section_too() -> None:
    assert names_of("ls(1)") == ("ls(1)",) and names_of("passwd(5)") == ("passwd", "passwd(5)")
    assert folded("ls(1)") == "ls 1" and names_of("Touki Bouki (film)") == ("Touki Bouki",)


MANUAL = {
    "limits.html": "<h1>Quotas</h1><p>The quota of a shelf is set as <a href='keeping.html#q7'>described there</a>, "
    "by the keeper of the shelf.</p>",
    "keeping.html": "<h1>Keeping</h1><h2>Lamps</h2><p>A lamp burns for nine hours.</p>"
    '<h2 id="q7">Ledger of marks</h2><p>Seventeen marks at most are written down.</p>',
    "other.html": "<h1>Boats</h1><p>A boat has an oar, and a quota of rowers is not set.</p>",
}


def build(folder: Path) -> Path:
    source = folder / "manual"
    source.mkdir()
    for name, text in MANUAL.items():
        (source / name).write_text(text.replace("'", '"'), encoding="utf-8")
    for number in range(8):
        text = f"<h1>Page {number}</h1><p>The keeper writes down how a shelf of number {number} is set in order.</p>"
        (source / f"page{number}.html").write_text(text, encoding="utf-8")
    build_index(source, folder / "idx")
    return source


def test_linked_search_follows_a_link_to_its_passage(tmp_path: Path) -> None:
    source = build(tmp_path)
    index = Index(tmp_path / "idx")
    asked = "How high may the quota of a shelf be set?"
    hits = [hit.id for hit in Linked(index).search_now(asked, 5)]
    assert "keeping.html#2" in hits and "keeping.html#1" not in hits
    links = index.open_links()
    assert links.references(key_of("limits.html#1")) == (f"{PLACE}keeping.html#q7",)
    assert all(PLACE not in name for name in links.mentions(key_of("limits.html#1")))
    # Another target of a link is a change, even if the words are the same.
    page = source / "limits.html"
    page.write_text(page.read_text(encoding="utf-8").replace("#q7", "#q8"), encoding="utf-8")
    update_index(tmp_path / "idx")
    later = Index(tmp_path / "idx").open_links()
    assert later.references(key_of("limits.html#1")) == (f"{PLACE}keeping.html#q8",)
