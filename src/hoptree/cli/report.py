"""`hoptree eval report`, `compare` and `reproduce`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from hoptree.cli.console import chance, clean, echo, interval, print_json, run_to_end
from hoptree.cli.options import AsJson, RunFolders, given
from hoptree.cli.progress import describe_run, progress_bar
from hoptree.core.errors import InputError
from hoptree.evaluation.calibration import measure_support
from hoptree.evaluation.judge import read_judgements
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import DataGroup, find_runs, read_groups
from hoptree.evaluation.report.page import make_page, write_text
from hoptree.evaluation.report.tables import Table, as_csv, as_latex, as_markdown
from hoptree.evaluation.reproduce import Reproduction
from hoptree.evaluation.reproduce import reproduce as repeat
from hoptree.evaluation.run_folder import Row, read_rows, read_run
from hoptree.evaluation.statistics import PairedComparison, compare_groups, compare_runs


def report(
    runs: RunFolders,
    html: Annotated[Path | None, Option(help="Write one self-contained page.")] = None,
    markdown: Annotated[Path | None, Option(help="Write the tables as Markdown.")] = None,
    latex: Annotated[Path | None, Option(help="Write the tables as LaTeX.")] = None,
    csv: Annotated[Path | None, Option(help="Write every figure, one a line.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report on runs with tables, plots, and a browser for questions and their trees.

    Runs over the same questions share a table. The best figure is bold only if it is significantly better than every
    other. A failed question counts as wrong; an unfinished run is marked. Without a file, the tables are printed as
    Markdown.

    \b
    hoptree eval report runs/oner runs/taikc --html report.html
    hoptree eval report runs/table2 --latex table2.tex --csv table2.csv
    """
    groups = read_groups(runs)
    tables = tables_of(groups)
    for path, write in ((markdown, as_markdown), (latex, as_latex), (csv, as_csv)):
        if path is not None:
            write_text(path, write(tables))
    if html is not None:
        write_text(html, make_page(groups))
    written = [path for path in (html, markdown, latex, csv) if path is not None]
    if as_json:
        print_json(_as_dict(groups, tables) | {"files": [str(path) for path in written]})
    elif written:
        for path in written:
            echo(f"{path}: {path.stat().st_size / 1e6:,.2f} MB")
    else:
        typer.echo(clean(as_markdown(tables)), nl=False)


def _as_dict(groups: list[DataGroup], tables: list[Table]) -> dict[str, Any]:
    runs = [
        {
            "id": run.id,
            "name": run.label,
            "data": group.name,
            "folder": str(run.folder),
            "questions": run.total,
            "finished": len(run.rows),
        }
        for group in groups
        for run in group.runs
    ]
    return {"runs": runs, "tables": [table.as_dict() for table in tables]}


def compare(
    runs: Annotated[list[Path], Argument(help="Folders of two or more runs over the same questions.")],
    metric: Annotated[list[str], Option(help="Scores to compare.")] = ["em", "f1"],
    common_only: Annotated[
        bool, Option(help="Compare over the questions all runs have finished, though some lack others.")
    ] = False,
    by: Annotated[
        str, Option(metavar="type|hops", help="Also compare question by question type, or number of hops.")
    ] = "",
    flipped: Annotated[int, Option(min=0, help="List so many questions whose score changed most.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare runs question by question, with intervals and a paired test.

    Each run is compared with each one named before it: the difference is its score minus the earlier one's, so that a
    positive one is a gain. The interval is that of the difference (paired bootstrap, 95 %); p, of a permutation test,
    is corrected for the number of comparisons (Holm). A failed question counts as wrong.

    \b
    hoptree eval compare runs/oner runs/taikc --by type
    """
    if len(runs) < 2:
        raise InputError("One run has nothing to be compared with.", "Give two or more folders.")
    if by not in ("", "type", "hops"):
        raise InputError(f"Questions have no '{by}' to tell them apart by.", "Choose --by type or --by hops.")
    headers = [read_run(path) for path in runs]
    digests = [header["rests_on"]["data"] for header in headers]
    if len(set(digests)) > 1:  # equal ids prove nothing: many sets count their questions from 0
        listed = "; ".join(f"{path}: {digest}" for path, digest in zip(runs, digests, strict=True))
        cause = f"The runs are over different data ({listed})."
        raise InputError(cause, "Compare runs over the same file of questions, with the same accepted answers.")
    names = _names(runs, [header["name"] for header in headers])
    rows = {name: read_rows(path) for name, path in zip(names, runs, strict=True)}
    groups = {row.id: str(getattr(row, by) or "none") for of_run in rows.values() for row in of_run} if by else {}
    for name in metric:
        if name.partition(":")[0] == "judge":
            _check_same_judge(runs, name.partition(":")[2])
    scores = {name: {run: _scores(of_run, name) for run, of_run in rows.items()} for name in metric}
    comparisons: dict[str, Any] = {}
    for name, by_run in scores.items():
        pairs = compare_runs(by_run, common_only=common_only)
        comparisons[name] = []
        for (a, b), pair in pairs.items():
            parts = compare_groups(by_run[a], by_run[b], groups, common_only=common_only) if by else {}
            in_groups = {group: part.as_dict() for group, part in parts.items()}
            comparisons[name].append(
                {"a": a, "b": b, **pair.as_dict(), "groups": in_groups, "power_note": pair.power_note()}
            )
            if not as_json:
                _show(name, (a, b), pair, in_groups, {row.id: row.question for row in rows[a]}, flipped)
    if as_json:
        print_json({"runs": {name: str(path) for name, path in zip(names, runs, strict=True)}, "metrics": comparisons})


def _names(paths: list[Path], names: list[str]) -> list[str]:
    """Return the names of the runs, or their folders if names repeat."""
    if len(set(names)) == len(names):
        return names
    folders = [str(path) for path in paths]
    if len(set(folders)) < len(folders):
        raise InputError("A run cannot be compared with itself.", "Give each folder once.")
    return folders


def _check_same_judge(runs: list[Path], name: str) -> None:
    """Refuse runs that were not judged by the same model and prompt."""
    judges = {}
    for path in runs:
        for judged in read_judgements(path):
            if name in ("", judged.judge.name):
                judges[path] = judged.judge
    if len({judge.digest for judge in judges.values()}) > 1:
        listed = "; ".join(f"{path}: {judge.name} ({judge.digest})" for path, judge in judges.items())
        remedy = "Have one judge them all: hoptree eval judge RUN… --model SPEC, or compare --metric judge:NAME."
        raise InputError(f"The runs were judged by different models ({listed}).", remedy)


def _scores(rows: list[Row], metric: str) -> dict[str, float | None]:
    known = sorted({name for row in rows for name in row.scores})
    if metric not in known:
        raise InputError(f"The runs have no score '{metric}'.", f"They have {', '.join(known) or 'none'}.")
    return {row.id: row.scores.get(metric) for row in rows}


def _show(
    metric: str,
    names: tuple[str, str],
    pair: PairedComparison,
    groups: Mapping[str, Mapping[str, Any]],
    questions: Mapping[str, str],
    flipped: int,
) -> None:
    a, b = names
    difference = interval(pair.difference, pair.interval.low, pair.interval.high)
    echo(f"{metric}: {a} -> {b}")
    echo(
        f"  {100 * pair.mean_a:.1f} -> {100 * pair.mean_b:.1f}: {difference}, {chance(pair.p_value)} "
        f"(Holm: {chance(pair.adjusted_p)}); {b} wins {pair.wins:,}, {a} wins {pair.losses:,}, {pair.ties:,} ties"
    )
    for group, part in groups.items():
        change, p = 100 * part["difference"], chance(part["adjusted_p"])
        echo(f"  {group:22} {part['questions']:5,} questions  {change:+6.1f}  {p}")
    echo(f"  {pair.power_note(scale=100, unit=' points')}")
    for change in pair.changes[:flipped]:
        echo(f"  {change.a:.2f} -> {change.b:.2f}  {change.id}: {questions.get(change.id, '')}")


_MAX_LISTED = 5


def reproduce(
    run: Annotated[Path, Argument(help="The folder of a run.")],
    out: Annotated[Path | None, Option(help="The folder of the new run.  [default: RUN-again]")] = None,
    model: Annotated[str, Option("--model", "-m", help="If the model has another name now.")] = "",
    base_url: Annotated[str, Option(help="If the endpoint moved.")] = "",
    data: Annotated[Path | None, Option(help="If the file of questions is somewhere else now.")] = None,
    corpus: Annotated[str, Option(help="If the index is somewhere else now.")] = "",
    tolerance: Annotated[
        float | None,
        Option(
            min=0, max=1, metavar="SHARE", help="Share of answers that may differ.  [default: 0.05; 1 at an endpoint]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat a run without cached replies, and compare answers and scores.

    It first lists what has changed: data, index, prompts, model, versions. It exits with 1 if a score differs
    significantly, or too many answers differ, or too few questions were asked to tell, and with 2 if the run cannot be
    repeated. An interrupted command resumes.

    \b
    hoptree eval reproduce runs/taikc
    hoptree eval reproduce runs/taikc --base-url http://localhost:9000/v1 --json
    """

    def report_changes(changed: Mapping[str, tuple[Any, Any]], out: Path) -> None:
        if as_json:
            return
        echo(f"asked again in {out}")
        for name, (was, now) in changed.items():
            echo(f"  changed: {name} was {was}, is {now}")
        if not changed:
            echo("  everything that it depends on is the same")

    with progress_bar(as_json) as update_bar:
        work = repeat(
            run,
            out,
            moved=given(data=data, corpus=corpus, model=model, base_url=base_url),
            tolerance=tolerance,
            on_begin=report_changes,
            on_progress=lambda now: update_bar(len(now.rows), now.total, lambda: describe_run(now)),
        )
        outcome = run_to_end(work, "questions", cached=False)
    if as_json:
        print_json(outcome.as_dict())
    else:
        _reproduce_report(outcome)
    if not outcome.reproduced:
        raise typer.Exit(1)


def support(runs: RunFolders, as_json: AsJson = False) -> None:
    """Measure how often answers are right, by support: well, partly, or a guess.

    \b
    hoptree run --data dev.jsonl --corpus docs.idx --method hop --out runs/hop
    hoptree eval support runs/hop
    """
    measured = measure_support(find_runs(runs))
    if as_json:
        print_json([each.as_dict() for each in measured])
        return
    echo(f"{'called':20s}{'answers':>8s}  {'right':>22s}  {'F1':>22s}")
    for each in measured:
        cells = (
            f"{100 * value.mean:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]" if value else ""
            for value in (each.right, each.f1)
        )
        echo((f"{each.word:20s}{each.answers:8,d}" + "".join(f"  {cell:>22s}" for cell in cells)).rstrip())


def _reproduce_report(outcome: Reproduction) -> None:
    for name, pair in outcome.compared.items():
        difference = interval(pair.difference, pair.interval.low, pair.interval.high)
        echo(
            f"  {name.upper():3} {100 * pair.mean_b:5.1f} against {100 * pair.mean_a:.1f}: {difference}, "
            f"{chance(pair.adjusted_p)} (Holm)"
        )
    if any(outcome.failed):
        echo(
            f"  {outcome.failed[1]:,} questions failed, {outcome.failed[0]:,} the first time, "
            f"{outcome.failed_twice:,} both times; they count as wrong"
        )
    for name in outcome.unlike[:_MAX_LISTED]:
        echo(f"  another answer: {name}")
    if (left := len(outcome.unlike) - _MAX_LISTED) > 0:
        echo(f"  … and {left:,} more (--json lists them)")
    echo(outcome.verdict)
