"""Relations of an entity or a graph, ranked for a question by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import tantivy

from hoptree.graph.facts import Neighbourhood, Property
from hoptree.graph.linking.words import FUNCTION_WORDS, name_words, question_words

_MAX_VALUES = 3
_MAX_NAMES = 40
"""Names of a relation that are compared."""
_HINTS = {
    "where": "place location country",
    "city": "place location",
    "town": "place location",
    "when": "date time year",
    "year": "date time",
    "many": "number quantity",
    "long": "duration length",
}
"""Words of questions, and words in the names of relations that answer them."""
_HINT_WEIGHT, _LABEL_WEIGHT, _COVERAGE_WEIGHT = 0.2, 0.1, 0.6
"""Weights beside the best name: a hint in the question, the share of the label that the question has, and the share of
the question that all names have."""
_ANALYZER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()
)
_JOINTS = re.compile(r"[_/.]+")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation; `outward` if the entity is the subject, `values` are examples from its facts."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    outward: bool = True
    facts: int = 0
    values: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.label, *self.aliases)[:_MAX_NAMES]


def relations_of(around: Neighbourhood, known: Mapping[str, Property] | None = None) -> tuple[Relation, ...]:
    """Return the relations around an entity by name, one for each direction; `known` has aliases."""
    relations: dict[tuple[str, bool], Relation] = {}
    for fact in around.facts:
        outward = fact.subject.id == around.entity.id
        key = (fact.relation.id, outward)
        relation = relations.get(key) or _relation(fact.relation.id, fact.relation.text, known, outward)
        value = (fact.object if outward else fact.subject).text
        values = relation.values if len(relation.values) >= _MAX_VALUES else (*relation.values, value)
        relations[key] = replace(relation, facts=relation.facts + 1, values=values)
    return tuple(sorted(relations.values(), key=lambda relation: (relation.label, relation.id, not relation.outward)))


def _relation(identifier: str, label: str, known: Mapping[str, Property] | None, outward: bool) -> Relation:
    listed = (known or {}).get(identifier)
    aliases, description = (listed.aliases, listed.description) if listed else ((), "")
    return Relation(identifier, label, aliases, description, outward)


def relations_in(properties: Iterable[Property]) -> tuple[Relation, ...]:
    """Return all relations of a graph, for a question without a known entity."""
    return tuple(Relation(item.id, item.label, item.aliases, item.description, facts=item.facts) for item in properties)


class WordRanking:
    """Ranks relations by the (rare) word stems that one of their names shares with a question.

    Of equals the one with more facts comes first, then the id decides.
    """

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._relations = relations
        self._names = [tuple(dict.fromkeys(_stems(name) for name in relation.names)) for relation in relations]
        self._counts: dict[str, int] = {}
        for names in self._names:
            for stem in {stem for name in names for stem in name}:
                self._counts[stem] = self._counts.get(stem, 0) + 1

    def rank(
        self, question: str, limit: int | None = None, *, entity: Iterable[str] = ()
    ) -> tuple[tuple[Relation, float], ...]:
        """Return relations with scores, best first; words of the names of `entity` do not count."""
        about = {word for name in entity for word in name_words(name)}
        words = [word.base for word in question_words(question)]
        hinted = {stem for word in words for stem in _stems(_HINTS.get(word, ""))}
        stems = set(_stems(" ".join(word for word in words if word not in about)))
        scored = [
            (relation, round(self._fit(names, stems, hinted), 6))
            for relation, names in zip(self._relations, self._names, strict=True)
        ]
        scored.sort(key=lambda pair: (-pair[1], -pair[0].facts, pair[0].id, not pair[0].outward))
        return tuple(scored[:limit])

    def _fit(self, names: Sequence[tuple[str, ...]], stems: set[str], hinted: set[str]) -> float:
        """Return the share of the best name that the question has, plus label, coverage and hint."""
        hint = _HINT_WEIGHT if names and not hinted.isdisjoint(names[0]) else 0.0
        matching = [name for name in names if not stems.isdisjoint(name)]
        if not matching:
            return hint
        asked = sum(self._rarity(stem) for stem in stems if stem in self._counts)
        matched = sum(self._rarity(stem) for stem in {stem for name in matching for stem in name} & stems)
        best = max(self._share(name, stems) for name in matching)
        return best + _LABEL_WEIGHT * self._share(names[0], stems) + _COVERAGE_WEIGHT * matched / asked + hint

    def _share(self, name: Sequence[str], stems: set[str]) -> float:
        weights = [(self._rarity(stem), stem in stems) for stem in name]
        return sum(weight for weight, shared in weights if shared) / (sum(weight for weight, _ in weights) or 1.0)

    def _rarity(self, stem: str) -> float:
        return log(1 + (len(self._relations) + 1) / (self._counts[stem] + 0.5))


def _stems(name: str) -> tuple[str, ...]:
    """Return the stems of a name, without function words if others are left."""
    words = name_words(_JOINTS.sub(" ", name))
    content = [word for word in words if word not in FUNCTION_WORDS] or list(words)
    return tuple(_ANALYZER.analyze(" ".join(content)))
