"""`hoptree index`: make documents searchable, and keep them so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hoptree.cli.console import clean, print_json, stoppable
from hoptree.errors import ConfigError, InputError, MissingExtra

if TYPE_CHECKING:
    from hoptree.indexing import Outcome, Progress
    from hoptree.retrieval.index.manifest import Settings

__all__ = ["app"]


def _goes_on(options: Mapping[str, Any]) -> str:
    """What Ctrl-C leaves of a change that is taken up by the same command, if anything of it was made safe."""
    if options.get("reread") or not any(options["out"].glob("[0-9]*.part")):
        return _begins_again(options)
    return f"{_as_it_was(options)}The same command goes on from what was made safe."


def _begins_again(options: Mapping[str, Any]) -> str:
    return f"{_as_it_was(options)}The same command begins again."


def _as_it_was(options: Mapping[str, Any]) -> str:
    from hoptree.retrieval.index.manifest import MANIFEST

    return "The index is as it was. " if (options["out"] / MANIFEST).exists() else ""


class _BuildIsDefault(TyperGroup):
    """`hoptree index docs/ --out DIR` means `hoptree index build docs/ --out DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            meant = get_close_matches(args[0], self.commands, 1)
            if meant and not args[0].startswith("-") and not Path(args[0]).exists():
                ctx.fail(f"'{clean(args[0])}' is no command, file or folder. Did you mean 'hoptree index {meant[0]}'?")
            args = ["build", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BuildIsDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Make documents searchable, and keep the index up to date.

\b
hoptree index docs/ --out docs.idx                 build (text, Markdown, HTML, PDF, JSON, JSONL, TSV; gzip too)
hoptree index add more/ --out docs.idx             further documents; only what is new is touched
hoptree index update --out docs.idx                what changed in its sources since
hoptree index remove ID --out docs.idx             passages, documents or whole sources
hoptree index info --out docs.idx                  what it holds
""",
)

Out = Annotated[Path, typer.Option("--out", help="The folder of the index.")]
Sources = Annotated[list[Path], typer.Argument(help="Folders or files of documents.")]
SkipBroken = Annotated[int, typer.Option(min=0, help="Broken lines and files to pass over before giving up.")]
SkipBrokenNow = Annotated[
    int | None,
    typer.Option("--skip-broken", min=0, help="As for build; by default as it was then.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.command()
@stoppable(_goes_on)
def build(
    sources: Sources,
    out: Out,
    language: Annotated[str, typer.Option(help="For stemming and stop words; 'none' for neither.")] = "english",
    chunk: Annotated[
        str,
        typer.Option(
            metavar="BY:SIZE:OVERLAP",
            help="How documents are cut: words:200:20, tokens:256:32, sections; auto keeps rows of JSONL whole.",
        ),
    ] = "auto",
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer.json, for --chunk tokens.", show_default=False)
    ] = None,
    links: Annotated[bool, typer.Option(help="Find out who mentions whom, for --retriever linked.")] = True,
    encoder: Annotated[
        str, typer.Option(help="Also make vectors: minilm, onnx/FOLDER, static/FOLDER, openai/NAME, st/NAME.")
    ] = "",
    without_questions: Annotated[
        list[Path], typer.Option(help="Leave out passages that hold a question of this evaluation file.")
    ] = [],  # noqa: B006 - typer copies it
    skip_broken: SkipBroken = 100,
    as_json: AsJson = False,
) -> None:
    """Make an index. One that is there stays usable meanwhile; a run that was killed goes on when it is repeated."""
    from hoptree.corpus.chunk import Chunking
    from hoptree.indexing import Reading, build_index, check_build, estimate
    from hoptree.retrieval.encoders.opening import settled
    from hoptree.retrieval.index.manifest import Settings

    settings = Settings(language=language, links=links, encoder=settled(encoder))
    reading = Reading(Chunking.parse(chunk), tokenizer, skip_broken, tuple(without_questions))
    if reading.chunking.by == "tokens" and tokenizer is None:
        raise ConfigError("Cutting by tokens needs a tokenizer.", "Give one: --tokenizer tokenizer.json")
    check_build(out, settings, reading)
    expected = estimate(sources, out, settings)
    if not as_json:
        typer.echo(
            f"{_size(expected.source_bytes)} of documents; the index will take about {_size(expected.disk_bytes)} on "
            f"disk ({_size(expected.free_bytes)} free) and up to {_size(expected.memory_bytes)} of memory while it is "
            "made.",
            err=True,
        )
    if expected.disk_bytes > expected.free_bytes:
        typer.echo("hoptree: that may not fit on the disk.", err=True)
    _say_what_goes(out, sources, settings)
    with _shown(as_json) as progress:
        outcome = build_index(sources, out, settings=settings, reading=reading, on_progress=progress)
    _report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def add(sources: Sources, out: Out, skip_broken: SkipBrokenNow = None, as_json: AsJson = False) -> None:
    """Add the documents of further folders or files. Those that are there already and unchanged are not touched."""
    from hoptree.indexing import add_to_index

    with _shown(as_json) as progress:
        outcome = add_to_index(sources, out, skip_broken=skip_broken, on_progress=progress)
    _report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def update(
    out: Out,
    reread: Annotated[
        bool,
        typer.Option(
            "--reread",
            help="Read files again whose size and time are what they were; brings back what remove took out of them.",
        ),
    ] = False,
    skip_broken: SkipBrokenNow = None,
    as_json: AsJson = False,
) -> None:
    """Take in what is new or changed in the sources of an index, and take out what is gone.

    A file counts as changed when its size or its time is another one.
    """
    from hoptree.indexing import update_index

    with _shown(as_json) as progress:
        outcome = update_index(out, reread=reread, skip_broken=skip_broken, on_progress=progress)
    _report(outcome, out, as_json)


@app.command()
@stoppable(_begins_again)
def remove(
    out: Out,
    what: Annotated[
        list[str],
        typer.Argument(help="Ids of passages or documents, names or paths of files, or sources of the index."),
    ] = [],  # noqa: B006 - typer copies it
    ids: Annotated[Path | None, typer.Option(help="A file with an id a line.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Take passages, documents or whole sources out of an index.

    What is taken out of a file that stays a source comes back when that file changes, and with update --reread: to be
    rid of it, mend the file.
    """
    from hoptree.indexing import remove_from_index
    from hoptree.retrieval.index.manifest import read_manifest

    if not all(name.strip() for name in what):
        raise InputError("An empty name names nothing to remove.", "Give ids or sources, or --ids FILE.")
    known = read_manifest(out).sources
    sources = [Path(name) for name in what if os.path.realpath(name) in known]
    single = [name for name in what if os.path.realpath(name) not in known]
    if not what and ids is None:
        raise InputError("Nothing to remove was named.", "Give ids or sources, or --ids FILE.")
    with _shown(as_json) as progress:
        outcome = remove_from_index(
            out, ids=[*single, *(_lines(ids) if ids else ())], sources=sources, on_progress=progress
        )
    _report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def compact(out: Out, as_json: AsJson = False) -> None:
    """Write an index anew from its own passages, so that scores are as if it had been built at once."""
    from hoptree.indexing import compact_index

    with _shown(as_json) as progress:
        outcome = compact_index(out, on_progress=progress)
    _report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def encode(
    out: Out,
    encoder: Annotated[str, typer.Option(help="minilm, onnx/FOLDER, static/FOLDER, openai/NAME or st/NAME.")],
    as_json: AsJson = False,
) -> None:
    """Give an index vectors, for --retriever dense and hybrid."""
    from hoptree.indexing import encode_index
    from hoptree.retrieval.encoders.opening import settled

    with _shown(as_json) as progress:
        outcome = encode_index(out, settled(encoder), on_progress=progress)
    if as_json:
        _report(outcome, out, as_json)
    else:
        typer.echo(
            f"{outcome.manifest.passages:,} passages in {out} have vectors by {outcome.manifest.settings.encoder}"
        )


@app.command()
def info(out: Out, as_json: AsJson = False) -> None:
    """Show what an index holds and how it was made, after checking that it can be read."""
    from dataclasses import asdict

    from hoptree.indexing import Reading
    from hoptree.retrieval.index.folder import Index
    from hoptree.retrieval.index.links import Links

    index = Index(out)
    index.texts.check()
    index.ledger().close()
    manifest = index.manifest
    if manifest.settings.links:
        Links(index.links)
    if manifest.settings.encoder:
        with suppress(MissingExtra):  # who cannot search by vectors may still ask what else is there
            index.open_vectors()
    if as_json:
        print_json({"index": str(out), **asdict(manifest)})
        return
    settings = manifest.settings
    typer.echo(f"{manifest.passages:,} passages, {_size(manifest.bytes)}, in {out}")
    links = "yes" if settings.links else "no"
    typer.echo(f"  language {settings.language}, links {links}, vectors {settings.encoder or 'none'}")
    typer.echo(f"  digest {manifest.digest}")
    for source in manifest.sources:
        typer.echo(clean(f"  from {source}"))
    for path in Reading.restored(manifest.reading).without:
        typer.echo(clean(f"  without passages that hold a question of {path}"))


def _say_what_goes(out: Path, sources: list[Path], settings: Settings) -> None:
    """A new index takes the place of the old one, which may hold more than the command makes again."""
    from hoptree.errors import CorpusError
    from hoptree.retrieval.index.manifest import read_manifest

    try:
        old = read_manifest(out)
    except CorpusError:
        return
    gone = sorted(set(old.sources) - {str(source.resolve()) for source in sources})
    if gone:
        _say(f"the index there now was also made from {', '.join(gone)}, which the new one leaves out.")
    if old.settings.encoder and not settings.encoder:
        _say(f"the index there now has vectors, which the new one has not without --encoder {old.settings.encoder}.")


def _say(sentence: str) -> None:
    typer.echo(clean(f"hoptree: {sentence}"), err=True)


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[Progress], None]]:
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
    with Bar(*columns, console=Console(stderr=True), transient=True, disable=quiet) as bar:
        task = bar.add_task("reading", total=None, passages=0, rate="")
        stage = "reading"

        def advance(progress: Progress) -> None:
            nonlocal stage
            if progress.stage != stage:
                stage = progress.stage
                bar.reset(task, description=stage, total=progress.total)
            elapsed = bar.tasks[0].elapsed or 0.0
            count = progress.passages if stage == "reading" else progress.done
            rate = f"{count / elapsed:,.0f} a second" if elapsed > 1 else ""
            bar.update(task, completed=progress.done, total=progress.total, passages=count, rate=rate)

        yield advance


def _report(outcome: Outcome, out: Path, as_json: bool) -> None:
    for sentence in outcome.examples:
        _say(sentence)
    if outcome.passed_over:
        _say(f"passed over: {outcome.passed_over}")
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
        f"{outcome.manifest.passages:,} passages in {out} ({_size(outcome.manifest.bytes)}): "
        f"{', '.join(done) or 'nothing changed'}{'; went on where a run was cut off' if outcome.resumed else ''}"
    )


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from (line.strip() for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a text file with an id a line.") from error


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
