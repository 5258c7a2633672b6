"""From text to the terms that are indexed and looked for."""

from __future__ import annotations

import re
import unicodedata

import tantivy

from hoptree.core.errors import ConfigError

_LONGEST = 60
"""Bytes of a term: what is longer is no word."""
_STEMMED = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
    *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
)
_STOPPED = frozenset(_STEMMED) - {"arabic", "greek", "romanian", "tamil", "turkish"}  # those have no list of stop words
_ASKING = {
    "english": re.compile(r"\b(?:what|which|who|whom|whose|when|where|why|how|do|does|did)\b", re.IGNORECASE),
}
# Scripts that write no spaces between words: Thai to Khmer, kana, Chinese characters. Hangul has spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def analyzer_for(language: str) -> tantivy.TextAnalyzer:
    """Lower-cased words without stop words, endings and accents; `none` keeps stop words and endings.

    Accents go last, since stop words and endings are written with them; in English they go before endings do, for only
    names have them, and the stemmer makes "emil" of Emile and leaves Émile.
    """
    if language not in (*_STEMMED, "none"):
        raise ConfigError(f"There is no stemmer for '{language}'.", f"Use one of {', '.join(_STEMMED)}, or none.")
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.remove_long(_LONGEST))
    builder = builder.filter(tantivy.Filter.lowercase())
    if language in _STOPPED:
        builder = builder.filter(tantivy.Filter.stopword(language))
    if language == "english":
        builder = builder.filter(tantivy.Filter.ascii_fold())
    if language != "none":
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def without_asking(query: str, language: str) -> str:
    """A query without the words that make a question of it: in a passage they say nothing about what is asked.

    One that is written with a capital is a name (The Who), unless the query begins with it.
    """
    pattern = _ASKING.get(language)
    if pattern is None:
        return query
    begins = len(query) - len(query.lstrip())
    return pattern.sub(lambda word: " " if word[0].islower() or word.start() == begins else word[0], query)


def composed(text: str) -> str:
    """The text with letters and their accents as one character each, and without halves of characters."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def pairs(text: str) -> list[str]:
    """Every two neighbouring characters of what is written without spaces: the terms of such scripts."""
    if text.isascii():
        return []
    found: list[str] = []
    for run in _UNSPACED.findall(text):
        found += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    return found
