"""Demonstrations of plans and worked examples of reasoning."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.engine.prompts import demonstrations
from hoptree.methods.steps.evidence import number_lines
from hoptree.text.names import name_spans
from hoptree.text.question_tree import Plan

REASONING_PROMPTS = ("go_on", "step_by_step", "worked.jsonl")
"""The shared files of methods that reason step by step after worked examples."""
DEMONSTRATIONS = 3
_SAME_KIND_FACTOR = 1.5
_LINK_PENALTY = 2.0  # for each hop more or less than the question has
_FOREIGN_WORD_PENALTY = 0.2  # for a word that only the demonstration has, beside one that both have
_LINK = re.compile(r"\b(?:of|where|who|that|whose|by|behind|on which)\b|['’]s\b")
_COMPARING = re.compile(r"first|last|more|(?:earli|lat|old|young|tall|high|long|larg|bigg|small|short)er")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question with its plan as JSON text."""

    kind: str
    question: str
    plan: str


def load_bank() -> tuple[Demonstration, ...]:
    """Load all demonstrations; the first three show two leaves, one chain and two chains, as the paper's do."""
    return _read_bank(demonstrations("bank.jsonl"))


@lru_cache(maxsize=32)
def _read_bank(text: str) -> tuple[Demonstration, ...]:
    return tuple(
        Demonstration(row["kind"], row["question"], json.dumps(row["plan"], ensure_ascii=False))
        for row in map(json.loads, text.splitlines())
    )


def copies_demonstration(plan: Plan, question: str, shots: Sequence[Demonstration]) -> bool:
    """Whether a plan asks what a demonstration asked, of things that the question does not name."""
    copied = (n.question for n in plan.nodes if not n.refs and any(f'"{n.question}"' in shot.plan for shot in shots))
    return any(not any(asked[start:end] in question for start, end in name_spans(asked, 1)) for asked in copied)


def fixed_demonstrations() -> tuple[Demonstration, ...]:
    """Return the first three, which are those of the paper in other words."""
    return load_bank()[:DEMONSTRATIONS]


def nearest_demonstrations(question: str, n: int = DEMONSTRATIONS) -> tuple[Demonstration, ...]:
    """Return the n demonstrations most like the question, the most alike last, where a model looks first.

    Likeness is that of the wording without names: the shape of a question decides how it splits, not its subject.
    """
    bank = load_bank()
    bags = [_shape(shot.question) for shot in bank]
    counts = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(1 + len(bank) / count) for word, count in counts.items()}
    shape, hops = _shape(question), _count_links(question)

    def likeness(shot: Demonstration, bag: frozenset[str]) -> float:
        shared = sum(weight[word] for word in bag & shape)
        foreign = sum(weight[word] for word in bag - shape)
        return shared - _FOREIGN_WORD_PENALTY * foreign - _LINK_PENALTY * abs(hops - _count_links(shot.question))

    scores = [likeness(shot, bag) for shot, bag in zip(bank, bags, strict=True)]
    first = max(range(len(bank)), key=lambda place: (scores[place], -place))
    # Examples of one kind show one pattern; a mixture invites a mixture.
    factors = [_SAME_KIND_FACTOR if shot.kind == bank[first].kind else 1.0 for shot in bank]
    ranked = sorted(range(len(bank)), key=lambda place: (place != first, -scores[place] * factors[place], place))
    return tuple(bank[place] for place in reversed(ranked[:n]))


def _shape(question: str) -> frozenset[str]:
    """Return the words and word pairs of a question, with `@` for every name and `~` for every comparison."""
    text = _without_names(question[:1].lower() + question[1:])
    words = [word.casefold() for word in re.findall(r"[^\W_]+|@", text)]
    kept = ["~" if _COMPARING.fullmatch(word) else word for word in words if word not in ("the", "a", "an")]
    return frozenset(kept) | {f"{a} {b}" for a, b in pairwise(kept)}


def _count_links(question: str) -> int:
    """Count how often a question goes from one thing to another: roughly its hops."""
    return len(_LINK.findall(_without_names(question, 1)))


def _without_names(text: str, start: int = 0) -> str:
    for first, last in reversed(name_spans(text, start)):
        text = f"{text[:first]}@{text[last:]}"
    return text


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A question and its answer, step by step; the documents it rests on, and how a prompt shows them."""

    question: str
    answer: str
    documents: tuple[Passage, ...] = ()
    context: str = ""


def load_worked_examples() -> tuple[WorkedExample, ...]:
    """Load all examples, in the order of the file."""
    return _read_worked_examples(demonstrations("worked.jsonl"))


@lru_cache(maxsize=32)
def _read_worked_examples(text: str) -> tuple[WorkedExample, ...]:
    return tuple(
        WorkedExample(
            row["question"], row["answer"], tuple(Passage("", doc["title"], doc["text"]) for doc in row["documents"])
        )
        for row in map(json.loads, text.splitlines())
    )


def draw_examples(count: int, draw: int = 0) -> tuple[WorkedExample, ...]:
    """Return `count` examples; no two draws share any while there are others.

    Draw 0 has the first ones, draw 1 the next ones, and so on. Draws beyond that take them in another order, which is
    the same for the same draw.
    """
    bank = load_worked_examples()
    if count > len(bank):
        raise ConfigError(f"There are {len(bank)} worked examples, not {count}.", f"Set shots to {len(bank)} or less.")
    turn, place = divmod(draw, len(bank) // max(1, count))
    ordered = random.Random(turn).sample(bank, len(bank)) if turn else bank
    return tuple(ordered[place * count : (place + 1) * count])


def draw_examples_with_documents(count: int, draw: int = 0, *, titles: bool) -> tuple[WorkedExample, ...]:
    """Return the same examples, each behind its documents, as IRCoT's are.

    After examples without documents, a model answers from documents in one sentence instead of reasoning.
    """
    return tuple(
        replace(
            shot, context=as_context([f"{doc.title}: {doc.text}" if titles else doc.text for doc in shot.documents])
        )
        for shot in draw_examples(count, draw)
    )


def as_context(texts: Sequence[str], *, facts: str = "") -> str:
    """Return numbered texts and known facts as they stand before a question; "" of neither."""
    blocks = []
    if texts:
        blocks.append("Context:\n" + number_lines(texts))
    if facts:
        blocks.append("Known facts:\n" + facts)
    return "\n\n".join((*blocks, "Answer in the same format as before.\n")) if blocks else ""
