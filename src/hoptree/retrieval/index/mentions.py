"""Which names a passage mentions: titles and aliases of other documents, and the names it writes with capitals.

A name counts where it stands as whole words. Which names are found in a passage does not depend on which other
names there are, so that a document added later gives the same mentions as one that was there from the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import ahocorasick_rs

from hoptree.retrieval.index.analysis import composed

__all__ = ["NameFinder", "capitalised", "folded", "mentions", "names_of"]

_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")
_SHORTEST, _LONGEST = 3, 120
_TOO_LONG = 1_000
"""Characters of a title that is none, whatever stands in brackets at its end."""
_MOST_PER_PASSAGE = 64
_CONNECTOR = "of|the|and|de|la|le|du|des|da|di|del|von|van|der|den|al|bin|ibn|for|in|on"
_CAPITALS = (
    "A-ZÀ-ÖØ-ÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĴĶĹĻĽĿŁŃŅŇŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽΑ-ΩА-ЯЁ"  # a class of its own: quicker
)
_WRITTEN = rf"[{_CAPITALS}][\w'’.&-]*"
_SPAN = re.compile(rf"{_WRITTEN}(?: (?:(?:{_CONNECTOR}) (?:the |la )?)?{_WRITTEN})*")
_ENDS_SENTENCE = '.!?:\n"“'
_WORD = re.compile(r"\w+")
_NO_WORD = re.compile(r"\W")
_NO_WORDS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")}


def folded(name: str) -> str:
    """A name as it is compared: lower case, single spaces, no punctuation around its words."""
    return " ".join(_WORD.findall(name.casefold()))


def names_of(title: str, aliases: Iterable[str] = ()) -> tuple[str, ...]:
    """The names a passage is found by: its title without a qualifier in brackets, its last heading, its aliases."""
    found: dict[str, None] = {}
    for said in (title, *aliases):
        parts = composed(said).split(" › ")
        for part in dict.fromkeys((parts[0], parts[-1])) if len(parts) > 1 else parts:
            part = part.strip()
            if len(part) > _TOO_LONG:
                continue
            name = _QUALIFIER.sub("", part) or part
            if _SHORTEST <= len(name) <= _LONGEST and not name.isdigit() and any(c.isalpha() for c in name):
                found[name] = None
    return tuple(found)


def capitalised(text: str) -> set[str]:
    """The names a text writes with capitals; a single word counts only where no sentence begins with it."""
    found = set()
    for match in _SPAN.finditer(text):
        span = match[0].rstrip(".'’-&")
        start = match.start()
        begins = _begins_sentence(text, start)
        if " " in span or (len(span) > _SHORTEST and not begins):
            found.add(span)
            if len(found) >= _MOST_PER_PASSAGE:
                break
    return found


def _begins_sentence(text: str, at: int) -> bool:
    before = at - 1
    while before >= 0 and text[before].isspace():
        before -= 1
    return before < 0 or text[before] in _ENDS_SENTENCE


class NameFinder:
    """Finds many names in a text at once (Aho-Corasick)."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: list[str] = list(names)
        self._finder = ahocorasick_rs.AhoCorasick(
            [_spaced(_lowered(name)) for name in self._names],
            implementation=ahocorasick_rs.Implementation.ContiguousNFA,
            store_patterns=False,
        )

    def __call__(self, text: str) -> Iterator[str]:
        """The names that stand in the text as whole words, written as the name is (several words may begin small)."""
        for index, start, end in self._finder.find_matches_as_indexes(_spaced(_lowered(text)), overlapping=True):
            name, written = self._names[index], text[start : end - 2]
            if written == name or (" " in name and written[1:] == name[1:]):
                yield name


def mentions(text: str, name: str) -> bool:
    """Whether a text mentions one name; to look for many, a finder is quicker."""
    return name[1:] in text and any(True for _ in NameFinder([name])(text))


def _lowered(text: str) -> str:
    """The text in lower case, but for a letter that would grow (the Turkish İ): places must stay what they are."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in text)


def _spaced(text: str) -> str:
    """The text with spaces for all that is no word, and around it: a name between spaces is one of whole words."""
    return f" {text.translate(_NO_WORDS) if text.isascii() else _NO_WORD.sub(' ', text)} "
