"""Which names a sentence speaks of, by all of them or by less: "Canardo" for "Canardo (Rapper)"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.steps.facts.candidates import Candidate, names_in
from hoptree.uncertainty import Span, Tagger, mentions

__all__ = ["spoken_of"]

_ASIDE = re.compile(r"\s*\([^()]*\)|\A(?:the|an?)\s+", re.IGNORECASE)


def spoken_of(
    candidates: Sequence[Candidate], sentence: str, tagger: Tagger
) -> tuple[tuple[Candidate, tuple[Span, ...]], ...]:
    """The candidates that a sentence names, each with the places where it does.

    A name that the sentence has stands for no other; one that begins or ends a longer name, but for what is in
    brackets, stands for that.
    """
    whole = [one for one in candidates if mentions(one.name, sentence)]
    short = [name for name in names_in(sentence, tagger) if not any(mentions(name, one.name) for one in whole)]
    found = []
    for one in candidates:
        called = [one.name, *(name for name in short if _is_short_for(name, one.name))]
        places = tuple(place for name in called for place in mentions(name, sentence))
        if places:
            found.append((one, places))
    return tuple(found)


def _is_short_for(name: str, longer: str) -> bool:
    bare = _ASIDE.sub("", longer)
    return any(start == 0 or end == len(bare) for start, end in mentions(name, bare))
