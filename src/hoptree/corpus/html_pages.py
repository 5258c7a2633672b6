"""Read the visible text of HTML pages, with headings as sections."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from operator import itemgetter

from selectolax.lexbor import LexborHTMLParser, LexborNode

from hoptree.corpus.contents import is_entry
from hoptree.corpus.document import (
    MAX_DOCUMENT_BYTES,
    Document,
    HeadingPath,
    Oversized,
    Problems,
    Section,
    is_informative,
    join_lines,
    shorten_title,
    table_lines,
)
from hoptree.corpus.files import GUESSES, decode, read_all, stem
from hoptree.corpus.references import place_name, resolve_link
from hoptree.text.names import word_set

_CHARSET = re.compile(
    rb"""(?:charset|<\?xml[^>]{0,200}encoding)\s{0,9}=\s{0,9}["']?\s{0,9}([A-Za-z0-9_.:-]{1,40})""", re.I
)
_LATIN = frozenset(("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"))
_MAX_BYTES = 16 * 2**20

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SHOWN_IF_UNCLOSED = ("template", "noscript", "svg", "nav", "iframe", "object", "select", "button")
_HIDDEN = frozenset((*_SHOWN_IF_UNCLOSED, "script", "style"))
_PARAGRAPHS = word_set(
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer form header hr main "
    "ol p pre section table ul"
)
_BOXES = word_set("div ul ol table section header footer aside form p")
_NAVIGATION = word_set(
    "role=navigation role=search navheader navfooter sphinxsidebar wy-breadcrumbs navpath nav-path topnav bottomnav "
    "subnav nav-panel"
)
"""Roles and classes of navigation, as DocBook, Sphinx, Doxygen, Javadoc and Texinfo write them."""
_LINK_LISTS = word_set("related breadcrumb breadcrumbs tabs navbar")  # classes that pages also give to content
_CONTENTS, _BREAK = word_set("toc contents toctree-wrapper"), ""  # an empty string is no tag
_MAX_UNLINKED_CHARS, _MAX_UNLINKED_SHARE = 250, 0.5  # of the text of navigation; what has more is content
_ASIDES = frozenset(("note", "tip", "warning", "caution", "important", "admonition", "sidebar", "attention", "hint"))
"""The classes of boxes in a text; a heading in one does not begin a section."""
_LINES = frozenset(("br", "li", "tr", "caption", "summary", "option"))
_CELLS = frozenset(("td", "th"))

_HIDDEN_ELEMENT_TAG = re.compile(rf"<(/?)({'|'.join(_SHOWN_IF_UNCLOSED)})(?=[\s/>])[^<>]*?(/?)>", re.IGNORECASE)
_END_MARK = "hoptree-end"
_CLOSED_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ANY_TAG = re.compile(r"<(/?[A-Za-z][^\s<>/]*)[^<>]*?(/?)>|<(?![!?/][^<>]*>)")
_UNCLOSED_TITLE = re.compile(r"<title>([^<]*+)(?!</title)", re.IGNORECASE)
_KEPT_ATTRIBUTE = re.compile(r"""\s(id|name|href|class|colspan|rowspan)="([^"'<>]{1,300})\"""", re.IGNORECASE)
_BARE_TAG = re.compile(r"<(/?)([A-Za-z][^\s<>/]*)(?: [^<>]*)?/?>")
_HAS_WORD = re.compile(r"\w")
_NAVIGATION_WORDS = word_set("next prev previous up home top zurück weiter nach-oben 上一页 下一页 起始页 上一级")
"""The words of links to the next or previous page of a manual."""
_PERMALINK, _HEADING_LINKS = "¶", frozenset(("#", "§", "🔗", "¶"))
"""The words of links from a heading to itself."""
_MAX_SPANNING_CELLS, _MAX_REPEATED_CHARS = 50, 1_000  # cells that span rows, and the text that one may repeat
_MAX_ROW_CHARS = 1_000  # of a table's row that becomes a line; longer ones lay out a page
_MAX_DEPTH = 512  # as in browsers
_MAX_REOPENED_TAGS = 1_000_000
_FORMATTING = word_set("a b big code em font i nobr s small strike strong tt u")
"""If one is open at the end of a paragraph, a parser opens it again in the next."""
_NOT_NESTED = word_set(
    "area base br col embed hr img input link meta param source track wbr p li dt dd option tr td th tbody"
)
_SCOPES = word_set(
    "table td th caption select template object button marquee applet title textarea style script iframe svg math desc "
    "foreignobject mi mo mn ms mtext annotation-xml"
)
"""No end tag inside one of these closes an element outside it."""
_AMBIGUOUS_MARKUP = re.compile(
    r"""<!\[|<\?|=\s*"[^"<]*<|=\s*'[^'<]*<|<[A-Za-z][^<>]*<|<(?:textarea|xmp|plaintext|noembed|noframes)\b""",
    re.IGNORECASE,
)
"""Where a parser may read a tag as text, or text as a tag."""
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
        problems.add("files that are not text", f"{name} is not text: it is binary.")


def decode_html(content: bytes) -> str:
    """Decode by byte order mark, as UTF-8, by the declared encoding or as Latin-1."""
    text, encoding = decode(content)
    named = declared_encoding(content) if encoding in ("", *GUESSES) else ""
    if named:
        with suppress(LookupError, ValueError):
            return content.decode(named, "replace")
    return text


def declared_encoding(content: bytes) -> str:
    """Return the encoding that a page declares; "" for Latin-1 and those of Unicode."""
    match = _CHARSET.search(content[:4096])
    named = match[1].decode().lower() if match else ""
    excluded = named in _LATIN or named.startswith(("utf", "unicode", "raw_unicode", "idna", "punycode"))
    return "" if excluded else named


def html_document(text: str, name: str) -> Document:
    """Make a document with the title of the page, its first heading or the file name."""
    page = _Page(_parse(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")), name)
    path = HeadingPath(page.title)
    title = page.title or (page.headings[0][2] if page.headings else "") or stem(name)
    sections: list[Section] = []
    for start, level, heading in sorted(page.headings + page.breaks, key=itemgetter(0)):
        above = sections[-1].title if sections else title
        sections.append(Section(start, path.enter(level, heading) if level else above))
    references, entries = page.links()
    return Document(name, title, page.text, (), (), tuple(sections), False, tuple(page.anchors), references, entries)


def _parse(text: str) -> LexborNode | None:
    """Parse a page; repair it first if broken markup would hide its end."""
    text = _without_unclosed(text)
    if text.count("<") > _MAX_DEPTH:
        repaired = _repair(text)
        if _is_too_deep(repaired):
            return LexborHTMLParser(_BARE_TAG.sub(_flat, repaired)).root
        text = repaired if _AMBIGUOUS_MARKUP.search(text) else text
    tree = LexborHTMLParser(f"{text}<{_END_MARK}>")
    if tree.css_first(_END_MARK) is None:
        tree = LexborHTMLParser(_repair(text))
    return tree.root


def _without_unclosed(text: str) -> str:
    """Remove the tags of hidden elements that are never closed."""
    depth = dict.fromkeys(_SHOWN_IF_UNCLOSED, 0)
    for slash, tag, closed in _HIDDEN_ELEMENT_TAG.findall(text):
        if not closed:
            depth[tag.lower()] = max(depth[tag.lower()] + (-1 if slash else 1), 0)
    return _HIDDEN_ELEMENT_TAG.sub(lambda tag: "" if tag[3] or depth[tag[2].lower()] else tag[0], text)


def _repair(text: str) -> str:
    """Turn unclosed tags, quotes, comments and titles into text."""
    end = text.rfind("-->") + 3 if "-->" in text else 0
    text = _CLOSED_COMMENT.sub("", text[:end]) + text[end:].replace("<!--", "")
    text = _ANY_TAG.sub(_without_quotes, text)
    lower = text.lower()
    if "</title" not in lower[lower.rfind("<title") :]:
        text = _UNCLOSED_TITLE.sub(r"<title>\1</title>", text)
    return _SWALLOWING.sub("", text)


def _without_quotes(tag: re.Match[str]) -> str:
    """Return a tag with only the attributes that are read, so that no quote is open."""
    if not tag[1]:
        return "&lt;"
    attributes = [] if tag[1].startswith("/") else _KEPT_ATTRIBUTE.findall(tag[0])
    kept = "".join(f' {name}="{value}"' for name, value in attributes)
    return f"<{tag[1]}{kept}{tag[2]}>"


def _is_too_deep(text: str) -> bool:
    """Return whether parsing these tags takes quadratic time or memory."""
    open_tags: list[str] = []
    formatting = reopened = 0
    for match in _BARE_TAG.finditer(text):
        tag = match[2].lower()
        if match[1]:
            for at in reversed(range(len(open_tags))):
                if open_tags[at] == tag:
                    formatting -= sum(map(_FORMATTING.__contains__, open_tags[at:]))
                    del open_tags[at:]
                    break
                if open_tags[at] in _SCOPES:
                    break
            continue
        reopened += formatting
        formatting += tag in _FORMATTING
        if tag not in _NOT_NESTED:
            open_tags.append(tag)
        if len(open_tags) > _MAX_DEPTH or reopened > _MAX_REOPENED_TAGS:
            return True
    return False


def _flat(tag: re.Match[str]) -> str:
    """Replace a tag by one that has no elements inside."""
    name = tag[2].lower()
    if name in _HEADINGS or name in ("title", "script", "style"):
        return tag[0]
    return "<p>" if name in _PARAGRAPHS or name in _LINES else " "


class _Page:
    """Collects the visible text of a page; collapses white space outside `pre`."""

    def __init__(self, root: LexborNode | None, name: str) -> None:
        self.title = ""
        self.anchors: list[tuple[int, str]] = []
        self._name = name
        self._links: list[tuple[int, int, str]] = []  # start, end and place of each link; "" if it leads elsewhere
        self._open_link: tuple[int, str] | None = None
        self.headings: list[tuple[int, int, str]] = []
        """Offset, level and words of each heading."""
        self.breaks: list[tuple[int, int, str]] = []
        """The same for both ends of each table of contents, which have no level and no words."""
        self._pieces: list[str] = []
        self._length = 0
        self._gap = ""
        self._pre_depth = 0
        self._unchecked_chars = _MAX_BYTES
        self._in_row = False
        self._heading: tuple[int, list[str]] | None = None
        self._walk(root)
        self._end_heading()
        self._add_bare_heading(0)
        self.text = "".join(self._pieces)

    def links(self) -> tuple[tuple[tuple[int, str], ...], tuple[tuple[int, int, int], ...]]:
        """Return the links in sentences, and the lines that are little more than links."""
        references: list[tuple[int, str]] = []
        entries: list[tuple[int, int, int]] = []
        lines: dict[int, list[tuple[int, int, str]]] = {}
        for link in self._links:
            lines.setdefault(self.text.rfind("\n", 0, link[0] + 1), []).append(link)
        for before, links in lines.items():
            after = self.text.find("\n", links[-1][1])
            bounds = [before + 1, *(at for start, end, _ in links for at in (start, end)), after % (len(self.text) + 1)]
            between = (self.text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))
            shown = [(start, self.text[start:end].strip(" <>←→«»").lower(), place) for start, end, place in links]
            navigates = any(words in _NAVIGATION_WORDS for _, words, _ in shown)
            if any(map(_HAS_WORD.search, between)):
                references += ((at, place) for at, words, place in shown if place and words not in _NAVIGATION_WORDS)
            if is_entry(
                self.text[bounds[0] : bounds[-1]], [words for _, words, _ in shown], has_navigation_link=navigates
            ):
                entries.append((bounds[0], bounds[-1], sum(place != "" for *_, place in links)))
        return tuple(references), tuple(sorted(entries))

    def _walk(self, root: LexborNode | None) -> None:
        """Visit all elements, with a stack of its own as they may nest deeply."""
        stack: list[LexborNode | str | None] = [root]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                if node != _BREAK:
                    self._enter_or_leave(node, -1)
                else:
                    self.breaks.append((self._length, 0, ""))
            elif node is not None and (tag := node.tag) == "-text":
                self._add(node.text_content or "")
            elif node is not None and tag and tag not in _HIDDEN and not self._is_left_out(node, tag):
                if tag == "title" and not self.title and not self._pieces:
                    title = " ".join(node.text().split())
                    self.title = shorten_title(title)
                    if len(title) > len(self.title):  # it was never closed, so that it contains the text
                        self._put(title)
                    continue
                if tag == "table" and (rows := _named_rows(node)) is not None:
                    self._widen("\n\n")
                    for line in table_lines(rows, named=True):
                        self._put(line)
                        self._widen("\n\n")
                    continue
                if tag in _HEADINGS and _is_in_aside(node):
                    tag = "p"
                self._enter_or_leave(tag, 1)
                self._in_row = self._in_row or (tag == "tr" and _is_line(node))
                self._note_places(node, tag)
                is_contents = tag in _BOXES and not _CONTENTS.isdisjoint(_names(node))
                self.breaks += [(self._length, 0, "")] * is_contents
                stack += [*[_BREAK] * is_contents, tag, *reversed(list(node.iter(include_text=True)))]

    def _is_left_out(self, node: LexborNode, tag: str) -> bool:
        """Return whether an element is a permalink, or navigation by names and text."""
        names = _names(node) if tag in _BOXES else set()
        is_certain = not _NAVIGATION.isdisjoint(names)
        if tag == "a" or self._unchecked_chars < 0 or not (is_certain or not _LINK_LISTS.isdisjoint(names)):
            return tag == "a" and self._is_permalink(node)
        total, linked = (sum(len("".join(each.text().split())) for each in part) for part in ((node,), node.css("a")))
        self._unchecked_chars -= total  # as boxes may be nested
        return total - linked <= max(_MAX_UNLINKED_CHARS * is_certain, _MAX_UNLINKED_SHARE * total)

    def _is_permalink(self, node: LexborNode) -> bool:
        """Return whether a link is the mark after a heading that links to it."""
        only = node.child
        if only is None or only.next is not None or only.tag != "-text":
            return False
        words = (only.text_content or "").strip()
        return words == _PERMALINK or (self._heading is not None and words in _HEADING_LINKS)

    def _note_places(self, node: LexborNode, tag: str) -> None:
        """Record the anchor of an element, and the target of a link."""
        if tag == "a":
            named = node.attributes
            href = named.get("href")
            self._open_link = (self._length, resolve_link(href, self._name)) if href else None
            anchor = node.id or named.get("name")
        else:
            anchor = node.id
        if anchor and (place := place_name(self._name, anchor)):
            self.anchors.append((self._length, place))

    def _end_link(self) -> None:
        (start, place), self._open_link = self._open_link or (self._length, ""), None
        if self._length > start and self._heading is None:
            gap = len(self._pieces[-1]) - len(self._pieces[-1].lstrip()) if self._pieces else 0
            self._links.append((min(start + gap, self._length - 1), self._length, place))

    def _enter_or_leave(self, tag: str, step: int) -> None:
        if tag == "a" and step < 0:
            self._end_link()
        if tag in _HEADINGS:
            self._end_heading()
            if step > 0:
                self._add_bare_heading(_HEADINGS[tag])
            self._heading = (_HEADINGS[tag], []) if step > 0 else None
            return
        self._pre_depth += step * (tag == "pre")
        if self._heading is not None:  # a paragraph ends a heading that was not closed
            self._heading[1].append(" ")
            if tag in _PARAGRAPHS and any(not piece.isspace() for piece in self._heading[1]):
                self._end_heading()
        if tag == "tr":
            self._in_row = False
        gap = "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else " " if tag in _CELLS else ""
        self._widen(" " if self._in_row and gap else gap)

    def _add(self, text: str) -> None:
        if self._heading is not None:
            self._heading[1].append(text)
        elif self._pre_depth:
            self._put(text)
        else:
            if text[:1].isspace():
                self._widen(" ")
            if words := " ".join(join_lines(text).split()):
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
        if self._length > MAX_DOCUMENT_BYTES:  # tables may repeat cells
            raise Oversized

    def _end_heading(self) -> None:
        if self._heading is None:
            return
        (level, pieces), self._heading = self._heading, None
        words = " ".join("".join(pieces).split())
        self._widen("\n\n")
        if words:
            self.headings.append((self._length, level, shorten_title(words)))
            if len(words) > len(shorten_title(words)):
                self._put(words)
                self._widen("\n\n")

    def _add_bare_heading(self, level: int) -> None:
        """Add an informative heading as a text if nothing follows it."""
        place, above, words = self.headings[-1] if self.headings else (-1, 0, "")
        if place == self._length and level <= above and is_informative(words):
            self._put(words)
            self._widen("\n\n")


def _is_in_aside(heading: LexborNode) -> bool:
    return heading.parent is not None and not _ASIDES.isdisjoint(_names(heading.parent))


def _names(node: LexborNode) -> set[str]:
    """Return the classes and the role of an element."""
    named = node.attributes
    return {f"role={named.get('role')}".lower(), *(named.get("class") or "").lower().split()}


def _has_blocks(node: LexborNode) -> bool:
    """Return whether there is a table, heading or preformatted text in an element."""
    return any(inner.tag in ("table", "pre", *_HEADINGS) for inner in islice(node.traverse(), 1, None))


def _is_line(row: LexborNode) -> bool:
    """Return whether a row is short enough for a line, with all its paragraphs."""
    if _has_blocks(row) or sum(cell.tag in _CELLS for cell in row.iter()) < 2:
        return False
    return len(row.text()) <= _MAX_ROW_CHARS


def _named_rows(table: LexborNode) -> Iterable[dict[int, str]] | None:
    """Return the rows of a table with a row of column names; None for other tables."""
    if _has_blocks(table):
        return None
    rows = table.css("tr")
    tags = [[cell.tag for cell in row.iter()] for row in rows[:2]]
    names = tags[-1] if ["th"] in tags[:1] else tags[0] if tags else []  # below a title
    if len(rows) < 2 or len(names) < 2 or set(names) != {"th"}:
        return None
    caption = table.css_first("caption")
    return chain([{0: _Page(caption, "").text}] if caption else [], _cells(rows))


def _cells(rows: Iterable[LexborNode]) -> Iterator[dict[int, str]]:
    """Yield the cells of each row; a short cell that spans rows is repeated in each."""
    below: dict[int, tuple[int, str]] = {}
    for row in rows:
        cells = {at: words for at, (_, words) in below.items()}
        below = {at: (left - 1, words) for at, (left, words) in below.items() if left > 1}
        at = 0
        for cell in row.iter():
            if cell.tag not in _CELLS:
                continue
            while at in cells:
                at += 1
            cells[at] = _Page(cell, "").text
            columns, lines = _span(cell, "colspan"), _span(cell, "rowspan")
            if lines > 1 and len(below) < _MAX_SPANNING_CELLS:
                below[at] = lines - 1, cells[at] if len(cells[at]) * lines <= _MAX_REPEATED_CHARS else ""
                below |= dict.fromkeys(range(at + 1, at + min(columns, _MAX_SPANNING_CELLS)), (lines - 1, ""))
            at += columns
        yield dict(sorted(cells.items()))


def _span(cell: LexborNode, direction: str) -> int:
    span = cell.attributes.get(direction) or "1"
    return max(int(span), 1) if span.isdecimal() and len(span) < 4 else 1
