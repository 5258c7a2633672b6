"""Tune options on some questions, and test the best for chance.

FOLDER/tuned-on.txt   the ids of the questions it was tuned on
FOLDER/others.txt     those of the other questions of the file, for measuring the result
FOLDER/NAME/          a trial, which is an ordinary run
FOLDER/tune.json      the result
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hoptree.core.errors import ConfigError, HoptreeError, InputError, OtherRun, file_errors
from hoptree.engine.registry import Method, find_method, read_options
from hoptree.evaluation.datasets.examples import DataSet
from hoptree.evaluation.datasets.reading import read_examples, read_ids, sample, write_ids
from hoptree.evaluation.experiment import Experiment, failed_row
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import RUN, Row, money_spent, read_rows, summarise_usage, write_json
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.evaluation.statistics import compare_pair, holm
from hoptree.evaluation.tuned import Outcome, Trial, Tuned
from hoptree.models.model import Model
from hoptree.retrieval.encoder import check_encoder
from hoptree.text.names import open_tagger


def check_options(chosen: Method, given: Mapping[str, Any]) -> None:
    """Refuse unknown options, invalid values and combinations that do not go together."""
    values = {option.name: option.default for option in chosen.options} | read_options(chosen, given)
    if "tagger" in values:
        open_tagger(values["tagger"])
    if "encoder" in values:
        check_encoder(values["encoder"])
    chosen.check(**values)


Search = Literal["grid", "halving"]
TUNED_ON, OTHERS, TUNE = "tuned-on.txt", "others.txt", "tune.json"
_MIN_QUESTIONS = 10  # questions that halving drops trials by, at least


@dataclass(frozen=True, slots=True)
class Tuning:
    """The trials, defaults first, with their questions."""

    experiment: Experiment
    trials: tuple[Trial, ...]
    data: DataSet
    others: tuple[str, ...]
    metric: str
    search: Search

    @classmethod
    def prepare(
        cls,
        experiment: Experiment,
        trials: tuple[Trial, ...],
        *,
        rows: str = "",
        metric: str = "f1",
        search: Search = "grid",
    ) -> Tuning:
        """Choose the questions, and refuse what cannot be tuned before anything is asked.

        The questions are those that the experiment chooses, or `rows` of its file ("251-350", counted from 1). Halving
        shuffles them, as a file may be sorted.
        """
        everything = read_examples(experiment.data)
        data = _rows(everything, rows, experiment) if rows else experiment.read_data()
        if search == "halving" and (rows or experiment.seed is None):
            data = replace(data, examples=sample(data.examples, len(data.examples), experiment.seed or 0))
        chosen = {example.id for example in data.examples}
        others = tuple(example.id for example in everything.examples if example.id not in chosen)
        method = find_method(experiment.method)
        searchable = experiment.corpus is not None and "corpus" in method.needs
        failed = [failed_row(example, HoptreeError("not asked"), searchable=searchable) for example in data.examples]
        known = sorted({name for row in failed for name in row.scores})
        if metric not in known:
            raise ConfigError(f"There is no score '{metric}' for these questions.", f"There are {', '.join(known)}.")
        for trial in trials:  # each would fail when its turn comes
            try:
                check_options(method, {**experiment.options, **trial.values})
            except HoptreeError as error:
                error.cause = f"{trial.name}: {error.cause}"
                raise
        return cls(experiment, trials, data, others, metric, search)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(example.id for example in self.data.examples)

    def planned(self, trial: Trial, out: Path) -> tuple[Experiment, Path]:
        """Return a trial as a run, and its folder."""
        experiment = replace(
            self.experiment,
            options={**self.experiment.options, **trial.values},
            ids=out / TUNED_ON,
            half="",
            limit=None,
            seed=None,
            name=f"{trial.name} on {self.data.name}",
        )
        return experiment, out / Planned("", trial.name, (), experiment).folder


@dataclass(frozen=True, slots=True)
class Step:
    """A trial in the `number`-th of `total` steps."""

    number: int
    total: int
    trial: Trial
    questions: int


def rungs(trials: int, questions: int, search: Search) -> tuple[tuple[int, int], ...]:
    """Return trials and questions by step: halving drops trials, doubles questions."""
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
    """Ask what has no outcome yet, and compare each trial with the defaults."""
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
    """Run a trial on the first questions, as many as the step wants."""
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
        if isinstance(error, OtherRun):  # trials that rest on different things cannot be compared
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
    """Compare each trial that was asked everything with the defaults.

    Trials that were dropped could have won by chance as well: Holm's correction counts them with p = 1.
    """
    defaults, *others = outcomes
    complete = [trial for trial in others if len(trial.scores) == len(tuning.ids)]
    pairs = [compare_pair(defaults.scores, trial.scores, common_only=True) for trial in complete]
    adjusted = holm([pair.p_value for pair in pairs] + [1.0] * (len(others) - len(complete)))
    compared = zip(complete, pairs, adjusted, strict=False)
    against = {outcome.trial.name: replace(pair, adjusted_p=p) for outcome, pair, p in compared}
    return Tuned(
        experiment=tuning.experiment,
        data_name=tuning.data.name,
        digest=tuning.data.digest,
        ids=tuning.ids,
        others=len(tuning.others),
        metric=tuning.metric,
        search=tuning.search,
        folder=out,
        others_file=out / OTHERS,
        defaults=defaults,
        trials=tuple(replace(outcome, against=against.get(outcome.trial.name)) for outcome in others),
    )


def _rows(data: DataSet, rows: str, experiment: Experiment) -> DataSet:
    """Select questions by their places in the file."""
    if experiment.limit is not None or experiment.ids is not None:
        raise ConfigError(f"--questions {rows} is a choice already.", "Leave it out, or --limit and --ids.")
    match = re.fullmatch(r"(\d{1,12})-(\d{1,12})", rows.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"--questions {rows} is not possible.", "Write FIRST-LAST, as in 251-350.")
    first, last = map(int, match.groups())
    chosen = data.examples[max(first, 1) - 1 : last]
    if not chosen:
        raise InputError(f"There is no question in {rows}.", f"The file has 1-{len(data.examples)}.")
    return replace(data, examples=chosen)


def _rows_of(folder: Path) -> list[Row]:
    return read_rows(folder) if (folder / RUN).exists() else []


@asynccontextmanager
async def _taken(tuning: Tuning, out: Path) -> AsyncIterator[None]:
    """Create the tuning's folder; remove it if refused."""
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
            with suppress(OSError):  # somebody else uses the folder
                for folder in created:
                    folder.rmdir()
        raise
