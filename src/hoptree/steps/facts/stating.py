"""Whether a sentence that names two things tells this relation of them, and not only another one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoptree.graph.naming import fold
from hoptree.steps.facts.relation_words import KINDS, relation_key
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


_PARENTS = words_of("father mother parent parents son daughter child children stepfather stepmother")
_GRAND = words_of("grandfather grandmother grandparent grandparents grandson granddaughter grandchild grandchildren")
_TOLD = (
    _Told(words_of("birth"), words_of("birth native nee")),
    _Told(words_of("death"), words_of("death dead kille murde execu assas suici peris")),
    _Told(words_of("burial"), words_of("burial tomb cemet")),
    _Told(words_of("spouse"), words_of("spouse wives weddi widow conso bride")),
    _Told(_PARENTS, words_of("fathe mothe paren son sons daugh child birth stepf stepm steps stepd")),
    _Told(_GRAND, words_of("grand")),
    _Told(words_of("sibling"), words_of("sibling twin twins")),
    _Told(words_of("uncle aunt nephew niece"), words_of("uncle aunt nephe niece sibling")),
    _Told(words_of("director"), words_of("direc") | {_WORK_BY}),
    _Told(words_of("producer"), words_of("produ") | {_WORK_BY}),
    _Told(words_of("composer"), words_of("compo author music") | {_WORK_BY}),
    _Told(words_of("author"), words_of("author") | {_WORK_BY}),
    _Told(words_of("performer"), words_of("performer") | {_WORK_BY}),
)


def states(relation: str, said: str, sentence: str) -> bool:
    """Whether a sentence has a word for a relation, or is one that needs none.

    Words are asked for where sentences have them: kin, marriage, birth, death and who made a work. "A French painter"
    tells a nationality without any.
    """
    meant, told = _words(relation), _words(sentence)
    if _BY.search(sentence):
        told |= {_WORK_BY}
    if all(one.by & told for one in _TOLD if one.relations & meant):
        return True
    return bool(_LIFE & meant) and any(_in_brackets(sentence, start) for start, _ in mentions(said, sentence))


def _words(text: str) -> frozenset[str]:
    """The words of a text as they are, and what they tell of a relation; "co-directed" is two words."""
    text = text.replace("-", " ")
    return relation_key(text) | {fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)}


def _in_brackets(sentence: str, at: int) -> bool:
    return sentence.count("(", 0, at) > sentence.count(")", 0, at)
