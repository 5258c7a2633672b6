"""Build training sets with the prompts that the methods themselves send: RA-ISF's three, and TAIKC's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.reading import half_of, sample
from hoptree.training.chat_rows import (
    TAIKC,
    ChatRow,
    MadeRows,
    Progress,
    balance_rows,
    compare_with_paper,
    describe,
    word_lengths,
)
from hoptree.training.formats import write_set
from hoptree.training.leakage import OVERLAP, Admitted, Excluded, admit
from hoptree.training.questions import TrainingQuestion, read_training_files
from hoptree.training.ra_isf_rows import make_decompositions, make_knowledge, make_relevance
from hoptree.training.set_spec import LABELLED, SetSpec
from hoptree.training.taikc_gold import make_gold
from hoptree.training.taikc_rows import make_boundary, make_instructions

_MAKERS = {
    "ra-isf-know": make_knowledge,
    "ra-isf-relevance": make_relevance,
    "ra-isf-decompose": make_decompositions,
    "taikc-if": make_instructions,
    "taikc-kbae": make_boundary,
    "taikc-gold": make_gold,
}


async def build(spec: SetSpec, *, on_progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Write a training set, and report what is in it and what was left out."""
    spec.check()
    read = read_training_files(spec.data)
    mine, others = _halves(read.questions, spec.half)
    excluded = Excluded(spec.exclude, others)
    admitted = admit(mine, excluded, only_train=spec.only_train, any_split=spec.any_split, allow=spec.allow_evaluation)
    chosen = _choose(admitted.questions, spec)
    made = await _MAKERS[spec.kind](questions=chosen, spec=spec, on_progress=on_progress)
    kept = balance_rows(made.rows, spec.balance, spec.seed or 0)
    if not kept:
        raise _no_rows(made, spec)
    warnings = _warnings(spec, kept)
    files = write_set(spec.out, [_marked(row, spec, admitted) for row in kept], spec.form)
    dropped = Counter(row.label for row in made.rows) - Counter(row.label for row in kept)
    left_out = Counter(read.left_out)
    for reasons in (admitted.left_out, made.left_out, {f"'{label}' by balance": n for label, n in dropped.items()}):
        left_out.update(reasons)
    return {
        "kind": spec.kind,
        "out": str(spec.out),
        "format": spec.form,
        "files": [str(path) for path in files],
        **({"half": spec.half} if spec.half else {}),
        "questions": {
            "read": len(read.questions) + sum(read.left_out.values()),
            "asked": len(chosen),
            "in_rows": len({row.meta["question"] for row in kept}),
        },
        "splits": dict(Counter(question.split for question in chosen)),
        "excluded": {
            "files": [str(path) for path in spec.exclude],
            "questions": len(excluded),
            "without_steps": excluded.without_steps,
        },
        "same_question_from": OVERLAP,
        "any_split": spec.any_split,
        "evaluation_questions": sum(question.key in admitted.evaluation for question in chosen),
        "left_out": dict(left_out),
        "warnings": warnings,
        **made.report,
        **describe(kept),
        **({"beside_the_paper": compare_with_paper(word_lengths(kept))} if spec.kind.startswith(f"{TAIKC}-") else {}),
    }


def _halves(
    questions: Sequence[TrainingQuestion], half: str
) -> tuple[Sequence[TrainingQuestion], dict[str, list[TrainingQuestion]]]:
    """Return the questions of one half, and those of the other by the names of their files; all without a half."""
    others: dict[str, list[TrainingQuestion]] = {}
    if not half:
        return questions, others
    for question in questions:
        if half_of(question.example.id) != half:
            others.setdefault(f"the other half of {Path(question.file).name}", []).append(question)
    return [question for question in questions if half_of(question.example.id) == half], others


def _choose(questions: Sequence[TrainingQuestion], spec: SetSpec) -> list[TrainingQuestion]:
    """Return the first of each file in turn, in their order, or as many drawn by the seed.

    A seed draws in the same way as a run does.
    """
    if spec.seed is None:
        before: Counter[str] = Counter()
        turns = []
        for place, question in enumerate(questions):
            turns.append((before[question.file], place))
            before[question.file] += 1
        return [questions[place] for place in sorted(place for _, place in sorted(turns)[: spec.limit])]
    by_key = {question.key: question for question in questions}
    examples = [replace(question.example, id=key) for key, question in by_key.items()]
    return [by_key[example.id] for example in sample(examples, len(examples), spec.seed)][: spec.limit]


def _no_rows(made: MadeRows, spec: SetSpec) -> InputError:
    why = "; ".join(f"{count:,} {reason}" for reason, count in made.left_out.items())
    hint = " --linked takes chains, too." if spec.kind == "ra-isf-decompose" and not spec.linked else ""
    return InputError("No row came of these questions.", f"Left out: {why}.{hint}")


def _marked(row: ChatRow, spec: SetSpec, admitted: Admitted) -> ChatRow:
    """Return the row with what is true of the whole file, so that it is known of every single row."""
    meta = {"kind": spec.kind, **row.meta, "hoptree": __version__}
    if spec.allow_evaluation:
        meta |= {"evaluation_allowed": True, "evaluation": admitted.evaluation.get(row.meta["question"], "")}
    return replace(row, meta=meta)


def _warnings(spec: SetSpec, kept: Sequence[ChatRow]) -> list[str]:
    """Warn of a set with one label only; one that was to be balanced is refused."""
    labels = {row.label for row in kept}
    if spec.kind not in LABELLED or len(labels) > 1:
        return []
    rows = "The only row has" if len(kept) == 1 else f"All {len(kept):,} rows have"
    cause = f"{rows} the label '{labels.pop()}'"
    if spec.balance is not None:
        raise InputError(f"{cause}, so nothing can be balanced.", "Give more or other questions, or no --balance.")
    return [f"{cause}: a model trained on such a set learns to say nothing else. Give more or other questions."]
