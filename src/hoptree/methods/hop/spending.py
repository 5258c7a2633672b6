"""Which move comes next: the one that promises most for its tokens, while an answer is in doubt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hoptree.choosing import Outlook, Policy
from hoptree.methods.hop.candidates import Standing

__all__ = ["FIRST", "SETTLING", "next_move"]

FIRST, SETTLING = "read", "which"


def next_move(
    moves: Collection[str], standings: Sequence[Standing], outlook: Callable[[str], Outlook | None], policy: Policy
) -> str:
    """The name of the next move; "" where an answer is likely enough, or no move that is left is worth its tokens.

    One reading comes first whatever is known of it. Two answers are held against each other only where they are close.
    A policy that is never sure makes every move whose gain is not under what it asks for.
    """
    if FIRST in moves:
        return FIRST
    likely = standings[0].probability if standings else 0.0
    if likely >= policy.sure and policy.sure < 1:
        return ""
    close = len(standings) > 1 and likely - standings[1].probability <= policy.close
    gains = {name: _gain(outlook(name), likely) for name in moves if name != SETTLING or close}
    best = max(gains, key=lambda name: gains[name], default="")
    return best if best and gains[best] >= policy.worth else ""


def _gain(outlook: Outlook | None, likely: float) -> float:
    return outlook.gain(likely) if outlook else 0.0
