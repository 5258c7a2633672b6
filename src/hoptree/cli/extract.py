"""`hoptree graph extract`: facts from passages by a model."""

from __future__ import annotations

import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hoptree.cli.console import counted, echo, fail, print_report, run_to_end, warn
from hoptree.cli.options import AsJson, BaseURL, Concurrency, Model, NoCache, PricesText, check_prices, read_prices
from hoptree.cli.progress import progress_bar
from hoptree.core.files import FolderLock

if TYPE_CHECKING:
    from hoptree.extraction.run import Progress


_SAMPLE_PASSAGES = 5
_MAX_LISTED = 5


def extract(
    corpus: Annotated[
        str, Argument(help="An index made by hoptree index, a file or folder of documents, or 'sample'.")
    ],
    out: Annotated[Path, Option(help="The folder of the extraction; the same command goes on with it.")],
    into: Annotated[
        Path | None, Option(metavar="GRAPH", help="Load the facts into this graph afterwards, as the source OUT.")
    ] = None,
    model: Model = "",
    limit: Annotated[int | None, Option(min=1, help="Only the first N passages.")] = None,
    budget: Annotated[
        str,
        Option(
            metavar="LIMITS", help="Begin no passage beyond calls=500,tokens=900000,seconds=3600,cost=2 (any of them)."
        ),
    ] = "",
    prices: PricesText = "",
    base_url: BaseURL = "",
    concurrency: Concurrency = None,
    anyway: Annotated[bool, Option("--anyway", help="Go on in a folder of another corpus, model or prompt.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help=f"Read {_SAMPLE_PASSAGES} passages, and say what the others would take.")
    ] = False,
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Have a model extract the facts of passages as triples, for hoptree graph load.

    A fact is kept if its names are in its passage; it names this passage, its document and the sentence. Every passage
    is stored when it is done: the same command resumes, done passages cost nothing, and failed ones are tried again.

    \b
    hoptree graph extract docs.idx --out docs.facts --dry-run -m openai/NAME --prices 0.15/0.60
    hoptree graph extract docs.idx --out docs.facts --into kg -m openai/NAME --budget cost=2 --prices 0.15/0.60
    hoptree graph entity "Elia Kazan" --graph kg
    """
    from hoptree.engine.context import Budget, Prices
    from hoptree.extraction.run import ExtractionSpec
    from hoptree.extraction.run import extract as extract_facts
    from hoptree.models import DEFAULT_MODEL, open_model

    limits = Budget.parse(budget)
    check_prices(limits.cost, prices)
    if into is not None:
        _check_graph(into)
    spec = ExtractionSpec(
        corpus,
        out,
        limit=limit,
        only=_SAMPLE_PASSAGES if dry_run else None,
        budget=limits,
        prices=read_prices(prices) or Prices(),
        cache=None if no_cache else "default",
        concurrency=concurrency,
        anyway=anyway,
    )

    async def extract_all() -> dict[str, Any]:
        async with aclosing(open_model(model or DEFAULT_MODEL, base_url=base_url)) as opened:
            with progress_bar(as_json) as update_bar:
                return await extract_facts(
                    spec, opened, on_progress=lambda now: update_bar(now.done, now.total, lambda: describe(now))
                )

    summary = run_to_end(extract_all(), "passages", cached=not no_cache)
    if into is not None and not dry_run:
        from hoptree.graph.loading import load_graph

        file = Path(summary["file"])
        loaded = load_graph(into, [file], source=file.resolve().parent.name, empty=True)
        summary["loaded"] = {
            "graph": str(into),
            "source": loaded.sources[0].name if loaded.sources else "",
            "facts": loaded.sources[0].facts if loaded.sources else 0,
            "facts_in_graph": loaded.manifest.facts,
            "broken": loaded.broken,
        }
    print_report(summary, partial(_report, priced=bool(prices)), as_json=as_json)
    if failed := len(summary["failed"]):
        fail(
            f"{counted(failed, 'passage')} could not be read.",
            "The same command tries again; the others cost nothing.",
        )


def describe(progress: Progress) -> str:
    """Return the progress of an extraction in a few words."""
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
    """Fail before anything is paid for if facts cannot be loaded there."""
    from hoptree.graph import MANIFEST
    from hoptree.graph.folder import check_place, read_manifest
    from hoptree.graph.oxigraph import ox  # noqa: F401 - reports a missing library

    check_place(into)
    # An interrupted load may have left a lock and numbered files, but nothing else.
    foreign = into.exists() and not (
        into.is_dir()
        and all(path.name == FolderLock.NAME or path.name.split(".")[0].isdigit() for path in into.iterdir())
    )
    if foreign or (into / MANIFEST).exists():
        read_manifest(into)


_NOTES = {
    "without_facts": "passages that gave no fact",
    "unreadable_replies": "replies that were not a list of facts",
    "replies_cut_off": "replies cut off for their length (what they had said until then counts)",
    "shortened_passages": "passages longer than a prompt takes (their beginning was read)",
    "passages_with_orders": "passages with sentences that give orders to a model (those were not read)",
}


def _report(summary: dict[str, Any], *, priced: bool) -> None:
    done, spent, now = summary["finished"], summary["spent"], summary["now"]
    of_all = f" of {summary['passages']:,}" if done < summary["passages"] else ""
    echo(f"{counted(summary['facts'], 'fact')} from {done:,}{of_all} passages, in {summary['file']}")
    cost = f", cost {now['cost']:.4f}" if priced else ""
    echo(
        f"  now       {summary['new']:,} passages in {summary['seconds']:,.1f} s, {now['tokens']:,} tokens{cost}, "
        f"{now['cached']:,} of {now['calls']:,} calls from cache; {done - summary['new']:,} passages were done before"
    )
    if done:
        echo(
            f"  a passage {summary['facts'] / done:.1f} facts, {spent['prompt_tokens'] / done:,.0f} + "
            f"{spent['completion_tokens'] / done:,.0f} tokens, {spent['seconds'] / done:.2f} s"
        )
    for why, count in summary["left_out"].items():
        echo(f"  left out  {count:,} {why}")
    for name, meaning in _NOTES.items():
        if summary[name]:
            echo(f"  {meaning}: {summary[name]:,}")
    for kind, count in summary["passed_over"].items():
        echo(f"  passed over in the corpus: {count:,} {kind}")
    for warning in summary["warnings"]:
        warn(warning)
    if summary["stopped_by"]:
        echo(f"  stopped by the budget of {summary['stopped_by']}; the same command goes on")
    if estimate := summary.get("estimate"):
        seconds = estimate["seconds_like_the_sample"]
        pace = f", about {seconds:,.0f} s at this pace" if seconds is not None else ""
        cost = f", cost {estimate['cost']:.4f}" if priced else ""
        echo(
            f"  estimate  the other {estimate['passages']:,} passages: {estimate['llm_calls']:,} calls, "
            f"{estimate['tokens']:,} tokens{cost}, {estimate['facts']:,} facts{pace} "
            f"({estimate['seconds_one_by_one']:,.0f} s one by one)"
        )
    if loaded := summary.get("loaded"):
        echo(f"  loaded    {counted(loaded['facts'], 'fact')} as {loaded['source']} into {loaded['graph']}")
    for failure in summary["failed"][:_MAX_LISTED]:
        echo(f"  failed    {failure['passage']}: {failure['message']}")
    if (left := len(summary["failed"]) - _MAX_LISTED) > 0:
        echo(f"  … and {left:,} more: failed.jsonl in {summary['folder']} lists them")
