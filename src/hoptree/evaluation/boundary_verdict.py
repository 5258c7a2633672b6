"""Whether a model's own word on what it knows can be rested on, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

from hoptree.evaluation.calibration import Attempt
from hoptree.evaluation.summary import half_width

__all__ = ["FEWEST", "LEAST_GAP", "LEAST_RIGHT", "Standing", "standing_of"]

FEWEST = 10
"""Questions a model must have been sure of, and refused, before anything is said of it."""
LEAST_RIGHT = 0.5
"""Share of what a model is sure of that must be right: of an answer that is more likely wrong nobody should be sure."""
LEAST_GAP = 0.15
"""F1 by which confident knowledge must exceed the knowledge gap before a model is left to decide what to look up."""

_NONE_USABLE = "this model shows no usable boundary; use source=external."


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure that must reach `least`, with half of its 95 % interval."""

    value: float
    around: float
    least: float

    @property
    def reached(self) -> bool | None:
        """None where it is too close to tell."""
        return None if abs(self.value - self.least) < self.around else self.value >= self.least


@dataclass(frozen=True, slots=True)
class Standing:
    """How many questions a model was sure of and refused; where they are enough, how many of the sure ones are right.

    The boundary is usable where surely (by the 95 % intervals) at least half of what it was sure of is right, and at
    least 15 points of F1 lie between that and what it refused. `gap_around` is half of the interval of those points,
    None where one side has fewer than two questions.
    """

    sure: int
    refused: int
    gap_around: float | None = None
    right: _Figure | None = None
    gap: _Figure | None = None

    @property
    def usable(self) -> bool | None:
        """Whether the model's own word can be rested on; None where the questions do not tell."""
        if not self.sure and not self.refused:
            return None
        if not self.sure or not self.refused:
            return False
        if self.right is None or self.gap is None:
            return None
        reached = (self.right.reached, self.gap.reached)
        return False if False in reached else None if None in reached else True

    @property
    def verdict(self) -> str:
        """What follows for TAIKC, whose default (source=unified) rests on the model's own word."""
        if not self.sure and not self.refused:
            return "No question has an outcome yet."
        if not self.refused:
            return f"It refused nothing: {_NONE_USABLE}"
        if not self.sure:
            return "It answered nothing: with source=unified it would look up everything, as with source=external."
        if self.right is None or self.gap is None:
            few = f"It was sure of {self.sure:,} {'question' if self.sure == 1 else 'questions'}"
            few += f" and refused {self.refused:,}: too few to tell"
            return f"{few} whether it knows what it knows. Ask more, or use source=external."
        right = f"{100 * self.right.value:.1f} % of what it was sure of is right (± {100 * self.right.around:.1f})"
        gap = f"between what it was sure of and what it refused lie {100 * self.gap.value:.1f} points of F1"
        gap += f" (± {100 * self.gap.around:.1f})"
        if self.usable:
            return f"{right}, and {gap}: this model knows what it knows; source=unified can rest on it."
        wanted = {
            f"{right}, and {100 * LEAST_RIGHT:.0f} % are wanted": self.right.reached,
            f"{gap}, and {100 * LEAST_GAP:.0f} are wanted": self.gap.reached,
        }
        said = "; ".join(words for words, reached in wanted.items() if reached is self.usable)
        follows = "too close to tell. Ask more, or use source=external." if self.usable is None else _NONE_USABLE
        return f"{said[0].upper()}{said[1:]}: {follows}"


def standing_of(direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None]) -> Standing:
    """What a verdict rests on: the questions that were asked in both settings, by their ids."""
    kept = [sure for sure in confident.values() if sure is not None]
    refused = [direct[name].f1 for name, sure in confident.items() if sure is None]
    fewer = min(len(kept), len(refused))
    if fewer < 2:
        return Standing(len(kept), len(refused))
    scores = [sure.f1 for sure in kept]
    around = hypot(half_width(scores), half_width(refused))
    if fewer < FEWEST:
        return Standing(len(kept), len(refused), around)
    rights = [float(sure.correct) for sure in kept]
    right = _Figure(sum(rights) / len(rights), half_width(rights), LEAST_RIGHT)
    gap = _Figure(sum(scores) / len(scores) - sum(refused) / len(refused), around, LEAST_GAP)
    return Standing(len(kept), len(refused), around, right, gap)
