"""Which words may begin a name: not those that have their capital only because a sentence begins with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.uncertainty.closed_words import words_of
from hoptree.uncertainty.spans import Span
from hoptree.uncertainty.tagging import Tagger, begins_sentence

__all__ = ["NameTagger", "begins_ordinarily"]

_ORDINARY = words_of(
    "many several few other others one two three answer answers question questions reason reasoning step context "
    "note fact facts actor actors actress actresses artist artists author authors band bands book books brother "
    "brothers characters children cities composer composers countries critics daughter daughters director "
    "directors documentary family father fathers film films husband king members mother mothers movie movies "
    "musicians nationality novel novels parents people place places player players president producer producers "
    "queen scientists sister sisters singer singers son song songs sons students wife women men writer writers "
    "year years date born built came composed created died directed featuring filmed following formed founded "
    "given held including known led located made named produced published raised recorded released set shot "
    "starred starring sung taken using won written"
)
"""Nouns, participles and numbers that sentences about people and their works begin with."""
_PARTICIPLE = re.compile(r"(?!.*(?:[^aeiour]red|ha?mm?ed)$)[a-z]{3,}ed")
"""Alfred, Mildred, Ahmed and Mohammed are none."""
_BESIDE = re.compile(r"\s+(?:in|on|at|by|for|from|to|as|into|with|after|before|during|around)\b")
_LONGEST = 60


def begins_ordinarily(text: str, span: Span) -> bool:
    """Whether the word at this place begins a sentence, and is not likely to begin a name.

    It is listed, or a participle before a preposition, or stands in small letters elsewhere. Before another capital it
    is a part of a name ("Film Socialisme"), and behind a colon or a quotation mark it may be a whole one.
    """
    start, end = span
    word, plain = text[start:end], text[start:end].lower()
    before = text[max(0, start - 8) : start].rstrip(" ")
    if not word[:1].isupper() or word[1:] != plain[1:] or before.endswith((":", '"', "“", "”")):
        return False
    behind = text[end : end + _LONGEST]
    if not begins_sentence(text, start) or (behind[:1].isspace() and behind.lstrip()[:1].isupper()):
        return False
    if plain in _ORDINARY or (_PARTICIPLE.fullmatch(plain) and _BESIDE.match(behind)):
        return True
    return re.search(rf"\b{re.escape(plain)}\b", text) is not None


@dataclass(frozen=True, slots=True)
class NameTagger:
    """Takes for content what another tagger does, but for ordinary words that begin a sentence."""

    tagger: Tagger

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]:
        return tuple(
            carries and not begins_ordinarily(text, span)
            for span, carries in zip(spans, self.tagger.content(text, spans), strict=True)
        )
