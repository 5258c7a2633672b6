"""DRAGIN: look up uncertain words that the rest of their sentence attends to."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from hoptree.core.values import Answer, Passage, Question, Token
from hoptree.engine.context import Context
from hoptree.engine.prompts import break_control_tokens, prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps import chain_of_thought as chain
from hoptree.methods.steps.answer import supporting_ids
from hoptree.methods.steps.chain_of_thought import Draft, Generator
from hoptree.methods.steps.uncertain_sentences import (
    Disagreeing,
    Judge,
    LookupResult,
    SubQuery,
    UncertainSentence,
    Unsure,
    write_with_help,
)
from hoptree.models.model import Signal
from hoptree.text.names import Tagger, open_tagger
from hoptree.text.retrieval_triggers import FixedThreshold, attended_query, content_query
from hoptree.text.tokens import token_spans


@method(
    "dragin",
    title="Dynamic retrieval by information needs",
    paper="DRAGIN",
    needs=("corpus",),
    signals=("entropy", "attention", "prefix"),
    iterative=True,
    dynamic=True,
    strategy="Entropy and attention of words",
    query="The words that those in doubt attend to",
    shared_prompts=chain.REASONING_PROMPTS,
)
async def dragin(
    question: Question,
    ctx: Context,
    *,
    theta: float = 1.0,
    disagree: float = 0.5,
    k: int = 3,
    words: int = 25,
    max_tokens: int = 128,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
    tagger: str = "rules",
) -> Answer:
    """Write until a content word is uncertain and attended to, look it up, and rewrite its sentence.

    A word hits if its entropy times its share of attention exceeds `theta`, which needs tuning for each model and data
    set. The share is read off the draft by itself, in a pass of its own, as the authors do. The query is the `words`
    content words of question and text that the hits attend to most. Without attention each word counts alike, and the
    query is made of the content words of question and sentence but for the hits. Without entropy it is estimated from
    the 20 likeliest tokens. Without these, five samples of each sentence are drawn, and it is in doubt if their content
    words differ by more than `disagree`. `max_tokens` counts the whole text. `shots` worked examples are shown; another
    `draw` than 0 shows others. `tagger` tells which words carry content: rules for English, or for another language
    (rules:de), or a model of spaCy that is installed (spacy:en_core_web_sm, which the authors use).
    """
    ctx.require_corpus()
    signal = chain.uncertainty_signal(ctx)
    generator = Generator(ctx, question.text, chain.draw_examples(shots, draw), signal=signal, attention=True)
    tags = open_tagger(tagger)
    helper = _Helper(ctx, generator, tags, k, words, titles)
    judge: Judge = Unsure(ctx, tags, FixedThreshold(theta), weigh=weigh)
    if signal == "samples":
        judge = Disagreeing(ctx, generator, tags, theta=disagree, max_tokens=max_tokens, context=helper.context)
    written = await write_with_help(ctx, generator, judge, helper, draft_tokens=max_tokens, total_tokens=max_tokens)
    answer = await chain.conclude(ctx, generator, written)
    return replace(answer, support=supporting_ids(answer.text, helper.read)) if answer.known else answer


async def weigh(ctx: Context, draft: Draft) -> Draft:
    """Return a draft with the attention of its tokens when the model reads it alone.

    DRAGIN's thresholds need this: in a full prompt, the attention left for the draft depends on the length of question,
    documents and examples. A draft without attention is returned unchanged.
    """
    if not draft.text or all(token.attention is None for token in draft.tokens):
        return draft
    prompt = prompt_for(ctx.method, "weigh").fill()
    signals: frozenset[Signal] = frozenset(("attention",))
    reply = await ctx.generate("weigh", prompt, max_tokens=0, prefix=draft.text, signals=signals, part=True)
    return with_attention(draft, reply.choices[0].tokens)


def with_attention(draft: Draft, read: tuple[Token, ...]) -> Draft:
    """Copy attention to a draft from other tokens of the same text."""
    places = token_spans(draft.text, [token.text for token in draft.tokens])
    starts = [(place[0], number) for number, place in enumerate(places) if place]
    attention: dict[int, float] = {}
    for token, place in zip(read, token_spans(draft.text, [token.text for token in read]), strict=True):
        at = bisect_right(starts, (place[0], len(draft.tokens))) - 1 if place else -1
        if at >= 0 and token.attention is not None:
            number = starts[at][1]
            attention[number] = attention.get(number, 0.0) + token.attention
    tokens = [replace(token, attention=attention.get(number)) for number, token in enumerate(draft.tokens)]
    return replace(draft, tokens=tuple(tokens))


_MAX_HITS = 32  # words whose attention is asked for; each has a weight for every word of the prompt


@dataclass(slots=True)
class _Helper:
    ctx: Context
    generator: Generator
    tagger: Tagger
    k: int
    words: int
    titles: bool
    read: list[Passage] = field(default_factory=list)

    def context(self) -> str:
        return ""

    async def look_up(self, doubt: UncertainSentence, draft: Draft, written: Draft) -> LookupResult | None:
        query = await self._query(doubt, draft, written)
        self.ctx.emit(SubQuery(value=query, sentence=draft.text[doubt.start : doubt.end]))
        if not query:
            return None
        passages = await self.ctx.search(query, k=self.k)
        self.read += passages
        return LookupResult(chain.show_context(self.ctx, passages, titles=self.titles))

    async def _query(self, doubt: UncertainSentence, draft: Draft, written: Draft) -> str:
        """Return the words that the hits attend to, or else all content words but hits."""
        question = self.generator.question
        if doubt.hits:
            before = f"{written.text} " if written.text else ""
            hits = [(len(before) + start, len(before) + end) for start, end in doubt.hits]
            prefix = before + draft.text[: doubt.hits[-1][1]]
            attended = await self.generator.attended_from(prefix, hits[:_MAX_HITS])
            begin = len(attended.text) - len(prefix) if attended else 0
            # The question's last occurrence before the reply is the actual one; examples come earlier.
            at = attended.text.rfind(break_control_tokens(question), 0, begin) if attended else -1
            if attended is not None and at >= 0:
                regions = ((at, at + len(break_control_tokens(question))), (begin, len(attended.text)))
                hits = [(begin + start, begin + end) for start, end in hits]
                return attended_query(attended, regions, hits, self.tagger, limit=self.words)
        words = [draft.text[start:end] for start, end in doubt.hits]
        return content_query((question, draft.text[doubt.start : doubt.end]), words, self.tagger, limit=self.words)
