"""Passages from question files that carry them: HotpotQA and 2WikiMultihopQA (`context`), MuSiQue (`paragraphs`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["context_passages"]


def context_passages(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Title and text of the passages that come with a question; none if the row is no question with passages."""
    return [(title, text) for title, text in _found(row) if text] if "question" in row else []


def _found(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    paragraphs = row.get("paragraphs")
    if type(paragraphs) is list and paragraphs:
        return _paragraphs(paragraphs)
    context = row.get("context")
    if type(context) is str and context.lstrip()[:1] in ("[", "{"):  # some copies hold it as JSON within JSON
        try:
            context = json.loads(context)
        except (ValueError, RecursionError):
            return iter(())
    if type(context) is list:
        return _pairs(context)
    if type(context) is dict:
        titles, texts = context.get("title"), context.get("sentences", context.get("content"))
        if type(titles) is list and type(texts) is list:
            return _pairs([list(pair) for pair in zip(titles, texts, strict=False)])
    return iter(())


def _paragraphs(paragraphs: list[Any]) -> Iterator[tuple[str, str]]:
    for paragraph in paragraphs:
        if type(paragraph) is dict:
            yield _title(paragraph.get("title")), _joined(paragraph.get("paragraph_text", paragraph.get("text")))


def _pairs(context: list[Any]) -> Iterator[tuple[str, str]]:
    for pair in context:
        if type(pair) is list and len(pair) == 2:
            yield _title(pair[0]), _joined(pair[1])


def _title(value: object) -> str:
    return value.strip() if type(value) is str else ""


def _joined(sentences: object) -> str:
    """The sentences as one text; some files keep the space between them, others do not."""
    if type(sentences) is str:
        return sentences.strip()
    text = ""
    for sentence in sentences if type(sentences) is list else ():
        if type(sentence) is str and sentence:
            text += sentence if not text or sentence[0].isspace() or text[-1].isspace() else f" {sentence}"
    return text.strip()
