"""MIND's sub-query: names that are sure, and the words that say what is sought about them."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.graph.naming import fold
from hoptree.names import name_spans
from hoptree.uncertainty import Span, Tagger, begins_ordinarily, word_spans
from hoptree.uncertainty.queries import answer_leads

__all__ = ["sought_words", "sub_query"]


def sought_words(sentence: str, hits: Sequence[Span], tagger: Tagger) -> tuple[str, ...]:
    """The content words of a sentence that belong to no name and are not in doubt: they name the relation sought."""
    spans = word_spans(sentence)
    names, left_out = name_spans(sentence), (*hits, *answer_leads(sentence))
    return tuple(
        sentence[start:end].removesuffix("'s").removesuffix("’s")
        for (start, end), carries in zip(spans, tagger.content(sentence, spans), strict=True)
        if carries
        and not _is_possessive(sentence, (start, end))
        and not _meets((start, end), left_out)
        and (begins_ordinarily(sentence, (start, end)) or not _meets((start, end), names))
    )


def sub_query(names: Sequence[str], sought: Sequence[str], *, limit: int) -> str:
    """The names and the words that are not in them, each once, up to so many words."""
    parts: list[str] = []
    said: set[str] = set()
    for part in (*names, *sought):
        words = {fold(part[start:end]) for start, end in word_spans(part)}
        if not words <= said:
            parts.append(part)
            said |= words
    return " ".join(" ".join(parts).split()[:limit])


def _is_possessive(sentence: str, word: Span) -> bool:
    """Whether a word is the "s" behind a bracket or a quotation mark, which no word hangs on to."""
    start, end = word
    return sentence[start:end].casefold() == "s" and sentence[start - 1 : start] in ("'", "’")


def _meets(word: Span, places: Sequence[Span]) -> bool:
    return any(first < word[1] and word[0] < last for first, last in places)
