"""What the questions of a run warned of, counted by kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from hoptree.runtime.trace import Event

__all__ = ["Warned", "warned_of"]

_STOPPED = "stopped"
"""That a budget ended it, the outcome of a question tells itself."""


@dataclass(frozen=True, slots=True)
class Warned:
    """How many questions came with a warning of some kind, and what most of them say."""

    questions: int
    message: str

    def said_of(self, kind: str, finished: int) -> str:
        """In one line, for whoever sums up so many questions."""
        return f"{self.questions:,} of {finished:,} with a warning ({kind}): {self.message}"


def warned_of(events: Iterable[Event]) -> dict[str, Warned]:
    """The kinds of warnings among the events of some questions, each question once a kind, by what it says first."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events:
        if event["event"] == "warning" and event["kind"] != _STOPPED:
            said[str(event["kind"])].setdefault(event["run"], str(event["message"]))
    return {
        kind: Warned(len(by_run), Counter(by_run.values()).most_common(1)[0][0])
        for kind, by_run in sorted(said.items())
    }
