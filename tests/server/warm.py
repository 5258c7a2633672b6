"""What a server loads when it is first asked something, for processes that are forked from one that has it."""

from __future__ import annotations

from tests.server import killed_at

import hoptree.retrieval.ranker
from hoptree.engine.registry import list_methods

__all__ = ["killed_at"]

list_methods()
vars(hoptree.retrieval.ranker)["installed_ranker"] = lambda: None  # as in the process of the tests
