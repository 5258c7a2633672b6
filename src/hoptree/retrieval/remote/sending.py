"""What is sent to an engine, made fit for sending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["batches", "pairs", "shortened", "whole_characters"]

T = TypeVar("T")

BATCH = 1_000
BATCH_BYTES = 4 * 2**20
"""Less than half of what the strictest of the engines takes in one request."""


def whole_characters(text: str) -> str:
    """The text with halves of characters, which cannot be sent, replaced."""
    return text.encode("utf-8", "replace").decode()


def shortened(query: str, most: int) -> str:
    """A query that can be sent: of more than `most` words, each counts once and the first ones are taken."""
    query = whole_characters(query)
    words = query.split()
    return query if len(words) <= most else " ".join(list(dict.fromkeys(words))[:most])


def pairs(metadata: Any, text: Callable[[Any], str] = str) -> tuple[tuple[str, str], ...]:
    """Names and values of an engine's object of metadata, in the order of the names; none if it is no object."""
    if not isinstance(metadata, dict):
        return ()
    return tuple(
        (str(name), text(value))
        for name, values in sorted(metadata.items())
        for value in (values if isinstance(values, list) else [values])
    )


def batches(rows: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """The rows, so many at a time that a request stays small."""
    batch: list[T] = []
    total = 0
    for row in rows:
        if batch and (len(batch) >= BATCH or total + size(row) > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += size(row)
    if batch:
        yield batch
