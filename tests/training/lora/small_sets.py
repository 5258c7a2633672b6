"""Small chat sets, and a tiny random model to train on them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.models.hf_asking import WORDS

__all__ = ["chat", "many", "write"]


def chat(known: str, asked: str = "who wrote it", reply: str = "red hill", **meta: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": reply}]
    return {"messages": messages, "id": known, "meta": {"kind": "colours", **meta}}


def many(count: int, most_words: int = 20) -> list[dict[str, Any]]:
    """Rows of different lengths."""
    chance = random.Random(2)
    return [
        chat(
            f"r{number}",
            " ".join(chance.choices(WORDS, k=chance.randint(1, most_words))),
            " ".join(chance.choices(WORDS, k=chance.randint(1, 6))),
        )
        for number in range(count)
    ]


def write(path: Path, rows: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
