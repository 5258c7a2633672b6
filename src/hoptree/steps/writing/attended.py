"""What words of a draft look back at: how much the rest of it hangs on each, and what to search for (DRAGIN's)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from hoptree.models.model import Signal, Token
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import plain, prompt_for
from hoptree.steps.writing.rewriting import Doubt
from hoptree.steps.writing.stretch import Draft, Pen
from hoptree.uncertainty import Span, Tagger, attended_query, content_query, token_spans

__all__ = ["weigh", "with_attention", "words_behind"]


async def weigh(ctx: Context, draft: Draft) -> Draft:
    """A draft with the attention that its tokens get when it is read by itself, in a turn that nothing was asked in.

    So do DRAGIN's authors, and their thresholds are in these units: with question, documents and worked examples in
    view, what is left for the draft depends on how long these are. A draft whose model tells no attention stays.
    """
    if not draft.text or all(token.attention is None for token in draft.tokens):
        return draft
    prompt = prompt_for(ctx.method, "weigh").fill()
    told: frozenset[Signal] = frozenset(("attention",))
    reply = await ctx.generate("weigh", prompt, max_tokens=0, prefix=draft.text, signals=told, part=True)
    return with_attention(draft, reply.choices[0].tokens)


def with_attention(draft: Draft, read: tuple[Token, ...]) -> Draft:
    """A draft with the attention of tokens that are of the same text, though it may be cut into others.

    What a token gets goes to the one in which it begins, so that the sum of a word is the same.
    """
    starts = [(place[0], number) for number, place in enumerate(_places(draft.text, draft.tokens)) if place]
    paid: dict[int, float] = {}
    for token, place in zip(read, _places(draft.text, read), strict=True):
        at = bisect_right(starts, (place[0], len(draft.tokens))) - 1 if place else -1
        if at >= 0 and token.attention is not None:
            number = starts[at][1]
            paid[number] = paid.get(number, 0.0) + token.attention
    tokens = [replace(one, attention=paid.get(at)) for at, one in enumerate(draft.tokens)]
    return replace(draft, tokens=tuple(tokens))


def _places(text: str, tokens: tuple[Token, ...]) -> tuple[Span | None, ...]:
    return tuple(token_spans(text, [token.text for token in tokens]))


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
