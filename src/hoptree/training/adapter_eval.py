"""What adapters changed: every figure of a run with one beside the same run with the base, and whether it is chance."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.engine.schedule import together
from hoptree.evaluation.boundary import BoundaryExperiment, Pair, read_pairs
from hoptree.evaluation.boundary_run import measure_all
from hoptree.evaluation.calibration import score_attempt
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.plan import Planned, chosen, index_for, read_plan
from hoptree.evaluation.run_folder import read_rows
from hoptree.evaluation.running import Progress, Ways, run_experiment
from hoptree.evaluation.statistics import PairedComparison, Scores, compare_pair, holm
from hoptree.models import open_model
from hoptree.models.model import Model

BASE = "base"
_HOW = "Give --model hf/NAME, hf/FOLDER or hf/FILE.gguf, and adapters with --adapter FOLDER."


@dataclass(frozen=True, slots=True)
class Version:
    """A model under the name that tables give it; `card` is what an adapter says of its training, if it says it."""

    name: str
    model: str
    adapter: Path | None = None
    card: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        card = self.card or {}
        return {
            "name": self.name,
            "model": self.model,
            "adapter": str(self.adapter) if self.adapter else None,
            "sets": card.get("sets"),
            "examples": card.get("examples"),
            "evaluation_questions": card.get("evaluation_questions"),
        }


def versions_of(model: str, adapters: Sequence[Path]) -> list[Version]:
    """The base and each adapter, under the name of its folder.

    An adapter that is not there, or that was trained on other weights, is refused here, before anything is asked.
    """
    kind, _, name = model.partition("/")
    if kind != "hf" or not name:
        raise ConfigError(f"{model or 'The embedded model'} takes no adapters.", _HOW)
    weights, _, settings = name.partition("?")
    if any(setting.startswith("adapter=") for setting in settings.split("&")):
        raise ConfigError(f"{model} has an adapter already, and so is no base.", _HOW)
    from hoptree.models.hf_weights import adapter_folder, card_on, resolve_source

    names = _names(adapters)
    found = [Version(BASE, model)]
    for folder, called in zip(adapters, names, strict=True):
        card = card_on(adapter_folder(str(folder)), resolve_source(weights))
        spec = f"{model}{'&' if settings else '?'}adapter={folder}"
        found.append(Version(called, spec, folder, card))
    return found


def _names(adapters: Sequence[Path]) -> list[str]:
    """The names of the folders, with those they lie in where that does not tell them apart."""
    places = [folder.expanduser().resolve() for folder in adapters]
    if len(set(places)) < len(places):
        raise InputError("An adapter was given twice.", "Name each --adapter once.")
    short = [BASE, *(place.name for place in places)]
    names = [place.name if short.count(place.name) == 1 else f"{place.parent.name}/{place.name}" for place in places]
    if len(set(names)) < len(names):
        raise InputError(
            f"Adapters have the same name: {', '.join(sorted(names))}.",
            "Give their folders names that tell them apart.",
        )
    return names


Listener = Callable[["Trial", Progress], None]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One run of an experiment file with one version of the model; `run` is what the file calls it."""

    version: Version
    run: str
    planned: Planned

    @property
    def data(self) -> str:
        return self.planned.data_name

    @property
    def boundary(self) -> bool:
        """Whether it measures what the model knows of what it knows."""
        return isinstance(self.planned.experiment, BoundaryExperiment)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the trials came to: the summary of each run, and the boundary of each version over all its data sets."""

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
    """All runs of the files with every version; `data` is the folder of the data, or else each file's own.

    `only` names data sets and runs, as for `hoptree run`. Two files that name the same run of the same data set are
    refused: their folders would be the same.
    """
    trials = [
        trial
        for version in versions
        for path in files
        for trial in _of_file(
            path, read_plan(path, data or path.parent, {**(settings or {}), "model": version.model}), version
        )
    ]
    if only:
        named = [Planned(trial.data, trial.run, (), trial.planned.experiment) for trial in trials]
        kept = {id(one) for one in chosen(named, only)}
        trials = [trial for trial, one in zip(trials, named, strict=True) if id(one) in kept]
    folder, times = Counter(trial.planned.folder for trial in trials).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{times} runs would be kept in {folder}.", "Measure the files one after another, each with its own --out."
        )
    return trials


def _of_file(path: Path, planned: Sequence[Planned], version: Version) -> list[Trial]:
    """The runs of a file under names that tell the versions apart, as `models` in the file would."""
    if not planned:
        raise InputError(f"{path} has no runs.", "Name data and runs in it.")
    alone = len({one.run_name for one in planned}) == 1
    trials = []
    for one in planned:
        # Where a file names models, a run that stands alone is called by the model's name.
        run = one.experiment.method if one.run_name == version.model else one.run_name
        name = version.name if alone else f"{run}, {version.name}"
        experiment = replace(one.experiment, name=f"{name} on {one.data_name}")
        trials.append(Trial(version, run, replace(one, run_name=name, experiment=experiment)))
    return trials


async def measure(
    trials: Sequence[Trial],
    out: Path,
    ways: Ways,
    *,
    at_once: int = 1,
    on_progress: Listener = lambda trial, progress: None,
) -> Measured:
    """Make all runs that are not finished, and say what they came to.

    One version after another, so that no two are in memory at once; `at_once` runs of it share its batch. A judge of
    boundaries is opened when everything is asked.
    """
    indexes: dict[tuple[Path, ...], Path] = {}
    summaries: dict[Trial, Mapping[str, Any]] = {}
    for name in dict.fromkeys(trial.version.name for trial in trials):
        some = [trial for trial in trials if trial.version.name == name]
        model = open_model(some[0].version.model)
        try:
            made = await _make(some, model, out, ways, at_once, indexes, on_progress)
        finally:
            await model.aclose()
        summaries |= dict(zip(some, made, strict=True))
    bounds = {trial: trial.planned for trial in trials if trial.boundary}
    # What failed was asked again just now, if it was to be.
    told = await measure_all(list(bounds.values()), out, replace(ways, retry_failed=False))
    runs = [(trial, summary) for trial, summary in summaries.items() if trial not in bounds]
    named = {trial.planned.run_name: trial for trial in bounds}
    return Measured(runs, [(named[one["model"]], one) for one in told])


async def _make(
    trials: Sequence[Trial],
    model: Model,
    out: Path,
    ways: Ways,
    at_once: int,
    indexes: dict[tuple[Path, ...], Path],
    on_progress: Listener,
) -> list[dict[str, Any]]:
    """The runs of one version, so many at the same time."""
    turn = asyncio.Semaphore(at_once)

    async def make(trial: Trial) -> dict[str, Any]:
        async with turn:
            folder = out / trial.planned.folder
            try:
                wanted = _with_index(trial, out / "indexes", indexes)
                return await run_experiment(
                    wanted, folder, ways, model=model, on_progress=lambda progress: on_progress(trial, progress)
                )
            except HoptreeError as error:
                error.cause = f"{trial.planned.experiment.name}: {error.cause}"
                raise

    return await together(make(trial) for trial in trials)


def _with_index(trial: Trial, folder: Path, made: dict[tuple[Path, ...], Path]) -> Experiment:
    """What is to be run, with an index of its corpora; both answers of a boundary are judged together, in the end."""
    planned = trial.planned
    if trial.boundary:
        return replace(planned.experiment, judge="", judge_base_url="")
    if not planned.corpora:
        return planned.experiment
    if planned.corpora not in made:
        made[planned.corpora] = index_for(planned.corpora, folder)
    return replace(planned.experiment, corpus=str(made[planned.corpora]))


ALL, MEAN = "all", "mean"
"""What stands in the place of a data set for all questions together, and for the mean of the data sets."""
_RUN_SCORES = ("em", "f1", "judge")
_PLAIN = ("direct", "oner")
"""Methods that ask once: what an adapter does for them is the form of an answer."""
_SHARES = (
    "refused_share",
    "direct_f1",
    "confident_f1",
    "knowledge_gap_f1",
    "gap_f1",
    "precision",
    "consistency_f1",
    "consistency_judged",
)
_FIGURES = ("questions", "refused", "failed", *_SHARES, "gap_f1_plus_minus", "usable", "verdict")


def _right(pair: Pair) -> float | None:
    """Whether it was sure and right, or refused what it would have got wrong, by exact match."""
    if pair.failed:
        return None
    said = pair.direct if pair.confident is None else pair.confident
    return float(score_attempt(said, pair.golds).em != (pair.confident is None))


def _sure_and_right(pair: Pair) -> float | None:
    """Whether it gave the right answer where it could have refused: who refuses everything has none of these."""
    if pair.failed:
        return None
    return float(pair.confident is not None and score_attempt(pair.confident, pair.golds).em)


_DECISIONS = {"right_decisions": _right, "sure_and_right": _sure_and_right}
_BOUNDARY_SCORES: dict[str, Callable[[Pair], float | None]] = {
    **_DECISIONS,
    "refused_share": lambda pair: None if pair.failed else float(pair.confident is None),
    "direct_f1": lambda pair: score_attempt(pair.direct, pair.golds).f1,
}
"""What a boundary has of every single question, and so can be compared question by question."""


def run_gains(measured: Measured) -> list[dict[str, Any]]:
    """The scores of every run that answers questions, and how they changed.

    `against_plain` is what its F1 has over that of a direct answer and of one reading by the same version: what all of
    them gained is the form of an answer. p is corrected (Holm) over all comparisons of one score with the base, or with
    these.
    """
    found: list[dict[str, Any]] = []
    scored: list[dict[str, Scores]] = []
    for trial, summary in measured.runs:
        folder, means = Path(summary["folder"]), summary["metrics"]
        names = [name for name in _RUN_SCORES if name in means]
        rows = read_rows(folder)
        told = {name: summary[name] for name in ("questions", "finished", "failed", "rests_on", "warnings")}
        told |= {"method": trial.planned.experiment.method, "against_plain": {}}
        found.append(_named(trial, trial.data, folder) | told | {name: means[name]["mean"] for name in names})
        scored.append({name: {row.id: row.scores.get(name) for row in rows} for name in names})
    _compare(found, scored)
    for one, plain, compared in _held(_beside_plain(found), found, scored, "f1"):
        one["against_plain"][plain["run"]] = compared
    return found


def boundary_gains(measured: Measured) -> list[dict[str, Any]]:
    """What each boundary came to, of every data set, of all together and on average, and how it changed.

    The gap lies between other questions with each version. So its change has the interval of two gaps that know nothing
    of each other, which is rather too wide.
    """
    found: list[dict[str, Any]] = []
    scored: list[dict[str, Scores]] = []
    means: list[dict[str, Any]] = []
    for trial, told in measured.boundaries:
        pairs = {data: read_pairs(Path(folder)) for data, folder in told["folders"].items()}
        for data, some in pairs.items():
            found.append(_named(trial, data, told["folders"][data]) | _figures(told["sets"][data]))
            found[-1]["warnings"] = told["sets"][data]["warnings"]
            scored.append(_scores(some))
        if told["all"]:
            found.append(_named(trial, ALL) | _figures(told["all"]))
            scored.append(_scores(replace(one, id=f"{data}/{one.id}") for data, some in pairs.items() for one in some))
            means.append(_named(trial, MEAN))
    for one, scores in zip(found, scored, strict=True):
        one |= {name: _mean([value for value in scores[name].values() if value is not None]) for name in _DECISIONS}
    _compare(found, scored)
    for one, before in _beside_base(found):
        if change := _gap_change(before, one):
            one["against_base"]["gap_f1"] = change
    for mean in means:
        parts = [one for one in found if one["folder"] and _whose(one) == _whose(mean)]
        for name in (*_SHARES, *_DECISIONS):
            known = [one[name] for one in parts if one[name] is not None]
            mean[name] = _mean(known) if len(known) == len(parts) else None
    return [*found, *means]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _whose(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["run"], one["version"]


def _named(trial: Trial, data: str, folder: str | Path | None = None) -> dict[str, Any]:
    named = {"data": data, "run": trial.run, "version": trial.version.name}
    return {**named, "folder": str(folder) if folder else None, "against_base": {}}


def _figures(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in _FIGURES if name in told}


def _scores(pairs: Iterable[Pair]) -> dict[str, Scores]:
    known = list(pairs)
    return {name: {pair.id: score(pair) for pair in known} for name, score in _BOUNDARY_SCORES.items()}


def _beside_base(found: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each version but the base with the base, of the same run over the same data."""
    base = {(one["data"], one["run"]): one for one in found if one["version"] == BASE}
    others = [one for one in found if one["version"] != BASE]
    return [(one, base[one["data"], one["run"]]) for one in others]


def _beside_plain(found: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each run of another method with those of the plain ones, by the same version over the same data."""
    return [
        (one, plain)
        for one in found
        for plain in found
        if one["method"] not in _PLAIN
        and plain["method"] in _PLAIN
        and (one["data"], one["version"]) == (plain["data"], plain["version"])
    ]


def _compare(found: Sequence[dict[str, Any]], scored: Sequence[Mapping[str, Scores]]) -> None:
    """Hold every score against that of the base."""
    for name in dict.fromkeys(name for scores in scored for name in scores):
        for one, _, told in _held(_beside_base(found), found, scored, name):
            one["against_base"][name] = told


def _held(
    couples: Iterable[tuple[dict[str, Any], dict[str, Any]]],
    found: Sequence[dict[str, Any]],
    scored: Sequence[Mapping[str, Scores]],
    name: str,
) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """One run against another, question by question, by a score that both have; p is corrected over all couples."""
    scores_of = {id(one): scores.get(name, {}) for one, scores in zip(found, scored, strict=True)}
    pairs: list[tuple[dict[str, Any], dict[str, Any], PairedComparison]] = []
    for one, before in couples:
        a, b = scores_of[id(before)], scores_of[id(one)]
        if any(a.get(key) is not None and value is not None for key, value in b.items()):
            pairs.append((one, before, compare_pair(a, b, common_only=True)))
    for (one, before, pair), p in zip(pairs, holm([pair.p_value for *_, pair in pairs]), strict=True):
        told = asdict(replace(pair, adjusted_p=p, changes=()))
        del told["changes"]  # hoptree eval compare lists them
        yield one, before, told


def _gap_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, float | None] | None:
    if before["gap_f1"] is None or now["gap_f1"] is None:
        return None
    around = [one["gap_f1_plus_minus"] for one in (before, now)]
    return {
        "difference": now["gap_f1"] - before["gap_f1"],
        "plus_minus": None if None in around else math.hypot(*around),
    }
