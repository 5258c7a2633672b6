"""What has to be asked of each thing that a question compares, told by its own words: no model has to plan it."""

from __future__ import annotations

import re

from hoptree.comparing.asking import PERSON
from hoptree.comparing.questions import Comparison, detect

__all__ = ["parts_of"]

_ROLE = (
    r"directors?|authors?|writers?|composers?|performers?|singers?|producers?|founders?|creators?|screenwriters?|"
    r"lyricists?|editors?|designers?|architects?|painters?|conductors?"
)
_HAS = re.compile(rf"\b(?:has|have|had|with|whose)\s+(?:(?:the|a|an|older|younger|elder)\s+)*(?P<role>{_ROLE})\b")
_ROLES_OF = re.compile(rf"\b(?P<role>{_ROLE})\s+of\s+(?:the\s+|both\s+|two\s+)*(?P<thing>[a-z]+)?\s*$")
_ROLE_OF = re.compile(rf"^(?:the\s+)?(?:{_ROLE})\s+of\s+\S", re.IGNORECASE)
_ANY_ROLE = re.compile(rf"\b(?:{_ROLE})\b")
_ROLE_ITSELF = re.compile(rf"^(?:which|what)\s+(?:\w+\s+)?(?:{_ROLE})\s+(?:is|was|were|died|lived)\b", re.IGNORECASE)
"""Which singer is younger, A or B: A and B are what they are asked to be."""
_THING = re.compile(r"^(?:which|what)\s+(?P<thing>[a-z]+)\s+(?:has|have|had|with|whose)\b", re.IGNORECASE)
_DONE = re.compile(
    r"\b(released|founded|established|formed|opened|built|constructed|published|launched|created|started|completed|"
    r"incorporated|introduced|written|recorded|produced|made|aired|invented|designed)\b"
)
_RELEASED = ("film", "movie", "documentary", "album", "song", "single", "series", "show", "game")
_PUBLISHED = ("book", "novel", "magazine", "newspaper", "journal", "comic")
_FOUNDED = ("university", "college", "school", "company", "band", "club", "organization", "organisation", "brand")
_MADE = {
    **dict.fromkeys(_RELEASED, "released"),
    **dict.fromkeys(_PUBLISHED, "published"),
    **dict.fromkeys(_FOUNDED, "founded"),
}
"""What a thing's age is counted from."""
_THING_IS = re.compile(r"^(?:which|what)\s+(?:[\w'’-]+\s+){0,3}?(?P<thing>[a-z]+)\s+(?:is|was)\b", re.IGNORECASE)
_MEASURED = re.compile(
    r"(?:\b(?:is|was|are|were|be)|\s)\s+(?:the\s+)?(?P<word>tall|high|long|deep|heavi|wid)(?:er|est)\b"
)
_SIZES = {"tall": "tall", "high": "high", "long": "long", "deep": "deep", "heavi": "heavy", "wid": "wide"}
_DID = {"came out": "come out", "come out": "come out", "premiered": "premiere", "debuted": "debut", "began": "begin"}
_LIVED = re.compile(r"\b(?:lived?|lives|lifespan)\b")
_LOCATED = re.compile(r"\b(?:located|situated|based|found|in the same)\b")
_NATIONALITY = re.compile(r"\b(?:nationality|nationalities|citizenship)\b")
_OTHER_FACT = re.compile(r"\bborn\b|\bdied?\b|\bmade\b|\bfilmed\b|\bproduced\b")
_MOST_WORDS = 14
"""Around the things compared: a longer question says more about them than its comparison."""


def parts_of(question: str) -> tuple[tuple[str, ...], ...] | None:
    """For each thing compared, what to ask one after the other, with {} where the answer before it goes.

    None where the question compares nothing, or its words do not tell which facts it compares.
    """
    comparison = detect(question)
    if comparison is None or comparison.kind not in ("choice", "same", "relation"):
        return None
    around = question
    for operand in comparison.operands:
        around = around.replace(operand, " ")
    asked = _asked(comparison, around)
    if asked is None or len(around.split()) > _MOST_WORDS:
        return None
    chains = tuple(_chain(operand, around, asked) for operand in comparison.operands)
    return chains if all(chains) else None


def _chain(operand: str, around: str, asked: str) -> tuple[str, ...]:
    """The questions that lead to the fact about one thing; none where it cannot be told whose fact it is."""
    if _ROLE_OF.match(operand):
        return f"Who is {_with_article(operand)}?", asked
    if role := _HAS.search(around):
        thing = _THING.match(around)
        return f"Who is the {_single(role['role'])} of {_named(operand, thing)}?", asked
    if role := _ROLES_OF.search(around[: _gap(around)]):
        thing = role if role["thing"] else None
        return f"Who is the {_single(role['role'])} of {_named(operand, thing)}?", asked
    told = not _ANY_ROLE.search(around) or _ROLE_ITSELF.match(around)
    return (asked.replace("{}", operand),) if told else ()


def _gap(around: str) -> int:
    """Where the first of the things compared was taken out."""
    return around.find("  ") + 1


def _named(operand: str, thing: re.Match[str] | None) -> str:
    return f"the {_single(thing['thing'])} {operand}" if thing else operand


def _with_article(operand: str) -> str:
    return operand if operand.lower().startswith("the ") else f"the {operand}"


def _single(word: str) -> str:
    return word.removesuffix("s") if word.endswith("s") and word != "series" else word


def _asked(comparison: Comparison, around: str) -> str | None:
    """The question for the fact that is compared."""
    if comparison.of == "date":
        return _date(comparison, around)
    if comparison.of == "span":
        return "What are the dates of birth and death of {}?" if _LIVED.search(around) else None
    if comparison.of == "number":
        size = _MEASURED.search(around)
        return f"How {_SIZES[size['word']]} is {{}}?" if size else None
    if comparison.kind != "same" or comparison.about != "country" or _OTHER_FACT.search(around):
        return None
    if _NATIONALITY.search(around) or _ANY_ROLE.search(around):
        return "What is the nationality of {}?"
    return "In which country is {} located?" if _LOCATED.search(around) else "Which country is {} from?"


def _date(comparison: Comparison, around: str) -> str | None:
    if comparison.event == "death":
        return "When did {} die?"
    if comparison.event == "birth":
        if "born" in around or PERSON.search(around):
            return "When was {} born?"
        thing = _THING_IS.match(around)
        made = _MADE.get(thing["thing"].lower()) if thing else None
        return f"When was {{}} {made}?" if made else None
    if verb := next((asked for said, asked in _DID.items() if said in around), None):
        return f"When did {{}} {verb}?"
    done = _DONE.search(around)
    return f"When was {{}} {done[1]}?" if done else None
