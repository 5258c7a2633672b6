"""Reading documents: text, Markdown, JSONL, packed or not, and what is said of files that are none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hoptree.corpus.read import PASSAGE_WORDS, read_passages
from hoptree.errors import CorpusError
from hoptree.values import Passage


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path) -> list[Passage]:
    return list(read_passages(path))


def test_a_text_file_is_a_passage_named_after_it(tmp_path: Path) -> None:
    path = write(tmp_path / "Kraków notes.txt", "First line\nsecond line.\n\nNext paragraph.\n")
    assert read(path) == [Passage("Kraków notes.txt#1", "Kraków notes", "First line second line. Next paragraph.")]


def test_paragraphs_are_put_together_up_to_the_length_of_a_passage(tmp_path: Path) -> None:
    half = " ".join(["word"] * (PASSAGE_WORDS // 2))
    passages = read(write(tmp_path / "a.txt", "\n\n".join([half] * 5)))
    assert [passage.id for passage in passages] == ["a.txt#1", "a.txt#2", "a.txt#3"]
    assert [len(passage.text.split()) for passage in passages] == [PASSAGE_WORDS, PASSAGE_WORDS, PASSAGE_WORDS // 2]


def test_no_word_is_lost(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(1000)]
    text = "\n\n".join(" ".join(words[start : start + 37]) for start in range(0, 1000, 37))
    assert " ".join(passage.text for passage in read(write(tmp_path / "a.txt", text))).split() == words


def test_markdown_headings_are_titles_and_part_passages(tmp_path: Path) -> None:
    text = "Before.\n\n# Whiplash\nA film.\n\nOf 2014.\n## Cast ##\n\nMiles Teller.\n\n#hashtag is text\n"
    assert read(write(tmp_path / "films.md", text)) == [
        Passage("films.md#1", "films", "Before."),
        Passage("films.md#2", "Whiplash", "A film. Of 2014."),
        Passage("films.md#3", "Whiplash › Cast", "Miles Teller. #hashtag is text"),
    ]


def test_a_heading_without_text_is_no_passage(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.md", "# One\n\n# Two\n\nText.\n\n# Three\n")) == [Passage("a.md#1", "Two", "Text.")]


def test_windows_line_ends_are_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"# One\r\nFirst.\r\n\r\n# Two\r\nSecond.\r\n")
    assert [(passage.title, passage.text) for passage in read(path)] == [("One", "First."), ("Two", "Second.")]


ROWS = [
    {"id": "a", "title": "T", "text": "One."},
    {"id": 2, "title": None, "text": "Two.", "more": [1]},
    {"id": "c", "text": "a\u2028b"},
]
PASSAGES = [Passage("a", "T", "One."), Passage("2", "", "Two."), Passage("c", "", "a\u2028b")]
JSONL = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n"


def test_jsonl_is_a_passage_a_line(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.jsonl", JSONL)) == PASSAGES


def test_packed_jsonl_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(JSONL.encode()))
    assert read(path) == PASSAGES


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        '{"id": "x"}',
        '{"text": "x"}',
        "[]",
        "3",
        '"text"',
        "null",
        '{"id": "x", "text"',
        "[" * 5000,
        "9" * 5000,
    ],
)
def test_a_line_that_is_no_passage_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "a.jsonl", f"{json.dumps(ROWS[0])}\n\n{line}\n")
    with pytest.raises(CorpusError, match=r"Line 3 of .*a\.jsonl is no passage"):
        read(path)


def test_a_markdown_file_about_jsonl_is_markdown(tmp_path: Path) -> None:
    assert [passage.text for passage in read(write(tmp_path / "about.jsonl.md", "Some words."))] == ["Some words."]


def test_a_folder_is_read_in_the_order_of_names_with_ids_that_tell_files_apart(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "B.")
    write(tmp_path / "a" / "z.md", "Z.")
    write(tmp_path / "a" / "b.txt", "AB.")
    write(tmp_path / "picture.png", "not read")
    (tmp_path / "folder.txt").mkdir()
    assert [passage.id for passage in read(tmp_path)] == ["a/b.txt#1", "a/z.md#1", "b.txt#1"]


def test_an_empty_file_holds_no_passage(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.txt", " \n\n ")) == []
    assert read(write(tmp_path / "a.jsonl", "\n")) == []


def test_what_does_not_exist_is_a_corpus_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="There is no"):
        read(tmp_path / "none")


def test_a_folder_without_documents_is_a_corpus_error(tmp_path: Path) -> None:
    write(tmp_path / "picture.png", "x")
    with pytest.raises(CorpusError, match="holds no document") as caught:
        read(tmp_path)
    assert ".jsonl" in caught.value.remedy


def test_a_file_of_another_kind_is_a_corpus_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no document of a known kind"):
        read(write(tmp_path / "a.pdf", "x"))


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.jsonl"])
def test_a_file_that_is_no_text_is_a_corpus_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"caf\xe9 \xff\xfe")
    with pytest.raises(CorpusError, match="cannot be read"):
        read(path)


PACKED = gzip.compress(JSONL.encode() * 20)


@pytest.mark.parametrize(
    "damaged",
    [
        b"not packed",
        PACKED[:-20],
        PACKED[:15],
        PACKED[:12] + b"\xff" * 20 + PACKED[32:],
        PACKED[:-8] + b"\0" * 8,
        b"\x1f\x8b",
    ],
    ids=["not packed", "cut", "cut early", "garbled", "wrong checksum", "header only"],
)
def test_a_damaged_archive_is_a_corpus_error(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(damaged)
    with pytest.raises(CorpusError):
        read(path)


def test_a_section_is_titled_with_the_headings_above_it(tmp_path: Path) -> None:
    text = "# Ottoline Brask\n\nA keeper.\n\n## Family\n\nShe married.\n\n# Other\n\n```\n# no heading\n```\n"
    titles = [passage.title for passage in read(write(tmp_path / "brask.md", text))]
    assert titles == ["Ottoline Brask", "Ottoline Brask › Family", "Other"]


def test_a_byte_order_mark_and_capitals_in_a_suffix_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "A.MD").write_bytes(b"\xef\xbb\xbf# Title\n\nText.\n")
    assert [(passage.title, passage.text) for passage in read(tmp_path)] == [("Title", "Text.")]


def test_hidden_folders_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    write(tmp_path / ".venv" / "LICENSE.txt", "Theirs.")
    write(tmp_path / "mine.txt", "Mine.")
    assert [passage.text for passage in read(tmp_path)] == ["Mine."]


@pytest.mark.parametrize("row", ['{"id": null, "text": "x"}', '{"id": "1", "text": null}', '{"id": "1", "text": {}}'])
def test_a_passage_without_id_or_text_is_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(CorpusError, match="Line 1"):
        read(write(tmp_path / "a.jsonl", row))
