"""MIND: look up what a model doubts, and remember what was read."""

from __future__ import annotations

import math
from typing import Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.mind.lookup import Filter, Lookup
from hoptree.methods.mind.memory import FactMemory
from hoptree.methods.steps.chain_of_thought import (
    REASONING_PROMPTS,
    Generator,
    conclude,
    draw_examples,
    uncertainty_signal,
)
from hoptree.methods.steps.uncertain_sentences import Disagreeing, Judge, Unsure, write_with_help
from hoptree.text.names import open_tagger
from hoptree.text.retrieval_triggers import DynamicThreshold, FixedThreshold, Threshold

_ALPHA, _BETA, _TOP_K = 1.5, 0.2, 2


def _check(*, threshold: str, theta: float | None, top_k: int, cut: float | None, **options: object) -> None:
    """Refuse what another option leaves without effect."""
    fixed = threshold == "fixed"
    if theta is not None and not fixed:
        raise ConfigError(
            f"theta={theta:g} is a fixed threshold, and threshold is dynamic.", "Set threshold=fixed, too."
        )
    for name, default in (("alpha", _ALPHA), ("beta", _BETA), ("over", "sentence")):
        if fixed and options[name] != default:
            raise ConfigError(
                f"{name}={options[name]} belongs to the dynamic threshold, and threshold is fixed.",
                "Leave it out, or set threshold=dynamic.",
            )
    if cut is not None and top_k != _TOP_K:
        raise ConfigError(
            f"top_k={top_k} counts what is kept, and cut={cut:g} keeps what is as sure as that, however many.",
            "Leave one of them out.",
        )


@method(
    "mind",
    title="Memory-aware, uncertainty-guided retrieval",
    paper="MIND",
    needs=("corpus",),
    signals=("entropy", "attention", "prefix"),
    iterative=True,
    dynamic=True,
    strategy="Entropy and attention of words, against a threshold of their own",
    query="A question about filtered names",
    deviating_options={
        "attention=scaled": "beta is then the same for every sentence, as it was when alpha and beta were tuned",
        "sub_query=words": "words suit BM25 and cost no call; a question is what the paper's example searches with",
        "over=history": "a mean over more words is steadier than that of a short sentence",
    },
    roles=("answer", "extract", "filter"),
    bounds={"top_k": (1, math.inf)},
    check=_check,
    shared_prompts=REASONING_PROMPTS,
)
async def mind(
    question: Question,
    ctx: Context,
    *,
    filters: Filter = "cot+confidence",
    threshold: Literal["dynamic", "fixed"] = "dynamic",
    alpha: float = _ALPHA,
    beta: float = _BETA,
    over: Literal["sentence", "history"] = "sentence",
    attention: Literal["raw", "scaled"] = "raw",
    theta: float | None = None,
    disagree: float = 0.5,
    gamma: float = 1.0,
    delta: float = 0.2,
    top_k: int = _TOP_K,
    cut: float | None = None,
    memory: bool = True,
    admit: float = 0.5,
    rendered: int = 3,
    k: int = 3,
    sub_query: Literal["question", "words"] = "question",
    words: int = 25,
    stretch: int = 64,
    max_tokens: int = 256,
    retrievals: int = 8,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
    tagger: str = "rules",
) -> Answer:
    """Generate until a word is uncertain, search with filtered names, keep facts, and rewrite the sentence.

    A word's score is its entropy times its share of attention, as in DRAGIN: the paper defines none. The `dynamic`
    threshold (Equation 3) is `alpha` times the mean entropy of content words plus `beta` times the mean attention,
    `over` the sentence or all text so far; it rises with the sentence, so that one which is unsure everywhere is not
    looked up. The `fixed` threshold is `theta`, by default 1.0. `attention=scaled` has a mean of 1 over a sentence.
    Candidates are the names of the question and of the reasoning; of the `filters` they go through, `confidence`
    (Equation 4) keeps the `top_k` surest of names and relations by `gamma` / (1 + H) + `delta` a (5 in the authors'
    code), or all above `cut`.
    `cot` asks the model which names the next step needs. The `sub_query` is a question that the model
    writes about the kept names; with words, and where it writes none, it is the names with up to `words` words of the
    sentence. `memory` holds facts that passages state about kept names with a confidence of `admit` or more; the
    `rendered` surest are shown, and known facts are not searched for again. Without entropy or attention, which
    hf/smollm and hf/qwen give, it works as dragin does. `stretch` and `max_tokens` limit a draft and the whole text,
    `retrievals` all searches. `shots` worked examples are shown; another `draw` shows others. `tagger`: see dragin.

    Known limits: relations can be surer than every name, so that a search has no name. Names that the extractor invents
    are not held against the question. Memory knows relations by their words: several values of one relation (starring,
    child) read as sources that differ, other words for the same relation go unnoticed, and prepositions do not count.
    """
    ctx.require_corpus()
    _check(threshold=threshold, theta=theta, alpha=alpha, beta=beta, over=over, top_k=top_k, cut=cut)
    scaled = attention == "scaled"
    by: Threshold = FixedThreshold(1.0 if theta is None else theta)
    if threshold == "dynamic":
        by = DynamicThreshold(alpha, beta, over, scaled)
    tags = open_tagger(tagger)
    signal = uncertainty_signal(ctx, beyond=scaled or over == "history" or sub_query == "words")
    generator = Generator(ctx, question.text, draw_examples(shots, draw), signal=signal, attention=True)
    lookup = Lookup(
        ctx=ctx, question=question.text, tagger=tags, memory=FactMemory(admit) if memory else None,
        filters=filters, gamma=gamma, delta=delta, top_k=top_k, cut=cut, scaled=scaled,
        scores_question="confidence" in filters and signal == "entropy", by_question=sub_query == "question",
        words=words, k=k, rendered=rendered, titles=titles, searches_left=retrievals,
    )  # fmt: skip
    await lookup.extract()  # step 1
    judge: Judge = Unsure(ctx, tags, by)
    if signal == "samples":
        judge = Disagreeing(ctx, generator, tags, theta=disagree, max_tokens=stretch, context=lookup.context)
    # Steps 2 to 6.
    written = await write_with_help(ctx, generator, judge, lookup, draft_tokens=stretch, total_tokens=max_tokens)
    return lookup.add_support(await conclude(ctx, generator, written, context=lookup.context()))  # step 7
