"""Tuning: the same questions asked with several values of a method's options, and whether the best is more than luck.

FOLDER/tuned-on.txt   the ids of the questions it was tuned on
FOLDER/others.txt     those of the other questions of the file, on which the result is to be shown
FOLDER/NAME/          a trial, which is an ordinary run
FOLDER/tune.json      what came of it
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.engine.registry import Method, find_method, read_options
from hoptree.evaluation.ask_question import failed_row
from hoptree.evaluation.datasets.examples import DataSet
from hoptree.evaluation.datasets.reading import read_examples, read_ids, sample, write_ids
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import RUN, Row, read_rows, write_json
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.evaluation.statistics import compare_pair, holm
from hoptree.evaluation.summary import money_spent, summarise_usage
from hoptree.evaluation.tuned import Outcome, Trial, Tuned
from hoptree.models import open_model
from hoptree.models.model import Model
from hoptree.retrieval.open_encoder import check_encoder
from hoptree.text.word_classes import open_tagger

_NAMES: dict[str, Callable[[str], object]] = {"tagger": open_tagger, "encoder": check_encoder}
"""What tells whether there is anything of this name, for options of whatever method."""


def check_options(chosen: Method, given: Mapping[str, Any]) -> None:
    """Refuse unknown options, invalid values and combinations that do not go together."""
    values = {option.name: option.default for option in chosen.options} | read_options(chosen, given)
    for name, find in _NAMES.items():
        if name in values:
            find(values[name])
    chosen.check(**values)


Search = Literal["grid", "halving"]
TUNED_ON, OTHERS, TUNE = "tuned-on.txt", "others.txt", "tune.json"
_FEWEST = 10
"""Questions that halving drops trials by, at least."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What is tuned on what: the trials, of which the first has the defaults, and the questions all of them are asked.

    `others` are the ids of the file's other questions.
    """

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
        """All that can be refused before anything is asked is refused here.

        The questions are those that the experiment chooses, or `rows` of its file ("251-350", counted from 1). Halving
        asks them in an order of its own, as what a file begins with need not be like the rest of it.
        """
        whole = read_examples(experiment.data)
        data = _rows(whole, rows, experiment) if rows else experiment.read_data()
        if search == "halving" and (rows or experiment.seed is None):
            data = replace(data, examples=sample(data.examples, len(data.examples), experiment.seed or 0))
        chosen = {example.id for example in data.examples}
        others = tuple(example.id for example in whole.examples if example.id not in chosen)
        _check_metric(metric, data, experiment)
        _check_trials(trials, experiment)
        return cls(experiment, trials, data, others, metric, search)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(example.id for example in self.data.examples)

    def planned(self, trial: Trial, out: Path) -> tuple[Experiment, Path]:
        """Return a trial as a run, and its folder."""
        wanted = replace(
            self.experiment,
            options={**self.experiment.options, **trial.values},
            ids=out / TUNED_ON,
            half="",
            limit=None,
            seed=None,
            name=f"{trial.name} on {self.data.name}",
        )
        return wanted, out / Planned("", trial.name, (), wanted).folder


@dataclass(frozen=True, slots=True)
class Step:
    """A trial that is being asked `questions` questions: the `number`-th of `total` steps."""

    number: int
    total: int
    trial: Trial
    questions: int


def rungs(trials: int, questions: int, search: Search) -> tuple[tuple[int, int], ...]:
    """How many trials, the defaults not counted, are asked how many questions, one after another.

    Halving asks all trials few questions and doubles these while it drops the worse half, until two are left for the
    last step, or as few questions as drop trials by anything but luck.
    """
    doublings = 0
    if search == "halving" and trials > 2 and questions >= 2 * _FEWEST:
        doublings = min(math.ceil(math.log2(trials)) - 1, int(math.log2(questions / _FEWEST)))
    return tuple(
        (math.ceil(trials / 2**step), math.ceil(questions / 2 ** (doublings - step))) for step in range(doublings + 1)
    )


async def tune(
    tuning: Tuning,
    out: Path,
    ways: RunOptions | None = None,
    *,
    on_progress: Callable[[Step, Progress], None] = lambda step, progress: None,
    on_outcome: Callable[[Step, Outcome], None] = lambda step, outcome: None,
) -> Tuned:
    """Ask what has no outcome yet, and compare each trial with the defaults."""
    ways = ways or RunOptions()
    defaults, *left = tuning.trials
    steps = rungs(len(left), len(tuning.data.examples), tuning.search)
    total, number = sum(count + 1 for count, _ in steps), 0
    found: dict[str, Outcome] = {}
    async with _taken(tuning, out), _models(tuning.experiment) as models:
        for count, questions in steps:
            if found:
                left = sorted(left, key=lambda trial: found[trial.name].rank)[:count]
            for trial in (defaults, *left):
                number += 1
                step = Step(number, total, trial, questions)
                found[trial.name] = await _tried(tuning, step, out, ways, models, on_progress)
                on_outcome(step, found[trial.name])
        tuned = _compared(tuning, list(found.values()), out)
        write_json(out / TUNE, tuned.as_dict())
    return tuned


async def _tried(
    tuning: Tuning,
    step: Step,
    out: Path,
    ways: RunOptions,
    models: Mapping[str, Model],
    on_progress: Callable[[Step, Progress], None],
) -> Outcome:
    """Run a trial on the first questions, as many as the step wants."""
    wanted, folder = tuning.planned(step.trial, out)
    ids = tuning.ids[: step.questions]
    known = {row.id for row in _rows_of(folder) if not (ways.retry_failed and row.error)}
    spent = 0.0
    if ways.max_cost is not None:
        spent = sum(money_spent(run.parent) for run in out.glob(f"*/{RUN}") if run.parent != folder)
    try:
        await run_experiment(
            wanted,
            folder,
            replace(ways, spent=spent, only=sum(name not in known for name in ids)),
            model=models[""],
            roles={role: model for role, model in models.items() if role},
            data=tuning.data,
            on_progress=lambda progress: on_progress(step, progress),
        )
    except HoptreeError as error:
        error.cause = f"{step.trial.name}: {error.cause}"
        if "--anyway" in error.remedy:  # trials that rest on different things cannot be compared
            error.remedy = "Choose another --out."
        raise
    rows = {row.id: row for row in _rows_of(folder)}
    if missing := sum(name not in rows for name in ids):
        raise InputError(
            f"{step.trial.name}: {missing:,} questions were not asked: the limit of {ways.max_cost:g} leaves no room.",
            "Raise --max-cost, and give the same command: what is finished costs nothing.",
        )
    return _outcome(tuning, step, folder, [rows[name] for name in ids])


def _outcome(tuning: Tuning, step: Step, folder: Path, rows: Sequence[Row]) -> Outcome:
    scores = {row.id: row.scores.get(tuning.metric) for row in rows}
    if all(score is None for score in scores.values()):
        raise InputError(
            f"{step.trial.name}: no question has the score {tuning.metric}.", "Choose another with --metric."
        )
    usage = summarise_usage([row.usage for row in rows])
    means = {name: usage[name].mean or 0.0 for name in ("llm_calls", "retrievals", "tokens", "price")}
    return Outcome(step.trial, folder, scores, sum(bool(row.error) for row in rows), means)


def _compared(tuning: Tuning, found: Sequence[Outcome], out: Path) -> Tuned:
    """Each trial that was asked everything beside the defaults.

    Those that were dropped on the way were chances to find a better one by luck as well: for Holm's correction they
    count as what shows nothing.
    """
    defaults, *others = found
    whole = [one for one in others if len(one.scores) == len(tuning.ids)]
    pairs = [compare_pair(defaults.scores, one.scores, common_only=True) for one in whole]
    adjusted = holm([pair.p_value for pair in pairs] + [1.0] * (len(others) - len(whole)))
    against = {
        one.trial.name: replace(pair, adjusted_p=p) for one, pair, p in zip(whole, pairs, adjusted, strict=False)
    }
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
        trials=tuple(replace(one, against=against.get(one.trial.name)) for one in others),
    )


def _rows(whole: DataSet, said: str, experiment: Experiment) -> DataSet:
    """Select questions by their places in the file."""
    if experiment.limit is not None or experiment.ids is not None:
        raise ConfigError(f"--questions {said} is a choice already.", "Leave it out, or --limit and --ids.")
    match = re.fullmatch(r"(\d{1,12})-(\d{1,12})", said.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"--questions {said} is not possible.", "Write FIRST-LAST, as in 251-350.")
    first, last = map(int, match.groups())
    chosen = whole.examples[max(first, 1) - 1 : last]
    if not chosen:
        raise InputError(f"There is no question in {said}.", f"The file has 1-{len(whole.examples)}.")
    return replace(whole, examples=chosen)


def _check_metric(metric: str, data: DataSet, experiment: Experiment) -> None:
    """Refuse a score that no question could get, before any is asked."""
    searchable = experiment.corpus is not None and "corpus" in find_method(experiment.method).needs
    failed = [failed_row(one, HoptreeError("not asked"), searchable=searchable) for one in data.examples]
    known = sorted({name for row in failed for name in row.scores})
    if metric not in known:
        raise ConfigError(f"There is no score '{metric}' for these questions.", f"There are {', '.join(known)}.")


def _check_trials(trials: Sequence[Trial], experiment: Experiment) -> None:
    """Refuse a trial that would fail when its turn comes."""
    method = find_method(experiment.method)
    for trial in trials:
        try:
            check_options(method, {**experiment.options, **trial.values})
        except HoptreeError as error:
            error.cause = f"{trial.name}: {error.cause}"
            raise


def _rows_of(folder: Path) -> list[Row]:
    return read_rows(folder) if (folder / RUN).exists() else []


@asynccontextmanager
async def _taken(tuning: Tuning, out: Path) -> AsyncIterator[None]:
    """Create the folder with the lists of questions; remove it if the tuning is refused."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        _take(tuning, out)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.", "Choose another --out.") from error
    try:
        yield
    except InputError:
        if not any(out.glob(f"*/{RUN}")):
            for name in (TUNED_ON, OTHERS):
                (out / name).unlink(missing_ok=True)
            with suppress(OSError):  # somebody else uses it, which is as good
                for folder in made:
                    folder.rmdir()
        raise


def _take(tuning: Tuning, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    if (out / TUNED_ON).exists():
        known = read_ids(out / TUNED_ON)
        if known != tuning.ids:
            raise InputError(
                f"{out} is tuned on other questions ({len(known):,}, now {len(tuning.ids):,}), or in another order.",
                "Choose another --out, or the same questions.",
            )
        return
    if any(out.iterdir()):
        raise InputError(f"{out} holds something else than a tuning.", "Choose an empty or new --out.")
    if tuning.others:
        write_ids(out / OTHERS, tuning.others)
    write_ids(out / TUNED_ON, tuning.ids)  # last: it makes the folder a tuning


@asynccontextmanager
async def _models(experiment: Experiment) -> AsyncIterator[dict[str, Model]]:
    """Open the models of all trials once."""
    async with AsyncExitStack() as opened:
        found: dict[tuple[str, str], Model] = {}
        models = {}
        for role, spec in {"": experiment.model, **experiment.roles}.items():
            key = (spec, experiment.base_url if not role or spec.startswith("openai/") else "")
            if key not in found:
                found[key] = open_model(spec, base_url=key[1])
                opened.push_async_callback(found[key].aclose)
            models[role] = found[key]
        yield models
