"""Documents are cut into exact slices of the requested size and overlap, without losing words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking, Tokenizer, chunk, load_tokenizer
from hoptree.corpus.document import Document, Section
from hoptree.corpus.markdown import markdown_document
from hoptree.corpus.read import read_passages


def pieces(text: str) -> list[tuple[int, int]]:
    """Tokens of up to three characters of a word, as models make them."""
    return [match.span() for match in re.finditer(r"\w{1,3}|[^\w\s]", text)]


def cut(text: str, chunking: Chunking, tokenizer: Tokenizer | None = None, **more: object) -> list[Passage]:
    document = Document("d", "D", text, (), (), more.get("sections", ()), bool(more.get("is_passage")))  # type: ignore[arg-type]
    passages = list(chunk(document, chunking, tokenizer))
    for passage in passages:
        assert passage.text == text[passage.start : passage.end] == passage.text.strip() or more.get("is_passage")
        assert passage.document == "d"
    return passages


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("auto", Chunking()),
        ("words", Chunking("words", 200)),
        ("words:100", Chunking("words", 100)),
        (" words:200:20", Chunking("words", 200, 20)),
        ("tokens:256:32", Chunking("tokens", 256, 32)),
        ("sections", Chunking("sections", 1000)),
        ("sections:300", Chunking("sections", 300)),
    ],
)
def test_the_option_of_the_command_line_is_parsed(spec: str, meant: Chunking) -> None:
    assert Chunking.parse(spec) == meant
    assert Chunking.parse(str(meant)) == meant


@given(
    st.sampled_from(["auto", "words", "tokens", "sections"]),
    st.integers(1, 999_999_999).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))),
)
def test_every_chunking_can_be_written_and_parsed(by: Any, numbers: tuple[int, int]) -> None:
    chunking = Chunking(by, *numbers)
    assert Chunking.parse(str(chunking)) == chunking


def test_an_invalid_size_is_refused() -> None:
    with pytest.raises(ConfigError):
        Chunking("words", 10**9)


@pytest.mark.parametrize(
    "spec", ["", "lines:3", "words:", "words:x", "words:-1", "words:0", "words:5:5", "words:1:2:3", "auto:x", "words:²"]
)
def test_an_invalid_option_is_refused_with_a_remedy(spec: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Chunking.parse(spec)
    assert "words:SIZE" in caught.value.remedy or "overlap" in caught.value.remedy


def test_paragraphs_are_kept_together_then_sentences() -> None:
    half = " ".join(["word"] * 100)
    assert [len(p.text.split()) for p in cut("\n\n".join([half] * 5), Chunking())] == [200, 200, 100]
    paragraphs = cut("\n\n".join([" ".join(["word"] * 60)] * 5), Chunking("words", 100))
    assert [len(p.text.split()) for p in paragraphs] == [60] * 5
    sentences = cut(" ".join(["one two three four."] * 10), Chunking("words", 10))
    assert all(p.text.endswith("four.") for p in sentences)
    early = cut(
        "One two three four five six. Seven with Dr. Who and J. R. Smith, e.g. here and there.", Chunking("words", 10)
    )
    assert early[1].text.startswith("Seven with Dr. Who"), (
        "a passage begins at a sentence, if half of one can be filled"
    )
    lines = cut("\n".join(["one two three four"] * 5), Chunking("words", 10))
    assert all(p.text.startswith("one") for p in lines)


def test_no_passage_crosses_or_contains_a_heading() -> None:
    document = markdown_document("Before.\n# A\none\n## B\ntwo\n\nthree\n", "x.md")
    for chunking in (Chunking(), Chunking("words", 200), Chunking("sections"), Chunking("tokens", 50)):
        passages = list(chunk(document, chunking, pieces))
        assert [(p.id, p.title, p.text) for p in passages] == [
            ("x.md#1", "A", "Before."),
            ("x.md#2", "A", "one"),
            ("x.md#3", "A › B", "two\n\nthree"),
        ]


def test_a_row_is_cut_only_on_request() -> None:
    text = " one two three "
    (passage,) = cut(text, Chunking(), is_passage=True)
    assert (passage.id, passage.text, passage.start, passage.end) == ("d", text, 0, len(text))
    assert [p.id for p in cut(text, Chunking("words", 3), is_passage=True)] == ["d"]
    assert [p.id for p in cut(text, Chunking("words", 2), is_passage=True)] == ["d#1", "d#2"]
    assert [p.id for p in cut(text, Chunking("words", 3))] == ["d#1"]


def test_scripts_without_spaces_are_cut() -> None:
    passages = cut("漢字かな" * 100, Chunking("words", 100))
    assert [len(p.text) for p in passages] == [100] * 4
    assert len(cut("x" * 2500, Chunking("words", 1))) == 3


def test_every_passage_has_the_names_and_metadata() -> None:
    document = Document("d", "D", "a b c", ("Dee",), (("year", "1"),))
    assert {(p.aliases, p.metadata) for p in chunk(document, Chunking("words", 1))} == {(("Dee",), (("year", "1"),))}


WORDS = st.lists(st.sampled_from(["a", "bb.", "Ccc", "d!", "é", "x-y", "(z)."]), max_size=60)
GAPS = st.sampled_from([" ", "\n", "\n\n", "  ", " \n \n", "\t"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    return draw(GAPS) + "".join(word + draw(GAPS) for word in draw(WORDS))


@given(texts(), st.integers(1, 12), st.data())
def test_all_words_are_kept_with_the_requested_size_and_overlap(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    passages = cut(text, Chunking("words", size, overlap))
    assert all(1 <= len(p.text.split()) <= size for p in passages)
    for before, after in pairwise(passages):
        shared = text[after.start : before.end].split() if after.start < before.end else []
        assert len(shared) == overlap
    joined = [word for n, p in enumerate(passages) for word in p.text.split()[overlap if n else 0 :]]
    assert joined == text.split()


@given(st.text(max_size=200), st.integers(1, 9), st.data())
def test_any_text_is_cut_by_tokens_without_loss(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    passages = cut(text, Chunking("tokens", size, overlap), pieces)
    covered = set().union(*(range(p.start, p.end) for p in passages)) if passages else set()
    assert all(at in covered or character.isspace() for at, character in enumerate(text))
    assert all(len(pieces(p.text)) <= size for p in passages)


@given(st.text(max_size=300), st.sampled_from(["auto", "words:5:2", "sections:7"]))
def test_any_text_is_cut_by_words_without_loss(text: str, spec: str) -> None:
    passages = cut(text, Chunking.parse(spec))
    covered = set().union(*(range(p.start, p.end) for p in passages)) if passages else set()
    assert all(at in covered or character.isspace() for at, character in enumerate(text))


def test_sections_of_any_kind_are_cut_at_their_starts() -> None:
    sections = (Section(2, "A", 2), Section(4, "B"), Section(4, "C"), Section(9, "E"))
    assert [(p.title, p.text) for p in cut("x #Ay z w", Chunking(), sections=sections)] == [
        ("D", "x"),
        ("D › C", "y z w"),
    ]


def test_tokens_need_a_tokenizer() -> None:
    with pytest.raises(ConfigError, match="needs a tokenizer"):
        cut("a b", Chunking("tokens", 5))


def test_a_tokenizer_file_counts_the_tokens(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    model = tokenizers.models.WordPiece(
        {"[UNK]": 0, "whip": 1, "##lash": 2, "is": 3, "a": 4, "film": 5}, unk_token="[UNK]"
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(path))
    passages = cut("whiplash is a film é whiplash", Chunking("tokens", 4, 1), load_tokenizer(path))
    assert [p.text for p in passages] == ["whiplash is a", "a film é", "é whiplash"]


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: str | None) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="not a tokenizer"):
        load_tokenizer(path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_folder_or_pipe_is_no_tokenizer(tmp_path: Path, make: Callable[[Path], None]) -> None:
    pytest.importorskip("tokenizers")
    make(tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="is not a file"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_a_very_long_row_is_cut_into_passages(tmp_path: Path) -> None:
    """A search that finds a row of 50 MB would read and send all of it."""
    rows = tmp_path / "rows.jsonl"
    text = "Anna Bell was born in Rome. " * 200_000
    rows.write_text(json.dumps({"id": "r", "title": "t", "text": text}) + "\n", encoding="utf-8")
    passages = list(read_passages(rows))
    assert [passage.id for passage in passages[:2]] == ["r#1", "r#2"]
    assert max(len(passage.text) for passage in passages) < 2_000
    assert sum(len(passage.text) + 1 for passage in passages) >= len(text)
    assert passages[1].text == text[passages[1].start : passages[1].end]
