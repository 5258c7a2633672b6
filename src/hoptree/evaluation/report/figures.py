"""The plots of a report: score against cost, by type and hops, where answers come from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hoptree.engine.explain import GUESS
from hoptree.evaluation.report.answering_modules import modules_of
from hoptree.evaluation.report.boundary import DOMAINS, Awareness, mean_over, on_all, read_boundary
from hoptree.evaluation.report.contents import PARTS, groups_by, mean_of, runs_on_all
from hoptree.evaluation.report.hypothesis_tables import CLASSES, errors_of
from hoptree.evaluation.report.lookups import DRAW
from hoptree.evaluation.report.measures import (
    COSTS,
    SCORES,
    Cost,
    DataGroup,
    Run,
    all_but,
    mean_cost,
    mean_score,
    shared_name,
)
from hoptree.evaluation.report.plots import Bars, Dot, Line, bars, distribution, dots, lines, shares, swept

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


_CONSISTENCY = {"consistency_f1": "F1 of the two answers", "consistency_judged": "judged to mean the same"}
_SETTINGS = "Direct QA asks for an answer, Confident QA lets the model refuse; the knowledge gap is what it refused."


def boundary_figures(groups: Iterable[DataGroup]) -> list[Figure]:
    """Figures 5 and 9 (accuracy where it is sure and where not), 8 and 11 (consistency), 10 (means of models)."""
    known = read_boundary(groups)
    if not known:
        return []
    agree = "How far a model's two answers to a question agree, where it gave two."
    found = [
        _of_each("sure", "Accuracy by the model's own word", DOMAINS, known, f"{_SETTINGS} Accuracy is F1."),
        _of_each("same", "Consistency", _CONSISTENCY, known, agree),
        _of_models(known),
        _consistency_of_models(known, agree),
    ]
    return [*filter(None, found), *_curves(known)]


def _of_each(name: str, title: str, measures: Mapping[str, str], known: Sequence[Awareness], caption: str) -> Figure:
    rows = [(one.label, [_bar(one.measures[measure]) for measure in measures]) for one in known]
    plot = bars(f"boundary-{name}", title, "points of 100", list(measures.values()), rows)
    return Figure(title, caption, plot, tuple(enumerate(measures.values())), _boundary_figures_ids(known))


def _of_models(known: Sequence[Awareness]) -> Figure | None:
    """Figure 10: models side by side, over all data sets."""
    models = on_all(known)
    if not models:
        return None
    rows = [(label, [_bar(mean_over(some, name)) for name in DOMAINS]) for label, some in models.items()]
    sets = len(next(iter(models.values())))
    title = f"Accuracy by the model's own word, mean of {sets} data sets"
    plot = bars("boundary-mean", title, "points of 100", list(DOMAINS.values()), rows)
    caption = f"{_SETTINGS} Accuracy is F1; each data set counts the same."
    return Figure(title, caption, plot, tuple(enumerate(DOMAINS.values())), _boundary_figures_ids(known))


def _consistency_of_models(known: Sequence[Awareness], caption: str) -> Figure | None:
    """Figure 11: by data set, models side by side."""
    models = list(dict.fromkeys(one.run.label for one in known))
    if len(models) < 2:
        return None
    judged = all(one.measures["consistency_judged"] is not None for one in known)
    name = "consistency_judged" if judged else "consistency_f1"
    by_place = {(one.data, one.run.label): one.measures[name] for one in known}
    rows = [
        (data, [_bar(by_place.get((data, model))) for model in models])
        for data in dict.fromkeys(one.data for one in known)
    ]
    title = f"Consistency of models, {'judged' if judged else 'F1'}"
    plot = bars("boundary-models", title, "points of 100", models, rows)
    return Figure(title, caption, plot, tuple(enumerate(models)), _boundary_figures_ids(known))


def _curves(known: Sequence[Awareness]) -> list[Figure]:
    """What a threshold on the least token probability would do, beside what the model's own word does."""
    models = list(dict.fromkeys(one.run.label for one in known))
    found = []
    for number, data in enumerate(dict.fromkeys(one.data for one in known)):
        some = [one for one in known if one.data == data and one.curve]
        if not some:
            continue
        drawn = [
            Line(models.index(one.run.label), one.run.label, [(100 * x, 100 * y) for x, y in one.curve], _own_word(one))
            for one in some
        ]
        title = f"{data}: right answers against answers kept"
        plot = lines(f"boundary-curve{number}", title, "kept of all questions, %", "right of those, %", drawn)
        caption = (
            "Lines: direct answers kept where the probability of their least likely token is high, from the surest on. "
            "Marks: what the model itself was sure of."
        )
        legend = tuple((line.series, line.name) for line in drawn)
        found.append(Figure(title, caption, plot, legend, _boundary_figures_ids(some), shaped=True))
    return found


def _own_word(one: Awareness) -> tuple[float, float] | None:
    answered, refused, right = (one.measures[name] or 0.0 for name in ("answered", "refused", "precision"))
    return (100 * answered / (answered + refused), 100 * right) if answered else None


def _bar(value: float | None) -> Bars:
    return None if value is None else (100 * value, None, None)


def _boundary_figures_ids(known: Sequence[Awareness]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.run.id for one in known))


def error_figures(group: DataGroup, name: str) -> list[Figure]:
    """One for a data set with runs that validate hypotheses and have wrong answers; `name` begins its ids."""
    known = [(run, found) for run in group.runs if any((found := errors_of(run)).values())]
    if not known:
        return []
    series = [one for one in CLASSES if any(found[one] for _, found in known)]
    rows = [(run.label, [len(found[one]) / sum(map(len, found.values())) for one in series]) for run, found in known]
    title = f"{group.name}: what went wrong, guessed"
    plot = shares(f"{name}-errors", title, series, rows, "share of answers without an exact match, %")
    ids = tuple(dict.fromkeys(run.id for run, _ in known))
    caption = "Guessed by the rules below the table of the same name."
    return [Figure(title, caption, plot, tuple(enumerate(series)), ids)]


def module_figures(group: DataGroup, name: str) -> list[Figure]:
    """One for a data set with runs whose method has modules; `name` begins its ids."""
    known = [(run, modules) for run in group.runs if (modules := modules_of(run))]
    if not known:
        return []
    series = list(dict.fromkeys(module for _, modules in known for module in modules))
    rows = [(run.label, [len(modules.get(module, ())) / len(run.rows) for module in series]) for run, modules in known]
    title = f"{group.name}: the module that answered"
    plot = shares(f"{name}-modules", title, series, rows, "share of questions, %")
    ids = tuple(dict.fromkeys(run.id for run, _ in known))
    return [Figure(title, "Of the question itself, not of its sub-questions.", plot, tuple(enumerate(series)), ids)]


_METRICS = ("em", "f1")
_LEVELS = 6
"""Runs of other methods that are drawn beside the lines; more would hide them."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The runs that differ in the value of one option alone, in its order; `name` tells them from other such runs."""

    name: str
    runs: tuple[tuple[float, Run], ...]


def sweeps_of(group: DataGroup) -> dict[str, list[Sweep]]:
    """By option: those that have numbers for values, and two or more of them; a draw is no quantity."""
    options = dict.fromkeys(name for run in group.runs for name in _numbers(run) if name != DRAW)
    found: dict[str, list[Sweep]] = {}
    for option in options:
        alike: dict[str, dict[float, Run]] = {}
        for run in group.runs:
            if (value := _numbers(run).get(option)) is not None:
                alike.setdefault(all_but(run, option), {}).setdefault(value, run)
        lines = [tuple(sorted(some.items(), key=lambda one: one[0])) for some in alike.values() if len(some) > 1]
        if lines:
            found[option] = [Sweep(name, line) for name, line in zip(_names(lines), lines, strict=True)]
    return found


def _numbers(run: Run) -> dict[str, float]:
    options = run.about["rests_on"].get("options")
    said = options.items() if isinstance(options, Mapping) else ()
    return {str(name): value for name, value in said if type(value) in (int, float) and math.isfinite(value)}


def _names(lines: Sequence[Sequence[tuple[float, Run]]]) -> list[str]:
    """What the names of all runs of a line share, if that tells the lines apart."""
    methods = [str(line[0][1].about["rests_on"].get("method", "")) for line in lines]
    if len(lines) == 1:
        return methods
    for more in (_common, _model):
        names = [
            f"{method}, {said}" if (said := more(line)) else method for method, line in zip(methods, lines, strict=True)
        ]
        if len(set(names)) == len(names):
            return names
    return [f"{method}, as {line[0][1].label}" for method, line in zip(methods, lines, strict=True)]


def _common(line: Sequence[tuple[float, Run]]) -> str:
    return shared_name([run for _, run in line])


def _model(line: Sequence[tuple[float, Run]]) -> str:
    return str(line[0][1].about["experiment"].get("model", ""))


def sweep_figures(group: DataGroup, name: str) -> list[Figure]:
    """Two plots an option that is swept, one a score; `name` begins their ids."""
    return [
        figure
        for place, (option, sweeps) in enumerate(sweeps_of(group).items())
        for metric in _METRICS
        if (figure := _figure(group, option, sweeps, metric, f"{name}-{metric}{place}"))
    ]


def _figure(group: DataGroup, option: str, sweeps: Sequence[Sweep], metric: str, name: str) -> Figure | None:
    score = next(score.title for score in SCORES if score.name == metric)
    lines = [
        [dot for value, run in sweep.runs if (dot := _dot(run, metric, series, sweep.name, value))]
        for series, sweep in enumerate(sweeps)
    ]
    others = _others(group, sweeps)
    levels = [dot for place, run in enumerate(others, len(sweeps)) if (dot := _dot(run, metric, place, run.label, 0))]
    if not any(lines):
        return None
    title = f"{group.name}: {score} by {option}"
    plot = swept(name, title, option, score, [line for line in lines if line], levels)
    drawn = [run for sweep in sweeps for _, run in sweep.runs] + others
    legend = [sweep.name for sweep in sweeps] + [run.named for run in others]
    caption = "Runs that differ in this option alone; lines up and down are 95 % intervals."
    if any(not run.finished for run in drawn):
        caption += " Some are not finished."
    ids = tuple(dict.fromkeys(run.id for run in drawn))
    return Figure(title, caption, plot, tuple(enumerate(legend)), ids, shaped=True)


def _others(group: DataGroup, sweeps: Sequence[Sweep]) -> list[Run]:
    """The runs of other methods, to hold the lines against."""
    methods = {run.about["rests_on"].get("method") for sweep in sweeps for _, run in sweep.runs}
    others = [run for run in group.runs if run.about["rests_on"].get("method") not in methods]
    return others if len(others) <= _LEVELS else []


def _dot(run: Run, metric: str, series: int, name: str, value: float) -> Dot | None:
    found = mean_score(run, metric)
    return None if found is None else Dot(series, name, value, found.value, found.low, found.high)
