"""What a server loads when it is first asked something, for processes that are forked from one that has it."""

from __future__ import annotations

from tests.server import killed_at

from hoptree.engine.registry import list_methods

__all__ = ["killed_at"]

list_methods()
