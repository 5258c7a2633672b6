"""What a maker of training rows hands over, and the form that every row has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hoptree.alignment.building.chat_rows import ChatRow
from hoptree.alignment.building.rehearsal import Rehearsed
from hoptree.alignment.questions.reading import TrainingQuestion
from hoptree.errors import ConfigError
from hoptree.models.model import Message

__all__ = [
    "TAIKC",
    "Made",
    "Progress",
    "counting",
    "each_once",
    "rehearsed_row",
    "require",
    "row_of",
    "without_contradictions",
]

TAIKC = "taikc"
"""The method whose prompts most sets have."""

Progress = Callable[[int, int], None]
"""Told how many questions of how many are done."""


@dataclass(frozen=True, slots=True)
class Made:
    """The rows that came of the questions, what was left out for what, and what else is to be told."""

    rows: tuple[ChatRow, ...]
    left_out: dict[str, int]
    told: dict[str, Any]


def counting(total: int, on_progress: Progress) -> Callable[[], None]:
    """What is called once for every question that is done, and tells how many are."""
    done = itertools.count(1)
    return lambda: on_progress(next(done), total)


def row_of(
    question: TrainingQuestion,
    part: str,
    messages: tuple[Message, ...],
    target: str,
    label: str,
    meta: Mapping[str, Any],
) -> ChatRow:
    """A row of a question; `part` tells it from the other rows of the same one."""
    told = {"question": question.key, "split": question.split, **meta}
    key = f"{question.key}/{part}" if part else question.key
    return ChatRow(key, messages, target, label, question.example.dataset, told)


def rehearsed_row(
    question: TrainingQuestion, part: str, rehearsed: Rehearsed[Any], target: str, label: str, meta: Mapping[str, Any]
) -> ChatRow:
    """A row whose prompt is what a step asked when it was rehearsed."""
    return row_of(question, part, rehearsed.messages, target, label, {"template": rehearsed.template, **meta})


def require(understood: bool, rehearsed: Rehearsed[Any], target: str) -> None:
    """A target that the step itself does not understand would teach a model to fail."""
    if not understood:
        raise ConfigError(f"The step of {rehearsed.template} does not take '{target}' for what it means.")


def each_once(rows: list[ChatRow]) -> tuple[list[ChatRow], int]:
    """The rows without those that ask the same and are to be told the same as one before, and how many these were."""
    kept = {(row.messages, row.target): row for row in reversed(rows)}
    firsts = {row.id for row in kept.values()}
    found = [row for row in rows if row.id in firsts]
    return found, len(rows) - len(found)


def without_contradictions(rows: list[ChatRow]) -> tuple[list[ChatRow], int]:
    """The rows whose prompt has one target only, and how many others there were: nobody could learn both of two."""
    targets: dict[tuple[Message, ...], set[str]] = {}
    for row in rows:
        targets.setdefault(row.messages, set()).add(row.target)
    kept = [row for row in rows if len(targets[row.messages]) == 1]
    return kept, len(rows) - len(kept)
