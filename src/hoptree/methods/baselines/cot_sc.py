"""Self-consistency: sample chains of thought, and take the majority answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import majority
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think


@decision("share", shown_as="share")
class ShareComputed(Decision):
    """The share of chains with this answer, of all chains or of those with an answer."""

    value: float
    of: str


@method(
    "cot_sc",
    title="Self-consistent chains of thought",
    paper="CoT-SC",
    signals=("prefix",),
    shared_prompts=REASONING_PROMPTS,
)
async def cot_sc(
    question: Question,
    ctx: Context,
    *,
    samples: int = 10,
    temperature: float = 0.7,
    share_of: Literal["all", "answered"] = "all",
    shots: int = 6,
    draw: int = 0,
    max_tokens: int = 256,
) -> Answer:
    """Sample several chains of thought, and take their most frequent answer.

    Answers are counted in their normal form; of equals the one with the likeliest chain is taken, else the first. The
    answer's confidence is its share of all chains, as in ToG-2, or with `share_of=answered` of those with an answer, as
    in CoK. If no chain has an answer, the model is asked again without sampling.
    """
    shown: dict[str, Any] = {"shots": shots, "draw": draw, "max_tokens": max_tokens}
    chains = await think(ctx, question.text, samples=samples, temperature=temperature, **shown)
    answer, share = majority(ctx, chains, when="chains")
    if not answer.known:
        (answer,) = await think(ctx, question.text, **shown)
        return answer
    if share_of == "answered":
        share *= len(chains) / sum(chain.known for chain in chains)
    ctx.emit(ShareComputed(value=round(share, 4), of=share_of))
    return replace(answer, confidence=share)
