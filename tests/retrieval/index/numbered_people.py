"""Passages for an index folder."""

from __future__ import annotations

from hoptree.core.values import Passage

__all__ = ["PASSAGES"]

PASSAGES = [Passage(f"p{n}", f"Person Number{n}", f"The friend of Person Number{n + 1}.") for n in range(20)]
