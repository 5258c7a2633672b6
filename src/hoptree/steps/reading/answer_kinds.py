"""Whether an answer is of the kind that its question asks for."""

from __future__ import annotations

import re

from hoptree.comparing import asked_kind, read_dates, read_number, read_yes_no

__all__ = ["fits_kind"]

_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")


def fits_kind(question: str, answer: str) -> bool | None:
    """Whether the answer is a date, a number, a name, yes or no as the question asks; None where it does not tell."""
    kind = asked_kind(question)
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
