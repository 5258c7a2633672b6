"""Patterns that are compiled when they are first used."""

from __future__ import annotations

from hoptree.core.lazy import lazy_re


def test_a_pattern_is_compiled_at_its_first_use() -> None:
    pattern = lazy_re(r"b+")
    assert pattern.pattern == "b+" and "sub" not in vars(pattern)
    assert pattern.sub("c", "abb") == "ac" and "sub" in vars(pattern)
