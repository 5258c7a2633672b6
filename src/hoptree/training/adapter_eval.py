"""Measure what adapters change: the same runs with the base and each adapter."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.engine.schedule import together
from hoptree.evaluation.boundary import Pair, measure_all, read_pairs
from hoptree.evaluation.calibration import score_attempt
from hoptree.evaluation.experiment import BoundaryExperiment, Experiment
from hoptree.evaluation.plan import Planned, chosen, index_for, read_plan
from hoptree.evaluation.run_folder import read_rows
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.evaluation.statistics import PairedComparison, Scores, compare_pair, holm, mean_of
from hoptree.models import open_model
from hoptree.models.model import Model

BASE = "base"
ALL, MEAN = "all", "mean"  # names for all questions pooled, and for the mean of the data sets
_USAGE = "Give --model hf/NAME, hf/FOLDER or hf/FILE.gguf, and adapters with --adapter FOLDER."
_RUN_SCORES = ("em", "f1", "judge")
_PLAIN_METHODS = ("direct", "oner")  # one call: their gain is mostly the form of the answer
_SHARES = (
    *("refused_share", "direct_f1", "confident_f1", "knowledge_gap_f1", "gap_f1", "precision"),
    *("consistency_f1", "consistency_judged"),
)
_FIGURES = ("questions", "refused", "failed", *_SHARES, "gap_f1_plus_minus", "usable", "verdict")


@dataclass(frozen=True, slots=True)
class Version:
    """A model with its name in tables; `card` describes an adapter's training."""

    name: str
    model: str
    adapter: Path | None = None
    card: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        card = self.card or {}
        about = {name: card.get(name) for name in ("sets", "examples")}
        adapter = str(self.adapter) if self.adapter else None
        return {"name": self.name, "model": self.model, "adapter": adapter, **about}


def versions_of(model: str, adapters: Sequence[Path]) -> list[Version]:
    """Return the base and each adapter; adapters of other weights are an error."""
    kind, _, name = model.partition("/")
    if kind != "hf" or not name:
        raise ConfigError(f"{model or 'The embedded model'} takes no adapters.", _USAGE)
    weights, _, settings = name.partition("?")
    if any(setting.startswith("adapter=") for setting in settings.split("&")):
        raise ConfigError(f"{model} has an adapter already, and so is not a base.", _USAGE)
    from hoptree.models.hf_weights import adapter_folder, read_adapter_card, resolve_source

    versions = [Version(BASE, model)]
    for folder, version_name in zip(adapters, _version_names(adapters), strict=True):
        card = read_adapter_card(adapter_folder(str(folder)), resolve_source(weights))
        versions.append(Version(version_name, f"{model}{'&' if settings else '?'}adapter={folder}", folder, card))
    return versions


def _version_names(adapters: Sequence[Path]) -> list[str]:
    """Return the folders' names, with their parents' if they are not distinct."""
    folders = [folder.expanduser().resolve() for folder in adapters]
    if len(set(folders)) < len(folders):
        raise InputError("An adapter was given twice.", "Name each --adapter once.")
    short = [BASE, *(folder.name for folder in folders)]
    names = [path.name if short.count(path.name) == 1 else f"{path.parent.name}/{path.name}" for path in folders]
    if len(set(names)) < len(names):
        cause = f"Adapters have the same name: {', '.join(sorted(names))}."
        raise InputError(cause, "Give their folders names that tell them apart.")
    return names


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One run of an experiment file with one version of the model."""

    version: Version
    run: str
    planned: Planned

    @property
    def data(self) -> str:
        return self.planned.data_name

    @property
    def boundary(self) -> bool:
        """Whether it measures knowledge-boundary awareness."""
        return isinstance(self.planned.experiment, BoundaryExperiment)


Listener = Callable[[Trial, Progress], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """The summaries of runs, and of boundary measurements."""

    runs: Sequence[tuple[Trial, Mapping[str, Any]]]
    boundaries: Sequence[tuple[Trial, Mapping[str, Any]]]


def plan_trials(
    files: Sequence[Path],
    data: Path | None,
    versions: Sequence[Version],
    *,
    settings: Mapping[str, Any] | None = None,
    only: Sequence[str] = (),
) -> list[Trial]:
    """Return all runs of the files with every version; their folders must differ."""
    trials = []
    for version in versions:
        for path in files:
            planned = read_plan(path, data or path.parent, {**(settings or {}), "model": version.model})
            trials += _trials_of_file(path, planned, version)
    if only:
        named = [Planned(trial.data, trial.run, (), trial.planned.experiment) for trial in trials]
        kept = {id(run) for run in chosen(named, only)}
        trials = [trial for trial, run in zip(trials, named, strict=True) if id(run) in kept]
    folder, times = Counter(trial.planned.folder for trial in trials).most_common(1)[0]
    if times > 1:
        cause = f"{times} runs would be kept in {folder}."
        raise InputError(cause, "Measure the files one after another, each with its own --out.")
    return trials


def _trials_of_file(path: Path, planned: Sequence[Planned], version: Version) -> list[Trial]:
    """Return the runs of a file, named by version."""
    if not planned:
        raise InputError(f"{path} has no runs.", "Name data and runs in it.")
    alone = len({run.run_name for run in planned}) == 1
    trials = []
    for run in planned:
        # If a file names models, a single run has the model's name.
        run_name = run.experiment.method if run.run_name == version.model else run.run_name
        name = version.name if alone else f"{run_name}, {version.name}"
        experiment = replace(run.experiment, name=f"{name} on {run.data_name}")
        trials.append(Trial(version, run_name, replace(run, run_name=name, experiment=experiment)))
    return trials


async def measure(
    trials: Sequence[Trial],
    out: Path,
    options: RunOptions,
    *,
    at_once: int = 1,
    on_progress: Listener = lambda trial, progress: None,
) -> Measured:
    """Finish all runs, and return their summaries.

    Versions run one after another, so that only one is in memory; `at_once` runs of a version share its batch. The
    judge of boundaries is opened last.
    """
    indexes: dict[Any, Path] = {}
    turn = asyncio.Semaphore(at_once)
    summaries: dict[Trial, Mapping[str, Any]] = {}

    async def make(trial: Trial, model: Model) -> None:
        async with turn:
            try:
                summaries[trial] = await run_experiment(
                    _with_index(trial, out / "indexes", indexes),
                    out / trial.planned.folder,
                    options,
                    model=model,
                    on_progress=lambda progress: on_progress(trial, progress),
                )
            except HoptreeError as error:
                error.cause = f"{trial.planned.experiment.name}: {error.cause}"
                raise

    for name in dict.fromkeys(trial.version.name for trial in trials):
        of_version = [trial for trial in trials if trial.version.name == name]
        async with aclosing(open_model(of_version[0].version.model)) as model:
            await together(make(trial, model) for trial in of_version)
    bounds = {trial.planned.run_name: trial for trial in trials if trial.boundary}
    planned = [trial.planned for trial in trials if trial.boundary]
    # Failed questions were asked again above, if wanted.
    boundaries = await measure_all(planned, out, replace(options, retry_failed=False))
    runs = [(trial, summaries[trial]) for trial in trials if not trial.boundary]
    return Measured(runs, [(bounds[summary["model"]], summary) for summary in boundaries])


def _with_index(trial: Trial, folder: Path, indexes: dict[Any, Path]) -> Experiment:
    """Return the experiment with an index of its corpora; boundaries without judge."""
    experiment, corpora = trial.planned.experiment, trial.planned.corpora
    if trial.boundary:
        return replace(experiment, judge="", judge_base_url="")
    if not corpora:
        return experiment
    key = (corpora, trial.planned.index)
    if key not in indexes:
        indexes[key] = index_for(corpora, folder, trial.planned.index)
    return replace(experiment, corpus=str(indexes[key]))


_DECISIONS = ("right_decisions", "sure_and_right")


def _boundary_scores(pair: Pair) -> dict[str, float | None]:
    """Return the scores of a question; refusing a wrong answer is a right decision."""
    direct, refused = score_attempt(pair.direct, pair.golds), pair.confident is None
    is_right = direct.em if pair.confident is None else score_attempt(pair.confident, pair.golds).em
    decisions = {
        "right_decisions": float(is_right != refused),
        "sure_and_right": float(is_right and not refused),
        "refused_share": float(refused),
    }
    return {**(dict.fromkeys(decisions) if pair.failed else decisions), "direct_f1": direct.f1}


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """A row of the result, and its scores by name and question."""

    row: dict[str, Any]
    scores: Mapping[str, Scores]


def run_gains(measured: Measured) -> list[dict[str, Any]]:
    """Return the scores of every run that answers questions, and their gains.

    `against_plain` compares F1 with that of a direct answer and of a single reading by the same version: a gain that
    they share is one of form. p is corrected (Holm) over all comparisons of a score with the base, or with these.
    """
    scored = []
    for trial, summary in measured.runs:
        folder, means = Path(summary["folder"]), summary["metrics"]
        names = [name for name in _RUN_SCORES if name in means]
        rows = read_rows(folder)
        row = _named(trial, trial.data, folder)
        row |= {name: summary[name] for name in ("questions", "finished", "failed", "rests_on", "warnings")}
        row |= {"method": trial.planned.experiment.method, "against_plain": {}}
        row |= {name: means[name]["mean"] for name in names}
        scored.append(_Scored(row, {name: {result.id: result.scores.get(name) for result in rows} for name in names}))
    _compare_with_base(scored)
    plain = [
        (entry, other)
        for entry in scored
        for other in scored
        if entry.row["method"] not in _PLAIN_METHODS
        and other.row["method"] in _PLAIN_METHODS
        and all(entry.row[name] == other.row[name] for name in ("data", "version"))
    ]
    for entry, other, comparison in _compare(plain, "f1"):
        entry.row["against_plain"][other.row["run"]] = comparison
    return [entry.row for entry in scored]


def boundary_gains(measured: Measured) -> list[dict[str, Any]]:
    """Return the boundary measures of each version by data set, and their gains."""
    scored: list[_Scored] = []
    means: list[dict[str, Any]] = []
    for trial, summary in measured.boundaries:
        pairs = {data: read_pairs(Path(folder)) for data, folder in summary["folders"].items()}
        for data, of_data in pairs.items():
            figures = summary["sets"][data]
            row = _named(trial, data, summary["folders"][data]) | _figures(figures)
            scored.append(_scored(row | {"warnings": figures["warnings"]}, of_data))
        if summary["all"]:
            pooled = [replace(pair, id=f"{data}/{pair.id}") for data, of_data in pairs.items() for pair in of_data]
            scored.append(_scored(_named(trial, ALL) | _figures(summary["all"]), pooled))
            means.append(_named(trial, MEAN))
    _compare_with_base(scored)
    for entry, base in _with_base(scored):
        before, now = base.row["gap_f1"], entry.row["gap_f1"]
        if before is not None and now is not None:
            intervals = [row["gap_f1_plus_minus"] for row in (base.row, entry.row)]
            around = None if None in intervals else math.hypot(*intervals)
            entry.row["against_base"]["gap_f1"] = {"difference": now - before, "plus_minus": around}
    rows = [entry.row for entry in scored]
    for mean in means:
        parts = [row for row in rows if row["folder"] and all(row[name] == mean[name] for name in ("run", "version"))]
        for name in (*_SHARES, *_DECISIONS):
            mean[name] = mean_of([row[name] for row in parts])
    return [*rows, *means]


def _scored(row: dict[str, Any], pairs: Sequence[Pair]) -> _Scored:
    scores: dict[str, dict[str, float | None]] = {}
    for pair in pairs:
        for name, score in _boundary_scores(pair).items():
            scores.setdefault(name, {})[pair.id] = score
    row |= {name: mean_of([value for value in scores[name].values() if value is not None]) for name in _DECISIONS}
    return _Scored(row, scores)


def _named(trial: Trial, data: str, folder: str | Path | None = None) -> dict[str, Any]:
    names = {"data": data, "run": trial.run, "version": trial.version.name}
    return {**names, "folder": str(folder) if folder else None, "against_base": {}}


def _figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in _FIGURES if name in summary}


def _with_base(scored: Sequence[_Scored]) -> list[tuple[_Scored, _Scored]]:
    """Pair each version with the base, by run and data."""
    base = {(entry.row["data"], entry.row["run"]): entry for entry in scored if entry.row["version"] == BASE}
    return [(entry, base[entry.row["data"], entry.row["run"]]) for entry in scored if entry.row["version"] != BASE]


def _compare_with_base(scored: Sequence[_Scored]) -> None:
    for name in dict.fromkeys(name for entry in scored for name in entry.scores):
        for entry, _, comparison in _compare(_with_base(scored), name):
            entry.row["against_base"][name] = comparison


def _compare(
    couples: Iterable[tuple[_Scored, _Scored]], name: str
) -> Iterator[tuple[_Scored, _Scored, dict[str, Any]]]:
    """Compare couples question by question, with Holm's correction."""
    pairs: list[tuple[_Scored, _Scored, PairedComparison]] = []
    for entry, other in couples:
        before, after = other.scores.get(name, {}), entry.scores.get(name, {})
        if any(before.get(key) is not None and value is not None for key, value in after.items()):
            pairs.append((entry, other, compare_pair(before, after, common_only=True)))
    for (entry, other, pair), p in zip(pairs, holm([pair.p_value for *_, pair in pairs]), strict=True):
        comparison = asdict(replace(pair, adjusted_p=p, changes=()))
        del comparison["changes"]  # hoptree eval compare lists them
        yield entry, other, comparison
