"""Tell by its names and words whether a question asks for several things, or for what fulfils several conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from hoptree.core.lazy import lazy_re
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.names import name_spans
from hoptree.text.parse import question_key
from hoptree.text.quantities import date_spans

Span = tuple[int, int]
ASKING_WORD = lazy_re(r"\b(?:which|who|what|whom|list|name)\b", re.IGNORECASE)
_FIRST_WORD = lazy_re(r"\W*(\w+)")
_NEVER_A_NAME = lazy_re(
    r"which|who|what|whom|whose|when|where|why|how|list|name|in|at|for|on|of|by|with|from|to|the|an?|it|is|are|was|were"
    r"|did|do|does|has|have|had|among|along|besides|after|before|between|during|into|this|that|these|those|there",
    re.IGNORECASE,
)
"""Words that a question or a condition begins with, and no name does."""
_LIST_JOINT = lazy_re(r"\s*(?:,\s*(?:and|or)?|and|or)\s+(?=[A-ZÀ-ÖØ-ÞΑ-ΩА-Я])")
_BEFORE_RANK = lazy_re(r",\s+(?:the\s+)?(?P<ordinal>\d{1,3}(?:st|nd|rd|th)\s+)?", re.IGNORECASE)
_NOBLE = (
    r"(?:Grand\s+|Arch)?(?:Baron(?:ess|et)?|Duke|Duchess|Count(?:ess)?|Viscount(?:ess)?|Earl|Lord|Marque(?:ss|es|sa)"
    r"|Marquis|Marchioness|Margrave|Landgrave)\b"
)
_RANK = lazy_re(rf"(?:Jr|Sr|I{{2,3}}|IV)\b|{_NOBLE}\s+(?:of|von|de)\b", re.IGNORECASE)
_NUMBERED_RANK = lazy_re(_NOBLE, re.IGNORECASE)
_NOT_A_LISTING = lazy_re(
    r"\b(?:not|never|no|none|neither|nor|or|except|without|unless|instead|how many|how much|other than"
    r"|most|least|more|less|only|[a-z]{3,}est"
    r"|(?:what|which|who)(?:\s+is|\s+was|\s+are|\s+were|['’]s)\s+the)\b|n['’]t\b",
    re.IGNORECASE,
)
_BESIDES = lazy_re(
    r"\b(?:besides|apart from|aside from|excluding|except(?:ing)?)\s|\b(?:what|which|who|whom)\s+(?:other|else)\b",
    re.IGNORECASE,
)
"""What is asked for beside what is named; a sentence may begin with these, so that they are taken for names."""
_WHO_ARE = lazy_re(r"^\W*who\s+(?:are|were)\s+the\s+", re.IGNORECASE)
# "his first … film" says which film; a preamble, as in "… in the same year. Who was in both?",
# chooses nothing.
_CHOOSES = lazy_re(r"\bsame\b|\b(?:first|last)\b(?!\s+…)", re.IGNORECASE)
_PREAMBLE = lazy_re(r"\A.*[.:;]\s+(?=(?:which|who|what|whom)\b)", re.IGNORECASE | re.DOTALL)


def named_spans(text: str) -> list[Span]:
    """Return where names and dates stand in a text, in their order; words that ask are none.

    A name behind a comma is a part of the one before it unless the two are listed: "Ann Low, Countess of Ghent", but
    "Ann Low, Bob High and Cora Lind". A rank is never listed: "Ann Low, 3rd Baroness Low and Bob High" are two.
    """
    first = _FIRST_WORD.match(text)
    begin = first.end() if first and _NEVER_A_NAME.fullmatch(first[1]) else 0
    spans: list[Span] = []
    for start, end in name_spans(text, begin):
        if _NEVER_A_NAME.fullmatch(text[start:end]):
            continue
        joined = spans and (_is_rank(text, spans[-1][1], start) or _continues_name(text, spans, (start, end)))
        spans.append((spans.pop()[0], end) if joined else (start, end))
    return sorted({*spans, *date_spans(text)})


def _continues_name(text: str, before: Sequence[Span], name: Span) -> bool:
    """Return whether a name behind a comma goes with the last of those before it, and is not listed with it."""
    if text[before[-1][1] : name[0]] != ", " or _LIST_JOINT.match(text, name[1]):
        return False
    return len(before) < 2 or not _LIST_JOINT.fullmatch(text, before[-2][1], before[-1][0])


def _is_rank(text: str, before: int, start: int) -> bool:
    """Return whether a name is the rank of the one that ends before it: Jr., Duke of Lund, 3rd Baron Low."""
    comma = _BEFORE_RANK.fullmatch(text, before, start)
    return comma is not None and bool((_NUMBERED_RANK if comma["ordinal"] else _RANK).match(text, start))


def named(text: str) -> frozenset[str]:
    """Return the names and dates in a text, folded."""
    return frozenset(filter(None, (question_key(text[start:end]) for start, end in named_spans(text))))


def _mask_names(text: str) -> str:
    dates = set(date_spans(text))
    for start, end in reversed([span for span in named_spans(text) if span not in dates]):
        text = text[:start] + "…" + text[end:]
    return text


def may_list(question: str, *, names: int = 2) -> bool:
    """Return whether a question may ask for what fulfils conditions: it asks which, and names so many things at least.

    One that compares asks for neither's conditions; one that says not, or, most, besides, how many, or "what is the …
    of" asks for something else than the things that fulfil them.
    """
    plain = _mask_names(question if names > 1 else _WHO_ARE.sub("which ", question))
    if not ASKING_WORD.search(plain) or _NOT_A_LISTING.search(plain) or _BESIDES.search(question):
        return False
    if _CHOOSES.search(_PREAMBLE.sub("", plain)):
        return False
    return len(named(question)) >= names and detect_comparison(question) is None


_PREPOSITION = r"(?:in|on|at|for|from|of|by|with|to)"
ASKS_WHICH = rf"(?:^|[.:;]\s)\W*(?:{_PREPOSITION}\s+)?(?:which|who|whom|what|list|name)\b"
_NO_NOUN = rf"(?:is|was|were|are|did|does|do|has|had|have|who|whose|which|where|that|{_PREPOSITION})\b|[\w-]+['’]s\b"
_NOUN_WORD = rf"(?!{_NO_NOUN})[\w'’.&-]+"
_PLURAL_NOUN = r"(?!(?:was|has|does|shares|series|species|years)\b)(?:[a-z]+[^\Wsui]s|people|men|women|children)"
_PLURAL_VERB = (
    r"(?:do|did|have|had|were|are|can|[a-z]+ed|made|won|sang|wrote|led|went|took|came|appear|border|share|play|star|belong"
    r"|lie|live|work|contain|include|feature|hold|use|speak|come|go|run|own|produce|compete|form|cross|serve|take|win"
    r"|(?:has|does|is|was)\s+(?:[A-Z#]\w*|it|he|she|they))"
)
_IS_PLURAL = lazy_re(
    rf"(?:^|[.:;]\s)\W*(?:(?:list|name|who\s+(?:are|were))\s+(?:{_NOUN_WORD}\s+){{0,4}}?(?-i:{_PLURAL_NOUN})\b|"
    rf"(?:{_PREPOSITION}\s+)?(?:which|what)\s+(?:of\s+)?(?:{_NOUN_WORD}\s+){{0,4}}?(?-i:{_PLURAL_NOUN}\s+"
    rf"(?:(?:of|from|in|by|with|on|at|who|whom|that|which|where|[a-z]+ing)\s(?:(?!\b(?:is|was|has|does)\b).)*?\b)??"
    rf"{_PLURAL_VERB})\b)",
    re.IGNORECASE,
)
MAY_BE_SEVERAL = lazy_re(r"\W*(?:(?:who|what|which)\s+(?:are|were)\b|who\s+(?!(?:is|was|has)\b)[a-z]+)", re.IGNORECASE)
"""Who did something may be one or several."""


def asks_for_several(question: str) -> bool:
    """Return whether a question asks for several things: what they, in the plural, are or did."""
    return _IS_PLURAL.search(question) is not None


Joint = Literal["intersect", "union", "difference"]


class Joined(NamedTuple):
    """A question for each of the things that the same is asked of, and how their answers are put together."""

    how: Joint = "intersect"
    asked: tuple[str, ...] = ()


_WORDS_BEFORE = rf"(?:{_PREPOSITION}\s+)?(?:(?:[a-z][\w-]*|@\d+@)\s+){{0,4}}?"
_THING = rf"{_WORDS_BEFORE}@\d+@(?:\s+in\s+@\d+@|\s+\(@\d+@\))?"
_PLACED = rf"{_PREPOSITION}\s+(?:(?:the|an?)\s+)?(?:[a-z][\w-]*\s+){{0,2}}?@\d+@"
_BARE = r"(?:(?:the|his|her)\s+[a-z-]+\s+)?@\d+@"
_AND_ALSO = r"(?:,?\s+and\s+(?:also|again|later|still)|\s+as\s+well\s+as)"
_JOINTS: tuple[tuple[Joint, re.Pattern[str]], ...] = (
    ("intersect", lazy_re(rf"\bboth\s+(?P<one>{_THING})\s+and\s+(?P<two>{_THING})")),
    ("intersect", lazy_re(rf"(?P<one>{_BARE})\s+and\s+(?P<two>{_BARE})(?:\s+both\b|(?=\s+have\s+in\s+common\b))")),
    ("intersect", lazy_re(rf"(?P<one>{_PLACED}){_AND_ALSO}\s+(?P<two>{_THING})")),
    ("union", lazy_re(rf"\beither\s+(?P<one>{_THING})\s+or\s+(?P<two>{_THING})")),
    ("difference", lazy_re(rf"(?P<one>{_PLACED}|{_BARE}),?\s+but\s+not\s+(?P<two>{_THING})")),
)
"""What joins two things that the same is asked of; names are numbers here, so that no word of theirs is read."""
_NUMBER = lazy_re(r"@(\d+)@")
_BEHIND = lazy_re(r"(?:\s+[a-z'’-]+)*\W*")
"""What may stand behind the second of two things: words that are said of both."""


def split_by_words(question: str) -> Joined:
    """Split a question for two things that the same is asked of; into none where its words do not show them."""
    if _NUMBER.search(question):
        return Joined()  # it holds a mark of our own
    dates, masked = date_spans(question), question
    spans = [span for span in named_spans(question) if span not in dates]
    names = [question[start:end] for start, end in spans]
    for number, (start, end) in reversed(list(enumerate(spans))):
        masked = f"{masked[:start]}@{number}@{masked[end:]}"
    for how, pattern in _JOINTS:
        if (found := pattern.search(masked)) and _BEHIND.fullmatch(masked, found.end()):
            before, behind = masked[: found.start()], masked[found.end() :].replace(" have in common", " have")
            texts = (f"{before}{found[name]}{behind}" for name in ("one", "two"))
            return Joined(how, tuple(_NUMBER.sub(lambda place: names[int(place[1])], text) for text in texts))
    return Joined()
