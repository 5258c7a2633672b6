"""What a model's own knowledge is worth where it says that it knows: as `hoptree boundary` measured it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hoptree.errors import ConfigError

__all__ = ["Boundary", "read_boundary"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """How often the model is right where it is sure, and whether it knows where its knowledge ends."""

    right_if_sure: float
    usable: bool


def read_boundary(path: str) -> Boundary:
    """The boundary in a `boundary.json` of `hoptree boundary`."""
    remedy = "Give boundary a file boundary.json of hoptree boundary."
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.", remedy) from error
    if not isinstance(told, dict) or not {"confident_correct", "usable"} <= told.keys():
        raise ConfigError(f"{path} is no measured boundary.", remedy)
    right = told["confident_correct"]
    known = isinstance(right, int | float) and not isinstance(right, bool) and 0 <= right <= 1
    return Boundary(float(right) if known else 0.0, known and told["usable"] is True)
