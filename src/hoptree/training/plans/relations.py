"""Properties of knowledge graphs in words: as a question about their subject, and as a name for their value."""

from __future__ import annotations

import re

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
    # Values are adjectives or countries, as passages have it; whoever asks does not know which.
    "country of citizenship": ("What is the nationality of {}?", "nationality of {}"),
}
_BORN = {
    "date of birth": "When was {} born?",
    "date of death": "When did {} die?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "publication date": "When was {} published?",
    "place of burial": "Where was {} buried?",
}
_STATED = {
    "located in the administrative territorial entity": "{} is located in {}",
    "contains administrative territorial entity": "{} contains {}",
    "shares border with": "{} shares a border with {}",
    "member of sports team": "{} is a member of the sports team {}",
    "member of political party": "{} is a member of the political party {}",
    "member of": "{} is a member of {}",
    "educated at": "{} was educated at {}",
    "owned by": "{} is owned by {}",
    "founded by": "{} was founded by {}",
    "lyrics by": "the lyrics of {} were written by {}",
    "distributed by": "{} was distributed by {}",
    "part of": "{} is part of {}",
    "part of the series": "{} is part of the series {}",
    "licensed to broadcast to": "{} is licensed to broadcast to {}",
    "located on terrain feature": "{} is located on {}",
    "located in or next to body of water": "{} is located next to {}",
    "capital of": "{} is the capital of {}",
    "named after": "{} is named after {}",
    "followed by": "{} was followed by {}",
    "follows": "{} followed {}",
    "present in work": "{} is present in the work {}",
    "participant in": "{} took part in {}",
    "award received": "{} received the award {}",
    "occupant": "{} is occupied by {}",
    "conflict": "{} took part in the conflict {}",
    "crosses": "{} crosses {}",
    "based on": "{} is based on {}",
    "place served by transport hub": "{} serves {}",
    "place of birth": "{} was born in {}",
    "place of death": "{} died in {}",
    "place of burial": "{} was buried in {}",
}
_DATED = {
    "date of birth": "{} was born",
    "date of death": "{} died",
    "publication date": "{} was published",
    "inception": "{} was founded",
}
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = re.compile(rf"\d{{1,2}} {_MONTH},? \d{{3,4}}|{_MONTH} \d{{1,2}},? \d{{3,4}}")
_YEAR = re.compile(rf"(?:{_MONTH} )?\d{{3,4}}(?: (?:AD|BC))?")
# What "X is …" can end with: 2WikiMultihopQA gives countries as its passages have them, by adjective or by name.
_ADJECTIVE = re.compile(
    r"(?:\S+ )?\S*(?:[a-z](?:ian|can|ish|ese)|German|French|Dutch|Greek|Czech|Swiss|Argentine|Filipino|Italian|Welsh)"
)
_COUNTRY = re.compile(
    r"Iran|Canada|Australia|Laos|France|India|Vietnam|Russia|Pakistan|Indonesia|Germany|Peru|Israel|Italy|Romania|"
    r"Austria|Switzerland|Japan|Lithuania|New Zealand|England|South Africa|South Korea|Brazil|Hungary|Bolivia|Botswana|"
    r"Denmark|Bangladesh|Cyprus|Poland|Sweden|Iceland|Norway|Spain|Portugal|Greece|Turkey|China|Mexico|Ireland|"
    r"Scotland|Wales|America|Albania|Argentina|Azerbaijan|Belarus|Belgium|Bulgaria|Chile|Colombia|Croatia|Cuba|Egypt|"
    r"Estonia|Ethiopia|Finland|Georgia|Grenada|Hong Kong|Iraq|Jamaica|Kenya|Latvia|Malaysia|Montenegro|Morocco|Myanmar|"
    r"Burma|Nepal|Nigeria|Papua New Guinea|Prussia|Serbia|Singapore|Slovakia|Slovenia|Sri Lanka|Syria|Taiwan|Thailand|"
    r"Tunisia|Ukraine|Venezuela"
)
_COUNTRY_WITH_ARTICLE = re.compile(
    r"United States|United Kingdom|United States of America|U\.S\.|US|USA|UK|Netherlands|Philippines|Soviet Union|"
    r"(?:[A-Z]\w+ )+(?:Empire|Republic|Dynasty|dynasty|Commonwealth|Federation)|Kingdom of [A-Z]\w+"
)
_OF_PLACES = ("place of birth", "place of death", "place of burial")
_ORIGIN = {"country of citizenship": "{} is from {}", "country of origin": "{} is from {}", "country": "{} is in {}"}
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
_LONGEST_NAME = 6
"""Words of an answer that can stand behind "is"; more are a sentence of their own."""
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


def as_statement(relation: str, subject: str, value: str) -> str:
    """What a fact says, as a part of a sentence; "" where the words at hand would not make good English."""
    if relation in _DATED:
        when = when_of(value)
        return f"{_DATED[relation].format(subject)} {when}" if when else ""
    if not answers_it(relation, value):
        return ""
    if relation in _ORIGIN:
        if _COUNTRY.fullmatch(value):
            return _ORIGIN[relation].format(subject, value)
        if _COUNTRY_WITH_ARTICLE.fullmatch(value):
            return _ORIGIN[relation].format(subject, f"the {value}")
        fits = relation != "country" and _ADJECTIVE.fullmatch(value)
        return f"{subject} is {value}" if fits else ""
    if relation in _STATED:
        return _STATED[relation].format(subject, value)
    if relation in _PEOPLE or relation in _THINGS:
        return f"the {relation} of {subject} is {value}"
    return ""


def answers_it(relation: str, value: str) -> bool:
    """Whether a value can be the answer where its property is asked for: nobody was born in "American"."""
    return relation not in _OF_PLACES or not _ADJECTIVE.fullmatch(value) or _COUNTRY.fullmatch(value) is not None


def stated(question: str, answer: str) -> str:
    """What a question and its answer say, as a part of a sentence, where the question is of a plain form; else ""."""
    text = question.strip()
    for relation, asks in _BORN.items():
        before, _, after = asks.partition("{}")
        if text.startswith(before) and text.endswith(after):
            return as_statement(relation, text[len(before) : len(text) - len(after)], answer)
    if dated := _PUBLISHED.fullmatch(text):
        when = when_of(answer)
        return f"{dated[1]} was {dated[2]} {when}" if when else ""
    if placed := _IN_PLACE.fullmatch(text):
        how = placed[3] if placed[3] == "from" else f"{placed[3]} in"
        return f"{placed[2]} {placed[1]} {how} {_placed(answer)}" if _placed(answer) else ""
    if len(answer.split()) > _LONGEST_NAME:
        return ""
    if by_name := _BY_NAME.fullmatch(text):
        return f"{by_name[2]} {by_name[1]} {answer}"
    if did := _WHO_DID.fullmatch(text):
        return f"{answer} {did[1]}"
    return ""


def when_of(value: str) -> str:
    """A date or year as it follows a verb ("on 1 May 1900", "in 1900"); "" where it is none."""
    return f"on {value}" if _DAY.fullmatch(value) else f"in {value}" if _YEAR.fullmatch(value) else ""


def _placed(value: str) -> str:
    """A place as it follows "in" or "from"; "" where the value is none, or one that is put into words itself."""
    if _COUNTRY_WITH_ARTICLE.fullmatch(value):
        return f"the {value}"
    return value if _PROPER_PLACE.fullmatch(value) and not _ADJECTIVE.fullmatch(value) else ""


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
