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
FOREIGN = 0.2
"""How much a word that only the demonstration has counts against it, beside one that both have."""

_NAME = re.compile(r"[^\W\d_a-z][\w'’-]*(?:[\s:]+(?:(?:of|the|de|van|von|da|del|di|el|in)\s+)*[^\W\d_a-z][\w'’-]*)*")
_COMPARING = re.compile(r"first|last|more|(?:earli|lat|old|young|tall|high|long|larg|bigg|small|short)er")


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
        shared = sum(weight[word] for word in bag & asked)
        return shared - FOREIGN * sum(weight[word] for word in bag - asked)

    ranked = sorted(range(len(bank)), key=lambda index: (-likeness(bags[index]), index))
    return tuple(bank[index] for index in reversed(ranked[:n]))


def _shape(question: str) -> frozenset[str]:
    """The words and word pairs of a question, with `@` for every name and `~` for every comparison."""
    named = _NAME.sub(" @ ", question[:1].lower() + question[1:])
    words = [word.casefold() for word in re.findall(r"[^\W_]+|@", named)]
    kept = ["~" if _COMPARING.fullmatch(word) else word for word in words if word not in ("the", "a", "an")]
    return frozenset(kept) | {f"{a} {b}" for a, b in pairwise(kept)}
