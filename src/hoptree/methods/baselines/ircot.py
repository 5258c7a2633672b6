"""IRCoT: retrieval interleaved with reasoning step by step."""

from __future__ import annotations

from functools import partial

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.writing.interleaving import Gathered, read_afresh, reason_and_search
from hoptree.steps.writing.stretch import Pen
from hoptree.steps.writing.worked import draw_documented
from hoptree.values import Answer, Question

__all__ = ["ircot"]


@method(
    "ircot",
    title="Interleaved retrieval and reasoning",
    paper="IRCoT",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="After every sentence",
    query="The last sentence of the reasoning",
)
async def ircot(
    question: Question,
    ctx: Context,
    *,
    k: int = 6,
    max_docs: int = 15,
    max_sentences: int = 10,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Search with each sentence of the reasoning, gather what is found, and let a reader reason over all of it.

    Every search gives `k` passages; at most `max_docs` are gathered, those that came first. The reasoning ends with an
    answer, with nothing new, or after `max_sentences`. The reader begins afresh; only if it gives no answer is that of
    the reasoning taken. `shots` worked examples are shown, each with its documents; another `draw` than 0 shows others.
    A passage counts as there already if title and text are the same, so that a page cut into
    several can be read whole.
    """
    ctx.require_corpus()
    pen = Pen(ctx, question.text, draw_documented(shots, draw, titles=titles), telling=None)
    gathered = Gathered(max_docs)
    search = partial(ctx.search, k=k)
    reasoning = await reason_and_search(ctx, pen, gathered, search=search, max_sentences=max_sentences, titles=titles)
    found = gathered.passages
    return await read_afresh(ctx, question.text, reasoning, found, shots=shots, draw=draw, titles=titles)
