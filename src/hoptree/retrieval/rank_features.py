"""Features of passages for a question, alone and after chosen passages.

Words count by their rarity in the index. Passages are read sentence by sentence: the strongest evidence is a sentence
with both the name that leads on and words of the question that are still open.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from hoptree.core.lazy import lazy_import
from hoptree.core.values import Passage
from hoptree.retrieval.index.links import DIGIT, YEAR, PassageReader, folded
from hoptree.retrieval.shared_names import SharedNames, naming_sentences
from hoptree.text.names import name_spans

np = lazy_import("numpy", "A ranker", "eval")
Array = Any
_SEEDS = 10  # best passages of the first search; links to and from them are features of a passage alone
_CHOSEN = 9  # best passages by their features alone; each is tried as the chosen one
_ANY = 0.2  # worth of a shared name whose sentence has no further word of the question
_DECIMALS = 6  # of a feature: more would depend on the processor
_COMPARISON = re.compile(
    r"\b(?:both|same|first|earlier|later|older|younger|more|longer|larger|bigger|higher|or|between|than|also|common)\b",
    re.IGNORECASE,
)
_YES_NO = re.compile(r"\s*(?:is|are|was|were|do|does|did|can|could|has|have|had|would|will|should)\b", re.IGNORECASE)
_NESTED = re.compile(r"\b(?:of|that|which|who|whose|where|when|in|by)\b|'s\b", re.IGNORECASE)
_TIME = re.compile(r"when|year|date", re.IGNORECASE)
_QUANTITY = re.compile(r"how many|how much|number|population", re.IGNORECASE)
_QUESTION_WORDS = ("who", "when", "where", "which", "what", "how")

ALONE = (
    *("score", "rank", "bm25", "bm25_rank", "named", "link", "expanded", "expanded_by"),
    *("covered", "in_title", "in_text", "names", "relation", "adjacent", "first_sentence"),
    *("sentence", "sentence_relation", "sentence_text", "relative", "title_known", "title_asked", "title_terms"),
    *("terms", "sentences", "same_title", "same_title_rank", "mentioned", "mentioned_by", "mentions", "mentions_of"),
    *("leading_sentence", "shared", "dates", "numbers", "meant", "meant_sentence", "meant_relation", "meant_text"),
    *("q_terms", "q_names", "q_titles", "q_comparison", "q_yes_no", "q_nested", "q_best"),
    *(f"q_{word}" for word in _QUESTION_WORDS),
)
AFTER = (
    *("new", "new_names", "new_relation", "new_sentence", "meant_new", "meant_new_sentence", "union", "both", "left"),
    *("to", "to_sentence", "to_place", "to_rarity", "from", "from_new", "from_rarity"),
    *("shared", "shared_count", "shared_new", "shared_sentence", "bridge", "bridge_title", "bridge_first"),
    *("same_title", "alike", "title_terms", "expanded"),
)
_OPEN = 6  # the first features of AFTER, which say what is new; their minimum over the best chosen counts too
CHAINED = (
    *ALONE,
    *("first", "first_gap", "first_rank"),
    *(f"any_{name}" for name in AFTER),
    *(f"least_{name}" for name in AFTER[:_OPEN]),
    *(f"best_{name}" for name in (*AFTER, "gap")),
    *(f"second_{name}" for name in (*AFTER, "gap")),
)

SENTENCE = (
    *("covered", "covered_text", "relation", "beyond_title", "relative", "before", "behind", "place", "from_end"),
    *("terms", "names_other", "named_by", "asked_name", "new_names", "dates", "numbers", "title_asked"),
    *("passage_covered", "q_terms", "q_comparison", "q_yes_no"),
)


class Features:
    """The features of candidates for one question.

    `expanded` has, by passage, the places of others in a search for the question and the names in the passage.
    """

    def __init__(
        self,
        reader: PassageReader,
        query: str,
        candidates: Sequence[Passage],
        expanded: Mapping[str, Mapping[str, int]],
    ) -> None:
        self._reader, self._query = reader, query
        self.candidates, self._expanded = candidates, expanded
        self._views = views = [reader.view(passage) for passage in candidates]
        self._place = {passage.id: place for place, passage in enumerate(candidates)}
        self._folded = f" {folded(query)} "
        terms = reader.texts.query_terms(query)
        rarity = reader.texts.rarity(terms)
        self._total = sum(rarity.values()) or 1.0
        self._weights = np.array([rarity[term] / self._total for term in terms])
        in_names = {term for start, end in name_spans(query) for term in reader.texts.terms(query[start:end])}
        if in_names.issuperset(terms):
            in_names = set()
        self._is_name = np.array([term in in_names for term in terms], dtype=bool)
        self._in_title = self._matrix(terms, [view.title_terms for view in views])
        self._in_sentence = self._matrix(terms, [held for view in views for held in view.sentence_terms])
        self._counts = np.array([len(view.sentence_terms) for view in views])
        self._starts = np.cumsum(self._counts) - self._counts
        self._owners = np.repeat(np.arange(len(views)), self._counts)
        self._in_text = np.logical_or.reduceat(self._in_sentence, self._starts, axis=0)
        self._has = self._in_text | self._in_title
        self._with_title = self._in_sentence | self._in_title[self._owners]
        near = [reader.related.get(term, frozenset()) for term in terms]
        held = [each for view in views for each in view.sentence_terms]
        rows = [[bool(each & meant) for meant in near] for each in held]
        self._meant_sentence = self._with_title | np.array(rows, dtype=bool).reshape(self._with_title.shape)
        self._meant = np.logical_or.reduceat(self._meant_sentence, self._starts, axis=0)

    def _matrix(self, terms: Sequence[str], held: Sequence[frozenset[str]]) -> Array:
        rows = [[term in each for term in terms] for each in held]
        return np.array(rows, dtype=bool).reshape(len(held), len(terms))

    @cached_property
    def _naming(self) -> Array:
        return naming_sentences(self._views)

    def _links(self, chosen: Array) -> tuple[Array, Array]:
        """Return the naming sentences between chosen passages and candidates, both ways."""
        return self._naming[chosen], self._naming[:, chosen].T

    def alone(self) -> Array:
        """Return a row of features for each candidate."""
        weights, count = self._weights, len(self._views)
        names, relation = np.where(self._is_name, weights, 0.0), np.where(self._is_name, 0.0, weights)
        covered = self._has @ weights
        in_sentence = self._with_title @ weights
        adjacent = (self._in_sentence[:, :-1] & self._in_sentence[:, 1:]).sum(axis=1)
        scores = np.array([passage.score for passage in self.candidates])
        stages = [dict(passage.stages) for passage in self.candidates]
        seeds = np.argsort(-scores, kind="stable")[:_SEEDS]
        to, back = self._links(seeds)
        sources = np.where(to >= 0, in_sentence[self._starts[seeds][:, None] + np.maximum(to, 0)], 0.0)
        same_title, same_title_rank = self._same_titles(covered)
        reciprocal_rank = np.zeros((max(len(self._expanded), 1), count))
        for row, places in enumerate(self._expanded.values()):
            for name, place in places.items():
                if name in self._place:
                    reciprocal_rank[row, self._place[name]] = 1 / (1 + place)
        bm25 = np.array([stage.get("bm25", 0.0) for stage in stages])
        bm25_rank = np.empty(count)
        bm25_rank[np.argsort(-bm25, kind="stable")] = np.arange(count)
        asked = self._titles_asked()
        columns = [
            scores,
            np.array([stage.get("rank", 0.0) for stage in stages]),
            bm25,
            1 / (1 + bm25_rank),
            np.array([stage.get("named", 0.0) for stage in stages]),
            np.array([stage.get("link", 0.0) for stage in stages]),
            reciprocal_rank.max(axis=0),
            (reciprocal_rank > 0).sum(axis=0),
            covered,
            self._in_title @ weights,
            self._in_text @ weights,
            self._has @ names / (names.sum() or 1.0),
            self._has @ relation / (relation.sum() or 1.0),
            self._best(adjacent),
            in_sentence[self._starts],
            self._best(in_sentence),
            self._best(self._with_title @ relation) / (relation.sum() or 1.0),
            self._best(self._in_sentence @ weights),
            covered / (covered.max() or 1.0),
            self._title_known(),
            asked,
            np.array([len(view.title_terms) for view in self._views]),
            np.array([len(view.terms) for view in self._views]),
            np.array([len(view.sentence_terms) for view in self._views]),
            same_title,
            same_title_rank,
            (to >= 0).sum(axis=0),
            ((to >= 0) * scores[seeds][:, None]).max(axis=0),
            (back >= 0).sum(axis=0),
            ((back >= 0) * scores[seeds][:, None]).max(axis=0),
            sources.max(axis=0),
            self._rarest_shared(seeds),
            np.array([view.has_year for view in self._views]) * bool(_TIME.search(self._query)),
            np.array([view.digits for view in self._views]) * bool(_QUANTITY.search(self._query)),
            self._meant @ weights,
            self._best(self._meant_sentence @ weights),
            self._best(self._meant_sentence @ relation) / (relation.sum() or 1.0),
            self._best((self._meant_sentence & ~self._in_title[self._owners]) @ weights),
            *(np.full(count, value, dtype=float) for value in self._question(asked.sum(), covered.max())),
        ]
        return _table(columns, axis=1)

    def _titles_asked(self) -> Array:
        """Return 1 for each candidate whose name is in the question."""
        asked = [any(f" {name} " in self._folded for name in view.names) for view in self._views]
        return np.array(asked, dtype=float)

    def _asked_kind(self) -> tuple[float, bool, bool]:
        """Return the number of words, whether it compares, and whether it asks yes or no."""
        query = self._query
        return len(self._weights), _COMPARISON.search(query) is not None, _YES_NO.match(query) is not None

    def _question(self, titles: float, best: float) -> list[float]:
        """Return the features of the question itself."""
        lowered = self._query.lower()
        count, compares, yes_no = self._asked_kind()
        return [
            count,
            len(name_spans(self._query)),
            titles,
            compares,
            yes_no,
            len(_NESTED.findall(self._query)),
            best,
            *(word in lowered for word in _QUESTION_WORDS),
        ]

    def _best(self, values: Array) -> Array:
        """Return the highest value of each passage's sentences."""
        return np.maximum.reduceat(values, self._starts)

    def _title_known(self) -> Array:
        """Return the share of each title's words that the question has."""
        known = (self._in_title * self._weights).sum(axis=1) * self._total
        totals = [sum(self._reader.texts.rarity(sorted(view.title_terms)).values()) for view in self._views]
        return known / np.maximum(totals, 1e-9)

    def _same_titles(self, covered: Array) -> tuple[Array, Array]:
        """Return how many candidates share each title, and the rank among them."""
        groups: dict[str, list[int]] = defaultdict(list)
        for place in np.argsort(-covered, kind="stable"):
            groups[self.candidates[place].title].append(int(place))
        sizes, ranks = np.zeros(len(covered)), np.zeros(len(covered))
        for group in groups.values():
            sizes[group], ranks[group] = len(group), range(len(group))
        return sizes, ranks

    @cached_property
    def _sharing(self) -> SharedNames:
        return SharedNames(self._views, self._starts, self._reader.rarity, self._folded)

    def _rarest_shared(self, chosen: Array) -> Array:
        """Return the rarity of the rarest name shared with any chosen passage."""
        _, source, to = self._sharing.pairs(chosen)
        rarest = np.zeros(len(self._views))
        np.maximum.at(rarest, self._sharing.holder[to], self._sharing.rarity[source])
        return rarest

    def _shared(self, chosen: Array) -> Array:
        """Return features of the names that chosen passages and candidates share.

        Names in the question do not count. The rows are: rarity of the rarest; their number; what is new in the
        candidate's sentence with one; what the chosen one's sentence covers; both together; and the last for names in
        the candidate's title, and in its first sentence.
        """
        sharing = self._sharing
        shared = np.zeros((7, len(chosen), len(self._views)))
        row, source, to = sharing.pairs(chosen)
        if not len(row):
            return shared
        new = np.where(self._meant[chosen], 0.0, self._weights) @ self._meant_sentence.T.astype(float)
        rarity = sharing.rarity[source]
        here = rarity * sharing.best(self._meant_sentence @ self._weights)[source]
        fresh = sharing.best(new)[row, to]
        in_title, in_first = here * sharing.in_title[to], here * sharing.in_first[to]
        cells = (row, sharing.holder[to])
        np.add.at(shared[1], cells, 1.0)
        for place, values in zip(
            (0, 2, 3, 4, 5, 6), (rarity, rarity * fresh, here, here * (_ANY + fresh), in_title, in_first), strict=True
        ):
            np.maximum.at(shared[place], cells, values)
        return shared

    def after(self, chosen: Array) -> Array:
        """Return a row of features for each candidate after each chosen passage."""
        weights, count = self._weights, len(self._views)
        has, open_terms = self._has.astype(float), np.where(self._has[chosen], 0.0, weights)
        new, left = open_terms @ has.T, open_terms.sum(axis=1)
        fresh = open_terms @ self._with_title.T.astype(float)
        meant_open = np.where(self._meant[chosen], 0.0, weights)
        to, back = self._links(chosen)
        covered = self._with_title @ weights
        there, back_at = self._starts[chosen][:, None] + np.maximum(to, 0), self._starts + np.maximum(back, 0)
        rarity = np.array([max(map(self._reader.rarity, view.names), default=0.0) for view in self._views])
        views = [self._views[place] for place in chosen]
        title_of = [passage.title for passage in self.candidates]
        overlap = [[len(a.title_terms & b.title_terms) / (len(b.title_terms) or 1) for b in self._views] for a in views]
        expanded = np.zeros((len(chosen), count))
        for row, place in enumerate(chosen):
            for name, rank in self._expanded.get(self.candidates[place].id, {}).items():
                if name in self._place:
                    expanded[row, self._place[name]] = 1 / (1 + rank)
        columns = [
            new,
            np.where(self._is_name, open_terms, 0.0) @ has.T,
            np.where(self._is_name, 0.0, open_terms) @ has.T,
            np.maximum.reduceat(fresh, self._starts, axis=1),
            meant_open @ self._meant.T.astype(float),
            np.maximum.reduceat(meant_open @ self._meant_sentence.T.astype(float), self._starts, axis=1),
            1.0 - left[:, None] + new,
            (has[chosen] * weights) @ has.T,
            np.broadcast_to(left[:, None], new.shape),
            to >= 0,
            np.where(to >= 0, covered[there], 0.0),
            np.where(to >= 0, 1 / (1 + np.maximum(to, 0)), 0.0),
            (to >= 0) * rarity,
            back >= 0,
            np.where(back >= 0, np.take_along_axis(fresh, back_at, axis=1), 0.0),
            (back >= 0) * rarity[chosen][:, None],
            *self._shared(chosen),
            np.array([[title_of[place] == title for title in title_of] for place in chosen]),
            self._alike(chosen),
            np.array(overlap),
            expanded,
        ]
        return _table(columns, axis=2)

    def _alike(self, chosen: Array) -> Array:
        """Return the cosine of each candidate's words with each chosen passage's words."""
        terms = [view.terms for view in self._views]
        rarity = self._reader.texts.rarity(sorted(frozenset().union(*terms)))
        column = {term: place for place, term in enumerate(rarity)}
        owner = np.repeat(np.arange(len(terms)), [len(held) for held in terms])
        weighted = np.zeros((len(terms), len(rarity)))
        weighted[owner, [column[term] for held in terms for term in held]] = 1.0
        weighted *= [*rarity.values()]
        norms = np.sqrt((weighted**2).sum(axis=1))
        norms[norms == 0] = 1.0
        return weighted[chosen] @ weighted.T / norms[chosen][:, None] / norms

    def chained(self, alone: Array, first: Array) -> Array:
        """Return features of each candidate after the best others by `first` scores."""
        count = len(first)
        order = np.argsort(-first, kind="stable")
        rank = np.empty(count)
        rank[order] = np.arange(count)
        chosen = order[:_CHOSEN]
        after = self.after(chosen)
        own = (np.arange(len(chosen)), chosen)
        gap = first - first.max()
        weighted = after * (2 / (1 + np.exp(-gap[chosen])))[:, None, None]
        weighted[own] = 0.0
        least = after[:3, :, :_OPEN].copy()
        least[own[0][:3], own[1][:3]] = 1.0
        columns = [alone, first[:, None], gap[:, None], rank[:, None], weighted.max(axis=0), least.min(axis=0)]
        for place in range(2):  # the best and the second best other one
            row = np.minimum(np.where(rank <= place, place + 1, place), len(chosen) - 1).astype(int)
            columns += [after[row, np.arange(count)], (first[chosen[row]] - first)[:, None]]
        return np.round(np.concatenate(columns, axis=1), _DECIMALS)

    def of_sentences(self) -> Array:
        """Return a row of features for each sentence; all candidates are read together."""
        weights = self._weights
        relation = np.where(self._is_name, 0.0, weights)
        covered, in_text = self._with_title @ weights, self._in_sentence @ weights
        count = self._counts[self._owners]
        place = np.arange(len(covered)) - self._starts[self._owners]
        beside = np.concatenate([[0.0], in_text, [0.0]])
        texts = [text for view in self._views for text in view.folded_sentences]
        names = [[f" {name} " for name in view.names] for view in self._views]
        others = [
            sum(owner != at and any(name in text for name in each) for at, each in enumerate(names))
            for text, owner in zip(texts, self._owners, strict=True)
        ]
        mentions = [[f" {name} " for name in view.mentions] for view in self._views]
        inside = [
            [name in self._folded for name in mentions[owner] if name in text]
            for text, owner in zip(texts, self._owners, strict=True)
        ]
        named_by = np.array([sum(name in text for text in texts for name in each) for each in names])
        columns = [
            covered,
            in_text,
            self._in_sentence @ relation / (relation.sum() or 1.0),
            (self._in_sentence & ~self._in_title[self._owners]) @ weights,
            in_text / np.maximum(self._best(in_text)[self._owners], 1e-9),
            np.where(place > 0, beside[:-2], 0.0),
            np.where(place < count - 1, beside[2:], 0.0),
            place,
            count - 1 - place,
            np.array([len(held) for view in self._views for held in view.sentence_terms]),
            np.array(others),
            named_by[self._owners],
            np.array([sum(asked) for asked in inside]),
            np.array([len(asked) - sum(asked) for asked in inside]),
            np.array([bool(YEAR.search(text)) for text in texts]) * bool(_TIME.search(self._query)),
            np.array([bool(DIGIT.search(text)) for text in texts]) * bool(_QUANTITY.search(self._query)),
            self._titles_asked()[self._owners],
            (self._has @ weights)[self._owners],
            *(np.full(len(texts), value, dtype=float) for value in self._asked_kind()),
        ]
        return _table(columns, axis=1)

    def by_passage(self, values: Array) -> list[list[float]]:
        """Split values of sentences into lists, one for each candidate."""
        return [part.tolist() for part in np.split(values, self._starts[1:])]

    def of(self, passages: Sequence[Passage]) -> Features:
        """Return the features of other passages for the same question."""
        return Features(self._reader, self._query, passages, {})

    def sentences_with(self, texts: Iterable[str]) -> Array:
        """Return which sentences have any of these texts, or another candidate's name."""
        wanted = [f" {folded(text)} " for text in texts]
        names = [[f" {name} " for name in view.names] for view in self._views]
        others = [sum((each for at, each in enumerate(names) if at != owner), wanted) for owner in range(len(names))]
        pairs = [(text, others[owner]) for owner, view in enumerate(self._views) for text in view.folded_sentences]
        return np.array([any(name in text for name in each) for text, each in pairs], dtype=bool)


def _table(columns: Sequence[Array], axis: int) -> Array:
    return np.round(np.stack([np.asarray(column, dtype=float) for column in columns], axis=axis), _DECIMALS)
