"""Compare the type of an answer with the type that its question asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.core.patterns import lazy_re
from hoptree.text.comparison import read_yes_no
from hoptree.text.comparison_plans import expected_answer_type
from hoptree.text.dates import date_spans, read_dates
from hoptree.text.names import name_spans
from hoptree.text.numbers import read_number

_DIGIT = lazy_re(r"\d")
_LETTER = lazy_re(r"[^\W\d_]")
_WHEN = lazy_re(r"\W*(?:(?:and|so|then|since|until|by)\s+)?when\b", re.IGNORECASE)
_LEAD = lazy_re(r"\W*(?:(?:in|on|at|near|from|around|about|the|an?)\s+)*", re.IGNORECASE)
# Names of times: the Middle Ages, World War II, Easter, the Jurassic; of months and days some are people's too.
_OF_TIME = lazy_re(
    r"\b(?:ages?|eras?|periods?|epochs?|times?|years?|months?|weeks?|days?|night|eve|season|century|centuries|wars?"
    r"|reign|dynasty|revolution|renaissance|antiquity|depression|olympics|games|spring|summer|autumn|fall|winter"
    r"|christmas|easter|ramadan|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|\w+days?|\w+(?:ian|ic|cene|ous))\b",
    re.IGNORECASE,
)


def fits_question_type(question: str, answer: str) -> bool | None:
    """Whether the answer has the type that the question asks for; None if the question does not say."""
    kind = expected_answer_type(question)
    if kind == "date":
        return bool(read_dates(answer))
    if kind == "number":
        return read_number(answer) is not None
    if kind == "yes or no":
        return read_yes_no(answer) is not None
    if kind in ("person", "place"):
        named = bool(_LETTER.search(answer)) and read_yes_no(answer) is None
        return named and not (kind == "person" and bool(_DIGIT.search(answer)))
    return None


def explain_type_mismatch(question: str, answer: str) -> str:
    """Say why an answer is clearly of another type than its question asks for; "" if it may fit.

    Clear are a date for a place, and for "when" a name that is not one of a time.
    """
    expected = expected_answer_type(question)
    if expected == "place" and _all_within(answer, date_spans(answer)):
        return "a place is asked for, and a date given"
    if expected == "date" and _WHEN.match(question) and fits_question_type(question, answer) is False:
        named = _all_within(answer, name_spans(answer, _begin(answer)))
        if named and not _DIGIT.search(answer) and not _OF_TIME.search(answer):
            return "a date is asked for, and a name given"
    return ""


def _all_within(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a text holds nothing but these spans and small words before them."""
    rest = text[_begin(text) :]
    for start, end in spans:
        rest = rest.replace(text[start:end], " ", 1)
    return bool(spans) and re.search(r"\w", rest) is None


def _begin(text: str) -> int:
    lead = _LEAD.match(text)
    return lead.end() if lead else 0
