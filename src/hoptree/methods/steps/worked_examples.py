"""Worked examples of reasoning step by step, for methods that write such a text and look up what they doubt."""

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
class Worked:
    """A question and its answer, step by step; the documents that the answer rests on, and how a prompt shows them."""

    question: str
    answer: str
    documents: tuple[Passage, ...] = ()
    context: str = ""


@cache
def load_worked() -> tuple[Worked, ...]:
    text = (files("hoptree") / "prompts" / "shared" / "worked.jsonl").read_text(encoding="utf-8")
    return tuple(
        Worked(
            row["question"], row["answer"], tuple(Passage("", one["title"], one["text"]) for one in row["documents"])
        )
        for row in map(json.loads, text.splitlines())
    )


def draw_worked(count: int, draw: int = 0) -> tuple[Worked, ...]:
    """The first examples, with the next draw the next ones, and so on: no two draws share any while there are others.

    Draws beyond that take them in another order, the same ones for the same draw.
    """
    bank = load_worked()
    if count > len(bank):
        raise ConfigError(f"There are {len(bank)} worked examples, not {count}.", f"Set shots to {len(bank)} or less.")
    turn, place = divmod(draw, len(bank) // max(1, count))
    ordered = random.Random(turn).sample(bank, len(bank)) if turn else bank
    return tuple(ordered[place * count : (place + 1) * count])


def draw_documented(count: int, draw: int = 0, *, titles: bool) -> tuple[Worked, ...]:
    """The same examples, each behind its documents, as IRCoT's are.

    A model that has seen examples without documents reads the answer off the documents it then gets, in one sentence.
    """
    drawn = draw_worked(count, draw)
    return tuple(
        replace(one, context=as_context([f"{doc.title}: {doc.text}" if titles else doc.text for doc in one.documents]))
        for one in drawn
    )


def as_context(shown: Sequence[str], *, facts: str = "") -> str:
    """Texts, numbered, and known facts as they stand before a question; "" of neither."""
    blocks = []
    if shown:
        blocks.append("Context:\n" + "\n".join(f"[{number}] {text}" for number, text in enumerate(shown, 1)))
    if facts:
        blocks.append("Known facts:\n" + facts)
    return "\n\n".join((*blocks, "Answer in the same format as before.\n")) if blocks else ""
