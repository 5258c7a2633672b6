"""Find the runs of a paper's tables, and judge the paper's claims by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.boundary import read_pairs
from hoptree.evaluation.calibration import score_attempt
from hoptree.evaluation.linking import LINKED, read_linked
from hoptree.evaluation.plan import NO_MODEL, Planned, plain_name
from hoptree.evaluation.report.measures import COSTS, TITLES, Run, read_groups, scores_of
from hoptree.evaluation.report.tables import Number, Table, TableRow, count
from hoptree.evaluation.run_folder import RUN, half_width, read_run
from hoptree.evaluation.statistics import SIGNIFICANCE, Interval, PairedComparison, compare_pair, holm, interval

if TYPE_CHECKING:
    from hoptree.evaluation.paper_tables import Paper, PaperPart

HOLDS, FAILS, INCONCLUSIVE = "holds", "does not hold", "cannot be told"
DRAW = ", draw "  # follows the name of a run that is made several times
_BOUNDARY = {
    "sure": "F1 where the model is sure",
    "agreement": "F1 of its sure against its direct answers",
    "gap": "F1 where it is sure less F1 where it refuses",
}
_CLAIM_NOTES = (
    "A claim holds where each of its comparisons is beyond chance in its favour: a paired permutation test over the "
    "questions of its data sets, p < 0.05 after Holm's correction within the claim; or where the 95 % interval is on "
    "its side of a bound. It does not hold where one is beyond chance the other way. Else it cannot be told.",
    "The figure is of the comparison least in favour of the claim, in points where it is a score.",
)


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The folder of a run, with the table's names of its model, run and data set."""

    folder: Path
    spec: str
    model: str
    run: str
    data: str


def planned_locations(part: PaperPart, planned: Sequence[Planned], out: Path) -> list[RunLocation]:
    """Return where the runs of a plan lie below a folder."""
    locations = (_locate(part, out / run.folder, run.experiment.model) for run in planned)
    return [location for location in locations if location]


def stored_locations(part: PaperPart, root: Path) -> list[RunLocation]:
    """Find the runs of a table in PAPER/FILE below `root`; duplicates are an error."""
    assert part.file is not None
    below = f"{part.paper}/{part.file.stem}/**/"
    locations: dict[tuple[str, str, str], RunLocation] = {}
    for file in sorted(file for name in (RUN, LINKED) for file in root.rglob(below + name)):
        about = read_run(file.parent)["experiment"] if file.name == RUN else read_linked(file.parent)["rests_on"]
        if location := _locate(part, file.parent, str(about["model"] or NO_MODEL)):
            other = locations.setdefault((location.model, location.run, location.data), location)
            if other is not location:
                raise InputError(
                    f"{other.folder} and {location.folder} hold the same run.",
                    "Give --runs a folder with only one of them.",
                )
    return list(locations.values())


def _locate(part: PaperPart, folder: Path, spec: str) -> RunLocation | None:
    """Name a run by its folder, DATA/RUN; None if the file has no such run."""
    plan = part.plan()
    runs, models = list(plan.get("runs", {})), plan.get("models", {})
    names = {str(each.get("model") if isinstance(each, dict) else each): name for name, each in models.items()}
    model = "no model" if spec == NO_MODEL else names.get(spec, spec)
    by_folder = {plain_name(name): run for run in runs for name in (run, f"{run}, {model}")}
    run = by_folder.get(folder.name, runs[0] if len(runs) == 1 else "")
    data = next((name for name in plan.get("data", {}) if plain_name(name) == folder.parent.name), "")
    return RunLocation(folder, spec, model, run, data) if run and data else None


Runs = Mapping[tuple[str, str, str], Sequence[Run]]  # by model, run and data set, with all draws of the run


def read_runs_at(locations: Sequence[RunLocation]) -> dict[tuple[str, str, str], list[Run]]:
    """Read the runs whose folders exist, by model, run and data set."""
    folders = {location.folder.resolve(): location for location in locations if (location.folder / RUN).exists()}
    runs: dict[tuple[str, str, str], list[Run]] = {}
    for group in read_groups(list(folders)) if folders else ():
        for run in group.runs:
            location = folders[run.folder.resolve()]
            runs.setdefault((location.model, location.run.partition(DRAW)[0], location.data), []).append(run)
    return runs


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of a paper, and how to test it (form: experiments/taikc/paper.toml)."""

    says: str
    table: str = ""
    above: Sequence[str] = ()
    below: Sequence[str] = ()
    metric: str = "f1"
    data: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    undecided_because: str = ""

    @property
    def scale(self) -> float:
        return 1.0 if self.metric in COSTS else 100.0

    @property
    def title(self) -> str:
        """The metric's name for people."""
        cost = COSTS.get(self.metric)
        return cost.title if cost else _BOUNDARY.get(self.metric) or TITLES.get(self.metric, self.metric.capitalize())

    @property
    def rule(self) -> str:
        """The condition under which it holds."""
        if self.undecided_because:
            return f"no run here: {self.undecided_because}"
        bounds = ((self.least, "at least"), (self.most, "at most"))
        bound = "".join(f", {word} {value:g}" for value, word in bounds if value is not None)
        sides = " above ".join("; ".join(names) for names in (self.above, self.below) if names)
        on = f" on {', '.join(self.data)}" if self.data else ""
        return ": ".join(filter(None, (sides, self.title))) + on + bound


def read_claims(paper: Paper) -> list[Claim]:
    """Return the claims of a paper."""
    if unknown := {key for facts in paper.claims for key in facts} - {part.name for part in fields(Claim)}:
        raise ConfigError(f"A claim of {paper.name} has no '{unknown.pop()}'.", "See taikc/paper.toml.")
    return [Claim(**facts) for facts in paper.claims]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a claim: the deciding comparison, its figure, and p."""

    verdict: str
    decided_by: str = ""
    figure: Interval | None = None
    p_value: float | None = None
    questions: int = 0


def claims_table(paper: Paper, title: str, root: Path) -> Table:
    """Judge every claim of a paper from the runs below a folder, model by model."""
    rows = []
    unfinished: dict[str, None] = {}
    for claim in read_claims(paper):
        runs = {} if claim.undecided_because else read_runs_at(stored_locations(paper.parts[claim.table], root))
        behind = ((key, run) for key, several in runs.items() for run in several if not run.finished)
        unfinished |= {f"{name} on {data} ({run.progress})": None for (_, name, data), run in behind}
        models = list(dict.fromkeys(model for model, _, _ in runs))
        for model in models or [""]:
            rows.append(TableRow(claim.says, model or "–", _cells(claim, judge_claim(claim, runs, model))))
    columns = ("Verdict", "Rests on", "Decided by", "Figure", "p", "Questions")
    left = (f"Compared as far as both have answers: {'; '.join(unfinished)}.",) if unfinished else ()
    return Table(title, columns, tuple(rows), (*_CLAIM_NOTES, *left))


def _cells(claim: Claim, verdict: Verdict) -> tuple[Any, ...]:
    figure, scale = verdict.figure, claim.scale
    number = Number(scale * figure.mean, scale * figure.low, scale * figure.high) if figure else None
    p_value = None if verdict.p_value is None else f"{verdict.p_value:.4f}" if verdict.p_value >= 0.0001 else "< 0.0001"
    questions = count(verdict.questions) if figure else None
    return verdict.verdict, claim.table, verdict.decided_by, number, p_value, questions


def judge_claim(claim: Claim, runs: Runs, model: str) -> Verdict:
    """Judge a claim from the runs of one model."""
    if claim.undecided_because:
        return Verdict(INCONCLUSIVE, claim.undecided_because)
    if claim.metric in _BOUNDARY:
        return _judge_boundary(claim, [run for (of, _, _), several in runs.items() if of == model for run in several])
    name = ", ".join(claim.above)
    if not claim.below and (
        values := [value for of in _scores(claim, runs, model, name).values() for value in of.values()]
    ):
        figure = interval(values)
        return Verdict(_verdict(claim, figure), f"{name}, {claim.title}", figure, None, len(values))
    compared, missing = _compare_all(claim, runs, model) if claim.below else ({}, [name])
    if not compared:
        return Verdict(INCONCLUSIVE, f"not run: {', '.join(missing)}")
    adjusted = dict(zip(compared, holm([pair.p_value for pair in compared.values()]), strict=True))
    worst = min(compared, key=lambda name: compared[name].difference * (1 if claim.most is None else -1))
    verdicts = {name: _verdict(claim, pair.interval, adjusted[name]) for name, pair in compared.items()}
    if FAILS in verdicts.values():
        verdict = FAILS
        worst = min((name for name in compared if verdicts[name] == FAILS), key=lambda name: adjusted[name])
    else:
        verdict = HOLDS if set(verdicts.values()) == {HOLDS} and not missing else INCONCLUSIVE
    pair, unrun = compared[worst], f"; not run: {', '.join(missing)}" if missing else ""
    return Verdict(verdict, worst + unrun, pair.interval, adjusted[worst], pair.questions)


def _compare_all(claim: Claim, runs: Runs, model: str) -> tuple[dict[str, PairedComparison], list[str]]:
    """Return the comparisons of a claim by name, and the names of missing runs."""
    compared: dict[str, PairedComparison] = {}
    missing: dict[str, None] = {}
    for above, below in product(claim.above, claim.below):
        scores = {name: _scores(claim, runs, model, name) for name in (above, below)}
        pooled: list[dict[str, float]] = [{}, {}]
        shared = [data for data in scores[above] if scores[above][data].keys() & scores[below].get(data, {}).keys()]
        for data, (at, name) in product(shared, enumerate((below, above))):
            pooled[at] |= {f"{data}/{key}": value for key, value in scores[name][data].items()}
        if shared:
            title = f"{above} − {below}, {claim.title} ({', '.join(shared)})"
            compared[title] = compare_pair(*pooled, common_only=True)
        else:
            missing |= dict.fromkeys(name for name in (above, below) if not scores[name])
    return compared, list(missing)


def _verdict(claim: Claim, figure: Interval, p_value: float = 0.0) -> str:
    low, high = claim.scale * figure.low, claim.scale * figure.high
    if claim.least is not None:
        return HOLDS if low >= claim.least else FAILS if high < claim.least else INCONCLUSIVE
    if claim.most is not None:
        return HOLDS if high <= claim.most else FAILS if low > claim.most else INCONCLUSIVE
    return INCONCLUSIVE if p_value >= SIGNIFICANCE else HOLDS if figure.mean > 0 else FAILS


def _scores(claim: Claim, runs: Runs, model: str, name: str) -> dict[str, dict[str, float]]:
    """Return the metric by data set and question, as a mean over draws."""
    cost = COSTS.get(claim.metric)
    by_data: dict[str, dict[str, float]] = {}
    for (of, run_name, data), several in runs.items():
        if (of, run_name) == (model, name) and data in (claim.data or (data,)):
            by_draw: list[dict[str, float]] = []
            for run in several:
                costs = {row.id: cost.of(row.usage) for row in run.rows} if cost else {}
                scores = costs or scores_of(run, claim.metric)
                by_draw.append({key: value for key, value in scores.items() if value is not None})
            if shared := set(by_draw[0]).intersection(*by_draw):
                by_data[data] = {key: fmean(values[key] for values in by_draw) for key in sorted(shared)}
    return by_data


def _judge_boundary(claim: Claim, runs: Sequence[Run]) -> Verdict:
    """Judge a claim about sure and refused answers, over all data sets."""
    pairs = [pair for run in runs for pair in read_pairs(run.folder) if not pair.failed]
    sure = [(pair, pair.confident) for pair in pairs if pair.confident is not None]
    refused = [score_attempt(pair.direct, pair.golds).f1 for pair in pairs if pair.confident is None]
    golds = [(pair.direct,) if claim.metric == "agreement" else pair.golds for pair, _ in sure]
    values = [score_attempt(text, gold).f1 for (_, text), gold in zip(sure, golds, strict=True)]
    if len(values) < 2 or (claim.metric == "gap" and len(refused) < 2):
        asked = f"sure of {len(sure)} and refused {len(refused)} of {len(pairs)} questions" if pairs else "not run"
        return Verdict(INCONCLUSIVE, asked)
    figure = interval(values)
    if claim.metric == "gap":
        gap, around = fmean(values) - fmean(refused), hypot(half_width(values), half_width(refused))
        figure = Interval(gap, gap - around, gap + around, figure.level)
    return Verdict(_verdict(claim, figure), claim.title, figure, None, len(pairs))
