"""How far the index of a graph's names is, which is made when a method first asks for it."""

from __future__ import annotations

import time

from hoptree.cli.console import say
from hoptree.graph.candidates import NamesIndexed

__all__ = ["say_of_names"]

_EVERY = 5.0
"""Seconds between two lines."""


def say_of_names(graph: object) -> None:
    """Have a graph tell when it makes the index of its names, and how far that is."""
    if isinstance(graph, NamesIndexed):
        graph.on_indexing = _Said()


class _Said:
    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        once = "" if self._next else " This is done once."
        self._next = now + _EVERY
        say(f"indexing the names of the graph: {done:,} of {total:,}.{once}")
