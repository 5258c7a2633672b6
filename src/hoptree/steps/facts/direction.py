"""Whose relation a sentence tells: "Anna is the mother of Boris" tells nothing of Anna's mother."""

from __future__ import annotations

import re

from hoptree.steps.facts.relation_words import head, relation_key
from hoptree.uncertainty import mentions, word_spans
from hoptree.uncertainty.closed_words import words_of

__all__ = ["is_of", "tells_of"]

_MUTUAL = words_of("spouse sibling cousin twin partner friend")
"""What each of two is to the other."""
_OF = re.compile(r"\s+of\s+")
_OWNED = re.compile(r"['’]s?\s+(?:[^\W\d_A-Z][\w-]*\s+)*\Z")
"""What stands between who has something and that: "'s eldest "."""
_DESCRIBED = re.compile(r"(?:(?!(?:is|was|are|were|has|had|and)\b)\w[\w.-]*\s+)*\Z")
"""What may stand between "of" and a name: "the horror film "."""


def is_of(relation: str) -> bool:
    """Whether a fact of this relation says what its subject is to its object ("member of"), and not the reverse."""
    return relation.casefold().split()[-1:] == ["of"]


def tells_of(name: str, relation: str, sentence: str) -> bool | None:
    """Whether a sentence tells a relation of this name ("the father of NAME", "NAME's father") or of something else.

    None where it does not tell it in such words, or where it is the same for both.
    """
    noun = head(relation)
    if not noun or relation_key(relation) & _MUTUAL:
        return None
    places = mentions(name, sentence)
    found = None
    for start, end in word_spans(sentence):
        if head(sentence[start:end]) != noun:
            continue
        before = sentence[:start]
        if of := _OF.match(sentence, end):
            behind = of.end()
            own = any(first >= behind and _DESCRIBED.match(sentence[behind:first]) for first, _ in places)
        elif _OWNED.search(before):
            own = any(_OWNED.match(before, last) for _, last in places)
        else:
            continue
        if own:
            return True
        found = False
    return found
