"""Training rows in chat form, and the file they are written to."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import atomic_write
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.models.model import Capability, Choice, Message, Reply, Request
from hoptree.training.questions import TrainingQuestion


@dataclass(frozen=True, slots=True)
class Figures:
    """Rows, and the mean lengths of instruction and output.

    The paper does not say what it counts; as RAG_REQUIRED has a length of 4, it is tokens.
    """

    rows: int
    instruction: float
    output: float
    table: int


PAPER = {
    "instructions": Figures(9589, 267.8, 27.4, 1),
    "boundary": Figures(3096, 148.3, 3.9, 1),
    "decompose": Figures(1900, 252.4, 77.6, 5),
    "read": Figures(4821, 358.4, 8.5, 5),
    "summary": Figures(2868, 125.9, 25.9, 5),
    "confident": Figures(1267, 150.1, 3.9, 6),
    "gap": Figures(1829, 147.1, 4.0, 6),
}
_WHOLES = {"instructions": ("decompose", "read", "summary"), "boundary": ("confident", "gap")}
"""The sets that the paper counts as one, and their parts."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long a row's instruction and output are, in words or in tokens; `label` is the part that it is of."""

    label: str
    instruction: int
    output: int


def beside_the_paper(lengths: Sequence[Length]) -> list[dict[str, Any]]:
    """A line for each part of which there are rows, and one for the parts together; other rows are passed over."""
    lines = []
    for whole, parts in _WHOLES.items():
        some = {part: [one for one in lengths if one.label == part] for part in parts}
        together = [one for rows in some.values() for one in rows]
        lines += [_line(name, rows) for name, rows in (*some.items(), (whole, together)) if rows]
    return lines


def _line(name: str, rows: Sequence[Length]) -> dict[str, Any]:
    return {
        "part": name,
        "rows": len(rows),
        "instruction": round(statistics.fmean(one.instruction for one in rows), 1),
        "output": round(statistics.fmean(one.output for one in rows), 1),
        "paper": asdict(PAPER[name]),
    }


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
        atomic_write(path, (json.dumps(row.as_dict(), ensure_ascii=False) + "\n" for row in rows))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}.", "Give --out a file that can."
        ) from error


def _lengths(counts: Sequence[int]) -> dict[str, float]:
    return {"mean": round(statistics.fmean(counts), 1), "max": max(counts)} if counts else {"mean": 0.0, "max": 0}


def _drawn(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "replace")).digest()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rehearsed(Generic[T]):
    """The messages a step sent, the template they came from, and what the step made of the target."""

    messages: tuple[Message, ...]
    template: str
    read: T


class _Prompter:
    """A model that says what it is told to say, and keeps what it was asked."""

    name = identity = endpoint = "rehearsal"
    slots = 1
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, target: str) -> None:
        self.asked: list[Request] = []
        self._target = target

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.asked.append(request)
        return Reply((Choice(self._target),))

    async def aclose(self) -> None:
        return


async def rehearse(method: str, step: Callable[[Context], Awaitable[T]], target: str) -> Rehearsed[T]:
    """Let a step ask its one question and be told the target.

    So the prompt is the very one that a run sends, and a target that the step would not understand shows at once.
    """
    prompter = _Prompter(target)
    ctx = Context(method=method, model=prompter, calls=Calls(None), trace=Trace("rehearsal"))
    read = await step(ctx)
    (request,) = prompter.asked
    (event,) = (event for event in ctx.trace.events if event["event"] == "llm")
    return Rehearsed(request.messages, event["template"], read)


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
