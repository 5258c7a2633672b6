"""Whole Wikipedia pages as rows: KILT's knowledge source, and dumps in the form of WikiExtractor."""

from __future__ import annotations

from typing import Any

from hoptree.corpus.document import BETWEEN_HEADINGS, Document, Section

__all__ = ["is_page", "read_page"]

_DUMP_FIELDS = frozenset(("id", "revid", "url", "title", "text"))
_SECTION = "Section::::"
_BULLET = "BULLET::::"


def is_page(row: dict[str, Any]) -> bool:
    """Whether a row is a whole page, to be cut like a text file, and not a passage of one."""
    text = row.get("text")
    if type(text) is list:
        return all(type(paragraph) is str for paragraph in text)
    url = row.get("url")
    return type(text) is str and type(url) is str and "wiki" in url and _DUMP_FIELDS.issuperset(row)


def read_page(row: dict[str, Any], key: str, title: str) -> Document:
    url = row.get("url")
    metadata = (("url", url),) if type(url) is str and url else ()
    paragraphs = row["text"]
    if type(paragraphs) is str:
        paragraphs = paragraphs.split("\n")
        while paragraphs and paragraphs[0].strip() in ("", title):
            del paragraphs[0]
        return Document(key, title, "\n".join(paragraphs), metadata=metadata)
    text, sections = _with_sections(paragraphs, title)
    return Document(key, title, text, metadata=metadata, sections=sections)


def _with_sections(paragraphs: list[str], title: str) -> tuple[str, tuple[Section, ...]]:
    """KILT marks the headings of a page as paragraphs of their own: Section::::Life.:Early years."""
    pieces: list[str] = []
    sections: list[Section] = []
    length = 0
    for number, paragraph in enumerate(paragraphs):
        body = paragraph.strip()
        if body.startswith(_SECTION):
            path = [part.rstrip(".") for part in body.removeprefix(_SECTION).split(".:")]
            sections.append(Section(length, BETWEEN_HEADINGS.join(part for part in (title, *path) if part)))
        elif body and not (number == 0 and body == title):
            piece = body.removeprefix(_BULLET) + "\n\n"
            pieces.append(piece)
            length += len(piece)
    return "".join(pieces), tuple(sections)
