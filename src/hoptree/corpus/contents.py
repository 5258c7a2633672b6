"""Detect tables of contents, lists of links or headwords, and notes to write.

Readers mark the lines that are entries of such a list (`is_entry`); lines with leaders and a page number
("Tables … 12") are recognised by their form, and headwords by their order. A passage of only such lines is marked, and
a search ranks it behind text: it has many words of a question close together, but no answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter

from hoptree.corpus.document import BETWEEN_HEADINGS

_MIN_LINKS = 3  # of a list; fewer may be a sentence with links
_CONTENTS_HEADINGS = frozenset(
    (
        *("table of contents", "contents", "navigation", "next topic", "previous topic", "inhaltsverzeichnis"),
        *("inhalt", "nächstes thema", "vorheriges thema", "目录", "导航", "下一个主题", "上一个主题"),
    )
)
"""Below one of these headings a single link is enough."""
_MIN_ENTRY_SHARE = 0.75  # of the letters of a passage that are in entries
_MIN_LINK_SHARE, _MIN_TITLE_SHARE = 0.5, 0.95  # of the letters of an entry that are links; of one that is a sentence
_MAX_NAVIGATION_WORDS = 16
_LETTER = re.compile(r"[^\W\d_]")
_SENTENCE = re.compile(r"\w\w[.!?。！？][\"'”’»)]*\s*$")
_LEADER_MARKS = ("…", "....", ". . .", "::", "\x7f")
_LEADERS = re.compile(r"(?:…|(?:\.\s?){4})\s{0,9}(?:\d{1,4}|[ivxlc]{1,7})$", re.IGNORECASE)
_INFO_ENTRY = re.compile(r"\* [^:]+::|(?:Node|Ref): .*\x7f\d+$")
"""A line of a menu, or of the table of nodes, in GNU Info."""
_MIN_HEADWORDS, _MIN_SORTED_SHARE = 20, 0.85
_MAX_HEADWORD_WORDS, _MAX_LINE_WORDS = 4.0, 1.5  # on average, of paragraphs and of lines, which may be rows of a table
_MAX_HEADWORD_CHARS, _MAX_OTHER_SHARE = 40, 0.1  # of the letters, in other lines
_DATA = re.compile(r"[\d;|=\t]|\w:|,\S|\S  +\S")
"""A mark of code, or of a row of data."""
_PLACEHOLDER = re.compile(r"\b(?:TODO|TBD|FIXME|[Tt]o be (?:written|done|added|completed))\b")
_MAX_PLACEHOLDER_CHARS = 80
_END_CHARS = 40  # of a line that are searched for leaders or the end of a sentence

Entry = tuple[int, int, int]
"""Where an entry begins and ends, and how many links it has."""


def is_entry(line: str, linked: Sequence[str], *, has_navigation_link: bool = False) -> bool:
    """Return whether a line is little more than links, or a navigation bar.

    `linked` are the words of its links to other documents; `has_navigation_link` says that one turns the page.
    """
    if has_navigation_link and len(line.split()) <= _MAX_NAVIGATION_WORDS:
        return True
    link_share = sum(map(_letters, linked)) / max(_letters(line), 1)
    return link_share >= _MIN_LINK_SHARE and (
        link_share >= _MIN_TITLE_SHARE or not _SENTENCE.search(line[-_END_CHARS:])
    )


def lists_contents(text: str, start: int, end: int, entries: Sequence[Entry], title: str) -> bool:
    """Return whether a passage has only entries; lines of its title do not count."""
    piece, title = text[start:end], title.casefold()
    if lists_headwords(piece) or (len(piece) <= _MAX_PLACEHOLDER_CHARS and _PLACEHOLDER.search(piece)):
        return True
    within = bisect_right(entries, end, key=itemgetter(0)) - bisect_right(entries, start, key=itemgetter(1))
    if within <= 0 and not any(leader in piece for leader in _LEADER_MARKS):  # as for nearly all passages
        return False
    listed = total = count = 0
    at = start
    for line in piece.split("\n"):
        if line.strip() and line.strip().casefold() not in title:
            place = bisect_right(entries, at, key=itemgetter(0)) - 1
            marked = place >= 0 and entries[place][1] > at
            counted = _letters(line)
            total += counted
            if marked or _LEADERS.search(line.rstrip()[-_END_CHARS:]) or _INFO_ENTRY.match(line):
                listed += counted
                count += entries[place][2] if marked else 1
        at += len(line) + 1
    least = 1 if title.rpartition(BETWEEN_HEADINGS)[2] in _CONTENTS_HEADINGS else _MIN_LINKS
    return count >= least and listed >= _MIN_ENTRY_SHARE * total


def lists_headwords(piece: str) -> bool:
    """Return whether a passage is a long list of words in alphabetical order."""
    if piece.count("\n") + 1 < _MIN_HEADWORDS:  # as for most passages
        return False
    lines = [line.strip() for line in piece.split("\n") if line.strip()]
    words = sum(len(line.split()) for line in lines)
    is_spaced = piece.count("\n") > 1.5 * len(lines)
    if len(lines) < _MIN_HEADWORDS or words > len(lines) * (_MAX_HEADWORD_WORDS if is_spaced else _MAX_LINE_WORDS):
        return False
    others = (line for line in lines if len(line) > _MAX_HEADWORD_CHARS or _DATA.search(line) or _SENTENCE.search(line))
    if sum(map(_letters, others)) > _MAX_OTHER_SHARE * _letters(piece):
        return False
    keys = ["".join(filter(str.isalnum, line.casefold())) for line in lines]
    return sum(before <= word for before, word in pairwise(keys)) >= _MIN_SORTED_SHARE * (len(keys) - 1)


def _letters(text: str) -> int:
    return len(_LETTER.findall(text))
