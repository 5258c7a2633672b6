"""Training rows in chat form: make, compare, mix and store them."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from hoptree import __version__
from hoptree.core.errors import ConfigError, file_errors
from hoptree.core.files import JsonlLog, read_lines
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompts_digest
from hoptree.engine.trace import ModelCalled, Trace
from hoptree.evaluation.datasets.reading import seeded_rank
from hoptree.models.model import Capability, Choice, Message, Reply, Request
from hoptree.training.questions import TrainingQuestion

T = TypeVar("T")
P = ParamSpec("P")

TAIKC = "taikc"  # the method whose prompts most sets have

Progress = Callable[[int, int], None]  # gets the number of finished questions and the total


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A prompt and its target; `label` is for balancing, `source` the data set."""

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
    """The rows of some questions, the number left out by reason, and a report."""

    rows: tuple[ChatRow, ...]
    left_out: dict[str, int]
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PaperStatistics:
    """Number of rows, and mean tokens of instruction and output, in a TAIKC table."""

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
"""The paper's sets, and their parts."""


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
    """Drop rows until no label occurs more than `ratio` times as often as the rarest."""
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
    """Raise an error for a ratio below 1 or without limit."""
    if not 1 <= ratio < math.inf:
        raise ConfigError(f"A balance of {ratio:g} is not possible.", "Give 1 (as many of each label) or more.")


@dataclass(frozen=True, slots=True)
class Rehearsal(Generic[T]):
    """A step's messages and template, and its reading of the target."""

    messages: tuple[Message, ...]
    template: str
    read: T
    target: str

    def require(self, understood: bool) -> None:
        """Raise an error if the step does not understand the target."""
        if not understood:
            raise ConfigError(f"The step of {self.template} does not take '{self.target}' for what it means.")

    def row(self, question: TrainingQuestion, part: str, label: str, meta: Mapping[str, Any]) -> ChatRow:
        """Return the row of this prompt and target."""
        return make_row(question, part, self.messages, self.target, label, {"template": self.template, **meta})


class _FixedReply:
    """A model with one fixed reply, which records its requests."""

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
    """Run a step of a method, whose single call gets the target as reply."""
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
    """Return a row of a question; `part` makes its id unique."""
    key = f"{question.key}/{part}" if part else question.key
    meta = {"question": question.key, "split": question.split, **meta}
    return ChatRow(key, messages, target, label, question.example.dataset, meta)


def progress_counter(total: int, on_progress: Progress) -> Callable[[], None]:
    """Return a function to call once for every finished question."""
    done = itertools.count(1)
    return lambda: on_progress(next(done), total)


def consistent_rows(rows: Sequence[ChatRow]) -> tuple[list[ChatRow], Counter[str]]:
    """Drop rows that repeat another, and all whose prompt has several targets."""
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


_KINDS = {
    "read": "reading",
    "not found": "reading",
    "plan": "plan",
    "no plan": "plan",
    "guess": "guess",
    "last reading": "last reading",
}
_SHARES = {"reading": 0.55, "plan": 0.27, "guess": 0.1, "last reading": 0.08}
_NOT_FOUND_SHARE, _NO_PLAN_SHARE = 1 / 3, 1 / 10


def put_together(rows: Sequence[ChatRow], total: int | None, seed: int) -> tuple[list[ChatRow], Counter[str]]:
    """Mix the consistent rows, and count the others by reason."""
    kept, inconsistent = consistent_rows(rows)
    mixed = mix(kept, total, seed)
    dropped = Counter(row.label for row in kept) - Counter(row.label for row in mixed)
    left_out = Counter({f"rows of '{label}' beyond their share": count for label, count in dropped.items()})
    return mixed, left_out + inconsistent


def mix(rows: Sequence[ChatRow], total: int | None, seed: int) -> list[ChatRow]:
    """Return rows in their shares for training, shuffled by the seed.

    A third of the readings are NOT FOUND, and a tenth of the plans are empty. With a `total`, 55 % of it are readings,
    27 % plans, 10 % guesses and 8 % last readings, if there are as many; large data sets are cut first.
    """
    by_label = {label: [row for row in rows if row.label == label] for label in {row.label for row in rows}}
    chosen: list[ChatRow] = []
    for kind, share in _SHARES.items():
        labels = [label for label in by_label if _KINDS[label] == kind]
        row_count = round(total * share) if total else sum(len(by_label[label]) for label in labels)
        if kind in ("guess", "last reading"):
            chosen += draw(by_label.get(kind, []), row_count, seed)
            continue
        few, share_of_few = ("not found", _NOT_FOUND_SHARE) if kind == "reading" else ("no plan", _NO_PLAN_SHARE)
        many = [row for label in labels if label != few for row in by_label[label]]
        kept = draw(many, round(row_count * (1 - share_of_few)) if total else row_count, seed)
        ratio = share_of_few / (1 - share_of_few)
        # Without other rows, as in a set of one-hop questions, take all of the few.
        allowed = math.ceil(len(kept) * ratio) if kept else row_count
        candidates = by_label.get(few, [])
        if kept and kind == "reading":  # at most `ratio` times as many of each data set
            drawn: list[ChatRow] = []
            for source, count in Counter(row.source for row in kept).items():
                drawn += draw([row for row in candidates if row.source == source], math.ceil(count * ratio), seed)
            candidates = drawn
        chosen += kept + draw(candidates, allowed, seed)
    return sorted(chosen, key=_rank(seed))


def draw(rows: Sequence[ChatRow], count: int, seed: int) -> list[ChatRow]:
    """Return `count` rows drawn by the seed, evenly from all data sets."""
    ranked: dict[str, list[ChatRow]] = {}
    for row in sorted(rows, key=_rank(seed)):
        ranked.setdefault(row.source, []).append(row)
    chosen: list[ChatRow] = []
    sources = sorted(ranked.values(), key=len)
    for place, candidates in enumerate(sources):
        share = (count - len(chosen)) // (len(sources) - place)
        chosen += candidates[:share]
    return chosen


def _rank(seed: int) -> Callable[[ChatRow], tuple[bytes, str]]:
    return lambda row: (seeded_rank(seed, row.id), row.id)


def journal_path(out: Path) -> Path:
    """Return the path of an unfinished training set's rows."""
    return out.with_name(f"{out.name}.part")


class RowJournal:
    """Keeps the rows of each question in OUT.part, to resume with the same settings."""

    def __init__(self, out: Path, method: str, settings: Sequence[Any]) -> None:
        self.path = journal_path(out)
        known = [__version__, prompts_digest(method), *settings]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        lines = [value for _, value in read_lines(self.path)]
        if lines and lines[0] != {"digest": digest}:
            self.path.unlink()
            lines = []
        self._made = {line["key"]: _read(line) for line in lines[1:]}
        with file_errors(self.path, "written", "Give --out a file that can."):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._log = JsonlLog(self.path)
            if not lines:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"digest": digest}) + "\n")

    def get(self, key: str) -> MadeRows | None:
        """Return the rows of a finished question; None if it is not finished."""
        return self._made.get(key)

    async def add(self, key: str, question_rows: MadeRows) -> None:
        rows = [asdict(row) for row in question_rows.rows]
        for row in rows:
            row["messages"] = [[turn["role"], turn["content"]] for turn in row["messages"]]
        counts = {"left_out": question_rows.left_out, "report": question_rows.report}
        await self._log.add({"key": key, "rows": rows, **counts})

    def close(self) -> None:
        self._log.close()


def _read(line: dict[str, Any]) -> MadeRows:
    rows = []
    for row in line["rows"]:
        messages = tuple(Message(role, content) for role, content in row.pop("messages"))
        rows.append(ChatRow(messages=messages, **row))
    return MadeRows(tuple(rows), line["left_out"], line.get("report", {}))
