"""CompAct: documents are read five at a time into a summary, until that is enough to answer."""

from __future__ import annotations

import math
from dataclasses import replace

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import answer_from, holding, synthesise
from hoptree.steps.answering.compaction import MAX_TOKENS, Compacted, compress, compress_trained
from hoptree.values import Answer, Question

__all__ = ["compact"]


@method(
    "compact",
    title="Active compression of documents",
    paper="CompAct",
    needs=("corpus",),
    iterative=True,
    query="The question itself",
    roles=("answer", "compress"),
    trained=True,
    reworded=True,
    bounds={"segment": (1, math.inf), "segments": (1, math.inf)},
)
async def compact(
    question: Question,
    ctx: Context,
    *,
    segment: int = 5,
    segments: int = 6,
    max_tokens: int = MAX_TOKENS,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Summarise the documents some at a time until the summary calls itself complete, and answer from it alone.

    One search finds `segment` times `segments` documents. Each turn sees the question, the summary so far, its
    evaluation without the verdict, and the next segment. With `checkpoint`, the role `compress` is played by
    CompAct-7b: it is asked in one turn with the sections it knows, but in other words than its training's, and always
    sees titles; the role `answer` is a reader of any kind. A reply without an evaluation counts as incomplete, one
    without a summary leaves the last one as it is; where no reply had one, the first segment itself is read.
    """
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=segment * segments)
    compacted, seen = Compacted(), 0
    while seen < len(passages) and not compacted.complete:
        some = passages[seen : seen + segment]
        if checkpoint:
            compacted = await compress_trained(ctx, question.text, some, compacted, max_tokens=max_tokens)
        else:
            compacted = await compress(ctx, question.text, some, compacted, titles=titles, max_tokens=max_tokens)
        seen += len(some)
    ctx.decide("ended", "complete" if compacted.complete else "documents", read=seen, of=len(passages))
    if not compacted.summary:
        return await answer_from(ctx, question.text, passages[:segment], titles=titles)
    answer = await synthesise(ctx, question.text, [compacted.summary])
    # Without an answer, too, what was read is what there is to see, not all that was found.
    return replace(answer, support=holding(answer.text if answer.known else "", passages[:seen]))
