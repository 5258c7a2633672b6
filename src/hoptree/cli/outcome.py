"""A question's result as the commands show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.engine.events import Event
from hoptree.engine.result import Result


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result with the lines that tell what its method decided about the question itself."""

    result: Result

    @classmethod
    def of(cls, result: Result, events: Sequence[Event]) -> Outcome:
        return cls(result)

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return self.result.as_dict()

    @property
    def lines(self) -> list[str]:
        return [decision.summary() for decision in self.result.decisions]
