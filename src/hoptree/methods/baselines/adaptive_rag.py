"""Adaptive-RAG: no search, one search, or one a sentence, by question complexity."""

from __future__ import annotations

from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.baselines.ircot import ircot
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think
from hoptree.methods.steps.route import ask_for_label, choose_strategy, list_strategies, load_strategies, record_choice
from hoptree.text.parse_labels import likeliest_label, read_choice

_, _MODERATE, _COMPLEX = _LABELS = ("A", "B", "C")
_LABEL_TOKENS = 4


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
    shared_prompts=REASONING_PROMPTS,
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
    `route` labels the question. With `checkpoint` it is the trained classifier, which reads the bare question and
    writes A, B or C, of which the likeliest counts; without, any model is asked by a prompt with six examples. A reply
    that is not a label counts as C, which costs time and nothing else.
    """
    ctx.require_corpus()
    if checkpoint:
        label = await _classify(ctx, question.text)
    else:
        labels = load_strategies(ctx.method)
        prompt = prompt_for(ctx.method, "route").fill(ways=list_strategies(labels), question=question.text)
        label = await choose_strategy(ctx, prompt, labels)
    shown: dict[str, Any] = {"shots": shots, "draw": draw, "titles": titles}
    if label == _COMPLEX:
        return await ircot(question, ctx, k=k_sentence, max_docs=max_docs, max_sentences=max_sentences, **shown)
    passages = await ctx.search(question.text, k=k) if label == _MODERATE else ()
    (answer,) = await think(ctx, question.text, passages=passages, **shown)
    return answer


async def _classify(ctx: Context, question: str) -> str:
    """Return the label that the trained classifier gives the bare question."""
    if ctx.model_for("route") is ctx.model_for("answer"):
        raise ConfigError(
            "With checkpoint=on the trained classifier labels questions, and no model of its own was given for it.",
            "Name it: --role route=hf/FOLDER, or leave checkpoint off.",
        )
    prompt = prompt_for(ctx.method, "classify").fill(question=question.strip())
    choice = await ask_for_label(ctx, "classify", prompt, role="route", max_tokens=_LABEL_TOKENS)
    label = likeliest_label(choice.tokens, _LABELS) or read_choice(choice.text, _LABELS)
    return record_choice(ctx, "classify", label, choice.text, _LABELS)
