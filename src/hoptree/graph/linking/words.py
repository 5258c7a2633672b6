"""Words of names and questions, normalized for comparison."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hoptree.core.patterns import lazy_re
from hoptree.text.names import fold

_MAX_WORDS = 64
"""Words of a question that are read."""
_MAX_WORD_CHARS = 60
# Scripts without spaces between words: every character is a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = lazy_re(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:'[^\W_{_UNSPACED}]+)*'?")
_DOTTED = lazy_re(r"\b(?:[^\W\d_]\.){2,}")
_QUALIFIER = lazy_re(r"\s*\([^()]*\)\s*$")
_OWNER = lazy_re(r"(?:'s|s')\Z")
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be been being but by can could did do does doing for from had has have having how if "
        "in into is it its me may might must my no not of on or our shall she should so some such tell than that the "
        "their them then there these they this those through to under until was we were what whats when where which "
        "who whom whose whos why will with would you your he her his him give name show list find please",
    )
)
"""English words that are seldom part of what is asked about."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a question; `base` has no possessive ending, `capital` says whether it began with one."""

    text: str
    base: str
    capital: bool = False


def question_words(question: str) -> tuple[Word, ...]:
    """Return the first words of a question, folded."""
    words: list[Word] = []
    for piece in question.replace("&", " and ").split():
        capital = next((letter.isupper() for letter in piece if letter.isalpha()), False)
        for token in _WORD.findall(_DOTTED.sub(lambda match: match[0].replace(".", ""), fold(piece))):
            if token == "s" and piece[:1] in "'’":  # an ending that was written apart
                continue
            word = _plain(token)
            if word:
                words.append(Word(word, _plain(_OWNER.sub("", token)) or word, capital))
        if len(words) >= _MAX_WORDS:
            break
    return tuple(_initials_joined(words[:_MAX_WORDS]))


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, folded: no accents, apostrophes or full stops of initials."""
    return tuple(word.text for word in question_words(name))


def bare_words(name: str) -> tuple[str, ...]:
    """Return the words of a name without brackets at its end; () if it has none."""
    if not name.rstrip().endswith(")"):
        return ()
    bare = _QUALIFIER.sub("", name)
    return name_words(bare) if bare != name else ()


def _plain(word: str) -> str:
    return word.replace("'", "")[:_MAX_WORD_CHARS]


def _initials_joined(words: list[Word]) -> list[Word]:
    """Join letters in a row to one word: J. R. R. and JRR are the same."""
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
def likeness(left: str, right: str) -> float:
    """Return the similarity of two words: 1 if equal, less for one or (in long words) two edits, else 0."""
    if left == right:
        return 1.0
    shorter, longer = sorted((left, right), key=len)
    allowed = 2 if len(shorter) >= 8 else 1
    if len(shorter) < 4 or len(longer) - len(shorter) > allowed or not left.isalpha() or not right.isalpha():
        return 0.0  # another number is another thing
    if len(set(left) ^ set(right)) > 2 * allowed:  # most are, and this takes a tenth of the time
        return 0.0
    distance = _distance(shorter, longer, allowed)
    return (1 - distance / len(longer)) ** 2 if distance <= allowed else 0.0


def _distance(left: str, right: str, allowed: int) -> int:
    """Return the Damerau-Levenshtein distance, or `allowed` + 1 if it is larger."""
    before: list[int] = []
    last = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        line = [row]
        for column, against in enumerate(right, 1):
            least = min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == right[column - 2] and left[row - 2] == against:
                least = min(least, before[column - 2] + 1)
            line.append(least)
        if min(line) > allowed and (row == 1 or min(last) > allowed):
            return allowed + 1
        before, last = last, line
    return last[-1]
