"""What `hoptree index` says: before it begins, while it works, and in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hoptree.cli.console import print_json, say

if TYPE_CHECKING:
    from hoptree.retrieval.index.manifest import Settings
    from hoptree.retrieval.indexing.check import Checked
    from hoptree.retrieval.indexing.estimates import Estimate
    from hoptree.retrieval.indexing.sources import Outcome, Progress


def report_checked(checked: Checked, settings: Settings) -> None:
    parts = [
        f"{checked.passages:,} passages by their digests",
        f"{size_of(checked.bytes)} of files by their checksums",
        f"the links of {checked.linked:,} passages" if checked.linked is not None else "",
        f"{checked.vectors:,} vectors (that each passage has one)" if checked.vectors is not None else "",
    ]
    typer.echo(f"  sound: {', '.join(filter(None, parts))}")
    if settings.encoder and checked.vectors is None:
        say("the vectors were not looked at: that needs pip install 'hoptree[dense]'.")


def say_what_goes(out: Path, sources: list[Path], settings: Settings) -> None:
    """A new index takes the place of the old one, which may hold more than the command makes again."""
    from hoptree.core.errors import CorpusError
    from hoptree.retrieval.index.manifest import read_manifest

    try:
        old = read_manifest(out)
    except CorpusError:
        return
    gone = sorted(set(old.sources) - {str(source.resolve()) for source in sources})
    if gone:
        say(f"the index there now was also made from {', '.join(gone)}, which the new one leaves out.")
    if old.settings.encoder and not settings.encoder:
        say(f"the index there now has vectors, which the new one has not without --encoder {old.settings.encoder}.")


def announce_change(expected: Estimate, what: str, quiet: bool) -> None:
    if quiet or expected.source_bytes:
        beginning = f"{size_of(expected.source_bytes)} {what}; the index will take up to about"
        announce(expected, beginning, "more on disk", quiet)
    else:
        typer.echo("No document of the sources is new or changed.", err=True)


def announce(expected: Estimate, beginning: str, where: str, quiet: bool) -> None:
    """Say before the work begins what it will take."""
    if not quiet:
        typer.echo(
            f"{beginning} {size_of(expected.disk_bytes)} {where} "
            f"({size_of(expected.free_bytes)} free) and up to {size_of(expected.memory_bytes)} of memory while it is "
            "made.",
            err=True,
        )
    if expected.disk_bytes > expected.free_bytes:
        say("that may not fit on the disk.")


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A bar with rate and remaining time, on the terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[passages]:,} passages"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("reading", total=None, passages=0, rate="")
        stage = "reading"

        def advance(progress: Progress) -> None:
            nonlocal stage
            if progress.stage != stage:
                stage = progress.stage
                bar.reset(task, description=stage, total=progress.total)
            elapsed = bar.tasks[0].elapsed or 0.0
            count = progress.passages if stage in ("reading", "checking files") else progress.done  # those are bytes
            rate = f"{count / elapsed:,.0f} a second" if elapsed > 1 else ""
            bar.update(task, completed=progress.done, total=progress.total, passages=count, rate=rate)

        yield advance


def report(outcome: Outcome, out: Path, as_json: bool) -> None:
    for sentence in outcome.examples:
        say(sentence)
    if outcome.passed_over:
        say(f"passed over: {outcome.passed_over}")
    if as_json:
        data = outcome.as_dict()
        manifest = data.pop("manifest")
        assert isinstance(manifest, dict)
        print_json({"index": str(out), **manifest, **data})
        return
    done = [
        f"{count:,} {what}"
        for count, what in (
            (outcome.added, "added"),
            (outcome.replaced, "replaced"),
            (outcome.removed, "removed"),
            (outcome.unchanged, "unchanged"),
            (outcome.repeated, "repeated and kept once"),
            (outcome.held_questions, "left out because they hold an evaluation question"),
        )
        if count
    ]
    typer.echo(
        f"{passages_of(outcome.manifest.passages)} in {out} ({size_of(outcome.manifest.bytes)}): "
        f"{', '.join(done) or 'nothing changed'}{'; went on where a run was cut off' if outcome.resumed else ''}"
    )


def passages_of(count: int) -> str:
    return f"{count:,} passage{'s' * (count != 1)}"


def size_of(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
