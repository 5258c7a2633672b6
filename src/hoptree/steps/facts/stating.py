"""Whether a sentence that names two things tells this relation of them, and not only another one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoptree.graph.naming import fold
from hoptree.steps.facts.direction import is_of, tells_of
from hoptree.steps.facts.relation_words import KINDS, joined, relation_key
from hoptree.uncertainty import mentions, word_spans
from hoptree.uncertainty.closed_words import words_of

__all__ = ["states"]

_LIFE = words_of("birth death")
"""What brackets tell without a word for it: "Jean (7 May 1859 Paris – 1 June 1934)"."""
_WORK_BY = "(a work) by"
_BY = re.compile(rf"\b(?:{'|'.join(sorted(KINDS))})\s+by\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Told:
    """Words of relations that a sentence hardly tells without one of the words it tells them by, or their stems."""

    relations: frozenset[str]
    by: frozenset[str]


_NEAR = words_of("father mother parent son daughter child")
_STEP = frozenset(f"step{one}" for one in _NEAR)
_GRAND = frozenset(f"grand{one}" for one in _NEAR)
_GREAT = frozenset(f"great{one}" for one in _GRAND)
_SIBLINGS = words_of("brother sister sibling")
_HALF = frozenset(f"half{one}" for one in _SIBLINGS)
_IN_LAW = frozenset(f"{one}inlaw" for one in _NEAR | _SIBLINGS)
_OTHERS = {"father": "mother", "son": "daughter", "brother": "sister"}
_OTHERS |= {other: one for one, other in _OTHERS.items()}
_OTHER = re.compile("|".join(_OTHERS))
_MARRIED = words_of("spouse wives weddi widow conso bride")
_TOLD = (
    _Told(words_of("birth"), words_of("birth native nee")),
    _Told(words_of("death"), words_of("death dead kille murde execu assas suici peris")),
    _Told(words_of("burial"), words_of("burial tomb cemet")),
    _Told(words_of("spouse"), _MARRIED),
    _Told(_NEAR, _NEAR | _STEP | {"birth"}),
    _Told(_STEP, _STEP | _MARRIED),
    _Told(_GRAND, _GRAND),
    _Told(_GREAT, _GREAT),
    _Told(_SIBLINGS | _HALF, _SIBLINGS | _HALF | {"twin"}),
    _Told(_IN_LAW, _IN_LAW | _MARRIED),
    _Told(words_of("uncle aunt nephew niece"), words_of("uncle aunt nephew niece") | _SIBLINGS),
    _Told(words_of("director"), words_of("direc") | {_WORK_BY}),
    _Told(words_of("producer"), words_of("producer produ") | {_WORK_BY}),
    _Told(words_of("composer"), words_of("compo author music") | {_WORK_BY}),
    _Told(words_of("author"), words_of("author") | {_WORK_BY}),
    _Told(words_of("performer"), words_of("performer") | {_WORK_BY}),
)


def states(relation: str, said: str, sentence: str) -> bool:
    """Whether a sentence has a word for a relation, or is one that needs none.

    Words are asked for where sentences have them: kin, marriage, birth, death and who made a work. "A French painter"
    tells a nationality without any. "The father of Jean" does not tell that Jean is a father's name, and no mother is
    told by a word for a father.
    """
    if tells_of(said, relation, sentence) is (not is_of(relation)):
        return False
    meant, told = _words(relation), _words(sentence)
    told -= {_OTHER.sub(_other, one) for one in meant} - meant
    if _BY.search(sentence):
        told |= {_WORK_BY}
    if all(one.by & told for one in _TOLD if one.relations & meant):
        return True
    return bool(_LIFE & meant) and any(_in_brackets(sentence, start) for start, _ in mentions(said, sentence))


def _other(word: re.Match[str]) -> str:
    return _OTHERS[word[0]]


def _words(text: str) -> frozenset[str]:
    """The words of a text as they are, and what they tell of a relation; "co-directed" is two words."""
    text = joined(text).replace("-", " ")
    return relation_key(text) | {fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)}


def _in_brackets(sentence: str, at: int) -> bool:
    return sentence.count("(", 0, at) > sentence.count(")", 0, at)
