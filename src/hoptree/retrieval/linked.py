"""Linked retrieval: BM25 finds where a question begins, the mention graph leads on to what it does not name.

"Who is the mother of the director of A?" shares no word with the page of A's director. But A's page is found by its
title, and mentions the director, whose page bears that name. No model and no vectors are needed, at indexing or later.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from itertools import accumulate
from math import log

from tantivy import DocAddress

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import WORTH_A_THREAD
from hoptree.retrieval.index.analysis import composed
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import Links, folded, names_of
from hoptree.retrieval.retriever import fits

_LONGEST_NAME = 12
"""Words of a name that a question is searched for."""
_LONGEST_LETTERS = 360
"""Letters of a name that is looked up: no title of more than 120 is a name, and folding may make three of one."""
_DECIMALS = 6
_AMONG = 5
_KEPT, _KEPT_UNNAMED = 2, 4
"""The best by words alone that always stand among the first five; more where no name leads to a passage that bears it,
and passages are tied only by what they mention together."""
_PERHAPS = 4
_FURTHER = 0.001
"""What a link still adds where it can bring a passage no nearer: of two such passages the better linked is first."""
_TERMS_KEPT, _NAMES_KEPT = 200, 10_000
"""Passages whose terms, and titles whose names stay in memory."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LinkWeights:
    """How much each kind of evidence counts, in units of the best BM25 score.

    Chosen once for all collections, on one half of the questions of nine of them, with and without titles
    (`hoptree eval retrieval --half first`): much is gained over BM25 where questions need several passages, and little
    is lost in any question that needs one. Values near these do as well.
    """

    seeds: int = 5
    """Passages BM25 ranks first, from which links are followed."""
    named: float = 0.7
    """A passage whose name stands in the question."""
    rare_named: float = 0.3
    """How much less such a name counts the more passages mention it (a factor of the logarithm)."""
    link: float = 1.2
    """A passage whose name a seed mentions."""
    back: float = 0.2
    """A passage that mentions a seed's name."""
    together: float = 0.5
    """A passage that mentions the same name as a seed."""
    rare: float = 0.5
    """How much less a mentioned name counts the more passages mention it (a factor of the logarithm)."""
    spread: float = 0.3
    """How much less each link of a seed counts the more it has (an exponent)."""
    bearers: int = 2
    """A name that more documents bear is ambiguous, and not followed."""
    mentioners: int = 8
    """A name that more passages mention ties them together no more."""
    near: float = 0.95
    """How near links can bring a passage to the one they start from (a share of that one's score): what is found
    through a passage is no surer than the passage itself."""
    doubt: float = 0.075
    """What is taken from the worth of every link, since many lead nowhere; not where only common mentions tie
    passages together, and no more than one can come among the first five by them."""
    firm: float = 0.3
    """How much better a passage must be to drive one from the first five that words alone found well: whose name the
    question says, or which stands there with another of its page."""
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
        self._terms_of = lru_cache(_TERMS_KEPT)(
            lambda text: frozenset(index.texts.terms(text))
        )  # not of `self`: no ring
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
        query = composed(query)  # as names are
        most, seeds = max(k, self._weights.seeds), self._weights.seeds
        # Links and names may lead to what fits from what does not: that is left out only in the end.
        hits = self._texts.search(query, most)
        fitting = self._texts.search(query, most, where) if where else hits
        both = (*hits, *fitting) if where else hits
        best = max((score for _, score, _ in both), default=0.0) or 1.0  # a word that every passage holds tells nothing
        own = {key: score / best for key, score, _ in both}
        passages = {key: passage for key, _, passage in both}
        named = self._named(query)
        places: dict[int, DocAddress] = {}
        self._learn(query, best, named, own, places)
        passages |= self._texts.read(places)
        first = (*hits[:seeds], *fitting[:seeds]) if where else hits[:seeds]
        starts = {key: own[key] for key, _, _ in first}
        starts |= {key: own[key] + bonus for key, bonus in named.items() if key in passages}
        said = f" {folded(query)} "  # folded names can be looked for in it
        enough = self._enough(query, [passages[key] for key in starts if fits(passages[key], where)])
        worths, led = self._follow(query, said, starts, passages, enough)
        self._learn(query, best, worths, own, places)
        alone = {key: score + named.get(key, 0.0) for key, score in own.items()}
        sure, doubt = (_KEPT, self._weights.doubt) if named or led else (_KEPT_UNNAMED, 0.0)
        linked = self._lifted(worths, starts, alone, doubt)
        total = {key: round(score + linked.get(key, 0.0), _DECIMALS) for key, score in alone.items()}
        if where:
            passages |= self._texts.read({key: place for key, place in places.items() if key not in passages})
            total = {key: score for key, score in total.items() if fits(passages[key], where)}
        firm = self._firm(said, {key: passage for key, _, passage in fitting[:_AMONG]}, total)
        _keep(total, [key for place, (key, _, _) in enumerate(fitting[:_AMONG]) if place < sure or key in firm])
        return self._ranked(total, own, named, linked, passages, places, k)

    def _learn(
        self, query: str, best: float, keys: Iterable[int], own: dict[int, float], places: dict[int, DocAddress]
    ) -> None:
        """Score passages that BM25 did not bring among the first, and find where they stand."""
        if missing := [key for key in keys if key not in own]:
            for key, (score, place) in self._texts.scored(query, missing).items():
                own[key], places[key] = score / best, place

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
        if not documents or (len(documents) == 1 and len(documents[0]) == 1):
            return dict.fromkeys(documents[0] if documents else (), 1.0)
        hits = self._texts.scored(query, [key for keys in documents for key in keys])
        scores = {key: score for key, (score, _) in hits.items()}
        best = max(scores.values(), default=0.0)
        if not best:
            return {keys[0]: 1 / len(documents) for keys in documents}
        return {key: score / best for key, score in scores.items() if score}

    def _follow(
        self, query: str, said: str, starts: Mapping[int, float], passages: Mapping[int, Passage], enough: float
    ) -> tuple[dict[int, dict[int, float]], bool]:
        """For each passage that the starts lead to, what the best link from each is worth; and if names led to any.

        `enough` is how much links count. A name that the query says itself is no news: what bears it counts as named.
        """
        weights, links = self._weights, self._links
        found: dict[int, dict[int, float]] = {}
        led = False

        def give(keys: Iterable[int], worth: float, source: int) -> None:
            for key in keys:
                if key != source and worth > 0:
                    worths = found.setdefault(key, {})
                    worths[source] = max(worth, worths.get(source, 0.0))

        for source, strength in starts.items():
            strength *= enough
            mentions = links.mentions(source)
            ways = max(sum(1 for name in mentions if links.borne(name)), 1)
            for name in mentions:
                if f" {name} " in said:
                    continue
                count = links.count(name)
                rarity = 1 + weights.rare * log(max(count, 1))
                worth = strength * weights.link / rarity / ways**weights.spread
                for key, part in self._parts(query, name).items():
                    led = True
                    give([key], worth * part, source)
                # The count is of passages that are gone, too; how many there are is looked up where it may matter.
                if 2 <= count <= _PERHAPS * weights.mentioners:
                    give(links.mentioning(name, weights.mentioners), strength * weights.together / rarity, source)
            for name in _names(passages[source].title, passages[source].aliases):
                mentioners = links.mentioning(name, weights.mentioners)
                rarity = 1 + weights.rare * log(max(len(mentioners), 1))
                give(mentioners, strength * weights.back / rarity, source)
        return found, led

    def _lifted(
        self,
        worths: Mapping[int, Mapping[int, float]],
        starts: Mapping[int, float],
        alone: Mapping[int, float],
        doubt: float,
    ) -> dict[int, float]:
        """What links add to the score of each passage: they bring it near the one that leads to it.

        Only one that by itself is as good or nearly so comes past that by what `_FURTHER` adds.
        """
        near = self._weights.near
        return {
            key: max(
                max(min(worth, near * starts[source] - alone[key]) - doubt, 0.0) + _FURTHER * worth
                for source, worth in sources.items()
            )
            for key, sources in worths.items()
            if key in alone
        }

    def _firm(self, said: str, first: Mapping[int, Passage], total: Mapping[int, float]) -> set[int]:
        """Those of the first by words that others are not so much better than that they should give way."""
        pages = Counter(map(_page, first.values()))
        well = {key for key, passage in first.items() if pages[_page(passage)] > 1 or _is_named(passage, said)}
        if not well:
            return well
        held = {key: score + self._weights.firm if key in well else score for key, score in total.items()}
        last = min(nlargest(_AMONG, held.values()), default=0.0)
        return {key for key in well if held[key] >= last}

    def _enough(self, query: str, starts: Sequence[Passage]) -> float:
        """How much links count: less where one passage holds most of what the query says."""
        low, high = self._weights.covered
        terms = self._texts.sought(query)
        rarity = self._texts.rarity(terms)
        whole = sum(rarity.values()) or 1.0
        best = 0.0
        for passage in starts:
            held = self._terms_of(f"{passage.title} {passage.text}")
            best = max(best, sum(rarity[term] for term in terms if term in held) / whole)
        return min(1.0, max(0.0, (high - best) / (high - low)))

    def _ranked(
        self,
        total: Mapping[int, float],
        own: Mapping[int, float],
        named: Mapping[int, float],
        linked: Mapping[int, float],
        passages: dict[int, Passage],
        places: Mapping[int, DocAddress],
        k: int,
    ) -> tuple[Passage, ...]:
        if not total:
            return ()
        order = sorted(total, key=lambda key: -total[key])
        cut = total[order[min(k, len(order)) - 1]]
        wanted = [key for key in order if total[key] >= cut]
        passages |= self._texts.read({key: places[key] for key in wanted if key not in passages})
        found = [
            _weighed(passages[key], total[key], _stages(own[key], named.get(key, 0.0), linked.get(key, 0.0)))
            for key in wanted
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


def _page(passage: Passage) -> str:
    """What passages of one page have in common, whether or not they were indexed as one document."""
    return passage.title.split(" › ")[0] or passage.document


def _is_named(passage: Passage, said: str) -> bool:
    return any(f" {name} " in said for name in _names(passage.title, passage.aliases))


@lru_cache(_NAMES_KEPT)
def _names(title: str, aliases: tuple[str, ...]) -> frozenset[str]:
    """The folded names of a passage with this title and these aliases."""
    return frozenset(map(folded, names_of(title, aliases)))


def _names_in(query: str, links: Links) -> list[str]:
    """The names that stand in a query, the longest at each place.

    A single word must be written like a name, and not be a part of a longer one.
    """
    words = list(_WORD.finditer(query))
    folds = [word[0].casefold() for word in words]
    joined = " ".join(folds)
    ends = list(accumulate(len(word) + 1 for word in folds))  # each with the space behind it
    found: list[str] = []
    at = begins = 0
    while at < len(words):
        size = 1
        for last in range(min(at + _LONGEST_NAME, len(words)) - 1, at - 1, -1):
            name = joined[begins : ends[last] - 1]
            if len(name) <= _LONGEST_LETTERS and links.borne(name):
                size = last - at + 1
                if size > 1 or not (words[at][0].islower() or _within_a_name(query, words, at)):
                    found.append(name)
                break
        at += size
        begins = ends[at - 1]
    return found


def _within_a_name(query: str, words: Sequence[re.Match[str]], at: int) -> bool:
    """Whether a capital or a number begins the word before or after one: Saint in Saint Augustine, Apollo in Apollo 13.

    The first word of a query has its capital for another reason.
    """
    for beside in (at - 1, at + 1):
        if 0 < beside < len(words):
            first, last = sorted((words[at].span(), words[beside].span()))
            begins = words[beside][0][0]
            if (begins.isupper() or begins.isdigit()) and query[first[1] : last[0]].isspace():
                return True
    return False


def _weighed(passage: Passage, score: float, stages: tuple[tuple[str, float], ...]) -> Passage:
    """The same passage with another score; `replace`, which goes by names, is slower."""
    where = (passage.document, passage.start, passage.end, passage.aliases, passage.metadata)
    return Passage(passage.id, passage.title, passage.text, score, *where, stages)


def _stages(own: float, named: float, linked: float) -> tuple[tuple[str, float], ...]:
    return tuple(
        (name, round(value, 4)) for name, value in (("bm25", own), ("named", named), ("link", linked)) if value
    )
