"""The relations of an entity, or of a whole graph, ranked for a question by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import tantivy

from hoptree.graph.facts import Neighbourhood, Property
from hoptree.graph.linking.words import FUNCTION_WORDS, name_words, question_words

_VALUES = 3
_NAMES = 40
"""Names of one relation that are compared."""
_HINTS = {
    "where": "place location country",
    "city": "place location",
    "town": "place location",
    "when": "date time year",
    "year": "date time",
    "many": "number quantity",
    "long": "duration length",
}
"""Words of questions, and what relations are called that answer them."""
_HINTED, _LABEL, _EXPLAINED = 0.2, 0.1, 0.6
"""What it counts beside the best name: that the question hints at the relation, the share of its label that the
question has, and the share of the question that all its names have."""
_ANALYZER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()
)
_JOINTS = re.compile(r"[_/.]+")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation by its id; `outward` where the entity is the subject, `values` what some of its facts say."""

    id: str
    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    outward: bool = True
    facts: int = 0
    values: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.label, *self.aliases)[:_NAMES]


def relations_of(around: Neighbourhood, known: Mapping[str, Property] | None = None) -> tuple[Relation, ...]:
    """The relations around an entity, each direction by itself, in the order of their names; `known` tells aliases."""
    found: dict[tuple[str, bool], Relation] = {}
    for fact in around.facts:
        outward = fact.subject.id == around.entity.id
        key = (fact.relation.id, outward)
        one = found.get(key) or _relation(fact.relation.id, fact.relation.text, known, outward)
        value = (fact.object if outward else fact.subject).text
        values = one.values if len(one.values) >= _VALUES else (*one.values, value)
        found[key] = replace(one, facts=one.facts + 1, values=values)
    return tuple(sorted(found.values(), key=lambda one: (one.label, one.id, not one.outward)))


def _relation(identifier: str, label: str, known: Mapping[str, Property] | None, outward: bool) -> Relation:
    told = (known or {}).get(identifier)
    aliases, description = (told.aliases, told.description) if told else ((), "")
    return Relation(identifier, label, aliases, description, outward)


def relations_in(properties: Iterable[Property]) -> tuple[Relation, ...]:
    """All relations of a graph, for a question of which the entity is not known."""
    return tuple(Relation(one.id, one.label, one.aliases, one.description, facts=one.facts) for one in properties)


class WordRanking:
    """Ranks relations by the words that one of their names shares with a question, the rarer ones first.

    Endings are cut off as English has them. Of equals the one with more facts comes first, then the id decides.
    """

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._relations = relations
        self._names = [tuple(dict.fromkeys(_stems(name) for name in one.names)) for one in relations]
        self._counts: dict[str, int] = {}
        for names in self._names:
            for stem in {stem for name in names for stem in name}:
                self._counts[stem] = self._counts.get(stem, 0) + 1

    def rank(
        self, question: str, limit: int | None = None, *, entity: Iterable[str] = ()
    ) -> tuple[tuple[Relation, float], ...]:
        """Relations with their scores, best first; words of the names of the entity it is about ask for none."""
        about = {word for name in entity for word in name_words(name)}
        said = [word.base for word in question_words(question)]
        hinted = {stem for word in said for stem in _stems(_HINTS.get(word, ""))}
        stems = set(_stems(" ".join(word for word in said if word not in about)))
        scored = [
            (one, round(self._fit(names, stems, hinted), 6))
            for one, names in zip(self._relations, self._names, strict=True)
        ]
        scored.sort(key=lambda pair: (-pair[1], -pair[0].facts, pair[0].id, not pair[0].outward))
        return tuple(scored[:limit])

    def _fit(self, names: Sequence[tuple[str, ...]], stems: set[str], hinted: set[str]) -> float:
        """How much of its best name the question has; then what its label has, what of the question all names have."""
        hint = _HINTED if names and not hinted.isdisjoint(names[0]) else 0.0
        some = [name for name in names if not stems.isdisjoint(name)]
        if not some:
            return hint
        asked = sum(self._telling(stem) for stem in stems if stem in self._counts)
        told = sum(self._telling(stem) for stem in {stem for name in some for stem in name} & stems)
        best = max(self._share(name, stems) for name in some)
        return best + _LABEL * self._share(names[0], stems) + _EXPLAINED * told / asked + hint

    def _share(self, name: Sequence[str], stems: set[str]) -> float:
        found = [(self._telling(stem), stem in stems) for stem in name]
        return sum(weight for weight, said in found if said) / (sum(weight for weight, _ in found) or 1.0)

    def _telling(self, stem: str) -> float:
        return log(1 + (len(self._relations) + 1) / (self._counts[stem] + 0.5))


def _stems(name: str) -> tuple[str, ...]:
    """The words of a name without endings; those that only join are left out where others are there."""
    words = name_words(_JOINTS.sub(" ", name))
    telling = [word for word in words if word not in FUNCTION_WORDS] or list(words)
    return tuple(_ANALYZER.analyze(" ".join(telling)))
