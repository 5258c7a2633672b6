"""`hoptree run`: put a file of questions to a method, and keep everything that came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.ask import say_without_graph
from hoptree.cli.console import print_json, what_stays
from hoptree.cli.console import run as run_to_end
from hoptree.cli.options import (
    AsJson,
    BaseURL,
    Concurrency,
    Graph,
    Model,
    NoCache,
    PricesText,
    Roles,
    Settings,
    read_prices,
    read_roles,
    read_settings,
)
from hoptree.cli.run_output import estimate, report
from hoptree.cli.search import Rerank, say_without_links
from hoptree.errors import HoptreeError, InputError

if TYPE_CHECKING:
    from hoptree.evaluation.experiment import Experiment
    from hoptree.evaluation.judging import JudgeProgress
    from hoptree.evaluation.plan import Planned
    from hoptree.evaluation.running import Progress, Ways
    from hoptree.models.model import Model as OpenModel

__all__ = ["describe", "describe_judge", "run", "shown"]

_SAMPLE = 5
_EVERY = 0.2


def run(
    experiment: Annotated[
        Path | None, typer.Argument(help="A file of several runs (YAML).", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder of the run; the same command goes on with it. Without one, --dry-run leaves none behind.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Questions with answers: JSON Lines of ours, or a data set's own file. With an experiment file: the "
            "folder its paths are relative to.",
            show_default=False,
        ),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="An index made by hoptree index, 'sample', or an engine's address. With an experiment file: in the "
            "place of all that it names.",
            show_default=False,
        ),
    ] = None,
    graph: Graph = None,
    retriever: Annotated[
        str, typer.Option(help="bm25, linked, dense or hybrid.  [default: bm25]", show_default=False)
    ] = "",
    rerank: Rerank = "",
    model: Model = "",
    roles: Roles = [],  # noqa: B006 - typer copies it
    method: Annotated[str, typer.Option(help="hoptree methods lists them.  [default: taikc]", show_default=False)] = "",
    settings: Settings = [],  # noqa: B006 - typer copies it
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.", show_default=False)] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --limit: N questions drawn by this number.", show_default=False)
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Only the questions whose ids stand in this file.", show_default=False)
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="LIMITS", help="For each question: calls=20,tokens=9000,seconds=60,cost=0.1.")
    ] = "",
    prices: PricesText = "",
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="Begin no question once this much was spent by all runs.", show_default=False),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="Have the answers judged by this model, as hoptree judge does.", show_default=False
        ),
    ] = "",
    judge_base_url: Annotated[
        str, typer.Option(help="Of the judge's endpoint, if it is another than the model's.", show_default=False)
    ] = "",
    filter_answers: Annotated[
        int | None,
        typer.Option(
            metavar="PASSAGES",
            min=1,
            help="Leave out accepted answers that are not in the question's first so many passages (TriviaQA: 1000).",
            show_default=False,
        ),
    ] = None,
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    ray: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Answer on a Ray cluster: HOST:PORT, auto, or local to start one here.",
            show_default=False,
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="What tables call the run.", show_default=False)] = "",
    retry_failed: Annotated[bool, typer.Option(help="Ask questions that failed again.")] = False,
    anyway: Annotated[bool, typer.Option(help="Go on although data, index, prompts or model changed.")] = False,
    dry_run: Annotated[
        bool, typer.Option(help=f"Ask {_SAMPLE} questions, and say what all of them would take.")
    ] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Ask all questions of a file, and keep answers, scores, traces and what they rest on in one folder.

    The same command goes on where it was ended; finished questions cost nothing. A question that fails counts as wrong,
    and is asked again with --retry-failed.

    \b
    hoptree run --data dev.jsonl --corpus docs.idx --method taikc --limit 100 --out runs/taikc
    hoptree run experiments/taikc/table2.yaml --data DATA --model openai/NAME --out runs/table2
    hoptree compare runs/oner runs/taikc
    """
    from hoptree.evaluation.running import Ways
    from hoptree.runtime.budget import Budget

    if max_cost is not None and not prices:
        raise InputError("A limit of money needs prices.", "Give them: --prices IN/OUT")
    given: dict[str, Any] = {
        **({"method": method} if method else {}),
        **({"model": model} if model else {}),
        **({"roles": read_roles(roles)} if roles else {}),
        **({"retriever": retriever} if retriever else {}),
        **({"rerank": rerank} if rerank else {}),
        **({"graph": graph} if graph else {}),
        **({"options": read_settings(settings)} if settings else {}),
        **({"base_url": base_url} if base_url else {}),
        **({"limit": limit} if limit is not None else {}),
        **({"seed": seed} if seed is not None else {}),
        **({"ids": ids} if ids is not None else {}),
        **({"budget": Budget.parse(budget)} if budget else {}),
        **({"prices": read_prices(prices)} if prices else {}),
        **({"filter_answers": filter_answers} if filter_answers is not None else {}),
        **({"judge": judge} if judge else {}),
        **({"judge_base_url": judge_base_url} if judge_base_url else {}),
    }
    planned = _planned(experiment, data, corpus, name, given)
    ways = Ways(
        anyway=anyway,
        retry_failed=retry_failed,
        only=_SAMPLE if dry_run else None,
        cache=None if no_cache else "default",
        concurrency=concurrency,
        max_cost=max_cost,
        ray=ray,
    )
    with _folder(out, dry_run) as folder:
        work = _run_all(planned, folder, ways, quiet=as_json)
        kept = what_stays("questions" if out else "", cached=not no_cache)
        summaries = run_to_end(work, stays=kept)
    if out is None:
        summaries = [{**summary, "folder": None} for summary in summaries]
    if as_json:
        print_json(summaries if experiment is not None else summaries[0])
    else:
        for summary in summaries:
            report(summary)


@contextmanager
def _folder(out: Path | None, dry_run: bool) -> Iterator[Path]:
    """Where a run goes: a sample may go to a folder that is not there any more afterwards."""
    if out is not None:
        yield out
    elif dry_run:
        with TemporaryDirectory(prefix="hoptree-dry-run-", ignore_cleanup_errors=True) as place:
            yield Path(place)
    else:
        raise InputError("There is no folder for the run.", "Give one: --out runs/NAME; only --dry-run does without.")


def _planned(
    experiment: Path | None, data: Path | None, corpus: str | None, name: str, given: dict[str, Any]
) -> list[Planned]:
    """The runs of an experiment file, or the one that the options describe."""
    from hoptree.evaluation.experiment import Experiment
    from hoptree.evaluation.plan import Planned, read_plan

    if experiment is not None:
        if name:
            raise InputError("An experiment file names its own runs.", "Leave out --name.")
        return read_plan(experiment, data or experiment.parent, given | ({"corpus": corpus} if corpus else {}))
    if data is None:
        raise InputError("There are no questions.", "Give --data QUESTIONS.jsonl, or an experiment file.")
    one = Experiment(data=data, corpus=corpus, name=name, **given)
    say_without_graph(one.method, one.graph)
    return [Planned("", "", (), one)]


async def _run_all(planned: list[Planned], out: Path, ways: Ways, *, quiet: bool) -> list[dict[str, Any]]:
    """All runs, one after another, under one limit of money; a model that several use is loaded once."""
    from hoptree.evaluation.indexes import index_for
    from hoptree.evaluation.summary import money_spent
    from hoptree.models import open_model

    summaries = []
    folders = [out / one.folder if one.run_name else out for one in planned]
    spent = {folder: money_spent(folder) for folder in folders} if ways.max_cost is not None else {}
    models: dict[tuple[str, str], OpenModel] = {}
    try:
        for one, folder in zip(planned, folders, strict=True):
            wanted = one.experiment
            if one.corpora:
                wanted = replace(wanted, corpus=str(index_for(one.corpora, out / "indexes")))
            found = {}
            for role, spec in {"": wanted.model, **wanted.roles}.items():
                key = (spec, wanted.base_url if not role or spec.startswith("openai/") else "")
                if key not in models:
                    models[key] = open_model(spec, base_url=key[1])
                found[role] = models[key]
            others = sum(money for place, money in spent.items() if place != folder)
            summaries.append(await _run_one(wanted, folder, replace(ways, spent=others), found, quiet=quiet))
            if spent:
                spent[folder] = money_spent(folder)
    except HoptreeError as error:
        if one.run_name:
            error.cause = f"{one.experiment.name}: {error.cause}"
        raise
    finally:
        for model in models.values():
            await model.aclose()
    return summaries


async def _run_one(
    wanted: Experiment, folder: Path, ways: Ways, models: dict[str, OpenModel], *, quiet: bool
) -> dict[str, Any]:
    """One run with models that are open: the one for all, under no name, and those that play roles."""
    from hoptree.evaluation.running import run_experiment

    reached: list[Progress] = []
    say_without_links(wanted.corpus, wanted.retriever)

    def hear(now: Progress) -> None:
        reached[:] = [now]
        show(len(now.rows), now.total, lambda: describe(now, ways.max_cost))

    with shown(quiet) as show:
        summary = await run_experiment(
            wanted,
            folder,
            ways,
            model=models[""],
            roles={role: model for role, model in models.items() if role},
            on_progress=hear,
            on_judged=lambda now: show(now.done, now.total, lambda: describe_judge(now)),
        )
    if ways.only is not None:
        summary["estimate"] = estimate(summary, reached[0].asked, time.monotonic() - reached[0].began)
    return summary


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[[int, int, Callable[[], str]], None]]:
    """How many of how many are done, and what else is to be said, on the terminal only.

    The latter is made a few times a second at most: to sum up thousands of questions after each of them takes a while.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        next_time = 0.0

        def show(done: int, total: int, say: Callable[[], str]) -> None:
            nonlocal next_time
            if not bar.disable and (time.monotonic() >= next_time or done == total):
                bar.update(task, completed=done, total=total, description=say())
                next_time = time.monotonic() + _EVERY

        yield show


def describe_judge(progress: JudgeProgress) -> str:
    """How far a judge is, in a few words."""
    seconds = max(time.monotonic() - progress.began, 1e-3)
    right = f", {100 * progress.correct / progress.done:.1f} % right" if progress.done else ""
    return f"judging: {progress.new / seconds:.2f} answers/s{right}"


def describe(progress: Progress, max_cost: float | None = None) -> str:
    """How far a run is, in a few words."""
    from hoptree.evaluation.summary import half_width

    seconds = max(time.monotonic() - progress.began, 1e-3)
    parts = [f"{progress.asked / seconds:.2f} questions/s", f"{progress.tokens / seconds:,.0f} tokens/s"]
    if progress.calls:
        parts.append(f"{progress.cached / progress.calls:.0%} from cache")
    scores = [value for row in progress.rows if (value := row.scores.get("f1")) is not None]
    if scores:
        parts.append(f"F1 {100 * sum(scores) / len(scores):.1f} ± {100 * half_width(scores):.1f}")
    if failed := sum(bool(row.error) for row in progress.rows):
        parts.append(f"{failed} failed")
    if max_cost is not None:
        parts.append(f"spent {progress.spent:.2f} of {max_cost:.2f}")
    return ", ".join(parts)
