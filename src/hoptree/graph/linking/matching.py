"""How well a name fits what was asked: which of its words the question has, and how much they tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import sqrt

from hoptree.graph.linking.words import FUNCTION_WORDS, Word, likeness

__all__ = ["Asked"]

_FUNCTION, _RELATION, _SMALL = 0.2, 0.5, 0.6
"""What a word counts that asks or joins; that names a relation; a name without capitals in a text that has some."""


class Asked:
    """The words of a question, weighed: those that name relations (`plain`) are seldom the entity it is about."""

    def __init__(
        self, words: Sequence[Word], rarity: Callable[[str], float], plain: Collection[str], *, whole: bool
    ) -> None:
        self._words, self._rarity, self._plain, self._whole = words, rarity, plain, whole
        self._total = sum(self._weight(word.base) for word in words) or 1.0
        self._alike: dict[str, list[float]] = {}
        self._cased = any(word.capital for word in words[1:]) and not whole

    def score(self, name: Sequence[str]) -> float:
        """From 0 to 1: the share of the question that the name explains, less where words of the name are missing."""
        told = sum(self._weight(word) for word in name)
        places: dict[int, float] = {}
        matched = 0.0
        for word in name:
            place, alike = self._place(word, places)
            if alike:
                places[place] = alike
                matched += alike * self._weight(word)
        if not places or not told:
            return 0.0
        together = len(places) / (max(places) - min(places) + 1)
        share = matched / told
        score = min(1.0, matched / self._total) * share * (share if not self._whole else 1.0) * sqrt(together)
        if self._cased and not any(self._words[place].capital for place in places):
            score *= _SMALL
        return round(score, 6)

    def _weight(self, word: str) -> float:
        part = _FUNCTION if word in FUNCTION_WORDS else _RELATION if word in self._plain else 1.0
        return part * self._rarity(word)

    def _place(self, word: str, taken: Collection[int]) -> tuple[int, float]:
        """The place of the word most like this one, of equals the nearest behind those found before."""
        alike = self._alike.get(word)
        if alike is None:
            alike = self._alike[word] = [max(likeness(word, one.text), likeness(word, one.base)) for one in self._words]
        near = max(taken, default=-1) + 1
        free = [place for place, found in enumerate(alike) if found and place not in taken]
        best = max(free, key=lambda place: (alike[place], -abs(place - near)), default=-1)
        return best, alike[best] if free else 0.0
