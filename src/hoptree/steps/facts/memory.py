"""What was read while one question is answered: facts with their confidence and where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from hoptree.comparing.dates import date_spans
from hoptree.graph.naming import fold
from hoptree.steps.facts.direction import is_of, tells_of
from hoptree.steps.facts.relation_words import relation_key, says
from hoptree.uncertainty import Span, mentions
from hoptree.values import Fact

__all__ = ["FactMemory", "Held", "Outcome", "relation_key"]

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
                and (subject := mentions(held.fact.subject, sentence))
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
        groups.sort(key=lambda group: (first not in group, not mentions(group[0].fact.subject, about)))
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
