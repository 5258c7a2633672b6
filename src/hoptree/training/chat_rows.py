"""Training rows in chat form, made from the prompts that a method sends."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from hoptree.core.errors import ConfigError
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import ModelCalled, Trace
from hoptree.evaluation.datasets.reading import seeded_rank
from hoptree.models.model import Capability, Choice, Message, Reply, Request
from hoptree.training.questions import TrainingQuestion

T = TypeVar("T")
P = ParamSpec("P")

TAIKC = "taikc"  # the method whose prompts most sets have

Progress = Callable[[int, int], None]  # called with the number of questions done and their total


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A prompt and its reply; `label` is for balance, `source` the data set."""

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


@dataclass(frozen=True, slots=True)
class MadeRows:
    """The rows made from questions, counts left out, and a report."""

    rows: tuple[ChatRow, ...]
    left_out: dict[str, int]
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PaperStatistics:
    """Rows, and mean lengths of instruction and output in tokens, in a table of TAIKC."""

    rows: int
    instruction: float
    output: float
    table: int


PAPER = {
    "instructions": PaperStatistics(9589, 267.8, 27.4, 1),
    "boundary": PaperStatistics(3096, 148.3, 3.9, 1),
    "decompose": PaperStatistics(1900, 252.4, 77.6, 5),
    "read": PaperStatistics(4821, 358.4, 8.5, 5),
    "summary": PaperStatistics(2868, 125.9, 25.9, 5),
    "confident": PaperStatistics(1267, 150.1, 3.9, 6),
    "gap": PaperStatistics(1829, 147.1, 4.0, 6),
}
_COMBINED = {"instructions": ("decompose", "read", "summary"), "boundary": ("confident", "gap")}
"""The sets that the paper counts as one, and their parts."""


@dataclass(frozen=True, slots=True)
class RowLength:
    """The length of a row's instruction and output, in words or tokens."""

    label: str
    instruction: int
    output: int


def word_lengths(rows: Sequence[ChatRow]) -> list[RowLength]:
    return [
        RowLength(row.label, sum(len(turn.content.split()) for turn in row.messages), len(row.target.split()))
        for row in rows
    ]


def compare_with_paper(lengths: Sequence[RowLength]) -> list[dict[str, Any]]:
    """Compare mean lengths with TAIKC's tables, for each part and all."""
    lines = []
    for combined, parts in _COMBINED.items():
        by_part = {part: [length for length in lengths if length.label == part] for part in parts}
        by_part[combined] = [length for length in lengths if length.label in parts]
        lines += [
            {
                "part": name,
                "rows": len(rows),
                "instruction": round(statistics.fmean(row.instruction for row in rows), 1),
                "output": round(statistics.fmean(row.output for row in rows), 1),
                "paper": asdict(PAPER[name]),
            }
            for name, rows in by_part.items()
            if rows
        ]
    return lines


def describe(rows: Sequence[ChatRow]) -> dict[str, Any]:
    """Count rows by label and source, and their lengths in words."""
    sources: dict[str, Counter[str]] = {}
    for row in rows:
        sources.setdefault(row.source, Counter())[row.label] += 1
    lengths = word_lengths(rows)
    return {
        "rows": len(rows),
        "labels": dict(Counter(row.label for row in rows)),
        "sources": {source: dict(labels) for source, labels in sources.items()},
        "prompt_words": _mean_and_max([length.instruction for length in lengths]),
        "target_words": _mean_and_max([length.output for length in lengths]),
    }


def _mean_and_max(counts: Sequence[int]) -> dict[str, float]:
    return {"mean": round(statistics.fmean(counts), 1), "max": max(counts)} if counts else {"mean": 0.0, "max": 0}


def balance_rows(rows: Sequence[ChatRow], ratio: float | None, seed: int) -> list[ChatRow]:
    """Drop rows until no label is more than `ratio` times the rarest."""
    if ratio is None:
        return list(rows)
    check_balance(ratio)
    counts = Counter(row.label for row in rows)
    allowed = int(ratio * min(counts.values(), default=0))
    kept: set[str] = set()
    for label in counts:
        ids = sorted((row.id for row in rows if row.label == label), key=lambda key: (seeded_rank(seed, key), key))
        kept.update(ids[:allowed])
    return [row for row in rows if row.id in kept]


def check_balance(ratio: float) -> None:
    """Refuse a ratio that no labels can have."""
    if not 1 <= ratio < math.inf:
        raise ConfigError(f"A balance of {ratio:g} is not possible.", "Give 1 (as many of each label) or more.")


@dataclass(frozen=True, slots=True)
class Rehearsal(Generic[T]):
    """The messages a step sent, their template, and what it read."""

    messages: tuple[Message, ...]
    template: str
    read: T
    target: str

    def require(self, understood: bool) -> None:
        """Refuse a target that the step itself does not understand."""
        if not understood:
            raise ConfigError(f"The step of {self.template} does not take '{self.target}' for what it means.")

    def row(self, question: TrainingQuestion, part: str, label: str, meta: Mapping[str, Any]) -> ChatRow:
        """Return the row of this prompt and target."""
        return make_row(question, part, self.messages, self.target, label, {"template": self.template, **meta})


class _FixedReply:
    """A model that gives one reply and records its requests."""

    name = identity = endpoint = "rehearsal"
    slots = 1
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, reply: str) -> None:
        self.requests: list[Request] = []
        self._reply = reply

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.requests.append(request)
        return Reply((Choice(self._reply),))

    async def aclose(self) -> None:
        return


async def rehearse(
    method: str, target: str, step: Callable[Concatenate[Context, P], Awaitable[T]], *args: P.args, **how: P.kwargs
) -> Rehearsal[T]:
    """Let a step of a method make its one call and receive the target as reply."""
    model = _FixedReply(target)
    ctx = Context(method=method, model=model, calls=Calls(None), trace=Trace("rehearsal"))
    read = await step(ctx, *args, **how)
    (request,) = model.requests
    (call,) = (event for event in ctx.trace.events if isinstance(event, ModelCalled))
    return Rehearsal(request.messages, call.template, read, target)


def make_row(
    question: TrainingQuestion,
    part: str,
    messages: tuple[Message, ...],
    target: str,
    label: str,
    meta: Mapping[str, Any],
) -> ChatRow:
    """Return a row of a question; `part` tells it from the other rows of the same one."""
    key = f"{question.key}/{part}" if part else question.key
    meta = {"question": question.key, "split": question.split, **meta}
    return ChatRow(key, messages, target, label, question.example.dataset, meta)


def progress_counter(total: int, on_progress: Progress) -> Callable[[], None]:
    """Return a function to be called once for every question that is done."""
    done = itertools.count(1)
    return lambda: on_progress(next(done), total)


def consistent_rows(rows: Sequence[ChatRow]) -> tuple[list[ChatRow], Counter[str]]:
    """Drop rows that repeat another, and those whose prompt has several targets."""
    first: dict[tuple[tuple[Message, ...], str], str] = {}
    for row in rows:
        first.setdefault((row.messages, row.target), row.id)
    ids = set(first.values())
    distinct = [row for row in rows if row.id in ids]
    targets = Counter(messages for messages, _ in first)
    kept = [row for row in distinct if targets[row.messages] == 1]
    dropped = {
        "rows that ask and say the same as another": len(rows) - len(distinct),
        "rows that ask the same as another and say something else": len(distinct) - len(kept),
    }
    return kept, +Counter(dropped)
