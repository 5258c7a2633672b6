"""Worked examples of reasoning step by step."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A question and its answer, step by step; the documents it rests on, and how a prompt shows them."""

    question: str
    answer: str
    documents: tuple[Passage, ...] = ()
    context: str = ""


@cache
def load_worked_examples() -> tuple[WorkedExample, ...]:
    """Load all examples, in the order of the file."""
    text = (files("hoptree") / "prompts" / "shared" / "worked.jsonl").read_text(encoding="utf-8")
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
        blocks.append("Context:\n" + "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1)))
    if facts:
        blocks.append("Known facts:\n" + facts)
    return "\n\n".join((*blocks, "Answer in the same format as before.\n")) if blocks else ""
