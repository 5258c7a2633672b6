"""What is measured of a run: which scores and costs, and their means with intervals."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.core.values import Usage
from hoptree.evaluation.list_answers import CANDIDATES
from hoptree.evaluation.report.tables import Number
from hoptree.evaluation.run_folder import RUN, Row, read_rows, read_run
from hoptree.evaluation.statistics import SAMPLES, Comparison, Interval, compare, holm, interval, unseen

_USAGE = tuple(field.name for field in fields(Usage))
_ON = " on "


@dataclass(frozen=True, slots=True)
class Run:
    """A run with the outcomes it has so far; `label` is what tables call it, and `about` is its `run.json`."""

    folder: Path
    id: str
    label: str
    about: Mapping[str, Any]
    rows: tuple[Row, ...]
    total: int

    @property
    def finished(self) -> bool:
        return len(self.rows) == self.total

    @property
    def progress(self) -> str:
        """How many questions have an outcome, where that is not all of them."""
        return "" if self.finished else f"{len(self.rows):,} of {self.total:,}, not finished"

    @property
    def named(self) -> str:
        """Its label, which says if it is not finished."""
        return f"{self.label} ({self.progress})" if self.progress else self.label


@dataclass(frozen=True, slots=True)
class DataGroup:
    """Runs over the same questions of the same data set: those that can be compared."""

    name: str
    questions: int
    runs: tuple[Run, ...]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The run folders among the paths and below them, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        here = [path] if (path / RUN).exists() else _below(path)
        if not here:
            raise InputError(f"{path} holds no run.", "Make one: hoptree run --data … --method … --out FOLDER")
        for folder in here:
            found.setdefault(folder.resolve(), folder)
    if not found:
        raise InputError("There is no run to report on.", "Name the folder of one or more.")
    return list(found.values())


def _below(folder: Path) -> list[Path]:
    """The runs below a folder, without repetitions: these are held against the runs they repeat, not against others."""
    found = sorted(file.parent for file in folder.rglob(RUN))
    return [run for run in found if not read_run(run).get("reproduces")]


def read_groups(paths: Iterable[Path]) -> list[DataGroup]:
    """All runs, data set by data set, in the order they were found."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for folder in find_runs(paths):
        about = _checked(read_run(folder), folder)
        try:
            rows = tuple(_checked_row(row, folder) for row in read_rows(folder))
        except OSError as error:
            raise InputError(f"The run in {folder} cannot be read: {error.strerror}.", "Make it readable.") from error
        run = Run(folder, about["id"], about["name"], about, rows, len(about["questions"]))
        rests_on = about["rests_on"]
        groups.setdefault((str(rests_on.get("data")), str(rests_on.get("questions"))), []).append(run)
    return _told_apart([_group(runs) for runs in groups.values()])


def _checked(about: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a report needs of `run.json`; people edit such files, and disks break them."""
    texts = all(isinstance(about.get(name), str) for name in ("id", "name"))
    questions = about.get("questions")
    if not texts or not isinstance(questions, list) or not all(isinstance(one, str) for one in questions):
        raise InputError(f"The run in {folder} is damaged: {RUN} lacks its id, name or questions.", _AGAIN)
    if not isinstance(about.get("experiment"), dict):
        raise InputError(f"The run in {folder} is damaged: {RUN} does not say its experiment.", _AGAIN)
    return about


_AGAIN = "Run it again into another folder."


def _checked_row(row: Row, folder: Path) -> Row:
    texts = (row.id, row.question, row.answer, row.type, row.error, row.error_message, row.stopped_by, row.trace)
    good = (
        all(isinstance(text, str) for text in (*texts, *row.answers, *row.gold, *row.gold_titles))
        and isinstance(row.hops, int)
        and isinstance(row.scores, dict)
        and all(value is None or _number(value) for value in row.scores.values())
        and isinstance(row.usage, dict)
        and all(_number(row.usage.get(name)) for name in _USAGE)
        and isinstance(row.sources, dict)
        and all(_number(value) for value in row.sources.values())
    )
    if not good:
        raise InputError(f"The run in {folder} is damaged: the result of question {row.id!r} is none.", _AGAIN)
    return row


def _number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _group(runs: Sequence[Run]) -> DataGroup:
    """`hoptree run` calls a run METHOD on DATA: where all agree on the latter, it names the group, not each run."""
    ends = {run.label.rpartition(_ON)[2] if _ON in run.label else "" for run in runs}
    if len(ends) == 1 and (name := ends.pop()):
        labels = [run.label.rpartition(_ON)[0] for run in runs]
    else:
        name, labels = _data_name(runs[0]), [run.label for run in runs]
    labels = _unlike(_unlike(labels, [run.folder.name for run in runs]), [run.id for run in runs])
    named = tuple(
        Run(run.folder, run.id, label, run.about, run.rows, run.total) for run, label in zip(runs, labels, strict=True)
    )
    return DataGroup(name, runs[0].total, named)


def _data_name(run: Run) -> str:
    if name := run.about.get("data_name"):
        return str(name)
    path = Path(str(run.about["experiment"].get("data", "questions")))
    return "/".join((*path.parts[-2:-1], path.stem)).lstrip("/") or "questions"


def _unlike(names: Sequence[str], more: Sequence[str]) -> list[str]:
    """Names that occur twice get something more to tell them apart."""
    times = Counter(names)
    return [f"{name} ({other})" if times[name] > 1 else name for name, other in zip(names, more, strict=True)]


def _told_apart(groups: Sequence[DataGroup]) -> list[DataGroup]:
    names = _unlike([group.name for group in groups], [f"{group.questions:,} questions" for group in groups])
    digests = [str(group.runs[0].about["rests_on"].get("questions"))[:8] for group in groups]
    names = _unlike(names, digests)
    return [DataGroup(name, group.questions, group.runs) for name, group in zip(names, groups, strict=True)]


_SIGNIFICANCE = 0.05
_COST_SAMPLES = 2_000
"""Costs differ on every question, which makes each sample dear; two digits of an interval need no more."""
_OF_SEARCHES = "retrieval_recall"
_KEPT = 512


@dataclass(frozen=True, slots=True)
class Score:
    """A score between 0 and 1, printed as points of 100."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a question costs."""

    title: str
    digits: int
    of: Callable[[Mapping[str, float]], float]


SCORES = (
    Score("em", "EM"),
    Score("f1", "F1"),
    Score("precision", "P"),
    Score("recall", "R"),
    Score("contains", "Contains"),
    Score("judge", "Judge"),
    Score(_OF_SEARCHES, "Retrieval recall"),
)
YES_NO = Score("yes_no", "Yes/no")
"""Whether the yes or no in the first place is right, whatever follows it (StrategyQA's accuracy)."""
RARE = (
    YES_NO,
    Score("list_f1", "List F1"),
    Score("list_precision", "List P"),
    Score("list_recall", "List R"),
    Score(CANDIDATES, "Candidate recall"),
)
"""Of questions whose answer is yes or no, or a list of names: shown where there are any."""
COSTS = {
    "calls": Cost("Calls", 1, lambda usage: usage["llm_calls"]),
    "tokens": Cost("Tokens", 0, lambda usage: usage["prompt_tokens"] + usage["completion_tokens"]),
    "searches": Cost("Searches", 1, lambda usage: usage["retrievals"]),
    "seconds": Cost("Seconds", 2, lambda usage: usage["seconds"]),
    "critical": Cost("Critical path, s", 2, lambda usage: usage["critical_path_seconds"]),
    "cost": Cost("Cost of 1,000", 2, lambda usage: 1000 * usage["price"]),
}
_OF_SOME = frozenset(score.name for score in RARE)


def scores_of(run: Run, metric: str) -> dict[str, float | None]:
    """A score of every question that has an outcome; a failed question is wrong wherever the score applies to it."""
    found = {row.id: row.scores.get(metric) for row in run.rows}
    if all(value is None for value in found.values()):
        return found
    return found | {row.id: _failed(row, metric) for row in run.rows if row.error}


def _failed(row: Row, metric: str) -> float | None:
    if metric in _OF_SOME:
        return 0.0 if row.scores.get(metric) is not None else None
    if metric != _OF_SEARCHES:
        return 0.0
    return (row.scores.get(metric) or 0.0) if row.gold else None


def mean_score(run: Run, metric: str, among: Collection[str] | None = None) -> Number | None:
    """The mean in points with its interval, over all questions or `among` these; None where no question has one."""
    scores = [value for key, value in scores_of(run, metric).items() if among is None or key in among]
    values = [value for value in scores if value is not None]
    if not values:
        return None
    found = _interval(tuple(values), SAMPLES)
    if set(values) in ({0.0}, {1.0}):
        beyond = unseen(len(values))
        found = replace(found, low=min(found.mean, 1 - beyond), high=max(found.mean, beyond))
    fewer = len(values) if len(values) < len(scores if among is None else among) else None
    return Number(100 * found.mean, 100 * found.low, 100 * found.high, 1, fewer)


def mean_cost(run: Run, cost: Cost) -> Number | None:
    """The mean cost with its interval; what was spent on failed questions was spent.

    Money is n/a without prices. It is that of all calls: what the cache saved depends on what was run before.
    """
    if not run.rows or (cost is COSTS["cost"] and not run.about["experiment"].get("prices")):
        return None
    return mean_figure([cost.of(row.usage) for row in run.rows], cost.digits)


def mean_figure(values: Sequence[float], digits: int) -> Number:
    """The mean of what was counted or spent on each question, with its interval."""
    found = _interval(tuple(values), _COST_SAMPLES)
    return Number(found.mean, found.low, found.high, digits)


def best_of(runs: Sequence[Run], metric: str) -> Run | None:
    """The finished run that beats each other finished one by more than chance, or None.

    Each is held against it question by question (paired permutation test, Holm's correction for their number).
    """
    known = [(run, scores) for run in runs if run.finished and _has(scores := scores_of(run, metric))]
    if len(known) < 2:
        return None
    (first, ours), *others = sorted(known, key=lambda one: -(_mean(one[1].values()) or 0.0))
    p_values = []
    for _, theirs in others:
        pairs = [(a, b) for key, b in theirs.items() if b is not None and (a := ours.get(key)) is not None]
        found = _compared(tuple(pairs))
        p_values.append(found.p_value if found.difference > 0 else 1.0)
    return first if max(holm(p_values)) < _SIGNIFICANCE else None


@lru_cache(_KEPT)
def _interval(values: tuple[float, ...], samples: int) -> Interval:
    """Tables and plots show the same figures: they are drawn once."""
    return interval(values, samples=samples)


@lru_cache(_KEPT)
def _compared(pairs: tuple[tuple[float, float], ...]) -> Comparison:
    return compare([a for a, _ in pairs], [b for _, b in pairs])


def _has(scores: Mapping[str, float | None]) -> bool:
    return any(value is not None for value in scores.values())


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def marked(number: Number | None, best: bool) -> Number | None:
    """The same figure, in bold."""
    return replace(number, best=True) if number is not None and best else number


def all_but(run: Run, option: str) -> str:
    """All that a run rests on but one option."""
    rests_on = run.about["rests_on"]
    others = {name: value for name, value in _options(run).items() if name != option}
    return json.dumps({**rests_on, "options": others}, sort_keys=True)


def option_of(run: Run, option: str) -> Any:
    """The value of an option; None for a method that has none of this name."""
    return _options(run).get(option)


def varied(runs: Iterable[Run], option: str) -> list[tuple[Run, ...]]:
    """The runs that differ in one option alone, together: those with two values or more, one run each."""
    alike: dict[str, dict[str, Run]] = {}
    for run in runs:
        if (value := option_of(run, option)) is not None:
            alike.setdefault(all_but(run, option), {}).setdefault(json.dumps(value), run)
    return [tuple(some.values()) for some in alike.values() if len(some) > 1]


def shared_name(runs: Sequence[Run]) -> str:
    """What the names of all these runs share ("k 1, GPT" and "k 3, GPT"); "" if nothing."""
    first, *others = [run.label.split(", ") for run in runs]
    return ", ".join(part for part in first if all(part in other for other in others))


def _options(run: Run) -> Mapping[str, Any]:
    options = run.about["rests_on"].get("options")
    return options if isinstance(options, Mapping) else {}
