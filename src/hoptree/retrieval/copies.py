"""Leave out of a ranking what another file has said in the same words: a manual as HTML, text, PDF and e-book.

Rows of passage files are never left out: their ids are their documents'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hoptree.core.values import Passage

_WORD = re.compile(r"\w+")
_RUN_WORDS = 3
_MIN_SAID = 0.9  # share of the runs of words of a passage that an earlier one has


def without_copies(ranked: Iterable[Passage], query: str, most: int) -> tuple[Passage, ...]:
    """Return the first `most` passages that do not repeat an earlier one of another file.

    A copy stays whose title or file has a word of the query that the earlier passage lacks: two packages may have the
    same licence.
    """
    kept: list[Passage] = []
    runs: list[frozenset[str]] = []
    wanted: frozenset[str] | None = None
    for passage in ranked:
        if len(kept) >= most:
            break
        others = [place for place, other in enumerate(kept) if _may_repeat(passage, other)]
        if not others:
            kept.append(passage)
            continue
        wanted = frozenset(_words(query)) if wanted is None else wanted
        own = _runs(passage.text)
        runs += [_runs(other.text) for other in kept[len(runs) :]]
        named = wanted.intersection(_words(f"{passage.title} {passage.document}"))
        if not any(
            len(own & runs[place]) >= _MIN_SAID * len(own) and named <= _all_words(kept[place]) for place in others
        ):
            kept.append(passage)
    return tuple(kept)


def _may_repeat(passage: Passage, other: Passage) -> bool:
    """Tell whether both are pieces of files, and of different ones."""
    if passage.id == passage.document or other.id == other.document:
        return False
    return passage.document.partition("#")[0] != other.document.partition("#")[0]


def _all_words(passage: Passage) -> frozenset[str]:
    return frozenset(_words(f"{passage.title} {passage.document} {passage.text}"))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(text: str) -> frozenset[str]:
    words = _words(text)
    return frozenset(" ".join(words[at : at + _RUN_WORDS]) for at in range(max(1, len(words) - _RUN_WORDS + 1)))
