"""Read Markdown and Jupyter notebooks."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hoptree.corpus.contents import is_entry
from hoptree.corpus.document import Document, Problems, TextBuilder, join_lines, shorten_title, table_lines
from hoptree.corpus.files import read_text, stem, text_reader
from hoptree.corpus.references import heading_anchor, place_name, resolve_link

_MAX_FRONT_MATTER_LINES = 500
_QUOTED = re.compile(r"^([\"'])(.*)\1$", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?$")
_LINKED = r"\((?:<([^<>\n]{0,500})>|([^()<>\s]*(?:\([^()<>\s]*\)[^()<>\s]*)*))(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)"
_LINK = re.compile(rf"!?\[([^\[\]]*)\](?:{_LINKED}|\[[^\[\]]*\])")
_TARGET = re.compile(rf"(?<!\!)\[([^\[\]]*)\]{_LINKED}")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_CODE = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
STARS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])")
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_\n]*[^\s_])\1(?!\w)")
_TAG = re.compile(r"<((?:https?|mailto):[^<>\s]+)>|<!--[^<>]*-->|</?[A-Za-z][^<>]*>")
_PLACEHOLDER = "\ue000"  # for code and escaped characters, while marks are removed
_MAX_INLINE_CHARS = 100_000


def markdown_document(text: str, name: str) -> Document:
    """Make a document titled by front matter, heading or file name."""
    front, length = _front_matter(text)
    title = next((shorten_title(value) for key, value in front if key == "title"), "")
    builder = TextBuilder(title)
    content = text[length:].replace("\r", " ")  # the parser would take "\r" for the end of a line
    _BlockReader(builder, name).read(content)
    return builder.document(
        name,
        stem(name),
        aliases=tuple(value for key, value in front if key in ("alias", "aliases")),
        metadata=tuple(pair for pair in front if pair[0] not in ("title", "alias", "aliases")),
    )


read_markdown = text_reader(markdown_document)


class _BlockReader:
    """Adds the blocks of Markdown texts to a builder as paragraphs, headings and rows."""

    def __init__(self, builder: TextBuilder, name: str) -> None:
        self._builder, self._name = builder, name
        self._rows: list[dict[int, str]] = []
        self._block = self._tag = ""
        self._tight = False

    def read(self, text: str) -> None:
        for token in _parser().parse(text):
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
                self._block, self._tag, self._tight = token.type, token.tag, token.hidden

    def _inline(self, token: Token, words: str) -> None:
        linked: list[str] = []
        for match in _TARGET.finditer(token.content[:_MAX_INLINE_CHARS]):
            if place := resolve_link(match[2] or match[3] or "", self._name):
                self._builder.refer(place)
                linked.append(_plain(match[1]))
        if self._block in ("th_open", "td_open") and self._rows:
            self._rows[-1][len(self._rows[-1])] = words
        elif self._block == "heading_open" and token.level == 1 and "\n" not in token.content:
            self._builder.heading(int(self._tag[1:]), words)
            self._builder.anchor(place_name(self._name, heading_anchor(words)))
        else:
            entries = len(linked) if linked and "\n" not in words and is_entry(words, linked) else 0
            self._builder.add([join_lines(words)], tight=self._tight, entries=entries)


def _plain(text: str) -> str:
    """Return the words of a paragraph without markup."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[1] or match[3].strip())
        return _PLACEHOLDER

    text = _CODE.sub(keep, text.replace(_PLACEHOLDER, " "))
    while (shorter := _LINK.sub(r"\1", text)) != text:  # an image may be in a link
        text = shorter
    text = _TAG.sub(lambda tag: tag[1] or "", text)
    for _ in range(2):  # emphasis in emphasis
        text = _UNDERSCORES.sub(r"\2", STARS.sub(r"\2", text))
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]).replace(_PLACEHOLDER, " "), text)
    pieces = iter(kept)
    return re.sub(_PLACEHOLDER, lambda _: next(pieces), text) if kept else text


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks only; headings may directly follow HTML."""
    parser = MarkdownIt("commonmark").enable("table").disable(["html_block", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _front_matter(text: str) -> tuple[list[tuple[str, str]], int]:
    """Return the keys and values of front matter, and its length.

    It has plain values, [lists, in brackets] and lists with dashes. A block with anything else at its left margin is no
    front matter. A YAML parser would refuse usual front matter, such as a title with a colon.
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
        elif number > _MAX_FRONT_MATTER_LINES:
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


_MAX_OUTPUT_CHARS = 2_000


def read_notebook(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """Read the cells of a notebook and the text of their outputs."""
    text = read_text(stream, name, problems)
    if not text or text.isspace():
        return
    builder = TextBuilder()
    try:
        notebook = json.loads(text)
        for cell in notebook.get("cells") or notebook["worksheets"][0]["cells"]:
            source = "".join(cell.get("source", cell.get("input", "")))  # a string, or a list of lines
            if cell["cell_type"] == "markdown":
                _BlockReader(builder, name).read(source)
                continue
            builder.add([source])
            for output in cell.get("outputs", ()):
                shown = output.get("text") or output.get("data", {}).get("text/plain", "")
                builder.add(["".join(shown)[:_MAX_OUTPUT_CHARS]])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        sentence = f"{name} cannot be read as a notebook: it is damaged, or of another kind."
        problems.add("damaged documents", sentence, cuts=True)
        return
    yield builder.document(name, stem(name))
