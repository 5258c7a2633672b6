"""The specification of a training set: its kind, its questions and how its rows are made."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets.reading import HALVES
from hoptree.models import DEFAULT_MODEL
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.training.ask_many import RIGHT_F1
from hoptree.training.chat_rows import check_balance
from hoptree.training.formats import Format, check_out

Kind = Literal["ra-isf-know", "ra-isf-relevance", "ra-isf-decompose", "taikc-if", "taikc-kbae", "taikc-gold"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LABELLED: tuple[Kind, ...] = ("ra-isf-know", "ra-isf-relevance", "taikc-kbae")
"""The kinds whose rows have labels that can be out of balance."""


@dataclass(frozen=True, slots=True)
class SetSpec:
    """A training set to be built.

    `only_train`, `any_split`, `allow_evaluation` and `exclude` say which questions may be in it (see `admit`). `limit`
    takes the first of those, of each file in turn, or as many drawn by `seed`. With `half`, first or second, only
    questions of that half are taken, and none that is like one of the other half. `balance` is how many times as
    often as the rarest a label may occur.

    The rest belongs to some kinds: `model` to those that ask one, `right_f1` to know, `judge` to kbae, `corpus` to `k`
    to those that search, `titles` to relevance and gold, `linked` to decompose, `options` of TAIKC to if, and `robust`
    to gold.
    """

    kind: Kind
    data: tuple[Path, ...]
    out: Path
    exclude: tuple[Path, ...] = ()
    only_train: bool = False
    any_split: bool = False
    allow_evaluation: bool = False
    half: str = ""
    limit: int | None = None
    seed: int | None = None
    balance: float | None = None
    model: str = DEFAULT_MODEL
    base_url: str = ""
    cache: str | None = "default"
    concurrency: int | None = None
    right_f1: float = RIGHT_F1
    corpus: str = ""
    retriever: str = DEFAULT_RETRIEVER
    rerank: str = ""
    k: int = 5
    titles: bool = False
    linked: bool = False
    judge: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    robust: bool = False
    form: Format = "chat"

    def check(self) -> None:
        """Refuse what cannot be built, before any model is asked."""
        if self.kind in ("ra-isf-relevance", "taikc-if") and not self.corpus:
            raise InputError("Passages are searched for, and no corpus was given.", "Give --corpus INDEX.")
        if self.half and self.half not in HALVES:
            raise ConfigError(f"'{self.half}' is no half of a data set.", f"Choose {' or '.join(HALVES)}.")
        check_out(self.out, self.form)
        if not 0 < self.right_f1 <= 1:
            raise ConfigError(f"An F1 of {self.right_f1:g} makes no answer right.", "Give more than 0, and 1 at most.")
        if self.balance is not None:
            if self.kind not in LABELLED:
                raise InputError(f"Rows of {self.kind} have no labels to balance.", "Leave --balance out.")
            check_balance(self.balance)
        if self.out.resolve() in {path.resolve() for path in (*self.data, *self.exclude)}:
            raise InputError(f"{self.out} is read, and cannot be written.", "Give --out another name.")


def read_kind(name: str) -> Kind:
    """Return the kind of this name; TAIKC's kinds can be named without the method."""
    short = {kind.removeprefix("taikc-"): kind for kind in KINDS}
    if name in KINDS or name in short:
        return short[name.removeprefix("taikc-")]
    close = difflib.get_close_matches(name, [*KINDS, *short], 1)
    hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(KINDS)}."
    raise ConfigError(f"There is no training set '{name}'.", hint)
