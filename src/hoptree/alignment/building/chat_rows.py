"""Training rows in chat form, and the file they are written to."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.alignment.building.paper_figures import Length
from hoptree.errors import ConfigError, InputError
from hoptree.models.model import Message
from hoptree.whole_files import write_whole

__all__ = ["ChatRow", "balanced", "check_balance", "described", "in_words", "write_rows"]


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A prompt and the reply that is to be learnt.

    `label` is what balance is counted by, `source` the data set; `meta` holds what else is to be known of the row.
    """

    id: str
    messages: tuple[Message, ...]
    target: str
    label: str
    source: str
    meta: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        turns = (*self.messages, Message("assistant", self.target))
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        return {"messages": messages, "id": self.id, "meta": {"label": self.label, "source": self.source, **self.meta}}


def balanced(rows: Sequence[ChatRow], most: float | None, seed: int) -> list[ChatRow]:
    """The rows with no label more than `most` times as often as the rarest; which stay depends on ids and seed alone.

    None keeps all.
    """
    if most is None:
        return list(rows)
    check_balance(most)
    counts = Counter(row.label for row in rows)
    allowed = int(most * min(counts.values(), default=0))
    kept: set[str] = set()
    for label in counts:
        drawn = sorted((row.id for row in rows if row.label == label), key=lambda key: (_drawn(seed, key), key))
        kept.update(drawn[:allowed])
    return [row for row in rows if row.id in kept]


def check_balance(most: float) -> None:
    """Refuse what no label can be that many times as often as another."""
    if not 1 <= most < math.inf:
        raise ConfigError(f"A balance of {most:g} is not possible.", "Give 1 (as many of each label) or more.")


def described(rows: Sequence[ChatRow]) -> dict[str, Any]:
    """How many rows there are of each label and source, and how long they are, in words."""
    sources: dict[str, Counter[str]] = {}
    words = in_words(rows)
    for row in rows:
        sources.setdefault(row.source, Counter())[row.label] += 1
    return {
        "rows": len(rows),
        "labels": dict(Counter(row.label for row in rows)),
        "sources": {source: dict(labels) for source, labels in sources.items()},
        "prompt_words": _lengths([one.instruction for one in words]),
        "target_words": _lengths([one.output for one in words]),
    }


def in_words(rows: Sequence[ChatRow]) -> list[Length]:
    """How long the rows are, in words; tokens are counted where there is a tokenizer, before a training."""
    return [
        Length(row.label, sum(len(turn.content.split()) for turn in row.messages), len(row.target.split()))
        for row in rows
    ]


def write_rows(path: Path, rows: Iterable[ChatRow]) -> None:
    """Write all rows, or leave the file as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(row.as_dict(), ensure_ascii=False) + "\n" for row in rows))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}.", "Give --out a file that can."
        ) from error


def _lengths(counts: Sequence[int]) -> dict[str, float]:
    return {"mean": round(statistics.fmean(counts), 1), "max": max(counts)} if counts else {"mean": 0.0, "max": 0}


def _drawn(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "replace")).digest()
