"""HippoRAG 2: facts that the model recognises lead to passages, through a graph of all facts."""

from __future__ import annotations

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import answer_from
from hoptree.steps.linking.recognition import SIGNALS, recall, require_facts
from hoptree.values import Answer, Question

__all__ = ["hipporag"]


@method(
    "hipporag",
    title="Retrieval through a graph of extracted facts",
    paper="HippoRAG",
    needs=("corpus",),
    signals=SIGNALS,
    query="Facts nearest to the question",
    roles=("answer", "recognise"),
)
async def hipporag(
    question: Question,
    ctx: Context,
    *,
    k: int = 5,
    facts: int = 5,
    recognise: bool = True,
    titles: bool = False,
) -> Answer:
    """Find facts near the question, keep those that help, walk from them over the graph of facts, and read.

    The corpus is an index with facts (`hoptree graph extract`, `hoptree index facts`), searched with `--retriever
    hippo`, which `auto` is here, and which has the rest of the method: the walk from the phrases of the facts,
    personalised PageRank, and the passages it leads to. Any other corpus is searched as it is, with a warning: then
    this is `oner`. The model keeps what helps of the `facts` nearest ones, all of them with `recognise=off` or if its
    reply cannot be read; where it keeps none, passages are ranked by their own text, which a decision tells. `k` are
    read. Unlike the released code, a fact's nearness is measured by that of the nearest one, not by the span from there
    to the farthest of all; two phrases are tied once for each passage that relates them, not twice; and phrases with
    different numbers in them are no synonyms.
    """
    require_facts(ctx)
    passages = await recall(ctx, question.text, k=k, facts=facts, recognised=recognise)
    return await answer_from(ctx, question.text, passages, titles=titles)
