"""English words for relations, and whether a sentence states one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.text.names import CLOSED, fold, word_set
from hoptree.text.quantities import date_spans
from hoptree.text.retrieval_triggers import find_mentions
from hoptree.text.tokens import Span, overlaps, word_spans

_STEM_CHARS = 5
_LIGHT_WORDS = word_set("named called known name person man woman answer")  # words that name no relation
_KIND_WORDS = word_set(
    "date place year month day city town village country state time "
    "film films movie movies documentary series show episode song songs album single track music book novel poem play "
    "actor actress singer musician band group writer novelist poet painter artist politician player footballer company"
)  # words for a kind of thing, which name a relation only if no other word does
_SYNONYMS = {
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
_RELATION_OF = {word: relation for relation, words in _SYNONYMS.items() for word in words.split()}
_RELATIONS = frozenset(_SYNONYMS) | {
    word[:_STEM_CHARS]
    for word in word_set(
        "maternal paternal partner friend director composer production editor cinematographer creator inventor "
        "designer architect developer manufacturer publisher owner successor predecessor student teacher doctoral "
        "advisor leader president minister mayor king queen ruler chairman manager coach captain member cast starring "
        "stars starred capital language religion cause origin headquarters occupation distributor label narrator "
        "translator killer"
    )
}  # words that, like kin, mean another relation: "the king of Jean was born" does not state the birth of Jean
_KIN = lazy_re(
    r"((?:great|grand|step|half)*(?:father|mother|parent|brother|sister|sibling|son|daughter|child)"
    r"|uncle|aunt|nephew|niece|cousin|twin)(?:ren)?s?(inlaw)?"
)
_KIN_PREFIX = lazy_re(r"\b(great|grand|step|half)-(?=\w)", re.IGNORECASE)
_IN_LAW = lazy_re(r"(?<=\w)[\s-]in[\s-]law\b", re.IGNORECASE)
_MUTUAL = word_set("spouse sibling cousin twin partner friend")
_OF = lazy_re(r"\s+of\s+")
_POSSESSIVE = lazy_re(r"['’]s?\s+(?:[^\W\d_A-Z][\w-]*\s+)*\Z")  # between an owner and what is owned: "'s eldest "
_DESCRIPTION = lazy_re(r"(?:(?!(?:is|was|are|were|has|had|and)\b)\w[\w.-]*\s+)*\Z")  # between "of" and a name


def relation_key(text: str) -> frozenset[str]:
    """Return the key of a relation: "director of" is "direc".

    Kin are identified by whole words, in the singular: a father-in-law is not a father, nor a grandmother a
    grandfather.
    """
    words = [word for word in _folded_words(text) if word not in CLOSED and word not in _LIGHT_WORDS]
    specific = [word for word in words if word not in _KIND_WORDS] or words
    return frozenset(map(_key, specific))


def _folded_words(text: str) -> list[str]:
    """Split into folded words; kin are one word each."""
    text = _IN_LAW.sub("inlaw", _KIN_PREFIX.sub(r"\1", text))
    return [fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)]


def _key(word: str) -> str:
    kin = _KIN.fullmatch(word)
    return _RELATION_OF.get(word) or (kin[1] + (kin[2] or "") if kin else word[:_STEM_CHARS])


def _head(relation: str) -> str:
    """Return the noun that names a relation, kin in the singular."""
    last = next((word for word in reversed(_folded_words(relation)) if word not in CLOSED), "")
    return _key(last) if _KIN.fullmatch(last) else last


def asks_for(sought: AbstractSet[str], relation: AbstractSet[str]) -> bool:
    """Return whether the words sought name this relation alone."""
    others = (key for key in sought - relation if key in _RELATIONS or _KIN.fullmatch(key))
    return bool(relation) and relation <= sought and not any(others)


def is_inverse(relation: str) -> bool:
    """Return whether a relation ends in "of": the subject is that of the object."""
    return relation.casefold().split()[-1:] == ["of"]


_MAX_SENTENCE_CHARS = 2_000


def relation_is_of(name: str, relation: str, sentence: str) -> bool | None:
    """Return whether a sentence states the relation of `name`; None if unclear."""
    noun, sentence = _head(relation), sentence[:_MAX_SENTENCE_CHARS]
    if not noun or relation_key(relation) & _MUTUAL:
        return None
    places = find_mentions(name, sentence)
    verdict: bool | None = None
    for start, end in word_spans(sentence):
        if _head(sentence[start:end]) != noun:
            continue
        before = sentence[:start]
        if of := _OF.match(sentence, end):
            behind = of.end()
            own = any(first >= behind and _DESCRIPTION.match(sentence[behind:first]) for first, _ in places)
        elif _POSSESSIVE.search(before):
            own = any(_POSSESSIVE.match(before, last) for _, last in places)
        else:
            continue
        if own:
            return True
        verdict = False
    return verdict


_OTHER_CLAUSE = re.compile(r";|\b(?:but|while|whereas|although|though)\b|\b(?:and|or)\s+[^\W\d_a-z]")
_COMPARES = re.compile(r"\b(?:before|after|than|as|like|unlike)\b")
_Sort = Literal["date", "name", "phrase"]


def settles_doubt(
    fact: tuple[str, str, str], sentence: str, sought: AbstractSet[str], hits: Sequence[Span] = ()
) -> bool:
    """Return whether a fact states what a sentence says about its subject.

    The direction of the relation must be the same: "Anna is the mother of" says nothing of her mother. `hits` are the
    uncertain words: a date settles no uncertain name, and a name no date. Hits in the subject are ignored. No fact
    settles hits in another clause, or a name that the subject is only compared with.
    """
    named, relation, value = fact
    subject = find_mentions(named, sentence)
    outside = [hit for hit in hits if not overlaps(hit, subject)]
    inverse = relation_is_of(named, relation, sentence) is False
    uncertain, sort = _sorts(sentence, outside), _sort(value)
    return (
        bool(subject)
        and asks_for(sought, relation_key(relation))
        and inverse is is_inverse(relation)
        and (not uncertain or sort in uncertain or ("phrase" in uncertain and sort == "name"))
        and all(_is_said_of(subject, hit, sentence) for hit in outside)
    )


def _is_said_of(subject: Sequence[Span], hit: Span, sentence: str) -> bool:
    """Return whether an uncertain word is said of the subject beside it."""
    first, last = hit
    apart = (sentence[end:first] if end <= first else sentence[last:start] for start, end in subject)
    between = min(apart, key=len)
    if _OTHER_CLAUSE.search(between):
        return False
    return _sorts(sentence, [hit]) == {"date"} or not _COMPARES.search(between)


def _sorts(sentence: str, hits: Iterable[Span]) -> set[_Sort]:
    """Return the sorts of the uncertain words; a word in a date counts as a date."""
    dates = date_spans(sentence)
    return {"date" if overlaps(hit, dates) else _sort(sentence[hit[0] : hit[1]]) for hit in hits}


def _sort(text: str) -> _Sort:
    if date_spans(text) or any(sign.isdigit() for sign in text):
        return "date"
    return "phrase" if text == text.lower() else "name"
