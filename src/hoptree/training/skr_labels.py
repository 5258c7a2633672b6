"""SKR's labels: of which train questions documents made the answer better, and of which worse, by two runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.core.files import atomic_write
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.run_folder import Row, read_rows, read_run
from hoptree.methods.baselines.skr import Label
from hoptree.training.leakage import Excluded
from hoptree.training.questions import TrainingQuestion, is_evaluation, split_told_by

_ALLOW = "--allow-evaluation-questions"


@dataclass(frozen=True, slots=True)
class LabelsWanted:
    """The labels as they were asked for: from a run without documents and one with, by a score of their answers."""

    without: Path
    with_documents: Path
    out: Path
    metric: str = "em"
    exclude: tuple[Path, ...] = ()
    allow_evaluation: bool = False


def label_questions(wanted: LabelsWanted) -> dict[str, Any]:
    """Write the file, and say what is in it and what was left out.

    Ties are in it, too: SKR counts them, though they are nobody's neighbours.
    """
    runs = [read_run(path) for path in (wanted.without, wanted.with_documents)]
    without, with_documents = (_scored(path, wanted.metric) for path in (wanted.without, wanted.with_documents))
    _check(wanted, runs, without, with_documents)
    left_out: Counter[str] = Counter({"in one run only": len(without.keys() ^ with_documents.keys())})
    excluded = Excluded(wanted.exclude)
    file, data = str(runs[0]["experiment"].get("data", "")), str(runs[0].get("data_name", ""))
    common = [name for name in without if name in with_documents]
    why = {name: excluded.why(_question(without[name], data, file)) for name in common}
    split = split_told_by(Path(file))
    _refuse_evaluation(file, split, why, wanted.allow_evaluation)
    rows = []
    for name in common:
        before, after = without[name], with_documents[name]
        scores = before.scores[wanted.metric], after.scores[wanted.metric]
        if why[name] and not wanted.allow_evaluation:
            left_out[f"evaluation question by {why[name].partition(' ')[0]}"] += 1
        elif before.error or after.error:
            left_out["failed in one run"] += 1
        elif scores[0] is None or scores[1] is None:
            left_out[f"without a score of {wanted.metric} in one run"] += 1
        else:
            marks = {"evaluation": why[name] or split} if wanted.allow_evaluation else {}
            rows.append(_row(before, data, scores[0], scores[1], wanted.metric) | marks)
    return _written(wanted, rows, left_out, runs)


def _check(
    wanted: LabelsWanted,
    runs: Sequence[Mapping[str, Any]],
    without: Mapping[str, Row],
    with_documents: Mapping[str, Row],
) -> None:
    for path in (wanted.without, wanted.with_documents):
        if path.resolve() in (wanted.out.resolve(), *wanted.out.resolve().parents):
            raise InputError(f"{wanted.out} is inside the run {path}.", "Give --out another place.")
    if runs[0]["rests_on"].get("data") != runs[1]["rests_on"].get("data"):
        raise InputError("The runs are over different data.", "Run both over the same file of questions.")
    if any(row.retrieved for row in without.values()):
        raise InputError(
            f"The run in {wanted.without} searched: it should be the one without documents.",
            "Give the run without documents (cot) first, the one with documents (iter_retgen, rounds=1) second.",
        )
    if not any(row.retrieved for row in with_documents.values()):
        raise InputError(
            f"The run in {wanted.with_documents} never searched: it should be the one with documents.",
            "Run the same questions again with documents: --method iter_retgen --set rounds=1.",
        )


def _scored(path: Path, metric: str) -> dict[str, Row]:
    rows = read_rows(path)
    known = sorted({name for row in rows for name in row.scores})
    if metric not in known:
        raise InputError(f"The run in {path} has no score '{metric}'.", f"It has {', '.join(known) or 'none'}.")
    return {row.id: row for row in rows}


def _refuse_evaluation(file: str, split: str, why: Mapping[str, str], allow: bool) -> None:
    """A file that is named for evaluation may be labelled where it is known which of its questions are measured on."""
    if is_evaluation(split) and not allow and not any(why.values()):
        raise InputError(
            f"The runs asked the questions of {file}, which is by its name for evaluation ('{split}').",
            "Run train questions; or name the questions that you measure on with --exclude, as a file or by the folder "
            f"of a run, and they are left out; {_ALLOW} takes all, and says so in the file.",
        )


def _question(row: Row, data: str, file: str) -> TrainingQuestion:
    return TrainingQuestion(Example(row.id, row.question, dataset=data), file)


def _row(row: Row, data: str, before: float, after: float, metric: str) -> dict[str, Any]:
    label: Label = "better" if after > before else "worse" if after < before else "tie"
    told = {"id": row.id, "dataset": data, "metric": metric, "without": before, "with": after, "hoptree": __version__}
    return {"question": row.question, "label": label, **told}


def _written(
    wanted: LabelsWanted, rows: Sequence[Mapping[str, Any]], left_out: Counter[str], runs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    labels = Counter(row["label"] for row in rows)
    if not labels["better"] + labels["worse"]:
        why = "; ".join(f"{count:,} {reason}" for reason, count in (+left_out).items())
        raise InputError(
            f"Of {len(rows):,} questions documents made no answer better or worse.",
            f"Run more questions.{f' Left out: {why}.' if why else ''}",
        )
    try:
        wanted.out.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(wanted.out, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    except OSError as error:
        cause = f"{wanted.out} cannot be written: {error.strerror or error}."
        raise InputError(cause, "Give --out a file that can.") from error
    models = [run["rests_on"].get("model") for run in runs]
    differ = ["The runs are of different models: the labels say what neither knows."] if models[0] != models[1] else []
    return {
        "out": str(wanted.out),
        "metric": wanted.metric,
        "questions": len(rows),
        "labels": {name: labels[name] for name in ("better", "worse", "tie")},
        "left_out": dict(+left_out),
        "evaluation_allowed": wanted.allow_evaluation,
        "excluded": [str(path) for path in wanted.exclude],
        "warnings": differ,
    }
