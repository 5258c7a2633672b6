"""Measure knowledge-boundary awareness (TAIKC, appendices C and D).

FOLDER/DATA/…                the run of one data set, as of `hoptree run`
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
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.trace import read_events
from hoptree.evaluation.calibration import (
    Attempt,
    BoundaryAwareness,
    Decision,
    average,
    boundary,
    calibrate,
    decisions_of,
    score_attempt,
)
from hoptree.evaluation.experiment import BOUNDARY_METHOD, BoundaryExperiment, Experiment
from hoptree.evaluation.judge import JudgeItem, JudgeReport, judge_all
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import TRACES, half_width, read_rows, write_json
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.models import open_model
from hoptree.models.model import Model

_MIN_QUESTIONS = 10  # questions that a model must have been sure of, and refused, for a verdict
LEAST_RIGHT = 0.5  # the share of what a model is sure of that must be right
LEAST_GAP = 0.15  # F1 by which confident knowledge must exceed the knowledge gap

_NONE_USABLE = "this model shows no usable boundary; use source=external."


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure that must reach `least`, with half of its 95 % interval."""

    value: float
    around: float
    least: float

    @property
    def reached(self) -> bool | None:
        """None where it is too close to tell."""
        return None if abs(self.value - self.least) < self.around else self.value >= self.least


@dataclass(frozen=True, slots=True)
class Standing:
    """How many questions a model was sure of and refused, and how right.

    The boundary is usable where surely (by the 95 % intervals) at least half of what it was sure of is right, and at
    least 15 points of F1 lie between that and what it refused. `gap_around` is half of the interval of those points.
    """

    sure: int
    refused: int
    gap_around: float | None = None
    right: _Figure | None = None
    gap: _Figure | None = None

    @property
    def usable(self) -> bool | None:
        """Whether the model's own word can be relied on; None if unclear."""
        if not self.sure and not self.refused:
            return None
        if not self.sure or not self.refused:
            return False
        if self.right is None or self.gap is None:
            return None
        reached = (self.right.reached, self.gap.reached)
        return False if False in reached else None if None in reached else True

    @property
    def verdict(self) -> str:
        """The recommendation for TAIKC's option `source`."""
        if not self.sure and not self.refused:
            return "No question has an outcome yet."
        if not self.refused:
            return f"It refused nothing: {_NONE_USABLE}"
        if not self.sure:
            return "It answered nothing: with source=unified it would look up everything, as with source=external."
        if self.right is None or self.gap is None:
            questions = f"{self.sure:,} {'question' if self.sure == 1 else 'questions'}"
            return (
                f"It was sure of {questions} and refused {self.refused:,}: too few to tell whether it knows what it "
                "knows. Ask more, or use source=external."
            )
        right = f"{100 * self.right.value:.1f} % of what it was sure of is right (± {100 * self.right.around:.1f})"
        gap = f"between what it was sure of and what it refused lie {100 * self.gap.value:.1f} points of F1"
        gap += f" (± {100 * self.gap.around:.1f})"
        if self.usable:
            return f"{right}, and {gap}: this model knows what it knows; source=unified can rest on it."
        wanted = {
            f"{right}, and {100 * LEAST_RIGHT:.0f} % are wanted": self.right.reached,
            f"{gap}, and {100 * LEAST_GAP:.0f} are wanted": self.gap.reached,
        }
        missed = "; ".join(text for text, reached in wanted.items() if reached is self.usable)
        advice = "too close to tell. Ask more, or use source=external." if self.usable is None else _NONE_USABLE
        return f"{missed[0].upper()}{missed[1:]}: {advice}"


def standing_of(direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None]) -> Standing:
    """Sum up the questions asked in both settings, by id."""
    sure = [attempt for attempt in confident.values() if attempt is not None]
    refused = [direct[name].f1 for name, attempt in confident.items() if attempt is None]
    fewer = min(len(sure), len(refused))
    if fewer < 2:
        return Standing(len(sure), len(refused))
    scores, correct = [attempt.f1 for attempt in sure], [float(attempt.correct) for attempt in sure]
    around = hypot(half_width(scores), half_width(refused))
    if fewer < _MIN_QUESTIONS:
        return Standing(len(sure), len(refused), around)
    right = _Figure(fmean(correct), half_width(correct), LEAST_RIGHT)
    gap = _Figure(fmean(scores) - fmean(refused), around, LEAST_GAP)
    return Standing(len(sure), len(refused), around, right, gap)


BOUNDARY = "boundary.json"
_ANSWERED_ABOVE = 0.5
"""Least token probability from which an answer counts as kept, as `taikc` has it with source=probability."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with both answers: `confident` is None where the model refused.

    A question that `failed` is wrong in Direct QA, and neither sure nor refused in Confident QA.
    """

    id: str
    question: str
    golds: tuple[str, ...]
    direct: str
    confident: str | None
    confidence: float | None = None
    failed: bool = False


Judgement = Mapping[str, JudgeReport]
"""A judge's verdicts on "direct" and "confident" answers, and on whether both mean the "same"."""


def read_pairs(folder: Path) -> list[Pair]:
    """Return both answers to every finished question of a run."""
    path = folder / TRACES
    recorded = read_events(path) if path.exists() and path.stat().st_size else ()
    events = {
        event["run"]: event for event in (event.as_dict() for event in recorded) if event["event"] == BOUNDARY_METHOD
    }
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
            raise InputError(
                f"{path} does not tell both answers to question {row.id}.", "Measure it into a new folder."
            ) from error
    return pairs


async def judge_pairs(pairs: Sequence[Pair], model: Model, calls: Calls) -> Judgement:
    """Judge all answers and pairs; failed questions are wrong."""
    direct = [JudgeItem(pair.id, pair.question, pair.direct, pair.golds) for pair in pairs]
    confident, same = [], []
    for pair in pairs:
        if pair.confident is not None and not pair.failed:
            confident.append(JudgeItem(pair.id, pair.question, pair.confident, pair.golds))
            # Nothing means the same as a blank answer: such a pair is a No without asking.
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
    calibration = calibrate(decisions_of(direct, confident))
    standing = standing_of(direct, confident)
    probability = None
    if any(pair.confidence is not None for pair in asked):  # of the least likely token of the direct answer
        decisions = [
            Decision((pair.confidence or 0.0) >= _ANSWERED_ABOVE, direct[pair.id].correct, pair.confidence)
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
        "gap_f1_plus_minus": standing.gap_around,
        "precision": calibration.precision,
        "overconfident": calibration.overconfident,
        "underconfident": calibration.underconfident,
        "probability": probability,
        "judge": {kind: report.as_dict() for kind, report in judged.items()} if judged else None,
        "usable": None if failed else standing.usable,
        "verdict": f"{failed:,} failed: --retry-failed first." if failed else standing.verdict,
        "flips": flips,
    }


def measure_several(
    sets: Mapping[str, Sequence[Pair]], judged: Mapping[str, Judgement] | None = None
) -> tuple[dict[str, Any], dict[str, float | None]]:
    """Measure several data sets pooled, and the mean over the data sets."""
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
    """Compare both settings of what was asked, beside Direct QA of everything."""
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
    """Plan the runs of one model over several files of questions, named by data set."""
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
    """Measure each model on every data set, pooled, and on average."""
    by_model: dict[str, dict[str, Planned]] = {}
    for run in planned:
        if not isinstance(run.experiment, BoundaryExperiment):
            raise ConfigError(
                f"'{run.run_name}' is a run of {run.experiment.method}.",
                f"hoptree run makes it; hoptree eval boundary is for runs with method: {BOUNDARY_METHOD}.",
            )
        label = run.experiment.name.removesuffix(f" on {run.data_name}")
        by_model.setdefault(label, {})[run.data_name] = run
    warnings = {label: await _ask(runs, out, options, on_progress) for label, runs in by_model.items()}
    measured = []
    for label, runs in by_model.items():
        folders = {name: out / run.folder for name, run in runs.items()}
        pairs = {name: read_pairs(folder) for name, folder in folders.items()}
        judged = await _judge(pairs, next(iter(runs.values())).experiment, options)
        sets = {}
        for name, of_set in pairs.items():
            measures = measure(of_set, judged[name] if judged else None)
            sets[name] = {"model": label, "data": name, **measures, "warnings": warnings[label][name]}
            write_json(folders[name] / BOUNDARY, sets[name])
        pooled, mean = measure_several(pairs, judged) if len(sets) > 1 else (None, None)
        paths = {name: str(folder) for name, folder in folders.items()}
        measured.append({"model": label, "folders": paths, "sets": sets, "all": pooled, "mean": mean})
    return measured


async def _ask(
    runs: Mapping[str, Planned], out: Path, options: RunOptions, on_progress: Listener
) -> dict[str, list[str]]:
    """Run what has no outcome yet; return warnings by data set."""
    first = next(iter(runs.values())).experiment
    warnings = {}
    async with aclosing(open_model(first.model, base_url=first.base_url)) as model:
        for name, run in runs.items():
            # Both answers are judged together, in the end: the run itself has no judge.
            experiment = replace(run.experiment, judge="", judge_base_url="")
            summary = await run_experiment(
                experiment, out / run.folder, options, model=model, on_progress=partial(on_progress, run)
            )
            warnings[name] = list(summary["warnings"])
    return warnings


async def _judge(
    pairs: Mapping[str, Sequence[Pair]], experiment: Experiment, options: RunOptions
) -> dict[str, Judgement] | None:
    """Have all pairs judged, if there is a judge; replies are cached."""
    if not experiment.judge:
        return None
    async with aclosing(experiment.open_judge()) as model:
        with closing(open_calls(options.cache, concurrency=options.concurrency)) as calls:
            return {name: await judge_pairs(of_set, model, calls) for name, of_set in pairs.items()}
