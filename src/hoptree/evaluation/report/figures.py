"""The plots of a report: scores, costs, sources, boundary awareness, sweeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hoptree.engine.events import GUESS
from hoptree.evaluation.report import measures
from hoptree.evaluation.report.contents import PARTS, groups_by, mean_number, modules_of, runs_on_all
from hoptree.evaluation.report.hypothesis_tables import CLASSES, errors_of
from hoptree.evaluation.report.lookups import DRAW
from hoptree.evaluation.report.measures import DataGroup, Run
from hoptree.evaluation.report.plots import BarValue, Dot, Line, bars, distribution, dots, lines, shares, swept
from hoptree.evaluation.report.run_tables import DOMAINS, Awareness, measured_on_all, read_boundary
from hoptree.evaluation.report.tables import Number, Table
from hoptree.evaluation.statistics import mean_of

_PARETO = "Up and to the left is better; the broken line joins the runs that no cheaper one equals in score."
_TOKENS, _SECONDS = "tokens a question", "seconds a question, on its longest chain of calls"
_ABOUT_SECONDS = (
    "the calls that decided when it was done; waiting for a slot is left out, and a cached reply counts for what it "
    "once took"
)
_ATTEMPTS = {1: "first attempt", 2: "second attempt", 3: "third attempt"}
_SETTINGS = "Direct QA asks for an answer, Confident QA lets the model refuse; the knowledge gap is what it refused."
_CONSISTENCY = {"consistency_f1": "F1 of the two answers", "consistency_judged": "judged to mean the same"}
_AGREEMENT = "How far a model's two answers to a question agree, where it gave two."
_SWEPT_METRICS = ("em", "f1")
_MAX_LEVELS = 6  # runs of other methods drawn beside the lines of a sweep; more would hide the lines


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot of some runs; `legend` names its series by number."""

    title: str
    caption: str
    svg: str
    legend: Mapping[int, str]
    runs: Sequence[Run]
    shaped: bool = False


def group_figures(group: DataGroup, attempts: Mapping[int, Mapping[int, int]], name: str) -> list[Figure]:
    """Return the plots of one data set.

    `attempts` counts, by the index of a run, the sub-questions with each number of attempts. `name` begins all ids.
    """
    figures = [
        _score_against(group, "tokens", _TOKENS, f"{name}-tokens", "prompt and completion together"),
        _score_against(group, "critical", _SECONDS, f"{name}-seconds", _ABOUT_SECONDS),
        *(_score_by(group, part, f"{name}-{part}") for part in PARTS),
        *(_sources(run, place, f"{name}-sources{place}") for place, run in enumerate(group.runs)),
        _attempts(group, attempts, f"{name}-it"),
        _modules(group, f"{name}-modules"),
        _errors(group, f"{name}-errors"),
        *(
            _sweep_figure(group, option, sweeps, metric, f"{name}-{metric}{place}")
            for place, (option, sweeps) in enumerate(sweeps_of(group).items())
            for metric in _SWEPT_METRICS
        ),
    ]
    return [figure for figure in figures if figure is not None]


def overall_figures(groups: Sequence[DataGroup]) -> list[Figure]:
    """Draw TAIKC's Figure 6: score against cost over all data sets."""
    everywhere = runs_on_all(groups)
    unfinished = {name for name, runs in everywhere.items() if not all(run.finished for run in runs)}
    legend = {place: f"{name} (not finished)" if name in unfinished else name for place, name in enumerate(everywhere)}
    drawn = [run for runs in everywhere.values() for run in runs]
    caption = f"{_PARETO} Each data set counts the same in the means."
    figures = []
    for cost, label in (("tokens", _TOKENS), ("critical", _SECONDS)):
        points = []
        for place, (name, runs) in enumerate(everywhere.items()):
            score = mean_number([measures.mean_score(run, "f1") for run in runs])
            spent = mean_number([measures.mean_cost(run, measures.COSTS[cost]) for run in runs])
            if score is not None and spent is not None:
                points.append(Dot(place, name, spent.value, score.value, None, None))
        if points:
            title = f"All {len(groups)} data sets: F1 against {label.split(',')[0]}"
            svg = dots(f"all-{cost}", title, label, "F1", points)
            figures.append(Figure(title, caption, svg, legend, drawn, shaped=True))
    return figures


def table_bars(table: Table, label: str) -> Figure:
    """Draw a table of percentages as bars, a group for each row."""
    rows = [
        (
            f"{row.name} ({row.run})",
            [(cell.value, cell.low, cell.high) if isinstance(cell, Number) else None for cell in row.cells],
        )
        for row in table.rows
    ]
    caption = "Thin lines are 95 % intervals; the paper gives none, and n/a is what it does not print."
    svg = bars("bars", table.title, label, table.columns, rows)
    return Figure(table.title, caption, svg, dict(enumerate(table.columns)), ())


def _legend_of(runs: Sequence[Run], first: int = 0) -> dict[int, str]:
    names = (f"{run.label} [{run.id}]{f' ({run.progress})' if run.progress else ''}" for run in runs)
    return dict(enumerate(names, first))


def _score_against(group: DataGroup, cost: str, label: str, name: str, about: str) -> Figure | None:
    points = []
    for place, run in enumerate(group.runs):
        score, spent = measures.mean_score(run, "f1"), measures.mean_cost(run, measures.COSTS[cost])
        if score is not None and spent is not None:
            points.append(Dot(place, run.label, spent.value, score.value, score.low, score.high))
    if not points:
        return None
    title = f"{group.name}: F1 against {label.split(',')[0]}"
    caption = f"{_PARETO} Means of all questions ({about}); upright lines are 95 % intervals of F1."
    svg = dots(name, title, label, "F1", points)
    return Figure(title, caption, svg, _legend_of(group.runs), group.runs, shaped=True)


def _score_by(group: DataGroup, part: str, name: str) -> Figure | None:
    members = groups_by(group, part)
    if len(members) < 2:
        return None
    rows: list[tuple[str, list[BarValue]]] = []
    for member, ids in members.items():
        label = member if part == "type" else f"{member} hops"
        means = [measures.mean_score(run, "f1", ids) for run in group.runs]
        values: list[BarValue] = [None if mean is None else (mean.value, mean.low, mean.high) for mean in means]
        rows.append((f"{label} (n={len(ids):,})", values))
    title = f"{group.name}: F1 by {part}"
    svg = bars(name, title, "F1", [run.label for run in group.runs], rows)
    return Figure(title, "Lines are 95 % intervals.", svg, _legend_of(group.runs), group.runs)


def _sources(run: Run, place: int, name: str) -> Figure | None:
    """Draw TAIKC's Figure 4: the share of sub-questions answered from documents.

    Guesses count with memory and are mentioned in the caption: no document supports them.
    """
    external = []
    for row in run.rows:
        answered = sum(row.sources.get(source, 0) for source in ("external", "internal", "fallback"))
        if answered:
            external.append(row.sources.get("external", 0) / answered)
    if not external:
        return None
    guesses = sum(row.sources.get("fallback", 0) for row in run.rows)
    ends = (f"from memory or a {GUESS}" if guesses else "from memory alone", "from documents alone")
    left_out = len(run.rows) - len(external)
    title = f"Where answers come from: {run.label}"
    caption = (
        f"Share of a question's answered sub-questions that were answered from documents, over {len(external):,} "
        f"questions{f' ({left_out:,} without an answered sub-question left out)' if left_out else ''}. Bars: as "
        "counted; curve: smoothed by a kernel."
        f"{f' {guesses:,} of the answers are guesses, which no document says.' if guesses else ''}"
    )
    svg = distribution(name, title, ends, "share of questions, %", external, place)
    return Figure(title, caption, svg, _legend_of([run], place), [run])


def _attempts(group: DataGroup, attempts: Mapping[int, Mapping[int, int]], name: str) -> Figure | None:
    """Draw TAIKC's Figure 13: the attempts that a sub-question took."""
    known = [(run, attempts[place]) for place, run in enumerate(group.runs) if attempts.get(place)]
    rows = [(run, [times.get(number, 0) / sum(times.values()) for number in _ATTEMPTS]) for run, times in known]
    caption = "As TAIKC counts them: the model's own confident knowledge, then documents, then a guess without them."
    title = f"{group.name}: attempts a sub-question took"
    return _shares(name, title, caption, list(_ATTEMPTS.values()), rows, "share of sub-questions, %")


def _modules(group: DataGroup, name: str) -> Figure | None:
    known = [(run, modules) for run in group.runs if (modules := modules_of(run))]
    series = list(dict.fromkeys(module for _, modules in known for module in modules))
    rows = [(run, [len(modules.get(module, ())) / len(run.rows) for module in series]) for run, modules in known]
    title = f"{group.name}: the module that answered"
    caption = "Of the question itself, not of its sub-questions."
    return _shares(name, title, caption, series, rows, "share of questions, %")


def _errors(group: DataGroup, name: str) -> Figure | None:
    known = [(run, errors) for run in group.runs if any((errors := errors_of(run)).values())]
    series = [kind for kind in CLASSES if any(errors[kind] for _, errors in known)]
    rows = [(run, [len(errors[kind]) / sum(map(len, errors.values())) for kind in series]) for run, errors in known]
    title = f"{group.name}: what went wrong, guessed"
    caption = "Guessed by the rules below the table of the same name."
    return _shares(name, title, caption, series, rows, "share of answers without an exact match, %")


def _shares(
    name: str, title: str, caption: str, series: Sequence[str], rows: Sequence[tuple[Run, list[float]]], label: str
) -> Figure | None:
    if not rows:
        return None
    svg = shares(name, title, series, [(run.label, values) for run, values in rows], label)
    return Figure(title, caption, svg, dict(enumerate(series)), [run for run, _ in rows])


def boundary_figures(groups: Iterable[DataGroup]) -> list[Figure]:
    """Draw TAIKC's figures of boundary awareness.

    Figures 5 and 9 (accuracy of sure answers and of refused questions), 8 and 11 (consistency), 10 (means of models).
    """
    known = read_boundary(groups)
    if not known:
        return []
    runs = [awareness.run for awareness in known]

    def bar_figure(
        name: str, title: str, caption: str, series: Sequence[str], rows: list[tuple[str, list[BarValue]]]
    ) -> Figure:
        svg = bars(f"boundary-{name}", title, "points of 100", series, rows)
        return Figure(title, caption, svg, dict(enumerate(series)), runs)

    figures = []
    accuracy = f"{_SETTINGS} Accuracy is F1."
    for name, title, measured, caption in (
        ("sure", "Accuracy by the model's own word", DOMAINS, accuracy),
        ("same", "Consistency", _CONSISTENCY, _AGREEMENT),
    ):
        rows = [(awareness.label, [_bar(awareness.measures[measure]) for measure in measured]) for awareness in known]
        figures.append(bar_figure(name, title, caption, list(measured.values()), rows))
    if models := measured_on_all(known):
        sets = len(next(iter(models.values())))
        title = f"Accuracy by the model's own word, mean of {sets} data sets"
        rows = [
            (label, [_bar(mean_of([part.measures[name] for part in parts])) for name in DOMAINS])
            for label, parts in models.items()
        ]
        caption = f"{_SETTINGS} Accuracy is F1; each data set counts the same."
        figures.append(bar_figure("mean", title, caption, list(DOMAINS.values()), rows))
    labels = list(dict.fromkeys(run.label for run in runs))
    if len(labels) > 1:
        judged = all(awareness.measures["consistency_judged"] is not None for awareness in known)
        measure = "consistency_judged" if judged else "consistency_f1"
        values = {(awareness.data, awareness.run.label): awareness.measures[measure] for awareness in known}
        sets_named = dict.fromkeys(awareness.data for awareness in known)
        rows = [(data, [_bar(values.get((data, label))) for label in labels]) for data in sets_named]
        title = f"Consistency of models, {'judged' if judged else 'F1'}"
        figures.append(bar_figure("models", title, _AGREEMENT, labels, rows))
    return [*figures, *_threshold_curves(known)]


def _threshold_curves(known: Sequence[Awareness]) -> list[Figure]:
    """Draw precision by a threshold on token probability, beside Confident QA."""
    models = list(dict.fromkeys(awareness.run.label for awareness in known))
    caption = (
        "Lines: direct answers kept where the probability of their least likely token is high, from the surest on. "
        "Marks: what the model itself was sure of."
    )
    figures = []
    for number, data in enumerate(dict.fromkeys(awareness.data for awareness in known)):
        drawn = []
        runs = []
        for awareness in known:
            if awareness.data == data and awareness.curve:
                label = awareness.run.label
                curve = [(100 * x, 100 * y) for x, y in awareness.curve]
                known_of = (awareness.measures[name] or 0.0 for name in ("answered", "refused", "precision"))
                answered, refused, right = known_of
                own_word = (100 * answered / (answered + refused), 100 * right) if answered else None
                drawn.append(Line(models.index(label), label, curve, own_word))
                runs.append(awareness.run)
        if drawn:
            title = f"{data}: right answers against answers kept"
            svg = lines(f"boundary-curve{number}", title, "kept of all questions, %", "right of those, %", drawn)
            legend = {curve.series: curve.name for curve in drawn}
            figures.append(Figure(title, caption, svg, legend, runs, shaped=True))
    return figures


def _bar(value: float | None) -> BarValue:
    return None if value is None else (100 * value, None, None)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs that differ only in the value of one option, in its order."""

    name: str
    runs: tuple[tuple[float, Run], ...]


def sweeps_of(group: DataGroup) -> dict[str, list[Sweep]]:
    """Return the sweeps by numeric option; a draw's number is not one."""
    options = dict.fromkeys(name for run in group.runs for name in _numbers(run) if name != DRAW)
    sweeps: dict[str, list[Sweep]] = {}
    for option in options:
        alike: dict[str, dict[float, Run]] = {}
        for run in group.runs:
            if (value := _numbers(run).get(option)) is not None:
                alike.setdefault(measures.settings_without(run, option), {}).setdefault(value, run)
        varied = [tuple(sorted(by_value.items(), key=lambda item: item[0])) for by_value in alike.values()]
        varied = [runs for runs in varied if len(runs) > 1]
        if varied:
            sweeps[option] = [Sweep(name, runs) for name, runs in zip(_sweep_names(varied), varied, strict=True)]
    return sweeps


def _numbers(run: Run) -> dict[str, float]:
    return {
        str(name): value for name, value in run.options.items() if type(value) in (int, float) and math.isfinite(value)
    }


def _sweep_names(sweeps: Sequence[Sequence[tuple[float, Run]]]) -> list[str]:
    """Return distinct names of sweeps: the method, and more if methods repeat."""
    firsts = [sweep[0][1] for sweep in sweeps]
    if len(sweeps) == 1:
        return [firsts[0].method]
    shared = [measures.shared_name([run for _, run in sweep]) for sweep in sweeps]
    for additions in (shared, [str(run.about["experiment"].get("model", "")) for run in firsts]):
        names = [f"{run.method}, {more}" if more else run.method for run, more in zip(firsts, additions, strict=True)]
        if len(set(names)) == len(names):
            return names
    return [f"{run.method}, as {run.label}" for run in firsts]


def _sweep_figure(group: DataGroup, option: str, sweeps: Sequence[Sweep], metric: str, name: str) -> Figure | None:
    score = measures.TITLES[metric]
    series = [
        [dot for value, run in sweep.runs if (dot := _dot(run, metric, number, sweep.name, value))]
        for number, sweep in enumerate(sweeps)
    ]
    if not any(series):
        return None
    swept_runs = [run for sweep in sweeps for _, run in sweep.runs]
    methods = {run.method for run in swept_runs}
    others = [run for run in group.runs if run.method not in methods]
    others = others if len(others) <= _MAX_LEVELS else []
    levels = [_dot(run, metric, place, run.label, 0) for place, run in enumerate(others, len(sweeps))]
    title = f"{group.name}: {score} by {option}"
    svg = swept(name, title, option, score, [dots for dots in series if dots], [dot for dot in levels if dot])
    caption = "Runs that differ in this option alone; lines up and down are 95 % intervals."
    runs = [*swept_runs, *others]
    if any(not run.finished for run in runs):
        caption += " Some are not finished."
    legend = [sweep.name for sweep in sweeps] + [run.named for run in others]
    return Figure(title, caption, svg, dict(enumerate(legend)), runs, shaped=True)


def _dot(run: Run, metric: str, series: int, name: str, value: float) -> Dot | None:
    mean = measures.mean_score(run, metric)
    return None if mean is None else Dot(series, name, value, mean.value, mean.low, mean.high)
