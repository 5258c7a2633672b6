"""Find passages that repeat another file: a manual as HTML, text, PDF and e-book.

Rows of passage files never do: their ids are those of their documents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.core.values import Passage

_WORD = re.compile(r"\w+")
_RUN_WORDS = 3
_MIN_SAID = 0.9  # share of the runs of words of a passage that an earlier one has


def without_copies(ranked: Sequence[Passage], query: str, most: int) -> tuple[Passage, ...]:
    """Return `most` passages in their order; copies have the places only that are left.

    A passage is a copy if it repeats an earlier one of another file, unless its title or file has a word of the query
    that the earlier one lacks: two packages may have the same licence.
    """
    copies = find_copies(ranked, query, most)
    places = [place for place in range(len(ranked)) if place not in copies][:most]
    places += sorted(copies)[: most - len(places)]
    return tuple(ranked[place] for place in sorted(places))


def find_copies(ranked: Sequence[Passage], query: str, most: int) -> set[int]:
    """Return the places of copies before the first `most` others."""
    copies: set[int] = set()
    kept: list[Passage] = []
    runs: dict[str, frozenset[str]] = {}
    for at, passage in enumerate(ranked):
        if len(kept) >= most:
            break
        if others := [other for other in kept if _may_repeat(passage, other)]:
            for each in (passage, *others):
                runs[each.id] = runs.get(each.id) or _runs(each.text)
            own = runs[passage.id]
            named = set(_words(query)).intersection(_words(f"{passage.title} {passage.document}"))
            said = (other for other in others if len(own & runs[other.id]) >= _MIN_SAID * len(own))
            if any(named.issubset(_words(f"{other.title} {other.document} {other.text}")) for other in said):
                copies.add(at)
                continue
        kept.append(passage)
    return copies


def _may_repeat(passage: Passage, other: Passage) -> bool:
    """Tell whether both are pieces of files, and of different ones."""
    if passage.id == passage.document or other.id == other.document:
        return False
    return passage.document.partition("#")[0] != other.document.partition("#")[0]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(text: str) -> frozenset[str]:
    words = _words(text)
    return frozenset(" ".join(words[at : at + _RUN_WORDS]) for at in range(max(1, len(words) - _RUN_WORDS + 1)))
