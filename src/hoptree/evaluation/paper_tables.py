"""The papers' tables and figures, with our figures beside them.

Each folder of experiment files of a paper has a `paper.toml`, which lists its tables and figures with their numbers.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from string import digits
from typing import Any

from hoptree.core.errors import ConfigError, InputError, did_you_mean
from hoptree.evaluation.datasets.releases import command_for
from hoptree.evaluation.judge import agreement, read_judgements
from hoptree.evaluation.linking import coverage, read_linked, recall_number
from hoptree.evaluation.paper_runs import DRAW, RunLocation, read_runs_at
from hoptree.evaluation.plan import NO_MODEL, Planned, experiments_folder
from hoptree.evaluation.report.contents import mean_number, modules_of, workload
from hoptree.evaluation.report.hypothesis_trees import gold_found, trees_of
from hoptree.evaluation.report.measures import (
    COSTS,
    DataGroup,
    Run,
    exact_ids,
    mean_cost,
    mean_figure,
    mean_score,
)
from hoptree.evaluation.report.run_tables import read_boundary
from hoptree.evaluation.report.tables import Number, Table, TableRow, count, percent, points

PAPERS = {"taikc": "TAIKC", "ra-isf": "RA-ISF", "treeqa": "TreeQA", "mind": "MIND"}  # by folder of experiments
_AXES = ("run", "part", "data", "measure", "model")
_DIFFERS = "What differs from the paper"
_BOUNDARY_COUNTS = {"direct": "questions", "confident": "answered", "knowledge_gap": "refused"}
_COUNT_MEASURES = ("boundary:number",)  # measures that an average leaves out
_HERE, _PAPER = "here", "paper"  # the ids of rows: ours, and the paper's own

Key = tuple[str, ...]  # a value for each of `_AXES`; "" if the table lacks the axis


@dataclass(frozen=True, slots=True)
class PaperPart:
    """A table or figure of a paper; see `experiments/taikc/paper.toml`."""

    paper: str
    name: str
    about: str
    file: Path | None = None
    counts: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    differs: str = ""
    absent: str = ""
    says: str = ""
    then: Sequence[str] = ()
    corpus: str = ""
    judge: str = ""
    questions: Mapping[str, int] | int = field(default_factory=dict)
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    data: Sequence[str] = ()
    models: Sequence[str] = ()
    runs: Sequence[str] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    average: str = ""
    left_out: Sequence[str] = ()
    report: Sequence[str] = ()
    not_run: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        kind = self.name.rstrip(digits)
        return f"{PAPERS[self.paper]}, {kind.capitalize()} {self.name.removeprefix(kind)}"

    @property
    def judges(self) -> int:
        """The number of judges it needs at least."""
        measures = self.measures.values()
        return 2 if "agreement" in measures else int(any(name.endswith(("judge", "judged")) for name in measures))

    @property
    def state(self) -> str:
        return "here" if self.file or self.counts else "another command" if self.command else "not here"

    def plan(self) -> Mapping[str, Any]:
        """Return the content of the experiment file."""
        return _read_experiment(self.file) if self.file else {}


@cache
def _read_experiment(file: Path) -> Mapping[str, Any]:
    """Read an experiment file of the package once, as YAML takes long."""
    import yaml

    plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    return plan if isinstance(plan, dict) else {}


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: its method, tables, figures and steps, by `paper.toml`."""

    name: str
    method: str
    parts: Mapping[str, PaperPart]
    steps: Sequence[Mapping[str, Any]]
    hyperparameters: Sequence[Mapping[str, Any]]
    ablations: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]


@cache
def read_paper(name: str) -> Paper:
    """Return a paper by its folder's name; the error names the closest one."""
    if name not in PAPERS:
        meant = did_you_mean(name.casefold().replace("_", "-"), PAPERS)
        raise ConfigError(f"There is no paper '{name}'.", meant)
    folder = experiments_folder() / name
    content = tomllib.loads((folder / "paper.toml").read_text(encoding="utf-8"))
    common = {key: content[key] for key in ("corpus", "judge", "questions") if key in content}
    known = {part.name for part in fields(PaperPart)}
    parts = {}
    for key, facts in content.items():
        if key.startswith(("table", "figure")):
            if unknown := facts.keys() - known:
                raise ConfigError(f"{folder / 'paper.toml'}: {key} has no '{unknown.pop()}'.", "See taikc/paper.toml.")
            file = {"file": folder / facts["file"]} if "file" in facts else {}
            parts[key] = PaperPart(name, key, **{**common, **facts, **file})
    listed = (content.get(key, []) for key in ("step", "hyperparameter", "ablation", "claim"))
    return Paper(name, content["method"], parts, *listed)


def find_part(paper: str, name: str) -> PaperPart:
    """Return a table or figure by its name: table2, "Table 2"."""
    parts = read_paper(paper).parts
    key = "".join(name.casefold().split())
    if key not in parts:
        same_kind = [known for known in parts if known.rstrip(digits) == key.rstrip(digits)]
        meant = did_you_mean(key, parts, f"hoptree paper list {paper} names them.")
        raise ConfigError(f"{paper} has no '{name}'.", f"It has {', '.join(same_kind)}." if same_kind else meant)
    return parts[key]


def differences(part: PaperPart) -> list[str]:
    """Return the differences from the paper that the experiment file lists."""
    _, _, text = str(part.plan().get("about", "")).partition(_DIFFERS)
    lines: list[str] = []
    for line in text.lstrip(": \n").splitlines():
        if line.strip().startswith("- ") or not lines:
            lines.append(line.strip().removeprefix("- "))
        elif line.strip():
            lines[-1] += f" {line.strip()}"
    return lines


def gpu_models(part: PaperPart) -> list[str]:
    """Return the models of the file that need a GPU here."""
    plan = part.plan()
    roles = [(settings or {}).get("roles") or {} for settings in (plan.get("runs") or {}).values()]
    named = [spec.get("model") if isinstance(spec, dict) else spec for spec in (plan.get("models") or {}).values()]
    specs = [*named, *(spec for models in roles for spec in models.values())]
    return list(dict.fromkeys(str(spec) for spec in specs if str(spec).startswith("hf/")))


def data_needed(part: PaperPart) -> list[str]:
    """Return the files that the experiment names, relative to the folder of the data."""
    files = list(part.counts.values())
    for places in (part.plan().get("data") or {}).values():
        corpus = places.get("corpus")
        files += [places["questions"], *(corpus if isinstance(corpus, list) else [corpus])]
    return list(dict.fromkeys(file for file in files if file and "/" in file and "://" not in file))


def check_data(part: PaperPart, planned: Sequence[Planned], data: Path) -> None:
    """Raise an error if a file is missing, with the command that fetches it."""
    paths = dict.fromkeys(path for run in planned for path in (run.experiment.data, *run.corpora))
    missing = [
        (path.relative_to(data) if path.is_relative_to(data) else path).as_posix()
        for path in paths
        if not path.exists()
    ]
    if not missing:
        return
    commands = {file: command_for(file, data) for file in missing}
    remedies = list(dict.fromkeys(command for command in commands.values() if command))
    if unknown := [file for file, command in commands.items() if not command]:
        remedies.append(f"no release has {', '.join(unknown)}: search another --corpus, or leave it out with --only")
    raise InputError(f"{part.title} needs {', '.join(missing)} in {data}.", f"Get them: {'; '.join(remedies)}.")


def paper_table(part: PaperPart, locations: Sequence[RunLocation], judges: Sequence[str]) -> Table:
    """Return the paper's table with our figures above its own."""
    ours = _Ours(part, locations)
    theirs, their_means = _paper_figures(part)
    lengths = Counter(key[-1] for key in theirs)
    by_length = sorted(theirs, key=lambda key: -lengths[key[-1]])
    axes = {}  # the values of each axis, our models first
    for place, axis in enumerate(_AXES):
        keys = (*ours.cells, *theirs) if axis == "model" else (*by_length, *ours.cells)
        listed = (*_paper_values(part).get(axis, ()), *(key[place] for key in keys if key[place]))
        axes[axis] = list(dict.fromkeys(listed))
    columns = _columns(part, axes)
    order = [axis for axis in _AXES if axis in part.rows]
    rows: list[TableRow] = []
    for row in _keys(order, axes):
        row_keys = [_merge(row, column) for column in columns]
        label = _label(row, order)
        if any(key in ours.cells for key in row_keys):
            cells = [ours.cells.get(key) for key in row_keys]
            measures = [part.measures.get(key[_AXES.index("measure")]) for key in row_keys]
            averaged = [cell for cell, measure in zip(cells, measures, strict=True) if measure not in _COUNT_MEASURES]
            rows.append(TableRow(label + ours.progress(row_keys), _HERE, _averaged(part, cells, mean_number(averaged))))
        if any(key in theirs for key in row_keys):
            cells = [theirs.get(key) for key in row_keys]
            rows.append(TableRow(label, _PAPER, _averaged(part, cells, their_means.get(row))))
    names = [_label(key, part.columns) for key in columns]
    heads = _averaged(part, names, "Average")
    return Table(f"{part.title}: {part.about}", tuple(map(str, heads)), tuple(rows), (*_notes(part, ours, judges),))


def _averaged(part: PaperPart, cells: Sequence[Any], average: Any) -> tuple[Any, ...]:
    first, last = ([average] if part.average == place else [] for place in ("first", "last"))
    return (*first, *cells, *last)


def _keys(axes: Sequence[str], values: Mapping[str, Sequence[str]]) -> Iterator[Key]:
    """Yield the combinations of some axes."""
    for combination in product(*(values[axis] for axis in axes)):
        chosen = dict(zip(axes, combination, strict=True))
        yield tuple(chosen.get(axis, "") for axis in _AXES)


def _columns(part: PaperPart, values: Mapping[str, Sequence[str]]) -> list[Key]:
    return [key for key in _keys(part.columns, values) if _label(key, part.columns) not in part.left_out]


def _merge(row: Key, column: Key) -> Key:
    return tuple(first or second for first, second in zip(row, column, strict=True))


def _label(key: Key, axes: Sequence[str]) -> str:
    return " ".join(filter(None, (key[_AXES.index(axis)] for axis in axes if axis != "model"))) + (
        f"{', ' if len(axes) > 1 else ''}{key[-1]}" if "model" in axes and key[-1] else ""
    )


def _paper_values(part: PaperPart) -> dict[str, Sequence[str]]:
    return {"data": part.data, "measure": list(part.measures), "part": list(part.parts)}


def _paper_figures(part: PaperPart) -> tuple[dict[Key, Number | None], dict[Key, Number | None]]:
    """Return the paper's figures by their place, and its averages by row."""
    values = _paper_values(part) | {"model": part.models, "run": part.runs}
    columns = _columns(part, values)
    figures: dict[Key, Number | None] = {}
    means: dict[Key, Number | None] = {}
    lines = list(_lines(part.figures, len(part.rows)))
    places = max((len(str(value).partition(".")[2]) for _, numbers in lines for value in numbers), default=0)
    for names, numbers in lines:
        row = tuple(dict(zip(part.rows, names, strict=True)).get(axis, "") for axis in _AXES)
        cells = [
            None if math.isnan(value) else Number(value, digits=0 if isinstance(value, int) else places)
            for value in numbers
        ]
        if part.average:
            means[row] = cells.pop(0 if part.average == "first" else -1)
        figures |= {_merge(row, column): cell for column, cell in zip(columns, cells, strict=True)}
    return figures, means


def _lines(figures: Mapping[str, Any], depth: int) -> Iterator[tuple[Key, Sequence[float]]]:
    for name, value in figures.items():
        if depth == 1:
            yield (name,), value
        else:
            yield from (((name, *names), numbers) for names, numbers in _lines(value, depth - 1))


class _Ours:
    """The figures of existing runs, by their place in the table."""

    def __init__(self, part: PaperPart, locations: Sequence[RunLocation]) -> None:
        self.cells: dict[Key, Number | None] = {}
        self.asked: dict[str, int] = {}
        self.models = dict.fromkeys(location.spec for location in locations if location.spec != NO_MODEL)
        self.notes: list[str] = []
        for location in locations:
            if linked := read_linked(location.folder):
                self.asked[location.data] = linked["questions"]
                self._place(part, (location.model, location.run, location.data), partial(recall_number, linked))
                self.notes = [coverage(linked)]
        self.runs = read_runs_at(locations)
        for of, runs in self.runs.items():
            self.asked[of[-1]] = runs[0].total
            self._place(part, of, partial(_over_draws, runs))

    def _place(self, part: PaperPart, of: tuple[str, str, str], figure: Callable[[str, str], Number | None]) -> None:
        """Enter the figures of one model, run and data set into their cells."""
        for (label, part_id), (title, measure) in product((part.parts or {"": ""}).items(), part.measures.items()):
            place = {**dict(zip(("model", "run", "data"), of, strict=True)), "part": label, "measure": title}
            key = tuple(place[axis] if axis in (*part.rows, *part.columns) else "" for axis in _AXES)
            self.cells[key] = figure(measure, part_id)

    def progress(self, keys: Sequence[Key]) -> str:
        """Return a mark for a row with an unfinished run, or ""."""
        places = [dict(zip(_AXES, key, strict=True)) for key in keys if key in self.cells]
        for (model, name, data), runs in self.runs.items():
            named = {"model": model, "run": name, "data": data}
            behind = any(all(place[axis] in ("", value) for axis, value in named.items()) for place in places)
            if behind and not all(run.finished for run in runs):
                return " (not finished)"
        return ""


def _over_draws(runs: Sequence[Run], measure: str, part: str) -> Number | None:
    """Return a run's figure, or the mean and standard deviation of its draws."""
    figures = [_figure(run, measure, part) for run in runs]
    known = [figure for figure in figures if figure is not None]
    if len(figures) == 1 or len(known) < len(figures):
        return known[0] if len(figures) == 1 and known else None
    values, digits = [figure.value for figure in known], known[0].digits
    return Number(mean(values), digits=digits, after=f"± {stdev(values):.{digits}f} over {len(values)} draws")


def _figure(run: Run, measure: str, part: str) -> Number | None:
    kind, _, detail = measure.partition(":")
    if kind == "boundary":
        if not (known := read_boundary([DataGroup("", run.total, (run,))])):
            return None
        if detail != "number":
            return points(known[0].measures[f"{part}_{detail}"])
        number = known[0].measures[_BOUNDARY_COUNTS[part]]
        return None if number is None else count(number)
    if kind == "module":
        ids = modules_of(run).get(part, [])
        return percent(len(ids), len(run.rows)) if detail == "share" else count(len(exact_ids(run).intersection(ids)))
    if kind == "agreement":
        reports = [known.report(run.rows) for known in read_judgements(run.folder)]
        if len(reports) <= int(part):
            return None
        agreed = agreement(reports[0].clear_verdicts, reports[int(part)].clear_verdicts)
        return points(agreed.rate, questions=agreed.questions)
    if kind == "sub_questions":
        asked = [work.questions for work in workload(run).values()]
        return mean_figure(asked, 1) if asked else None
    if kind == "updates":
        updates = [tree.updates for tree in trees_of(run).values() if tree.planned]
        return mean_figure(updates, 2) if updates else None
    if kind == "gold_recall":
        trees = trees_of(run)
        shares = [100 * gold.share() for row in run.rows if (gold := gold_found(row, trees.get(row.id)))]
        return mean_figure(shares, 1) if shares else None
    return mean_cost(run, COSTS[kind]) if kind in COSTS else mean_score(run, measure)


def _search(settings: Mapping[str, Any]) -> str:
    """Return the retriever and reranker of an experiment."""
    return " + ".join(str(settings[name]) for name in ("retriever", "rerank") if settings.get(name))


def _notes(part: PaperPart, ours: _Ours, judges: Sequence[str]) -> Iterator[str]:
    """Yield the notes of the table: models, data, and differences from the paper."""
    yield "Figures made here have 95 % intervals, and a question that failed counts as wrong."
    runs = [run for several in ours.runs.values() for run in several]
    yield f"Model: {', '.join(ours.models)}; the paper: {', '.join(part.plan()['models'])}."
    yield from ours.notes
    searched = {_search(run.about["experiment"]) for run in runs if run.about["rests_on"].get("corpus")}
    if searched:
        planned = _search(part.plan().get("every") or {})
        instead = f", in the place of {planned}" if searched != {planned} else ""
        by = f"{', '.join(sorted(searched))}{instead}"
        yield f"Documents: of each data set, or --corpus, by {by}; the paper: {part.corpus}."
    if graphs := {str(run.about["experiment"].get("graph") or "") for run in runs} - {""}:
        theirs_too = {str(place.get("graph") or "") for place in part.plan()["data"].values()} - {""}
        if instead := ", ".join(sorted(theirs_too - graphs)):
            yield f"Graph: {', '.join(sorted(graphs))}, in the place of {instead}."
    run_names = {name for _, name, _ in ours.runs}
    if runs and (left := [name for name in part.plan()["runs"] if name.partition(DRAW)[0] not in run_names]):
        yield f"Not run: {'; '.join(left)}."
    theirs = part.questions
    drawn = [
        f"{data} {total:,} ({theirs if isinstance(theirs, int) else theirs.get(data, 'not told')})"
        for data, total in ours.asked.items()
    ]
    yield f"Questions, and the paper's number: {', '.join(drawn)}."
    if judges:
        yield f"Judge: {', '.join(judges)}{f'; the paper: {part.judge}' if part.judge else ''}."
    inexact: dict[str, dict[str, None]] = {}
    for (_, name, _), several in ours.runs.items():
        inexact.setdefault(str(several[0].about.get("fidelity")), {})[name] = None
    for fidelity, names in inexact.items():
        if fidelity != "exact":
            how = "Prompted where its paper trained a model" if fidelity == "prompted" else "Not exactly as published"
            yield f"{how}: {'; '.join(names)}."
    for name, reason in part.not_run.items():
        yield f"{name} is not run: {reason}."
    if part.says:
        yield f"The paper's text: {part.says}."
    for line in differences(part):
        yield f"What differs, by {part.paper}/{part.file.name if part.file else ''}: {line}"
