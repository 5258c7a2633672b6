"""Which words mean one relation: "born" says what "date of birth" does, and "the film" says nothing of it."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from hoptree.graph.naming import fold
from hoptree.uncertainty import word_spans
from hoptree.uncertainty.closed_words import CLOSED

__all__ = ["KINDS", "head", "is_relation", "joined", "relation_key", "says"]

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
    "producer": "producer producers produced produces",
    "location": "located location situated lies",
}
_MEANT = {word: meant for meant, words in _ALIKE.items() for word in words.split()}
_RELATIONS = frozenset(_ALIKE) | {
    word[:_STEM]
    for word in _words(
        "maternal paternal partner friend director composer production editor cinematographer creator inventor "
        "designer architect developer manufacturer publisher owner successor predecessor student teacher doctoral "
        "advisor leader president minister mayor king queen ruler chairman manager coach captain member cast starring "
        "stars starred capital language religion cause origin headquarters occupation distributor label narrator "
        "translator killer"
    )
}
"""Words beside which, as beside kin, another relation is spoken of: "the king of Jean was born" is no birth of Jean."""
_KIN = re.compile(
    r"((?:great|grand|step|half)*(?:father|mother|parent|brother|sister|sibling|son|daughter|child)"
    r"|uncle|aunt|nephew|niece|cousin|twin)(?:ren)?s?(inlaw)?"
)
_BEFORE_KIN = re.compile(r"\b(great|grand|step|half)-(?=\w)", re.IGNORECASE)
_IN_LAW = re.compile(r"(?<=\w)[\s-]in[\s-]law\b", re.IGNORECASE)


def relation_key(text: str) -> frozenset[str]:
    """What tells a relation: "director of" is "direc", and "born" or "date of birth" is "birth".

    Kin are told by whole words, in the singular: a father-in-law is no father, and no grandmother is a grandfather.
    """
    text = joined(text)
    words = [fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)]
    telling = [word for word in words if word not in CLOSED and word not in _LIGHT]
    own = [word for word in telling if word not in KINDS] or telling
    return frozenset(map(_key, own))


def head(relation: str) -> str:
    """The noun that names a relation, kin in the singular: "of" stands behind it where it is told of somebody."""
    text = joined(relation)
    words = [fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)]
    last = next((word for word in reversed(words) if word not in CLOSED), "")
    return _key(last) if _KIN.fullmatch(last) else last


def joined(text: str) -> str:
    """A text in which each word for kin is one: "step-son" is "stepson", and "father in law" is "fatherinlaw"."""
    return _IN_LAW.sub("inlaw", _BEFORE_KIN.sub(r"\1", text))


def _key(word: str) -> str:
    kin = _KIN.fullmatch(word)
    return _MEANT.get(word) or (kin[1] + (kin[2] or "") if kin else word[:_STEM])


def is_relation(text: str) -> bool:
    """Whether words name a usual relation: "composer" does, and "giant pandas" do not."""
    return any(map(_is_known, relation_key(text)))


def says(sought: AbstractSet[str], relation: AbstractSet[str]) -> bool:
    """Whether words that are sought speak of this relation, and of no other beside it."""
    return bool(relation) and relation <= sought and not any(map(_is_known, sought - relation))


def _is_known(key: str) -> bool:
    return key in _RELATIONS or _KIN.fullmatch(key) is not None
