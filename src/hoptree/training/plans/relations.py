"""Put properties of knowledge graphs into words: as questions, as names for their values, and as statements.

The templates are in relations.json: questions and names have a place for the subject, statements also for the value.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

_WORDS: dict[str, Any] = json.loads((files(__package__) / "relations.json").read_text(encoding="utf-8"))
_NOUNS = (*_WORDS["people"], *_WORDS["things"])
_QUESTIONS: dict[str, str] = {
    **{relation: f"Who is the {relation} of {{}}?" for relation in _WORDS["people"]},
    **{relation: f"What is the {relation} of {{}}?" for relation in _WORDS["things"]},
    **_WORDS["questions"],
    **_WORDS["plain_questions"],
}
_PHRASES: dict[str, str] = {**{relation: f"{relation} of {{}}" for relation in _NOUNS}, **_WORDS["phrases"]}
_STATEMENTS: dict[str, str] = {
    **{relation: f"the {relation} of {{}} is {{}}" for relation in _NOUNS},
    **_WORDS["statements"],
}
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = re.compile(rf"\d{{1,2}} {_MONTH},? \d{{3,4}}|{_MONTH} \d{{1,2}},? \d{{3,4}}")
_YEAR = re.compile(rf"(?:{_MONTH} )?\d{{3,4}}(?: (?:AD|BC))?")
# What "X is …" can end with: 2WikiMultihopQA gives countries as its passages have them, by adjective or by name.
_ADJECTIVE = re.compile(
    r"(?:\S+ )?\S*(?:[a-z](?:ian|can|ish|ese)|German|French|Dutch|Greek|Czech|Swiss|Argentine|Filipino|Italian|Welsh)"
)
_COUNTRY = re.compile("|".join(_WORDS["countries"]))
_COUNTRY_WITH_ARTICLE = re.compile(
    r"United States|United Kingdom|United States of America|U\.S\.|US|USA|UK|Netherlands|Philippines|Soviet Union|"
    r"(?:[A-Z]\w+ )+(?:Empire|Republic|Dynasty|dynasty|Commonwealth|Federation)|Kingdom of [A-Z]\w+"
)
_PLACES = ("place of birth", "place of death", "place of burial")
_BY_NAME = re.compile(
    r"(?:who|what|which) (is|was) (the [^?]+? (?:of|for|in) [^?]+|[^?]+?['’]s [^?]+)\??", re.IGNORECASE
)
_WHO_DID = re.compile(
    r"(?:Who|(?:What|Which) (?:company|band|team|label|person|actor|actress|artist|singer))"
    r" ((?!(?:is|was|has|does|its|this) )(?:[a-z]+ed|[a-z]+[^s\W]s|wrote|won|sang|built|led|made) [^?]+)\??"
)
_IN_PLACE = re.compile(
    r"(?:in (?:which|what) [a-z]+|where|(?:which|what) (?:country|city|town|state|county|province|region)) (is|was) "
    r"([^?]+?) (located|situated|formed|founded|from)(?: in)?\??",
    re.IGNORECASE,
)
_PUBLISHED = re.compile(r"When was ([^?]+) (released|published|founded|established|formed)\??")
_PROPER_PLACE = re.compile(r"[A-Z][\w.'’-]*(?:[ ,]+[\w.'’-]+){0,5}")
_MAX_NAME_WORDS = 6
"""Longer answers are sentences of their own, and cannot stand behind "is"."""
_ASKS_BY_NAME = re.compile(
    r"(?:who|what|which) (?:is|was|are|were) (the [^?]+? (?:of|for|in) [^?]+|[^?]+?['’]s [^?]+)\??", re.IGNORECASE
)
_AUXILIARY = "is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might|must"
_NOUN = re.compile(
    r"\b(?:what|which)\s+(?:(?:kind|type|name)\s+of\s+)?"
    rf"(?!(?:{_AUXILIARY}|been|being|other|else)\b)"
    rf"([a-z-]{{3,}}(?:\s+[a-z-]+){{0,2}}?(?=\s+(?:{_AUXILIARY})\b)|[a-z-]{{3,}}(?=\s+(?!of\b)))",
    re.IGNORECASE,
)
_HEAD = re.compile(r"(?:the|an?)\s+((?:[a-z-]+\s+){0,2}?[a-z-]+)\s+(?:of|for|in|that)\b", re.IGNORECASE)
_PRONOUNS = (("whom?", "person"), ("where", "place"), ("when", "time"))


def as_question(relation: str, subject: str) -> str:
    """Return the question for the value of a property; "" if the property cannot be put into words."""
    return _QUESTIONS.get(relation, "").format(subject)


def as_phrase(relation: str, subject: str) -> str:
    """Return a name for the unknown value of a property ("the director of X"); "" if there is none."""
    return f"the {_PHRASES[relation].format(subject)}" if relation in _PHRASES else ""


def as_statement(relation: str, subject: str, value: str) -> str:
    """Return what a fact says, as a part of a sentence; "" if the templates would not make good English."""
    if relation in _WORDS["dated_statements"]:
        when = when_of(value)
        return f"{_WORDS['dated_statements'][relation].format(subject)} {when}" if when else ""
    if not answers_it(relation, value):
        return ""
    if relation in _WORDS["origins"]:
        if _COUNTRY.fullmatch(value) or _COUNTRY_WITH_ARTICLE.fullmatch(value):
            country = value if _COUNTRY.fullmatch(value) else f"the {value}"
            return str(_WORDS["origins"][relation].format(subject, country))
        return f"{subject} is {value}" if relation != "country" and _ADJECTIVE.fullmatch(value) else ""
    return _STATEMENTS.get(relation, "").format(subject, value)


def answers_it(relation: str, value: str) -> bool:
    """Whether a value can be the answer to the question for its property: nobody was born in "American"."""
    return relation not in _PLACES or not _ADJECTIVE.fullmatch(value) or _COUNTRY.fullmatch(value) is not None


def stated(question: str, answer: str) -> str:
    """Return what a question of a plain form and its answer say, as a part of a sentence; else ""."""
    text = question.strip()
    for relation, asks in _WORDS["plain_questions"].items():
        before, _, after = asks.partition("{}")
        if text.startswith(before) and text.endswith(after):
            return as_statement(relation, text[len(before) : len(text) - len(after)], answer)
    if dated := _PUBLISHED.fullmatch(text):
        when = when_of(answer)
        return f"{dated[1]} was {dated[2]} {when}" if when else ""
    if placed := _IN_PLACE.fullmatch(text):
        how = placed[3] if placed[3] == "from" else f"{placed[3]} in"
        place = _as_place(answer)
        return f"{placed[2]} {placed[1]} {how} {place}" if place else ""
    if len(answer.split()) > _MAX_NAME_WORDS:
        return ""
    if by_name := _BY_NAME.fullmatch(text):
        return f"{by_name[2]} {by_name[1]} {answer}"
    if did := _WHO_DID.fullmatch(text):
        return f"{answer} {did[1]}"
    return ""


def when_of(value: str) -> str:
    """Return a date or year as it follows a verb ("on 1 May 1900", "in 1900"); "" if it is none."""
    return f"on {value}" if _DAY.fullmatch(value) else f"in {value}" if _YEAR.fullmatch(value) else ""


def _as_place(value: str) -> str:
    """Return a place as it follows "in" or "from"; "" if the value is none."""
    if _COUNTRY_WITH_ARTICLE.fullmatch(value):
        return f"the {value}"
    return value if _PROPER_PLACE.fullmatch(value) and not _ADJECTIVE.fullmatch(value) else ""


def phrase_of(question: str) -> str:
    """Return a name for what a question asks for, if it asks by name ("Who is the director of X?"); else ""."""
    match = _ASKS_BY_NAME.fullmatch(question.strip())
    return match[1].strip() if match else ""


def name_of(question: str) -> str:
    """Return how a later question may refer to the answer of this one ("that person"); "" if it cannot."""
    if head := _HEAD.match(phrase_of(question)):
        return f"that {head[1].lower()}"
    if noun := _NOUN.search(question):
        return f"that {noun[1].lower()}"
    names = (name for word, name in _PRONOUNS if re.search(rf"\b{word}\b", question, re.IGNORECASE))
    return next((f"that {name}" for name in names), "")
