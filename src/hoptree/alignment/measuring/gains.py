"""What adapters changed: every figure of a run with one beside the same run with the base, and whether it is chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hoptree.alignment.measuring.trials import Measured, Trial
from hoptree.alignment.measuring.versions import BASE
from hoptree.evaluation.boundary import Pair, read_pairs
from hoptree.evaluation.calibration import score_attempt
from hoptree.evaluation.run_folder import read_rows
from hoptree.evaluation.statistics import PairedComparison, Scores, compare_pair, holm

__all__ = ["ALL", "MEAN", "boundary_gains", "run_gains"]

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
        del told["changes"]  # hoptree compare lists them
        yield one, before, told


def _gap_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, float | None] | None:
    if before["gap_f1"] is None or now["gap_f1"] is None:
        return None
    around = [one["gap_f1_plus_minus"] for one in (before, now)]
    return {
        "difference": now["gap_f1"] - before["gap_f1"],
        "plus_minus": None if None in around else math.hypot(*around),
    }
