"""From text to the terms that are indexed and searched."""

from __future__ import annotations

import re
import unicodedata
from math import log

import tantivy

from hoptree.core.errors import ConfigError

_MAX_TERM_BYTES = 60
_STEMMED = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
    *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
)
_WITH_STOP_WORDS = frozenset(_STEMMED) - {"arabic", "greek", "romanian", "tamil", "turkish"}
_QUESTION_WORDS = {
    "english": re.compile(r"\b(?:what|which|who|whom|whose|when|where|why|how|do|does|did)\b", re.IGNORECASE),
}
# Scripts that write no spaces between words: Thai to Khmer, kana, Chinese characters. Hangul has spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def analyzer_for(language: str) -> tantivy.TextAnalyzer:
    """Return an analyzer that drops case, stop words, endings and accents; `none` keeps stop words and endings.

    Accents go last, since stop words and endings are written with them. In English they go before endings: only names
    have them, and the stemmer makes "emil" of Emile and leaves Émile.
    """
    if language not in (*_STEMMED, "none"):
        raise ConfigError(f"There is no stemmer for '{language}'.", f"Use one of {', '.join(_STEMMED)}, or none.")
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(
        tantivy.Filter.remove_long(_MAX_TERM_BYTES)
    )
    builder = builder.filter(tantivy.Filter.lowercase())
    if language in _WITH_STOP_WORDS:
        builder = builder.filter(tantivy.Filter.stopword(language))
    if language == "english":
        builder = builder.filter(tantivy.Filter.ascii_fold())
    if language != "none":
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def without_asking(query: str, language: str) -> str:
    """Return a query without its question words, which say nothing of what a passage is about.

    A capitalised one is a name (The Who), unless the query begins with it.
    """
    pattern = _QUESTION_WORDS.get(language)
    if pattern is None:
        return query
    first = len(query) - len(query.lstrip())
    return pattern.sub(lambda word: " " if word[0].islower() or word.start() == first else word[0], query)


def inverse_document_frequency(total: int, having: int) -> float:
    """Return how much a term tells that `having` of `total` texts have, as BM25 counts it."""
    return log(1 + (total - having + 0.5) / (having + 0.5))


def composed(text: str) -> str:
    """Return the text with each accented letter as one character, and without lone surrogates."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())


def pairs(text: str) -> list[str]:
    """Return every two neighbouring characters of scripts without spaces: their terms."""
    if text.isascii():
        return []
    terms: list[str] = []
    for run in _UNSPACED.findall(text):
        terms += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    return terms
