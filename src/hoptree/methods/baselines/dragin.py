"""DRAGIN: look up what a model is unsure of, as far as the rest of its sentence hangs on it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import holding
from hoptree.steps.answering.conclusion import conclude
from hoptree.steps.writing.attended import weigh, words_behind
from hoptree.steps.writing.doubts import Disagreeing, Unsure
from hoptree.steps.writing.rewriting import Doubt, Help, Judge, Limits, write_with_help
from hoptree.steps.writing.stretch import Draft, Pen, show_context, telling_of
from hoptree.steps.writing.worked import draw_worked
from hoptree.uncertainty import Fixed, Tagger, open_tagger
from hoptree.values import Answer, Passage, Question

__all__ = ["dragin"]


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
    """Write on until a content word is unsure and attended to, look it up, and write that sentence again.

    A word hits if its entropy times its share of attention exceeds `theta`, which wants tuning for each model and data
    set. The share is read off the draft by itself, in a pass of its own, as the authors do. Searched are the `words`
    content words of question and text that the hits attend to most. Without attention each word counts alike, and the
    query is made of the content words of question and sentence but for the hits; without entropy it is estimated from
    the 20 likeliest tokens; without these five samples of each sentence are drawn, and it is in doubt if their content
    words differ by more than `disagree`. `max_tokens` counts the whole text. `shots` worked examples are shown; another
    `draw` than 0 shows others. Which words carry content is told by `tagger`: rules for English, or for another
    language (rules:de), or a model of spaCy that is installed (spacy:en_core_web_sm, which the authors use).
    """
    ctx.require_corpus()
    telling = telling_of(ctx, attention=True)
    pen = Pen(ctx, question.text, draw_worked(shots, draw), telling=telling, attention=True)
    tags = open_tagger(tagger)
    search = _Search(ctx, pen, question.text, tags, k, words, titles)
    judge: Judge = Unsure(ctx, tags, Fixed(theta), weigh=weigh)
    if telling == "samples":
        judge = Disagreeing(ctx, pen, tags, theta=disagree, stretch=max_tokens, context=search.context)
    written = await write_with_help(ctx, pen, judge, search, Limits(max_tokens, max_tokens))
    answer = await conclude(ctx, pen, written)
    return replace(answer, support=holding(answer.text, search.read)) if answer.known else answer


@dataclass(slots=True)
class _Search:
    ctx: Context
    pen: Pen
    question: str
    tagger: Tagger
    k: int
    words: int
    titles: bool
    read: list[Passage] = field(default_factory=list)

    def context(self) -> str:
        return ""

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | None:
        query = await words_behind(self.pen, self.question, doubt, draft, written, tagger=self.tagger, limit=self.words)
        self.ctx.decide("sub_query", query, sentence=draft.text[doubt.start : doubt.end])
        if not query:
            return None
        passages = await self.ctx.search(query, k=self.k)
        self.read += passages
        return Help(show_context(self.ctx, passages, titles=self.titles))
