"""Building training sets, each with the prompts that the method itself sends: RA-ISF's three, and TAIKC's."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree import __version__
from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets.reading import HALVES, half_of, sample
from hoptree.models import DEFAULT_MODEL
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.training.ask_many import RIGHT_F1
from hoptree.training.chat_rows import (
    TAIKC,
    ChatRow,
    Made,
    Progress,
    balanced,
    beside_the_paper,
    check_balance,
    described,
    in_words,
)
from hoptree.training.formats import Format, check_out, write_set
from hoptree.training.labelled_passages import GoldReader
from hoptree.training.leakage import OVERLAP, Admitted, Excluded, admit
from hoptree.training.plans.written_plans import packaged_plans
from hoptree.training.questions import TrainingQuestion, read_training_files
from hoptree.training.ra_isf_rows import make_decompositions, make_knowledge, make_relevance
from hoptree.training.taikc_gold import Form, make_gold
from hoptree.training.taikc_rows import make_boundary, make_instructions

Kind = Literal["ra-isf-know", "ra-isf-relevance", "ra-isf-decompose", "taikc-if", "taikc-kbae", "taikc-gold"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SHORT: dict[str, Kind] = {kind.removeprefix("taikc-"): kind for kind in KINDS if kind.startswith("taikc-")}
_LABELLED: tuple[Kind, ...] = ("ra-isf-know", "ra-isf-relevance", "taikc-kbae")
"""The kinds whose rows have labels that can be out of balance."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A training set as it was asked for.

    `only_train`, `allow_evaluation` and `exclude` say which questions may be in it (see `admit`); `limit` takes the
    first of those, of each file in turn, or with a `seed` as many drawn by it. Of `half`, first or second, questions
    are taken alone, and none that is like one of the other half. `balance` is how many times as often as the rarest a
    label may occur.

    The rest belongs to some kinds: `model` to those that ask one, `right_f1` to know, `judge` to kbae, `corpus` to `k`
    to what searches, `titles` to relevance and gold, `linked` to decompose, `options` of TAIKC to if, and `robust`
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


def read_kind(name: str) -> Kind:
    """The kind of this name, if there is one; TAIKC's also without its name."""
    for kind in KINDS:
        if name in (kind, kind.removeprefix("taikc-")):
            return kind
    close = difflib.get_close_matches(name, [*KINDS, *_SHORT], 1)
    hint = f"Did you mean {close[0]}?" if close else f"Choose one of {', '.join(KINDS)}."
    raise ConfigError(f"There is no training set '{name}'.", hint)


async def build(wanted: Wanted, *, on_progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Write the file, and say what is in it and what was left out."""
    _check(wanted)
    read = read_training_files(wanted.data)
    mine, others = _halves(read.questions, wanted.half)
    excluded = Excluded(wanted.exclude, others)
    admitted = admit(
        mine, excluded, only_train=wanted.only_train, any_split=wanted.any_split, allow=wanted.allow_evaluation
    )
    chosen = _chosen(admitted.questions, wanted)
    made = await _made(wanted, chosen, on_progress)
    kept = balanced(made.rows, wanted.balance, wanted.seed or 0)
    if not kept:
        raise _nothing(made, wanted)
    warnings = _warnings(wanted, kept)
    files = write_set(wanted.out, [_marked(row, wanted, admitted) for row in kept], wanted.form)
    return {
        "kind": wanted.kind,
        "out": str(wanted.out),
        "format": wanted.form,
        "files": [str(path) for path in files],
        **({"half": wanted.half} if wanted.half else {}),
        "questions": {
            "read": len(read.questions) + sum(read.left_out.values()),
            "asked": len(chosen),
            "in_rows": len({row.meta["question"] for row in kept}),
        },
        "splits": dict(Counter(question.split for question in chosen)),
        "excluded": {
            "files": [str(path) for path in wanted.exclude],
            "questions": len(excluded),
            "without_steps": excluded.without_steps,
        },
        "same_question_from": OVERLAP,
        "any_split": wanted.any_split,
        "evaluation_questions": sum(question.key in admitted.evaluation for question in chosen),
        "left_out": _added(read.left_out, admitted.left_out, made.left_out, _dropped(made.rows, kept)),
        "warnings": warnings,
        **made.told,
        **described(kept),
        **({"beside_the_paper": beside_the_paper(in_words(kept))} if wanted.kind.startswith(f"{TAIKC}-") else {}),
    }


def _halves(
    questions: Sequence[TrainingQuestion], half: str
) -> tuple[Sequence[TrainingQuestion], dict[str, list[TrainingQuestion]]]:
    """The questions of one half, and those of the other by the names of their files; all where none is asked for."""
    others: dict[str, list[TrainingQuestion]] = {}
    if not half:
        return questions, others
    for question in questions:
        if half_of(question.example.id) != half:
            others.setdefault(f"the other half of {Path(question.file).name}", []).append(question)
    return [question for question in questions if half_of(question.example.id) == half], others


def _check(wanted: Wanted) -> None:
    if wanted.kind in ("ra-isf-relevance", "taikc-if") and not wanted.corpus:
        raise InputError("Passages are searched for, and no corpus was given.", "Give --corpus INDEX.")
    if wanted.half and wanted.half not in HALVES:
        raise ConfigError(f"'{wanted.half}' is no half of a data set.", f"Choose {' or '.join(HALVES)}.")
    check_out(wanted.out, wanted.form)
    if not 0 < wanted.right_f1 <= 1:
        raise ConfigError(f"An F1 of {wanted.right_f1:g} makes no answer right.", "Give more than 0, and 1 at most.")
    if wanted.balance is not None:
        if wanted.kind not in _LABELLED:
            raise InputError(f"Rows of {wanted.kind} have no labels to balance.", "Leave --balance out.")
        check_balance(wanted.balance)
    for path in (*wanted.data, *wanted.exclude):
        if path.resolve() == wanted.out.resolve():
            raise InputError(f"{wanted.out} is read, and cannot be written.", "Give --out another name.")


def _nothing(made: Made, wanted: Wanted) -> InputError:
    why = "; ".join(f"{count:,} {reason}" for reason, count in made.left_out.items())
    hint = " --linked takes chains, too." if wanted.kind == "ra-isf-decompose" and not wanted.linked else ""
    return InputError("No row came of these questions.", f"Left out: {why}.{hint}")


def _chosen(questions: Sequence[TrainingQuestion], wanted: Wanted) -> list[TrainingQuestion]:
    """The first of each file in turn, or with a seed as many drawn by it: the same way as a run chooses its questions.

    Without a seed they stay in their order.
    """
    if wanted.seed is None:
        before: Counter[str] = Counter()
        turns = []
        for place, question in enumerate(questions):
            turns.append((before[question.file], place))
            before[question.file] += 1
        return [questions[place] for place in sorted(place for _, place in sorted(turns)[: wanted.limit])]
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
    if wanted.kind == "taikc-kbae":
        return await make_boundary(
            questions,
            model=wanted.model,
            judge=wanted.judge,
            base_url=wanted.base_url,
            cache=wanted.cache,
            concurrency=wanted.concurrency,
            on_progress=on_progress,
        )
    if wanted.kind == "taikc-if":
        return await make_instructions(
            questions,
            teacher=wanted.model,
            corpus=wanted.corpus,
            retriever=wanted.retriever,
            rerank=wanted.rerank,
            options=wanted.options,
            base_url=wanted.base_url,
            cache=wanted.cache,
            concurrency=wanted.concurrency,
            on_progress=on_progress,
        )
    if wanted.kind == "taikc-gold":
        return await _gold(wanted, questions, on_progress)
    return await make_decompositions(questions, linked=wanted.linked, on_progress=on_progress)


async def _gold(wanted: Wanted, questions: Sequence[TrainingQuestion], on_progress: Progress) -> Made:
    plans = {key: plan.plan for key, plan in packaged_plans().items()}
    reader = None
    if wanted.corpus:
        reader = GoldReader(wanted.corpus, wanted.retriever, rerank=wanted.rerank, k=wanted.k)
    try:
        form = Form(robust=wanted.robust, titles=wanted.titles)
        return await make_gold(questions, plans=plans, reader=reader, form=form, on_progress=on_progress)
    finally:
        if reader is not None:
            await reader.aclose()


def _marked(row: ChatRow, wanted: Wanted, admitted: Admitted) -> ChatRow:
    """The row with what is true of the whole file, so that no row can be parted from it."""
    meta = {"kind": wanted.kind, **row.meta, "hoptree": __version__}
    if wanted.allow_evaluation:
        meta |= {"evaluation_allowed": True, "evaluation": admitted.evaluation.get(row.meta["question"], "")}
    return replace(row, meta=meta)


def _warnings(wanted: Wanted, kept: Sequence[ChatRow]) -> list[str]:
    """What a person should know of a set that was built all the same; one that was to be balanced is not built."""
    labels = {row.label for row in kept}
    if wanted.kind not in _LABELLED or len(labels) > 1:
        return []
    rows = "The only row has" if len(kept) == 1 else f"All {len(kept):,} rows have"
    said = f"{rows} the label '{labels.pop()}'"
    if wanted.balance is not None:
        raise InputError(f"{said}, so nothing can be balanced.", "Give more or other questions, or no --balance.")
    return [f"{said}: a model trained on such a set learns to say nothing else. Give more or other questions."]


def _added(*parts: Mapping[str, int]) -> dict[str, int]:
    """How many were left out for what on the whole way."""
    whole: Counter[str] = Counter()
    for part in parts:
        whole.update(part)
    return dict(whole)


def _dropped(made: Sequence[ChatRow], kept: Sequence[ChatRow]) -> dict[str, int]:
    fewer = Counter(row.label for row in made) - Counter(row.label for row in kept)
    return {f"'{label}' by balance": count for label, count in fewer.items()}
