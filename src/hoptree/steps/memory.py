"""What was read while one question is answered: facts with their confidence and where they come from."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from hoptree.graph.naming import fold
from hoptree.uncertainty import mentions, word_spans
from hoptree.uncertainty.closed_words import CLOSED
from hoptree.values import Fact

__all__ = ["FactMemory", "Held", "Outcome", "relation_key"]

Outcome = Literal["added", "surer", "known", "unsure"]
"""What became of a fact: it is new, it was there with less confidence, it was there, or it is too unsure."""

_LIGHT = frozenset(("named", "called", "known", "name", "person", "man", "woman"))
"""Words that say nothing about which relation is meant."""
_STEM = 5


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

    def answers(self, sentence: str, sought: AbstractSet[str]) -> Held | None:
        """The surest fact that says what a sentence is about to: of a subject it names, and of just this relation."""
        return max(
            (
                held
                for held in self._held.values()
                if sought and relation_key(held.fact.relation) == sought and mentions(held.fact.subject, sentence)
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

    def render(self, most: int = 3, *, first: Held | None = None) -> str:
        """The surest facts, of equals the latest first, one a line; what contradicts each other stands together."""
        groups = self._groups()
        if first is not None:
            groups.sort(key=lambda group: first not in group)
        return "\n".join(map(_line, groups[:most]))

    def _groups(self) -> list[tuple[Held, ...]]:
        """Facts of one subject and relation, surest first."""
        found: dict[tuple[str, str], list[Held]] = {}
        for (subject, relation, _), held in sorted(self._held.items(), key=_rank):
            found.setdefault((subject, relation), []).append(held)
        return [tuple(group) for group in found.values()]


def _rank(item: tuple[tuple[str, str, str], Held]) -> tuple[float, int]:
    return -item[1].fact.confidence, -item[1].step


def relation_key(text: str) -> frozenset[str]:
    """The beginnings of the words of a relation that tell which one it is: "father of" is "fathe"."""
    words = (fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text))
    return frozenset(word[:_STEM] for word in words if word not in CLOSED and word not in _LIGHT)


def _line(group: tuple[Held, ...]) -> str:
    fact = group[0].fact
    objects = list(dict.fromkeys((held.fact.object, held.title) for held in group))
    if len({held.fact.passage_id for held in group}) > 1 and len({said for said, _ in objects}) > 1:
        said = " or ".join(f'{said} (by "{title}")' for said, title in objects) + "; the sources differ"
    else:
        said = ", ".join(dict.fromkeys(said for said, _ in objects))
    return f"- {fact.subject} | {fact.relation} | {said}"
