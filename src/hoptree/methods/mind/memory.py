"""What was read while one question is answered: facts with their confidence and where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from hoptree.core.values import Fact
from hoptree.text.dates import date_spans
from hoptree.text.names import fold
from hoptree.text.retrieval_triggers import find_mentions
from hoptree.text.tokens import Span, word_spans
from hoptree.text.word_classes import CLOSED, word_set

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


_MUTUAL = word_set("spouse sibling cousin twin partner friend")
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
    places = find_mentions(name, sentence)
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


Outcome = Literal["added", "surer", "known", "unsure"]
"""What became of a fact: it is new, it was there with less confidence, it was there, or it is too unsure."""

_Sort = Literal["date", "name", "phrase"]

_ANOTHER_CLAUSE = re.compile(r";|\b(?:but|while|whereas|although|though)\b|\b(?:and|or)\s+[^\W\d_a-z]")
_COMPARED = re.compile(r"\b(?:before|after|than|as|like|unlike)\b")


@dataclass(frozen=True, slots=True)
class Held:
    """A fact, the sentence that states it, the title it stands under, and the step at which it was read."""

    fact: Fact
    sentence: str = ""
    title: str = ""
    step: int = 0


class FactMemory:
    """The facts of one question; those below `least` confidence do not enter."""

    def __init__(self, least: float = 0.5) -> None:
        self._least = least
        self._held: dict[tuple[str, str, str], Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Held) -> Outcome:
        """Take a fact in; of the same fact read twice the surer reading stays."""
        fact = held.fact
        if not fact.confidence >= self._least:
            return "unsure"
        key = (fold(fact.subject), fold(fact.relation), fold(fact.object))
        before = self._held.get(key)
        if before is not None and before.fact.confidence >= fact.confidence:
            return "known"
        self._held[key] = held
        return "added" if before is None else "surer"

    def answers(self, sentence: str, sought: AbstractSet[str], *, hits: Sequence[Span] = ()) -> Held | None:
        """The surest fact that says what a sentence is about to: of a subject it names, and of just this relation.

        What the subject is to another is not what that is to it: "Anna is the mother of" says nothing of her mother.
        `hits` are the places of the words in doubt: a date settles no doubt of a name, and a name none of a date.
        Those in the subject tell nothing of what is said about it, and no fact settles those in another clause, or of a
        name that the subject is only held against.
        """
        return max(
            (
                held
                for held in self._held.values()
                if says(sought, relation_key(held.fact.relation))
                and (tells_of(held.fact.subject, held.fact.relation, sentence) is False) is is_of(held.fact.relation)
                and (subject := find_mentions(held.fact.subject, sentence))
                and _fits(held.fact.object, _sorts(sentence, outside := _outside(hits, subject)))
                and all(_is_said_of(subject, hit, sentence) for hit in outside)
            ),
            key=lambda held: held.fact.confidence,
            default=None,
        )

    def conflicts(self) -> tuple[tuple[Held, ...], ...]:
        """Facts that give one subject different objects of one relation, and do not come from one passage."""
        return tuple(
            group
            for group in self._groups()
            if len({held.fact.passage_id for held in group}) > 1 and len({fold(h.fact.object) for h in group}) > 1
        )

    def render(self, most: int = 3, *, first: Held | None = None, about: str = "") -> str:
        """The surest facts, of equals the latest first, one a line; what contradicts each other stands together.

        Those whose subject is named in the text `about` come before all others but the one that is to be `first`.
        """
        groups = self._groups()
        groups.sort(key=lambda group: (first not in group, not find_mentions(group[0].fact.subject, about)))
        return "\n".join(map(_line, groups[:most]))

    def _groups(self) -> list[tuple[Held, ...]]:
        """Facts of one subject and relation, surest first."""
        found: dict[tuple[str, str], list[Held]] = {}
        for (subject, relation, _), held in sorted(self._held.items(), key=_rank):
            found.setdefault((subject, relation), []).append(held)
        return [tuple(group) for group in found.values()]


def _rank(item: tuple[tuple[str, str, str], Held]) -> tuple[float, int]:
    return -item[1].fact.confidence, -item[1].step


def _outside(hits: Iterable[Span], places: Sequence[Span]) -> list[Span]:
    return [(start, end) for start, end in hits if not any(first < end and start < last for first, last in places)]


def _is_said_of(subject: Sequence[Span], hit: Span, sentence: str) -> bool:
    """Whether a word in doubt stands in one clause with the subject next to it, and is not what that is compared to."""
    first, last = hit
    apart = (sentence[end:first] if end <= first else sentence[last:start] for start, end in subject)
    between = min(apart, key=len)
    if _ANOTHER_CLAUSE.search(between):
        return False
    return _sorts(sentence, [hit]) == {"date"} or not _COMPARED.search(between)


def _sorts(sentence: str, hits: Iterable[Span]) -> frozenset[_Sort]:
    """What sort of thing each word in doubt is, or belongs to."""
    dates = date_spans(sentence)
    return frozenset(
        "date" if any(first < end and start < last for first, last in dates) else _sort(sentence[start:end])
        for start, end in hits
    )


def _sort(text: str) -> _Sort:
    if date_spans(text) or any(sign.isdigit() for sign in text):
        return "date"
    return "phrase" if text == text.lower() else "name"


def _fits(said: str, doubted: AbstractSet[_Sort]) -> bool:
    """Whether what a fact says may stand in the place of what is in doubt; a phrase may begin a name."""
    sort = _sort(said)
    return not doubted or sort in doubted or ("phrase" in doubted and sort == "name")


def _line(group: tuple[Held, ...]) -> str:
    fact = group[0].fact
    objects = list(dict.fromkeys((held.fact.object, held.title) for held in group))
    if len({held.fact.passage_id for held in group}) > 1 and len({said for said, _ in objects}) > 1:
        said = " or ".join(f'{said} (by "{title}")' for said, title in objects) + "; the sources differ"
    else:
        said = ", ".join(dict.fromkeys(said for said, _ in objects))
    return f"- {fact.subject} | {fact.relation} | {said}"
