"""Read chat sets for training; the recipe of a training."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, InputError, file_errors
from hoptree.models.model import Message
from hoptree.training.taikc_rows import REFUSAL

_MAX_NAMED_FAULTS = 5
_ROLES = ("system", "user", "assistant")
_NO_KIND = "untold"
_BOUNDARY_KIND = "taikc-kbae"  # labels of this kind describe the knowledge of one model
_RETRIEVER_KIND = "replug-lsr"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# An identity is KIND:DIGEST;…, where the digest is one word.
_NO_WORD = re.compile(r"[^\w@/.-]+")


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A prompt and its reply; `where` is its file and line."""

    id: str
    where: str
    messages: tuple[Message, ...]
    reply: str
    kind: str
    label: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class TrainingSet:
    path: Path
    digest: str
    rows: tuple[TrainingRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the set's entry in an adapter's card."""
        kinds = dict(sorted(Counter(row.kind for row in self.rows).items()))
        return {"file": str(self.path), "digest": self.digest, "rows": len(self.rows), "kinds": kinds}


@dataclass(slots=True)
class RefusedRows:
    """Faulty rows: the first faults in words, their number, and remedies."""

    faults: list[str] = field(default_factory=list)
    count: int = 0
    remedies: dict[str, None] = field(default_factory=dict)

    def add(self, where: str, why: str, remedy: str = "correct or remove these rows") -> None:
        self.count += 1
        self.remedies[remedy] = None
        if self.count <= _MAX_NAMED_FAULTS:
            self.faults.append(f"  {where}: {why}")

    def check(self) -> None:
        """Raise all faults as one error, if there are any."""
        if not self.count:
            return
        head = "1 row cannot be trained on:" if self.count == 1 else f"{self.count:,} rows cannot be trained on:"
        more = [f"  and {self.count - _MAX_NAMED_FAULTS:,} more"] if self.count > _MAX_NAMED_FAULTS else []
        remedy = "; ".join((*self.remedies, "nothing was written."))
        raise InputError("\n".join((head, *self.faults, *more)), f"\n{remedy[0].upper()}{remedy[1:]}")


def read_sets(paths: Sequence[Path], base: str) -> list[TrainingSet]:
    """Read the sets; rows that cannot be trained on are an error."""
    refused = RefusedRows()
    seen: dict[str, str] = {}
    sets = []
    for path in paths:
        with file_errors(path, "read", "Give --data a file."):
            data = path.read_bytes()
        if form := _other_format(data):
            cause = f"{path} is of the form {form}, which is for another program."
            raise InputError(cause, "Build the set without --format: this command reads chat.")
        rows = tuple(_read_rows(path, data, base, seen, refused))
        if not rows and not refused.count:
            raise InputError(f"{path} holds no row.", "hoptree align build makes sets.")
        sets.append(TrainingSet(path, hashlib.sha256(data).hexdigest(), rows))
    refused.check()
    return sets


def same_prompts(sets: Sequence[TrainingSet]) -> dict[str, Any]:
    """Count the rows that repeat a prompt, with an equal and with another reply."""
    first_rows: dict[tuple[Message, ...], TrainingRow] = {}
    counts = {"same_reply": 0, "other_reply": 0}
    example = ""
    for row in (row for training_set in sets for row in training_set.rows):
        before = first_rows.setdefault(row.messages, row)
        if before is row:
            continue
        counts["same_reply" if before.reply == row.reply else "other_reply"] += 1
        if before.reply != row.reply:
            example = example or f"{before.where} and {row.where}"
    return {**counts, "first": example}


def without_kind(sets: Sequence[TrainingSet]) -> int:
    """Count the rows without a kind: it is unknown which model they describe."""
    return sum(row.kind == _NO_KIND for training_set in sets for row in training_set.rows)


def _other_format(data: bytes) -> str:
    """Return the format of a set written for another program, or ""."""
    text = data.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if text.startswith(b"[\n{"):
        return "llama-factory"
    try:
        first = json.loads(text.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return ""
    return "trl" if isinstance(first, dict) and {"prompt", "completion"} <= set(first) else ""


def _read_rows(path: Path, data: bytes, base: str, seen: dict[str, str], refused: RefusedRows) -> Iterator[TrainingRow]:
    for number, line in enumerate(data.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            refused.add(where, "it is not JSON")
            continue
        if not isinstance(value, dict):
            refused.add(where, "it is not an object with messages, id and meta")
            continue
        key = value.get("id")
        if key is not None and key != "":
            where = f"{where} (id {key})"
        if why := _fault(value, base, seen):
            refused.add(where, why)
            continue
        seen[str(key)] = where
        *messages, last = (Message(turn["role"], turn["content"]) for turn in value["messages"])
        meta = value.get("meta", {})
        kind = " ".join(str(meta[name]) for name in ("kind", "part") if meta.get(name)) or _NO_KIND
        label, template = (str(meta.get(name) or "") for name in ("label", "template"))
        yield TrainingRow(str(key), where, tuple(messages), last.content, kind, label, template)


def _fault(value: dict[str, Any], base: str, seen: dict[str, str]) -> str:
    key, meta = value.get("id"), value.get("meta", {})
    if not isinstance(key, str | int) or isinstance(key, bool) or not str(key).strip():
        return "it has no id"
    if str(key) in seen:
        return f"its id is also that of {seen[str(key)]}"
    if not isinstance(meta, dict):
        return "its meta is not an object"
    if why := _turns_fault(value.get("messages")):
        return why
    labels_of = str(meta.get("labels_of") or "")
    if meta.get("kind") == _RETRIEVER_KIND:
        return "it is to train a retriever, which another program does"
    if meta.get("kind") == _BOUNDARY_KIND and not labels_of:
        return "its label says what a model knows, and not which: labels_of is missing"
    if not labels_of and not meta.get("kind") and any(REFUSAL in turn["content"] for turn in value["messages"]):
        return f"it is about {REFUSAL}, which says what a model knows, and not which: meta.labels_of is missing"
    # Labels describe the base only if it had no adapter.
    same = labels_of == base or (base in _NO_WORD.split(labels_of) and "adapter=" not in labels_of)
    if labels_of and not same:
        whose = meta.get("model") or "another model"
        return f"its label says what {whose} knows ({shorten(labels_of)}), and the base is {shorten(base)}"
    return ""


def _turns_fault(turns: Any) -> str:
    if not isinstance(turns, list) or not turns:
        return "it has no messages"
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict) or not isinstance(turn.get("content"), str):
            return f"message {number} is not an object with a role and a text as content"
        if turn.get("role") not in _ROLES:
            return f"message {number} has the role {turn.get('role')!r}, and there are {', '.join(_ROLES)}"
        try:
            turn["content"].encode()
        except UnicodeEncodeError:
            return f"message {number} holds half a character"
    roles = [turn["role"] for turn in turns]
    asked = roles[1:] if roles[0] == "system" else roles
    if not asked or asked != ["user", "assistant"] * (len(asked) // 2):
        return (
            f"its messages are by {', '.join(roles)}; after a system message, if there is one, user and assistant take "
            "turns, and the assistant comes last"
        )
    for number, turn in enumerate(turns, 1):
        if turn["role"] == "user" and not turn["content"].strip():
            return f"message {number} asks nothing"
    return "" if turns[-1]["content"].strip() else "its reply is empty"


def shorten(text: str) -> str:
    """Return the start of a long text: enough to distinguish digests."""
    return text if len(text) <= 40 else f"{text[:12]}…"


ALL_LINEAR = "all-linear"
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}  # Torch's names; fp16 would need loss scaling


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings that the weights depend on; defaults are of TAIKC's appendix F."""

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 5e-5
    epochs: int = 3
    batch: int = 2  # a step has this times `accumulation` examples
    accumulation: int = 8
    dropout: float = 0.0
    warmup: float = 0.03  # share of steps with a rising rate; then it falls to 0 along a cosine
    targets: str = ALL_LINEAR  # names of linear layers, separated by commas; or all but the output layer
    max_length: int = 2048
    seed: int = 0
    dtype: str = ""  # default: bf16 on an accelerator, else fp32; the adapter always has 32 bits

    def __post_init__(self) -> None:
        for name in ("rank", "alpha", "epochs", "batch", "accumulation", "max_length"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}.", "Give 1 or more.")
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"The learning rate is {self.learning_rate:g}.", "Give a number above 0, such as 5e-5.")
        for name in ("dropout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name):g}.", "Give a share from 0 to below 1.")
        if not self.names:
            raise ConfigError("No layers are named.", f"Give --targets {ALL_LINEAR}, or names: q_proj,v_proj.")
        if self.dtype and self.dtype not in DTYPES:
            raise ConfigError(f"There is no dtype {self.dtype} to train in.", f"Choose one of {', '.join(DTYPES)}.")

    @property
    def names(self) -> list[str]:
        """The named layers, each once."""
        return sorted({name.strip() for name in self.targets.split(",")} - {""})

    @property
    def examples_a_step(self) -> int:
        return self.batch * self.accumulation

    def steps(self, examples: int) -> int:
        """Return the number of steps; the last of an epoch may have fewer examples."""
        return self.epochs * math.ceil(examples / self.examples_a_step)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        along = (step - rising) / max(1, steps - rising)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * along))


PAPER_RATES = {"ra-isf": 5e-4}  # learning rates that differ from the recipe's, by the prefix of kinds


def rate_of_paper(sets: Sequence[TrainingSet]) -> float:
    """Return the learning rate of the rows' paper, or the recipe's."""
    kinds = {row.kind for training_set in sets for row in training_set.rows}
    rates = (rate for paper, rate in PAPER_RATES.items() if all(kind.startswith(f"{paper}-") for kind in kinds))
    return next(rates, Recipe().learning_rate)


@dataclass(frozen=True, slots=True)
class Pace:
    """Settings that change only time and memory."""

    device: str = ""
    save_every: int = 50
    checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise ConfigError(f"save_every is {self.save_every}.", "Give 1 step or more.")
