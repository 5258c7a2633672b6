"""Errors as they cross from a process that answers to the server: as data, and as the same error again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hoptree.errors import HoptreeError

__all__ = ["as_data", "from_data"]


def as_data(error: HoptreeError) -> dict[str, Any]:
    """All that the error says of itself, and what it is a kind of."""
    return {"kinds": [kind.__name__ for kind in type(error).__mro__], "said": vars(error)}


def from_data(data: dict[str, Any]) -> HoptreeError:
    """The error that was told; one of a kind that is not known here is of the next kind that is."""
    known = {kind.__name__: kind for kind in _kinds(HoptreeError)}
    kind = next(known[name] for name in data["kinds"] if name in known)
    error = kind.__new__(kind)
    error.__dict__.update(data["said"])
    error.args = (error.cause,)
    return error


def _kinds(kind: type[HoptreeError]) -> Iterator[type[HoptreeError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
