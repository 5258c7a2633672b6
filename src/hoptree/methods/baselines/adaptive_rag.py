"""Adaptive-RAG: no search, one search, or a search after every sentence, by how complex a question is."""

from __future__ import annotations

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.baselines.ircot import ircot
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.route import choose_way, classify, list_ways, load_ways

_SIMPLE, _MODERATE, _COMPLEX = "A", "B", "C"
_LABELS = (_SIMPLE, _MODERATE, _COMPLEX)


@method(
    "adaptive_rag",
    title="Retrieval adapted to the question",
    paper="Adaptive-RAG",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Complexity of the question",
    query="The question itself, or the last sentence of the reasoning",
    roles=("answer", "route"),
    trained=True,
)
async def adaptive_rag(
    question: Question,
    ctx: Context,
    *,
    checkpoint: bool = False,
    k: int = 15,
    k_sentence: int = 6,
    max_docs: int = 15,
    max_sentences: int = 10,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Label the question simple, moderate or complex; then think from memory, from one search, or as IRCoT does.

    One search gives `k` passages; IRCoT's give `k_sentence` each, up to `max_docs` after `max_sentences`. The role
    `route` labels the question: with `checkpoint` it is the trained classifier, which reads the bare question and
    writes A, B or C, of which the likeliest counts; without, any model is asked by a prompt with six examples. A reply
    that is no label counts as C, with which nothing is lost but time.
    """
    ctx.require_corpus()
    label = await _label(ctx, question.text, checkpoint)
    if label == _COMPLEX:
        return await ircot(
            question,
            ctx,
            k=k_sentence,
            max_docs=max_docs,
            max_sentences=max_sentences,
            shots=shots,
            draw=draw,
            titles=titles,
        )
    passages = await ctx.search(question.text, k=k) if label == _MODERATE else ()
    (answer,) = await think(ctx, question.text, passages=passages, shots=shots, draw=draw, titles=titles)
    return answer


async def _label(ctx: Context, question: str, checkpoint: bool) -> str:
    if not checkpoint:
        prompt = prompt_for(ctx.method, "route").fill(ways=list_ways(load_ways(ctx.method)), question=question)
        return await choose_way(ctx, prompt, _LABELS, default=_COMPLEX)
    if ctx.model_for("route") is ctx.model_for("answer"):
        raise ConfigError(
            "With checkpoint=on the trained classifier labels questions, and no model of its own was given for it.",
            "Name it: --role route=hf/FOLDER, or leave checkpoint off.",
        )
    return await classify(ctx, question, _LABELS, default=_COMPLEX)
