"""The specification of a training set, and its file formats."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, InputError, did_you_mean, file_errors
from hoptree.core.files import atomic_write
from hoptree.evaluation.datasets.reading import check_half
from hoptree.models import DEFAULT_MODEL
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.training.chat_rows import ChatRow, check_balance

Format = Literal["chat", "trl", "llama-factory"]
FORMATS: tuple[Format, ...] = get_args(Format)
_INFO = "dataset_info.json"
_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def read_format(name: str) -> Format:
    if name not in FORMATS:
        raise ConfigError(f"There is no form of training sets '{name}'.", f"Choose one of {', '.join(FORMATS)}.")
    return name


def check_out(path: Path, form: Format) -> None:
    """Raise an error if this format cannot be written to the file."""
    if form == "llama-factory":
        if path.suffix != ".json":
            raise ConfigError(f"LLaMA-Factory reads a list from {path.name}.", f"Give --out {path.stem}.json.")
        _read_info(path.parent / _INFO)


def write_set(path: Path, rows: Sequence[ChatRow], form: Format) -> list[Path]:
    """Write all rows atomically in a format; return the files written.

    LLaMA-Factory finds a set by its name in the dataset_info.json beside it, which may list other sets.
    """
    objects = [row.as_dict() for row in rows]
    if form == "llama-factory":
        info = path.parent / _INFO
        columns = {"columns": {"messages": "messages"}, "tags": _TAGS}
        sets = _read_info(info) | {path.stem: {"file_name": path.name, "formatting": "sharegpt", **columns}}
        write_lines(path, ["[\n", ",\n".join(map(_dump, objects)), "\n]\n"])
        write_lines(info, [json.dumps(sets, ensure_ascii=False, indent=2) + "\n"])
        return [path, info]
    if form == "trl":
        for row in objects:
            *prompt, completion = row.pop("messages")
            row |= {"prompt": prompt, "completion": [completion], "id": row.pop("id"), "meta": row.pop("meta")}
    write_lines(path, (f"{_dump(row)}\n" for row in objects))
    return [path]


def _read_info(info: Path) -> dict[str, Any]:
    """Return the sets in a dataset_info.json; {} if it does not exist."""
    if not info.exists():
        return {}
    remedy = "Fix it, or give --out in another folder."
    try:
        sets = json.loads(info.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{info} cannot be read: {error}.", remedy) from error
    if not isinstance(sets, dict):
        raise InputError(f"{info} lists no data sets.", remedy)
    return sets


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write the file of --out atomically."""
    with file_errors(path, "written", "Give --out a file that can."):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, lines)


Kind = Literal[
    "ra-isf-know",
    "ra-isf-relevance",
    "ra-isf-decompose",
    "taikc-if",
    "taikc-kbae",
    "taikc-gold",
    "hop",
    "sampled",
    "replug-lsr",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
LABELLED: tuple[Kind, ...] = ("ra-isf-know", "ra-isf-relevance", "taikc-kbae")  # kinds that can be balanced
TAUGHT = ("ra-isf-relevance", "ra-isf-decompose")  # kinds with gold labels or a teacher's


@dataclass(frozen=True, slots=True)
class SetSpec:
    """The settings of a training set; some apply only to some kinds."""

    kind: Kind
    data: tuple[Path, ...]
    out: Path
    exclude: tuple[Path, ...] = ()  # for this and `any_split` see `admit`
    any_split: bool = False
    half: str = ""  # first or second: only its questions, without those like one of the other half
    limit: int | None = None  # the first questions of each file in turn, or as many drawn by `seed`
    seed: int | None = None
    balance: float | None = None  # greatest ratio of a label's frequency to the rarest
    model: str = DEFAULT_MODEL
    base_url: str = ""
    cache: str | None = "default"
    concurrency: int | None = None
    right_f1: float | None = None
    corpus: str = ""
    retriever: str = DEFAULT_RETRIEVER
    rerank: str = ""
    k: int = 5
    titles: bool = False
    linked: bool = False
    teacher: bool = False
    paper: str = ""  # draw as many questions of each data set as this paper does
    judge: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    corpora: Mapping[str, str] = field(default_factory=dict)  # of hop and sampled, by data set; "" for all
    rows: int | None = None  # of hop and sampled, at most
    samples: int = 8  # runs a question, of sampled
    temperature: float = 0.7
    form: Format = "chat"

    def check(self) -> None:
        """Raise an error for settings that cannot be built, before any call."""
        if self.kind in ("ra-isf-relevance", "taikc-if", "replug-lsr") and not self.corpus:
            raise InputError("Passages are searched for, and no corpus was given.", "Give --corpus INDEX.")
        if self.teacher and self.kind not in TAUGHT:
            raise InputError(f"{self.kind} has no labels by a teacher.", f"--teacher is for {' and '.join(TAUGHT)}.")
        if self.paper and self.limit is not None:
            raise InputError("--paper says how many questions there are.", "Leave out --limit or --paper.")
        if self.kind == "sampled":
            self._check_sampling()
        if self.half:
            check_half(self.half)
        check_out(self.out, self.form)
        if self.right_f1 is not None and not 0 < self.right_f1 <= 1:
            raise ConfigError(f"An F1 of {self.right_f1:g} makes no answer right.", "Give more than 0, and 1 at most.")
        if self.balance is not None:
            if self.kind not in LABELLED:
                raise InputError(f"Rows of {self.kind} have no labels to balance.", "Leave --balance out.")
            check_balance(self.balance)
        if self.out.resolve() in {path.resolve() for path in (*self.data, *self.exclude)}:
            raise InputError(f"{self.out} is read, and cannot be written.", "Give --out another name.")

    def _check_sampling(self) -> None:
        if not self.corpora:
            raise InputError("hop reads documents, and no corpus was given.", "Give --corpus INDEX or SET=INDEX.")
        if self.samples < 1:
            raise ConfigError(f"{self.samples} samples are none.", "Give 1 or more.")
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"A temperature of {self.temperature:g} is not possible.", "Give 0 or more.")
        if self.samples > 1 and not self.temperature:
            cause = "At temperature 0 all samples of a question are the same."
            raise ConfigError(cause, "Give --temperature 0.7, or --samples 1.")


def read_kind(name: str) -> Kind:
    """Return the kind with this name; "taikc-" may be left out."""
    short = {kind.removeprefix("taikc-"): kind for kind in KINDS}
    if name in KINDS or name in short:
        return short[name.removeprefix("taikc-")]
    meant = did_you_mean(name, [*KINDS, *short], f"Choose one of {', '.join(KINDS)}.")
    raise ConfigError(f"There is no training set '{name}'.", meant)
