"""A method of our own in the register, for as long as a test takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hoptree.engine import registry
from hoptree.engine.registry import Method, list_methods, method

__all__ = ["registered"]


@contextmanager
def registered(run: Any, **facts: Any) -> Iterator[Method]:
    list_methods()
    before = dict(registry._registered)
    method(run.__name__, title=run.__name__.title(), **facts)(run)
    try:
        yield registry._registered[run.__name__]
    finally:
        registry._registered.clear()
        registry._registered.update(before)
