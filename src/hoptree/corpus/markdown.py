"""Markdown: headings part it into sections, front matter names it; the rest of its markup stays as it is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from hoptree.corpus.document import Document, HeadingPath, Problems, Section, short
from hoptree.corpus.files import read_text, stem

_ATX = re.compile(r" {0,3}(#{1,6})[ \t](.*)", re.DOTALL)
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)
_NO_PARAGRAPH = re.compile(r" {4}|\t| {0,3}([#>|=-]|[*+] |\d+[.)] )")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_FRONT_LINES = 500
_KEY = re.compile(r"([A-Za-z_][\w -]*):(?:[ \t]+(.*))?$")


def read_markdown(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    text = read_text(stream, name, problems)
    if text is not None:
        yield markdown_document(text, name)


def markdown_document(text: str, name: str) -> Document:
    """A document whose title is that of its front matter, its first heading, or the file's name."""
    front, length = _front_matter(text)
    given = next((short(value) for key, value in front if key == "title"), "")
    path = HeadingPath(given)
    sections: list[Section] = [Section(0, "", length)] if length else []
    first = ""
    for start, end, level, heading in _headings(text, length):
        first = first or heading
        sections.append(Section(start, path.enter(level, heading), end - start))
    return Document(
        name,
        given or first or stem(name),
        text,
        aliases=tuple(value for key, value in front if key in ("alias", "aliases")),
        metadata=tuple(pair for pair in front if pair[0] not in ("title", "alias", "aliases")),
        sections=tuple(sections),
    )


def _headings(text: str, start: int) -> Iterator[tuple[int, int, int, str]]:
    """Start, end, level and words of each heading that is not inside fenced code."""
    fence = ""
    fresh = True  # a paragraph would begin here
    alone: tuple[int, str] | None = None  # a paragraph of one line so far, which an underline makes a heading
    for begin, line in _lines(text, start):
        end = min(begin + len(line) + 1, len(text))
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif (found := _FENCE.match(line)) and not (found[1][0] == "`" and "`" in found[2]):
            fence, fresh, alone = found[1], True, None
        elif alone is not None and (under := _UNDERLINE.match(line)):
            if heading := _words(alone[1]):
                yield alone[0], end, 1 if under[1][0] == "=" else 2, heading
            fresh, alone = True, None
        elif (found := _ATX.match(line)) and (heading := _words(_without_closing(found[2]))):
            yield begin, end, len(found[1]), heading
            fresh, alone = True, None
        else:
            blank = not line or line.isspace()
            alone = (begin, line) if fresh and not blank and not _NO_PARAGRAPH.match(line) else None
            fresh = blank


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start = end + 1


def _closes(line: str, fence: str) -> bool:
    body = line.strip()
    return len(body) >= len(fence) and not body.strip(fence[0])


def _without_closing(heading: str) -> str:
    bare = heading.strip().rstrip("#")
    return bare if not bare or bare[-1].isspace() else heading


def _words(heading: str) -> str:
    """A heading without the marks of emphasis, code and links."""
    words = short(heading)
    return _LINK.sub(r"\1", words).replace("**", "").replace("`", "").strip() or words


def _front_matter(text: str) -> tuple[list[tuple[str, str]], int]:
    """Keys with their values from the lines between two --- at the very beginning, and the length of all that.

    Plain values, [lists, in brackets] and lists with dashes are read; a block with anything else at its left margin
    is no front matter.
    """
    pairs: list[tuple[str, str]] = []
    key = ""
    for number, (begin, line) in enumerate(_lines(text, 0)):
        bare = line.rstrip()
        if number == 0:
            if bare != "---":
                break
        elif bare in ("---", "..."):
            return pairs, min(begin + len(line) + 1, len(text))
        elif number > _FRONT_LINES:
            break
        elif found := _KEY.match(bare):
            key = found[1].strip().lower()
            pairs += [(key, value) for value in _front_values(found[2] or "")]
        elif key and bare.lstrip().startswith("- "):
            pairs += [(key, value) for value in _front_values(bare.lstrip()[2:])]
        elif bare and not bare.startswith((" ", "\t", "#", "- ")):
            break
    return [], 0


def _front_values(said: str) -> list[str]:
    said = said.strip()
    many = said[1:-1].split(",") if said.startswith("[") and said.endswith("]") else [said]
    values = (value.strip() for value in many)
    bare = (
        value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value for value in values
    )
    return [value for value in bare if value and value not in ("|", ">", "null", "~")]
