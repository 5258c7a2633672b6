"""Tune options on some questions, and test the best for chance.

FOLDER/tuned-on.txt   the ids of the questions that the options were tuned on
FOLDER/others.txt     the ids of the file's other questions, for measuring the result
FOLDER/NAME/          a trial, which is an ordinary run
FOLDER/tune.json      the result
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hoptree.core.errors import HoptreeError, InputError, OtherRun, file_errors
from hoptree.evaluation.datasets.reading import read_ids, write_ids
from hoptree.evaluation.run_folder import RUN, Row, money_spent, read_rows, summarise_usage, write_json
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.evaluation.statistics import compare_pair, holm
from hoptree.evaluation.tuned import OTHERS, TUNE, TUNED_ON, Outcome, Search, Trial, Tuned, Tuning
from hoptree.models.model import Model

_MIN_QUESTIONS = 10  # least number of questions by which halving drops trials


@dataclass(frozen=True, slots=True)
class Step:
    """Step `number` of `total`: a trial and the number of its questions."""

    number: int
    total: int
    trial: Trial
    questions: int


def rungs(trials: int, questions: int, search: Search) -> tuple[tuple[int, int], ...]:
    """Return trials and questions by round; halving doubles the questions."""
    doublings = 0
    if search == "halving" and trials > 2 and questions >= 2 * _MIN_QUESTIONS:
        doublings = min(math.ceil(math.log2(trials)) - 1, int(math.log2(questions / _MIN_QUESTIONS)))
    return tuple(
        (math.ceil(trials / 2**step), math.ceil(questions / 2 ** (doublings - step))) for step in range(doublings + 1)
    )


async def tune(
    tuning: Tuning,
    out: Path,
    options: RunOptions | None = None,
    *,
    on_progress: Callable[[Step, Progress], None] = lambda step, progress: None,
    on_outcome: Callable[[Step, Outcome], None] = lambda step, outcome: None,
) -> Tuned:
    """Finish all trials, and compare each with the defaults."""
    options = options or RunOptions()
    defaults, *left = tuning.trials
    steps = rungs(len(left), len(tuning.data.examples), tuning.search)
    total, number = sum(count + 1 for count, _ in steps), 0
    outcomes: dict[str, Outcome] = {}
    opened: dict[tuple[str, str], Model] = {}
    async with _taken(tuning, out):
        try:
            models = tuning.experiment.open_models(opened)
            for count, questions in steps:
                if outcomes:
                    left = sorted(left, key=lambda trial: outcomes[trial.name].rank)[:count]
                for trial in (defaults, *left):
                    number += 1
                    step = Step(number, total, trial, questions)
                    outcomes[trial.name] = await _run_trial(tuning, step, out, options, models, on_progress)
                    on_outcome(step, outcomes[trial.name])
        finally:
            for model in opened.values():
                await model.aclose()
        tuned = _compared(tuning, list(outcomes.values()), out)
        write_json(out / TUNE, tuned.as_dict())
    return tuned


async def _run_trial(
    tuning: Tuning,
    step: Step,
    out: Path,
    options: RunOptions,
    models: Mapping[str, Model],
    on_progress: Callable[[Step, Progress], None],
) -> Outcome:
    """Run a trial on the step's questions; finished ones are not asked again."""
    experiment, folder = tuning.planned(step.trial, out)
    ids = tuning.ids[: step.questions]
    known = {row.id for row in _rows_of(folder) if not (options.retry_failed and row.error)}
    spent = 0.0
    if options.max_cost is not None:
        spent = sum(money_spent(run.parent) for run in out.glob(f"*/{RUN}") if run.parent != folder)
    try:
        await run_experiment(
            experiment,
            folder,
            replace(options, spent=spent, only=sum(name not in known for name in ids)),
            model=models[""],
            roles={role: model for role, model in models.items() if role},
            data=tuning.data,
            on_progress=lambda progress: on_progress(step, progress),
        )
    except HoptreeError as error:
        error.cause = f"{step.trial.name}: {error.cause}"
        if isinstance(error, OtherRun):  # trials that rest on different data, models or prompts cannot be compared
            error.remedy = "Choose another --out."
        raise
    rows = {row.id: row for row in _rows_of(folder)}
    if missing := sum(name not in rows for name in ids):
        raise InputError(
            f"{step.trial.name}: {missing:,} questions were not asked: the limit {options.max_cost:g} leaves no room.",
            "Raise --max-cost, and give the same command: what is finished costs nothing.",
        )
    asked = [rows[name] for name in ids]
    scores = {row.id: row.scores.get(tuning.metric) for row in asked}
    if all(score is None for score in scores.values()):
        cause = f"{step.trial.name}: no question has the score {tuning.metric}."
        raise InputError(cause, "Choose another with --metric.")
    usage = summarise_usage([row.usage for row in asked])
    means = {name: usage[name].mean or 0.0 for name in ("llm_calls", "retrievals", "tokens", "price")}
    return Outcome(step.trial, folder, scores, sum(bool(row.error) for row in asked), means)


def _compared(tuning: Tuning, outcomes: Sequence[Outcome], out: Path) -> Tuned:
    """Compare each trial that was asked all questions with the defaults.

    Dropped trials could also have won by chance: Holm's correction counts them with p = 1.
    """
    defaults, *others = outcomes
    complete = [trial for trial in others if len(trial.scores) == len(tuning.ids)]
    pairs = [compare_pair(defaults.scores, trial.scores, common_only=True) for trial in complete]
    adjusted = holm([pair.p_value for pair in pairs] + [1.0] * (len(others) - len(complete)))
    compared = zip(complete, pairs, adjusted, strict=False)
    against = {outcome.trial.name: replace(pair, adjusted_p=p) for outcome, pair, p in compared}
    trials = tuple(replace(outcome, against=against.get(outcome.trial.name)) for outcome in others)
    return Tuned(tuning, out, defaults, trials)


def _rows_of(folder: Path) -> list[Row]:
    return read_rows(folder) if (folder / RUN).exists() else []


@asynccontextmanager
async def _taken(tuning: Tuning, out: Path) -> AsyncIterator[None]:
    """Create the tuning's folder; remove it if an input error leaves it empty."""
    created = [folder for folder in (out, *out.parents) if not folder.exists()]
    with file_errors(out, "written", "Choose another --out."):
        out.mkdir(parents=True, exist_ok=True)
        known = read_ids(out / TUNED_ON) if (out / TUNED_ON).exists() else ()
        if known and known != tuning.ids:
            cause = f"{out} is tuned on other questions ({len(known):,}, now {len(tuning.ids):,}), or in another order."
            raise InputError(cause, "Choose another --out, or the same questions.")
        if not known:
            if any(out.iterdir()):
                raise InputError(f"{out} holds something else than a tuning.", "Choose an empty or new --out.")
            if tuning.others:
                write_ids(out / OTHERS, tuning.others)
            write_ids(out / TUNED_ON, tuning.ids)  # last: it makes the folder a tuning
    try:
        yield
    except InputError:
        if not any(out.glob(f"*/{RUN}")):
            for name in (TUNED_ON, OTHERS):
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # another process uses the folder
                for folder in created:
                    folder.rmdir()
        raise
