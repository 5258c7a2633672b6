"""The words of names and of questions, in the form in which they are compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hoptree.text.names import fold

MOST_WORDS = 64
"""Words of a question that are looked at."""
_LONGEST = 60
"""Characters of a word: what is longer is none."""
# Scripts that write no spaces between words (as in the index of texts): every character is a word of its own there.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:'[^\W_{_UNSPACED}]+)*'?")
_DOTTED = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")
_OWNER = re.compile(r"(?:'s|s')\Z")
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be been being but by can could did do does doing for from had has have having how if "
        "in into is it its me may might must my no not of on or our shall she should so some such tell than that the "
        "their them then there these they this those through to under until was we were what whats when where which "
        "who whom whose whos why will with would you your he her his him give name show list find please",
    )
)
"""English words that ask or join, and are seldom what is asked about."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a question; `base` is without the ending of an owner ("Estes's"), `capital` how it was written."""

    text: str
    base: str
    capital: bool = False


def question_words(question: str) -> tuple[Word, ...]:
    """The first words of a question, folded."""
    found: list[Word] = []
    for piece in question.replace("&", " and ").split():
        capital = next((letter.isupper() for letter in piece if letter.isalpha()), False)
        for said in _WORD.findall(_DOTTED.sub(lambda match: match[0].replace(".", ""), fold(piece))):
            if said == "s" and piece[:1] in "'’":  # an ending that was written apart
                continue
            word = _plain(said)
            if word:
                found.append(Word(word, _plain(_OWNER.sub("", said)) or word, capital))
        if len(found) >= MOST_WORDS:
            break
    return tuple(_initials_joined(found[:MOST_WORDS]))


def name_words(name: str) -> tuple[str, ...]:
    """The words of a name, folded: without accents, apostrophes, and the full stops of initials."""
    return tuple(word.text for word in question_words(name))


def bare_words(name: str) -> tuple[str, ...]:
    """The words of a name without what stands in brackets at its end; none if nothing stands there."""
    if not name.rstrip().endswith(")"):
        return ()
    bare = _QUALIFIER.sub("", name)
    return name_words(bare) if bare != name else ()


def _plain(word: str) -> str:
    return word.replace("'", "")[:_LONGEST]


def _initials_joined(words: list[Word]) -> list[Word]:
    """J. R. R. and JRR are the same: letters in a row become one word."""
    joined: list[Word] = []
    letters: list[Word] = []
    for word in [*words, None]:
        if word is not None and len(word.text) == 1 and word.text.isascii() and word.text.isalpha():
            letters.append(word)
            continue
        if len(letters) > 1:
            text = "".join(letter.text for letter in letters)
            joined.append(Word(text, text, letters[0].capital))
        else:
            joined += letters
        letters = []
        if word is not None:
            joined.append(word)
    return joined


@lru_cache(100_000)
def likeness(one: str, other: str) -> float:
    """How alike two words are: 1 for the same, less for one or (in long words) two letters, 0 for others."""
    if one == other:
        return 1.0
    shorter, longer = sorted((one, other), key=len)
    allowed = 2 if len(shorter) >= 8 else 1
    if len(shorter) < 4 or len(longer) - len(shorter) > allowed or not one.isalpha() or not other.isalpha():
        return 0.0  # another number is another thing
    if len(set(one) ^ set(other)) > 2 * allowed:  # most are, and this takes a tenth of the time
        return 0.0
    distance = _distance(shorter, longer, allowed)
    return (1 - distance / len(longer)) ** 2 if distance <= allowed else 0.0


def _distance(one: str, other: str, allowed: int) -> int:
    """Letters put in, left out, changed, or swapped with the next one; more than `allowed` is not counted further."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, against in enumerate(other, 1):
            least = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == against:
                least = min(least, before[column - 2] + 1)
            line.append(least)
        if min(line) > allowed and (row == 1 or min(last) > allowed):
            return allowed + 1
        before, last = last, line
    return last[-1]
