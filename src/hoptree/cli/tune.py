"""`hoptree eval tune`: which values of a method's options do best on some questions, and whether that is chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hoptree.cli.ask import say_without_graph
from hoptree.cli.console import chance, clean, print_json, say, what_stays
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
from hoptree.cli.progress import describe, shown
from hoptree.cli.search import Rerank, RetrieverKind, say_without_links
from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.retrieval import DEFAULT_RETRIEVER

if TYPE_CHECKING:
    from hoptree.evaluation.running import Progress, Ways
    from hoptree.evaluation.tuned import Outcome, Tuned
    from hoptree.evaluation.tuning import Step, Tuning


_SEARCHES = ("grid", "halving")
_SHOWN = 20


def tune(
    out: Annotated[Path, typer.Option(help="The folder of the tuning; the same command goes on with it.")],
    data: Annotated[
        Path, typer.Option(help="Questions with answers: JSON Lines of ours, a data set's own file, or 'sample'.")
    ],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="OPTION=VALUES",
            help="An option and its values: 1,2,5 or START:END:STEP, the end included. Several times for combinations.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    method: Annotated[str, typer.Option(help="hoptree methods lists them and their options.")] = DEFAULT_METHOD,
    corpus: Annotated[
        str | None,
        typer.Option(help="An index made by hoptree index, 'sample', or an engine's address.", show_default=False),
    ] = None,
    graph: Graph = None,
    retriever: RetrieverKind = DEFAULT_RETRIEVER,
    rerank: Rerank = "",
    model: Model = "",
    roles: Roles = [],  # noqa: B006 - typer copies it
    settings: Settings = [],  # noqa: B006 - typer copies it
    questions: Annotated[
        str,
        typer.Option(
            metavar="FIRST-LAST", help="Only these questions of the file, counted from 1: 251-350.", show_default=False
        ),
    ] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.", show_default=False)] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="With --limit: N questions drawn by this number. It draws --max-trials, too.", show_default=False
        ),
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="Only the questions whose ids stand in this file.", show_default=False)
    ] = None,
    metric: Annotated[str, typer.Option(help="The score that decides.")] = "f1",
    search: Annotated[
        str,
        typer.Option(
            metavar="grid|halving",
            help="All combinations over all questions; or over few, and the better half over twice as many, and so on.",
        ),
    ] = "grid",
    max_trials: Annotated[
        int | None,
        typer.Option(min=1, help="Try so many of the combinations, drawn at random.", show_default=False),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="LIMITS", help="For each question: calls=20,tokens=9000,seconds=60,cost=0.1.")
    ] = "",
    prices: PricesText = "",
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="Begin no question once this much was spent by all trials.", show_default=False),
    ] = None,
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    retry_failed: Annotated[bool, typer.Option(help="Ask questions that failed again.")] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Try values of a method's options on some questions, beside its defaults, and say which do best.

    Every combination is a run of its own below --out, which eval compare, report and reproduce can read. Finished
    questions cost nothing when the command is given again, also with more values. A question that fails counts as
    wrong. The best is held against the defaults question by question, with a correction for how many were tried, and
    what shows it on questions it was not chosen by is printed: only that is a result.

    \b
    hoptree eval tune --method mind --data dev.jsonl --corpus docs.idx --vary alpha=1.0,1.5,2.0 --vary beta=0:0.4:0.1 \\
        --questions 251-350 --out tuned/mind
    hoptree eval tune --method oner --data dev.jsonl --corpus docs.idx --vary k=1:10 --search halving --limit 200 \\
        --seed 1 --out tuned/oner
    hoptree eval report tuned/mind --html tuned.html
    """
    from hoptree.engine.budget import Budget
    from hoptree.engine.registry import find_method
    from hoptree.evaluation.experiment import Experiment
    from hoptree.evaluation.running import Ways
    from hoptree.evaluation.tuned import read_trials
    from hoptree.evaluation.tuning import Tuning
    from hoptree.models import DEFAULT_MODEL

    if search not in _SEARCHES:
        raise ConfigError(f"There is no search '{search}'.", f"Choose --search {' or '.join(_SEARCHES)}.")
    if max_cost is not None and not prices:
        raise InputError("A limit of money needs prices.", "Give them: --prices IN/OUT")
    fixed = read_settings(settings)
    trials = read_trials(find_method(method), vary, fixed, max_trials=max_trials, seed=seed or 0)
    wanted = Experiment(
        data=data,
        method=method,
        model=model or DEFAULT_MODEL,
        corpus=corpus,
        graph=graph,
        retriever=retriever,
        rerank=rerank,
        options=fixed,
        roles=read_roles(roles),
        base_url=base_url,
        limit=limit,
        seed=seed,
        ids=ids,
        budget=Budget.parse(budget),
        prices=read_prices(prices),
    )
    tuning = Tuning.prepare(wanted, trials, rows=questions, metric=metric, search=search)  # type: ignore[arg-type]
    say_without_graph(method, graph)
    say_without_links(corpus, retriever)
    ways = Ways(
        retry_failed=retry_failed, cache=None if no_cache else "default", concurrency=concurrency, max_cost=max_cost
    )
    work = _tuned(tuning, out, ways, quiet=as_json)
    found = run_to_end(work, stays=what_stays("questions", cached=not no_cache))
    if as_json:
        print_json(found.as_dict())
    else:
        _report(found)


async def _tuned(tuning: Tuning, out: Path, ways: Ways, *, quiet: bool) -> Tuned:
    from hoptree.evaluation.tuning import tune

    with shown(quiet) as show:

        def hear(step: Step, now: Progress) -> None:
            where = f"trial {step.number} of {step.total}, {step.trial.name}: "
            show(
                min(len(now.rows), step.questions), step.questions, lambda: clean(where + describe(now, ways.max_cost))
            )

        def ended(step: Step, outcome: Outcome) -> None:
            if not quiet:
                say(
                    f"{step.number} of {step.total}: {step.trial.name}: {tuning.metric} {_score(outcome)} "
                    f"over {step.questions:,} questions"
                )

        return await tune(tuning, out, ways, on_progress=hear, on_outcome=ended)


def _report(found: Tuned) -> None:
    asked = f"{len(found.ids):,} of {len(found.ids) + found.others:,} questions"
    typer.echo(clean(f"{found.experiment.method} on {found.data_name}, {asked}, in {found.folder}"))
    ranked = found.ranked
    kept = [one for place, one in enumerate(ranked) if place < _SHOWN or one is found.defaults]
    _table(found, kept)
    if left := len(ranked) - len(kept):
        typer.echo(f"  … and {left:,} more (tune.json lists them)")
    if pair := found.best.against:
        typer.echo(
            clean(
                f"best: {found.best.trial.name}: {100 * pair.mean_b:.1f} against {100 * pair.mean_a:.1f} of the "
                f"defaults, {_difference(found.best)} (paired bootstrap, 95 %), {chance(pair.p_value)} "
                f"(Holm, for {len(found.trials):,} trials: {chance(pair.adjusted_p)})"
            )
        )
    typer.echo(found.remark)
    typer.echo(clean(f"The best in an experiment file: {found.setting}"))
    if found.commands:
        typer.echo(found.warning)
    for command in found.commands:
        typer.echo(clean(f"  {command}"))


def _table(found: Tuned, rows: Sequence[Outcome]) -> None:
    """A column an option that is varied, the score, the difference to the defaults, and what a question took."""
    from hoptree.evaluation.tuned import as_text

    names = list(found.defaults.trial.values)
    columns: dict[str, Callable[[Outcome], str]] = {
        **{name: lambda one, name=name: as_text(one.trial.values[name]) for name in names},  # type: ignore[misc]
        found.metric: _score,
        "against the defaults": lambda one: "defaults" if one is found.defaults else _difference(one),
        "calls": lambda one: f"{one.usage['llm_calls']:.1f}",
        "searches": lambda one: f"{one.usage['retrievals']:.1f}",
        "tokens": lambda one: f"{one.usage['tokens']:,.0f}",
    }
    if found.experiment.prices:
        columns["price"] = lambda one: f"{one.usage['price']:.5f}"
    if any(len(one.scores) < len(found.ids) for one in rows):
        columns["questions"] = lambda one: f"{len(one.scores):,}"
    if any(len(one.applicable) < len(one.scores) for one in rows):
        columns["with the score"] = lambda one: f"{len(one.applicable):,}"
    if any(one.failed for one in rows):
        columns["failed"] = lambda one: f"{one.failed:,}"
    cells = [list(columns), *([cell(one) for cell in columns.values()] for one in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        typer.echo(clean("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))))


def _score(one: Outcome) -> str:
    return f"{100 * one.score:.1f} ± {100 * one.plus_minus:.1f}"


def _difference(one: Outcome) -> str:
    if one.against is None:
        return "dropped"
    low, high = one.against.interval.low, one.against.interval.high
    return f"{100 * one.against.difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
