"""Read files and folders into documents and passages.

A new format needs a reader in `_DOCUMENTS`, and its suffix in SUFFIXES and its name in KNOWN_KINDS of
`corpus/files.py`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.chunk import MAX_ROW_CHARS, Chunking, Tokenizer, chunk
from hoptree.corpus.document import MAX_DOCUMENT_BYTES, Document, Oversized, Problems
from hoptree.corpus.files import (
    Damaged,
    Reader,
    SourceFile,
    decode,
    find_files,
    open_bytes,
    read_script,
    read_text_file,
)
from hoptree.corpus.html_pages import read_html
from hoptree.corpus.json_rows import (
    Row,
    holds_other_json,
    holds_passages,
    holds_questions,
    read_csv,
    read_json_lines,
    read_json_values,
    read_other_json,
    read_table,
    read_tsv,
)
from hoptree.corpus.kinds import TEXT_SUFFIXES, format_name, suffix_of
from hoptree.corpus.mail import is_mail, read_mail
from hoptree.corpus.man_pages import is_roff, read_plain
from hoptree.corpus.markdown import read_markdown, read_notebook
from hoptree.corpus.office import read_docx, read_epub, read_pptx, read_xlsx
from hoptree.corpus.pdf import read_pdf
from hoptree.corpus.records import read_records
from hoptree.corpus.rst import read_rst
from hoptree.text.tokens import language_of

_AUTO = Chunking()
_HEAD_BYTES = 2**15  # of a text, to tell whether it is mail or a man page
_SAMPLE_ROWS, _SAMPLE_CHARS = 3, 1_000  # of a file, to detect its language


def _read_text(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read a plain text, a man page or mail."""
    head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    return (read_mail if is_mail(head) else read_plain)(stream, name, problems)


_DOCUMENTS: dict[str, Reader] = {
    **dict.fromkeys(TEXT_SUFFIXES, read_text_file),
    **dict.fromkeys((".js", ".mjs"), read_script),
    ".txt": _read_text,
    **dict.fromkeys((".md", ".markdown"), read_markdown),
    **dict.fromkeys((".html", ".htm", ".xhtml"), read_html),
    **dict.fromkeys((".eml", ".mbox"), read_mail),
    **dict.fromkeys((".csv", ".tsv"), read_table),
    ".rst": read_rst,
    ".ipynb": read_notebook,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".pptx": read_pptx,
    ".xlsx": read_xlsx,
    ".epub": read_epub,
}
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


@cache
def _sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def readers_version() -> str:
    """Return a version that changes with the readers, or if the PDF library is added."""
    return f"{_sources_digest()}{'+pdf' * (importlib.util.find_spec('pypdfium2') is not None)}"


def read_passages(source: Path, *, problems: Problems | None = None) -> Iterator[Passage]:
    """Yield the passages of a file, or of all files below a folder.

    A passage that two files have comes twice, with the same id. Without `problems`, any broken place is an error.
    """
    problems = Problems(limit=0) if problems is None else problems
    for file in find_files(source, problems=problems):
        yield from read_file(file, problems=problems)


def read_file(
    file: SourceFile,
    *,
    problems: Problems,
    chunking: Chunking = _AUTO,
    tokenizer: Tokenizer | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Passage]:
    """Yield the passages of a file; `on_bytes` gets the number of bytes read so far."""
    if chunking.by != "auto" or _reader_of(file) is not None:
        for document in read_documents(file, problems=problems, on_bytes=on_bytes):
            yield from chunk(document, chunking, tokenizer)
        return
    rows = read_rows(file, problems=problems, on_bytes=on_bytes)
    for item in _in_their_language(read_records(rows, file.name, problems, plain=_passage)):
        if type(item) is Passage and len(item.text) <= MAX_ROW_CHARS:
            yield item
        elif type(item) is Passage:
            yield from chunk(replace(_document(item.id, item.title, item.text), metadata=item.metadata), chunking)
        elif type(item) is Document:
            yield from chunk(item, chunking)


Item = TypeVar("Item", Document, Passage, Document | Passage)


def _in_language(item: Item, language: str) -> Item:
    """Add the language to the metadata of an item that is not English."""
    if language == "english" or any(name == "language" for name, _ in item.metadata):
        return item
    return replace(item, metadata=(*item.metadata, ("language", language)))


def _in_their_language(items: Iterator[Item]) -> Iterator[Item]:
    """Add the language of the first rows of a file to all of them."""
    first = list(islice(items, _SAMPLE_ROWS))
    language = language_of("\n".join(item.text[:_SAMPLE_CHARS] for item in first))
    yield from (_in_language(item, language) for item in first)
    yield from items if language == "english" else (_in_language(item, language) for item in items)


def _passage(key: str, title: str, text: str) -> Passage:
    return Passage(key, title, text, 0.0, key, 0, len(text))


def _document(key: str, title: str, text: str) -> Document:
    return Document(key, title, text, is_passage=True)


def read_documents(
    file: SourceFile, *, problems: Problems, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Document]:
    """Yield the documents of a file; `on_bytes` gets the number of bytes read so far."""
    reader = _reader_of(file)
    if reader is None:
        rows = read_rows(file, problems=problems, on_bytes=on_bytes)
        yield from _in_their_language(read_records(rows, file.name, problems, plain=_document))
        return
    language = "english"
    try:
        with open_bytes(file.path, on_bytes) as stream:
            for document in reader(stream, file.name, problems):
                if not document.text or document.text.isspace():
                    problems.note("empty documents", f"{document.id} is empty.")
                else:
                    language = language_of(document.text, language)  # if unclear, that of the page before
                    yield _in_language(document, language)
    except Oversized:
        limit = f"{MAX_DOCUMENT_BYTES // 2**20} MiB"
        problems.add("oversized lines or files", f"{file.name} is larger than {limit} when unpacked, too long to read.")
    except OSError as error:
        _report_unreadable(file, error, problems)


def _reader_of(file: SourceFile) -> Reader | None:
    """Return the reader of a file's documents; None if its rows are passages."""
    suffix = suffix_of(file.name) or ".txt"
    with suppress(OSError), open_bytes(file.path) as stream:
        if suffix in _SEPARATORS and holds_passages(stream, _SEPARATORS[suffix]):
            return None
        if suffix not in _DOCUMENTS and holds_questions(stream):
            return _skip_questions
        if suffix not in _DOCUMENTS and holds_other_json(stream):
            return read_other_json
    return _DOCUMENTS.get(suffix)


def format_of(source: Path, name: str) -> str:
    """Return the format of a source's file in words; by its name if unreadable."""
    suffix = suffix_of(name) or ".txt"
    if suffix == ".txt":
        with (
            suppress(OSError),
            open_bytes(source if source.is_file() else source / name, buffer_bytes=_HEAD_BYTES) as stream,
        ):
            head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
            if is_mail(head):
                return format_name(".mbox")
            if is_roff(decode(head)[0]):
                return "man pages"
    return format_name(suffix)


def _skip_questions(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    problems.note("files of questions", f"{name} holds questions without passages and is not read.", name)
    yield from ()


def read_rows(file: SourceFile, *, problems: Problems, on_bytes: Callable[[int], None] | None = None) -> Iterator[Row]:
    """Yield the rows of a JSON, CSV or TSV file with their line numbers."""
    suffix = suffix_of(file.name)
    try:
        with open_bytes(file.path, on_bytes) as stream:
            if suffix in _SEPARATORS:
                yield from (read_tsv if suffix == ".tsv" else read_csv)(stream, file.name, problems)
            # A JSON Lines file may be one JSON array instead.
            elif suffix == ".json" or stream.peek(256).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
                yield from read_json_values(stream, file.name, problems)
            else:
                yield from read_json_lines(stream, file.name, problems)
    except OSError as error:
        _report_unreadable(file, error, problems)


def _report_unreadable(file: SourceFile, error: OSError, problems: Problems) -> None:
    if isinstance(error, Damaged):
        problems.add("damaged archives", f"{file.name} is damaged: {error}.", cuts=True)
    else:
        problems.add("unreadable files", f"{file.name} cannot be read: {error.strerror or error}.", cuts=True)


_WORD = re.compile(r"\w+")
_MIN_WORDS = 5
_QUESTION_SUFFIXES = (".jsonl", ".ndjson", ".json", ".tsv")
_REBUILD = "build the index with another one"
_FORMAT = 'Each row has a field "question".'


def read_questions(path: Path) -> Iterator[str]:
    """Yield the `question` fields of a file, or of a folder's files."""
    check_questions(path)
    problems, empty = Problems(limit=0), True
    try:
        for file in find_files(path, problems=problems):
            for _, row in read_rows(file, problems=problems):
                question = row.get("question") if isinstance(row, dict) else None
                if isinstance(question, str):
                    empty = False
                    yield question
    except CorpusError as error:
        raise CorpusError(error.cause, f"Fix the questions in {path}, or {_REBUILD}. {_FORMAT}") from error
    if empty:
        raise CorpusError(f"{path} holds no questions.", _FORMAT)


def check_questions(path: Path) -> None:
    """Raise CorpusError if a path is not there, or is not a file of questions."""
    wanted = "the questions that must not occur in any passage of the index (--without-questions)"
    if not path.exists():
        raise CorpusError(f"There is no {path}, which holds {wanted}.", f"Put it there, or {_REBUILD}. {_FORMAT}")
    if path.is_file() and suffix_of(path.name) not in _QUESTION_SUFFIXES:
        raise CorpusError(f"{path} is not a file of questions: that is {', '.join(_QUESTION_SUFFIXES)}.", _FORMAT)


class QuestionFilter:
    """Drops passages that contain a question, whatever its case and punctuation.

    Questions of fewer than five words are ignored, as they occur by chance. `dropped` counts the dropped passages.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self.dropped = 0
        self._questions: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for question in questions:
            words = tuple(_words(question))
            if len(words) >= _MIN_WORDS:
                self._questions.setdefault(words[:_MIN_WORDS], set()).add(words)
        self._starts = {words[:2] for words in self._questions}

    def __call__(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages that contain no question."""
        for passage in passages:
            if self.holds(passage):
                self.dropped += 1
            else:
                yield passage

    def holds(self, passage: Passage) -> bool:
        return self._in(_words(passage.text)) or self._in(_words(passage.title))

    def _in(self, words: list[str]) -> bool:
        if self._starts.isdisjoint(pairwise(words)):
            return False
        return any(
            tuple(words[at : at + len(question)]) == question
            for at, pair in enumerate(pairwise(words))
            if pair in self._starts
            for question in self._questions.get(tuple(words[at : at + _MIN_WORDS]), ())
        )


def _words(text: str) -> list[str]:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(plain.casefold())
