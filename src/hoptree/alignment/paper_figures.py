"""How many rows a set has and how long they are, beside what TAIKC's Tables 1, 5 and 6 say of the paper's own."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hoptree.alignment.chat import ChatRow

__all__ = ["PAPER", "Figures", "beside_the_paper"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows, and the mean lengths of instruction and output.

    The paper does not say what it counts; as RAG_REQUIRED has a length of 4, it is tokens. Here it is words.
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


def beside_the_paper(rows: Sequence[ChatRow], whole: str) -> list[dict[str, Any]]:
    """A line for each label of the rows and one for all, which are what the paper calls `whole`."""
    labels = sorted({row.label for row in rows}, key=list(PAPER).index)
    chosen = {label: [row for row in rows if row.label == label] for label in labels}
    return [
        {"part": name, **_means(some), "paper": asdict(PAPER[name])} for name, some in (*chosen.items(), (whole, rows))
    ]


def _means(rows: Sequence[ChatRow]) -> dict[str, Any]:
    asked = [sum(len(turn.content.split()) for turn in row.messages) for row in rows]
    said = [len(row.target.split()) for row in rows]
    return {
        "rows": len(rows),
        "instruction": round(statistics.fmean(asked), 1) if rows else 0.0,
        "output": round(statistics.fmean(said), 1) if rows else 0.0,
    }
