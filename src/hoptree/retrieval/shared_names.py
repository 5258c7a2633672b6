"""Names that link the candidates of a ranker, as arrays over all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import ahocorasick_rs

from hoptree.core.lazy import lazy_import
from hoptree.retrieval.index.links import PassageView

np = lazy_import("numpy", "A ranker", "eval")
Array = Any
_MAX_SHARERS = 20  # a name that more candidates mention distinguishes none


class SharedNames:
    """Names that candidates share and the question lacks, by name and holder.

    `holder` is the candidate, `rarity` that of the name; `in_title` and `in_first` tell whether the holder's title and
    first sentence have it. `asked` is the folded question, and `starts` are the candidates' first sentences.
    """

    def __init__(self, views: Sequence[PassageView], starts: Array, rarity: Callable[[str], float], asked: str) -> None:
        holders: dict[str, list[int]] = defaultdict(list)
        for place, view in enumerate(views):
            for name in view.mentions:
                holders[name].append(place)
        shared = [name for name, held in holders.items() if 2 <= len(held) <= _MAX_SHARERS and f" {name} " not in asked]
        elements = [(f" {name} ", holder) for name in shared for holder in holders[name]]
        titles = [f" {' '.join(view.names)} " for view in views]
        within = [
            [at for at, text in enumerate(views[holder].folded_sentences) if name in text] for name, holder in elements
        ]
        first = starts.tolist()
        # Each list ends with the number of an additional, empty sentence, so that none is empty.
        sentences = [
            [*(first[pair[1]] + at for at in places), -1] for pair, places in zip(elements, within, strict=True)
        ]
        counts = np.array([len(places) for places in sentences], dtype=int)
        self._holders = [holders[name] for name in shared]
        self._sentences = np.array([*chain.from_iterable(sentences)], dtype=int)
        self._starts = np.cumsum(counts) - counts
        self.holder = np.array([holder for _, holder in elements], dtype=int)
        self.rarity = np.array([rarity(name[1:-1]) for name, _ in elements], dtype=float)
        self.in_title = np.array([name in titles[holder] for name, holder in elements], dtype=bool)
        self.in_first = np.array([places[:1] == [0] for places in within], dtype=bool)

    def pairs(self, chosen: Array) -> tuple[Array, Array, Array]:
        """Return the pairs of holders: row of the chosen one, and both elements."""
        rows = {place: row for row, place in enumerate(chosen.tolist())}
        pairs: list[tuple[int, int, int]] = []
        begin = 0
        for holders in self._holders:
            end = begin + len(holders)
            for source, place in enumerate(holders, begin):
                if place in rows:
                    pairs += [(rows[place], source, to) for to in range(begin, end) if to != source]
            begin = end
        row, source, to = np.array(pairs, dtype=int).reshape(-1, 3).T
        return row, source, to

    def best(self, values: Array) -> Array:
        """Return the highest value of each holder's sentences with the name, or 0."""
        padded = np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
        return np.maximum.reduceat(padded[..., self._sentences], self._starts, axis=-1)


def naming_sentences(views: Sequence[PassageView]) -> Array:
    """Return which sentence of each candidate names each other one; -1 for none."""
    bearers: dict[str, list[int]] = defaultdict(list)
    for place, view in enumerate(views):
        for name in view.names:
            bearers[f" {name} "].append(place)
    names = list(bearers)
    finder = ahocorasick_rs.AhoCorasick(names, store_patterns=False)
    naming = np.full((len(views), len(views)), -1)
    for source, view in enumerate(views):
        first: dict[str, int] = {}
        for at, text in enumerate(view.folded_sentences):
            for index, _, _ in finder.find_matches_as_indexes(text, overlapping=True):
                first.setdefault(names[index], at)
        for to in {bearer for name in first for bearer in bearers[name]} - {source}:
            naming[source, to] = next(first[f" {name} "] for name in views[to].names if f" {name} " in first)
    return naming
