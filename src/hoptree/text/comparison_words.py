"""English comparatives and superlatives, and the kind of fact that each asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hoptree.core.patterns import lazy_re
from hoptree.text.word_classes import word_set

Wanted = Literal["earliest", "latest", "most", "least", "same", "different", "both", "holds"]
Of = Literal["date", "number", "span", "name", ""]
Event = Literal["birth", "death", ""]
About = Literal["country", "place", ""]
Several = Literal["yes", "no", "open"]


@dataclass(frozen=True, slots=True)
class Comparative:
    """A comparing word in a text; `several` says whether it compares more than two things."""

    start: int
    end: int
    wanted: Wanted
    of: Of
    event: Event = ""
    several: Several = "no"


_DATES: dict[str, Wanted] = {
    **dict.fromkeys(("first", "earlier", "earliest", "older", "oldest", "sooner", "elder", "eldest"), "earliest"),
    **dict.fromkeys(("last", "later", "latest", "younger", "youngest", "newer", "newest"), "latest"),
}
_MORE = word_set(
    "larger largest bigger biggest greater greatest higher highest taller tallest longer longest heavier heaviest "
    "wider widest broader broadest deeper deepest faster fastest hotter hottest warmer warmest thicker thickest "
    "richer richest wealthier wealthiest busier busiest farther farthest further furthest better best"
)
_LESS = word_set(
    "smaller smallest lower lowest shorter shortest lighter lightest narrower narrowest shallower shallowest slower "
    "slowest colder coldest cooler coolest thinner thinnest poorer poorest nearer nearest closer closest cheaper "
    "cheapest worse worst"
)
_NUMBERS: dict[str, Wanted] = {**dict.fromkeys(_MORE, "most"), **dict.fromkeys(_LESS, "least")}
_AMOUNTS: dict[str, Wanted] = {
    **dict.fromkeys(("more", "most"), "most"),
    **dict.fromkeys(("less", "least", "fewer", "fewest"), "least"),
}
COMPARING = lazy_re(
    r"\b(?:" + "|".join(sorted({*_DATES, *_NUMBERS, *_AMOUNTS}, key=len, reverse=True)) + r")\b", re.IGNORECASE
)
_AGES: dict[str, Wanted] = {"older": "most", "oldest": "most", "younger": "least", "youngest": "least"}
_AT_DEATH = lazy_re(r"\b(?:died?|lived?)\s+(?:(?:at|to|be|a|an|the|when|much)\s+){0,4}$", re.IGNORECASE)
_MEASURED = frozenset(("populous", "populated", "expensive", "numerous", "money", "area", "weight", "height", "water"))
_PLURALS = frozenset(("species", "people", "children", "men", "women", "inhabitants", "genera", "series"))
_OPINION = frozenset(("better", "best", "worse", "worst"))
_SPAN = lazy_re(r"\b(?:lived?|lives?|lifespan|reign\w*|serv\w+|career|active|ruled?|tenure|lasted|existed)\b", re.I)
_DIRECTION = lazy_re(r"\s+(?:to the )?(?:north|south|east|west|upstream|downstream|inland)", re.I)
_OWNED = lazy_re(r"(?:\b(?:the|his|her|its|their|a|an|second|third|fourth|one of the)|['’]s?)\s+$", re.I)
_ORDINAL = lazy_re(r"(?:\b(?:second|third|fourth|fifth|one of the)|['’]s?)[\s-]+$", re.I)
_ADVERB = lazy_re(r"\s*(?:$|[,:;?–—-]|[A-Z\"“'(\d]|\w+ed\b|(?:in|out|of|on|at|to|by|between|among|and|than|the)\b)")
_BIRTH = lazy_re(r"\b(?:born|birth)\b")
_DEATH = lazy_re(r"\b(?:died?|dies|dead|death|passed away)\b")
_STOP = frozenset(("of", "in", "to", "than", "on", "for", "from", "at", "with"))


def event_in(text: str) -> Event:
    """Return whether a text speaks of birth or of death; "" for both or neither.

    Only lower-case words count: "The Death Kiss" is a name.
    """
    born, died = _BIRTH.search(text), _DEATH.search(text)
    if bool(born) == bool(died):
        return ""
    return "birth" if born else "death"


def find_comparative(text: str, *, than: bool = False) -> Comparative | None:
    """Find the first comparing word; `than` says that the other side follows in "than …"."""
    for match in COMPARING.finditer(text):
        before, after = text[: match.start()], text[match.end() :]
        if not than and re.match(r"\s+than\b(?!\s+the\s+other)", after):
            continue
        reading = _reading(match.group().lower(), before, after)
        if reading:
            wanted, of, length = reading
            event: Event = event_in(text)
            if of == "date" and match.group().lower() in (*_AGES, "elder", "eldest"):
                event = "birth"
            several = _several(match.group().lower())
            return Comparative(match.start(), match.end() + length, wanted, of, event, several)
    return None


def _several(word: str) -> Several:
    if word in ("first", "last"):
        return "open"
    return "yes" if word.endswith("st") else "no"


def _reading(word: str, before: str, after: str) -> tuple[Wanted, Of, int] | None:
    """Return the order, the kind of fact, and how many characters after the word belong to it."""
    if word in _AMOUNTS:
        return _amount(word, after)
    if _ORDINAL.search(before):
        return None
    if word in ("first", "last"):
        alone = not _OWNED.search(before) or re.match(r"\s+(?:one\s+)?(?:to|of\s+the\s+two)\b", after)
        free = alone and _ADVERB.match(after.removeprefix(" one"))
        if word == "last":
            free = free and re.match(r"\s*(?:$|[,:;?]|(?:out of|between|among)\b)", after)
        return (_DATES[word], "date", 0) if free else None
    if word in _AGES and (_AT_DEATH.search(before) or re.match(r"\s+age\b", after)):
        return _AGES[word], "span", 0
    if word in _DATES:
        return _DATES[word], "date", 0
    direction = _DIRECTION.match(after)
    if direction:
        return _NUMBERS[word], "", direction.end()
    return _NUMBERS[word], _measure(word, before + after, after), 0


def _measure(word: str, around: str, after: str) -> Of:
    if word in _OPINION or re.match(r"\s+(?:\S+\s+){0,4}(?:rank\w*|scope|impact|quality|influence)\b", after):
        return ""
    if word in ("longer", "longest", "shorter", "shortest") and _SPAN.search(around):
        return "span"
    return "number"


def _amount(word: str, after: str) -> tuple[Wanted, Of, int] | None:
    recent = re.match(r"\s+recent(?:ly)?\b", after)
    if recent:
        return ("latest" if _AMOUNTS[word] == "most" else "earliest"), "date", recent.end()
    if word == "most" and re.match(r"\s+of\b", after):
        return None
    following = [w.lower() for w in re.findall(r"[\w'’-]+|[,:;?]", after)[:4]]
    for place, name in enumerate(following):
        if name in _STOP or not name[0].isalnum():
            break
        plural = name.endswith("s") and not name.endswith(("ss", "us", "ous"))
        if name in _PLURALS or (place == 0 and name in _MEASURED) or plural:
            return _AMOUNTS[word], "number", 0
    return _AMOUNTS[word], "", 0


_COUNTRY = word_set("country countries nation nations nationality nationalities citizenship citizenships homeland")
_PLACE = word_set(
    "state states city cities town village province county district region continent place birthplace hometown"
)
_OTHER = word_set(
    "profession professions occupation occupations job genre genres language languages religion team director "
    "producer author label party name names composer writer company network"
)
_NOUNS: dict[str, tuple[Of, About]] = {
    **dict.fromkeys(_COUNTRY, ("name", "country")),
    **dict.fromkeys(_PLACE, ("name", "place")),
    **dict.fromkeys(_OTHER, ("name", "")),
    "year": ("date", ""),
    **dict.fromkeys(word_set("number amount size height length weight population area"), ("number", "")),
}


def kind_of_noun(text: str) -> tuple[Of, About]:
    """Return the kind of fact that a phrase such as "country of origin" names, by its first known noun."""
    kinds = (_NOUNS[word] for word in re.findall(r"[a-z]+", text.lower())[:6] if word in _NOUNS)
    return next(kinds, ("", ""))
