"""`hoptree graph extract`: facts from passages by a model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.console import clean, counted, print_error, print_json, run, what_stays
from hoptree.cli.options import AsJson, BaseURL, Concurrency, Model, NoCache, PricesText, read_prices
from hoptree.cli.progress import shown
from hoptree.core.errors import HoptreeError, InputError
from hoptree.core.files import FolderLock

if TYPE_CHECKING:
    from hoptree.extraction.run import Progress, Wanted


_SAMPLE = 5
_LISTED = 5


def extract(
    corpus: Annotated[
        str, typer.Argument(help="An index made by hoptree index, a file or folder of documents, or 'sample'.")
    ],
    out: Annotated[Path, typer.Option(help="The folder of the extraction; the same command goes on with it.")],
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="GRAPH", help="Load the facts into this graph afterwards, as the source OUT.", show_default=False
        ),
    ] = None,
    model: Model = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N passages.", show_default=False)] = None,
    budget: Annotated[
        str,
        typer.Option(
            metavar="LIMITS",
            help="Begin no passage once calls=500,tokens=900000,seconds=3600,cost=2 (any of them) is reached.",
        ),
    ] = "",
    prices: PricesText = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on in a folder of another corpus, model or prompt.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help=f"Read {_SAMPLE} passages, and say what the others would take.")
    ] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Have a model read passages and write down the facts they state, as triples that hoptree graph load reads.

    A fact is kept if the names in it stand in its passage; it says which passage, which document and which sentence
    that is. Every passage is on disk when it is done: the same command goes on where it was ended, done passages cost
    nothing, and failed ones are tried again.

    \b
    hoptree graph extract docs.idx --out docs.facts --dry-run -m openai/NAME --prices 0.15/0.60
    hoptree graph extract docs.idx --out docs.facts --into kg -m openai/NAME --budget cost=2 --prices 0.15/0.60
    hoptree graph entity "Elia Kazan" --graph kg
    """
    from hoptree.engine.budget import Budget
    from hoptree.engine.context import Prices
    from hoptree.extraction.run import Wanted

    limits = Budget.parse(budget)
    if limits.cost is not None and not prices:
        raise InputError("A limit of money needs prices.", "Give them: --prices IN/OUT")
    if into is not None:
        _check_graph(into)
    wanted = Wanted(
        corpus,
        out,
        limit=limit,
        only=_SAMPLE if dry_run else None,
        budget=limits,
        prices=read_prices(prices) or Prices(),
        cache=None if no_cache else "default",
        concurrency=concurrency,
        anyway=anyway,
    )
    work = _extract(wanted, model, base_url, quiet=as_json)
    told = run(work, stays=what_stays("passages", cached=not no_cache))
    if into is not None and not dry_run:
        told["loaded"] = _load(told, into)
    if as_json:
        print_json(told)
    else:
        _report(told, priced=bool(prices))
    if failed := told["failed"]:
        one = len(failed) == 1
        failure = HoptreeError(
            f"{len(failed):,} {'passage' if one else 'passages'} could not be read.",
            f"The same command tries {'it' if one else 'them'} again; the others cost nothing.",
        )
        print_error(failure)
        raise typer.Exit(failure.exit_code)


async def _extract(wanted: Wanted, spec: str, base_url: str, *, quiet: bool) -> dict[str, Any]:
    from hoptree.extraction.run import extract as extract_facts
    from hoptree.models import DEFAULT_MODEL, open_model

    model = open_model(spec or DEFAULT_MODEL, base_url=base_url)
    try:
        with shown(quiet) as show:
            return await extract_facts(
                wanted,
                model,
                on_progress=lambda now: show(now.done, now.total, lambda: describe_extraction(now)),
            )
    finally:
        await model.aclose()


def describe_extraction(progress: Progress) -> str:
    """How far an extraction is, in a few words."""
    seconds = max(time.monotonic() - progress.began, 1e-3)
    parts = [
        f"{progress.new / seconds:.2f} passages/s",
        f"{progress.tokens / seconds:,.0f} tokens/s",
        f"{progress.facts:,} facts",
    ]
    if progress.cached:
        parts.append(f"{progress.cached / progress.calls:.0%} from cache")
    if progress.cost:
        parts.append(f"cost {progress.cost:.4f}")
    if progress.failed:
        parts.append(f"{len(progress.failed):,} failed")
    return ", ".join(parts)


def _check_graph(into: Path) -> None:
    """Say before anything is paid for that facts could not be loaded there."""
    from hoptree.graph.oxigraph import ox  # noqa: F401 - says so if its library is missing
    from hoptree.graph.store.folder import MANIFEST, check_place, read_manifest

    check_place(into)
    strange = into.exists() and not (into.is_dir() and all(_of_a_graph(path.name) for path in into.iterdir()))
    if strange or (into / MANIFEST).exists():
        read_manifest(into)


def _of_a_graph(name: str) -> bool:
    """Whether a load that was cut off may have left this."""
    return name == FolderLock.NAME or name.split(".")[0].isdigit()


def _load(told: dict[str, Any], into: Path) -> dict[str, Any]:
    from hoptree.graph.store.loading import load_graph

    file = Path(told["file"])
    loaded = load_graph(into, [file], source=file.resolve().parent.name, empty=True)
    return {
        "graph": str(into),
        "source": loaded.sources[0].name if loaded.sources else "",
        "facts": loaded.sources[0].facts if loaded.sources else 0,
        "facts_in_graph": loaded.manifest.facts,
        "broken": loaded.broken,
    }


def _report(told: dict[str, Any], *, priced: bool) -> None:
    done, spent, now = told["finished"], told["spent"], told["now"]
    of_all = f" of {told['passages']:,}" if done < told["passages"] else ""
    typer.echo(clean(f"{counted(told['facts'], 'fact')} from {done:,}{of_all} passages, in {told['file']}"))
    old = done - told["new"]
    cost = f", cost {now['cost']:.4f}" if priced else ""
    typer.echo(
        f"  now       {told['new']:,} passages in {told['seconds']:,.1f} s, {now['tokens']:,} tokens{cost}, "
        f"{now['cached']:,} of {now['calls']:,} calls from cache; {old:,} passages were done before"
    )
    if done:
        typer.echo(
            f"  a passage {told['facts'] / done:.1f} facts, {spent['prompt_tokens'] / done:,.0f} + "
            f"{spent['completion_tokens'] / done:,.0f} tokens, {spent['seconds'] / done:.2f} s"
        )
    for why, count in told["left_out"].items():
        typer.echo(f"  left out  {count:,} {why}")
    for name, meaning in _NOTED.items():
        if told[name]:
            typer.echo(f"  {meaning}: {told[name]:,}")
    for kind, count in told["passed_over"].items():
        typer.echo(clean(f"  passed over in the corpus: {count:,} {kind}"))
    for warning in told["warnings"]:
        typer.echo(clean(f"hoptree: {warning}"), err=True)
    if told["stopped_by"]:
        typer.echo(f"  stopped by the budget of {told['stopped_by']}; the same command goes on")
    if estimate := told.get("estimate"):
        _report_estimate(estimate, priced)
    if loaded := told.get("loaded"):
        typer.echo(
            clean(f"  loaded    {counted(loaded['facts'], 'fact')} as {loaded['source']} into {loaded['graph']}")
        )
    for failure in told["failed"][:_LISTED]:
        typer.echo(clean(f"  failed    {failure['passage']}: {failure['message']}"))
    if len(told["failed"]) > _LISTED:
        typer.echo(f"  … and {len(told['failed']) - _LISTED:,} more: failed.jsonl in {told['folder']} lists them")


_NOTED = {
    "without_facts": "passages that gave no fact",
    "unreadable_replies": "replies that were no list of facts",
    "replies_cut_off": "replies cut off for their length (what they had said until then counts)",
    "shortened_passages": "passages longer than a prompt takes (their beginning was read)",
    "passages_with_orders": "passages with sentences that give orders to a model (those were not read)",
}


def _report_estimate(estimate: dict[str, Any], priced: bool) -> None:
    seconds = estimate["seconds_like_the_sample"]
    pace = f", about {seconds:,.0f} s at this pace" if seconds is not None else ""
    cost = f", cost {estimate['cost']:.4f}" if priced else ""
    typer.echo(
        f"  estimate  the other {estimate['passages']:,} passages: {estimate['llm_calls']:,} calls, "
        f"{estimate['tokens']:,} tokens{cost}, {estimate['facts']:,} facts{pace} "
        f"({estimate['seconds_one_by_one']:,.0f} s one by one)"
    )
