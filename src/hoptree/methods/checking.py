"""What a run would refuse at its first question, refused before one is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hoptree.methods.registry import Method, read_options
from hoptree.retrieval.encoders import check_encoder
from hoptree.uncertainty import open_tagger

__all__ = ["check_options"]

_NAMES: dict[str, Callable[[str], object]] = {"tagger": open_tagger, "encoder": check_encoder}
"""What tells whether there is anything of this name, for options of whatever method."""


def check_options(chosen: Method, given: Mapping[str, Any]) -> None:
    """Refuse options that a method does not have, values that stand for nothing, and what does not go together."""
    values = {option.name: option.default for option in chosen.options} | read_options(chosen, given)
    for name, find in _NAMES.items():
        if name in values:
            find(values[name])
    chosen.check(**values)
