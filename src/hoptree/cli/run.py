"""`hoptree run`: ask a file of questions, and keep all outcomes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Argument, Option

from hoptree.cli import options
from hoptree.cli.console import echo, print_json, run_to_end, warn
from hoptree.cli.progress import UpdateBar, bars, describe_f1, describe_run, lines, on_terminal, show_judge
from hoptree.core.errors import HoptreeError, InputError
from hoptree.engine.context import Budget, Prices
from hoptree.engine.own_prompts import open_prompts
from hoptree.engine.registry import DEFAULT_METHOD, load_method
from hoptree.engine.schedule import together
from hoptree.evaluation.experiment import LINKING_METHOD, Experiment
from hoptree.evaluation.plan import Planned, check_search, chosen, index_for, read_plan
from hoptree.evaluation.run_folder import Warned, money_spent
from hoptree.evaluation.running import JUDGE_PROMPTS, Progress, RunOptions, run_experiment
from hoptree.models.model import Model as OpenModel
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.indexing.sources import Progress as IndexingProgress

_LIST_SCORES = ("list_f1", "list_precision", "list_recall", "candidate_recall")
_SCORES = ("em", "f1", "contains", "judge", "support_f1", "joint_f1", "retrieval_recall", *_LIST_SCORES)


def _estimate(summary: dict[str, Any], asked: int, seconds: float) -> dict[str, float | None]:
    """Estimate what all questions would take from the finished ones."""
    questions, usage = summary["questions"], summary["usage"]
    share = questions / max(summary["finished"], 1)
    return {
        "llm_calls": round(usage["llm_calls"]["total"] * share),
        "tokens": round(usage["tokens"]["total"] * share),
        "cost": usage["price"]["total"] * share,
        "seconds_one_by_one": round(usage["critical_path_seconds"]["total"] * share, 1),
        "seconds_like_the_sample": round(seconds * questions / asked, 1) if asked else None,
    }


def _report(summary: dict[str, Any]) -> None:
    usage, finished = summary["usage"], summary["finished"]
    where = f"in {summary['folder']}" if summary["folder"] else "none of it kept"
    echo(f"{summary['name']}: {finished:,} of {summary['questions']:,} questions, {where}")
    for name in _SCORES:
        if metric := summary["metrics"].get(name):
            fewer = f" (of {metric['questions']:,} questions)" if metric["questions"] < finished else ""
            echo(f"  {name:17} {100 * metric['mean']:5.1f} ± {100 * metric['plus_minus']:.1f}{fewer}")
    if finished:
        echo(
            f"  a question: {usage['llm_calls']['mean']:.1f} calls, {usage['prompt_tokens']['mean']:,.0f} tokens read, "
            f"{usage['completion_tokens']['mean']:,.0f} written, {usage['retrievals']['mean']:.1f} searches, "
            f"{usage['seconds']['mean']:.2f} s"
        )
    if left := summary.get("answer_filter"):
        echo(
            f"  {left['left_out']:,} accepted answers were left out; {left['untouched']:,} questions keep all, as none "
            "of theirs was found"
        )
    for kind, count in summary["errors"].items():
        echo(f"  {count:,} failed with {kind}: they count as wrong; --retry-failed asks them again")
    if summary["stopped"]:
        guesses = summary["stopped_guesses"]
        more = f"; {guesses:,} of them with a draft or a guess that nothing found confirms" if guesses else ""
        echo(f"  {summary['stopped']:,} stopped by their budget, with what was found until then{more}")
    if summary["abstained"]:
        echo(f"  {summary['abstained']:,} without an answer")
    for kind, warned in summary["warned"].items():
        echo(f"  {Warned(**warned).describe(kind, finished)}")
    if len(parts := summary["rests_on"]) > 1:
        (first, count), *others = parts.items()
        more = "".join(f", {count:,} on {other}" for other, count in others)
        echo(f"  {count:,} questions rest on {first}{more}: this is a mixture of runs (--anyway)")
    for warning in summary["warnings"]:
        echo(f"  {warning}")
    if estimate := summary.get("estimate"):
        seconds = estimate["seconds_like_the_sample"]
        like_the_sample = f", {seconds:,.0f} like the sample" if seconds is not None else ""
        echo(
            f"  all {summary['questions']:,} would take about {estimate['llm_calls']:,} calls, "
            f"{estimate['tokens']:,} tokens, {estimate['cost']:.2f} in money, "
            f"{estimate['seconds_one_by_one']:,.0f} seconds one by one{like_the_sample}"
        )


_SAMPLE_QUESTIONS = 5
_LABELS_HINT = "Make it from two runs, as the file says: hoptree align skr"


def run(
    experiment: Annotated[Path | None, Argument(help="A file of several runs (YAML).")] = None,
    out: Annotated[
        Path | None, Option(help="The folder of the run; the same command goes on with it. --dry-run needs none.")
    ] = None,
    data: Annotated[
        Path | None,
        Option(
            help="Questions with answers: JSON Lines, a data set's own file or 'sample'; an experiment's data folder."
        ),
    ] = None,
    corpus: Annotated[
        str | None,
        Option(help="An index, 'sample' or an address; of an experiment for all, with wikipedia=INDEX for that alone."),
    ] = None,
    only: options.Only = [],
    graph: options.Graph = None,
    retriever: Annotated[str, Option(help=f"{options.RETRIEVER_HELP}  [default: {DEFAULT_RETRIEVER}]")] = "",
    rerank: options.Rerank = "",
    encoder: options.Encoder = "",
    model: options.Model = "",
    roles: options.Roles = [],
    method: Annotated[str, Option(help=f"hoptree methods lists them.  [default: {DEFAULT_METHOD}]")] = "",
    settings: options.Settings = [],
    prompts: options.Prompts = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    ids: options.Ids = None,
    budget: options.QuestionBudget = "",
    prices: options.PricesText = "",
    max_cost: options.MaxCost = None,
    judge: Annotated[
        str, Option(metavar="MODEL", help="Have the answers judged by this model, as hoptree eval judge does.")
    ] = "",
    judge_base_url: options.JudgeBaseURL = "",
    filter_answers: Annotated[
        int | None,
        Option(
            metavar="PASSAGES", min=1, help="Leave out answers that the first so many passages lack (TriviaQA: 1000)."
        ),
    ] = None,
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    at_once: options.AtOnce = 1,
    workers: Annotated[
        int, Option(metavar="N", min=1, help="Processes that answer, where one core cannot keep an endpoint busy.")
    ] = 1,
    ray: Annotated[
        str, Option(metavar="ADDRESS", help="Answer on a Ray cluster: HOST:PORT, auto, or local to start one here.")
    ] = "",
    name: Annotated[str, Option(help="What tables call the run.")] = "",
    retry_failed: options.RetryFailed = False,
    anyway: options.Anyway = False,
    dry_run: Annotated[
        bool, Option(help=f"Ask {_SAMPLE_QUESTIONS} questions, and say what all of them would take.")
    ] = False,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Ask all questions of a file, and keep answers, scores and traces in a folder.

    The folder also records what the run depends on. The same command resumes; finished questions cost nothing. A
    question that fails counts as wrong, and is asked again with --retry-failed.

    \b
    hoptree run --data dev.jsonl --corpus docs.idx --method taikc --limit 100 --out runs/taikc
    hoptree run experiments/taikc/table2.yaml --data DATA --model openai/NAME --out runs/table2
    hoptree run experiments/taikc/table2.yaml --data DATA --only hotpotqa --only taikc --out runs/table2
    hoptree eval compare runs/oner runs/taikc
    """
    options.check_prices(max_cost, prices)
    settings_given = options.given(
        method=method,
        model=model,
        roles=options.read_roles(roles),
        retriever=retriever,
        rerank=rerank,
        graph=graph,
        options=options.read_settings(settings),
        prompts=str(prompts.resolve()) if prompts else None,
        base_url=base_url,
        limit=limit,
        seed=seed,
        ids=ids,
        budget=Budget.parse(budget) if budget else None,
        prices=options.read_prices(prices),
        filter_answers=filter_answers,
        judge=judge,
        judge_base_url=judge_base_url,
    )
    if max_cost is not None and at_once > 1:
        raise InputError("A limit of money is kept by runs one after another.", "Leave out --at-once.")
    if workers > 1 and ray:
        raise InputError("--workers are processes of this machine, --ray a cluster's.", "Leave out one of the two.")
    if only and experiment is None:
        raise InputError("There is no experiment file to choose runs from.", "Give one, or leave out --only.")
    if encoder and experiment is None:
        raise InputError("An index has its encoder already.", "Change it: hoptree index encode --out INDEX --encoder …")
    planned = _plan(experiment, data, corpus, name, settings_given | options.given(encoder=encoder))
    if only:
        planned = chosen(planned, only)
    if any(run.experiment.method == LINKING_METHOD for run in planned):
        cause = "The file measures linking, and answers no questions."
        raise InputError(cause, "hoptree paper treeqa figure4 makes such a file.")
    if experiment is not None:
        planned = leave_out_unlabelled(planned)
    warn_unused_prompts(planned)
    run_options = RunOptions(
        anyway=anyway,
        retry_failed=retry_failed,
        only=_SAMPLE_QUESTIONS if dry_run else None,
        cache=None if no_cache else "default",
        concurrency=concurrency,
        max_cost=max_cost,
        workers=workers,
        ray=ray,
    )
    with _folder(out, dry_run) as folder:
        work = run_all(planned, folder, run_options, at_once=at_once, quiet=as_json)
        summaries = run_to_end(work, "questions" if out else "", cached=not no_cache)
    if out is None:
        summaries = [{**summary, "folder": None} for summary in summaries]
    if as_json:
        print_json(summaries if experiment is not None else summaries[0])
    else:
        for summary in summaries:
            _report(summary)


@contextmanager
def _folder(out: Path | None, dry_run: bool) -> Iterator[Path]:
    """Yield the folder of a run, or a temporary one for a dry run."""
    if out is not None:
        yield out
    elif dry_run:
        with TemporaryDirectory(prefix="hoptree-dry-run-", ignore_cleanup_errors=True) as place:
            yield Path(place)
    else:
        raise InputError("There is no folder for the run.", "Give one: --out runs/NAME; only --dry-run does without.")


def _plan(
    experiment: Path | None, data: Path | None, corpus: str | None, name: str, settings: dict[str, Any]
) -> list[Planned]:
    """Return the runs of an experiment file, or the one that the options describe."""
    if experiment is not None:
        if name:
            raise InputError("An experiment file names its own runs.", "Leave out --name.")
        return read_plan(experiment, data or experiment.parent, settings | options.given(corpus=corpus))
    if data is None:
        raise InputError("There are no questions.", "Give --data QUESTIONS.jsonl, or an experiment file.")
    single = Experiment(data=data, corpus=corpus, name=name, **settings)
    options.warn_without_graph(single.method, single.graph)
    return [Planned("", "", (), single)]


def leave_out_unlabelled(planned: Sequence[Planned]) -> list[Planned]:
    """Leave out runs without their labels; raise an error if none is left."""
    kept = []
    for run in planned:
        labels = str(run.experiment.options.get("labels") or "")
        if not labels or Path(labels).is_file():
            kept.append(run)
        else:
            warn(f"{run.experiment.name} is left out: there is no {labels}. {_LABELS_HINT}")
    if not kept:
        raise InputError("No run is left without labelled questions.", _LABELS_HINT)
    return kept


def warn_unused_prompts(planned: Sequence[Planned], *, judged: bool = False) -> None:
    """Warn of each folder of prompts that no run, or judge, uses."""
    for folder in sorted({run.experiment.prompts for run in planned if run.experiment.prompts}):
        runs = [run.experiment for run in planned if run.experiment.prompts == folder]
        prompts, methods = open_prompts(folder), sorted({run.method for run in runs})
        known = [method for method in map(load_method, methods) if method]
        if len(known) < len(methods):
            continue  # an unregistered method has prompts of its own
        used = [name for method in known for name in prompts.of(method)]
        used += [
            name
            for name in prompts.texts
            if name == f"{JUDGE_PROMPTS}/judge.txt" and (judged or any(run.judge for run in runs))
        ]
        options.warn_unused_prompts(folder, used, " or ".join(methods))


async def run_all(
    planned: list[Planned], out: Path, run_options: RunOptions, *, at_once: int, quiet: bool
) -> list[dict[str, Any]]:
    """Make all runs under one limit of money, sharing loaded models."""
    folders = [out / run.folder if run.run_name else out for run in planned]
    spent = {folder: money_spent(folder) for folder in folders} if run_options.max_cost is not None else {}
    turn = asyncio.Semaphore(at_once)
    in_lines = not quiet and not on_terminal()
    indexing = asyncio.Lock()  # runs share indexes
    finished = 0
    await check_search([run for run in planned if run.run_name] if not run_options.ray else [])

    async def index(run: Planned, update_bar: UpdateBar) -> Path:
        async with indexing:
            return await _index_files(run, out / "indexes", update_bar, in_lines=in_lines)

    async def make(run: Planned, folder: Path) -> dict[str, Any]:
        nonlocal finished
        async with turn:
            others = sum(money for place, money in spent.items() if place != folder)
            with bar(run.experiment.name if at_once > 1 or in_lines else "") as update_bar:
                summary = await _run_one(run, folder, replace(run_options, spent=others), models, index, update_bar)
            if spent:
                spent[folder] = money_spent(folder)
            finished += 1
            if in_lines and len(planned) > 1:
                warn(f"{summary['name']} is finished ({finished} of {len(planned)} runs): {_sum_up(summary)}")
            return summary

    models: dict[tuple[str, str], OpenModel] = {}
    try:
        with lines() if in_lines else bars(quiet) as bar:
            return await together(make(run, folder) for run, folder in zip(planned, folders, strict=True))
    finally:
        for model in models.values():
            await model.aclose()


async def _index_files(run: Planned, indexes: Path, update_bar: UpdateBar, *, in_lines: bool) -> Path:
    """Index the files of a run in a thread that ends with the run."""
    stopped = threading.Event()
    announced = not in_lines

    def on_progress(now: IndexingProgress) -> None:
        nonlocal announced
        if stopped.is_set():
            raise HoptreeError("Indexing was stopped.", "The same command goes on.")
        if not announced:
            announced = True
            by = f" with {run.index.encoder}, which may take long" if run.index.encoder else ""
            warn(f"{run.experiment.name}: indexing {', '.join(map(str, run.corpora))}{by}.")
        update_bar(now.done, now.total, lambda: f"indexing: {now.stage}")

    how = run.corpora, indexes, run.index, run.experiment.model
    try:
        return await asyncio.to_thread(index_for, *how, on_progress=on_progress)
    finally:
        stopped.set()


async def _add_facts(
    index: Path, experiment: Experiment, model: OpenModel, run_options: RunOptions, update_bar: UpdateBar
) -> None:
    """Extract the facts of an index's passages with the run's model."""
    from hoptree.cli.extract import describe
    from hoptree.extraction.run import ExtractionSpec, extract
    from hoptree.retrieval.hippo_retriever import count_facts
    from hoptree.retrieval.index.folder import Index
    from hoptree.retrieval.indexing import add_facts

    spec = ExtractionSpec(
        str(index),
        index.with_name(f"{index.name}.facts"),
        only=run_options.only,
        budget=Budget(cost=run_options.max_cost),
        prices=experiment.prices or Prices(),
        cache=run_options.cache,
        concurrency=run_options.concurrency,
    )
    summary = await extract(
        spec, model, on_progress=lambda now: update_bar(now.done, now.total, lambda: f"facts: {describe(now)}")
    )
    if failed := len(summary["failed"]):
        raise HoptreeError(f"The facts of {failed:,} passages could not be read.", "The same command tries them again.")
    if summary["stopped_by"]:
        raise InputError("The limit of money ends before all facts are read.", "Raise it, or leave the run out: --only")
    if summary["new"] or not count_facts(Index(index)):
        await asyncio.to_thread(add_facts, spec.out, index)


def _sum_up(summary: dict[str, Any]) -> str:
    """Summarise a run in a few words."""
    parts = [f"{summary['finished']:,} of {summary['questions']:,} questions"]
    if f1 := summary["metrics"].get("f1"):
        parts.append(describe_f1(f1["mean"], f1["plus_minus"], f1["questions"]))
    if failed := sum(summary["errors"].values()):
        parts.append(f"{failed:,} failed")
    return ", ".join(parts)


async def _run_one(
    run: Planned,
    folder: Path,
    run_options: RunOptions,
    opened: dict[tuple[str, str], OpenModel],
    index_files: Callable[[Planned, UpdateBar], Awaitable[Path]],
    update_bar: UpdateBar,
) -> dict[str, Any]:
    last: list[Progress] = []

    def show_progress(now: Progress) -> None:
        last[:] = [now]
        update_bar(len(now.rows), now.total, lambda: describe_run(now, run_options.max_cost))

    experiment = run.experiment
    try:
        if run.corpora:
            index = await index_files(run, update_bar)
            experiment = replace(experiment, corpus=str(index))
        options.warn_without_links(experiment.corpus, experiment.retriever)
        models = experiment.open_models(opened)
        if run.corpora and run.index.facts:
            await _add_facts(index, experiment, models[""], run_options, update_bar)
        summary = await run_experiment(
            experiment,
            folder,
            run_options,
            model=models.pop(""),
            roles=models,
            on_progress=show_progress,
            on_judged=partial(show_judge, update_bar),
        )
    except HoptreeError as error:
        if run.run_name:
            error.cause = f"{run.experiment.name}: {error.cause}"
        raise
    if run_options.only is not None:
        summary["estimate"] = _estimate(summary, last[0].asked, time.monotonic() - last[0].began)
    return summary
