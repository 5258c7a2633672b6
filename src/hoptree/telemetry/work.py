"""What was worked on for a question and when, read off its trace: the question, the nodes of its tree, the calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hoptree.runtime.trace import Event

__all__ = ["Work", "read_work"]

_CALLS = ("llm", "retrieve", "titles", "facts", "entities")


@dataclass(slots=True, eq=False)
class Work:
    """Something that took time, in seconds since the question was asked, with all that was done for it.

    `event` is what the trace says of it at the end, `notes` are decisions and warnings on the way. A node does not
    stand when the tree was rebuilt without it, or never came to hold it; it was paid for all the same.
    """

    kind: Literal["question", "node", "call"]
    event: Event
    start: float
    end: float
    below: list[Work] = field(default_factory=list)
    notes: list[Event] = field(default_factory=list)
    stands: bool = True

    def all(self) -> Iterator[Work]:
        """This and everything below it."""
        yield self
        for work in self.below:
            yield from work.all()


def read_work(events: Sequence[Event]) -> Work:
    """The work of one question, nested as its tree is."""
    reading = _Reading(events)
    for event in events[1:]:
        reading.take(event)
    return reading.question


class _Reading:
    """The tree while it is read; a number means the node that had it last, since numbers are given again.

    `_early` are nodes that were begun before they were known to come into the tree, if they ever do.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        start = events[0]
        self.question = Work("question", dict(start), start["t"], events[-1]["t"])
        self._nodes: dict[int, Work] = {}
        self._early: dict[int, Work] = {}
        self._begun: set[int] = set()

    def take(self, event: Event) -> None:
        kind = event["event"]
        if kind == "plan":
            self._plan(event)
        elif kind == "node":
            node = self._found(event["id"], event["t"])
            node.event |= {name: value for name, value in event.items() if name not in ("event", "run", "t", "parent")}
            self._stretch(node, event["t"], event["t"])
        elif kind in _CALLS:
            at = self._of(event)
            at.below.append(Work("call", event, event["issued"], event["t"]))
            if at.kind == "node":
                self._stretch(at, event["issued"], event["t"])
        elif kind == "final":
            self.question.event |= {name: value for name, value in event.items() if name not in ("event", "run", "t")}
        else:
            self._of(event).notes.append(event)

    def _plan(self, event: Event) -> None:
        under = event.get("under")
        if under is None:
            for gone in self.question.below:
                _fell(gone)
            self._nodes, self._early = {}, {}
        elif event.get("rebuilt") and under in self._nodes:
            for gone in self._nodes[under].below:
                _fell(gone)
        for written in event["nodes"]:
            number = written["id"]
            node = self._early.pop(number, None)
            if node is None:
                node = Work("node", {"state": "waiting", **written}, event["t"], event["t"])
            else:
                self.question.below.remove(node)
                node.event, node.stands = {**written, **node.event}, True
            above = self._nodes.get(written["parent"], self.question)
            self._nodes[number] = node
            above.below.append(node)

    def _stretch(self, node: Work, start: float, end: float) -> None:
        """Let a node begin with the first and end with the last that is known of it."""
        first = id(node) not in self._begun
        self._begun.add(id(node))
        node.start = start if first else min(node.start, start)
        node.end = end if first else max(node.end, end)

    def _of(self, event: Event) -> Work:
        number = event.get("node")
        return self.question if number is None else self._found(number, event["t"])

    def _found(self, number: int, t: float) -> Work:
        if number not in self._nodes:
            node = Work("node", {"id": number, "state": "waiting"}, t, t, stands=False)
            self._nodes[number] = self._early[number] = node
            self.question.below.append(node)
        return self._nodes[number]


def _fell(node: Work) -> None:
    for work in node.all():
        work.stands = work.stands and work.kind != "node"
