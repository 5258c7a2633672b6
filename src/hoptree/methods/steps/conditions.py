"""Find the names in a question, and whether it lists several conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.core.lazy import lazy_re
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.names import name_spans
from hoptree.text.parse import question_key
from hoptree.text.quantities import date_spans

Span = tuple[int, int]
_ASKING_WORD = lazy_re(r"\b(?:which|who|what|whom|list|name)\b", re.IGNORECASE)
_FIRST_WORD = lazy_re(r"\W*(\w+)")
_NEVER_A_NAME = lazy_re(
    r"which|who|what|whom|whose|when|where|why|how|list|name|in|at|for|on|of|by|with|from|to|the|an?|it|is|are|was|were"
    r"|did|do|does|has|have|had|among|along|besides|after|before|between|during|into|this|that|these|those|there",
    re.IGNORECASE,
)  # words that a question or a condition begins with, and no name does
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
)  # what is asked for beside what is named; a sentence may begin with these, so that they are taken for names
_WHO_ARE = lazy_re(r"^\W*who\s+(?:are|were)\s+the\s+", re.IGNORECASE)
# "his first … film" says which film; a preamble, as in "… in the same year. Who was in both?",
# chooses nothing.
_CHOOSES = lazy_re(r"\bsame\b|\b(?:first|last)\b(?!\s+…)", re.IGNORECASE)
_PREAMBLE = lazy_re(r"\A.*[.:;]\s+(?=(?:which|who|what|whom)\b)", re.IGNORECASE | re.DOTALL)


def named_spans(text: str) -> list[Span]:
    """Return where names and dates stand in a text.

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
    """Return whether a name after a comma continues the name before it."""
    if text[before[-1][1] : name[0]] != ", " or _LIST_JOINT.match(text, name[1]):
        return False
    return len(before) < 2 or not _LIST_JOINT.fullmatch(text, before[-2][1], before[-1][0])


def _is_rank(text: str, before: int, start: int) -> bool:
    """Return whether a name is a rank of the one before it: Jr., 3rd Baron Low."""
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
    """Return whether a question asks which thing fulfils several conditions, and compares or counts nothing."""
    plain = _mask_names(question if names > 1 else _WHO_ARE.sub("which ", question))
    if not _ASKING_WORD.search(plain) or _NOT_A_LISTING.search(plain) or _BESIDES.search(question):
        return False
    if _CHOOSES.search(_PREAMBLE.sub("", plain)):
        return False
    return len(named(question)) >= names and detect_comparison(question) is None
