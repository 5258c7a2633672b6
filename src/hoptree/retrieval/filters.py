"""Which passages a filter keeps: by metadata, by document or by title."""

from __future__ import annotations

from collections.abc import Mapping
from unicodedata import normalize

from hoptree.values import Passage

__all__ = ["DOCUMENT", "TITLE", "fits"]

DOCUMENT, TITLE = "document", "title"
"""Names of a filter that stand for fields of a passage, and not for its metadata."""


def fits(passage: Passage, where: Mapping[str, str] | None) -> bool:
    """Whether a passage has all the values that a filter asks for, however their accents are written."""
    return all(_has(passage, name, value) for name, value in (where or {}).items())


def _has(passage: Passage, name: str, value: str) -> bool:
    name, value = _composed(name), _composed(value)
    if name == DOCUMENT:
        return value == _composed(passage.document or passage.id)
    if name == TITLE:
        title = _composed(passage.title)
        return title == value or title.startswith(f"{value} › ")  # a section of it
    return any((name, value) == (_composed(field), _composed(held)) for field, held in passage.metadata)


def _composed(text: str) -> str:
    return normalize("NFC", text)
