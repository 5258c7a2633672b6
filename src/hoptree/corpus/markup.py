"""Read HTML, Markdown, reStructuredText and notebooks as text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser, LexborNode

from hoptree.corpus.document import Document, HeadingPath, Problems, Section, TextBuilder, short, table_lines
from hoptree.corpus.files import GUESSES, decode, read_all, read_text, stem
from hoptree.text.word_classes import word_set

_CHARSET = re.compile(
    rb"""(?:charset|<\?xml[^>]{0,200}encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.I
)
_LATIN = frozenset(("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"))
_MAX_BYTES = 16 * 2**20

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_UNCLOSED_SHOWN = ("template", "noscript", "svg", "nav", "iframe", "object", "select", "button")
_UNSEEN = frozenset((*_UNCLOSED_SHOWN, "script", "style"))
_PARAGRAPHS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form header hr "
        "main ol p pre section table ul",
    )
)
_LINES = frozenset(("br", "li", "tr", "caption", "summary", "option"))
_CELLS = frozenset(("td", "th"))

_UNSEEN_TAG = re.compile(rf"<(/?)({'|'.join(_UNCLOSED_SHOWN)})(?=[\s/>])[^<>]*?(/?)>", re.IGNORECASE)
_END_MARK = "hoptree-end"
_CLOSED_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ANY_TAG = re.compile(r"<(/?[A-Za-z][^\s<>/]*)[^<>]*?(/?)>|<(?![!?/][^<>]*>)")
_UNCLOSED_TITLE = re.compile(r"<title>([^<]*+)(?!</title)", re.IGNORECASE)
_SWALLOWING = re.compile(r"<(?:frameset|noembed|noframes|plaintext|textarea|xmp)>", re.IGNORECASE)


def read_html(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    content = read_all(stream, name, problems)
    if content is None:
        return
    if len(content) > _MAX_BYTES:
        limit = f"{_MAX_BYTES // 2**20} MiB"
        problems.add("oversized lines or files", f"{name} is larger than {limit}, too long for a page.")
    elif text := decode_html(content):
        yield html_document(text, name)
    elif content:
        problems.add("files that are no text", f"{name} is no text: it is binary.")


def decode_html(content: bytes) -> str:
    """Decode as browsers do: by mark, UTF-8, named encoding, Latin-1."""
    text, encoding = decode(content)
    match = _CHARSET.search(content[:4096]) if encoding in ("", *GUESSES) else None
    named = match[1].decode().lower() if match else ""
    if named and named not in _LATIN and not named.startswith(("utf", "unicode", "raw_unicode", "idna", "punycode")):
        with suppress(LookupError, ValueError):
            return content.decode(named, "replace")
    return text


def html_document(text: str, name: str) -> Document:
    """Make a document titled by the page, its heading or the file name."""
    page = _Page(_parse(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")))
    path = HeadingPath(page.title)
    sections = tuple(Section(start, path.enter(level, heading)) for start, level, heading in page.headings)
    title = page.title or (page.headings[0][2] if page.headings else "") or stem(name)
    return Document(name, title, page.text, sections=sections)


def _parse(text: str) -> LexborNode | None:
    """Parse a page; one whose end its broken markup would hide is repaired first."""
    text = _without_unclosed(text)
    tree = LexborHTMLParser(f"{text}<{_END_MARK}>")
    if tree.css_first(_END_MARK) is None:
        tree = LexborHTMLParser(_repair(text))
    return tree.root


def _without_unclosed(text: str) -> str:
    """Remove unseen elements that are never closed."""
    depth = dict.fromkeys(_UNCLOSED_SHOWN, 0)
    for slash, tag, closed in _UNSEEN_TAG.findall(text):
        if not closed:
            depth[tag.lower()] = max(depth[tag.lower()] + (-1 if slash else 1), 0)
    return _UNSEEN_TAG.sub(lambda tag: "" if tag[3] or depth[tag[2].lower()] else tag[0], text)


def _repair(text: str) -> str:
    """Make text of unclosed tags, quotes, comments and titles."""
    end = text.rfind("-->") + 3 if "-->" in text else 0
    text = _CLOSED_COMMENT.sub("", text[:end]) + text[end:].replace("<!--", "")
    text = _ANY_TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[1] else "&lt;", text)  # no attribute, no open quote
    lower = text.lower()
    if "</title" not in lower[lower.rfind("<title") :]:
        text = _UNCLOSED_TITLE.sub(r"<title>\1</title>", text)
    return _SWALLOWING.sub("", text)


class _Page:
    """Gathers the visible text, collapsing white space outside `pre`."""

    def __init__(self, root: LexborNode | None) -> None:
        self.title = ""
        self.headings: list[tuple[int, int, str]] = []
        """Where in the text a heading takes effect, its level and its words."""
        self._pieces: list[str] = []
        self._length = 0
        self._gap = ""
        self._pre_depth = 0
        self._heading: tuple[int, list[str]] | None = None
        self._walk(root)
        self._end_heading()
        self.text = "".join(self._pieces)

    def _walk(self, root: LexborNode | None) -> None:
        """Visit the tree with an own stack: elements may nest deeply."""
        stack: list[LexborNode | str | None] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                self._enter_or_leave(node, -1)
            elif node is not None and (tag := node.tag) == "-text":
                self._add(node.text_content or "")
            elif node is not None and tag and tag not in _UNSEEN:
                if tag == "title" and not self.title and not self._pieces:
                    title = " ".join(node.text().split())
                    self.title = short(title)
                    if len(title) > len(self.title):  # a title that was never closed
                        self._put(title)
                    continue
                if tag == "table" and (rows := _named_rows(node)):
                    self._widen("\n\n")
                    for line in table_lines(rows):
                        self._put(line)
                        self._widen("\n\n")
                    continue
                self._enter_or_leave(tag, 1)
                stack += [tag, *reversed(list(node.iter(include_text=True)))]

    def _enter_or_leave(self, tag: str, step: int) -> None:
        if tag in _HEADINGS:
            self._end_heading()
            self._heading = (_HEADINGS[tag], []) if step > 0 else None
            return
        self._pre_depth += step * (tag == "pre")
        # What a tag keeps apart is kept apart; a paragraph ends a heading that was left open.
        if self._heading is not None:
            self._heading[1].append(" ")
            if tag in _PARAGRAPHS and any(not piece.isspace() for piece in self._heading[1]):
                self._end_heading()
        self._widen("\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else " " if tag in _CELLS else "")

    def _add(self, text: str) -> None:
        if self._heading is not None:
            self._heading[1].append(text)
        elif self._pre_depth:
            self._put(text)
        else:
            if text[:1].isspace():
                self._widen(" ")
            if words := " ".join(text.split()):
                self._put(words)
                if text[-1:].isspace():
                    self._widen(" ")

    def _widen(self, gap: str) -> None:
        if len(gap) > len(self._gap) or (gap[:1] == "\n" and self._gap == " "):
            self._gap = gap

    def _put(self, text: str) -> None:
        piece = f"{self._gap}{text}" if self._pieces else text
        self._gap = ""
        self._pieces.append(piece)
        self._length += len(piece)

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        (level, pieces), self._heading = self._heading, None
        words = " ".join("".join(pieces).split())
        self._widen("\n\n")
        if words:
            self.headings.append((self._length, level, short(words)))
            if len(words) > len(short(words)):
                self._put(words)
                self._widen("\n\n")


def _named_rows(table: LexborNode) -> list[dict[int, str]]:
    """Return the cells of a table with a heading row; else none."""
    rows = table.css("tr")
    names = [cell.tag for cell in rows[0].iter()] if rows else []
    if len(rows) < 2 or len(names) < 2 or set(names) != {"th"} or len(table.css("table, h1, h2, h3, h4, pre")) > 1:
        return []
    caption = table.css_first("caption")
    return [*([{0: caption.text()}] if caption else []), *map(_cells, rows)]


def _cells(row: LexborNode) -> dict[int, str]:
    cells: dict[int, str] = {}
    at = 0
    for cell in row.iter():
        if cell.tag in _CELLS:
            cells[at] = cell.text(separator=" ")
            span = cell.attributes.get("colspan") or "1"
            at += int(span) if span.isdecimal() and len(span) < 4 else 1
    return cells


_FRONT_LINES = 500
_QUOTED = re.compile(r"^([\"'])(.*)\1$", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?$")
_LINK = re.compile(r"!?\[([^\[\]]*)\](?:\([^()\s]*(?:\s+\"[^\"]*\")?\)|\[[^\[\]]*\])")
_CODE = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
_STARS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])")
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_\n]*[^\s_])\1(?!\w)")
_TAG = re.compile(r"<((?:https?|mailto):[^<>\s]+)>|<!--[^<>]*-->|</?[A-Za-z][^<>]*>")
_KEPT = "\ue000"  # stands for code and escaped characters while marks are removed
_MAX_INLINE_CHARS = 100_000


def read_markdown(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    text = read_text(stream, name, problems)
    if text is not None:
        yield markdown_document(text, name)


def markdown_document(text: str, name: str) -> Document:
    """Make a document titled by front matter, heading or file name."""
    front, length = _front_matter(text)
    title = next((short(value) for key, value in front if key == "title"), "")
    builder = TextBuilder(title)
    _Blocks(builder).read(_parser().parse(text[length:].replace("\r", " ")))  # which it would take for a line's end
    return builder.document(
        name,
        stem(name),
        aliases=tuple(value for key, value in front if key in ("alias", "aliases")),
        metadata=tuple(pair for pair in front if pair[0] not in ("title", "alias", "aliases")),
    )


class _Blocks:
    """Takes the blocks of a Markdown text as paragraphs, headings and rows of tables."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._rows: list[dict[int, str]] = []
        self._opening = self._tag = ""
        self._tight = False

    def read(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            if token.type == "inline":
                self._inline(token, token.content if len(token.content) > _MAX_INLINE_CHARS else _plain(token.content))
            elif token.type in ("fence", "code_block"):
                self._builder.add([token.content.strip("\n")])
            elif token.type == "tr_open":
                self._rows.append({})
            elif token.type == "table_close":
                self._builder.add(table_lines(self._rows))
                self._rows = []
            elif token.nesting > 0:
                self._opening, self._tag, self._tight = token.type, token.tag, token.hidden

    def _inline(self, token: Token, words: str) -> None:
        if self._opening in ("th_open", "td_open") and self._rows:
            self._rows[-1][len(self._rows[-1])] = words
        elif self._opening == "heading_open" and token.level == 1 and "\n" not in token.content:
            self._builder.heading(int(self._tag[1:]), words)
        else:
            self._builder.add([words], tight=self._tight)


def _plain(text: str) -> str:
    """Return the words of a Markdown line without markup."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[1] or match[3].strip())
        return _KEPT

    text = _CODE.sub(keep, text.replace(_KEPT, " "))
    while (shorter := _LINK.sub(r"\1", text)) != text:  # an image may be in a link
        text = shorter
    text = _TAG.sub(lambda tag: tag[1] or "", text)
    for _ in range(2):  # emphasis in emphasis
        text = _UNDERSCORES.sub(r"\2", _STARS.sub(r"\2", text))
    pieces = iter(kept)
    return re.sub(_KEPT, lambda _: next(pieces), text) if kept else text


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks; headings may follow HTML directly."""
    parser = MarkdownIt("commonmark").enable("table").disable(["html_block", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _front_matter(text: str) -> tuple[list[tuple[str, str]], int]:
    """Read front matter, and return its keys and length.

    Plain values, [lists, in brackets] and lists with dashes are read. A block with anything else at its left margin
    is no front matter. YAML would refuse what people write, such as a title with a colon.
    """
    pairs: list[tuple[str, str]] = []
    key = ""
    length = 0
    for number, line in enumerate(io.StringIO(text, newline="\n")):
        length += len(line)
        bare = line.rstrip()
        if number == 0:
            if bare != "---":
                break
        elif bare in ("---", "..."):
            return pairs, length
        elif number > _FRONT_LINES:
            break
        elif match := _KEY.match(bare):
            key = match[1].strip().lower()
            pairs += [(key, value) for value in _front_values(match[2] or "")]
        elif key and bare.lstrip().startswith("- "):
            pairs += [(key, value) for value in _front_values(bare.lstrip()[2:])]
        elif bare and not bare.startswith((" ", "\t", "#", "- ")):
            break
    return [], 0


def _front_values(text: str) -> list[str]:
    text = text.strip()
    items = text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else [text]
    values = (_QUOTED.sub(r"\2", item.strip()) for item in items)
    return [value for value in values if value and value not in ("|", ">", "null", "~")]


_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*$")
_DIRECTIVE = re.compile(r"(\s*)\.\.(?: ([\w:-]+)::)?(?: (.*))?$")
_WITHOUT_ARGUMENT = word_set(
    "code-block code sourcecode highlight image figure include literalinclude index toctree raw"
)
_ROLE = re.compile(r"(?::[\w:+.-]+:)?`~?([^`<>]*?)(?:\s*<[^`<>]*>)?`_{0,2}")
_LITERAL = re.compile(r"``(.+?)``")


def read_rst(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    text = read_text(stream, name, problems)
    if text is not None:
        yield rst_document(text, name)


def rst_document(text: str, name: str) -> Document:
    """Make a document of reStructuredText: titles and directives' content."""
    builder = TextBuilder()
    levels: list[str] = []
    """The adornments of titles, from the highest level on."""
    paragraph: list[str] = []
    dropped = -1
    """The indentation of a comment or a list of files, which ends where a line is indented no more than it."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        below = lines[at + 1] if at + 1 < len(lines) else ""
        above = lines[at - 1] if at else ""
        if dropped >= 0 and (not line.strip() or indent > dropped):
            continue
        dropped = -1
        if _ADORNMENT.match(line):
            continue
        if not line.strip():
            builder.add(["\n".join(paragraph)])
            paragraph.clear()
        elif (match := _DIRECTIVE.match(line)) and not _ADORNMENT.match(below):
            kind, argument = match[2], match[3] or ""
            if kind is None or kind in ("toctree", "index", "raw"):
                dropped = indent
            elif kind not in _WITHOUT_ARGUMENT:
                paragraph.append(_plain_rst(argument))
        elif _ADORNMENT.match(below) and len(below.rstrip()) >= len(line.strip()) * 0.9 and not paragraph:
            style = below[0] * (2 if above[:1] == below[0] and _ADORNMENT.match(above) else 1)
            if style not in levels:
                levels.append(style)
            builder.heading(levels.index(style) + 1, _plain_rst(line.strip()))
        elif not (indent and re.match(r"\s+:[\w-]+:(\s|$)", line)):  # an option of a directive
            paragraph.append(_plain_rst(line))
    builder.add(["\n".join(paragraph)])
    return builder.document(name, stem(name))


def _plain_rst(line: str) -> str:
    line = _ROLE.sub(r"\1", _LITERAL.sub(r"\1", line))
    line = _STARS.sub(r"\2", line)
    return f"{line.rstrip()[:-1]}" if line.rstrip().endswith("::") else line


_MAX_OUTPUT_CHARS = 2_000


def read_notebook(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read the cells of a Jupyter notebook and the text of their outputs."""
    text = read_text(stream, name, problems)
    if not text or text.isspace():
        return
    builder = TextBuilder()
    try:
        notebook = json.loads(text)
        for cell in notebook.get("cells") or notebook["worksheets"][0]["cells"]:
            source = _joined(cell.get("source", cell.get("input", "")))
            if cell["cell_type"] == "markdown":
                _Blocks(builder).read(_parser().parse(source))
            else:
                outputs = [
                    output.get("text") or output.get("data", {}).get("text/plain", "")
                    for output in cell.get("outputs", ())
                ]
                builder.add([source, *(_joined(output)[:_MAX_OUTPUT_CHARS] for output in outputs)])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        problems.add(
            "damaged documents", f"{name} cannot be read as a notebook: it is damaged, or of another kind.", cuts=True
        )
        return
    yield builder.document(name, stem(name))


def _joined(lines: Any) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
