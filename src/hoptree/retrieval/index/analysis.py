"""From text to the terms that are indexed and looked for."""

from __future__ import annotations

import re

import tantivy

from hoptree.errors import ConfigError

__all__ = ["analyzer_for", "pairs"]

_LONGEST = 60
"""Bytes of a term: what is longer is no word."""
_STEMMED = (
    *("arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian"),
    *("norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish"),
)
# Scripts that write no spaces between words: Thai to Khmer, kana, Chinese characters. Hangul has spaces.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def analyzer_for(language: str) -> tantivy.TextAnalyzer:
    """Lower-cased words without accents, stop words and endings; `none` keeps stop words and endings."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.remove_long(_LONGEST))
    builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.ascii_fold())
    if language == "none":
        return builder.build()
    if language not in _STEMMED:
        raise ConfigError(f"There is no stemmer for '{language}'.", f"Use one of {', '.join(_STEMMED)}, or none.")
    try:
        builder = builder.filter(tantivy.Filter.stopword(language))
    except ValueError:  # a few languages have a stemmer and no list of stop words
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.remove_long(_LONGEST))
        builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.ascii_fold())
    return builder.filter(tantivy.Filter.stemmer(language)).build()


def pairs(text: str) -> list[str]:
    """Every two neighbouring characters of what is written without spaces: the terms of such scripts."""
    if text.isascii():
        return []
    found: list[str] = []
    for run in _UNSPACED.findall(text):
        found += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    return found
