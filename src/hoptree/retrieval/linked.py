"""Linked retrieval: BM25, and links along the names that passages mention.

BM25 finds the first passages, and the mention graph leads to others that share no words with the query.

"Who is the mother of the director of A?" shares no word with the page of A's director. But A's page is found by its
title, and mentions the director, whose page bears that name. No model and no vectors are needed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import nlargest
from itertools import accumulate, chain
from math import log
from typing import NamedTuple

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import Links, folded, names_of
from hoptree.retrieval.index.tantivy_files import composed
from hoptree.retrieval.index.text_index import Hit
from hoptree.retrieval.retriever import fits

_MAX_NAME_WORDS = 12
_MAX_NAME_CHARS = 360  # no title of more than 120 is a name, and folding may make three characters of one
_DECIMALS = 6
_TOP = 5
_KEPT, _KEPT_UNNAMED = 2, 4
"""Passages that always stay among the first five: the best by words; more of them if no name leads to a passage, and
passages are tied only by common mentions."""
_COUNT_TOLERANCE = 4
"""Factor of the limit up to which counts of mentions, which include removed passages, are checked."""
_TIE_BREAK = 0.001
"""Share of a link's worth that counts beyond its cap, so that of two capped passages the better linked is first."""
_PASSAGES_KEPT, _NAMES_KEPT = 2_000, 10_000
"""Cache sizes: ways of passages, and names of titles."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LinkWeights:
    """How much each kind of evidence counts, in units of the best BM25 score.

    Tuned on half of the questions of nine collections (`hoptree eval retrieval --half first`); near values do as well.
    """

    seeds: int = 5  # passages BM25 ranks first, from which links are followed
    named: float = 0.7  # a passage whose name is in the question
    rare_named: float = 0.3  # discount of that by the number of passages that mention it (a factor of the logarithm)
    link: float = 1.2  # a passage whose name a seed mentions
    reference: float = 1.2  # a passage that a seed points to
    back: float = 0.2  # a passage that mentions a seed's name
    together: float = 0.5  # a passage that mentions the same name as a seed
    rare: float = 0.5  # discount of a mentioned name by how many passages mention it (a factor of the logarithm)
    spread: float = 0.3  # discount of a seed's links by their number (an exponent)
    bearers: int = 2  # a name that more documents bear is ambiguous, and not followed
    mentioners: int = 8  # a name that more passages mention does not tie them together
    near: float = 0.95
    """Cap of a linked passage, as a share of the score of the passage that leads to it."""
    doubt: float = 0.075
    """Deducted from every link, since many lead nowhere; not if only common mentions tie passages together, as
    those lift at most one passage into the first five."""
    firm: float = 0.3
    """Margin by which a passage must beat a firm one of the first five: one whose name is in the question, or with
    another passage of its page among them."""
    covered: tuple[float, float] = (0.8, 1.0)
    """Shares of the question, covered by one passage, at which links count less and at which they count nothing."""


_Documents = tuple[tuple[int, ...], ...]  # passages that bear a name, by document


class _Way(NamedTuple):
    """A name that a passage mentions, with spaces around it, and where it leads."""

    name: str
    rarity: float
    bearing: _Documents
    mentioning: tuple[int, ...]


class _Ways(NamedTuple):
    """Where a passage leads: by its mentions, the places it refers to, its names.

    `borne` counts the names that lead to passages, `keys` are all that it leads to. The scores of the `compared` divide
    the worth of a name that several bear.
    """

    borne: int
    by_mentions: tuple[_Way, ...]
    by_references: tuple[tuple[float, _Documents], ...]
    by_names: tuple[tuple[float, tuple[int, ...]], ...]
    keys: frozenset[int]
    compared: frozenset[int]


class Linked(BM25):
    """A retriever over an index with links."""

    kind = "linked"

    def __init__(self, index: Index, weights: LinkWeights | None = None) -> None:
        if not index.manifest.settings.links:
            cause = f"The index {index.folder} has no links."
            raise CorpusError(cause, f"Build it with them: hoptree index … --out {index.folder} --links")
        super().__init__(index)
        self._links = index.open_links()
        self._weights = weights or LinkWeights()
        # It must not refer to `self`: a cycle would keep the index open.
        self._ways_from = lru_cache(_PASSAGES_KEPT)(partial(_ways_from, self._links, self._weights))
        self.identity += f":{self._weights}"

    def search_now(self, query: str, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        """Search in this thread."""
        if k <= 0:
            return ()
        query = composed(query)  # as names are
        most, seeds = max(k, self._weights.seeds), self._weights.seeds
        # Links may lead from passages that do not fit to some that do: the filter comes last.
        hits = self._texts.search(query, most)
        fitting = self._texts.search(query, most, where) if where else hits
        both = (*hits, *fitting) if where else hits
        best = max((score for _, score, _ in both), default=0.0) or 1.0  # a word of every passage scores nothing
        own = {key: score / best for key, score, _ in both}
        passages = {key: passage for key, _, passage in both}
        scored: dict[int, Hit] = {}
        named = self._named(query, own, scored)
        own |= {key: scored[key][0] / best for key in named if key not in own and key in scored}
        passages |= self._texts.read({key: scored[key][1] for key in named if key not in passages and key in scored})
        first = (*hits[:seeds], *fitting[:seeds]) if where else hits[:seeds]
        starts = {key: own[key] for key, _, _ in first}
        starts |= {key: own[key] + bonus for key, bonus in named.items() if key in passages}
        folded_query = f" {folded(query)} "  # folded names are searched in it
        strength = self._link_need(query, [key for key in starts if fits(passages[key], where)])
        ways = {key: self._ways_from(key, passages[key].title, passages[key].aliases) for key in starts}
        keys = frozenset().union(*(way.keys for way in ways.values()))
        self._score(query, keys, frozenset().union(*(way.compared for way in ways.values())), own, scored)
        worths, led = self._follow({key: score * strength for key, score in starts.items()}, ways, folded_query, scored)
        own |= {key: scored[key][0] / best for key in worths if key not in own and key in scored}
        alone = {key: score + named.get(key, 0.0) for key, score in own.items()}
        kept, doubt = (_KEPT, self._weights.doubt) if named or led else (_KEPT_UNNAMED, 0.0)
        linked = self._lifted(worths, starts, alone, doubt)
        total = {key: round(score + linked.get(key, 0.0), _DECIMALS) for key, score in alone.items()}
        if where:
            passages |= self._texts.read({key: scored[key][1] for key in total if key not in passages})
            total = {key: score for key, score in total.items() if fits(passages[key], where)}
        firm = self._firm(folded_query, {key: passage for key, _, passage in fitting[:_TOP]}, total)
        _keep(total, [key for place, (key, _, _) in enumerate(fitting[:_TOP]) if place < kept or key in firm])
        return self._ranked(total, own, named, linked, passages, scored, k)

    def _score(
        self, query: str, keys: Set[int], compared: Set[int], own: Mapping[int, float], scored: dict[int, Hit]
    ) -> None:
        """Score the passages that BM25 did not return, and all that are compared."""
        if missing := (keys - own.keys() | compared) - scored.keys():
            scored |= self._texts.scored(query, [*missing])

    def _named(self, query: str, own: Mapping[int, float], scored: dict[int, Hit]) -> dict[int, float]:
        """Return the bonus of each passage whose name is in the query."""
        names = {name: self._links.bearing(name, self._weights.bearers) for name in _names_in(query, self._links)}
        self._score(query, _keys(names.values()), _compared(names.values()), own, scored)
        bonuses: dict[int, float] = {}
        for name, documents in names.items():
            worth = self._weights.named / (1 + self._weights.rare_named * log(max(self._links.count(name), 1)))
            for key, part in _parts(documents, scored).items():
                bonuses[key] = max(bonuses.get(key, 0.0), worth * part)
        return bonuses

    def _follow(
        self, starts: Mapping[int, float], ways: Mapping[int, _Ways], folded_query: str, scored: Mapping[int, Hit]
    ) -> tuple[dict[int, dict[int, float]], bool]:
        """Return what links from starts are worth, and whether names led anywhere."""
        weights = self._weights
        linked: dict[int, dict[int, float]] = {}
        led = False

        def give(keys: Iterable[int], worth: float, source: int) -> None:
            for key in keys:
                if key != source and worth > 0:
                    worths = linked.setdefault(key, {})
                    worths[source] = max(worth, worths.get(source, 0.0))

        for source, strength in starts.items():
            borne, by_mentions, by_references, by_names, _, _ = ways[source]
            for name, rarity, bearing, mentioning in by_mentions:
                if name in folded_query:  # its bearers count as named
                    continue
                worth = strength * weights.link / rarity / borne**weights.spread
                for key, part in _parts(bearing, scored).items():
                    led = True
                    give((key,), worth * part, source)
                give(mentioning, strength * weights.together / rarity, source)
            for rarity, bearing in by_references:
                parts = _parts(bearing, scored)
                if all(source in linked.get(key, ()) for key in parts):  # its words are the name of the page
                    continue
                share = rarity * len(by_references) ** weights.spread
                for key, part in parts.items():
                    led = True
                    give((key,), strength * weights.reference * part / share, source)
            for rarity, mentioners in by_names:
                give(mentioners, strength * weights.back / rarity, source)
        return linked, led

    def _lifted(
        self,
        worths: Mapping[int, Mapping[int, float]],
        starts: Mapping[int, float],
        alone: Mapping[int, float],
        doubt: float,
    ) -> dict[int, float]:
        """Return what links add to passages, capped near the one that leads there."""
        near = self._weights.near
        return {
            key: max(
                max(min(worth, near * starts[source] - alone[key]) - doubt, 0.0) + _TIE_BREAK * worth
                for source, worth in sources.items()
            )
            for key, sources in worths.items()
            if key in alone
        }

    def _firm(self, folded_query: str, first: Mapping[int, Passage], total: Mapping[int, float]) -> set[int]:
        """Return the first by words that no other passage beats by the margin."""
        pages = Counter(map(_page, first.values()))
        candidates = {
            key
            for key, hit in first.items()
            if pages[_page(hit)] > 1 or any(f" {name} " in folded_query for name in _names(hit.title, hit.aliases))
        }
        if not candidates:
            return candidates
        held = {key: score + self._weights.firm if key in candidates else score for key, score in total.items()}
        last = min(nlargest(_TOP, held.values()), default=0.0)
        return {key for key in candidates if held[key] >= last}

    def _link_need(self, query: str, starts: Sequence[int]) -> float:
        """Return how much links count: less if one passage covers most of the query."""
        low, high = self._weights.covered
        terms = self._texts.query_terms(query)
        rarity = self._texts.rarity(terms)
        total = sum(rarity.values()) or 1.0
        covered = (sum(rarity[term] for term in held) / total for held in self._texts.shared(terms, starts))
        return min(1.0, max(0.0, (high - max(covered, default=0.0)) / (high - low)))

    def _ranked(
        self,
        total: Mapping[int, float],
        own: Mapping[int, float],
        named: Mapping[int, float],
        linked: Mapping[int, float],
        passages: dict[int, Passage],
        scored: Mapping[int, Hit],
        k: int,
    ) -> tuple[Passage, ...]:
        if not total:
            return ()
        order = sorted(total, key=lambda key: -total[key])
        cut = total[order[min(k, len(order)) - 1]]
        wanted = [key for key in order if total[key] >= cut]
        passages |= self._texts.read({key: scored[key][1] for key in wanted if key not in passages})
        ranked = [
            with_score(passages[key], total[key], _stages(own[key], named.get(key, 0.0), linked.get(key, 0.0)))
            for key in wanted
        ]
        ranked.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(ranked[:k])


def _is_single(documents: _Documents) -> bool:
    """Return whether a name is borne by one passage alone."""
    return len(documents) == 1 and len(documents[0]) == 1


def _keys(names: Iterable[_Documents]) -> frozenset[int]:
    """Return the passages that bear any of several names."""
    return frozenset(key for documents in names for keys in documents for key in keys)


def _compared(names: Iterable[_Documents]) -> frozenset[int]:
    """Return the passages that share a name with others."""
    return _keys(documents for documents in names if not _is_single(documents))


def _parts(documents: _Documents, scored: Mapping[int, Hit]) -> dict[int, float]:
    """Share a name's worth among its bearers by how well each matches the query."""
    if _is_single(documents):
        return {documents[0][0]: 1.0}
    scores = {key: scored[key][0] for key in chain.from_iterable(documents) if key in scored}
    best = max(scores.values(), default=0.0)
    if not best:  # each document is represented by its first passage
        return {keys[0]: 1 / len(documents) for keys in documents}
    return {key: score / best for key, score in scores.items() if score}


def _ways_from(links: Links, weights: LinkWeights, key: int, title: str, aliases: tuple[str, ...]) -> _Ways:
    """Return where a passage leads."""
    limits = (weights.bearers, weights.mentioners, _COUNT_TOLERANCE * weights.mentioners)
    ties = {name: links.ties(name, *limits) for name in links.mentions(key)}
    places = [links.ties(name, *limits) for name in links.references(key)]
    backward = [links.mentioning(name, weights.mentioners) for name in _names(title, aliases)]

    def rarity(count: int) -> float:
        return 1 + weights.rare * log(max(count, 1))

    bearing = [tie.bearing for tie in (*ties.values(), *places) if tie.bearing]
    mentioning = chain(backward, (tie.mentioning for tie in ties.values()))
    return _Ways(
        max(sum(tie.borne for tie in ties.values()), 1),
        tuple(
            _Way(f" {name} ", rarity(tie.mentioned), tie.bearing, tie.mentioning)
            for name, tie in ties.items()
            if tie.bearing or tie.mentioning
        ),
        tuple((rarity(tie.mentioned), tie.bearing) for tie in places if tie.borne),
        tuple((rarity(len(keys)), keys) for keys in backward if keys),
        _keys(bearing).union(*mentioning),
        _compared(bearing),
    )


def _keep(total: dict[int, float], best: Sequence[int]) -> None:
    """Lift the best of BM25 into the first five, so that links do not replace them."""
    others = sorted((score for key, score in total.items() if key not in best), reverse=True)
    if len(others) > _TOP - len(best):
        floor = others[_TOP - len(best)]
        for place, key in enumerate(reversed(best), 1):  # in steps, which keeps their order
            total[key] = max(total[key], round(floor + place * 10**-_DECIMALS, _DECIMALS))


def _page(passage: Passage) -> str:
    """Return the title of a passage's page, or its document if it has none."""
    return passage.title.split(" › ")[0] or passage.document


@lru_cache(_NAMES_KEPT)
def _names(title: str, aliases: tuple[str, ...]) -> frozenset[str]:
    """Return the folded names of a passage with this title and these aliases."""
    return frozenset(map(folded, names_of(title, aliases)))


def _names_in(query: str, links: Links) -> list[str]:
    """Return the longest names in a query; single words only if written as names."""
    words = list(_WORD.finditer(query))
    folds = [word[0].casefold() for word in words]
    joined = " ".join(folds)
    ends = list(accumulate(len(word) + 1 for word in folds))  # including the space after each
    names: list[str] = []
    at = begins = 0
    while at < len(words):
        lengths = (end - 1 - begins for end in reversed(ends[at : at + _MAX_NAME_WORDS]))
        name = links.first_borne(joined[begins : begins + length] for length in lengths if length <= _MAX_NAME_CHARS)
        size = 1 + name.count(" ")
        if size > 1 or (name and not (words[at][0].islower() or _within_a_name(query, words, at))):
            names.append(name)
        at += size
        begins = ends[at - 1]
    return names


def _within_a_name(query: str, words: Sequence[re.Match[str]], at: int) -> bool:
    """Return whether a neighbour has a capital or digit: Saint Augustine, Apollo 13."""
    for beside in (at - 1, at + 1):
        if 0 < beside < len(words):
            first, last = sorted((words[at].span(), words[beside].span()))
            begins = words[beside][0][0]
            if (begins.isupper() or begins.isdigit()) and query[first[1] : last[0]].isspace():
                return True
    return False


def with_score(passage: Passage, score: float, stages: tuple[tuple[str, float], ...]) -> Passage:
    """Return the passage with another score; `dataclasses.replace` is slower."""
    where = (passage.document, passage.start, passage.end, passage.aliases, passage.metadata)
    return Passage(passage.id, passage.title, passage.text, score, *where, stages)


def _stages(own: float, named: float, linked: float) -> tuple[tuple[str, float], ...]:
    return tuple(
        (name, round(value, 4)) for name, value in (("bm25", own), ("named", named), ("link", linked)) if value
    )
