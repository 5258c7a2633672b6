"""Trials of a tuning: their values, scores, costs, and the conclusion."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import shlex
import statistics
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, DecimalException
from itertools import product
from pathlib import Path
from typing import Any, Literal

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.engine.registry import Method, Option, find_method, read_options
from hoptree.evaluation.datasets.examples import DataSet
from hoptree.evaluation.datasets.reading import read_examples, sample
from hoptree.evaluation.experiment import Experiment, failed_row
from hoptree.evaluation.plan import Planned
from hoptree.evaluation.run_folder import half_width
from hoptree.evaluation.statistics import SIGNIFICANCE, PairedComparison, Scores
from hoptree.retrieval.encoder import check_encoder
from hoptree.text.names import open_tagger

_HOW = "Write --vary OPTION=VALUE,VALUE,… or --vary OPTION=START:END:STEP."
_MAX_VALUES = 1_000
_MAX_TRIALS = 10_000


@dataclass(frozen=True, slots=True)
class Trial:
    """A combination of values for the varied options."""

    values: Mapping[str, Any]

    @property
    def settings(self) -> list[str]:
        """The values in the form of --set."""
        return [f"{name}={as_text(value)}" for name, value in self.values.items()]

    @property
    def name(self) -> str:
        return ", ".join(self.settings)


def as_text(value: Any) -> str:
    """Format a value for --set."""
    if value is None:
        return "none"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def read_trials(
    method: Method, varied: Sequence[str], fixed: Mapping[str, Any], *, max_trials: int | None = None, seed: int = 0
) -> tuple[Trial, ...]:
    """Return the defaults, then all combinations or a draw of `max_trials`."""
    values = _values(method, varied)
    given = read_options(method, fixed)
    for name in values.keys() & given.keys():
        raise ConfigError(f"{name} is varied, and set to {as_text(given[name])}.", "Leave out --vary or --set.")
    count = math.prod(map(len, values.values()))
    if count > _MAX_TRIALS:
        raise InputError(f"There are {count:,} combinations.", f"Vary less: {_MAX_TRIALS:,} can be chosen from.")
    known = {option.name: option.default for option in method.options}
    defaults = Trial({name: known[name] for name in values})
    combinations = [Trial(dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())]
    others = [trial for trial in combinations if trial != defaults]
    if max_trials is not None and len(others) > max_trials:
        drawn = sorted(random.Random(seed).sample(range(len(others)), max_trials))
        others = [others[place] for place in drawn]
    if not others:
        raise InputError("Nothing but the defaults would be tried.", "Give --vary other values.")
    return (defaults, *others)


def _values(method: Method, varied: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each varied option, checked against the signature."""
    if not varied:
        raise InputError("Nothing is varied.", _HOW)
    options = {option.name: option for option in method.options}
    values: dict[str, tuple[Any, ...]] = {}
    for variation in varied:
        name, sign, texts = variation.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or not key:
            raise InputError(f"--vary {variation} is not possible.", _HOW)
        if key not in options:
            read_options(method, {key: texts})  # raises an error that lists the options
        if key in values:
            raise InputError(f"{key} is varied twice.", f"Write all its values at once: --vary {key}=VALUE,VALUE")
        parts = [part.strip() for part in texts.split(",")]
        listed = [text for part in parts for text in _expanded(part, options[key], variation)]
        values[key] = tuple(dict.fromkeys(read_options(method, {key: text})[key] for text in listed))
    return values


def _expanded(part: str, option: Option, variation: str) -> list[str]:
    """Expand one part of a list: a value or a range."""
    if not part:
        raise InputError(f"--vary {variation} lacks a value.", _HOW)
    kinds = {option.type, *typing.get_args(option.type)}
    if ":" not in part or not kinds & {int, float}:
        return [part]
    bounds = part.split(":")
    if len(bounds) == 2 and int in kinds:
        bounds.append("1")
    try:
        start, end, step = (Decimal(bound.strip()) for bound in bounds)
        steps = (end - start) / step
        if not steps.is_finite():
            raise ValueError(part)
    except (ValueError, DecimalException) as error:
        cause = f"--vary {variation}: {part} is not a range."
        raise InputError(cause, "Write START:END:STEP, as in 0:0.4:0.1.") from error
    if steps < 0 or step < 0:
        raise InputError(f"--vary {variation}: {part} is empty.", "Write the smallest value first, and a step above 0.")
    if steps >= _MAX_VALUES:
        raise InputError(f"--vary {variation}: {part} has more than {_MAX_VALUES:,} values.", "Give a larger step.")
    return [format(start + number * step, "f") for number in range(int(steps) + 1)]


Search = Literal["grid", "halving"]
TUNED_ON, OTHERS, TUNE = "tuned-on.txt", "others.txt", "tune.json"


@dataclass(frozen=True, slots=True)
class Tuning:
    """The trials of a tuning, defaults first, and its questions."""

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
        """Choose the questions, and check everything before the first is asked.

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
        for trial in trials:
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
        """Return the experiment of a trial, and its folder."""
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


def _rows(data: DataSet, rows: str, experiment: Experiment) -> DataSet:
    """Select questions by their position in the file."""
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


def check_options(chosen: Method, given: Mapping[str, Any]) -> None:
    """Raise an error for unknown options, invalid values or combinations."""
    values = {option.name: option.default for option in chosen.options} | read_options(chosen, given)
    if "tagger" in values:
        open_tagger(values["tagger"])
    if "encoder" in values:
        check_encoder(values["encoder"])
    chosen.check(**values)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trial with its scores by question id, and the mean `usage`."""

    trial: Trial
    folder: Path
    scores: Scores
    failed: int
    usage: Mapping[str, float]
    against: PairedComparison | None = None  # with the defaults; None for those, and for trials that halving dropped

    @property
    def applicable(self) -> list[float]:
        return [score for score in self.scores.values() if score is not None]

    @property
    def score(self) -> float:
        return statistics.fmean(self.applicable)

    @property
    def plus_minus(self) -> float:
        return half_width(self.applicable)

    @property
    def rank(self) -> tuple[float, ...]:
        """The sort key: questions asked, then score, then cost."""
        return (-len(self.scores), -self.score, self.usage["tokens"])

    def as_dict(self) -> dict[str, Any]:
        kept = ("difference", "interval", "p_value", "adjusted_p", "exact", "wins", "losses", "ties", "detectable")
        pair = self.against.as_dict() if self.against else None
        return {
            "name": self.trial.name,
            "options": dict(self.trial.values),
            "folder": str(self.folder),
            "questions": len(self.scores),
            "scored": len(self.applicable),
            "failed": self.failed,
            "score": self.score,
            "plus_minus": self.plus_minus,
            "a_question": dict(self.usage),
            "against_defaults": {name: pair[name] for name in kept} if pair else None,
        }


@dataclass(frozen=True, slots=True)
class Tuned:
    """The outcomes of all trials and of the defaults."""

    tuning: Tuning
    folder: Path
    defaults: Outcome
    trials: tuple[Outcome, ...]

    @property
    def ranked(self) -> list[Outcome]:
        """The trials, best first; defaults win ties."""
        others = sorted(self.trials, key=lambda trial: trial.rank)
        place = sum(trial.rank[:2] < self.defaults.rank[:2] for trial in others)
        return [*others[:place], self.defaults, *others[place:]]

    @property
    def best(self) -> Outcome:
        return self.ranked[0]

    @property
    def better(self) -> bool:
        """Whether the best trial beats the defaults beyond chance (Holm)."""
        pair = self.best.against
        return pair is not None and pair.interval.low > 0 and pair.adjusted_p < SIGNIFICANCE

    @property
    def remark(self) -> str:
        """The conclusion in a sentence."""
        pair = self.best.against
        tried = f"{len(self.trials):,} combination{'s' if len(self.trials) > 1 else ''}"
        if pair is None:
            return f"Of {tried} none scores higher than the defaults: keep them."
        power = pair.power_note(scale=100, unit=" points")
        if self.better:
            return f"Of {tried} the best is better than the defaults by more than chance. {power}"
        return (
            f"Of {tried} the best is within chance of the defaults: keep these, unless other questions speak against "
            f"them. {power}"
        )

    @property
    def warning(self) -> str:
        """The warning that the best trial's score is not a result yet."""
        where = (
            f"the {len(self.tuning.others):,} other questions of the file" if self.tuning.others else "other questions"
        )
        return (
            "A score on the questions that the values were chosen by is not a result: what won had luck on its side. "
            f"Show it on {where}:"
        )

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that compare best and defaults on other questions."""
        if self.best.against is None:
            return ()
        out = str(self.folder).rstrip("/")
        best, defaults = f"{out}-best", f"{out}-defaults"
        return (
            shlex.join(self._run(self.best.trial, best)),
            shlex.join(self._run(self.defaults.trial, defaults)),
            shlex.join(["hoptree", "eval", "compare", defaults, best, "--metric", self.tuning.metric]),
        )

    @property
    def setting(self) -> str:
        """The best values as a line of an experiment file."""
        chosen = {**self.tuning.experiment.options, **self.best.trial.values}
        return f"options: {json.dumps(chosen, ensure_ascii=False)}"

    def _run(self, trial: Trial, out: str) -> list[str]:
        experiment = self.tuning.experiment
        limits = ",".join(f"{name}={value}" for name, value in asdict(experiment.budget).items() if value is not None)
        prices = f"{experiment.prices.prompt:g}/{experiment.prices.completion:g}" if experiment.prices else ""
        options = [
            ("--data", str(experiment.data) if self.tuning.others else "OTHER-QUESTIONS"),
            ("--ids", str(self.folder / OTHERS) if self.tuning.others else ""),
            *((f"--{name}", getattr(experiment, name)) for name in ("corpus", "graph", "retriever", "rerank", "model")),
            ("--base-url", experiment.base_url),
            ("--budget", limits),
            ("--prices", prices),
            ("--method", experiment.method),
            *(("--role", f"{role}={spec}") for role, spec in experiment.roles.items()),
            *(("--set", setting) for setting in Trial({**experiment.options, **trial.values}).settings),
        ]
        return ["hoptree", "run", *(part for name, value in options if value for part in (name, value)), "--out", out]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of `tune.json`."""
        tuning, experiment = self.tuning, self.tuning.experiment
        return {
            "format": 1,
            "folder": str(self.folder),
            "method": experiment.method,
            "model": experiment.model,
            "corpus": experiment.corpus,
            "options": dict(experiment.options),
            "varied": list(self.defaults.trial.values),
            "slice": {
                "data": str(experiment.data),
                "name": tuning.data.name,
                "digest": tuning.data.digest,
                "questions": hashlib.sha256("\n".join(tuning.ids).encode("utf-8", "replace")).hexdigest()[:16],
                "ids": list(tuning.ids),
                "others": len(tuning.others),
            },
            "metric": tuning.metric,
            "search": tuning.search,
            "trials": [trial.as_dict() for trial in self.ranked],
            "defaults": self.defaults.trial.name,
            "best": self.best.trial.name,
            "setting": self.setting,
            "better": self.better,
            "remark": self.remark,
            "warning": self.warning if self.commands else "",
            "show_it": list(self.commands),
        }
