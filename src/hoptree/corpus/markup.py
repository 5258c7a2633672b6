"""Read HTML and Markdown: the visible text, with headings as sections."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from hoptree.corpus.document import Document, HeadingPath, Problems, Section, short
from hoptree.corpus.files import bom_encoding, is_binary, read_all, read_text, stem

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
    if content is None or is_binary(content[:8192], name, problems):
        return
    if len(content) > _MAX_BYTES:
        limit = f"{_MAX_BYTES // 2**20} MiB"
        problems.add("oversized lines or files", f"{name} is larger than {limit}, too long for a page.")
    elif (text := _decode(content)) is None:
        problems.add("files that are no text", f"{name} is no UTF-8 text and does not name its encoding.")
    else:
        yield html_document(text, name)


def _decode(content: bytes) -> str | None:
    """Decode by the byte order mark, as UTF-8, or in the encoding the page names (as browsers understand it)."""
    try:
        return content.decode(bom_encoding(content[:4]) or "utf-8")
    except UnicodeDecodeError:
        pass
    match = _CHARSET.search(content[:4096])
    encoding = match[1].decode().lower() if match else ""
    if not encoding or encoding.startswith(("utf", "unicode", "raw_unicode", "idna", "punycode")):
        return None
    try:
        return content.decode("cp1252" if encoding in _LATIN else encoding, "replace")
    except (LookupError, ValueError):
        return None


def html_document(text: str, name: str) -> Document:
    """Make a document whose title is that of the page, its first heading, or the file's name."""
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
    """Remove tags of unseen elements that close themselves or are never closed: better too much than nothing."""
    depth = dict.fromkeys(_UNCLOSED_SHOWN, 0)
    for slash, tag, closed in _UNSEEN_TAG.findall(text):
        if not closed:
            depth[tag.lower()] = max(depth[tag.lower()] + (-1 if slash else 1), 0)
    return _UNSEEN_TAG.sub(lambda tag: "" if tag[3] or depth[tag[2].lower()] else tag[0], text)


def _repair(text: str) -> str:
    """Make text of what an HTML parser would drop to the end of the page: an unclosed tag, quote, comment or title."""
    end = text.rfind("-->") + 3 if "-->" in text else 0
    text = _CLOSED_COMMENT.sub("", text[:end]) + text[end:].replace("<!--", "")
    text = _ANY_TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[1] else "&lt;", text)  # no attribute, no open quote
    lower = text.lower()
    if "</title" not in lower[lower.rfind("<title") :]:
        text = _UNCLOSED_TITLE.sub(r"<title>\1</title>", text)
    return _SWALLOWING.sub("", text)


class _Page:
    """Gathers the visible text in pieces; white space between words becomes one space, outside `pre`."""

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
        """Visit the tree with a stack of its own, as elements may be nested a thousand deep."""
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


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MAX_FRONT_LINES = 500
_QUOTED = re.compile(r"^([\"'])(.*)\1$", re.DOTALL)
_KEY = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?$")


def read_markdown(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    text = read_text(stream, name, problems)
    if text is not None:
        yield markdown_document(text, name)


def markdown_document(text: str, name: str) -> Document:
    """Make a document whose title is that of its front matter, its first heading, or the file's name."""
    front, length = _front_matter(text)
    title = next((short(value) for key, value in front if key == "title"), "")
    path = HeadingPath(title)
    sections = [Section(0, "", length)] if length else []
    for start, end, level, heading in _headings(text, length):
        sections.append(Section(start, path.enter(level, heading), end - start))
        title = title or heading
    return Document(
        name,
        title or stem(name),
        text,
        aliases=tuple(value for key, value in front if key in ("alias", "aliases")),
        metadata=tuple(pair for pair in front if pair[0] not in ("title", "alias", "aliases")),
        sections=tuple(sections),
    )


def _headings(text: str, start: int) -> Iterator[tuple[int, int, int, str]]:
    """Yield start, end, level and words of headings outside code, lists and quotes."""
    lines = text[start:].split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=start))
    tokens = _parser().parse("\n".join(lines).replace("\r", " "))  # which the parser would take for a line's end
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or not opening.map:
            continue
        first, last = opening.map
        words = short(inline.content)  # without the marks of emphasis, code and links
        heading = _LINK.sub(r"\1", words).replace("**", "").replace("`", "").strip() or words
        if heading and "\n" not in inline.content:
            yield starts[first], min(starts[last], len(text)), int(opening.tag[1:]), heading


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks alone; a heading right below a line of HTML is a heading all the same."""
    parser = MarkdownIt("commonmark").disable(["html_block", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _front_matter(text: str) -> tuple[list[tuple[str, str]], int]:
    """Read keys with their values between two lines of --- at the very beginning, and the length of all that.

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
        elif number > _MAX_FRONT_LINES:
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
