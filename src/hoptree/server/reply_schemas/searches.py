"""What a search finds."""

from __future__ import annotations

from typing_extensions import TypedDict

from hoptree.server.reply_schemas.asks import Passage

__all__ = ["Found"]


class Found(TypedDict):
    """Passages, best first."""

    corpus: str
    retriever: str
    passages: list[Passage]
