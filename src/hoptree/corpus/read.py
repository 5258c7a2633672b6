"""Reads files and folders into documents and passages, one at a time; PDF among them."""

from __future__ import annotations

import io
import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from hoptree.core.errors import CorpusError, MissingExtra
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking, Tokenizer, chunk
from hoptree.corpus.document import Document, Problems, short
from hoptree.corpus.files import Damaged, SourceFile, find_files, open_bytes, read_all, read_text_file, stem, suffix_of
from hoptree.corpus.json_rows import Row, read_json_lines, read_json_values, read_tsv
from hoptree.corpus.markup import read_html, read_markdown
from hoptree.corpus.records import read_records


def read_pdf(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Yield a document for each page, with the page number as metadata and ids like PDF links (#page=3)."""
    try:
        from pypdf import PdfReader
    except ImportError as error:
        raise MissingExtra(f"Reading {name}", "pdf") from error
    content = read_all(stream, name, problems)
    if content is None:
        return
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it would print every oddity to the terminal
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            problems.add("damaged PDF files", f"{name} is locked with a password.", cuts=True)
            return
        title = short((reader.metadata and reader.metadata.title) or "") or stem(name)
        pages = len(reader.pages)
    except Exception as error:  # a damaged file makes pypdf raise errors of any kind
        problems.add("damaged PDF files", f"{name} cannot be read as PDF: {_reason(error)}.", cuts=True)
        return
    empty = 0
    for number in range(pages):
        try:
            text = reader.pages[number].extract_text()
        except Exception as error:
            sentence = f"Page {number + 1} of {name} cannot be read: {_reason(error)}."
            problems.add("damaged PDF files", sentence, cuts=True)
            continue
        text = text.replace("\0", " ").encode("utf-8", "replace").decode()
        if text.strip():
            yield Document(f"{name}#page={number + 1}", title, text, metadata=(("page", str(number + 1)),))
        else:
            empty += 1
    if empty:
        problems.note("empty documents", f"{empty} of {pages} pages of {name} hold no text; scanned pages need OCR.")


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")


_AUTO = Chunking()


_DOCUMENTS: dict[str, Callable[[io.BufferedReader, str, Problems], Iterator[Document]]] = {
    ".txt": read_text_file,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
}


def read_passages(
    source: Path,
    *,
    chunking: Chunking = _AUTO,
    tokenizer: Tokenizer | None = None,
    problems: Problems | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Passage]:
    """Yield the passages of a file, or of all readable files below a folder, in the order of their names.

    A passage of two files comes twice, under the same id. Without `problems` the first broken place is an error.
    `on_bytes` is called with the number of bytes read of all files together.
    """
    problems = Problems(limit=0) if problems is None else problems
    before = 0

    def advance(count: int) -> None:
        if on_bytes is not None:
            on_bytes(before + count)

    for file in find_files(source, problems=problems):
        yield from read_file(file, chunking=chunking, tokenizer=tokenizer, problems=problems, on_bytes=advance)
        before += file.size


def read_file(
    file: SourceFile,
    *,
    problems: Problems,
    chunking: Chunking = _AUTO,
    tokenizer: Tokenizer | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Passage]:
    """Yield the passages of a file of a corpus."""
    if chunking.by != "auto" or suffix_of(file.name) in _DOCUMENTS:
        for document in read_documents(file, problems=problems, on_bytes=on_bytes):
            yield from chunk(document, chunking, tokenizer)
        return
    rows = read_rows(file, problems=problems, on_bytes=on_bytes)
    for item in read_records(rows, file.name, problems, plain=_passage):
        if type(item) is Passage:
            yield item
        elif type(item) is Document:
            yield from chunk(item, chunking)


def _passage(key: str, title: str, text: str) -> Passage:
    return Passage(key, title, text, 0.0, key, 0, len(text))


def _document(key: str, title: str, text: str) -> Document:
    return Document(key, title, text, is_passage=True)


def read_documents(
    file: SourceFile, *, problems: Problems, on_bytes: Callable[[int], None] | None = None
) -> Iterator[Document]:
    """Yield the documents of a file; `on_bytes` is called with how many of its bytes, packed as they are, were read."""
    reader = _DOCUMENTS.get(suffix_of(file.name))
    if reader is None:
        rows = read_rows(file, problems=problems, on_bytes=on_bytes)
        yield from read_records(rows, file.name, problems, plain=_document)
        return
    try:
        with open_bytes(file.path, on_bytes) as stream:
            for document in reader(stream, file.name, problems):
                if not document.text or document.text.isspace():
                    problems.note("empty documents", f"{file.name} is empty.")
                else:
                    yield document
    except OSError as error:
        _report_unreadable(file, error, problems)


def read_rows(file: SourceFile, *, problems: Problems, on_bytes: Callable[[int], None] | None = None) -> Iterator[Row]:
    """Yield the rows of a JSON, JSON Lines or tab-separated file with the numbers of their lines."""
    suffix = suffix_of(file.name)
    try:
        with open_bytes(file.path, on_bytes) as stream:
            if suffix == ".tsv":
                yield from read_tsv(stream, file.name, problems)
            # A file that should hold a row a line may be one JSON array instead.
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
_MAX_IDS = 20
_KINDS = (".jsonl", ".ndjson", ".json", ".tsv")
_REBUILD = "build the index with another one"
_FORMAT = 'Each row has a field "question".'


def read_questions(path: Path) -> Iterator[str]:
    """Yield the questions of a file of rows with a field `question`, or of all such files in a folder."""
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
        raise CorpusError(error.cause, f"Mend the questions in {path}, or {_REBUILD}. {_FORMAT}") from error
    if empty:
        raise CorpusError(f"{path} holds no questions.", _FORMAT)


def check_questions(path: Path) -> None:
    """Raise an error if there is no file of questions."""
    wanted = "the questions that are to stand in no passage of the index (--without-questions)"
    if not path.exists():
        raise CorpusError(f"There is no {path}, which holds {wanted}.", f"Put it there, or {_REBUILD}. {_FORMAT}")
    if path.is_file() and suffix_of(path.name) not in _KINDS:
        raise CorpusError(f"{path} is no file of questions: that is {', '.join(_KINDS)}.", _FORMAT)


class QuestionFilter:
    """Drops passages whose title or text holds a question, whatever its capitals and punctuation.

    Questions of fewer than five words are ignored (`short` counts them), as they occur by chance. `dropped` counts
    the passages left out, and `ids` names the first of them.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self.short = 0
        self.dropped = 0
        self.ids: list[str] = []
        self._questions: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for question in questions:
            words = tuple(_words(question))
            if len(words) < _MIN_WORDS:
                self.short += 1
            else:
                self._questions.setdefault(words[:_MIN_WORDS], set()).add(words)
        self._starts = {words[:2] for words in self._questions}

    def __call__(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages that hold no question."""
        for passage in passages:
            if self.holds(passage):
                self.dropped += 1
                if len(self.ids) < _MAX_IDS:
                    self.ids.append(passage.id)
            else:
                yield passage

    def holds(self, passage: Passage) -> bool:
        """Tell whether the passage holds a question; its pairs of words nearly always rule that out at once."""
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
