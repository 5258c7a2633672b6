"""How many rows a set has and how long they are, beside what TAIKC's Tables 1, 5 and 6 say of the paper's own."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["PAPER", "Figures", "Length", "beside_the_paper"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows, and the mean lengths of instruction and output.

    The paper does not say what it counts; as RAG_REQUIRED has a length of 4, it is tokens.
    """

    rows: int
    instruction: float
    output: float
    table: int


PAPER = {
    "instructions": Figures(9589, 267.8, 27.4, 1),
    "boundary": Figures(3096, 148.3, 3.9, 1),
    "decompose": Figures(1900, 252.4, 77.6, 5),
    "read": Figures(4821, 358.4, 8.5, 5),
    "summary": Figures(2868, 125.9, 25.9, 5),
    "confident": Figures(1267, 150.1, 3.9, 6),
    "gap": Figures(1829, 147.1, 4.0, 6),
}
_WHOLES = {"instructions": ("decompose", "read", "summary"), "boundary": ("confident", "gap")}
"""The sets that the paper counts as one, and their parts."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long a row's instruction and output are, in words or in tokens; `label` is the part that it is of."""

    label: str
    instruction: int
    output: int


def beside_the_paper(lengths: Sequence[Length]) -> list[dict[str, Any]]:
    """A line for each part of which there are rows, and one for the parts together; other rows are passed over."""
    lines = []
    for whole, parts in _WHOLES.items():
        some = {part: [one for one in lengths if one.label == part] for part in parts}
        together = [one for rows in some.values() for one in rows]
        lines += [_line(name, rows) for name, rows in (*some.items(), (whole, together)) if rows]
    return lines


def _line(name: str, rows: Sequence[Length]) -> dict[str, Any]:
    return {
        "part": name,
        "rows": len(rows),
        "instruction": round(statistics.fmean(one.instruction for one in rows), 1),
        "output": round(statistics.fmean(one.output for one in rows), 1),
        "paper": asdict(PAPER[name]),
    }
