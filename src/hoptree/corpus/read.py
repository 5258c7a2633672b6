"""Read files and folders into documents and passages; PDF too."""

from __future__ import annotations

import io
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.chunk import MAX_ROW_CHARS, Chunking, Tokenizer, chunk
from hoptree.corpus.document import (
    BETWEEN_HEADINGS,
    MAX_DOCUMENT_BYTES,
    Document,
    HeadingPath,
    Oversized,
    Problems,
    TextBuilder,
    short,
)
from hoptree.corpus.files import (
    TEXT_SUFFIXES,
    Damaged,
    Reader,
    SourceFile,
    find_files,
    open_bytes,
    read_all,
    read_script,
    read_text_file,
    stem,
    suffix_of,
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
    read_table,
    read_tsv,
)
from hoptree.corpus.markup import read_markdown, read_notebook, read_plain, read_rst
from hoptree.corpus.office import read_docx, read_epub, read_pptx, read_xlsx
from hoptree.corpus.records import read_mail, read_records
from hoptree.corpus.zipped_xml import GIVEN_TITLE
from hoptree.text.tokens import is_unspaced, language_of

_PDFIUM = threading.Lock()  # PDFium may be used by one thread at a time
_EDGE_LINES, _MIN_REPEATS = 2, 3
"""Lines at the top and the bottom of pages, and how many pages a line begins alike on that is a header or footer."""
_FORM_CHARS, _CAPITALS_CHARS = 20, 8
_MAX_NUMBER_CHARS = 20  # of a chapter, before its heading
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.)\s*)?(?:\d+|(?=[ivxlc])(?:x[lc]|l?x{0,3})(?:i[xv]|v?i{0,3}))(?:\s*(?:/|of|von)\s*\d+)?\W*$",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"\d+")
_PART = re.compile(
    r"(?:chapter|article|section|part|appendix|annex|kapitel|artikel|abschnitt|teil|anhang|§)\s*(?:\d+|[A-Z]\b|[IVXLC]+\b)",
    re.IGNORECASE,
)
"""Begins a chapter, unless it is the header of a further page of the same one."""
_LEADERS = re.compile(r"(?:\s{0,9}\.){4,}\s*")
_ITEM = re.compile(r"(?:[•‣▪◦–*-]\s|\(?\d{1,3}(?:\.\d+)*[.)]\s+\S|\d+(?:\.\d+)+\s+[^\W\d_a-z]|[a-z]\)\s)")
_FULL_LINE = 0.75  # of the width of a page: a line that is shorter may end a paragraph


def read_pdf(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Yield a document a page, with its number and an id like #page=3."""
    try:
        import pypdfium2 as pdfium
    except ImportError:
        sentence = f"{name} was not read: PDF needs pip install 'hoptree[docs]'."
        problems.add("files that need a library", sentence, cuts=True)
        return
    content = read_all(stream, name, problems)
    if content is None:
        return
    texts: list[str] = []
    headings: dict[int, list[tuple[int, str]]] = {}
    with _PDFIUM:
        try:
            with closing(pdfium.PdfDocument(content)) as pdf:
                title = _spelled(partial(pdf.get_metadata_value, "Title"))
                title = stem(name) if not title or GIVEN_TITLE.match(title) else title
                for mark in pdf.get_toc():
                    target = mark.get_dest()
                    if target is not None and target.get_index() is not None:
                        headings.setdefault(target.get_index(), []).append((mark.level + 1, _spelled(mark.get_title)))
                left = MAX_DOCUMENT_BYTES
                for number in range(len(pdf)):
                    texts.append(_page_text(pdf, number, name, problems))
                    left -= len(texts[-1])
                    if left < 0:
                        raise Oversized
        except pdfium.PdfiumError as error:
            why = "is locked with a password" if "assword" in str(error) else "cannot be read as PDF: it is damaged"
            problems.add("damaged documents", f"{name} {why}.", cuts=True)
            return
    path, above = HeadingPath(), ""
    pages = [_paragraphs(lines, headings.get(at, [])) for at, lines in enumerate(_without_running(texts))]
    for number, paragraphs in enumerate(_whole_sentences(pages)):
        builder = TextBuilder(title)
        if above:
            builder.section(BETWEEN_HEADINGS.join((title, above)))
        for paragraph in paragraphs:
            heading = _heading_of(paragraph, headings.get(number, []))
            if heading:
                headings[number].remove(heading)
                above = path.enter(*heading)
                builder.section(BETWEEN_HEADINGS.join((title, above)))
            else:
                builder.add([paragraph])
        if texts[number].strip():
            yield builder.document(f"{name}#page={number + 1}", name, metadata=(("page", str(number + 1)),))
    if empty := sum(not text.strip() for text in texts):
        sentence = f"{empty} of {len(texts)} pages of {name} hold no text; scanned pages need OCR."
        problems.note("empty documents", sentence)


def _spelled(read: Callable[[], str]) -> str:
    """Return a title or heading; "" if it is broken Unicode."""
    with suppress(UnicodeError):
        return short(read())
    return ""


def _page_text(pdf: Any, number: int, name: str, problems: Problems) -> str:
    """Return the text of a page with line-end hyphens undone."""
    try:
        with closing(pdf[number]) as page, closing(page.get_textpage()) as opened:
            text = str(opened.get_text_range())
    except Exception as error:  # damaged pages make it raise errors of several kinds
        sentence = f"Page {number + 1} of {name} cannot be read: {type(error).__name__}."
        problems.add("damaged documents", sentence, cuts=True)
        return ""
    text = text.replace("\0", " ").encode("utf-8", "replace").decode()
    return re.sub("(?:\ufffe|(?<=[^\\W\\d_])[-\u00ad]\r?\n)(.)", lambda m: f"-{m[1]}" if m[1].isupper() else m[1], text)


def _without_running(texts: Sequence[str]) -> list[list[str]]:
    """Remove page numbers, running headers and footers."""
    pages = [[line.strip() for line in text.splitlines() if line.strip()] for text in texts]
    edges = ([*page[:_EDGE_LINES], *page[-_EDGE_LINES:]] for page in pages)
    counts = Counter(form for lines in edges for form in set(map(_form, lines)))

    def runs(line: str) -> bool:
        return bool(_PAGE_NUMBER.match(line) and len(pages) > 1) or counts[_form(line)] >= _MIN_REPEATS

    heads = [[(m[0].casefold(), line) for line in page[:_EDGE_LINES] if (m := _PART.match(line))] for page in pages]
    names = Counter(_NUMBERS.sub("#", line) for _, line in {head for on_page in heads for head in on_page})
    begun: set[str] = set()
    for page, on_page in zip(pages, heads, strict=True):
        named = {line: part for part, line in on_page if len(line) == len(part) or names[_NUMBERS.sub("#", line)] == 1}
        headings = [line for line, part in named.items() if part not in begun]
        begun.update(part for part, _ in on_page)
        for at in (*[0] * _EDGE_LINES, *[-1] * _EDGE_LINES):
            if page and page[at] not in headings and runs(page[at]):
                del page[at]
    return pages


def _form(line: str) -> str:
    """Return how a line begins, without its numbers."""
    return _NUMBERS.sub("#", line)[: _CAPITALS_CHARS if line.isupper() else _FORM_CHARS]


def _paragraphs(lines: Sequence[str], headings: list[tuple[int, str]]) -> list[str]:
    """Join the lines of a page that belong together; headings stay apart."""
    width = max(map(len, lines), default=0) * _FULL_LINE
    paragraphs: list[str] = []
    ended, short_before = True, False
    for line in lines:
        begins = _ITEM.match(line) or _heading_of(line, headings)
        if ended or begins or (short_before and (line[0].isupper() or line[0].isdigit())):
            paragraphs.append(line)
        else:
            gap = "" if is_unspaced(line[0]) and is_unspaced(paragraphs[-1][-1]) else " "
            paragraphs[-1] += f"{gap}{line}"
        short_before = len(line) < width
        ended = bool(_LEADERS.search(line)) or (short_before and line[-1] in ".!?:;。！？")
        ended = ended or bool(_heading_of(paragraphs[-1], headings))
    return [_LEADERS.sub(" … ", paragraph) for paragraph in paragraphs]


def _whole_sentences(pages: list[list[str]]) -> list[list[str]]:
    """Move the end of a sentence to the page on which it begins."""
    for page, following in pairwise(pages):
        if page and following and page[-1][-1] not in ".!?:;。！？" and following[0][0].islower():
            end = re.search(r"[.!?](?=\s)", following[0])
            stop = end.end() if end else len(following[0])
            page[-1] += f" {following[0][:stop]}"
            following[0] = following[0][stop:].strip()
            if not following[0]:
                del following[0]
    return pages


def _heading_of(paragraph: str, headings: list[tuple[int, str]]) -> tuple[int, str] | None:
    """Return the table of contents' entry that a paragraph is."""
    words = re.sub(r"\s+", "", paragraph).casefold()
    for entry in headings:
        heading = re.sub(r"\s+", "", entry[1]).casefold()
        if heading and words.endswith(heading) and len(words) < len(heading) + _MAX_NUMBER_CHARS:
            return entry
    return None


_AUTO = Chunking()
_SAMPLE_ROWS, _SAMPLE_CHARS = 3, 1_000  # of a file of rows, to detect its language
_DOCUMENTS: dict[str, Reader] = {
    **dict.fromkeys(TEXT_SUFFIXES, read_text_file),
    **dict.fromkeys((".js", ".mjs"), read_script),
    ".txt": read_plain,
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


def read_passages(source: Path, *, problems: Problems | None = None) -> Iterator[Passage]:
    """Yield the passages of a file, or of all files below a folder.

    A passage of two files comes twice, under the same id. Without `problems` the first broken place is an error.
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
    """Add the language to the metadata of what is not English."""
    if language == "english" or any(name == "language" for name, _ in item.metadata):
        return item
    return replace(item, metadata=(*item.metadata, ("language", language)))


def _in_their_language(items: Iterator[Item]) -> Iterator[Item]:
    """Give all rows of a file the language that the first ones have together."""
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
    """Yield the documents of a file; `on_bytes` reports bytes read."""
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
                    language = language_of(document.text, language)  # else that of the page before
                    yield _in_language(document, language)
    except Oversized:
        limit = f"{MAX_DOCUMENT_BYTES // 2**20} MiB"
        problems.add("oversized lines or files", f"{file.name} is larger than {limit} when unpacked, too long to read.")
    except OSError as error:
        _report_unreadable(file, error, problems)


def _reader_of(file: SourceFile) -> Reader | None:
    """Return the reader of a file's documents; None for passage rows."""
    suffix = suffix_of(file.name)
    with suppress(OSError), open_bytes(file.path) as stream:
        if suffix in _SEPARATORS and holds_passages(stream, _SEPARATORS[suffix]):
            return None
        if suffix not in _DOCUMENTS and holds_questions(stream):
            return _pass_over_questions
        if suffix not in _DOCUMENTS and holds_other_json(stream):
            return read_text_file
    return _DOCUMENTS.get(suffix)


def _pass_over_questions(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    problems.note("files of questions", f"{name} holds questions without passages and is not read.", name)
    yield from ()


def read_rows(file: SourceFile, *, problems: Problems, on_bytes: Callable[[int], None] | None = None) -> Iterator[Row]:
    """Yield the rows of a JSON or tab-separated file with line numbers."""
    suffix = suffix_of(file.name)
    try:
        with open_bytes(file.path, on_bytes) as stream:
            if suffix in _SEPARATORS:
                yield from (read_tsv if suffix == ".tsv" else read_csv)(stream, file.name, problems)
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
_KINDS = (".jsonl", ".ndjson", ".json", ".tsv")
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
    """Drops passages that hold a question, ignoring case and marks.

    Questions of fewer than five words are ignored, as they occur by chance. `dropped` counts the passages left out.
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
        """Yield the passages that hold no question."""
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
