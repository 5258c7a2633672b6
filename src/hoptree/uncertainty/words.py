"""From the tokens of a reply to its words, each with its place in the text and the tokens that wrote it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.uncertainty.spans import Span, token_spans

__all__ = ["Word", "find_words", "unspaced", "word_spans"]

_JOINS = frozenset("'’-‐‑&")
_UNSPACED = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: its characters from `start` to `end`, its tokens from `first` to `last`, both exclusive.

    A word that no token wrote (one of the prompt, say) has none: `first` is `last`.
    """

    text: str
    start: int
    end: int
    first: int = 0
    last: int = 0

    @property
    def tokens(self) -> range:
        return range(self.first, self.last)


def word_spans(text: str) -> tuple[Span, ...]:
    """Where the words of a text stand: letters, digits and the accents on them.

    "don't", "well-known", "AT&T", "1,000.5" and "U.S" are one word each; full stops behind a word, brackets and dashes
    belong to none. In scripts that are written without spaces every character is a word.
    """
    found: list[Span] = []
    begin = -1
    for at, character in enumerate(text):
        alone = unspaced(character)
        inside = not alone and (_lettered(character) or (begin >= 0 and _joins(text, begin, at)))
        if begin >= 0 and not inside:
            found.append((begin, at))
            begin = -1
        if alone:
            found.append((at, at + 1))
        elif inside and begin < 0:
            begin = at
    return (*found, (begin, len(text))) if begin >= 0 else tuple(found)


def find_words(text: str, pieces: Sequence[str]) -> tuple[Word, ...]:
    """The words of a text with the tokens that wrote them, in order; a token belongs to one word at most.

    Words that only one token wrote together ("New York" as one token) are one word. The tokens of punctuation belong
    to none, unlike in DRAGIN, where the doubt about whether a sentence ends counts for the word before the full stop.
    """
    spans = word_spans(text)
    found: list[Word] = []
    number = 0
    places = token_spans(text, pieces)
    for start, end in spans:
        while number < len(places) and _ends_before(places[number], start):
            number += 1
        first = number
        while number < len(places) and _begins_before(places[number], end):
            number += 1
        last = number
        while last > first and places[last - 1] is None:
            last -= 1
        if first == last and found and _reaches(places, found[-1], start):
            found[-1] = replace(found[-1], text=text[found[-1].start : end], end=end)
        else:
            found.append(Word(text[start:end], start, end, first, last))
    return tuple(found)


def _ends_before(place: Span | None, start: int) -> bool:
    return place is None or place[1] <= start


def _begins_before(place: Span | None, end: int) -> bool:
    return place is None or place[0] < end


def _reaches(places: Sequence[Span | None], word: Word, start: int) -> bool:
    """Whether the last token of a word reaches into what begins at `start`."""
    place = places[word.last - 1] if word.tokens else None
    return place is not None and place[1] > start


def _lettered(character: str) -> bool:
    return character.isalnum() or (character > "\u02ff" and unicodedata.category(character).startswith("M"))


def unspaced(character: str) -> bool:
    """Whether a character is of a script that writes words without spaces."""
    return character > "\u303f" and any(low <= ord(character) <= high for low, high in _UNSPACED)


def _joins(text: str, begin: int, at: int) -> bool:
    """Whether a mark inside a text holds two parts of one word together."""
    mark, before, after = text[at], text[at - 1], text[at + 1 : at + 2]
    if not after or not _lettered(after) or unspaced(after):
        return False
    if mark in _JOINS:
        return _lettered(before)
    if mark == ",":
        return before.isdigit() and after.isdigit()
    initial = at - 1 == begin or (at - 2 >= begin and text[at - 2] == ".")
    return mark == "." and (
        (before.isdigit() and after.isdigit()) or (before.isalpha() and after.isalpha() and initial)
    )
