"""Putting what is right in the place of what was refuted, in questions that were asked about the wrong thing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from hoptree.comparing.dates import date_spans
from hoptree.comparing.names import read_yes_no
from hoptree.names import name_spans
from hoptree.steps.hypotheses.logic_tree import Claim

__all__ = ["carried", "names_it", "parts_of", "substituted"]

Kind = Literal["name", "date"]
_AROUND = re.compile(r"^(?:the|an?)\s+|['’]s$", re.IGNORECASE)
_NUMBER = re.compile(r"[ -]\d{1,3}\b")
"""Behind a name: Apollo 14."""
_ADDED = re.compile(r"\w, (?=\w)(.+)")
_LISTING = re.compile(r",.*,|\b(?:and|or)\b|[;&]")
"""What lists things: no comma in it adds something to a name."""
_DAY = re.compile(r"(?<!\d)\d{1,2}(?!\d)")


def substituted(text: str, wrong: str, right: str) -> str | None:
    """The text with what is right wherever it names what is wrong; None where code cannot tell how.

    A name takes the place of a name and a date that of a date: of "Apollo 8, in December 1968" a question may have
    either part. Nothing takes the place of a part of a longer name, and nothing that is neither a name nor a date is
    put anywhere: a question whether something is so names no yes. Nor is what the text has already: it may ask to
    choose between the two. France, of "Paris, France", is no name of what is wrong, but says of a text that also has
    Paris that code cannot tell.
    """
    in_text = [(kind, part) for kind, part in _parts(wrong) if _as_words(part).search(text)]
    wrong_parts = _wrong_parts(wrong, right)
    named = [one for one in in_text if one in wrong_parts]
    if named and any(one not in named and not _as_words(one[1]).search(right) for one in in_text):
        return None
    put: dict[str, str] = {}
    for kind, part in named:
        counterpart = _counterpart(kind, right)
        if not counterpart or counterpart in put.values() or _inside_longer(part, text):
            return None
        if _as_words(counterpart).search(_put(_as_words(part), "", text)):
            return None
        put[part] = counterpart
    for part, counterpart in put.items():
        if date_spans(part):  # in 1968, but on a day
            said = f"{'on' if _DAY.search(counterpart) else 'in'} {counterpart}"
            text = _put(_as_words(part, before=r"\b(?:in|on) "), said, text)
        text = _put(_as_words(part), counterpart, text)
    return text


def _inside_longer(part: str, text: str) -> bool:
    """Whether a text has a part as a piece of a longer name or date: Prince in Prince Charles, 1966 in May 1966."""
    return any(
        start <= found.start() and found.end() <= end and _bare(text[start:end]) != _bare(part)
        for found in _as_words(part).finditer(text)
        for start, end in (*_names(text), *date_spans(text))
    )


def _bare(name: str) -> str:
    return _AROUND.sub("", name).casefold()


def _put(pattern: re.Pattern[str], said: str, text: str) -> str:
    return pattern.sub(lambda _: said, text)


def names_it(text: str, hypothesis: str, right: str = "") -> bool:
    """Whether a text names what a hypothesis says, or a part of it that what is `right` does not have as well."""
    return any(_as_words(part).search(text) for _, part in _wrong_parts(hypothesis, right))


def carried(refuted: Claim, right: str, *, guesses: bool = True) -> tuple[Claim, ...] | None:
    """What hangs below a refuted claim, with the right answer put in; None where that takes a new tree.

    It does where nothing below names the wrong answer, so that it may be the relation or the shape that is wrong.
    With `guesses` hypotheses stay, as a model that writes the tree anew would likely have them; without, a question
    that changed has none, for what was guessed is the answer to another one.
    """
    if not any(names_it(one.question, refuted.hypothesis, right) for one in refuted.all() if one is not refuted):
        return None
    below = tuple(_carried(child, refuted.hypothesis, right, guesses) for child in refuted.children)
    return None if None in below else tuple(one for one in below if one is not None)


def _carried(claim: Claim, wrong: str, right: str, guesses: bool) -> Claim | None:
    question = substituted(claim.question, wrong, right)
    below = [_carried(child, wrong, right, guesses) for child in claim.children]
    if question is None or None in below:
        return None
    put = replace(claim, question=question, children=tuple(one for one in below if one))
    if question != claim.question and not guesses:
        return replace(put, hypothesis="", dropped=claim.hypothesis or claim.dropped)
    return replace(put, hypothesis=substituted(claim.hypothesis, wrong, right) or claim.hypothesis)


def parts_of(text: str) -> tuple[str, ...]:
    """The names and dates in an answer."""
    return tuple(part for _, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[Kind, str]]:
    """What a text may be named by: its dates, and its names."""
    yield from (("date", text[start:end]) for start, end in date_spans(text))
    yield from (("name", text[start:end]) for start, end in _names(text) if read_yes_no(text[start:end]) is None)


def _wrong_parts(wrong: str, right: str) -> list[tuple[Kind, str]]:
    """The parts of a wrong answer that are wrong: not those of the right one, nor what a comma adds to a name."""
    parts = list(_parts(wrong))
    added = [] if _LISTING.search(wrong) else [match[1] for match in _ADDED.finditer(wrong)]
    return [
        (kind, part)
        for kind, part in parts
        if not (kind == "name" and len(parts) > 1 and any(one.startswith(part) for one in added))
        and not (right and _as_words(part).search(right))
    ]


def _names(text: str) -> list[tuple[int, int]]:
    """Where names stand that are no dates, with a number behind them."""
    dates = date_spans(text)
    return [
        (start, numbered.end() if (numbered := _NUMBER.match(text, end)) else end)
        for start, end in name_spans(text)
        if end - start > 1 and not any(start < until and since < end for since, until in dates)
    ]


def _counterpart(kind: Kind, right: str) -> str:
    """What stands in an answer for a part of another: its one name, or its one date."""
    parts = [part for of, part in _parts(right) if of == kind]
    return parts[0] if len(parts) == 1 else ""


def _as_words(part: str, *, before: str = "") -> re.Pattern[str]:
    return re.compile(rf"{before}(?<!\w){re.escape(part)}(?!\w)", re.IGNORECASE)
