"""What a run's questions cost: calls, tokens, retrievals, money and time, in all and for one question."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from hoptree.errors import InputError
from hoptree.values import Usage

__all__ = ["Spread", "spread", "summarise_usage"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A cost over all questions; `p95` is the smallest value that 95 % of them do not exceed.

    Without questions, all but the total are None.
    """

    total: float
    mean: float | None
    median: float | None
    p95: float | None

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)


def spread(values: Sequence[float]) -> Spread:
    """The total of the values and how they are spread."""
    if not values:
        return Spread(0.0, None, None, None)
    total, ordered = math.fsum(values), sorted(values)
    p95 = ordered[-(-95 * len(ordered) // 100) - 1]
    return Spread(total, total / len(values), statistics.median(ordered), p95)


def summarise_usage(usages: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """The spread of everything a question's usage counts, and of `tokens` (prompt and completion together).

    Failed questions are among them: what was spent on them was spent. A usage that lacks a figure is refused, for 0
    would make the run look cheaper than it was.
    """
    names = [field.name for field in fields(Usage)]
    for usage in usages:
        if missing := [name for name in names if name not in usage]:
            raise InputError(
                f"A question's usage does not say its {', '.join(missing)}.", "Run it again with this version."
            )
    found = {name: spread([usage[name] for usage in usages]) for name in names}
    found["tokens"] = spread([usage["prompt_tokens"] + usage["completion_tokens"] for usage in usages])
    return found
