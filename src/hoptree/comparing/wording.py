"""The words around the things that a question compares: a list of what may stand there, and nothing else may.

A word that is not understood may turn the comparison into another one ("whose father died first", "founded earlier by
a woman"), so one such word is enough for the whole wording to be left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoptree.comparing.questions import Comparison
from hoptree.comparing.words import COMPARING

__all__ = ["ROLE", "Wording", "single", "wording_of"]

ROLE = (
    r"directors?|authors?|writers?|composers?|performers?|singers?|producers?|founders?|creators?|screenwriters?|"
    r"lyricists?|editors?|designers?|architects?|painters?|conductors?"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """What the words around the things compared say.

    `comparing` is the comparing word, `event` the question for the fact that is named, `role` whose fact it is where
    it is not the thing's own, `thing` what the question calls the things; each is "" where it is not told.
    """

    around: str
    comparing: str
    event: str
    role: str
    thing: str
    by_nationality: bool
    by_place: bool


_GAP, _MORE, _EVENT = "\x00", "\x01", "\x02"
"""What stands for a thing compared, the comparing word and the event, once they are understood."""
_DONE = (
    "released founded established formed opened built constructed published launched created started completed "
    "incorporated introduced written recorded produced made aired invented designed"
)
_EVENTS = tuple(
    (re.compile(rf"(?<![\w-])(?:{said})(?![\w-])"), asked)
    for said, asked in (
        (r"born|date\s+of\s+birth|birth\s+date", "When was {} born?"),
        (r"die|dies|died|dead|passed\s+away|date\s+of\s+death", "When did {} die?"),
        (r"lived?|lives|lifespan", "What are the dates of birth and death of {}?"),
        (r"c[ao]me\s+out", "When did {} come out?"),
        (r"premiered?", "When did {} premiere?"),
        (r"debuted", "When did {} debut?"),
        (r"began\s+operating", "When did {} begin operating?"),
        (r"began", "When did {} begin?"),
        *((done, f"When was {{}} {done}?") for done in _DONE.split()),
    )
)
_COMPARING = re.compile(
    rf"\b(?:more|most|less|least)\s+recent(?:ly)?\b|\b(?:before|after|prior\s+to)\b|{COMPARING.pattern}", re.IGNORECASE
)
_FUNCTION = (
    "which|what|who|is|are|was|were|be|been|will|do|does|did|has|have|had|the|a|an|and|or|than|that|one|two|both|each"
)
_FILLING = re.compile(
    r"\bof\s+(?:the|these)\s+two\b|\bout\s+of\b|\b(?:in\s+)?between\b|\bamong(?:st)?\b|\bthan\s+the\s+other\b|"
    r"\bin\s+(?:the\s+same|a\s+different|different)\s+years?\b",
    re.IGNORECASE,
)
_WORD = (
    rf"(?!(?:{_FUNCTION}|{ROLE}|whose|with|of|in|at|on|by|from|to|for|as|his|her|its|their|"
    r"second|third|other|same|different)(?![\w-]))(?:(?:(?:wo)?men|children)['’]s|[\w-]+(?!['’\w-]))"
)
"""A word of what things are called: "women's magazine", but not "actor's wife"."""
_CALLED = rf"(?P<thing>(?:{_WORD}\s+){{0,2}}(?:{_WORD}|(?:{ROLE})(?!['’\w-])))"
_FOLLOWED = rf"(?=\s*[,:{_GAP}{_EVENT}\"“'‘]|\s+(?:is|was|are|were|has|have|had|will|whose|with)\b)"
_THINGS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b(?:which|what)\s+(?:of\s+(?:the|these)\s+(?:two\s+)?)?{_CALLED}{_FOLLOWED}",
        rf"^(?:who|which|what)\s+(?:is|was)\s+(?:the|a)\s+{_MORE}\s+{_CALLED}(?=\s*[,:{_GAP}])",
    )
)
_HAS = re.compile(rf"\b(?:has|have|had|with|whose)\s+(?:(?:the|a|an|{_MORE})\s+)*(?P<role>{ROLE})(?!['’\w-])", re.I)
_ROLES_OF = re.compile(
    rf"\b(?P<role>(?:{ROLE})(?<=s))\s+of\s+(?:(?:the|both|two)\s+)*(?P<thing>{_WORD})?\s*[,:]?\s*(?={_GAP})"
)
_ROLES = re.compile(rf"\b(?:{ROLE})\b")
_QUOTE = "\"“”'‘’"
_NOUN = re.compile(rf"(?<=\s)(?:the|or|and|than|two)\s+(?:{_WORD}\s+){{1,2}}(?=[{_QUOTE}]?{_GAP})")
_NOUN_FIRST = re.compile(
    rf"^(?:are|were|is|was|do|did|does)\s+(?:(?:both|the|two)\s+)+(?:{_WORD}\s*){{1,2}}[,:]?\s*(?=[{_QUOTE}]?{_GAP})",
    re.I,
)
_NOUN_AFTER = re.compile(rf"(?<={_GAP})\s+[a-z]+s(?=\s+(?:have|are|were|both|share|do|did)\b)")
_COUNTRY = r"countr(?:y|ies)|nations?|nationalit(?:y|ies)|citizenships?|homeland"
_SAME = re.compile(
    r"(?:\b(?P<place>located|situated|based|found)\s+|\b(?:originated?|hail(?:ed)?|c[ao]me|shared?|shares)\s+)?"
    r"(?:\b(?:(?P<within>in)|from|of)\s+)?(?:\b(?:the|a|an|that|their)\s+)?(?:\b(?:same|different|common)\s+)?"
    rf"\b(?P<noun>{_COUNTRY})(?:\s+of\s+origin)?(?:\s+(?:as|with)\s+(?:the\s+)?[{_QUOTE}]?{_GAP}[{_QUOTE}]?)?\W*$"
)


def wording_of(question: str, comparison: Comparison) -> Wording | None:
    """What the words around the things compared say; None where one of them is not understood, or two say the same."""
    around = _without_things(question, comparison.operands)
    if around is None:
        return None
    comparing, rest = _COMPARING.findall(around), _COMPARING.sub(_MORE, around)
    rest, events = _without_events(_NOUN_AFTER.sub(" ", rest) if comparison.kind == "same" else rest)
    if len(comparing) > 1 or len(events) > 1 or len(_ROLES.findall(rest)) > 1:
        return None
    roles_of = _ROLES_OF.search(rest)
    role = roles_of or _HAS.search(rest)
    called = roles_of or next(filter(None, (form.search(rest) for form in _THINGS)), None)
    thing = called["thing"] if called else None
    for understood in filter(None, dict.fromkeys((role, called))):
        rest = rest.replace(understood[0], " ", 1)
    same = _SAME.search(rest) if comparison.kind == "same" else None
    if _left(rest[: same.start()] if same else rest, comparison):
        return None
    return Wording(
        around,
        comparing[0].lower() if comparing else "",
        events[0] if events else "",
        single(role["role"]) if role else "",
        single(thing.split()[-1].lower()) if thing else "",
        same is not None and same["noun"].startswith(("national", "citizen")),
        same is not None and bool(same["place"] or same["within"]),
    )


def _without_things(question: str, operands: tuple[str, ...]) -> str | None:
    """The question with a gap for each thing, where it stands last: the longer first, since one may hold another."""
    text = question.strip().rstrip("?？. ")
    for operand in sorted(operands, key=len, reverse=True):
        places = list(re.finditer(rf"(?<!\w){re.escape(operand.rstrip('?？. '))}(?!\w)", text))
        if not places:
            return None
        text = text[: places[-1].start()] + _GAP + text[places[-1].end() :]
    return text


def _without_events(text: str) -> tuple[str, list[str]]:
    asked = []
    for said, question in _EVENTS:
        text, count = said.subn(_EVENT, text)
        if count:
            asked.append(question)
    return text, asked


def _left(rest: str, comparison: Comparison) -> str:
    """What is in no list."""
    if comparison.kind != "choice":
        rest = _NOUN_FIRST.sub(" ", rest)
    rest = _FILLING.sub(" ", _NOUN.sub(" ", rest))
    words = re.findall(r"[\w'’-]+", rest)
    return " ".join(word for word in words if re.search(r"\w", word) and not re.fullmatch(_FUNCTION, word, re.I))


def single(word: str) -> str:
    """The singular of a role or of what a thing is called."""
    return word.removesuffix("s") if word.endswith("s") and word != "series" else word
