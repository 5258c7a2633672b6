"""FLARE: look ahead one sentence, and look up what it says if any of it was improbable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import holding
from hoptree.methods.steps.conclusion import conclude
from hoptree.methods.steps.continuation import Draft, Pen, note_fidelity, show_context
from hoptree.methods.steps.rewrite_loop import Doubt, Help, Limits, write_with_help
from hoptree.methods.steps.uncertain_sentences import Improbable
from hoptree.methods.steps.worked_examples import draw_worked
from hoptree.text.retrieval_triggers import masked_query


@method(
    "flare",
    title="Forward-looking active retrieval",
    paper="FLARE",
    needs=("corpus", "logprobs"),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Token probability",
    query="The next sentence without its improbable tokens",
    bounds={"theta": (0, 1), "beta": (0, 1)},
)
async def flare(
    question: Question,
    ctx: Context,
    *,
    theta: float = 0.8,
    beta: float = 0.4,
    k: int = 2,
    look_ahead: int = 64,
    max_tokens: int = 256,
    shots: int = 8,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Draft the next sentence, and write it again with documents if one of its tokens is improbable.

    A sentence with a token less probable than `theta` is searched for, without tokens below `beta`; if nothing is left
    of it, the question is. The first sentence is drafted with what the question itself finds in view, later drafts
    without documents. `shots` worked examples are shown; another `draw` than 0 shows others.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    can = ctx.model_for("answer").capabilities
    note_fidelity(ctx, [signal for signal in ("prefix",) if signal not in can])
    pen = Pen(ctx, question.text, draw_worked(shots, draw), telling=None, judged=True)
    search = _Search(ctx, question.text, k, beta, titles)
    await search.begin()
    written = await write_with_help(ctx, pen, Improbable(ctx, theta), search, Limits(look_ahead, max_tokens))
    answer = await conclude(ctx, pen, written, context=search.latest)
    return replace(answer, support=holding(answer.text, search.read)) if answer.known else answer


@dataclass(slots=True)
class _Search:
    ctx: Context
    question: str
    k: int
    beta: float
    titles: bool
    latest: str = ""
    read: list[Passage] = field(default_factory=list)
    _first: bool = True

    async def begin(self) -> None:
        await self._find(self.question)

    def context(self) -> str:
        first, self._first = self._first, False
        return self.latest if first else ""

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | None:
        span = (doubt.start, doubt.end)
        query = masked_query(draft.text, draft.tokens, self.question, beta=self.beta, span=span)
        self.ctx.decide("sub_query", query, sentence=draft.text[doubt.start : doubt.end], beta=self.beta)
        await self._find(query)
        return Help(self.latest)

    async def _find(self, query: str) -> None:
        passages = await self.ctx.search(query, k=self.k)
        self.latest = show_context(self.ctx, passages, titles=self.titles)
        self.read += passages
