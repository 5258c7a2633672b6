"""Which passages a filter keeps: by metadata, by document or by title."""

from __future__ import annotations

from collections.abc import Mapping

from hoptree.values import Passage

__all__ = ["DOCUMENT", "TITLE", "fits"]

DOCUMENT, TITLE = "document", "title"
"""Names of a filter that stand for fields of a passage, and not for its metadata."""


def fits(passage: Passage, where: Mapping[str, str] | None) -> bool:
    """Whether a passage has all the values that a filter asks for."""
    return all(_has(passage, name, value) for name, value in (where or {}).items())


def _has(passage: Passage, name: str, value: str) -> bool:
    if name == DOCUMENT:
        return value == (passage.document or passage.id)
    if name == TITLE:
        return passage.title == value or passage.title.startswith(f"{value} › ")  # a section of it
    return (name, value) in passage.metadata
