"""Rank relations for a question by words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log

import tantivy

from hoptree.core.lazy import lazy_re
from hoptree.graph.facts import Neighbourhood, Property
from hoptree.text.names import fold, word_set
from hoptree.text.tokens import UNSPACED

_MAX_WORDS = 64  # words of a question that are read
_MAX_WORD_CHARS = 60
# Scripts without spaces between words: every character is a word.
_WORD = lazy_re(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:'[^\W_{UNSPACED}]+)*'?")
_DOTTED = lazy_re(r"\b(?:[^\W\d_]\.){2,}")
_QUALIFIER = lazy_re(r"\s*\([^()]*\)\s*$")
_OWNER = lazy_re(r"(?:'s|s')\Z")
FUNCTION_WORDS = word_set(
    "a an and any are as at be been being but by can could did do does doing for from had has have having how if "
    "in into is it its me may might must my no not of on or our shall she should so some such tell than that the "
    "their them then there these they this those through to under until was we were what whats when where which "
    "who whom whose whos why will with would you your he her his him give name show list find please"
)
"""English words that seldom belong to the topic of a question."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a question; `base` has no possessive ending."""

    text: str
    base: str
    capital: bool = False


def question_words(question: str) -> tuple[Word, ...]:
    """Return the first words of a question, folded."""
    words: list[Word] = []
    for piece in question.replace("&", " and ").split():
        capital = next((letter.isupper() for letter in piece if letter.isalpha()), False)
        for token in _WORD.findall(_DOTTED.sub(lambda match: match[0].replace(".", ""), fold(piece))):
            if token == "s" and piece[:1] in "'’":  # an ending that was written apart
                continue
            word = _plain(token)
            if word:
                words.append(Word(word, _plain(_OWNER.sub("", token)) or word, capital))
        if len(words) >= _MAX_WORDS:
            break
    return tuple(_initials_joined(words[:_MAX_WORDS]))


def name_words(name: str) -> tuple[str, ...]:
    return tuple(word.text for word in question_words(name))


def bare_words(name: str) -> tuple[str, ...]:
    """Return the words of a name without brackets at its end; () if it has none."""
    if not name.rstrip().endswith(")"):
        return ()
    bare = _QUALIFIER.sub("", name)
    return name_words(bare) if bare != name else ()


def _plain(word: str) -> str:
    return word.replace("'", "")[:_MAX_WORD_CHARS]


def _initials_joined(words: list[Word]) -> list[Word]:
    """Join letters in a row to one word: J. R. R. and JRR are the same."""
    joined: list[Word] = []
    letters: list[Word] = []
    for word in [*words, None]:
        if word is not None and len(word.text) == 1 and word.text.isascii() and word.text.isalpha():
            letters.append(word)
            continue
        if len(letters) > 1:
            text = "".join(letter.text for letter in letters)
            joined.append(Word(text, text, letters[0].capital))
        else:
            joined += letters
        letters = []
        if word is not None:
            joined.append(word)
    return joined


@lru_cache(100_000)
def likeness(left: str, right: str) -> float:
    """Return the similarity of two words: 1 if equal, less for one or two edits."""
    if left == right:
        return 1.0
    shorter, longer = sorted((left, right), key=len)
    allowed = 2 if len(shorter) >= 8 else 1
    if len(shorter) < 4 or len(longer) - len(shorter) > allowed or not left.isalpha() or not right.isalpha():
        return 0.0  # different numbers are different things
    if len(set(left) ^ set(right)) > 2 * allowed:  # a fast test that rejects most words
        return 0.0
    distance = _distance(shorter, longer, allowed)
    return (1 - distance / len(longer)) ** 2 if distance <= allowed else 0.0


def _distance(left: str, right: str, allowed: int) -> int:
    """Return the Damerau-Levenshtein distance, or `allowed` + 1 if it is larger."""
    before: list[int] = []
    last = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        line = [row]
        for column, against in enumerate(right, 1):
            least = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == against:
                least = min(least, before[column - 2] + 1)
            line.append(least)
        if min(line) > allowed and (row == 1 or min(last) > allowed):
            return allowed + 1
        before, last = last, line
    return last[-1]


_MAX_VALUES = 3
_MAX_NAMES = 40  # names of a relation that are compared
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
"""Weights relative to the best name: a hint in the question, the share of the label that the question has, and the
share of the question that all names have."""
_ANALYZER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.stemmer("english")).build()
)
_JOINTS = re.compile(r"[_/.]+")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation; `outward` if the entity is the subject, with example `values`."""

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
    """Return the relations around an entity, one for each direction."""
    relations: dict[tuple[str, bool], Relation] = {}
    for fact in around.facts:
        outward = fact.subject.id == around.entity.id
        key = (fact.relation.id, outward)
        if (relation := relations.get(key)) is None:
            listed = (known or {}).get(fact.relation.id, Property("", ""))
            relation = Relation(fact.relation.id, fact.relation.text, listed.aliases, listed.description, outward)
        value = (fact.object if outward else fact.subject).text
        values = relation.values if len(relation.values) >= _MAX_VALUES else (*relation.values, value)
        relations[key] = replace(relation, facts=relation.facts + 1, values=values)
    return tuple(sorted(relations.values(), key=lambda relation: (relation.label, relation.id, not relation.outward)))


def relations_in(properties: Iterable[Property]) -> tuple[Relation, ...]:
    """Return all relations of a graph, for a question without a known entity."""
    return tuple(Relation(item.id, item.label, item.aliases, item.description, facts=item.facts) for item in properties)


class WordRanking:
    """Ranks relations by the (rare) stems a name shares with a question, then facts."""

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
        """Return relations with scores, ignoring the names of `entity`."""
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
        """Return the fit of the best name, label, coverage and hint."""
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
