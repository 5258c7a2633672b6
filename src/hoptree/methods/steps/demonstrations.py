"""Worked decompositions to show a model: three fixed ones, or the nearest of the bank."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from hoptree.text.names import name_spans
from hoptree.text.question_tree import Plan

SHOWN = 3
SAME_KIND = 1.5
PER_LINK = 2.0
"""How much a link more or less between things counts against a demonstration."""

FOREIGN = 0.2
"""How much a word that only the demonstration has counts against it, beside one that both have."""

_LINK = re.compile(r"\b(?:of|where|who|that|whose|by|behind|on which)\b|['’]s\b")
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
    text = (files("hoptree") / "prompts" / "shared" / "bank.jsonl").read_text(encoding="utf-8")
    rows = (json.loads(line) for line in text.splitlines())
    return tuple(
        Demonstration(row["kind"], row["question"], json.dumps(row["plan"], ensure_ascii=False)) for row in rows
    )


def copies(plan: Plan, question: str, shots: Sequence[Demonstration]) -> bool:
    """Whether a plan asks what an example asked, of things that the question does not name."""
    copied = (n.question for n in plan.nodes if not n.refs and any(f'"{n.question}"' in shot.plan for shot in shots))
    return any(not any(asked[start:end] in question for start, end in name_spans(asked, 1)) for asked in copied)


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
    asked, links = _shape(question), _links(question)

    def likeness(shot: Demonstration, bag: frozenset[str]) -> float:
        shared = sum(weight[word] for word in bag & asked)
        foreign = sum(weight[word] for word in bag - asked)
        return shared - FOREIGN * foreign - PER_LINK * abs(links - _links(shot.question))

    scores = [likeness(shot, bag) for shot, bag in zip(bank, bags, strict=True)]
    first = max(range(len(bank)), key=lambda index: (scores[index], -index))
    # Examples of one kind show one pattern; a mixture invites a mixture.
    kin = [SAME_KIND if shot.kind == bank[first].kind else 1.0 for shot in bank]
    ranked = sorted(range(len(bank)), key=lambda index: (index != first, -scores[index] * kin[index], index))
    return tuple(bank[index] for index in reversed(ranked[:n]))


def _shape(question: str) -> frozenset[str]:
    """The words and word pairs of a question, with `@` for every name and `~` for every comparison."""
    shape = question[:1].lower() + question[1:]
    for start, end in reversed(name_spans(shape)):
        shape = f"{shape[:start]}@{shape[end:]}"
    words = [word.casefold() for word in re.findall(r"[^\W_]+|@", shape)]
    kept = ["~" if _COMPARING.fullmatch(word) else word for word in words if word not in ("the", "a", "an")]
    return frozenset(kept) | {f"{a} {b}" for a, b in pairwise(kept)}


def _links(question: str) -> int:
    """How many times a question goes from one thing to another, roughly: its hops."""
    shape = question
    for start, end in reversed(name_spans(question, 1)):
        shape = f"{shape[:start]}@{shape[end:]}"
    return len(_LINK.findall(shape))
