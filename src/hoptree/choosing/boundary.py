"""What a model's own knowledge is worth where it says that it knows: as `hoptree boundary` measured it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.errors import ConfigError

__all__ = ["Boundary", "read_boundary"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """How often the model is right where it is sure, whether it knows its bounds, and how often it is sure."""

    right_if_sure: float
    usable: bool
    sure: float = 0.0

    @property
    def settles(self) -> float:
        """The share of doubtful questions that asking the model itself may be expected to answer rightly."""
        return self.right_if_sure * self.sure


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
    return Boundary(float(right) if known else 0.0, known and told["usable"] is True, _share(told))


def _share(told: dict[str, Any]) -> float:
    """Of the questions, those that the model was sure of."""
    answered, questions = told.get("answered"), told.get("questions")
    if not isinstance(answered, int) or not isinstance(questions, int) or not 0 <= answered <= questions:
        return 0.0
    return answered / max(questions, 1)
