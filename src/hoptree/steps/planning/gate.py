"""Whether several chains of thought agree so much that nothing needs to be looked up."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.steps.answering.choose import majority
from hoptree.values import Answer

__all__ = ["agreement_gate"]

_ROUNDING = 1e-9


def agreement_gate(ctx: Context, chains: Sequence[Answer], *, least: float) -> tuple[Answer, bool]:
    """The answer of most chains, and whether at least this share of them gives it.

    The decision is recorded for every question: how often it passes, and how often it is right then, explains much of
    the score of a method that begins with it. The answer is proposed for the case that the budget ends.
    """
    answer, share = majority(ctx, chains, when="gate")
    passed = answer.known and share + _ROUNDING >= least
    ctx.decide("agreement", passed, share=round(share, 4), least=least, chains=len(chains), answer=answer.text)
    ctx.propose(answer, order=1)
    return answer, passed
