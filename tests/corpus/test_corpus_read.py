"""A corpus is read from files of many kinds, packings and encodings; other files are reported."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking
from hoptree.corpus.document import Problems
from hoptree.corpus.files import SourceFile, find_files
from hoptree.corpus.kinds import SUFFIXES
from hoptree.corpus.read import format_of, read_documents, read_file, read_passages


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path) -> list[Passage]:
    return list(read_passages(path))


def lenient(path: Path, limit: int = 100) -> tuple[list[Passage], Problems]:
    problems = Problems(limit)
    return list(read_passages(path, problems=problems)), problems


ROWS = [
    {"id": "a", "title": "T", "text": "One."},
    {"id": 2, "title": None, "text": "Two.", "more": [1]},
    {"id": "c", "text": "a\u2028b"},
]
PASSAGES = [
    Passage("a", "T", "One.", document="a", end=4),
    Passage("2", "", "Two.", document="2", end=4, metadata=(("more", "1"),)),
    Passage("c", "", "a\u2028b", document="c", end=3),
]
JSONL = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n"
PACKED = gzip.compress(JSONL.encode(), mtime=0)


def test_a_text_file_is_a_document_named_after_it(tmp_path: Path) -> None:
    text = "First line\nsecond line.\n\nNext paragraph."
    path = write(tmp_path / "Kraków notes.txt", f"\n{text}\n")
    name = "Kraków notes.txt"
    assert read(path) == [Passage(f"{name}#1", "Kraków notes", text, document=name, start=1, end=1 + len(text))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", JSONL.encode()),
        ("a.ndjson", JSONL.encode()),
        ("a.json", JSONL.encode()),
        ("a.jsonl", b"\xef\xbb\xbf" + JSONL.encode()),
        ("a.jsonl", JSONL.replace("\n", "\r\n").encode()),
        ("a.jsonl", JSONL.encode("utf-16")),
        ("a.json", JSONL.encode("utf-16")),
        ("a.jsonl.gz", PACKED),
        ("A.JSONL.GZ", PACKED),
        ("unmarked.jsonl", PACKED),
        ("unpacked.jsonl.gz", JSONL.encode()),
        (
            "members.jsonl.gz",
            gzip.compress(JSONL[:9].encode(), mtime=0) + gzip.compress(JSONL[9:].encode(), mtime=0) + b"\0" * 600,
        ),
        (
            "padded.jsonl.gz",
            gzip.compress(JSONL[:9].encode(), mtime=0) + b"\0" * 9999 + gzip.compress(JSONL[9:].encode(), mtime=0),
        ),
        ("array.json", json.dumps(ROWS).encode()),
        ("array.jsonl", json.dumps(ROWS, indent=2).encode()),
        ("array.json.gz", gzip.compress(json.dumps(ROWS, ensure_ascii=False).encode(), mtime=0)),
        ("last line open.jsonl", JSONL.rstrip().encode()),
    ],
)
def test_rows_of_every_file_format_are_passages(tmp_path: Path, name: str, content: bytes) -> None:
    assert read(write(tmp_path / name, content)) == PASSAGES


def test_every_known_kind_has_a_reader(tmp_path: Path) -> None:
    mail = "Subject: A film\n\nSome words."
    bodies = {
        ".eml": mail,
        ".mbox": f"From a@b.c\n{mail}",
        ".ipynb": '{"cells": [{"cell_type": "raw", "source": "words"}]}',
    }
    bodies |= dict.fromkeys((".json", ".jsonl", ".ndjson"), JSONL)
    for suffix in set(SUFFIXES) - {".pdf", ".docx", ".pptx", ".xlsx", ".epub"}:
        body = bodies.get(suffix, "Some words.")
        assert read(write(tmp_path / f"a{suffix}", body)), suffix
        assert read(write(tmp_path / f"a{suffix}.gz", gzip.compress(body.encode()))), suffix


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("not json", "broken lines"),
        ('{"id": "x", "text"', "broken lines"),
        ("{} {}", "broken lines"),
        ("[" * 100_000, "broken lines"),
        ('{"a":' * 100_000, "broken lines"),
        ('{"id": ' + "9" * 5000 + ', "text": "x"}', "broken lines"),
        ('{"id": "x"}', "records without text"),
        ('{"id": "x", "text": 3}', "records without text"),
        ('{"id": "1", "text": null}', "records without text"),
        ('{"id": "1", "text": {}}', "records without text"),
        ('{"id": ["x"], "text": "x"}', "records without text"),
        ('{"id": "q", "question": "Who?"}', "records without text"),
        ("[]", "records without text"),
        ("3", "records without text"),
        ('"text"', "records without text"),
        ("null", "records without text"),
        ("[[[1]]]", "records without text"),
    ],
)
def test_a_line_without_a_passage_is_skipped_and_reported_by_number(tmp_path: Path, line: str, kind: str) -> None:
    path = write(tmp_path / "a.jsonl", f"{json.dumps(ROWS[0])}\n\n{line}\n{json.dumps(ROWS[2])}\n")
    passages, problems = lenient(path)
    assert [passage.id for passage in passages] == ["a", "c"]
    assert problems.counts == {kind: 1} and problems.sentences[0].startswith("Line 3 of a.jsonl ")
    with pytest.raises(CorpusError, match=r"^Line 3 of a\.jsonl .*--skip-broken"):
        read(path)


def test_a_lone_surrogate_in_deep_nesting_breaks_only_its_row(tmp_path: Path) -> None:
    deep = '{"id": "\\ud83d", "x": ' + "[" * 600 + "]" * 600 + "}\n"
    passages, problems = lenient(write(tmp_path / "a.jsonl", deep + JSONL))
    assert passages == PASSAGES and problems.broken == 1


def test_a_line_in_another_encoding_is_skipped(tmp_path: Path) -> None:
    latin = json.dumps({"id": "l", "text": "café"}, ensure_ascii=False).encode("latin-1")
    passages, problems = lenient(write(tmp_path / "a.jsonl", latin + b"\n" + JSONL.encode()))
    assert passages == PASSAGES and problems.sentences == ["Line 1 of a.jsonl is not UTF-8 text."]


def test_too_many_broken_lines_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", "x\n" * 30 + JSONL)
    with pytest.raises(CorpusError, match=r"More than 29 .*Line 30 of a.jsonl") as caught:
        lenient(path, limit=29)
    assert "--skip-broken" in caught.value.remedy and caught.value.exit_code == 2
    passages, problems = lenient(path, limit=30)
    assert passages == PASSAGES
    assert len(problems.sentences) == 20 and problems.summary() == "broken lines: 30"


def test_no_number_of_broken_files_is_an_error(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path / f"{number}.docx", b"nothing")
    write(tmp_path / "a.txt", "Words.")
    passages, problems = lenient(tmp_path, limit=3)
    assert [passage.text for passage in passages] == ["Words."] and problems.broken == 30


def test_files_of_an_unknown_kind_are_reported_once_in_one_line(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png", "sub/c.exe", "d.txt"):
        write(tmp_path / name, "Words.")
    problems = Problems()
    assert len(list(read_passages(tmp_path, problems=problems))) == 1
    assert problems.report() == (
        "4 files of an unknown kind (.png 3, .exe 1), such as: a.png is not a document of a known kind.",
    )
    write(tmp_path / "new.png", "x")
    again = Problems(known=problems.passed)
    assert len(list(read_passages(tmp_path, problems=again))) == 1
    assert again.report() == ("new.png is not a document of a known kind.",)
    assert again.passed == ["a.png", "b.png", "c.png", "new.png", "sub/c.exe"]


def test_many_problems_of_one_kind_do_not_hide_another_kind() -> None:
    problems = Problems()
    for number in range(30):
        problems.add("broken lines", f"Line {number}.")
        problems.note("links not followed", f"link{number}")
    for number in range(7):
        problems.add("damaged documents", f"{number}.pdf")
        problems.note("empty documents", f"{number}.txt")
    assert problems.sentences[20:] == [f"{number}.pdf" for number in range(5)]
    assert problems.notes[20:] == [f"{number}.txt" for number in range(5)]


def test_items_before_a_break_in_an_array_are_kept(tmp_path: Path) -> None:
    text = json.dumps(ROWS, indent=1)
    for broken in (text[:-2], text.replace('"c"', "c"), text[: text.index('"c"')], text.replace("2,", "2")):
        passages, problems = lenient(write(tmp_path / "a.json", broken))
        assert passages[0] == PASSAGES[0] and problems.counts == {"broken lines": 1}, broken
    assert lenient(write(tmp_path / "a.json", "{" + " " * 2_000_000))[1].broken == 1


def test_a_number_across_two_blocks_is_one_item(tmp_path: Path) -> None:
    for spaces in range(2**18 - 8, 2**18):
        problems = lenient(write(tmp_path / "a.json", "[" + " " * spaces + "1234567]"))[1]
        assert problems.counts == {"records without text": 1}


def test_an_item_of_an_array_is_reported_by_its_line(tmp_path: Path) -> None:
    _, problems = lenient(write(tmp_path / "a.json", '[\n{"id": 1,\n "text": "x"},\n\n{"id": 2}, 3,\n{"id"}]'))
    assert [sentence[:6] for sentence in problems.sentences] == ["Line 5", "Line 5", "Line 6"]


def test_an_array_is_read_item_by_item_across_blocks(tmp_path: Path) -> None:
    rows = [{"id": str(number), "title": "é" * 3, "text": "x" * (number * 37 % 90_000)} for number in range(1, 200)]
    path = write(tmp_path / "a.json", json.dumps(rows, ensure_ascii=False))
    assert [(p.id, p.text) for p in read(path)] == [(row["id"], row["text"]) for row in rows]


@pytest.mark.parametrize(
    ("damaged", "least"),
    [
        (gzip.compress(JSONL.encode() * 500, mtime=0)[:-9], 1400),
        (PACKED[:15], 0),
        (PACKED[:12] + b"\xff" * 20 + PACKED[32:], 0),
        (PACKED[:-8] + b"\0" * 8, 0),
        (PACKED + b"something else", 3),
        (b"\x1f\x8b", 0),
        (b"\x1f\x8bnot packed", 0),
    ],
    ids=["cut", "cut early", "garbled", "wrong checksum", "more behind", "header only", "no archive"],
)
def test_a_damaged_archive_is_reported_and_its_intact_part_kept(tmp_path: Path, damaged: bytes, least: int) -> None:
    passages, problems = lenient(write(tmp_path / "a.jsonl.gz", damaged))
    assert len(passages) >= least and problems.counts["damaged archives"] == 1
    text = lenient(write(tmp_path / "a.txt.gz", damaged))[1]
    assert text.counts["damaged archives"] == 1


def test_the_intact_part_of_a_packed_text_is_kept(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(b"%d words. " % number for number in range(50_000)))
    passages, problems = lenient(write(tmp_path / "a.txt.gz", packed[: len(packed) // 2]))
    assert len(passages) > 100 and problems.broken == 1


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.json", "a.jsonl"])
@pytest.mark.parametrize(
    "content", [b"caf\xe9 \x01\x02\x03", b"a\0b\0c\0d\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1", b"\xff\xfea\0\xd8"]
)
def test_a_binary_file_is_skipped_and_counted(tmp_path: Path, name: str, content: bytes) -> None:
    write(tmp_path / name, content)
    write(tmp_path / "z.txt", "Fine.")
    passages, problems = lenient(tmp_path)
    assert [passage.text for passage in passages] == ["Fine."]
    assert problems.broken >= 1 and name in problems.sentences[0]
    with pytest.raises(CorpusError):
        read(tmp_path)


def test_texts_with_a_byte_order_mark_or_stray_nulls_are_read(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-32", "utf-8-sig", "utf-16-le", "utf-16-be"):
        assert [p.text for p in read(write(tmp_path / "a.txt", "Łódź and more".encode(encoding)))] == ["Łódź and more"]
    assert [p.text for p in read(write(tmp_path / "a.txt", "many words here and\0there"))] == [
        "many words here and there"
    ]


def test_a_text_that_is_no_utf8_is_read_as_latin_1_with_a_note(tmp_path: Path) -> None:
    for name in ("a.txt", "README", "a.md", "a.rst", "a.csv"):
        passages, problems = lenient(write(tmp_path / name, "Die Übergröße – „groß“".encode("cp1252")))
        assert [passage.text for passage in passages] == ["Die Übergröße – „groß“"]
        assert problems.broken == 0 and problems.notes == [f"{name} is no UTF-8 text and was read as Latin-1."]
    assert lenient(write(tmp_path / "a.txt", "Größe".encode("latin-1")))[0][0].text == "Größe"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gb18030", "谨献给 Joel Klecker。七月十一日，自由软件社团失去了他，他是一位开发者。"),
        ("euc_jp", "これは日本語の文書です。2000 年 7 月 11 日に彼は亡くなりました。"),
        ("euc_kr", "이것은 한국어 문서입니다. 그는 칠월에 세상을 떠났습니다."),
    ],
)
def test_high_bytes_in_pairs_are_chinese_japanese_or_korean(tmp_path: Path, encoding: str, text: str) -> None:
    passages, problems = lenient(write(tmp_path / "a.txt", text.encode(encoding)))
    assert [passage.text for passage in passages] == [text]
    assert problems.notes == [f"a.txt is no UTF-8 text and was read as {encoding}."]


def test_an_empty_file_has_no_passage(tmp_path: Path) -> None:
    for name in ("a.txt", "a.md", "a.html", "a.jsonl", "a.json", "a.tsv"):
        for content in (b"", b" \n\n ", b"\0" * 100):
            passages, problems = lenient(write(tmp_path / name, content))
            assert passages == [], name
            assert problems.broken <= 1


def test_a_long_line_is_one_passage_and_an_oversized_one_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": "a", "title": "", "text": "x" * 90_000}, {"id": "b", "title": "", "text": "y"}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert [len(passage.text) for passage in read(path)] == [90_000, 1]
    monkeypatch.setattr("hoptree.corpus.json_rows.MAX_LINE_BYTES", 1000)
    passages, problems = lenient(path)
    assert [passage.id for passage in passages] == ["b"] and problems.counts == {"oversized lines or files": 1}


def test_progress_is_reported_in_bytes_of_the_files(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl.gz", PACKED)
    write(tmp_path / "b.txt", "Words.")
    heard: list[int] = []
    for file in find_files(tmp_path):
        list(read_file(file, problems=Problems(), on_bytes=heard.append))
        assert heard == sorted(heard) and heard[-1] == file.size
        heard.clear()
    file = next(find_files(tmp_path))
    assert len(list(read_documents(file, problems=Problems(), on_bytes=heard.append))) == 3
    assert heard[-1] == file.size


def test_a_file_that_vanished_is_skipped(tmp_path: Path) -> None:
    problems = Problems()
    for name in ("gone.txt", "gone.jsonl"):
        assert list(read_file(SourceFile(tmp_path / name, name, 1, 1), problems=problems)) == []
    assert problems.counts == {"unreadable files": 2}


def test_rows_are_cut_only_on_request(tmp_path: Path) -> None:
    text = " ".join(f"w{number}" for number in range(25))
    path = write(tmp_path / "a.jsonl", json.dumps({"id": "a", "title": "T", "text": text}) + '\n{"id":"b","text":"x"}')
    assert [p.id for p in read(path)] == ["a", "b"]
    cut = list(read_file(next(find_files(path)), problems=Problems(), chunking=Chunking("words", 10)))
    assert [(p.id, p.title, p.document) for p in cut] == [
        *((f"a#{n}", "T", "a") for n in (1, 2, 3)),
        ("b", "", "b"),
    ]


@given(st.binary(max_size=400), st.sampled_from([".txt", ".md", ".html", ".jsonl", ".json", ".tsv", ".jsonl.gz"]))
def test_any_bytes_are_read_without_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{kind}"
    for content in (data, gzip.compress(data), gzip.compress(data)[:-5]):
        passages, _ = lenient(write(path, content), limit=10_000)
        for passage in passages:
            passage.text.encode()
            assert passage.id and passage.text.strip()


FORMS = ("id", "_id", "idx", "title", "text", "contents", "section", "aliases", "metadata", "url", "other")
CONTEXTS = ("context", "question", "paragraphs", "paragraph_text", "sentences", "content")
FIELDS = st.sampled_from((*FORMS, *CONTEXTS, "wikipedia_id", "wikipedia_title"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=6), max_size=4))
def test_any_rows_are_read_the_same_as_lines_and_as_an_array(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    rows = [{"id": "first", "text": "A passage."}, *rows]  # above the limit the file may be of another kind
    lines = lenient(write(folder / "any.jsonl", "\n".join(map(json.dumps, rows))), limit=10_000)[0]
    array = lenient(write(folder / "any.json", json.dumps(rows, indent=1)), limit=10_000)[0]
    assert lines == array
    for passage in lines:
        for part in (passage.id, passage.title, passage.text, *passage.aliases, *sum(passage.metadata, ())):
            part.encode()


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@pytest.mark.parametrize(
    ("line", "why"),
    [('{"id": "a\x01"}', "invalid control character"), ('{"id": "a', "unterminated string"), ("{,}", "expecting")],
)
def test_errors_of_json_are_full_sentences(tmp_path: Path, suffix: str, line: str, why: str) -> None:
    (tmp_path / f"a{suffix}").write_text(line, encoding="utf-8")
    problems = Problems()
    assert list(read_passages(tmp_path / f"a{suffix}", problems=problems)) == []
    (sentence,) = problems.sentences
    assert why in sentence and " at." not in sentence and " at;" not in sentence and "starting" not in sentence


def test_a_damaged_character_does_not_change_the_encoding_of_a_text(tmp_path: Path) -> None:
    text = "Die Größe ist schön und für alle müde Bären gemütlich.\n"
    for damaged in (text.encode() * 3 + b"\xc3", text.encode() + b"\xff" + text.encode() * 2):
        passages, problems = lenient(write(tmp_path / "a.txt", damaged))
        assert passages[0].text.startswith(text) and "\ufffd" in passages[0].text
        assert problems.notes == ["a.txt is no UTF-8 text and was read as UTF-8 with damaged characters."]


def test_a_file_of_questions_without_passages_is_skipped(tmp_path: Path) -> None:
    write(tmp_path / "dev.jsonl", '{"id": "q", "question": "Who?", "answers": ["Ada"]}\n' * 150)
    write(tmp_path / "dev.json", json.dumps([{"question": "Who?"}] * 150))
    write(tmp_path / "a.txt", "Words.")
    passages, problems = lenient(tmp_path)
    assert [passage.text for passage in passages] == ["Words."] and problems.counts == {"files of questions": 2}
    assert problems.notes[1] == "dev.jsonl holds questions without passages and is not read."


MAIL = (
    "From: Ada <a@b.org>\nDate: 1 May 2020\nSubject: Kites\nContent-Transfer-Encoding: base64\n\nUmVkIGtpdGVzIGZseS4=\n"
)


@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        ("Inbox", f"From - Mon May  1 10:00:00 2020\n{MAIL}\n" * 2, ["#message=1#1", "#message=2#1"]),
        ("cur/1588.M5P6.host:2,S", f"Return-Path: <a@b.org>\nReceived: from x\n\tby y; now\n{MAIL}", ["#1"]),
        ("53068", MAIL.replace("\n", "\r\n"), ["#1"]),
        ("list.txt", f"From ada at b.org  Mon May  1 10:00:00 2020\n{MAIL}", ["#message=1#1"]),
    ],
)
def test_mail_is_recognised_by_its_first_lines(tmp_path: Path, name: str, text: str, ids: list[str]) -> None:
    write(tmp_path / name, text)
    passages = list(read_passages(tmp_path))
    assert [passage.id for passage in passages] == [name + end for end in ids]
    assert all("Red kites fly." in passage.text for passage in passages)
    assert {passage.title for passage in passages} == {"Kites"}
    assert format_of(tmp_path, name) == format_of(tmp_path / name, name) == "e-mail"


def test_a_source_that_may_not_be_looked_at_has_formats_by_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", refuse)
    assert [format_of(Path("docs"), name) for name in ("a.txt", "a.md", "a.foo")] == ["text", "Markdown", "text"]


@pytest.mark.parametrize(
    "text",
    [
        "Note: this is no mail.\nSubject: kites\n\nWords.",
        "From here on: words.\nDate: soon\n",
        "From: Ada\nTo whom it may concern: words.\n",
        "Package: kites\nMaintainer: Ada\nDate: 2020\n",
    ],
)
def test_other_texts_are_no_mail(tmp_path: Path, text: str) -> None:
    write(tmp_path / "a", text)
    assert [passage.text for passage in read_passages(tmp_path)] == [text.strip()]


def test_text_with_an_unknown_suffix_is_read(tmp_path: Path) -> None:
    for name in ("cities.dat", "rezept.alt", "a.gz"):
        write(tmp_path / name, f"Words of {name}.")
    (tmp_path / "b.dat.gz").write_bytes(gzip.compress(b"Packed words."))
    for name, text in (
        ("picture.xyz", b"\x89PNG\r\n\x1a\n" + bytes(range(256))),
        ("vector.dia", b"<?xml version='1.0'?>\n<d>x</d>"),
        ("letter.rtf", b"{\\rtf1 Dear}"),
        ("page.ps", b"%!PS-Adobe\nshow"),
        ("id.pub2", b"-----BEGIN PGP KEY-----\n"),
        ("Inbox.msf", b'// <!-- <mdb:mork:z v="1.4"/> -->\n'),
        ("packed.mini", b"var a=1;" * 1_000),
        ("style.css", b"body { color: red }"),
        ("c.tar", b"a.txt" + bytes(507) + b"Words of a text.\n" * 1_000),
        ("empty.dat", b""),
    ):
        (tmp_path / name).write_bytes(text)
    (tmp_path / "d.tar.gz").write_bytes(gzip.compress((tmp_path / "c.tar").read_bytes()))
    problems = Problems()
    passages = [(passage.title, passage.text) for passage in read_passages(tmp_path, problems=problems)]
    assert passages == [
        ("a", "Words of a.gz."),
        ("b.dat", "Packed words."),
        ("cities.dat", "Words of cities.dat."),
        ("rezept.alt", "Words of rezept.alt."),
    ]
    assert problems.counts == {"files of an unknown kind": 11}
    assert [passage.text for passage in read_passages(tmp_path / "rezept.alt")] == ["Words of rezept.alt."]
    assert " .dat 1, " in problems.report()[0] and ".tar.gz 1" in problems.report()[0]


@pytest.mark.parametrize("name", ["films.json", "films.jsonl"])
def test_objects_without_texts_are_the_rows_of_a_table(tmp_path: Path, name: str) -> None:
    rows = [{"Title": "Red Kite", "Year": 2014}, {"Title": "Blue", "Gross": None, "Cast": ["Ada", "Bo"], "Year": 7}]
    text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows))
    write(tmp_path / name, text)
    (passage,) = read_passages(tmp_path)
    assert passage.text == 'Title: Red Kite; Year: 2014\n\nTitle: Blue; Cast: ["Ada", "Bo"]; Year: 7\n\nGross'


@pytest.mark.parametrize(
    "text", ['{"a": 1}', "[1, 2]", '[{"a": 1}]', '[{"a": {"b": 1}}, {"a": {"b": 2}}]', '[{"a": 1}, 2]', '[{"a": 1}, {']
)
def test_other_json_is_read_as_it_is(tmp_path: Path, text: str) -> None:
    write(tmp_path / "a.json", text)
    assert [passage.text for passage in read_passages(tmp_path)] == [text]


def test_no_depth_of_json_is_an_error(tmp_path: Path) -> None:
    for depth in range(20, 1_100, 3):
        write(tmp_path / "a.json", f'[{{"a": 1, "b": 2, "c": {"[" * depth}{"]" * depth}}}, {{"a": 3, "b": 4}}]')
        assert list(read_passages(tmp_path))


def test_utf16_of_an_unknown_kind_is_read(tmp_path: Path) -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        write(tmp_path / "notes.foo", "\ufeffŁódź\nand more\n".encode(encoding))
        assert [passage.text for passage in read_passages(tmp_path)] == ["Łódź\nand more"]


def test_a_table_may_be_as_long_as_other_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.corpus.document.MAX_DOCUMENT_BYTES", 20_000)
    write(tmp_path / "a.csv", "name,town\n" + "".join(f"{at:03},{'x' * 90}\n" for at in range(150)))
    assert len(read(tmp_path)) == 150
