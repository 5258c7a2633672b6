"""SeaKR: look up a step where samples of it end in states that lie far apart."""

from __future__ import annotations

import math

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.writing.spreading import Sampler, Steps
from hoptree.steps.writing.stretch import Pen, note_fidelity
from hoptree.steps.writing.worked import draw_worked
from hoptree.values import Answer, Question

__all__ = ["seakr"]

_SIGNALS = ("hidden_states", "prefix", "top_p", "top_k")


@method(
    "seakr",
    title="Self-aware knowledge retrieval",
    paper="SeaKR",
    needs=("corpus", "logprobs"),
    signals=_SIGNALS,
    iterative=True,
    dynamic=True,
    strategy="Spread of the model's states over samples",
    query="The sure words of the step in doubt",
    bounds={"samples": (2, math.inf), "max_docs": (1, math.inf)},  # one sample has nothing to be apart from
)
async def seakr(
    question: Question,
    ctx: Context,
    *,
    theta: float = -6.0,
    samples: int = 20,
    doubt: float = 0.1,
    k: int = 3,
    max_steps: int = 10,
    max_docs: int = 5,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
    encoder: str = "minilm",
) -> Answer:
    """Write step by step, and look a step up if the states behind samples of it lie further apart than theta.

    `samples` are drawn of each step; U is the mean log-determinant of their states. A step with U above `theta` is
    searched for by its content words that question or last step have, or that are sure but for `doubt`. It is written
    again with each of the `k` passages that are new, and the one that leaves the least U stays in view. The answer is
    the surer of those from the steps and from the passages. A model that does not tell its states has its samples
    turned into vectors by `encoder`. `theta` wants tuning for each model, encoder and number of samples; where U is
    above it even if all samples agree, as SmolLM2's is above the authors' -6, that is warned of.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    missing = [name for name in _SIGNALS if name not in ctx.model_for("answer").capabilities]
    note_fidelity(ctx, missing)
    pen = Pen(ctx, question.text, draw_worked(shots, draw), telling=None, judged=True)
    steps = Steps(ctx, pen, Sampler(ctx, pen, samples, encoder, theta), theta, doubt, k, max_docs, titles)
    await steps.write(max_steps)
    return await steps.answer()
