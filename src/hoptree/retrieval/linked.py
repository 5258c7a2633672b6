"""Linked retrieval: BM25 finds where a question begins, the mention graph leads on to what it does not name.

"Who is the mother of the director of A?" shares no word with the page of A's director. But A's page is found by its
title, and mentions the director, whose page bears that name. No model and no vectors are needed, at indexing or later.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from hoptree.errors import CorpusError
from hoptree.retrieval.bm25 import WORTH_A_THREAD
from hoptree.retrieval.filters import fits
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import Links
from hoptree.retrieval.index.mentions import folded, names_of
from hoptree.values import Passage

__all__ = ["LinkWeights", "Linked"]

_LONGEST_NAME = 12
"""Words of a name that a question is searched for."""
_DECIMALS = 6
_AMONG = 5
_KEPT, _KEPT_UNNAMED = 2, 4
"""The best by words alone that always stand among the first five; more where no name leads to a passage that bears it,
and passages are tied only by what they mention together."""
_PERHAPS = 4
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LinkWeights:
    """How much each kind of evidence counts, in units of the best BM25 score.

    Chosen once for all collections, on one half of the questions of nine of them, with and without titles
    (`hoptree eval-retrieval --half first`): the setting whose smallest gain over BM25 is the largest.
    """

    seeds: int = 5
    """Passages BM25 ranks first, from which links are followed."""
    named: float = 0.7
    """A passage whose name stands in the question."""
    rare_named: float = 0.3
    """How much less such a name counts the more passages mention it (a factor of the logarithm)."""
    link: float = 1.0
    """A passage whose name a seed mentions."""
    back: float = 0.2
    """A passage that mentions a seed's name."""
    together: float = 0.4
    """A passage that mentions the same name as a seed."""
    rare: float = 0.5
    """How much less a mentioned name counts the more passages mention it (a factor of the logarithm)."""
    spread: float = 0.3
    """How much less each link of a seed counts the more it has (an exponent)."""
    bearers: int = 2
    """A name that more documents bear is ambiguous, and not followed."""
    mentioners: int = 8
    """A name that more passages mention ties them together no more."""
    covered: tuple[float, float] = (0.8, 1.0)
    """The share of the question that one passage covers from which links count less, and where they count nothing:
    a question that one passage answers needs no links."""


class Linked:
    """A retriever over an index with links."""

    kind = "linked"
    remote = False

    def __init__(self, index: Index, weights: LinkWeights | None = None) -> None:
        if not index.manifest.settings.links:
            raise CorpusError(
                f"The index {index.folder} has no links.",
                f"Build it with them: hoptree index … --out {index.folder} --links",
            )
        self._index = index
        self._texts = index.texts
        self._links = Links(index.links)
        self._weights = weights or LinkWeights()
        self.identity = f"linked:{index.identity}:{self._weights}"

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if self._index.manifest.passages < WORTH_A_THREAD:
            return self.search_now(query, k, where)
        return await asyncio.to_thread(self.search_now, query, k, where)

    async def aclose(self) -> None:
        return None

    def search_now(self, query: str, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Search in this thread."""
        if k <= 0:
            return ()
        most = max(k, self._weights.seeds)
        # Where words find nothing that fits, links and names may still lead there from what does not.
        hits = self._texts.search(query, most, where) or (self._texts.search(query, most) if where else [])
        best = (hits[0][1] if hits else 0.0) or 1.0  # a word that every passage holds tells nothing
        own = {key: score / best for key, score, _ in hits}
        passages = {key: passage for key, _, passage in hits}
        named = self._named(query)
        self._learn(query, best, named, own, passages)
        starts = {key: own[key] for key, _, _ in hits[: self._weights.seeds]}
        starts |= {key: own[key] + bonus for key, bonus in named.items() if key in passages}
        linked, led = self._follow(query, starts, passages)
        self._learn(query, best, linked, own, passages, fetch=False)
        total = {
            key: round(score + named.get(key, 0.0) + linked.get(key, 0.0), _DECIMALS) for key, score in own.items()
        }
        _keep(total, [key for key, _, _ in hits[: _KEPT if named or led else _KEPT_UNNAMED]])
        return self._ranked(total, own, named, linked, passages, k, where)

    def _learn(
        self,
        query: str,
        best: float,
        keys: Iterable[int],
        own: dict[int, float],
        passages: dict[int, Passage],
        *,
        fetch: bool = True,
    ) -> None:
        """Score, and read, passages that BM25 did not bring among the first."""
        missing = [key for key in keys if key not in own]
        if not missing:
            return
        own |= {key: score / best for key, score in self._texts.scores(query, missing).items()}
        if fetch:
            passages |= self._texts.fetch(missing)

    def _named(self, query: str) -> dict[int, float]:
        """The passages whose names stand in the query, longest names first, each with what that is worth."""
        found: dict[int, float] = {}
        for name in _names_in(query, self._links):
            worth = self._weights.named / (1 + self._weights.rare_named * log(max(self._links.count(name), 1)))
            for key, part in self._parts(query, name).items():
                found[key] = max(found.get(key, 0.0), worth * part)
        return found

    def _parts(self, query: str, name: str) -> dict[int, float]:
        """Share a name's worth among the passages that bear it, by how well each fits the query.

        Where none fits at all, the beginning of each document stands for it.
        """
        documents = self._links.bearing(name, self._weights.bearers)
        if not documents or (documents[1:] == [] and len(documents[0]) == 1):
            return dict.fromkeys(documents[0] if documents else (), 1.0)
        scores = self._texts.scores(query, [key for keys in documents for key in keys])
        best = max(scores.values(), default=0.0)
        if not best:
            return {keys[0]: 1 / len(documents) for keys in documents}
        return {key: score / best for key, score in scores.items() if score}

    def _follow(
        self, query: str, starts: Mapping[int, float], passages: Mapping[int, Passage]
    ) -> tuple[dict[int, float], bool]:
        """What each passage that the starts lead to is worth (the best of the links to it), and if names led to any."""
        weights, links = self._weights, self._links
        said = f" {folded(query)} "
        enough = self._enough(query, [passages[key] for key in starts])
        found: dict[int, float] = {}
        led = False

        def give(keys: Iterable[int], worth: float, source: int) -> None:
            for key in keys:
                if key != source and worth > found.get(key, 0.0):
                    found[key] = worth

        for source, strength in starts.items():
            strength *= enough
            mentions = links.mentions(source)
            ways = max(sum(1 for name in mentions if links.borne(name)), 1)
            for name in mentions:
                count = links.count(name)
                rarity = 1 + weights.rare * log(max(count, 1))
                worth = strength * weights.link / rarity / ways**weights.spread
                for key, part in self._parts(query, name).items():
                    led = True
                    give([key], worth * part, source)
                # The count is of passages that are gone, too; how many there are is looked up where it may matter.
                if 2 <= count <= _PERHAPS * weights.mentioners and f" {name} " not in said:
                    give(links.mentioning(name, weights.mentioners), strength * weights.together / rarity, source)
            for name in {folded(name) for name in names_of(passages[source])}:
                mentioners = links.mentioning(name, weights.mentioners)
                rarity = 1 + weights.rare * log(max(len(mentioners), 1))
                give(mentioners, strength * weights.back / rarity, source)
        return found, led

    def _enough(self, query: str, starts: Sequence[Passage]) -> float:
        """How much links count: less where one passage holds most of what the query says."""
        low, high = self._weights.covered
        terms = self._texts.sought(query)
        rarity = self._texts.rarity(terms)
        whole = sum(rarity.values()) or 1.0
        best = 0.0
        for passage in starts:
            held = set(self._texts.terms(f"{passage.title} {passage.text}"))
            best = max(best, sum(rarity[term] for term in terms if term in held) / whole)
        return min(1.0, max(0.0, (high - best) / (high - low)))

    def _ranked(
        self,
        total: Mapping[int, float],
        own: Mapping[int, float],
        named: Mapping[int, float],
        linked: Mapping[int, float],
        passages: dict[int, Passage],
        k: int,
        where: Mapping[str, str] | None,
    ) -> tuple[Passage, ...]:
        if not total:
            return ()
        order = sorted(total, key=lambda key: -total[key])
        cut = total[order[min(k, len(order)) - 1]]
        wanted = order if where else [key for key in order if total[key] >= cut]
        passages |= self._texts.fetch([key for key in wanted if key not in passages])
        found = [
            replace(
                passages[key],
                score=total[key],
                stages=_stages(own[key], named.get(key, 0.0), linked.get(key, 0.0)),
            )
            for key in wanted
            if key in passages and fits(passages[key], where)
        ]
        found.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(found[:k])


def _keep(total: dict[int, float], best: Sequence[int]) -> None:
    """Raise what BM25 found best until it stands among the first: links add to words, and do not replace them."""
    others = sorted((score for key, score in total.items() if key not in best), reverse=True)
    if len(others) > _AMONG - len(best):
        floor = others[_AMONG - len(best)]
        for place, key in enumerate(reversed(best), 1):  # in steps: the better one by words stays the better one
            total[key] = max(total[key], round(floor + place * 10**-_DECIMALS, _DECIMALS))


def _names_in(query: str, links: Links) -> list[str]:
    """The names that stand in a query, the longest at each place; a single word must be written like a name."""
    words = list(_WORD.finditer(query))
    folds = [word[0].casefold() for word in words]
    found: list[str] = []
    at = 0
    while at < len(words):
        for size in range(min(_LONGEST_NAME, len(words) - at), 0, -1):
            name = " ".join(folds[at : at + size])
            if links.borne(name):
                if size > 1 or not words[at][0].islower():
                    found.append(name)
                at += size
                break
        else:
            at += 1
    return found


def _stages(own: float, named: float, linked: float) -> tuple[tuple[str, float], ...]:
    return tuple(
        (name, round(value, 4)) for name, value in (("bm25", own), ("named", named), ("link", linked)) if value
    )
