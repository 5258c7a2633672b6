"""Whether what hypotheses were held against holds the gold: in passages, and in facts of a knowledge graph."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.report.hypotheses import HypothesisTree
from hoptree.evaluation.run_folder import Row

__all__ = ["GoldFound", "answer_shown", "covered", "gold_found", "named", "plain_name", "sides"]

_IN_BRACKETS = re.compile(r"(?:\s*\([^()]*\))+\s*$")
_CLOSED = frozenset({"yes", "no"})
"""Answers that no fact is about."""


@dataclass(frozen=True, slots=True)
class GoldFound:
    """The gold pages of a question, by title or, where the data set tells no titles, by passage id."""

    wanted: tuple[str, ...]
    in_text: frozenset[str]
    in_facts: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.wanted if name not in self.in_text | self.in_facts)

    def share(self, found: Collection[str] | None = None) -> float:
        """The share of the gold pages that were found, or that are among these."""
        there = self.in_text | self.in_facts if found is None else found
        return len(there) / len(self.wanted)


def plain_name(name: str) -> str:
    """The normal form of a name without what stands in brackets behind it ("Ran (film)")."""
    return normalise(_IN_BRACKETS.sub("", name)) or normalise(name)


@lru_cache(1 << 16)
def sides(fact: str) -> tuple[str, str]:
    """The plain names of what a fact is about and of what it says ("SUBJECT | RELATION | VALUE (QUALIFIERS)")."""
    parts = fact.split(" | ")
    return plain_name(parts[0]), plain_name(parts[-1])


def named(names: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether one of the names stands in one of the texts, as whole words."""
    wanted = [plain_name(name) for name in names]
    return any(contains(text, wanted) for text in texts)


def gold_found(row: Row, tree: HypothesisTree | None) -> GoldFound | None:
    """Which gold pages were shown to a node: a passage with that title, or a fact with that title on one side.

    None where the data set names no gold. Of a question without a tree nothing was shown.
    """
    if row.gold_titles:
        titles = {normalise(title) for title, _ in tree.passages.values()} if tree else set()
        said = _sides_of(tree)
        in_text = frozenset(title for title in row.gold_titles if normalise(title) in titles)
        in_facts = frozenset(title for title in row.gold_titles if plain_name(title) in said)
        return GoldFound(row.gold_titles, in_text, in_facts)
    if row.gold:
        shown = tree.passages.keys() if tree else set[str]()
        return GoldFound(row.gold, frozenset(name for name in row.gold if name in shown), frozenset())
    return None


def answer_shown(row: Row, tree: HypothesisTree) -> bool:
    """Whether an accepted answer stands in a passage or fact that a node was shown, as whole words."""
    texts = [f"{title} {text}" for title, text in tree.passages.values()]
    return any(contains(text, row.answers) for text in (*texts, *tree.facts))


def covered(row: Row, tree: HypothesisTree) -> bool:
    """Whether a fact that a node was shown has a gold title or an accepted answer (but yes and no) on one side."""
    wanted = {plain_name(name) for name in (*row.gold_titles, *row.answers)} - _CLOSED
    return not wanted.isdisjoint(_sides_of(tree))


def _sides_of(tree: HypothesisTree | None) -> set[str]:
    return {side for fact in tree.facts for side in sides(fact)} if tree else set()
