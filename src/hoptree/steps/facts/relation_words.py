"""Which words mean one relation: "born" says what "date of birth" does, and "the film" says nothing of it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from hoptree.graph.naming import fold
from hoptree.uncertainty import word_spans
from hoptree.uncertainty.closed_words import CLOSED

__all__ = ["KINDS", "is_relation", "relation_key", "says"]

_STEM = 5


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LIGHT = _words("named called known name person man woman answer")
"""Words that say nothing about which relation is meant."""
KINDS = _words(
    "date place year month day city town village country state time "
    "film films movie movies documentary series show episode song songs album single track music book novel poem play "
    "actor actress singer musician band group writer novelist poet painter artist politician player footballer company"
)
"""Words that tell what kind of thing is spoken of; they name a relation only where no other word does."""
_ALIKE = {
    "birth": "born birth birthplace birthday birthdate",
    "death": "died dies die death deathplace",
    "burial": "buried burial interred grave",
    "spouse": "spouse spouses husband wife married marriage marry wed",
    "publication": "released release publication published premiered premiere came comes issued",
    "education": "educated education studied studies attended graduated alma mater",
    "employer": "employer employed worked works",
    "award": "award awards awarded received receives won wins prize",
    "founding": "founded founder founders founding inception established formed",
    "author": "author authors authored wrote writes written writer novelist screenwriter screenplay",
    "performer": "performer performed performs sang sung sings singer recorded",
    "citizenship": "citizenship citizen nationality national",
    "sibling": "sibling siblings brother brothers sister sisters",
    "location": "located location situated lies",
}
_MEANT = {word: meant for meant, words in _ALIKE.items() for word in words.split()}
_RELATIONS = frozenset(_ALIKE) | {
    word[:_STEM]
    for word in _words(
        "father mother parent son daughter child children grandfather grandmother stepfather stepmother father-in-law "
        "mother-in-law uncle aunt nephew niece cousin twin partner friend director composer producer editor "
        "cinematographer creator inventor designer architect developer manufacturer publisher owner successor "
        "predecessor student teacher doctoral advisor leader president minister mayor king queen ruler chairman "
        "manager coach captain member cast starring stars starred capital language religion cause origin headquarters "
        "occupation distributor label narrator translator killer"
    )
}
"""Words beside which another relation is spoken of: "the father of Jean was born" tells no birth of Jean."""


def relation_key(text: str) -> frozenset[str]:
    """What tells a relation: "father of" is "fathe", and "born" or "date of birth" is "birth"."""
    words = [fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)]
    telling = [word for word in words if word not in CLOSED and word not in _LIGHT]
    own = [word for word in telling if word not in KINDS] or telling
    return frozenset(_MEANT.get(word, word[:_STEM]) for word in own)


def is_relation(text: str) -> bool:
    """Whether words name a usual relation: "composer" does, and "giant pandas" do not."""
    return bool(relation_key(text) & _RELATIONS)


def says(sought: AbstractSet[str], relation: AbstractSet[str]) -> bool:
    """Whether words that are sought speak of this relation, and of no other beside it."""
    return bool(relation) and relation <= sought and not (sought - relation) & _RELATIONS
