"""Measure knowledge-boundary awareness (TAIKC, appendices C and D).

FOLDER/DATA/…                the run of one data set, as `hoptree run` makes it
FOLDER/DATA/…/boundary.json  its measures
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import with_sum
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.trace import read_events
from hoptree.evaluation.calibration import (
    Attempt,
    BoundaryAwareness,
    MemoryDecision,
    average,
    boundary,
    calibrate,
    memory_decisions,
    score_attempt,
)
from hoptree.evaluation.experiment import BOUNDARY_METHOD, BoundaryExperiment
from hoptree.evaluation.judge import JudgeItem, JudgeReport, judge_all
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import TRACES, half_width, read_rows, write_json
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.models import open_model
from hoptree.models.model import Model

_MIN_QUESTIONS = 10  # sure answers, and refusals, that a verdict needs
LEAST_RIGHT = 0.5  # share of sure answers that must be correct
LEAST_GAP = 0.15  # F1 by which confident knowledge must exceed the knowledge gap

_NONE_USABLE = "this model shows no usable boundary; use source=external."


def _reached(value: float, around: float, least: float) -> bool | None:
    """Return whether a figure reaches its goal; None if the interval includes it."""
    return None if abs(value - least) < around else value >= least


def judge_boundary(
    direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None]
) -> tuple[bool | None, str, float | None]:
    """Return whether the boundary is usable, why, and half the gap's interval.

    It is usable if, by the 95 % intervals, at least half of the sure answers are correct and their F1 is at least 15
    points above that of the refused questions. None means that the intervals do not decide this.
    """
    sure = [attempt for attempt in confident.values() if attempt is not None]
    refused = [direct[name].f1 for name, attempt in confident.items() if attempt is None]
    scores, correct = [attempt.f1 for attempt in sure], [float(attempt.correct) for attempt in sure]
    fewer = min(len(sure), len(refused))
    around = hypot(half_width(scores), half_width(refused)) if fewer > 1 else None
    if not sure and not refused:
        return None, "No question has an outcome yet.", around
    if not refused:
        return False, f"It refused nothing: {_NONE_USABLE}", around
    if not sure:
        advice = "with source=unified it would look up everything, as with source=external."
        return False, f"It answered nothing: {advice}", around
    if around is None or fewer < _MIN_QUESTIONS:
        questions = f"{len(sure):,} {'question' if len(sure) == 1 else 'questions'} and refused {len(refused):,}"
        advice = "too few to tell whether it knows what it knows. Ask more, or use source=external."
        return None, f"It was sure of {questions}: {advice}", around
    share, share_around, gap = fmean(correct), half_width(correct), fmean(scores) - fmean(refused)
    right = f"{100 * share:.1f} % of what it was sure of is right (± {100 * share_around:.1f})"
    apart = f"between what it was sure of and what it refused lie {100 * gap:.1f} points of F1 (± {100 * around:.1f})"
    wanted = {
        f"{right}, and {100 * LEAST_RIGHT:.0f} % are wanted": _reached(share, share_around, LEAST_RIGHT),
        f"{apart}, and {100 * LEAST_GAP:.0f} are wanted": _reached(gap, around, LEAST_GAP),
    }
    usable = False if False in wanted.values() else None if None in wanted.values() else True
    if usable:
        return True, f"{right}, and {apart}: this model knows what it knows; source=unified can rest on it.", around
    missed = "; ".join(text for text, reached in wanted.items() if reached is usable)
    advice = "too close to tell. Ask more, or use source=external." if usable is None else _NONE_USABLE
    return usable, f"{missed[0].upper()}{missed[1:]}: {advice}", around


BOUNDARY = "boundary.json"
_ANSWERED_ABOVE = 0.5  # least token probability of a kept answer, as in `taikc` with source=probability


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with both answers; `confident` is None if the model refused."""

    id: str
    question: str
    golds: tuple[str, ...]
    direct: str
    confident: str | None
    confidence: float | None = None
    failed: bool = False  # counts as wrong in Direct QA, and not at all in Confident QA


Judgement = Mapping[str, JudgeReport]  # by "direct" and "confident" answers, and whether both mean the "same"


def read_pairs(folder: Path) -> list[Pair]:
    """Return both answers to every finished question of a run."""
    path = folder / TRACES
    recorded = read_events(path) if path.exists() and path.stat().st_size else ()
    recorded_dicts = (event.as_dict() for event in recorded)
    events = {event["run"]: event for event in recorded_dicts if event["event"] == BOUNDARY_METHOD}
    pairs = []
    for row in read_rows(folder):
        if row.error or row.stopped_by:
            pairs.append(Pair(row.id, row.question, row.answers, "", "", failed=True))
            continue
        try:
            event = events[row.trace]
            confident = None if event["refused"] else str(event["confident"])
            confidence = None if event["confidence"] is None else float(event["confidence"])
            pairs.append(Pair(row.id, row.question, row.answers, str(event["direct"]), confident, confidence))
        except (KeyError, TypeError, ValueError) as error:
            cause = f"{path} does not tell both answers to question {row.id}."
            raise InputError(cause, "Measure it into a new folder.") from error
    return pairs


async def judge_pairs(pairs: Sequence[Pair], model: Model, calls: Calls) -> Judgement:
    """Judge all answers and pairs; failed questions are wrong."""
    direct = [JudgeItem(pair.id, pair.question, pair.direct, pair.golds) for pair in pairs]
    confident, same = [], []
    for pair in pairs:
        if pair.confident is not None and not pair.failed:
            confident.append(JudgeItem(pair.id, pair.question, pair.confident, pair.golds))
            # No answer means the same as a blank one: that is a No without a call.
            compared = pair.confident if pair.direct.strip() else ""
            same.append(JudgeItem(pair.id, pair.question, compared, (pair.direct,)))
    kinds = {"direct": direct, "confident": confident, "same": same}
    return {kind: await judge_all(items, model, calls) for kind, items in kinds.items()}


def measure(pairs: Sequence[Pair], judged: Judgement | None = None) -> dict[str, Any]:
    """Return the content of `boundary.json`."""
    asked = [pair for pair in pairs if not pair.failed]
    failed = len(pairs) - len(asked)
    direct, confident = _attempts(asked, judged)
    awareness = _awareness(pairs, judged)
    calibration = calibrate(memory_decisions(direct, confident))
    usable, verdict, gap_around = judge_boundary(direct, confident)
    probability = None
    if any(pair.confidence is not None for pair in asked):  # the least token probability of the direct answer
        decisions = [
            MemoryDecision((pair.confidence or 0.0) >= _ANSWERED_ABOVE, direct[pair.id].correct, pair.confidence)
            for pair in asked
        ]
        probability = asdict(calibrate(decisions)) | {"threshold": _ANSWERED_ABOVE}
    by_id = {pair.id: pair for pair in pairs}
    flips = [
        {**asdict(flip), "question": by_id[flip.id].question, "answers": list(by_id[flip.id].golds[:5])}
        for flip in awareness.flips
    ]
    return {
        **awareness.as_dict(),
        "failed": failed,
        "refused_share": awareness.gap.questions / len(asked) if asked else None,
        "gap_f1_plus_minus": gap_around,
        "precision": calibration.precision,
        "overconfident": calibration.overconfident,
        "underconfident": calibration.underconfident,
        "probability": probability,
        "judge": {kind: report.as_dict() for kind, report in judged.items()} if judged else None,
        "usable": None if failed else usable,
        "verdict": f"{failed:,} failed: --retry-failed first." if failed else verdict,
        "flips": flips,
    }


def measure_several(
    sets: Mapping[str, Sequence[Pair]], judged: Mapping[str, Judgement] | None = None
) -> tuple[dict[str, Any], dict[str, float | None]]:
    """Return the measures of several data sets pooled, and their means."""
    parts = [_awareness(pairs, judged[name] if judged else None) for name, pairs in sets.items()]
    pooled = [replace(pair, id=f"{name}/{pair.id}") for name, pairs in sets.items() for pair in pairs]
    merged: dict[str, JudgeReport] = {}
    for kind in next(iter(judged.values())) if judged else ():
        reports = [(name, judgement[kind]) for name, judgement in (judged or {}).items()]
        verdicts = [replace(known, id=f"{name}/{known.id}") for name, report in reports for known in report.verdicts]
        merged[kind] = replace(reports[0][1], verdicts=tuple(verdicts))
    return measure(pooled, merged or None), average(parts)


def _verdicts(judged: Judgement | None, kind: str) -> dict[str, bool]:
    return {verdict.id: verdict.correct for verdict in judged[kind].verdicts} if judged else {}


def _awareness(pairs: Sequence[Pair], judged: Judgement | None) -> BoundaryAwareness:
    """Compare both settings; failed questions count in Direct QA only."""
    same = _verdicts(judged, "same") if judged else None
    awareness = boundary(*_attempts([pair for pair in pairs if not pair.failed], judged), same)
    direct, _ = _attempts(pairs, judged)
    return replace(awareness, direct=boundary(direct, dict.fromkeys(direct)).direct)


def _attempts(pairs: Sequence[Pair], judged: Judgement | None) -> tuple[dict[str, Attempt], dict[str, Attempt | None]]:
    plain, sure = _verdicts(judged, "direct"), _verdicts(judged, "confident")
    direct = {pair.id: score_attempt(pair.direct, pair.golds, judged=plain.get(pair.id)) for pair in pairs}
    confident = {
        pair.id: None if pair.confident is None else score_attempt(pair.confident, pair.golds, judged=sure.get(pair.id))
        for pair in pairs
    }
    return direct, confident


Listener = Callable[[Planned, Progress], None]


def planned_for(files: Sequence[Path], experiment: BoundaryExperiment) -> list[Planned]:
    """Return the runs of one model over several files of questions."""
    short = [replace(experiment, data=path).read_data().name for path in files]
    names = [
        name if short.count(name) == 1 else f"{path.resolve().parent.name} {path.name.partition('.')[0]}"
        for name, path in zip(short, files, strict=True)
    ]
    if len(set(names)) < len(names):
        raise InputError("A file of questions was given twice.", "Name each --data once.")
    return [
        Planned(name, "", (), replace(experiment, data=path, name=f"{experiment.model} on {name}"))
        for name, path in zip(names, files, strict=True)
    ]


async def measure_all(
    planned: Sequence[Planned],
    out: Path,
    options: RunOptions,
    *,
    on_progress: Listener = lambda planned, progress: None,
) -> list[dict[str, Any]]:
    """Measure each model on every data set, on all pooled, and on average."""
    by_model: dict[str, dict[str, Planned]] = {}
    for run in planned:
        if not isinstance(run.experiment, BoundaryExperiment):
            cause = f"'{run.run_name}' is a run of {run.experiment.method}."
            remedy = f"hoptree run makes it; hoptree eval boundary is for runs with method: {BOUNDARY_METHOD}."
            raise ConfigError(cause, remedy)
        label = run.experiment.name.removesuffix(f" on {run.data_name}")
        by_model.setdefault(label, {})[run.data_name] = run
    warnings = {label: await _ask(runs, out, options, on_progress) for label, runs in by_model.items()}
    measured = []
    for label, runs in by_model.items():
        folders = {name: out / run.folder for name, run in runs.items()}
        pairs = {name: read_pairs(folder) for name, folder in folders.items()}
        experiment = next(iter(runs.values())).experiment
        judged: dict[str, Judgement] | None = None
        if experiment.judge:
            async with aclosing(experiment.open_judge()) as model:
                with closing(open_calls(options.cache, concurrency=options.concurrency)) as calls:
                    judged = {name: await judge_pairs(of_set, model, calls) for name, of_set in pairs.items()}
        sets = {}
        for name, of_set in pairs.items():
            measures = measure(of_set, judged[name] if judged else None)
            sets[name] = {"model": label, "data": name, **measures, "warnings": warnings[label][name]}
            write_json(folders[name] / BOUNDARY, with_sum(sets[name]))
        pooled, mean = measure_several(pairs, judged) if len(sets) > 1 else (None, None)
        paths = {name: str(folder) for name, folder in folders.items()}
        measured.append({"model": label, "folders": paths, "sets": sets, "all": pooled, "mean": mean})
    return measured


async def _ask(
    runs: Mapping[str, Planned], out: Path, options: RunOptions, on_progress: Listener
) -> dict[str, list[str]]:
    """Finish the runs of one model; return their warnings by data set."""
    first = next(iter(runs.values())).experiment
    warnings = {}
    async with aclosing(open_model(first.model, base_url=first.base_url)) as model:
        for name, run in runs.items():
            # Both answers are judged together at the end: the run itself needs no judge.
            experiment = replace(run.experiment, judge="", judge_base_url="")
            summary = await run_experiment(
                experiment, out / run.folder, options, model=model, on_progress=partial(on_progress, run)
            )
            warnings[name] = list(summary["warnings"])
    return warnings
