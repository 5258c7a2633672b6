"""Plan the sub-questions of a comparison from its own words, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from hoptree.core.lazy import lazy_re
from hoptree.text.comparison import holds_fact
from hoptree.text.comparison_questions import Comparison, detect_comparison, expected_answer_type
from hoptree.text.comparison_words import COMPARING

_ROLE_NOUN = (
    r"directors?|authors?|writers?|composers?|performers?|singers?|producers?|founders?|creators?|screenwriters?|"
    r"lyricists?|editors?|designers?|architects?|painters?|conductors?"
)


@dataclass(frozen=True, slots=True)
class _Wording:
    """What the words around the operands mean; a field that they leave open is "".

    `comparing` is the comparing word, `event` the question for the fact, `role` the person whose fact it is
    ("director") if not the operand's own, `thing` the kind of the operands ("film").
    """

    around: str
    comparing: str
    event: str
    role: str
    thing: str
    by_nationality: bool
    by_place: bool


_GAP, _MORE, _EVENT = "\x00", "\x01", "\x02"  # placeholders for an operand, the comparing word and the event
_DONE = (
    "released founded established formed opened built constructed published launched created started completed "
    "incorporated introduced written recorded produced made aired invented designed"
)
_EVENTS = tuple(
    (lazy_re(rf"(?<![\w-])(?:{words})(?![\w-])"), question)
    for words, question in (
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
_COMPARING = lazy_re(
    rf"\b(?:more|most|less|least)\s+recent(?:ly)?\b|\b(?:before|after|prior\s+to)\b|{COMPARING.pattern}", re.IGNORECASE
)
_FUNCTION = (
    "which|what|who|is|are|was|were|be|been|will|do|does|did|has|have|had|the|a|an|and|or|than|that|one|two|both|each"
)
_FILLING = lazy_re(
    r"\bof\s+(?:the|these)\s+two\b|\bout\s+of\b|\b(?:in\s+)?between\b|\bamong(?:st)?\b|\bthan\s+the\s+other\b|"
    r"\bin\s+(?:the\s+same|a\s+different|different)\s+years?\b",
    re.IGNORECASE,
)
_WORD = (
    rf"(?!(?:{_FUNCTION}|{_ROLE_NOUN}|whose|with|of|in|at|on|by|from|to|for|as|his|her|its|their|"
    r"second|third|other|same|different)(?![\w-]))(?:(?:(?:wo)?men|children)['’]s|[\w-]+(?!['’\w-]))"
)  # a word of a kind of thing: "women's magazine", but not "actor's wife"
_CALLED = rf"(?P<thing>(?:{_WORD}\s+){{0,2}}(?:{_WORD}|(?:{_ROLE_NOUN})(?!['’\w-])))"
_FOLLOWED = rf"(?=\s*[,:{_GAP}{_EVENT}\"“'‘]|\s+(?:is|was|are|were|has|have|had|will|whose|with)\b)"
_THINGS = tuple(
    lazy_re(form, re.IGNORECASE)
    for form in (
        rf"\b(?:which|what)\s+(?:of\s+(?:the|these)\s+(?:two\s+)?)?{_CALLED}{_FOLLOWED}",
        rf"^(?:who|which|what)\s+(?:is|was)\s+(?:the|a)\s+{_MORE}\s+{_CALLED}(?=\s*[,:{_GAP}])",
    )
)
_HAS = lazy_re(rf"\b(?:has|have|had|with|whose)\s+(?:(?:the|a|an|{_MORE})\s+)*(?P<role>{_ROLE_NOUN})(?!['’\w-])", re.I)
_ROLES_OF = lazy_re(
    rf"\b(?P<role>(?:{_ROLE_NOUN})(?<=s))\s+of\s+(?:(?:the|both|two)\s+)*(?P<thing>{_WORD})?\s*[,:]?\s*(?={_GAP})"
)
_ROLES = lazy_re(rf"\b(?:{_ROLE_NOUN})\b")
_QUOTE = "\"“”'‘’"
_NOUN = lazy_re(rf"(?<=\s)(?:the|or|and|than|two)\s+(?:{_WORD}\s+){{1,2}}(?=[{_QUOTE}]?{_GAP})")
_NOUN_FIRST = lazy_re(
    rf"^(?:are|were|is|was|do|did|does)\s+(?:(?:both|the|two)\s+)+(?:{_WORD}\s*){{1,2}}[,:]?\s*(?=[{_QUOTE}]?{_GAP})",
    re.I,
)
_NOUN_AFTER = lazy_re(rf"(?<={_GAP})\s+[a-z]+s(?=\s+(?:have|are|were|both|share|do|did)\b)")
_COUNTRY = r"countr(?:y|ies)|nations?|nationalit(?:y|ies)|citizenships?|homeland"
_SAME = lazy_re(
    r"(?:\b(?P<place>located|situated|based|found)\s+|\b(?:originated?|hail(?:ed)?|c[ao]me|shared?|shares)\s+)?"
    r"(?:\b(?:(?P<within>in)|from|of)\s+)?(?:\b(?:the|a|an|that|their)\s+)?(?:\b(?:same|different|common)\s+)?"
    rf"\b(?P<noun>{_COUNTRY})(?:\s+of\s+origin)?(?:\s+(?:as|with)\s+(?:the\s+)?[{_QUOTE}]?{_GAP}[{_QUOTE}]?)?\W*$"
)


def _parse_wording(question: str, comparison: Comparison) -> _Wording | None:
    """Parse the words around the operands; None if a word is not understood."""
    around = _without_things(question, comparison.operands)
    if around is None:
        return None
    comparing, remaining = _COMPARING.findall(around), _COMPARING.sub(_MORE, around)
    remaining, events = _without_events(_NOUN_AFTER.sub(" ", remaining) if comparison.kind == "same" else remaining)
    if len(comparing) > 1 or len(events) > 1 or len(_ROLES.findall(remaining)) > 1:
        return None
    roles_of = _ROLES_OF.search(remaining)
    role = roles_of or _HAS.search(remaining)
    called = roles_of or next(filter(None, (form.search(remaining) for form in _THINGS)), None)
    thing = called["thing"] if called else None
    for understood in filter(None, dict.fromkeys((role, called))):
        remaining = remaining.replace(understood[0], " ", 1)
    same = _SAME.search(remaining) if comparison.kind == "same" else None
    if _unknown_words(remaining[: same.start()] if same else remaining, comparison):
        return None
    return _Wording(
        around,
        comparing[0].lower() if comparing else "",
        events[0] if events else "",
        _singular(role["role"]) if role else "",
        _singular(thing.split()[-1].lower()) if thing else "",
        same is not None and same["noun"].startswith(("national", "citizen")),
        same is not None and bool(same["place"] or same["within"]),
    )


def _without_things(question: str, operands: tuple[str, ...]) -> str | None:
    """Replace each operand by a gap, longest first."""
    text = question.strip().rstrip("?？. ")
    for operand in sorted(operands, key=len, reverse=True):
        places = list(re.finditer(rf"(?<!\w){re.escape(operand.rstrip('?？. '))}(?!\w)", text))
        if not places:
            return None
        text = text[: places[-1].start()] + _GAP + text[places[-1].end() :]
    return text


def _without_events(text: str) -> tuple[str, list[str]]:
    asked = []
    for pattern, question in _EVENTS:
        text, count = pattern.subn(_EVENT, text)
        if count:
            asked.append(question)
    return text, asked


def _unknown_words(wording: str, comparison: Comparison) -> str:
    if comparison.kind != "choice":
        wording = _NOUN_FIRST.sub(" ", wording)
    wording = _FILLING.sub(" ", _NOUN.sub(" ", wording))
    words = re.findall(r"[\w'’-]+", wording)
    return " ".join(word for word in words if re.search(r"\w", word) and not re.fullmatch(_FUNCTION, word, re.I))


def _singular(word: str) -> str:
    """Return the singular of a role or class noun."""
    return word.removesuffix("s") if word.endswith("s") and word != "series" else word


def _any_of(words: str) -> re.Pattern[str]:
    """Return a pattern for lower-case words; with capitals they may be parts of names."""
    return lazy_re(rf"\b(?:{'|'.join(words.split())})\b")


_ASKING_EVENTS = {
    "birth": _any_of("born births? birthdates? birthdays?"),
    "death": _any_of("die died dies dead deaths? killed murdered executed assassinated passed\\s+away"),
    "founding": _any_of(
        "founded founding establish(?:ed|ment)? form(?:ed|ation) incorporated construct(?:ed|ion) built"
    ),
    "release": _any_of("released? premiered? premiering aired broadcast c[ao]me\\s+out coming\\s+out debuted"),
    "origin": _any_of(
        "published publication made creat(?:ed|ion) start(?:ed)? launched began begun begin opened written introduced "
        "produced production filmed recorded composed designed completed inaugurated debut originated? invented"
    ),
    "end": _any_of("closed closing dissolved end(?:ed)? disbanded demolished destroyed abolished defunct"),
}
_SIMILAR_EVENTS = {"founding": {"origin"}, "release": {"origin"}, "origin": {"founding", "release"}}
"""Events that may mean the same: a magazine is founded, or first published."""
_OF_THINGS = frozenset(("birth", "founding", "release", "origin"))  # events that the age of a thing is counted from
PERSON_WORDS = lazy_re(
    r"^who|\bwhose\b|\b(?:directors?|authors?|writers?|actors?|actress\w*|composers?|singers?|performers?|musicians?|"
    r"artists?|producers?|founders?|creators?|players?|persons?|people|someone|man|woman|men|women|father|mother|"
    r"parents?|husband|wife|spouse|son|daughter|child|kings?|queens?|presidents?|politicians?)\b",
    re.IGNORECASE,
)
_ASKED_FOR: dict[str, frozenset[str]] = {
    "date": frozenset(("date",)),
    "span": frozenset(("date", "number")),
    "number": frozenset(("number",)),
    "name": frozenset(("person", "place")),
}


def select_facts(comparison: Comparison, question: str, answers: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Select a fact for each operand; {} if the facts are about different events."""
    facts: dict[str, str] = {}
    kinds: dict[str, frozenset[str]] = {}
    wanted = _wanted(comparison, question)
    for operand, asked, answer in answers:
        events = _events(asked, comparison)
        if not _asks_for_fact(comparison, asked) or not _may_be_same_event(wanted, events):
            continue
        if comparison.of == "date" and not _may_be_same_event(wanted, _events(answer, comparison)):
            continue
        if operand not in facts or holds_fact(comparison, answer):
            facts[operand], kinds[operand] = answer, events
    return facts if all(_may_be_same_event(first, second) for first, second in combinations(kinds.values(), 2)) else {}


def _wanted(comparison: Comparison, question: str) -> frozenset[str]:
    """Return the events that the comparison is about."""
    named = _events(question, comparison)
    if comparison.of != "date" or not comparison.event:
        return named
    by_age = comparison.event not in named and not PERSON_WORDS.search(question)
    return _OF_THINGS if by_age else frozenset((comparison.event,))


def _events(text: str, comparison: Comparison) -> frozenset[str]:
    for operand in comparison.operands:
        text = re.sub(re.escape(operand), " ", text, flags=re.IGNORECASE)
    return frozenset(event for event, words in _ASKING_EVENTS.items() if words.search(text))


def _may_be_same_event(events: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether sets of events may mean the same one; an empty one means any."""
    wider = events.union(*(_SIMILAR_EVENTS.get(event, ()) for event in events))
    return not events or not others or bool(wider & others)


def _asks_for_fact(comparison: Comparison, asked: str) -> bool:
    kind = expected_answer_type(asked)
    if comparison.kind in ("both", "which"):
        return kind in ("", "yes or no")
    if not kind or not comparison.of:
        return kind != "yes or no"
    return kind in _ASKED_FOR[comparison.of] - ({"person"} if comparison.about else set())


_ROLE_OF = lazy_re(rf"^(?:the\s+)?(?P<role>{_ROLE_NOUN})\s+of\s+(?=\S)", re.IGNORECASE)
_OF = lazy_re(r"^(?:the\s+)?[a-z]+\s+(?:[a-z]+\s+)?of\s")
_RELEASED = ("film", "movie", "documentary", "album", "song", "single", "series", "show", "game")
_PUBLISHED = ("book", "novel", "magazine", "newspaper", "journal", "comic")
_FOUNDED = ("university", "college", "school", "company", "band", "club", "organization", "organisation", "brand")
_ORIGIN_VERBS = {
    **dict.fromkeys(_RELEASED, "released"),
    **dict.fromkeys(_PUBLISHED, "published"),
    **dict.fromkeys(_FOUNDED, "founded"),
}  # the event from which the age of a thing is counted
_MEASURED = lazy_re(r"(?P<word>tall|high|long|deep|heavi|wid)(?:er|est)")
_SIZES = {"tall": "tall", "high": "high", "long": "long", "deep": "deep", "heavi": "heavy", "wid": "wide"}
_BIRTH, _DEATH, _LIFE = "When was {} born?", "When did {} die?", "What are the dates of birth and death of {}?"


def plan_comparison(question: str) -> tuple[tuple[str, ...], ...] | None:
    """Return a chain of questions for each operand, {} for the last answer; or None."""
    comparison = detect_comparison(question)
    if comparison is None or comparison.kind not in ("choice", "same", "relation"):
        return None
    wording = _parse_wording(question, comparison)
    asked = _asked(comparison, wording) if wording else None
    if wording is None or asked is None:
        return None
    roles = [bool(_ROLE_OF.match(operand)) for operand in comparison.operands]
    if (wording.role or any(roles)) and comparison.of == "date" and asked not in (_BIRTH, _DEATH):
        return None
    related = [bool(_OF.match(operand)) for operand in comparison.operands]
    if related[0] and not all(related):  # "the director of A or B": B may be a work or a person
        return None
    return tuple(_chain(operand, wording, asked) for operand in comparison.operands)


def _chain(operand: str, wording: _Wording, asked: str) -> tuple[str, ...]:
    """Return the questions that lead to the fact about one operand."""
    if role := _ROLE_OF.match(operand):
        return f"Who is the {_singular(role['role'])} of {operand[role.end() :]}?", asked
    if wording.role:
        named = f"the {wording.thing} {operand}" if wording.thing else operand
        return f"Who is the {wording.role} of {named}?", asked
    return (asked.replace("{}", operand),)


def _asked(comparison: Comparison, wording: _Wording) -> str | None:
    """Return the question for the fact that is compared."""
    if comparison.of == "date":
        return _date(comparison, wording)
    if comparison.of == "span":
        return wording.event if wording.event == _LIFE else None
    if comparison.of == "number":
        size = _MEASURED.fullmatch(wording.comparing)
        return f"How {_SIZES[size['word']]} is {{}}?" if size and not wording.event else None
    if comparison.kind != "same" or comparison.about != "country" or wording.event:
        return None
    if wording.by_nationality or wording.role:
        return "What is the nationality of {}?"
    return "In which country is {} located?" if wording.by_place else "Which country is {} from?"


def _date(comparison: Comparison, wording: _Wording) -> str | None:
    expected = {"birth": _BIRTH, "death": _DEATH}.get(comparison.event)
    if wording.event or comparison.event != "birth":
        fits = wording.event not in (_BIRTH, _DEATH, _LIFE) if expected is None else wording.event == expected
        return wording.event if wording.event and fits else None
    if not wording.role and (participle := _ORIGIN_VERBS.get(wording.thing)):
        return f"When was {{}} {participle}?"
    person = wording.role or PERSON_WORDS.search(wording.around) or all(map(_ROLE_OF.match, comparison.operands))
    return _BIRTH if person else None
