"""The plots of a report: score against cost, by type and hops, where answers come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoptree.evaluation.report.contents import PARTS, groups_by, mean_of, runs_on_all
from hoptree.evaluation.report.measures import COSTS, Cost, mean_cost, mean_score
from hoptree.evaluation.report.plots import Bars, Dot, bars, distribution, dots, shares
from hoptree.evaluation.report.runs import DataGroup, Run
from hoptree.runtime.reasons import GUESS

__all__ = ["Figure", "group_figures", "overall_figures"]

_BETTER = "Up and to the left is better; the broken line joins what nothing cheaper scores as much as."
_NOT_FROM_DOCUMENTS = ("internal", "fallback")
_ITERATIONS = {1: "first attempt", 2: "second attempt", 3: "third attempt"}
Iterations = Mapping[int, int]
"""How many sub-questions took so many attempts."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption; `legend` names its series by number, and `runs` are the ids its figures come from."""

    title: str
    caption: str
    svg: str
    legend: tuple[tuple[int, str], ...]
    runs: tuple[str, ...]
    shaped: bool = False


def group_figures(group: DataGroup, iterations: Mapping[int, Iterations], name: str) -> list[Figure]:
    """The plots of one data set; `iterations` are known for some of its runs, by their place; `name` begins all ids."""
    against = [
        _against(group, "tokens", "tokens a question", f"{name}-tokens", "prompt and completion together"),
        _against(
            group,
            "critical",
            "seconds a question, on its critical path",
            f"{name}-seconds",
            "the calls that decided when it was done; waiting for a slot is left out, and a cached reply counts for "
            "what it once took",
        ),
    ]
    parts = [_by(group, part, f"{name}-{part}") for part in PARTS]
    sources = [_sources(run, place, f"{name}-sources{place}") for place, run in enumerate(group.runs)]
    return [figure for figure in (*against, *parts, *sources, _attempts(group, iterations, f"{name}-it")) if figure]


def overall_figures(groups: Sequence[DataGroup]) -> list[Figure]:
    """TAIKC's Figure 6: score against cost over all data sets, for what was run on each of them."""
    everywhere = runs_on_all(groups)
    names = [
        name if all(run.finished for run in runs) else f"{name} (not finished)" for name, runs in everywhere.items()
    ]
    found = []
    for cost, label in (("tokens", "tokens a question"), ("critical", "seconds a question, on its critical path")):
        points = []
        for place, (name, runs) in enumerate(everywhere.items()):
            score = mean_of([mean_score(run, "f1") for run in runs])
            spent = mean_of([mean_cost(run, COSTS[cost]) for run in runs])
            if score is not None and spent is not None:
                points.append(Dot(place, name, spent.value, score.value, None, None))
        if points:
            title = f"All {len(groups)} data sets: F1 against {label.split(',')[0]}"
            plot = dots(f"all-{cost}", title, label, "F1", points)
            caption = f"{_BETTER} Each data set counts the same in the means."
            ids = _ids([run for runs in everywhere.values() for run in runs])
            found.append(Figure(title, caption, plot, tuple(enumerate(names)), ids, shaped=True))
    return found


def _legend(runs: Sequence[Run]) -> tuple[tuple[int, str], ...]:
    return tuple((place, f"{run.label} [{run.id}]{_mark(run)}") for place, run in enumerate(runs))


def _mark(run: Run) -> str:
    return f" ({run.progress})" if run.progress else ""


def _ids(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.id for run in runs))


def _against(group: DataGroup, cost: str, label: str, name: str, about: str) -> Figure | None:
    measure: Cost = COSTS[cost]
    points = []
    for place, run in enumerate(group.runs):
        score, spent = mean_score(run, "f1"), mean_cost(run, measure)
        if score is not None and spent is not None:
            points.append(Dot(place, run.label, spent.value, score.value, score.low, score.high))
    if not points:
        return None
    title = f"{group.name}: F1 against {label.split(',')[0]}"
    plot = dots(name, title, label, "F1", points)
    caption = f"{_BETTER} Means of all questions ({about}); upright lines are 95 % intervals of F1."
    return Figure(title, caption, plot, _legend(group.runs), _ids(group.runs), shaped=True)


def _by(group: DataGroup, part: str, name: str) -> Figure | None:
    members = groups_by(group, part)
    if len(members) < 2:
        return None
    rows: list[tuple[str, list[Bars]]] = []
    for member, ids in members.items():
        label = member if part == "type" else f"{member} hops"
        found = [mean_score(run, "f1", ids) for run in group.runs]
        rows.append(
            (f"{label} (n={len(ids):,})", [None if one is None else (one.value, one.low, one.high) for one in found])
        )
    title = f"{group.name}: F1 by {part}"
    plot = bars(name, title, "F1", [run.label for run in group.runs], rows)
    return Figure(title, "Lines are 95 % intervals.", plot, _legend(group.runs), _ids(group.runs))


def _sources(run: Run, place: int, name: str) -> Figure | None:
    """TAIKC's Figure 4: how far each question was answered from documents, from none of its sub-questions to all.

    A guess is at the end of memory, with a name of its own: no document says it, whoever made it.
    """
    found = []
    for row in run.rows:
        outside = row.sources.get("external", 0)
        answered = outside + sum(row.sources.get(source, 0) for source in _NOT_FROM_DOCUMENTS)
        if answered:
            found.append(outside / answered)
    if not found:
        return None
    title = f"Where answers come from: {run.label}"
    guesses = sum(row.sources.get("fallback", 0) for row in run.rows)
    ends = (f"from memory or a {GUESS}" if guesses else "from memory alone", "from documents alone")
    plot = distribution(name, title, ends, "share of questions, %", found, place)
    left_out = len(run.rows) - len(found)
    caption = (
        f"Share of a question's answered sub-questions that were answered from documents, over {len(found):,} questions"
        f"{f' ({left_out:,} without an answered sub-question left out)' if left_out else ''}. Bars: as counted; curve: "
        f"smoothed by a kernel.{f' {guesses:,} of the answers are guesses, which no document says.' if guesses else ''}"
    )
    return Figure(title, caption, plot, ((place, f"{run.label} [{run.id}]{_mark(run)}"),), (run.id,))


def _attempts(group: DataGroup, iterations: Mapping[int, Iterations], name: str) -> Figure | None:
    """TAIKC's Figure 13."""
    known = [(run, iterations[place]) for place, run in enumerate(group.runs) if iterations.get(place)]
    if not known:
        return None
    rows = []
    for run, counts in known:
        total = sum(counts.values())
        rows.append((run.label, [counts.get(number, 0) / total for number in _ITERATIONS]))
    title = f"{group.name}: attempts a sub-question took"
    plot = shares(name, title, list(_ITERATIONS.values()), rows, "share of sub-questions, %")
    caption = (
        "As TAIKC counts them: the model's own confident knowledge, then documents, then a guess without them "
        "(with robust: documents first)."
    )
    return Figure(title, caption, plot, tuple(enumerate(_ITERATIONS.values())), _ids([run for run, _ in known]))
