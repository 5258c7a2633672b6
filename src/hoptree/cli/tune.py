"""`hoptree eval tune`: which option values do best, beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Option

from hoptree.cli import options
from hoptree.cli.console import chance, echo, interval, print_json, print_table, run_to_end, warn
from hoptree.cli.progress import describe_run, progress_bar
from hoptree.core.errors import ConfigError
from hoptree.engine.context import Budget
from hoptree.engine.registry import DEFAULT_METHOD, find_method
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.running import Progress, RunOptions
from hoptree.evaluation.tuned import Outcome, Tuned, Tuning, as_text, read_trials
from hoptree.evaluation.tuning import Step
from hoptree.evaluation.tuning import tune as run_trials
from hoptree.models import DEFAULT_MODEL
from hoptree.retrieval import DEFAULT_RETRIEVER

_SEARCHES = ("grid", "halving")
_MAX_ROWS = 20


def tune(
    out: Annotated[Path, Option(help="The folder of the tuning; the same command goes on with it.")],
    data: Annotated[
        Path, Option(help="Questions with answers: JSON Lines of ours, a data set's own file, or 'sample'.")
    ],
    vary: Annotated[
        list[str],
        Option(
            metavar="OPTION=VALUES",
            help="Values to try: 1,2,5 or START:END:STEP, the end included. Several times for combinations.",
        ),
    ] = [],
    method: Annotated[str, Option(help="hoptree methods lists them and their options.")] = DEFAULT_METHOD,
    corpus: Annotated[
        str | None, Option(help="An index made by hoptree index, 'sample', or an engine's address.")
    ] = None,
    graph: options.Graph = None,
    retriever: options.RetrieverKind = DEFAULT_RETRIEVER,
    rerank: options.Rerank = "",
    model: options.Model = "",
    roles: options.Roles = [],
    settings: options.Settings = [],
    questions: Annotated[
        str, Option(metavar="FIRST-LAST", help="Only these questions of the file, counted from 1: 251-350.")
    ] = "",
    limit: options.Limit = None,
    seed: Annotated[
        int | None, Option(help="With --limit: N questions drawn by this number. It draws --max-trials, too.")
    ] = None,
    ids: options.Ids = None,
    metric: Annotated[str, Option(help="The score that decides.")] = "f1",
    search: Annotated[
        str,
        Option(
            metavar="grid|halving",
            help="All combinations; or all over few questions, the better half over more, and so on.",
        ),
    ] = "grid",
    max_trials: Annotated[int | None, Option(min=1, help="Try so many of the combinations, drawn at random.")] = None,
    budget: options.QuestionBudget = "",
    prices: options.PricesText = "",
    max_cost: options.MaxCost = None,
    base_url: options.BaseURL = "",
    concurrency: options.Concurrency = None,
    retry_failed: options.RetryFailed = False,
    no_cache: options.NoCache = False,
    as_json: options.AsJson = False,
) -> None:
    """Try values of a method's options, and find those that beat its defaults.

    Every combination is a run of its own below --out, which eval compare, report and reproduce can read. The same
    command resumes, also with more values; finished questions cost nothing. A question that fails counts as wrong. The
    best is compared with the defaults question by question, corrected for the number of trials. Only scores on other
    questions than those it was chosen by are a result: commands for that are printed.

    \b
    hoptree eval tune --method mind --data dev.jsonl --corpus docs.idx --vary alpha=1.0,1.5,2.0 --vary beta=0:0.4:0.1 \\
        --questions 251-350 --out tuned/mind
    hoptree eval tune --method oner --data dev.jsonl --corpus docs.idx --vary k=1:10 --search halving --limit 200 \\
        --seed 1 --out tuned/oner
    hoptree eval report tuned/mind --html tuned.html
    """
    if search not in _SEARCHES:
        raise ConfigError(f"There is no search '{search}'.", f"Choose --search {' or '.join(_SEARCHES)}.")
    options.check_prices(max_cost, prices)
    fixed = options.read_settings(settings)
    trials = read_trials(find_method(method), vary, fixed, max_trials=max_trials, seed=seed or 0)
    experiment = Experiment(
        data=data,
        method=method,
        model=model or DEFAULT_MODEL,
        corpus=corpus,
        graph=graph,
        retriever=retriever,
        rerank=rerank,
        options=fixed,
        roles=options.read_roles(roles),
        base_url=base_url,
        limit=limit,
        seed=seed,
        ids=ids,
        budget=Budget.parse(budget),
        prices=options.read_prices(prices),
    )
    tuning = Tuning.prepare(experiment, trials, rows=questions, metric=metric, search=search)  # type: ignore[arg-type]
    options.warn_without_graph(method, graph)
    options.warn_without_links(corpus, retriever)
    run_options = RunOptions(
        retry_failed=retry_failed, cache=None if no_cache else "default", concurrency=concurrency, max_cost=max_cost
    )

    def report_trial(step: Step, outcome: Outcome) -> None:
        if not as_json:
            score = f"{metric} {_score(outcome)} over {step.questions:,} questions"
            warn(f"{step.number} of {step.total}: {step.trial.name}: {score}")

    with progress_bar(as_json) as update_bar:

        def show_progress(step: Step, now: Progress) -> None:
            where = f"trial {step.number} of {step.total}, {step.trial.name}: "
            done = min(len(now.rows), step.questions)
            update_bar(done, step.questions, lambda: where + describe_run(now, max_cost))

        work = run_trials(tuning, out, run_options, on_progress=show_progress, on_outcome=report_trial)
        tuned = run_to_end(work, "questions", cached=not no_cache)
    if as_json:
        print_json(tuned.as_dict())
    else:
        _report(tuned)


def _report(tuned: Tuned) -> None:
    tuning = tuned.tuning
    asked = f"{len(tuning.ids):,} of {len(tuning.ids) + len(tuning.others):,} questions"
    echo(f"{tuning.experiment.method} on {tuning.data.name}, {asked}, in {tuned.folder}")
    ranked = tuned.ranked
    kept = [outcome for place, outcome in enumerate(ranked) if place < _MAX_ROWS or outcome is tuned.defaults]
    _table(tuned, kept)
    if left := len(ranked) - len(kept):
        echo(f"  … and {left:,} more (tune.json lists them)")
    if pair := tuned.best.against:
        echo(
            f"best: {tuned.best.trial.name}: {100 * pair.mean_b:.1f} against {100 * pair.mean_a:.1f} of the "
            f"defaults, {_difference(tuned.best)} (paired bootstrap, 95 %), {chance(pair.p_value)} "
            f"(Holm, for {len(tuned.trials):,} trials: {chance(pair.adjusted_p)})"
        )
    echo(tuned.remark)
    echo(f"The best in an experiment file: {tuned.setting}")
    if tuned.commands:
        echo(tuned.warning)
    for command in tuned.commands:
        echo(f"  {command}")


def _table(tuned: Tuned, rows: Sequence[Outcome]) -> None:
    """Print options, score, difference to the defaults, and cost."""
    columns = {name: [as_text(row.trial.values[name]) for row in rows] for name in tuned.defaults.trial.values}
    columns |= {
        tuned.tuning.metric: [_score(row) for row in rows],
        "against the defaults": ["defaults" if row is tuned.defaults else _difference(row) for row in rows],
        "calls": [f"{row.usage['llm_calls']:.1f}" for row in rows],
        "searches": [f"{row.usage['retrievals']:.1f}" for row in rows],
        "tokens": [f"{row.usage['tokens']:,.0f}" for row in rows],
    }
    if tuned.tuning.experiment.prices:
        columns["price"] = [f"{row.usage['price']:.5f}" for row in rows]
    if any(len(row.scores) < len(tuned.tuning.ids) for row in rows):
        columns["questions"] = [f"{len(row.scores):,}" for row in rows]
    if any(len(row.applicable) < len(row.scores) for row in rows):
        columns["with the score"] = [f"{len(row.applicable):,}" for row in rows]
    if any(row.failed for row in rows):
        columns["failed"] = [f"{row.failed:,}" for row in rows]
    print_table(list(columns), list(zip(*columns.values(), strict=True)))


def _score(outcome: Outcome) -> str:
    return f"{100 * outcome.score:.1f} ± {100 * outcome.plus_minus:.1f}"


def _difference(outcome: Outcome) -> str:
    pair = outcome.against
    return interval(pair.difference, pair.interval.low, pair.interval.high) if pair else "dropped"
