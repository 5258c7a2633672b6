"""Markdown: headings become sections, front matter names the document; other markup stays as it is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt

from hoptree.corpus.document import Document, HeadingPath, Problems, Section, short
from hoptree.corpus.files import read_text, stem

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
    """Yield start, end, level and words of each heading outside of code, lists and quotes.

    An underline below several lines is taken for a rule.
    """
    lines = text[start:].split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=start))
    tokens = _parser().parse("\n".join(lines).replace("\r", " "))  # which the parser would take for a line's end
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or not opening.map:
            continue
        first, last = opening.map
        heading = _words(inline.content)
        if heading and "\n" not in inline.content:
            yield starts[first], min(starts[last], len(text)), int(opening.tag[1:]), heading


@cache
def _parser() -> MarkdownIt:
    """Return a parser of blocks alone; a heading right below a line of HTML is a heading all the same."""
    parser = MarkdownIt("commonmark").disable(["html_block", "reference"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _words(heading: str) -> str:
    """Return a heading without the marks of emphasis, code and links."""
    words = short(heading)
    return _LINK.sub(r"\1", words).replace("**", "").replace("`", "").strip() or words


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
