"""Worked decompositions to show a model: three fixed ones, or the nearest of the bank."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

__all__ = ["Demonstration", "fixed", "load_bank", "nearest"]

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question with its plan as JSON text."""

    kind: str
    question: str
    plan: str


@cache
def load_bank() -> tuple[Demonstration, ...]:
    """All demonstrations; the first three show two leaves, one chain and two chains, as the paper's do."""
    text = (files("hoptree") / "prompts" / "taikc" / "bank.jsonl").read_text(encoding="utf-8")
    rows = (json.loads(line) for line in text.splitlines())
    return tuple(
        Demonstration(row["kind"], row["question"], json.dumps(row["plan"], ensure_ascii=False)) for row in rows
    )


def fixed() -> tuple[Demonstration, ...]:
    return load_bank()[:SHOWN]


def nearest(question: str, n: int = SHOWN) -> tuple[Demonstration, ...]:
    """The n demonstrations most like the question, the most alike last, where a model looks first.

    Likeness is that of the wording without names: the shape of a question decides how it splits, not its subject.
    """
    bank = load_bank()
    bags = [_shape(shot.question) for shot in bank]
    rarity = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(1 + len(bank) / count) for word, count in rarity.items()}
    asked = _shape(question)

    def likeness(bag: frozenset[str]) -> float:
        norm = math.sqrt(sum(weight[word] ** 2 for word in bag)) or 1.0
        return sum(weight[word] ** 2 for word in bag & asked) / norm

    ranked = sorted(range(len(bank)), key=lambda index: (-likeness(bags[index]), index))
    return tuple(bank[index] for index in reversed(ranked[:n]))


def _shape(question: str) -> frozenset[str]:
    """The words and word pairs of a question, names left out."""
    words = re.findall(r"[^\W_]+", question)
    kept = [word.casefold() for index, word in enumerate(words) if index == 0 or not word[:1].isupper()]
    return frozenset(kept) | {f"{a} {b}" for a, b in pairwise(kept)}
