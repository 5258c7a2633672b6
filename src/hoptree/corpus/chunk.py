"""Cut documents into passages, which are exact slices of a document's text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Literal

from hoptree.core.errors import ConfigError, MissingExtra
from hoptree.core.values import CONTENTS, Passage
from hoptree.corpus.contents import lists_contents
from hoptree.corpus.document import BETWEEN_HEADINGS, Document, Section
from hoptree.text.names import word_set

_GRAMMAR = (
    "It is auto[:SIZE[:OVERLAP]], words:SIZE[:OVERLAP], tokens:SIZE[:OVERLAP] or sections[:SIZE[:OVERLAP]], "
    "as in words:200:20."
)
_DEFAULT_SIZES = {"auto": 200, "words": 200, "tokens": 256, "sections": 1000}
_MAX_SIZE = 999_999_999
_NO_SPACES = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\s{_NO_SPACES}]{{1,1000}}")
"""A run of characters without a space; in scripts without spaces, a single character."""
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’»)\]]*$")
_MAX_END_CHARS = 16
_INITIAL = re.compile(r"[A-ZÀ-Þ]\.")
_ABBREVIATIONS = word_set(
    "dr. mr. mrs. ms. prof. st. jr. sr. vs. e.g. i.e. cf. fig. no. vol. ca. z.b. d.h. bzw. u.a. nr. bd. mme."
)
_MAX_TOKENIZER_CHARS = 1_000_000
_MAX_PLACES = 32  # the most anchors, and links, of a passage
MAX_ROW_CHARS = 100_000  # of a row that stays one passage, as a search returns whole passages

Span = tuple[int, int]
Tokenizer = Callable[[str], list[Span]]
"""Returns where the tokens of a text begin and end."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are cut; `size` and `overlap` count words or tokens.

    No passage crosses a heading. `auto` cuts texts by words and keeps rows of passage files as they are, up to 100,000
    characters. `sections` makes a passage of each section and cuts only those longer than `size` words.
    """

    by: Literal["auto", "words", "tokens", "sections"] = "auto"
    size: int = 200
    overlap: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.size <= _MAX_SIZE or not 0 <= self.overlap < self.size:
            cause = f"Passages of {self.size} with an overlap of {self.overlap} cannot be made."
            raise ConfigError(cause, f"The size is from 1 to {_MAX_SIZE:,} and the overlap is smaller than the size.")

    @classmethod
    def parse(cls, spec: str) -> Chunking:
        """Parse an option of the command line, such as words:200:20."""
        by, *numbers = spec.strip().split(":")
        if len(numbers) > 2 or by not in _DEFAULT_SIZES:
            raise ConfigError(f"'{spec}' is not a way to cut documents.", _GRAMMAR)
        if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
            raise ConfigError(f"'{spec}' has a size or overlap that is not a number.", _GRAMMAR)
        size, overlap = [*map(int, numbers), *(_DEFAULT_SIZES[by], 0)[len(numbers) :]]
        return cls(by, size, overlap)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return "auto" if self == Chunking() else f"{self.by}:{self.size}:{self.overlap}"


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer.json file."""
    try:
        import tokenizers  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtra("Cutting documents by tokens", "dense") from error
    if path.exists() and not path.is_file():  # reading a pipe could block for ever
        raise ConfigError(f"{path} is not a file.", "Give the tokenizer.json of a model.")
    try:
        loaded = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ConfigError(f"{path} is not a tokenizer: {error}.", "Give the tokenizer.json of a model.") from error
    loaded.no_truncation()
    loaded.no_padding()
    return lambda text: list(loaded.encode(text, add_special_tokens=False).offsets)


def chunk(document: Document, chunking: Chunking, tokenizer: Tokenizer | None = None) -> Iterator[Passage]:
    """Yield the passages of a document, named DOCUMENT#1, DOCUMENT#2, …

    A row that is one passage keeps its own id.
    """
    key, text, aliases, metadata = document.id, document.text, document.aliases, document.metadata
    if document.is_passage and chunking.by == "auto" and len(text) <= MAX_ROW_CHARS:
        yield Passage(key, document.title, text, 0.0, key, 0, len(text), aliases, metadata)
        return
    pieces = _pieces(document, chunking, tokenizer)
    first_two = list(islice(pieces, 2))
    alone = document.is_passage and len(first_two) == 1
    anchors, references = deque(document.anchors), deque(document.references)
    for number, (title, start, end) in enumerate(chain(first_two, pieces), 1):
        name = key if alone else f"{key}#{number}"
        links = _take_places(anchors, end), _take_places(references, end)
        marks = (CONTENTS,) if lists_contents(text, start, end, document.entries, title) else ()
        yield Passage(name, title, text[start:end], 0.0, key, start, end, aliases, (*metadata, *marks), (), *links)


def _take_places(places: deque[tuple[int, str]], end: int) -> tuple[str, ...]:
    """Remove the places before an offset, and return their names once each."""
    names: dict[str, None] = {}
    while places and places[0][0] < end:
        names[places.popleft()[1]] = None
    return tuple(names)[:_MAX_PLACES]


def _pieces(document: Document, chunking: Chunking, tokenizer: Tokenizer | None) -> Iterator[tuple[str, int, int]]:
    """Yield title, start and end of each passage."""
    cut = _by_tokens(tokenizer) if chunking.by == "tokens" else _by_words
    # The title comes before each path of headings: "Rollback" alone does not say of what.
    above = f"{document.title}{BETWEEN_HEADINGS}" if document.title else ""
    if any(f"{section.title}{BETWEEN_HEADINGS}".startswith(above) for section in document.sections):
        above = ""
    for title, start, end in _sections(document):
        for begin, stop in cut(document.text, start, end, chunking):
            yield f"{above}{title}" if title else document.title, begin, stop


def _sections(document: Document) -> Iterator[tuple[str, int, int]]:
    """Yield title, start and end of each text between headings."""
    sections = document.sections
    if not sections or sections[0].start > 0:
        sections = (Section(0, ""), *sections)
    ends = (*(section.start for section in sections[1:]), len(document.text))
    for section, end in zip(sections, ends, strict=True):
        yield section.title, section.start + section.skip, end


def _by_words(text: str, start: int, end: int, chunking: Chunking) -> Iterator[Span]:
    """Yield overlapping pieces of up to `size` words, cut at sentences."""
    at = start
    while True:
        words = [match.span() for match in islice(_WORD.finditer(text, at, end), chunking.size + 1)]
        if not words:
            return
        if len(words) <= chunking.size:
            yield words[0][0], words[-1][1]
            return
        cut = _best_cut(text, words, chunking)
        yield words[0][0], words[cut - 1][1]
        at = words[cut - chunking.overlap][0]


def _best_cut(text: str, words: list[Span], chunking: Chunking) -> int:
    """Return how many words to take, up to the end of a paragraph or sentence."""
    size = chunking.size
    cuts = range(size, max(size // 2, chunking.overlap), -1)
    for ends in (_ends_paragraph, _ends_sentence, _ends_line):
        for cut in cuts:
            if ends(text, *words[cut - 1], words[cut][0]):
                return cut
    return size


def _ends_paragraph(text: str, start: int, end: int, following: int) -> bool:
    return bool(_PARAGRAPH.search(text, end, following))


def _ends_sentence(text: str, start: int, end: int, following: int) -> bool:
    """Return whether a word ends a sentence; an abbreviation or an initial does not."""
    word = text[max(start, end - _MAX_END_CHARS) : end]
    is_short = word.lower().lstrip("([\"'„“»") in _ABBREVIATIONS or _INITIAL.fullmatch(word)
    return bool(_SENTENCE_END.search(word)) and not is_short


def _ends_line(text: str, start: int, end: int, following: int) -> bool:
    return "\n" in text[end:following]


def _by_tokens(tokenizer: Tokenizer | None) -> Callable[[str, int, int, Chunking], Iterator[Span]]:
    if tokenizer is None:
        raise ConfigError("Cutting documents by tokens needs a tokenizer.", "Name a tokenizer.json: --tokenizer FILE")

    def cut(text: str, start: int, end: int, chunking: Chunking) -> Iterator[Span]:
        while start < end:
            stop, most = end, start + _MAX_TOKENIZER_CHARS
            if end > most:
                line_end = text.rfind("\n", start + _MAX_TOKENIZER_CHARS // 2, most)
                stop = line_end if line_end > 0 else most
            yield from _token_pieces(text, start, stop, tokenizer(text[start:stop]), chunking)
            start = stop

    return cut


def _token_pieces(text: str, start: int, stop: int, spans: list[Span], chunking: Chunking) -> Iterator[Span]:
    begins = list(accumulate((start + begin for begin, end in spans if begin < end), max))  # tokens may overlap
    at, first = start, 0
    while True:
        last = len(begins) <= first + chunking.size
        cut = len(begins) if last else _token_cut(text, begins, first, chunking)
        piece = text[at : stop if last else begins[cut]]
        if bare := piece.strip():
            begin = at + len(piece) - len(piece.lstrip())
            yield begin, begin + len(bare)
        if last:
            return
        first = cut - chunking.overlap
        at = begins[first]


def _token_cut(text: str, begins: list[int], first: int, chunking: Chunking) -> int:
    """Return the token at which the next passage begins, if possible at a word."""
    most, least = first + chunking.size, first + max(chunking.size // 2, chunking.overlap) + 1
    for cut in range(most, least - 1, -1):
        if text[begins[cut]].isspace() or text[begins[cut] - 1].isspace():
            return cut
    return most
