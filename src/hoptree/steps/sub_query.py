"""MIND's sub-query: names that are sure, and the words that say what is sought about them."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.graph.naming import fold
from hoptree.names import name_spans
from hoptree.uncertainty import Span, Tagger, word_spans
from hoptree.uncertainty.queries import answer_leads

__all__ = ["sought_words", "sub_query"]


def sought_words(sentence: str, hits: Sequence[Span], tagger: Tagger) -> tuple[str, ...]:
    """The content words of a sentence that belong to no name and are not in doubt: they name the relation sought."""
    spans = word_spans(sentence)
    left_out = (*hits, *name_spans(sentence), *answer_leads(sentence))
    return tuple(
        sentence[start:end].removesuffix("'s").removesuffix("’s")
        for (start, end), carries in zip(spans, tagger.content(sentence, spans), strict=True)
        if carries and not any(first < end and start < last for first, last in left_out)
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
