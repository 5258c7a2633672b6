"""Accepted answers that are none: a list that was printed as a text, and the text taken apart into its characters."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["is_taken_apart"]

_FEWEST = 4


def is_taken_apart(answers: Sequence[str]) -> bool:
    """Whether answers are the characters of a printed list: "[", "'", "A", "p", … for ['Apple', …].

    What was printed cannot be had back: of such rows in some copies of TriviaQA each character is there but once.
    """
    return len(answers) >= _FEWEST and answers[0] == "[" and all(len(answer) == 1 for answer in answers)
