"""Errors as they cross from a process that answers to the server: as data, and as the same error again."""

from __future__ import annotations

from typing import Any

from hoptree import errors
from hoptree.errors import HoptreeError
from hoptree.server.refusals import Refusal

__all__ = ["as_data", "from_data"]

_KNOWN: dict[str, type[HoptreeError]] = {name: getattr(errors, name) for name in errors.__all__} | {"Refusal": Refusal}


def as_data(error: HoptreeError) -> dict[str, Any]:
    """Class, words and all that the error says of itself; one of a kind that only a process knows is its base."""
    known = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KNOWN)
    return {"class": known, "said": vars(error)}


def from_data(data: dict[str, Any]) -> HoptreeError:
    """The error that was told."""
    kind = _KNOWN[data["class"]]
    error = kind.__new__(kind)
    error.__dict__.update(data["said"])
    error.args = (error.cause,)
    return error
