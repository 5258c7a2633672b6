"""Files of a corpus are found in order; some are left out, and none is outside the folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hoptree.core.errors import CorpusError
from hoptree.corpus.document import Problems
from hoptree.corpus.files import find_files
from hoptree.corpus.kinds import suffix_of


def write(path: Path, text: str = "Words.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(source: Path, problems: Problems | None = None) -> list[str]:
    return [file.name for file in find_files(source, problems=problems)]


def test_files_are_sorted_by_name_and_others_are_counted(tmp_path: Path) -> None:
    for name in (
        "b.txt",
        "a/z.md",
        "a/b.txt",
        "a.d/c.HTML",
        "picture.png",
        ".venv/x.txt",
        "a/.hidden.md",
        "c.jsonl.gz",
    ):
        write(tmp_path / name)
    (tmp_path / "x.jsonl").mkdir()
    problems = Problems(limit=0)
    assert names(tmp_path, problems) == ["a/b.txt", "a/z.md", "a.d/c.HTML", "b.txt", "c.jsonl.gz"]
    assert problems.counts == {"files of an unknown kind": 1, "hidden files and folders": 2}
    assert "a/.hidden.md is hidden and not read." in problems.notes


def test_a_hidden_file_is_read_if_given_by_name(tmp_path: Path) -> None:
    problems = Problems()
    assert names(write(tmp_path / ".notes.txt"), problems) == [".notes.txt"]
    write(tmp_path / ".notes" / "a.txt")
    assert names(tmp_path / ".notes", problems) == ["a.txt"]
    assert not problems.counts


def test_the_error_for_a_folder_of_hidden_files_says_so(tmp_path: Path) -> None:
    write(tmp_path / ".notes.txt")
    with pytest.raises(CorpusError, match=r"holds no document \(\.notes\.txt is hidden and not read\)"):
        names(tmp_path)


def listen(path: Path) -> None:
    """A socket on disk; by a short name, since a long path cannot be bound."""
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(before)


def test_pipes_sockets_and_devices_are_reported_and_not_opened(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    os.mkfifo(tmp_path / "b.txt")
    (tmp_path / "sub").mkdir()
    listen(tmp_path / "sub" / "c.jsonl")
    (tmp_path / "d.txt").symlink_to("b.txt")
    os.mkfifo(tmp_path / "queue")
    problems = Problems(limit=0)
    assert names(tmp_path, problems) == ["a.txt"]
    assert problems.counts == {"pipes, sockets and devices": 3, "links not followed": 1}
    assert problems.notes == [
        "b.txt is a named pipe and not read.",
        "d.txt is a link that is not followed.",
        "queue is a named pipe and not read.",
        "sub/c.jsonl is a socket and not read.",
    ]


def test_a_file_has_its_size_and_time(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "12345")
    file = next(find_files(path))
    assert (file.path, file.name, file.size) == (path, "a.txt", 5)
    assert file.modified_ns == path.stat().st_mtime_ns == next(find_files(tmp_path)).modified_ns


def test_links_out_of_the_folder_and_circular_links_are_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret" / "s.txt")
    corpus = tmp_path / "corpus"
    write(corpus / "a.txt")
    (corpus / "out.txt").symlink_to(secret)
    (corpus / "out").symlink_to(secret.parent)
    (corpus / "loop").symlink_to(corpus)
    (corpus / "self.txt").symlink_to("self.txt")
    (corpus / "gone.txt").symlink_to("nowhere.txt")
    (corpus / "same.txt").symlink_to("a.txt")
    problems = Problems(limit=0)
    assert names(corpus, problems) == ["a.txt", "same.txt"]
    assert problems.counts == {"links not followed": 5}


def test_an_index_among_the_documents_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    write(tmp_path / "docs.idx" / "hoptree-index.json", "{}")
    write(tmp_path / "docs.idx" / "000001" / "text" / "meta.json", "{}")
    problems = Problems(limit=0)
    assert names(tmp_path, problems) == ["a.txt"]
    assert problems.counts == {"indexes": 1} and problems.notes == ["docs.idx is an index and not read."]


def test_an_index_is_refused_as_a_source(tmp_path: Path) -> None:
    write(tmp_path / "hoptree-index.json", "{}")
    write(tmp_path / "a.txt")
    with pytest.raises(CorpusError, match="is an index"):
        names(tmp_path)


def test_a_folder_may_be_empty_on_request(tmp_path: Path) -> None:
    assert list(find_files(tmp_path, may_be_empty=True)) == []


def test_an_unreadable_folder_is_not_treated_as_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CorpusError, match="cannot be read: Permission denied"):
        list(find_files(tmp_path, may_be_empty=True))


def test_a_source_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.txt")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert names(tmp_path / "link") == ["a.txt"]


def test_a_name_that_is_no_utf8_is_escaped(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x", encoding="utf-8")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert names(tmp_path) == ["caf\\xe9.txt"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "There is no"),
        (lambda path: path.mkdir(), "holds no document"),
        (
            lambda path: write(path / "picture.png"),
            r"holds no document \(picture.png is not a document of a known kind\)",
        ),
        (lambda path: os.mkfifo(path), "is a named pipe and no document"),
        (lambda path: path.symlink_to("/dev/null"), "is a device and no document"),
        (lambda path: listen(path), "is a socket and no document"),
        (lambda path: path.symlink_to(path), "is a link that leads in a circle"),
    ],
)
def test_a_source_without_documents_is_a_corpus_error(tmp_path: Path, make: object, message: str) -> None:
    path = tmp_path / "source"
    assert callable(make)
    make(path)
    with pytest.raises(CorpusError, match=message) as caught:
        names(path)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        *(("a.md", ".md"), ("a.jsonl.MD.GZ", ".md"), ("a.pdf.gz", ".pdf"), ("a.json.bak", ""), ("a.PY", ".py")),
        *(("a.gz", ".txt"), ("LICENSE", ".txt"), ("README.Debian", ".txt"), ("boot.log.1", ".txt"), ("a.png", "")),
        *(("x509.5ssl.gz", ".txt"), ("Carp.3pm", ".txt"), ("a.7z", ""), ("a.3gp", "")),
    ],
)
def test_the_suffix_says_the_kind_of_a_file(name: str, suffix: str) -> None:
    assert suffix_of(name) == suffix


def test_a_program_without_a_suffix_is_of_an_unknown_kind(tmp_path: Path) -> None:
    write(tmp_path / "README")
    (tmp_path / "umlauts").write_bytes("Größe".encode("latin-1"))
    (tmp_path / "program").write_bytes(b"\x7fELF\2\1\1\0" + bytes(range(256)))
    (tmp_path / "libfoo.so.6").write_bytes(b"\x7fELF\2\1\1\0" + bytes(range(256)))
    problems = Problems(limit=0)
    assert names(tmp_path, problems) == ["README", "umlauts"]
    assert problems.counts == {"files of an unknown kind": 2}


def test_the_excluded_folder_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    write(tmp_path / "in.idx" / "000001.part" / "text" / "meta.json", "{}")
    problems = Problems(limit=0)
    assert [file.name for file in find_files(tmp_path, problems=problems, never=tmp_path / "in.idx")] == ["a.txt"]
    assert not problems.counts


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_questions_next_to_a_beir_corpus_are_no_documents(tmp_path: Path, packed: str) -> None:
    for name in ("set/corpus.jsonl", f"set/queries.jsonl{packed}", "alone/queries.jsonl"):
        write(tmp_path / name)
    problems = Problems()
    assert names(tmp_path, problems) == ["alone/queries.jsonl", "set/corpus.jsonl"]
    assert problems.counts == {"files of questions": 1} and problems.broken == 0
    assert problems.notes == [f"set/queries.jsonl{packed} holds the questions to corpus.jsonl and is not read."]
    assert names(tmp_path / "set" / f"queries.jsonl{packed}") == [f"queries.jsonl{packed}"], "who names it means it"
