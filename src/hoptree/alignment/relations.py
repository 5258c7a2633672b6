"""Properties of knowledge graphs in words: as a question about their subject, and as a name for their value."""

from __future__ import annotations

import re

__all__ = ["as_phrase", "as_question", "name_of", "phrase_of"]

_PEOPLE = [
    "director",
    "performer",
    "composer",
    "author",
    "producer",
    "screenwriter",
    "creator",
    "publisher",
    "operator",
    "developer",
    "manufacturer",
    "father",
    "mother",
    "spouse",
    "sibling",
    "child",
    "editor",
    "presenter",
    "winner",
    "employer",
    "founder",
]
_THINGS = [
    "country",
    "place of birth",
    "place of death",
    "place of burial",
    "place of detention",
    "date of birth",
    "date of death",
    "country of citizenship",
    "country of origin",
    "publication date",
    "record label",
    "headquarters location",
    "continent",
    "capital",
    "religion",
    "cause of death",
    "production company",
    "location",
    "location of formation",
    "instrument",
    "league",
    "original broadcaster",
    "mouth of the watercourse",
    "field of work",
    "notable work",
    "position held",
    "military branch",
    "work location",
    "main subject",
    "original language of film or TV show",
    "parent taxon",
    "residence",
    "platform",
    "movement",
]
_VERBS = {
    "located in the administrative territorial entity": ("In which administrative area is {} located?", "area of {}"),
    "contains administrative territorial entity": ("Which administrative area does {} contain?", ""),
    "shares border with": ("What shares a border with {}?", "neighbour of {}"),
    "member of sports team": ("Which sports team is {} a member of?", "sports team of {}"),
    "member of political party": ("Which political party is {} a member of?", "political party of {}"),
    "member of": ("What is {} a member of?", ""),
    "cast member": ("Who is a cast member of {}?", ""),
    "educated at": ("Where was {} educated?", "place where {} was educated"),
    "owned by": ("Who owns {}?", "owner of {}"),
    "founded by": ("Who founded {}?", "founder of {}"),
    "lyrics by": ("Who wrote the lyrics of {}?", "lyricist of {}"),
    "distributed by": ("Who distributed {}?", "distributor of {}"),
    "instance of": ("What kind of thing is {}?", "kind of thing that {} is"),
    "part of": ("What is {} part of?", ""),
    "part of the series": ("Which series is {} part of?", "series that {} is part of"),
    "licensed to broadcast to": ("To which place is {} licensed to broadcast?", "place {} is licensed to broadcast to"),
    "located on terrain feature": ("On which terrain feature is {} located?", "terrain feature {} is located on"),
    "located in or next to body of water": ("Which body of water is {} next to?", "body of water next to {}"),
    "capital of": ("What is {} the capital of?", ""),
    "languages spoken, written or signed": ("Which languages did {} speak or write?", "language of {}"),
    "named after": ("What is {} named after?", ""),
    "followed by": ("What followed {}?", "successor of {}"),
    "follows": ("What did {} follow?", "predecessor of {}"),
    "present in work": ("In which work is {} present?", "work that {} is present in"),
    "has part": ("What is part of {}?", ""),
    "participant": ("Who took part in {}?", ""),
    "participant in": ("What did {} take part in?", ""),
    "award received": ("Which award did {} receive?", "award that {} received"),
    "occupant": ("Who occupies {}?", "occupant of {}"),
    "conflict": ("Which conflict did {} take part in?", "conflict that {} took part in"),
    "crosses": ("What does {} cross?", ""),
    "based on": ("What is {} based on?", ""),
    "place served by transport hub": ("Which place does {} serve?", "place that {} serves"),
    "inception": ("When was {} founded?", "year in which {} was founded"),
}
_BORN = {
    "date of birth": "When was {} born?",
    "date of death": "When did {} die?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "publication date": "When was {} published?",
    "place of burial": "Where was {} buried?",
}
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
    """What is asked by looking for the value of a property; "" where the property cannot be put into words."""
    if relation in _BORN:
        return _BORN[relation].format(subject)
    if relation in _PEOPLE:
        return f"Who is the {relation} of {subject}?"
    if relation in _THINGS:
        return f"What is the {relation} of {subject}?"
    return _VERBS[relation][0].format(subject) if relation in _VERBS else ""


def as_phrase(relation: str, subject: str) -> str:
    """A name for the value of a property that nobody knows yet ("the director of X"); "" where there is none."""
    if relation in _PEOPLE or relation in _THINGS:
        return f"the {relation} of {subject}"
    phrase = _VERBS.get(relation, ("", ""))[1]
    return f"the {phrase.format(subject)}" if phrase else ""


def phrase_of(question: str) -> str:
    """A name for what a question asks for, where it asks by name ("Who is the director of X?"); "" otherwise."""
    match = _ASKS_BY_NAME.fullmatch(question.strip())
    return match[1].strip() if match else ""


def name_of(question: str) -> str:
    """How a later question may speak of what this one asks for ("that person", "that country"); "" if it cannot.

    What a question asks for by name is taken from that name, else from its question word.
    """
    if head := _HEAD.match(phrase_of(question)):
        return f"that {head[1].lower()}"
    if noun := _NOUN.search(question):
        return f"that {noun[1].lower()}"
    found = (name for word, name in _PRONOUNS if re.search(rf"\b{word}\b", question, re.IGNORECASE))
    return next((f"that {name}" for name in found), "")
