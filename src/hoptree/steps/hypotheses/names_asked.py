"""The names in a question, and the words that say what is asked of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from hoptree.comparing.dates import date_spans
from hoptree.names import name_spans
from hoptree.steps.reading.parse import question_key

__all__ = ["ASKS", "asked_of", "attributed", "bare", "named", "named_spans", "without_names"]

Span = tuple[int, int]
ASKS = re.compile(r"\b(?:which|who|what|whom|list|name)\b", re.IGNORECASE)
_FIRST = re.compile(r"\W*(\w+)")
_BEGIN = re.compile(
    r"which|who|what|whom|whose|when|where|why|how|list|name|in|at|for|on|of|by|with|from|to|the|an?|it|is|are|was|were"
    r"|did|do|does|has|have|had|among|along|besides|after|before|between|during|into|this|that|these|those|there",
    re.IGNORECASE,
)
"""Words that a question or a condition begins with, and no name does."""
_LISTED = re.compile(r"\s*(?:,\s*(?:and|or)?|and|or)\s+(?=[A-ZÀ-ÖØ-ÞΑ-ΩА-Я])")
_BEFORE_RANK = re.compile(r",\s+(?:the\s+)?(?P<ordinal>\d{1,3}(?:st|nd|rd|th)\s+)?", re.IGNORECASE)
_NOBLE = (
    r"(?:Grand\s+|Arch)?(?:Baron(?:ess|et)?|Duke|Duchess|Count(?:ess)?|Viscount(?:ess)?|Earl|Lord|Marque(?:ss|es|sa)"
    r"|Marquis|Marchioness|Margrave|Landgrave)\b"
)
_RANK = re.compile(rf"(?:Jr|Sr|I{{2,3}}|IV)\b|{_NOBLE}\s+(?:of|von|de)\b", re.IGNORECASE)
_NUMBERED_RANK = re.compile(_NOBLE, re.IGNORECASE)
_WORD = re.compile(r"[\w'’-]+")
_SMALL = re.compile(
    r"in|of|on|at|to|for|with|by|from|into|the|an?|that|those|this|these|his|her|its|their|ones?|both|and|or|also|as"
    r"|well|again|still|later|did|do|does|have|has|had|is|are|was|were|who|which|some|same|too|where|whom|can|vs?",
    re.IGNORECASE,
)
"""Words that say nothing by themselves of what is asked of a name."""
_JOINING = re.compile(
    r"^(?:\W*\b(?:and|or|also|again|still|later|as well as|as well|did|do|does|have|has|had|is|are|was|were|who|that"
    r"|which|some|the same)\b)*\W*",
    re.IGNORECASE,
)
_BOTH = re.compile(r"\s*\b(?:both|in common|as well(?! as)|also|too)\b", re.IGNORECASE)
_PREPOSITION = re.compile(r"^(?:of|in|on|at|from|by|with|for)\b", re.IGNORECASE)
_TURNED = re.compile(r"\b(?:did|do|does|have|has|had|where|whom)\W*$", re.IGNORECASE)
"""Before a name of which the question says behind it what is asked: "films did Ann Low direct"."""
_KIND = re.compile(r"(?:the|his|her|its|their|an?)(?:\s+[a-z-]+){1,2}", re.IGNORECASE)
"""Before a name, what kind of thing it is: the pitcher, his brother."""
_COUNTED = re.compile(r"\b(?:two|three|four|five|six)\s+(?:[\w'’-]+\s+){0,3}[\w'’-]+\s*[,:]\s*$", re.IGNORECASE)
"""What names behind it are counted by: "roles in two films of 1932, A and B"."""


def named_spans(text: str) -> list[Span]:
    """Where names and dates stand in a text, in their order; what asks is none, and a name behind a comma is a part of
    the one before it unless the two are listed: "Ann Low, Countess of Ghent", but "Ann Low, Bob High and Cora Lind". A
    rank is listed with nothing: "Ann Low, 3rd Baroness Low and Bob High" are two.
    """
    first = _FIRST.match(text)
    begin = first.end() if first and _BEGIN.fullmatch(first[1]) else 0
    spans: list[Span] = []
    for start, end in name_spans(text, begin):
        if _BEGIN.fullmatch(text[start:end]):
            continue
        joined = spans and (_ranks(text, spans[-1][1], start) or _belongs(text, spans, (start, end)))
        spans.append((spans.pop()[0], end) if joined else (start, end))
    return sorted({*spans, *date_spans(text)})


def _belongs(text: str, before: Sequence[Span], name: Span) -> bool:
    """Whether a name behind a comma goes with the last of those before it, and is not listed with it."""
    if text[before[-1][1] : name[0]] != ", " or _LISTED.match(text, name[1]):
        return False
    return len(before) < 2 or not _LISTED.fullmatch(text, before[-2][1], before[-1][0])


def _ranks(text: str, before: int, start: int) -> bool:
    """Whether a name is the rank of the one that ends before it: Jr., Duke of Lund, 3rd Baron Low."""
    comma = _BEFORE_RANK.fullmatch(text, before, start)
    return comma is not None and bool((_NUMBERED_RANK if comma["ordinal"] else _RANK).match(text, start))


def named(text: str) -> frozenset[str]:
    """The names and dates in a text, folded."""
    return frozenset(filter(None, (question_key(text[start:end]) for start, end in named_spans(text))))


def without_names(text: str) -> str:
    dates = set(date_spans(text))
    for start, end in reversed([span for span in named_spans(text) if span not in dates]):
        text = text[:start] + "…" + text[end:]
    return text


def bare(text: str) -> bool:
    """Whether a text is a name and nothing more."""
    whole, outside = f"It {text}", ""
    for start, end in reversed(named_spans(whole)):
        outside, whole = f"{whole[end:]} {outside}", whole[:start]
    return whole.strip().casefold() in ("it", "it the", "it a") and not _telling(outside)


def attributed(question: str, name: str, left: Iterable[str]) -> str:
    """A name with the names left out that say which it is, and stand right before it: the 2011 comedy Night Train."""
    at = _place(question, name)
    for start, end in named_spans(question):
        if at is None:
            break
        between = question[end : at[0]].split()
        if question_key(question[start:end]) in left and end < at[0] and len(between) < 3 and _plain(between):
            return question[start : at[1]]
    return name


def asked_of(question: str, name: str, names: Iterable[str], asked: str) -> str:
    """A bare name with the words of the question that say what is asked of it; itself where there are none.

    They stand before it, or before the names that it is listed with, or behind these. `names` are those of all
    conditions, in whatever order.
    """
    if _place(question, f"{name} {asked}"):
        return f"{name} {asked}"
    places = sorted(place for one in names if (place := _place(question, one)))
    lead, kind = "", ""
    for number, (start, end) in enumerate(places):
        gap = question[places[number - 1][1] if number else _end_of(question, asked) : start]
        before = _before(gap)
        kind = f"{before} " if (is_kind := bool(_KIND.fullmatch(before))) else ""
        if _TURNED.search(_BOTH.sub("", gap)) or (is_kind and _TURNED.search(gap[: gap.rfind(before)])):
            lead = ""
        elif not is_kind and (_telling(before) or (before and not number)):
            lead = f"{asked} {before}" if not number and _PREPOSITION.match(before) else before
        if question[start:end].casefold() == name.casefold():
            behind = "" if lead else _behind(question, places[number:])
            return " ".join(f"{lead} {kind}{name} {behind}".split())
    return name


def _before(gap: str) -> str:
    """What the words before a name say of it."""
    return _BOTH.sub("", _JOINING.sub("", _COUNTED.sub("", gap))).strip(" ,:;")


def _behind(question: str, places: list[Span]) -> str:
    """What is said behind a name, or behind those that are listed with it."""
    for (_, end), other in zip_longest(places, places[1:]):
        words = question[end : other[0]] if other else question[end:]
        words = _TURNED.sub("", _BOTH.sub("", words)).strip(" ,:;.?!")
        if (other and not _telling(_before(words))) or _KIND.fullmatch(_before(words)):
            continue
        return words if _telling(words) and not ASKS.search(words) else ""
    return ""


def _end_of(question: str, asked: str) -> int:
    """Where the words begin that come behind what is asked for, or behind the word that asks."""
    found = _place(question, asked)
    asks = ASKS.search(question)
    return found[1] if found else asks.end() if asks else 0


def _telling(words: str) -> bool:
    return any(not _SMALL.fullmatch(word) for word in _WORD.findall(words))


def _plain(words: Iterable[str]) -> bool:
    """Whether words are such as stand between an attribute and its name: comedy, thriller, bands."""
    return all(word.isalpha() and word.islower() and not _SMALL.fullmatch(word) for word in words)


def _place(question: str, words: str) -> Span | None:
    found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", question, re.IGNORECASE)
    return found.span() if found else None
