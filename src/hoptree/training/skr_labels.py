"""Label questions for SKR: whether documents improved the answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.run_folder import Row, read_rows, read_run
from hoptree.methods.steps.route import Label
from hoptree.training.formats import write_lines
from hoptree.training.leakage import Excluded
from hoptree.training.questions import TrainingQuestion, is_evaluation, split_of_path


@dataclass(frozen=True, slots=True)
class LabelsSpec:
    """A run without documents and one with, and the score to compare."""

    without: Path
    with_documents: Path
    out: Path
    metric: str = "em"
    exclude: tuple[Path, ...] = ()
    allow_evaluation: bool = False


def label_questions(spec: LabelsSpec) -> dict[str, Any]:
    """Write the labels, and report their numbers and what was left out."""
    folders = (spec.without, spec.with_documents)
    runs = [read_run(path) for path in folders]
    tables = []
    for path in folders:
        rows_of_run = read_rows(path)
        names = sorted({name for row in rows_of_run for name in row.scores})
        if spec.metric not in names:
            cause = f"The run in {path} has no score '{spec.metric}'."
            raise InputError(cause, f"It has {', '.join(names) or 'none'}.")
        tables.append({row.id: row for row in rows_of_run})
    without, with_documents = tables
    _check(spec, runs, without, with_documents)
    excluded = Excluded(spec.exclude)
    file, data = str(runs[0]["experiment"].get("data", "")), str(runs[0].get("data_name", ""))
    common = [name for name in without if name in with_documents]
    evaluation = {
        name: excluded.why(TrainingQuestion(Example(name, without[name].question, dataset=data), file))
        for name in common
    }
    split = split_of_path(Path(file))
    if is_evaluation(split) and not spec.allow_evaluation and not any(evaluation.values()):
        raise InputError(
            f"The runs asked the questions of {file}, which is by its name for evaluation ('{split}').",
            "Run train questions; or name the questions that you measure on with --exclude, as a file or by the folder "
            "of a run, and they are left out; --allow-evaluation-questions takes all, and says so in the file.",
        )
    left_out: Counter[str] = Counter({"in one run only": len(without.keys() ^ with_documents.keys())})
    rows: list[dict[str, Any]] = []
    for name in common:
        row, other = without[name], with_documents[name]
        before, after = row.scores[spec.metric], other.scores[spec.metric]
        if evaluation[name] and not spec.allow_evaluation:
            left_out[f"evaluation question by {evaluation[name].partition(' ')[0]}"] += 1
        elif row.error or other.error:
            left_out["failed in one run"] += 1
        elif before is None or after is None:
            left_out[f"without a score of {spec.metric} in one run"] += 1
        else:
            label: Label = "better" if after > before else "worse" if after < before else "tie"
            source = {"id": name, "dataset": data, "metric": spec.metric}
            scores = {"without": before, "with": after, "hoptree": __version__}
            marks = {"evaluation": evaluation[name] or split} if spec.allow_evaluation else {}
            rows.append({"question": row.question, "label": label, **source, **scores, **marks})
    return _write(spec, rows, left_out, runs)


def _check(
    spec: LabelsSpec, runs: Sequence[Mapping[str, Any]], without: Mapping[str, Row], with_documents: Mapping[str, Row]
) -> None:
    for path in (spec.without, spec.with_documents):
        if path.resolve() in (spec.out.resolve(), *spec.out.resolve().parents):
            raise InputError(f"{spec.out} is inside the run {path}.", "Give --out another place.")
    if runs[0]["rests_on"].get("data") != runs[1]["rests_on"].get("data"):
        raise InputError("The runs are over different data.", "Run both over the same file of questions.")
    if any(row.retrieved for row in without.values()):
        cause = f"The run in {spec.without} searched: it should be the one without documents."
        remedy = "Give the run without documents (cot) first, the one with documents (iter_retgen, rounds=1) second."
        raise InputError(cause, remedy)
    if not any(row.retrieved for row in with_documents.values()):
        cause = f"The run in {spec.with_documents} never searched: it should be the one with documents."
        raise InputError(cause, "Run the same questions again with documents: --method iter_retgen --set rounds=1.")


def _write(
    spec: LabelsSpec, rows: Sequence[Mapping[str, Any]], left_out: Counter[str], runs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    labels = Counter(row["label"] for row in rows)
    if not labels["better"] + labels["worse"]:
        why = "; ".join(f"{count:,} {reason}" for reason, count in (+left_out).items())
        cause = f"Of {len(rows):,} questions documents made no answer better or worse."
        raise InputError(cause, f"Run more questions.{f' Left out: {why}.' if why else ''}")
    write_lines(spec.out, (json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    models = {str(run["rests_on"].get("model")) for run in runs}
    return {
        "out": str(spec.out),
        "metric": spec.metric,
        "questions": len(rows),
        "labels": {name: labels[name] for name in ("better", "worse", "tie")},
        "left_out": dict(+left_out),
        "evaluation_allowed": spec.allow_evaluation,
        "excluded": [str(path) for path in spec.exclude],
        "warnings": ["The runs are of different models: the labels say what neither knows."] if len(models) > 1 else [],
    }
