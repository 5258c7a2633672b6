"""Comparing words of English, and the operands of a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.text.names import word_set
from hoptree.text.quantities import countries

Wanted = Literal["earliest", "latest", "most", "least", "same", "different", "both", "holds"]
Of = Literal["date", "number", "span", "name", ""]
Event = Literal["birth", "death", ""]
About = Literal["country", "place", ""]
Several = Literal["yes", "no", "open"]


@dataclass(frozen=True, slots=True)
class Comparative:
    """A comparing word; `several` says whether it compares more than two things."""

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
    """Return birth or death if a text names only one; "Death Kiss" is a title."""
    born, died = _BIRTH.search(text), _DEATH.search(text)
    if bool(born) == bool(died):
        return ""
    return "birth" if born else "death"


def find_comparative(text: str, *, than: bool = False) -> Comparative | None:
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
            word = match.group().lower()
            several: Several = "open" if word in ("first", "last") else "yes" if word.endswith("st") else "no"
            return Comparative(match.start(), match.end() + length, wanted, of, event, several)
    return None


def _reading(word: str, before: str, after: str) -> tuple[Wanted, Of, int] | None:
    """Return the order, the kind of fact, and the length that was read of `after`."""
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
    """Return the kind of fact that a noun phrase names."""
    kinds = (_NOUNS[word] for word in re.findall(r"[a-z]+", text.lower())[:6] if word in _NOUNS)
    return next(kinds, ("", ""))


_JOINING = word_set(
    "of the and de la le les du des del della di da do dos das von van der den for in on at to a an with by y e et al "
    "el und en & - – — vs. into from"
)
_VERBS = word_set(
    "is are was were be been being has have had do does did will share shares shared come comes came contain contains "
    "originate originated originates hail hailed belong belonged located situated based born died die made published "
    "released directed founded established formed built fought played play plays work worked works live lived star "
    "feature use used appear known considered classified described designed written set found native active members "
    "part both each also all specialized both filmed produced recorded held win won serve served"
)
_ADDED = lazy_re(r"^(?:Dit|Jr|Sr|Inc|Ltd|LLC|[IVX]+|\d+(?i:st|nd|rd|th))\b")  # "…, 1St Baronet"
_TOKEN = lazy_re(r"\S+")
_OPENERS = "\"“‘'([{«¿¡*"
_ALIKE = lazy_re(r"\s*\w+,?\s+(?:the\s+|a\s+|that\s+)?(?:same|different)\b")  # "from the same country"
_PLACING = lazy_re(r"\b(?:in|at|on|from|by|to|with|for|than)\s+(?:the\s+)?$")
_OF_ONE = lazy_re(r"\b[a-z]+[^s\s]\s+of\s+(?:(?:the\s+)?[a-z]+\s+)?$")  # not "the directors of", which are of both
_CLASS_WORD = lazy_re(r"^(?:the\s+)?(?:[a-z][\w'’-]*\s+)*$")


def tidy(text: str) -> str:
    """Strip spaces, a final comma and quotes around an operand."""
    text = text.strip().strip(",;:").strip()
    text = re.sub(r"^(?:[-–—]+)\s*|\s+[-–—]+$", "", text)
    for opening, closing in ('""', "“”", "''", "‘’", "«»"):
        inner = text[1:-1]
        if len(text) > 2 and text[0] == opening and text[-1] == closing and opening not in inner:
            return inner.strip()
    return text


def _starts_name(token: str) -> bool:
    bare = token.lstrip(_OPENERS + ".-#@")
    if len(token) > 1 and token[0] in "([":
        return True
    return bool(bare) and (
        bare[0].isdigit() or bare[0] != bare[0].lower() or (bare[0].isalpha() and not bare.isascii())
    )


def is_name(text: str) -> bool:
    """Return whether a text is a name from end to end."""
    lead, name = strip_lead(text)
    return bool(name) and not _PLACING.search(lead) and name_end(name) >= len(name.rstrip(" ,"))


def is_named(operands: Sequence[str]) -> bool:
    """Return whether all operands begin with a name."""
    for operand in operands:
        lead, name = strip_lead(operand)
        end = name_end(name)
        clause = name[:end].endswith(",") and end < len(name)
        if not name or clause or _PLACING.search(lead) or len(lead.split()) > 3 or len(name[end:].split()) > 3:
            return False
    return any(map(is_name, operands))


def strip_lead(text: str) -> tuple[str, str]:
    """Split lower-case words from the name after them."""
    for token in _TOKEN.finditer(text):
        if _starts_name(token.group()):
            return text[: token.start()], text[token.start() :]
    return text, ""


def name_end(text: str, start: int = 0) -> int:
    end = start
    closing = ""
    for token in _TOKEN.finditer(text, start):
        word = token.group()
        if closing:
            end = token.end()
            if closing in word:
                closing = ""
        elif _starts_name(word):
            end = token.end()
            pairs = ("()", "[]", '""', "“”")
            closing = next((pair[1] for pair in pairs if word[0] == pair[0] and pair[1] not in word[1:]), "")
            if word.endswith(",") and not _name_follows(text, token.end()):
                return end
        elif word not in _JOINING or not _name_follows(text, token.end()):
            break
    return end


def _name_follows(text: str, start: int) -> bool:
    for count, token in enumerate(_TOKEN.finditer(text, start)):
        if _starts_name(token.group()):
            return True
        if token.group() not in _JOINING or count == 2:
            return False
    return False


def cut_at(text: str) -> int:
    """Return where the subject of "A and B …" ends."""
    joint = next(_joints(text, "and"), None)
    if joint is None:
        return len(text)
    start = joint[1]
    name = name_end(text, start + len(strip_lead(text[start:])[0]))
    verb = len(text)
    for token in _TOKEN.finditer(text, start):
        word = token.group().strip(",")
        preposition = word in ("of", "from", "in", "on", "at", "with", "by")
        if word in _VERBS or (preposition and _ALIKE.match(text[token.start() :])):
            verb = token.start()
            break
    if verb < len(text) and verb - name < 40:  # a class word may follow the name: "… Tosca operas have"
        between = text[name:verb].split()
        end = name if len(between) > 4 or any(word.endswith("s") for word in between) else verb
    else:
        origin = text.find(" from ", start, name)
        end = name if origin < 0 else origin
    return _without_adjective(text, start, end)


def _without_adjective(text: str, start: int, end: int) -> int:
    """Return the end of the subject, before a demonym that qualifies what follows.

    A demonym stays if it qualifies nothing: "… Dawn French from the same country". So does the name of a country
    without a noun after it: "… Michael Jordan", but "… Michael Jordan | American players".
    """
    follows = text[end:].split()
    if text[end - 1 : end] == "," or (follows and follows[0] in _VERBS) or _ALIKE.match(text[end:]):
        return end
    words = list(_TOKEN.finditer(text, start, end))
    for place, (before, word) in enumerate(pairwise(words), 1):
        country = countries().by_name.get(word.group().lower())
        last = word is words[-1]
        if country is None or before.group().lower() in _JOINING or not (follows or last):
            continue
        if country == word.group().lower() and (words[place + 1 :] or not follows):
            continue
        return before.end()
    return end


def _joints(text: str, word: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a lower-case joining word outside brackets and quotes."""
    for match in re.finditer(rf"(?<=[\s,]){word}(?=\s)", text):
        before = text[: match.start()]
        quoted = before.count('"') % 2 or before.count("“") != before.count("”")
        if not quoted and before.count("(") == before.count(")") and before.count("[") == before.count("]"):
            yield match.span()


def split_pair(text: str, word: str) -> tuple[str, str] | None:
    """Split "A and B" or "A or B"; None if the joint is unclear."""
    candidates = []
    for start, end in _joints(text, word):
        left, right = text[:start].strip(), text[end:].strip()
        if left.strip(",") and right:
            candidates.append((left, right))
    if len(candidates) > 1:
        alike = [pair for pair in candidates if pair[0].split()[0].lower() == pair[1].split()[0].lower()]
        apart = [pair for pair in candidates if pair[0].endswith(",") and "," not in pair[0][:-1]]
        named = [
            (left, right)
            for left, right in candidates
            if _starts_name(strip_lead(right)[1] or "-") and _starts_name(left.split()[-1])
        ]
        candidates = next((pairs for pairs in (alike, apart, named) if len(pairs) == 1), candidates)
    return _without_leads(*candidates[0]) if len(candidates) == 1 else None


def _without_leads(left: str, right: str) -> tuple[str, str] | None:
    """Strip class words on both sides, unless both have them."""
    (lead, name), (other_lead, other_name) = strip_lead(left), strip_lead(right)
    if name and other_name:
        if not _CLASS_WORD.match(lead.replace(",", "").replace(":", "")):
            lead, name = "", left
        if " of " not in lead or not (other_lead or _OF_ONE.search(lead)):
            left = name
        if " of " not in other_lead and not other_lead.startswith("of "):
            right = other_name
    pair = tidy(left), tidy(right)
    return pair if all(re.search(r"\w", side) for side in pair) else None


def split_all(text: str, word: str, *, several: Several) -> tuple[str, ...] | None:
    """Split a list joined by `word`; None if it is unclear.

    Commas separate only if three or more operands are meant (`several`), or if one comes directly before the joining
    word: in "Love, Honor And Oh-Baby! or Alibi" the comma belongs to the name.
    """
    if several == "open" and is_unclear(text, word):
        return None
    joints = list(_joints(text, word))
    if len(joints) == 2 and "," not in text:
        middle = text[joints[0][1] : joints[1][0]].strip()
        if _starts_name(middle) and _starts_name(text[joints[1][1] :].strip()):
            return tuple(tidy(part) for part in (text[: joints[0][0]], middle, text[joints[1][1] :]))
    if len(joints) == 1:
        listed = _listed(text, *joints[0])
        if listed and (several == "yes" or text[: joints[0][0]].rstrip().endswith(",")):
            return listed
    return split_pair(text, word)


def is_unclear(text: str, word: str) -> bool:
    """Return whether a comma may separate operands or belong to one."""
    joints = list(_joints(text, word))
    if len(joints) != 1 or "," in text[joints[0][1] :] or text[: joints[0][0]].rstrip().endswith(","):
        return False
    listed = _listed(text, *joints[0])
    return bool(listed) and not any(map(_ADDED.search, listed[1:-1]))


def _listed(text: str, start: int, end: int) -> tuple[str, ...]:
    """Split a list at its commas and a joining word; () for fewer than three names."""
    parts = (*text[:start].strip().strip(",").split(","), text[end:])
    listed = tuple(re.sub(r"^the\s+", "", tidy(part)) for part in parts)
    return listed if len(listed) > 2 and all(part and _starts_name(part) for part in listed) else ()
