"""Which words of a text carry content: nouns, names, adjectives, verbs and numbers."""

from __future__ import annotations

import importlib
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from hoptree.errors import ConfigError
from hoptree.uncertainty.closed_words import ACRONYMS, CLOSED, HAVE, LY_CONTENT, NAME_LIKE, OWNED, STRICT
from hoptree.uncertainty.spans import Span
from hoptree.uncertainty.words import Word, unspaced, word_spans

__all__ = ["LexiconTagger", "SpacyTagger", "Tagger", "begins_sentence", "content_words", "open_tagger"]

_ENDS = frozenset('.!?:\n"“”')
_CONTENT_TAGS = frozenset(("NOUN", "PROPN", "ADJ", "VERB", "NUM"))
_LONG = 3
_USUAL = "en_core_web_sm"


class Tagger(Protocol):
    """Tells, for each of the words that stand at these places of a text, whether it carries content."""

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]: ...


def open_tagger(said: str = "rules") -> Tagger:
    """The tagger of this name: `rules`, `rules:LANGUAGE`, `spacy:MODEL`, or `spacy` for an English model that is there.

    Nothing is ever downloaded. spaCy is not taken by itself: what is asked of a method would depend on the machine.
    """
    kind, _, name = said.strip().partition(":")
    if kind == "rules":
        return LexiconTagger(name or "en")
    if kind == "spacy":
        return _spacy_tagger(name)
    raise ConfigError(
        f"There is no tagger '{said}'.",
        "Choose rules, rules:LANGUAGE (as in rules:de), spacy, or spacy:MODEL (as in spacy:en_core_web_sm).",
    )


@cache
def _spacy_tagger(model: str) -> SpacyTagger:
    """A model of spaCy, loaded once: it takes seconds, and each question asks for it."""
    return SpacyTagger(model)


def content_words(text: str, words: Sequence[Word], tagger: Tagger) -> tuple[bool, ...]:
    """Which of these words of a text carry content; of those that one token wrote together, one is enough."""
    spans = word_spans(text)
    carrying = [start for (start, _), carries in zip(spans, tagger.content(text, spans), strict=True) if carries]
    return tuple(bisect_left(carrying, word.start) < bisect_left(carrying, word.end) for word in words)


class LexiconTagger:
    """Takes English words for content unless a list or an ending says otherwise.

    In other languages, for which there is no list, words of more than three letters are content, and names, numbers and
    the characters of scripts that are written without spaces.
    """

    def __init__(self, language: str = "en") -> None:
        self._english = language.partition("-")[0].lower() == "en"

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]:
        words = [text[start:end] for start, end in spans]
        begins = [begins_sentence(text, start) for start, _ in spans]
        if not self._english:
            return tuple(
                len(word) > _LONG or unspaced(word[:1]) or _is_number(word) or (word[:1].isupper() and not begin)
                for word, begin in zip(words, begins, strict=True)
            )
        return tuple(
            _is_content(word, words[place + 1] if place + 1 < len(words) else "", begins[place])
            for place, word in enumerate(words)
        )


class SpacyTagger:
    """The parts of speech of a spaCy model that is installed; without a name the first English one."""

    def __init__(self, model: str = "") -> None:
        try:
            spacy: Any = importlib.import_module("spacy")
        except ImportError as error:
            raise ConfigError(
                "The tagger spacy needs spaCy, which is not installed.",
                "Install it (pip install spacy), or set tagger=rules.",
            ) from error
        if not model:
            model = next((one for one in sorted(spacy.util.get_installed_models()) if one.startswith("en_")), _USUAL)
        try:
            self._read: Any = spacy.load(model)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"spaCy has no model {model} on this machine.",
                f"Install it (python -m spacy download {model}), or set tagger=rules.",
            ) from error

    def content(self, text: str, spans: Sequence[Span]) -> tuple[bool, ...]:
        tagged = [(token.idx, token.idx + len(token.text)) for token in self._read(text) if token.pos_ in _CONTENT_TAGS]
        found = []
        at = 0
        for start, end in spans:
            while at < len(tagged) and tagged[at][1] <= start:
                at += 1
            found.append(at < len(tagged) and tagged[at][0] < end)
        return tuple(found)


def _is_content(word: str, following: str, begins: bool) -> bool:
    plain = _bare(word.casefold().replace("’", "'"))
    if _is_number(word) or (len(word) > 1 and word.isupper() and (plain not in CLOSED or plain in ACRONYMS)):
        return True
    if word[:1].isupper() and plain not in STRICT:
        if plain in NAME_LIKE:
            return not begins or following[:1].isupper() or following[:1].isdigit()
        if not begins:
            return True
    if plain in HAVE:
        return not begins and (following.casefold() in OWNED or _is_number(following))
    if plain in CLOSED:
        return False
    return not plain.endswith("ly") or plain in LY_CONTENT or len(plain) < 5


def _bare(word: str) -> str:
    """The word without what hangs on it behind an apostrophe: "doesn't" is "does", "it's" is "it"."""
    head, mark, tail = word.partition("'")
    if tail == "t" and head.endswith("n"):
        return head[:-1] if head[:-1] in CLOSED else head
    return head if mark and tail in ("s", "re", "ve", "ll", "d", "m", "") else word


def _is_number(word: str) -> bool:
    return any(character.isdigit() for character in word)


def begins_sentence(text: str, start: int) -> bool:
    """Whether nothing but marks that may open one stands between the end of a sentence and this place."""
    before = text[max(0, start - 8) : start].rstrip(" \t'‘(*[")
    return not before or before[-1] in _ENDS
