"""The readers of ToG's and CoK's replies take any text, in a time that grows with its length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.steps.broken_texts import LONG, read_all

from hoptree.methods.steps.graph_exploration import read_enough
from hoptree.text.parse_labels import read_scores
from hoptree.text.parse_method_replies import read_corrected, read_rationales

NAMES = [(f"Somebody | relation {number} | ?", f"relation {number}") for number in range(60)]
READERS: dict[str, Callable[[str], object]] = {
    "read_scores": lambda text: read_scores(text, NAMES),
    "read_enough": read_enough,
    "read_rationales": read_rationales,
    "read_corrected": lambda text: read_corrected(text, "It is so."),
}
FURTHER = {
    "scores": "(Score: 0.5) " * 2_000,
    "line breaks": "Score:" + "\n" * 24_750 + "x",
    "verdicts": "Enough: " * 3_000,
    "digits": "1" * 24_750 + "x",
    "marks": "First, " * 3_500,
}


@pytest.mark.parametrize("reader", READERS)
def test_long_replies_are_read_in_time(reader: str) -> None:
    read_all(READERS[reader], LONG | FURTHER)
