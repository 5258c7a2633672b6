"""From documents to an index: build, add, update, remove, compact. Only what changed is touched."""

from __future__ import annotations

from hoptree.retrieval.indexing.check import (
    Checked,
    Estimate,
    check_all,
    check_parts,
    estimate,
    estimate_change,
    estimate_encoding,
)
from hoptree.retrieval.indexing.commands import (
    add_facts,
    add_to_index,
    build_index,
    check_build,
    compact_index,
    encode_index,
    index_passages,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.indexing.sources import Outcome, Progress, Reading

__all__ = [
    "Checked",
    "Estimate",
    "Outcome",
    "Progress",
    "Reading",
    "add_facts",
    "add_to_index",
    "build_index",
    "check_all",
    "check_build",
    "check_parts",
    "compact_index",
    "encode_index",
    "estimate",
    "estimate_change",
    "estimate_encoding",
    "index_passages",
    "remove_from_index",
    "update_index",
]
