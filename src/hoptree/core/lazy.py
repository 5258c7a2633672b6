"""Optional libraries and regular expressions, loaded or compiled when first used."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any, cast


def import_optional(name: str, feature: str, extra: str) -> Any:
    """Import an optional library; raise MissingExtra, which says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        from hoptree.core.errors import MissingExtra  # at the top it would be a circular import

        raise MissingExtra(feature, extra) from error


def lazy_import(name: str, feature: str, extra: str) -> Any:
    """Return a stand-in for an optional library, which is imported at the first use."""
    return _LazyModule(name, feature, extra)


class _LazyModule:
    """Stand-in for a library that imports it at the first use."""

    def __init__(self, *library: str) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules.get(self._library[0]) or import_optional(*self._library), name)


_USED = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")


def lazy_re(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at the first use.

    Compiling takes up to some milliseconds, and a command loads hundreds of patterns but uses few.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class _LazyPattern:
    """Stand-in for a compiled pattern, whose methods it takes over at the first use."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for method in _USED:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
