"""Building the training sets of RA-ISF's three sub-models, each with the prompts that the method itself sends."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree import __version__
from hoptree.alignment.chat import ChatRow, balanced, check_balance, described, write_rows
from hoptree.alignment.leakage import OVERLAP, Admitted, Excluded, admit
from hoptree.alignment.making import Made, make_decompositions, make_knowledge, make_relevance
from hoptree.alignment.memory import RIGHT_F1
from hoptree.alignment.questions import TrainingQuestion, read_training_questions
from hoptree.errors import ConfigError, InputError
from hoptree.evaluation.datasets import sample
from hoptree.models import DEFAULT_MODEL

__all__ = ["KINDS", "Kind", "Wanted", "build", "read_kind"]

Kind = Literal["ra-isf-know", "ra-isf-relevance", "ra-isf-decompose"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Progress = Callable[[int, int], None]
"""Told how many questions of how many are done."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A training set as it was asked for.

    `only_train`, `allow_evaluation` and `exclude` say which questions may be in it (see `admit`); `limit` takes the
    first of those, or with a `seed` as many drawn by it. `balance` is how many times as often as the rarest a label may
    occur. The rest belongs to one kind each: `model` to `right_f1` to know, `corpus` to `titles` to relevance, `linked`
    to decompose.
    """

    kind: Kind
    data: tuple[Path, ...]
    out: Path
    exclude: tuple[Path, ...] = ()
    only_train: bool = False
    allow_evaluation: bool = False
    limit: int | None = None
    seed: int | None = None
    balance: float | None = None
    model: str = DEFAULT_MODEL
    base_url: str = ""
    cache: str | None = "default"
    concurrency: int | None = None
    right_f1: float = RIGHT_F1
    corpus: str = ""
    retriever: str = "bm25"
    rerank: str = ""
    k: int = 5
    titles: bool = False
    linked: bool = False


def read_kind(name: str) -> Kind:
    """The kind of this name, if there is one."""
    for kind in KINDS:
        if name == kind:
            return kind
    close = difflib.get_close_matches(name, KINDS, 1)
    hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(KINDS)}."
    raise ConfigError(f"There is no training set '{name}'.", hint)


async def build(wanted: Wanted, *, on_progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Write the file, and say what is in it and what was left out."""
    _check(wanted)
    excluded = Excluded(wanted.exclude)
    read = read_training_questions(wanted.data)
    admitted = admit(read, excluded, only_train=wanted.only_train, allow=wanted.allow_evaluation)
    chosen = _chosen(admitted.questions, wanted)
    made = await _made(wanted, chosen, on_progress)
    kept = balanced(made.rows, wanted.balance, wanted.seed or 0)
    if not kept:
        raise _nothing(made, wanted)
    write_rows(wanted.out, [_marked(row, wanted, admitted) for row in kept])
    return {
        "kind": wanted.kind,
        "out": str(wanted.out),
        "questions": {"read": len(read), "asked": len(chosen)},
        "splits": dict(Counter(question.split for question in chosen)),
        "excluded": {"files": [str(path) for path in wanted.exclude], "questions": len(excluded)},
        "same_question_from": OVERLAP,
        "evaluation_questions": sum(question.key in admitted.evaluation for question in chosen),
        "left_out": {**admitted.left_out, **made.left_out, **_dropped(made.rows, kept)},
        "warnings": _warnings(wanted, kept),
        **made.told,
        **described(kept),
    }


def _check(wanted: Wanted) -> None:
    if wanted.kind == "ra-isf-relevance" and not wanted.corpus:
        raise InputError("Passages are searched for, and no corpus was given.", "Give --corpus INDEX.")
    if not 0 < wanted.right_f1 <= 1:
        raise ConfigError(f"An F1 of {wanted.right_f1:g} makes no answer right.", "Give more than 0, and 1 at most.")
    if wanted.balance is not None:
        if wanted.kind == "ra-isf-decompose":
            raise InputError("Decompositions have no labels to balance.", "Leave --balance out.")
        check_balance(wanted.balance)
    for path in (*wanted.data, *wanted.exclude):
        if path.resolve() == wanted.out.resolve():
            raise InputError(f"{wanted.out} is read, and cannot be written.", "Give --out another name.")


def _nothing(made: Made, wanted: Wanted) -> InputError:
    why = "; ".join(f"{count:,} {reason}" for reason, count in made.left_out.items())
    hint = " --linked takes chains, too." if wanted.kind == "ra-isf-decompose" and not wanted.linked else ""
    return InputError("No row came of these questions.", f"Left out: {why}.{hint}")


def _chosen(questions: Sequence[TrainingQuestion], wanted: Wanted) -> list[TrainingQuestion]:
    """The first, or with a seed as many drawn by it: the same way as a run chooses its questions."""
    if wanted.seed is None:
        return list(questions[: wanted.limit])
    keyed = {question.key: question for question in questions}
    examples = [replace(question.example, id=key) for key, question in keyed.items()]
    return [keyed[example.id] for example in sample(examples, len(examples), wanted.seed)][: wanted.limit]


async def _made(wanted: Wanted, questions: Sequence[TrainingQuestion], on_progress: Progress) -> Made:
    if wanted.kind == "ra-isf-know":
        return await make_knowledge(
            questions,
            model=wanted.model,
            base_url=wanted.base_url,
            cache=wanted.cache,
            concurrency=wanted.concurrency,
            right_f1=wanted.right_f1,
            on_progress=on_progress,
        )
    if wanted.kind == "ra-isf-relevance":
        return await make_relevance(
            questions,
            corpus=wanted.corpus,
            retriever=wanted.retriever,
            rerank=wanted.rerank,
            k=wanted.k,
            titles=wanted.titles,
            on_progress=on_progress,
        )
    return await make_decompositions(questions, linked=wanted.linked, on_progress=on_progress)


def _marked(row: ChatRow, wanted: Wanted, admitted: Admitted) -> ChatRow:
    """The row with what is true of the whole file, so that no row can be parted from it."""
    meta = {"kind": wanted.kind, **row.meta, "hoptree": __version__}
    if wanted.allow_evaluation:
        meta |= {"evaluation_allowed": True, "evaluation": admitted.evaluation.get(row.meta["question"], "")}
    return replace(row, meta=meta)


def _warnings(wanted: Wanted, kept: Sequence[ChatRow]) -> list[str]:
    """What a person should know of a set that was built all the same."""
    labels = {row.label for row in kept}
    if wanted.kind == "ra-isf-decompose" or len(labels) > 1:
        return []
    rows = "The only row has" if len(kept) == 1 else f"All {len(kept):,} rows have"
    balance = "" if wanted.balance is None else ", and --balance had nothing to hold against it"
    return [
        f"{rows} the label '{labels.pop()}'{balance}: a model trained on such a set learns to say nothing else. Give "
        "more or other questions."
    ]


def _dropped(made: Sequence[ChatRow], kept: Sequence[ChatRow]) -> dict[str, int]:
    fewer = Counter(row.label for row in made) - Counter(row.label for row in kept)
    return {f"'{label}' by balance": count for label, count in fewer.items()}
