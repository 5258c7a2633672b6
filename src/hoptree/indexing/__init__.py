"""From documents to an index: build, add, update, remove, compact. Only what changed is touched."""

from __future__ import annotations

from hoptree.indexing.commands import (
    add_to_index,
    build_index,
    check_build,
    compact_index,
    encode_index,
    index_passages,
    remove_from_index,
    update_index,
)
from hoptree.indexing.forecast import Estimate, estimate
from hoptree.indexing.outcome import Outcome, Progress
from hoptree.indexing.reading import Reading

__all__ = [
    "Estimate",
    "Outcome",
    "Progress",
    "Reading",
    "add_to_index",
    "build_index",
    "check_build",
    "compact_index",
    "encode_index",
    "estimate",
    "index_passages",
    "remove_from_index",
    "update_index",
]
