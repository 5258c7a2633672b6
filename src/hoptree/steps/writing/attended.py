"""What to search for when words are in doubt: those that they look back at (DRAGIN's query)."""

from __future__ import annotations

from hoptree.runtime.prompts import plain
from hoptree.steps.writing.rewriting import Doubt
from hoptree.steps.writing.stretch import Draft, Pen
from hoptree.uncertainty import Tagger, attended_query, content_query

__all__ = ["words_behind"]


async def words_behind(
    pen: Pen, question: str, doubt: Doubt, draft: Draft, written: Draft, *, tagger: Tagger, limit: int
) -> str:
    """The content words of question and text that the words in doubt attend to most.

    Where attention is not told, those of the question and of the sentence in doubt, but for the words in doubt.
    "" if nothing is left, which is no reason to search.
    """
    before = f"{written.text} " if written.text else ""
    hits = [(len(before) + start, len(before) + end) for start, end in doubt.hits]
    if hits:
        prefix = before + draft.text[: doubt.hits[-1][1]]
        attended = await pen.look_back(prefix, hits)
        # The last time the question stands before the reply is the one that is asked; worked examples come earlier.
        at = attended.text.rfind(plain(question), 0, len(attended.text) - len(prefix)) if attended else -1
        if attended is not None and at >= 0:
            begin = len(attended.text) - len(prefix)
            regions = ((at, at + len(plain(question))), (begin, len(attended.text)))
            return attended_query(
                attended, regions, [(begin + start, begin + end) for start, end in hits], tagger, limit=limit
            )
    words = [draft.text[start:end] for start, end in doubt.hits]
    return content_query((question, draft.text[doubt.start : doubt.end]), words, tagger, limit=limit)
