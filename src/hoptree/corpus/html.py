"""HTML: the words a reader sees, its headings as sections; broken markup costs no text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from html import unescape
from typing import Literal

from hoptree.corpus.document import Document, HeadingPath, Problems, Section, short
from hoptree.corpus.files import bom_encoding, looks_binary, read_all, stem

Token = tuple[Literal["text", "start", "end", "void"], str]
"""A kind with the text, or with the name of the tag in small letters; `void` is a tag that closes itself."""

_NAME = re.compile(r"/?([A-Za-z][^\s/>]{0,60})")
_STOP = re.compile(r"""[>"']""")
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style", "title")}


def tokens(text: str) -> Iterator[Token]:
    """The tags and texts of a page, character references resolved; comments, declarations and scripts are left out."""
    return _Scanner(text).tokens()


class _Scanner:
    """A place in the text; what is known not to come any more is not looked for again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._gone: set[str] = set()

    def tokens(self) -> Iterator[Token]:
        text = self._text
        while self._at < len(text):
            opening = text.find("<", self._at)
            if opening < 0:
                opening = len(text)
            if opening > self._at:
                yield "text", _plain(text[self._at : opening])
            self._at = opening + 1
            if found := _NAME.match(text, self._at):
                yield from self._tag(found)
            elif text.startswith("!--", self._at):
                self._skip_past("-->", 3)
            elif text.startswith(("!", "?", "/"), self._at):
                self._skip_past(">", 1)
            elif opening < len(text):
                yield "text", "<"

    def _find(self, what: str, start: int) -> int:
        if what in self._gone:
            return -1
        found = self._text.find(what, start)
        if found < 0:
            self._gone.add(what)
        return found

    def _skip_past(self, what: str, least: int) -> None:
        found = self._find(what, self._at)
        self._at = self._at + least if found < 0 else found + len(what)

    def _tag(self, found: re.Match[str]) -> Iterator[Token]:
        end = self._tag_end(found.end())
        if end < 0:  # never closed: no tag, and what follows is text
            yield "text", "<"
            return
        name, closing = found[1].lower(), found[0].startswith("/")
        void = self._text[end - 1] == "/"
        yield "end" if closing else "void" if void else "start", name
        self._at = end + 1
        if name in _RAW_END and not closing and not void:
            yield from self._raw(name)

    def _tag_end(self, start: int) -> int:
        """Where the > stands that closes a tag: outside of quotes, or if there is none, the next one."""
        at = start
        while "closed tags" not in self._gone:
            stop = _STOP.search(self._text, at)
            if stop is None:
                self._gone.add("closed tags")
                break
            at = stop.end()
            if stop[0] == ">":
                return stop.start()
            if self._text[stop.start() - 1] in "= \t\n":
                closing = self._find(stop[0], at)
                at = closing + 1 if closing >= 0 else at
        return self._find(">", start)

    def _raw(self, name: str) -> Iterator[Token]:
        """Scripts and styles are dropped, to the end of the page if they are never closed; a title is text."""
        end = None if name in self._gone else _RAW_END[name].search(self._text, self._at)
        if end is None:
            self._gone.add(name)
            if name != "title":
                self._at = len(self._text)
            return
        if name == "title":
            yield "text", _plain(self._text[self._at : end.start()])
        self._at = end.start()


def _plain(text: str) -> str:
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


_CHARSET = re.compile(
    rb"""(?:charset|<\?xml[^>]{0,200}encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.I
)
_LATIN = frozenset(("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_UNSEEN = frozenset(("template", "noscript", "svg", "nav", "iframe", "object", "select", "button"))
_LISTS = frozenset(("dd", "dl", "dt", "ol", "ul"))
_PARAGRAPHS = _LISTS | frozenset(
    (
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "details",
        "div",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "main",
        "p",
        "pre",
        "section",
        "table",
    )
)
_LINES = frozenset(("br", "li", "tr", "caption", "summary", "option"))
_CELLS = frozenset(("td", "th"))
_LARGEST = 16 * 2**20


def read_html(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    content = read_all(stream, name, problems)
    if content is None:
        return
    if looks_binary(content[:8192]):
        problems.add("files that are no text", f"{name} is no text: it is binary.")
    elif len(content) > _LARGEST:
        problems.add("oversized lines or files", f"{name} is larger than {_LARGEST // 2**20} MiB, too long for a page.")
    elif (text := _decoded(content)) is None:
        problems.add("files that are no text", f"{name} is no UTF-8 text and does not name its encoding.")
    else:
        yield html_document(text, name)


def _decoded(content: bytes) -> str | None:
    """The text by the byte order mark, as UTF-8, or in the encoding the page names (as browsers understand it)."""
    try:
        return content.decode(bom_encoding(content[:4]) or "utf-8")
    except UnicodeDecodeError:
        pass
    found = _CHARSET.search(content[:4096])
    encoding = found[1].decode().lower() if found else ""
    if not encoding or encoding.startswith(("utf", "unicode", "raw_unicode", "idna", "punycode")):
        return None
    try:
        return content.decode("cp1252" if encoding in _LATIN else encoding, "replace")
    except (LookupError, ValueError):
        return None


def html_document(text: str, name: str) -> Document:
    """A document whose title is that of the page, its first heading, or the file's name."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    page = _read(text, _UNSEEN)
    if page.unseen:  # something unseen is never closed: better too much than nothing
        page = _read(text, frozenset[str]())
    title = page.title
    path = HeadingPath(title)
    sections = tuple(Section(start, path.enter(level, heading)) for start, level, heading in page.headings)
    return Document(
        name, title or next((h for _, _, h in page.headings), "") or stem(name), page.text, sections=sections
    )


def _read(text: str, unseen: frozenset[str]) -> _Page:
    page = _Page(unseen)
    for kind, value in tokens(text):
        if kind == "text":
            page.add(value)
        elif kind == "start":
            page.open(value)
        elif kind == "end":
            page.close(value)
        elif value not in unseen:
            page.part(value)
    page.finish()
    return page


class _Page:
    """Gathers the visible text in pieces; white space between words is one space, outside `pre`."""

    def __init__(self, unseen: frozenset[str]) -> None:
        self.title = ""
        self.text = ""
        self.headings: list[tuple[int, int, str]] = []
        self.unseen = 0
        self._drop = unseen
        self._pieces: list[str] = []
        self._length = 0
        self._gap = ""
        self._pre = 0
        self._heading: tuple[int, list[str]] | None = None
        self._title: list[str] | None = None

    def open(self, tag: str) -> None:
        self._end_title()
        if tag in self._drop:
            self.unseen += 1
        elif tag in _HEADINGS:
            self._end_heading()
            self._heading = (_HEADINGS[tag], [])
        elif tag == "title" and not self.title and not self._pieces:
            self._title = []
        else:
            self._pre += tag == "pre"
            self.part(tag)

    def close(self, tag: str) -> None:
        if tag in self._drop:
            self.unseen = max(self.unseen - 1, 0)
        elif tag in _HEADINGS:
            self._end_heading()
        elif tag in ("title", "head"):
            self._end_title()
        else:
            self._pre = max(self._pre - (tag == "pre"), 0)
            self.part(tag)

    def add(self, data: str) -> None:
        if self.unseen:
            return
        if self._title is not None:
            self._title.append(data)
        elif self._heading is not None:
            self._heading[1].append(data)
        elif self._pre:
            self._put(data)
        else:
            words = " ".join(data.split())
            if data[:1].isspace():
                self._widen(" ")
            if words:
                self._put(words)
                if data[-1:].isspace():
                    self._widen(" ")

    def finish(self) -> None:
        self._end_title()
        self._end_heading()
        self.text = "".join(self._pieces)

    def part(self, tag: str) -> None:
        """Keep apart what a tag keeps apart; a paragraph ends a heading that was left open."""
        if self._heading is not None:
            self._heading[1].append(" ")
            if tag in _PARAGRAPHS and any(not piece.isspace() for piece in self._heading[1]):
                self._end_heading()
        self._widen("\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else " " if tag in _CELLS else "")

    def _widen(self, gap: str) -> None:
        if len(gap) > len(self._gap) or (gap and gap[0] == "\n" and self._gap == " "):
            self._gap = gap

    def _put(self, text: str) -> None:
        piece = f"{self._gap}{text}" if self._pieces else text
        self._gap = ""
        self._pieces.append(piece)
        self._length += len(piece)

    def _end_title(self) -> None:
        if self._title is not None:
            said, self._title = " ".join("".join(self._title).split()), None
            self.title = short(said)
            if len(said) > len(self.title):  # a title that was left open
                self._put(said)

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        (level, pieces), self._heading = self._heading, None
        said = " ".join("".join(pieces).split())
        self._widen("\n\n")
        if said:
            self.headings.append((self._length, level, short(said)))
            if len(said) > len(short(said)):
                self._put(said)
                self._widen("\n\n")
