"""Markdown: headings, front matter, fenced code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.markdown import markdown_document


def passages(text: str, name: str = "notes/films.md") -> list[tuple[str, str]]:
    return [(passage.title, passage.text) for passage in chunk(markdown_document(text, name), Chunking())]


def test_headings_are_titles_and_separate_passages() -> None:
    text = "# Whiplash\nA film.\n\nOf 2014.\n## Cast ##\n\nMiles Teller.\n\n#hashtag is text\n# C#\nA language.\n"
    assert passages(text) == [
        ("Whiplash", "A film.\n\nOf 2014."),
        ("Whiplash › Cast", "Miles Teller.\n\n#hashtag is text"),
        ("C#", "A language."),
    ]


def test_a_heading_without_text_is_no_passage() -> None:
    assert passages("# One\n\n# Two\n\nText.\n\n# Three\n") == [("Two", "Text.")]


def test_underlined_headings_differ_from_rules_and_tables() -> None:
    text = "Whiplash\n========\nA film.\n\nCast\n---\nTeller.\n\n---\n\nMore\ntext\n---\n\n"
    text += "| a | b |\n|---|---|\n\n- x\n---\n"
    document = markdown_document(text, "a.md")
    assert [section.title for section in document.sections] == ["Whiplash", "Whiplash › Cast"]
    assert passages(text)[0] == ("Whiplash", "A film.")
    assert passages("A\n===\nB\n---\nx") == [("A › B", "x")]


@pytest.mark.parametrize("fence", ["```", "~~~~", "```python"])
def test_fenced_code_has_no_headings(fence: str) -> None:
    closing = fence.rstrip("python")
    text = f"# A\n\n{fence}\n# comment\nTitle\n===\n``\n{closing}\n\n# B\n\nText.\n"
    assert [section.title for section in markdown_document(text, "a.md").sections] == ["A", "B"]


def test_a_fence_is_closed_only_by_its_own_kind() -> None:
    text = "````\n```\n# no\n~~~~\n# no\n````\n# yes\ntext"
    assert [section.title for section in markdown_document(text, "a.md").sections] == ["yes"]
    assert [s.title for s in markdown_document("```a`b```\n# yes\nx", "a.md").sections] == ["yes"]


def test_front_matter_gives_the_title_and_is_in_no_passage() -> None:
    text = (
        "---\ntitle: 'Ottoline Brask'\naliases: [Otti, \"O. Brask\"]\ntags:\n  - keeper\n  - 'north'\n"
        "year: 1902\nempty:\n# comment\n---\nA keeper.\n\n## Family\n\nShe married.\n\n# Ottoline\nx\n"
    )
    document = markdown_document(text, "b.md")
    assert document.title == "Ottoline Brask" and document.aliases == ("Otti", "O. Brask")
    assert document.metadata == (("tags", "keeper"), ("tags", "north"), ("year", "1902"))
    assert passages(text) == [
        ("Ottoline Brask", "A keeper."),
        ("Ottoline Brask › Family", "She married."),
        ("Ottoline", "x"),
    ]


@pytest.mark.parametrize(
    "text", ["---\nno front matter here\n---\nx", "---\ntitle: never closed\n", "----\na: b\n---\n"]
)
def test_a_rule_at_the_top_is_no_front_matter(text: str) -> None:
    document = markdown_document(text, "b.md")
    assert document.metadata == () and document.title != "never closed"


def test_the_title_is_the_first_heading_or_the_file_name() -> None:
    assert markdown_document("Before.\n\n## [Cast](x.md) of **`W`**\n\nx", "a.md").title == "Cast of W"
    assert markdown_document("Words.", "folder/My notes.md.gz").title == "My notes"


def test_links_code_and_emphasis_are_read_as_text() -> None:
    text = (
        'See [the *guide*](guide.md "x"), ![a picture](p.png) or <https://a.org>, **not** `x_y_z` or ``a`b``.\n'
        "[![badge](b.svg)](ci) snake_case 2*3*4 \\*kept\\*<br>\n\n```python\nx = [1](2)\n```\n\n- one\n- _two_\n"
    )
    assert passages(text)[0][1] == (
        "See the guide, a picture or https://a.org, not x_y_z or a`b.\n"
        "badge snake_case 2*3*4 *kept*\n\nx = [1](2)\n\none\ntwo"
    )


def test_a_row_of_a_table_has_the_names_of_its_columns() -> None:
    text = "| Film | Year |\n|---|---:|\n| *Red Kite* | 2014 |\n| Blue | |\n"
    assert passages(text) == [("films", "Film: Red Kite; Year: 2014\n\nFilm: Blue")]


@given(
    st.lists(st.sampled_from(["# ", "#", "\n", "---\n", "===", "```", "~~~", "ab", "a: b", "- ", " ", "[x](y)"])).map(
        "".join
    )
    | st.text()
)
def test_passages_are_slices_of_any_text(text: str) -> None:
    document = markdown_document(text, "a.md")
    starts = [section.start for section in document.sections]
    assert starts == sorted(starts) and document.title
    for passage in chunk(document, Chunking()):
        assert passage.text == document.text[passage.start : passage.end]


# "+ ", as "- " below a line makes it a heading.
@given(st.lists(st.sampled_from(["alpha", "*beta*", "`gamma`", "[delta](x)", "\n\n", "+ ", "> ", "```\n"])))
def test_every_word_outside_markup_is_kept(pieces: list[str]) -> None:
    document = markdown_document(" ".join(pieces), "a.md")
    for word in ("alpha", "beta", "gamma", "delta"):
        assert document.text.count(word) == sum(word in piece for piece in pieces)


@pytest.mark.parametrize("piece", ["#", "# [", "```\n", "-", "a\n---\n", "# h\n", "[", "---\na: b\n", "\n", " .", "漢"])
def test_time_grows_linearly_with_the_text(piece: str) -> None:
    with cpu_limit(5):
        list(chunk(markdown_document(piece * (100_000 // len(piece)), "a.md"), Chunking()))


def test_links_with_brackets_and_entities_are_read_as_text() -> None:
    text = "See [Foo](https://a.org/Foo_(bar)), [a](<b c.md>) and [x](a.md 'T'): AT&amp;T &lt;b&gt; &#xE000;`&amp;` &x;"
    assert passages(text)[0][1] == "See Foo, a and x: AT&T <b>  &amp; &x;"
