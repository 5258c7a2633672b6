"""`hoptree align eval`: what adapters are worth, beside the model they were trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import chance, clean, print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import AsJson, NoCache
from hoptree.cli.progress import bars, describe
from hoptree.core.errors import InputError

if TYPE_CHECKING:
    from hoptree.cli.progress import Show
    from hoptree.evaluation.running import Progress
    from hoptree.training.adapter_eval import Trial


_AGAINST = "against"
_SCORES = {"em": "EM", "f1": "F1", "judge": "Judged"}
_BOUNDARY = {
    "questions": "Asked",
    "refused_share": "Refused",
    "direct_f1": "Direct F1",
    "confident_f1": "Confident F1",
    "knowledge_gap_f1": "Refused F1",
    "gap_f1": "Gap",
    "precision": "Right if sure",
    "sure_and_right": "Sure and right",
    "right_decisions": "Right decisions",
    "consistency_f1": "Consistency",
    "consistency_judged": "Same, judged",
}
_CHANGES = {
    "right_decisions": "Right decisions",
    "sure_and_right": "Sure and right",
    "gap_f1": "Gap",
    "refused_share": "Refused",
    "direct_f1": "Direct F1",
}


def report(told: Mapping[str, Any]) -> None:
    """Tables of all runs, and where they lie."""
    for version in told["versions"]:
        _version(version)
    for data in dict.fromkeys(one["data"] for one in told["runs"]):
        some = _side_by_side([one for one in told["runs"] if one["data"] == data])
        typer.echo(clean(f"{data}: {some[0]['questions']:,} questions"))
        columns = {name: title for name, title in _SCORES.items() if any(name in one for one in some)}
        _table(
            ["Run", "Model", *columns.values(), *(f"{title} {_AGAINST} base" for title in columns.values())],
            [
                [one["run"], one["version"], *(_points(one.get(name)) for name in columns)]
                + [_change(one["against_base"].get(name)) for name in columns]
                for one in some
            ],
        )
        _beyond_plain(some)
        for one in some:
            _trouble(one)
    if bounds := _side_by_side(told["boundaries"]):
        _boundaries(bounds)
    if told["runs"] or bounds:
        typer.echo(
            "p: paired, after Holm's correction over all comparisons of a score with the base, or with plain runs"
        )
    folder = told["folder"]
    typer.echo(clean(f"everything is in {folder}; all of it on a page: hoptree eval report {folder} --html FILE"))


def _version(version: Mapping[str, Any]) -> None:
    said = f"{version['name']}: {version['model']}"
    if version["examples"] is not None:
        sets = ", ".join(str(one.get("file")) for one in version["sets"] or () if isinstance(one, Mapping))
        said += f", trained on {version['examples']:,} examples{f' of {sets}' if sets else ''}"
    typer.echo(clean(said))
    if version["evaluation_questions"]:
        typer.echo(f"  {version['evaluation_questions']:,} OF THEM ARE EVALUATION QUESTIONS")


def _side_by_side(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The versions of each run one below the other."""
    order = dict.fromkeys((one["data"], one["run"]) for one in rows)
    return [one for key in order for one in rows if (one["data"], one["run"]) == key]


def _beyond_plain(some: Sequence[Mapping[str, Any]]) -> None:
    """What a method has over plain ones by the same model."""
    rows = [one for one in some if one["against_plain"]]
    if not rows:
        return
    names = dict.fromkeys(name for one in rows for name in one["against_plain"])
    _table(
        ["Run", "Model", *(f"F1 {_AGAINST} {name}" for name in names)],
        [[one["run"], one["version"], *(_change(one["against_plain"].get(name)) for name in names)] for one in rows],
    )


def _trouble(one: Mapping[str, Any]) -> None:
    """What whoever reads the scores of a run should know."""
    name = f"{one['run']}, {one['version']}"
    if one["failed"]:
        typer.echo(clean(f"  {name}: {one['failed']:,} failed and count as wrong; --retry-failed asks them again"))
    if len(one["rests_on"]) > 1:
        typer.echo(clean(f"  {name}: a mixture of {len(one['rests_on'])} runs (--anyway)"))
    for warning in one["warnings"]:
        typer.echo(clean(f"  {name}: {warning}"))


def _boundaries(some: Sequence[Mapping[str, Any]]) -> None:
    typer.echo("boundary: does the model know what it knows?")
    columns = {name: title for name, title in _BOUNDARY.items() if any(one.get(name) is not None for one in some)}
    named = len({one["run"] for one in some}) > 1
    head = ["Data", *(["Run"] if named else []), "Model"]
    rows = [([one["data"], *([one["run"]] if named else []), one["version"]], one) for one in some]
    _table([*head, *columns.values()], [[*name, *(_figure(one, column) for column in columns)] for name, one in rows])
    changed = [(name, one["against_base"]) for name, one in rows if one["against_base"]]
    _table(
        [*head, *(f"{title} {_AGAINST} base" for title in _CHANGES.values())],
        [[*name, *(_change(against.get(column)) for column in _CHANGES)] for name, against in changed],
    )
    for warning in dict.fromkeys(warning for one in some for warning in one.get("warnings", ())):
        typer.echo(clean(f"  {warning}"))
    several = {one["run"] for one in some if one["folder"] is None}  # what is of several data sets lies in no folder
    for name, one in rows:
        if "verdict" in one and (one["folder"] is None) == (one["run"] in several):
            typer.echo(clean(f"  {', '.join(name)}: {one['verdict']}"))


def _figure(one: Mapping[str, Any], name: str) -> str:
    value = one.get(name)
    if name == "questions":
        return "" if value is None else f"{value:,}"
    around = one.get("gap_f1_plus_minus") if name == "gap_f1" else None
    return _points(value) + (f" ± {100 * around:.1f}" if around is not None else "")


def _points(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"


def _change(pair: Mapping[str, Any] | None) -> str:
    """A paired difference with its interval and p, or one of means that are not paired with what is around it."""
    if pair is None:
        return ""
    said = f"{100 * pair['difference']:+.1f}"
    if "interval" not in pair:
        return said + (f" ± {100 * pair['plus_minus']:.1f}" if pair["plus_minus"] is not None else "")
    low, high = pair["interval"]["low"], pair["interval"]["high"]
    return f"{said} [{100 * low:+.1f}, {100 * high:+.1f}], {chance(pair['adjusted_p'])}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Words to the left, figures to the right."""
    lines = [[clean(cell) for cell in line] for line in (head, *rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    words = [title in ("Data", "Run", "Model") or _AGAINST in title for title in head]
    for line in lines:
        cells = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, words, strict=True)
        ]
        typer.echo(f"  {'  '.join(cells).rstrip()}")


def evaluate(
    experiments: Annotated[list[Path], typer.Argument(help="Files of runs (YAML), of methods or method: boundary.")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="The base: hf/NAME, hf/FOLDER or hf/FILE.gguf.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="The folder of all runs; the same command goes on with it.")],
    adapter: Annotated[
        list[Path],
        typer.Option(
            metavar="FOLDER",
            help="An adapter of hoptree align train; several times for several. Tables name it by its folder.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    data: Annotated[
        Path | None,
        typer.Option(help="The folder that the files' paths are relative to.  [default: theirs]", show_default=False),
    ] = None,
    only: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="Only this data set or this run; several times.", show_default=False),
    ] = [],  # noqa: B006 - typer copies it
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.", show_default=False)] = None,
    judge: Annotated[
        str, typer.Option(metavar="MODEL", help="A model that judges the answers, too.", show_default=False)
    ] = "",
    at_once: Annotated[
        int, typer.Option(metavar="RUNS", min=1, help="Runs of one model that are made at the same time.")
    ] = 1,
    retry_failed: Annotated[bool, typer.Option(help="Ask questions that failed again.")] = False,
    anyway: Annotated[bool, typer.Option(help="Go on although data, index, prompts or model changed.")] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Make every run of the files with the base and with each adapter, and say what the adapters changed.

    These are runs as of hoptree run and hoptree eval boundary, each in its own folder: what is finished costs nothing,
    and hoptree show, eval report and eval compare read them. Scores are held against the base question by question:
    the interval of the difference (paired bootstrap, 95 %), and p by Holm's correction over all comparisons of a score.

    \b
    hoptree align eval experiments/alignment/boundary.yaml experiments/alignment/small-model.yaml --data DATA \\
        -m hf/NAME --adapter adapters/if --adapter adapters/kbae --adapter adapters/both --out runs/aligned
    hoptree eval report runs/aligned --html aligned.html
    """
    from hoptree.evaluation.running import Ways
    from hoptree.training.adapter_eval import boundary_gains, measure, plan_trials, run_gains, versions_of

    if not adapter:
        raise InputError("There is no adapter to hold against the base.", "Give one: --adapter FOLDER.")
    versions = versions_of(model, adapter)
    settings: dict[str, Any] = {
        **({"limit": limit} if limit is not None else {}),
        **({"judge": judge} if judge else {}),
    }
    trials = plan_trials(experiments, data, versions, settings=settings, only=only)
    ways = Ways(anyway=anyway, retry_failed=retry_failed, cache=None if no_cache else "default")
    with _shown(as_json) as show:
        work = measure(trials, out, ways, at_once=at_once, on_progress=show)
        measured = run_to_end(work, stays=what_stays("questions", cached=not no_cache))
    told = {
        "folder": str(out),
        "versions": [version.as_dict() for version in versions],
        "runs": run_gains(measured),
        "boundaries": boundary_gains(measured),
    }
    if as_json:
        print_json(told)
    else:
        report(told)


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[Trial, Progress], None]]:
    """A bar for each run under way, on the terminal only."""
    with bars(quiet) as bar:
        open_bars: dict[Path, tuple[ExitStack, Show]] = {}

        def show(trial: Trial, now: Progress) -> None:
            place = trial.planned.folder
            if place not in open_bars:
                stack = ExitStack()
                open_bars[place] = stack, stack.enter_context(bar(trial.planned.experiment.name))
            stack, tell = open_bars[place]
            tell(len(now.rows), now.total, lambda: describe(now))
            if len(now.rows) == now.total:
                stack.close()

        yield show
