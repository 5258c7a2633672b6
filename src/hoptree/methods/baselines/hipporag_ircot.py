"""HippoRAG with IRCoT: every thought is searched for through the graph of facts."""

from __future__ import annotations

from functools import partial

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.baselines.hipporag import SIGNALS, BestFound, recall, require_facts
from hoptree.methods.baselines.ircot import read_afresh, reason_and_search
from hoptree.methods.steps.continuation import Pen
from hoptree.methods.steps.worked_examples import draw_documented


@method(
    "hipporag_ircot",
    title="Facts and passages for every thought",
    paper="HippoRAG",
    needs=("corpus",),
    signals=(*SIGNALS, "prefix"),
    iterative=True,
    strategy="After every thought",
    query="Facts nearest to the last thought",
    roles=("answer", "recognise"),
)
async def hipporag_ircot(
    question: Question,
    ctx: Context,
    *,
    k: int = 5,
    facts: int = 5,
    recognise: bool = True,
    max_steps: int = 3,
    found: int = 20,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Think a sentence, search for it as `hipporag` does, keep the passages with the best scores, and read them.

    Every search gives `found` passages, with scores from 0 to 1; one that several gave has the best of its scores, and
    the `k` best are in view of the next thought and are read in the end. The reasoning ends with an answer, with
    nothing new, or after `max_steps` thoughts (2 to 4 in the released settings). `facts` and `recognise` are those of
    `hipporag`, and so is the corpus. `shots` worked examples with documents fit any data set, where the released
    code has templates for some; another `draw` than 0 shows others. Plain IRCoT with `--retriever hippo` gathers what
    came first instead.
    """
    require_facts(ctx)
    pen = Pen(ctx, question.text, draw_documented(shots, draw, titles=titles), telling=None)
    best = BestFound(k)
    search = partial(recall, ctx, k=max(found, k), facts=facts, recognised=recognise)
    reasoning = await reason_and_search(ctx, pen, best, search=search, max_sentences=max_steps, titles=titles)
    ctx.decide("read", best.read)
    return await read_afresh(ctx, question.text, reasoning, best.passages, shots=shots, draw=draw, titles=titles)
