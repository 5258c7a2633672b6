"""Worked examples of reasoning step by step, for methods that write such a text and look up what they doubt."""

from __future__ import annotations

import json
import random
from functools import cache
from importlib.resources import files

from hoptree.errors import ConfigError

__all__ = ["Worked", "draw_worked", "load_worked"]

Worked = tuple[str, str]
"""A question and its answer, step by step."""


@cache
def load_worked() -> tuple[Worked, ...]:
    text = (files("hoptree") / "prompts" / "shared" / "worked.jsonl").read_text(encoding="utf-8")
    return tuple((row["question"], row["answer"]) for row in map(json.loads, text.splitlines()))


def draw_worked(count: int, draw: int = 0) -> tuple[Worked, ...]:
    """The first examples, or with another `draw` than 0 others in another order: the same ones for the same draw."""
    bank = load_worked()
    if count > len(bank):
        raise ConfigError(f"There are {len(bank)} worked examples, not {count}.", f"Set shots to {len(bank)} or less.")
    return tuple(random.Random(draw).sample(bank, count)) if draw else bank[:count]
