"""`hoptree index`: make documents searchable, and keep them so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hoptree.cli.console import clean, counted, print_json, say, stoppable
from hoptree.cli.index_output import (
    announce,
    announce_change,
    passages_of,
    report,
    report_checked,
    say_what_goes,
    shown,
    size_of,
)
from hoptree.cli.options import AsJson
from hoptree.core.errors import ConfigError, InputError


def _goes_on(options: Mapping[str, Any]) -> str:
    """What Ctrl-C leaves of a change that is taken up by the same command, if anything of it was made safe."""
    if options.get("reread"):
        return _begins_again(options)
    if any(options["out"].glob("[0-9]*.part")):
        return f"{_as_it_was(options)}The same command goes on from what was made safe."
    return f"{_as_it_was(options)}Nothing was made safe yet, as it is once a minute: the same command begins again."


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
hoptree index facts docs.facts --out docs.idx      what hoptree graph extract found, for --retriever hippo
hoptree index info --out docs.idx                  what it holds; with --deep, whether all of it is sound
""",
)

Out = Annotated[Path, typer.Option("--out", help="The folder of the index.")]


def _source(name: str) -> Path:
    """A path that was named: an empty name, as of a variable that is not set, would mean the folder one is in."""
    if not name.strip():
        raise InputError("An empty name names no folder or file.", "Give a folder or a file with documents.")
    return Path(name)


Sources = Annotated[list[Path], typer.Argument(parser=_source, help="Folders or files of documents.")]
SkipBroken = Annotated[int, typer.Option(min=0, help="Broken lines and files to pass over before giving up.")]
SkipBrokenNow = Annotated[
    int | None,
    typer.Option("--skip-broken", min=0, help="As for build; by default as it was then.", show_default=False),
]
_NEW = "of documents are new or changed"


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
    from hoptree.retrieval.index.manifest import Settings
    from hoptree.retrieval.indexing.commands import build_index, check_build
    from hoptree.retrieval.indexing.estimates import estimate
    from hoptree.retrieval.indexing.sources import Reading
    from hoptree.retrieval.open_encoder import settled

    settings = Settings(language=language, links=links, encoder=settled(encoder))
    reading = Reading(Chunking.parse(chunk), tokenizer, skip_broken, tuple(without_questions))
    if reading.chunking.by == "tokens" and tokenizer is None:
        raise ConfigError("Cutting by tokens needs a tokenizer.", "Give one: --tokenizer tokenizer.json")
    check_build(out, settings, reading)
    expected = estimate(sources, out, settings)
    announce(expected, f"{size_of(expected.source_bytes)} of documents; the index will take about", "on disk", as_json)
    say_what_goes(out, sources, settings)
    with shown(as_json) as progress:
        outcome = build_index(sources, out, settings=settings, reading=reading, on_progress=progress)
    report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def add(sources: Sources, out: Out, skip_broken: SkipBrokenNow = None, as_json: AsJson = False) -> None:
    """Add the documents of further folders or files. Those that are there already and unchanged are not touched."""
    from hoptree.retrieval.indexing.commands import add_to_index
    from hoptree.retrieval.indexing.estimates import estimate_change

    announce_change(estimate_change(out, sources), _NEW, as_json)
    with shown(as_json) as progress:
        outcome = add_to_index(sources, out, skip_broken=skip_broken, on_progress=progress)
    report(outcome, out, as_json)


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
    from hoptree.retrieval.indexing.commands import update_index
    from hoptree.retrieval.indexing.estimates import estimate_change

    what = "of documents are read again" if reread else _NEW
    announce_change(estimate_change(out, reread=reread), what, as_json)
    with shown(as_json) as progress:
        outcome = update_index(out, reread=reread, skip_broken=skip_broken, on_progress=progress)
    report(outcome, out, as_json)


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
    from hoptree.retrieval.index.manifest import read_manifest
    from hoptree.retrieval.indexing.commands import remove_from_index

    if not all(name.strip() for name in what):
        raise InputError("An empty name names nothing to remove.", "Give ids or sources, or --ids FILE.")
    known = read_manifest(out).sources
    sources = [Path(name) for name in what if os.path.realpath(name) in known]
    single = [name for name in what if os.path.realpath(name) not in known]
    if not what and ids is None:
        raise InputError("Nothing to remove was named.", "Give ids or sources, or --ids FILE.")
    with shown(as_json) as progress:
        outcome = remove_from_index(
            out, ids=[*single, *(_lines(ids) if ids else ())], sources=sources, on_progress=progress
        )
    report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def compact(out: Out, as_json: AsJson = False) -> None:
    """Write an index anew from its own passages, so that scores are as if it had been built at once."""
    from hoptree.retrieval.indexing.commands import compact_index

    with shown(as_json) as progress:
        outcome = compact_index(out, on_progress=progress)
    report(outcome, out, as_json)


@app.command()
@stoppable(_goes_on)
def encode(
    out: Out,
    encoder: Annotated[str, typer.Option(help="minilm, onnx/FOLDER, static/FOLDER, openai/NAME or st/NAME.")],
    as_json: AsJson = False,
) -> None:
    """Give an index vectors, for --retriever dense and hybrid."""
    from hoptree.retrieval.index.manifest import read_manifest
    from hoptree.retrieval.indexing.commands import encode_index
    from hoptree.retrieval.indexing.estimates import estimate_encoding
    from hoptree.retrieval.open_encoder import settled

    passages, spec = passages_of(read_manifest(out).passages), settled(encoder)
    expected = estimate_encoding(out, spec)
    announce(expected, f"{passages}; with vectors the index will take up to about", "more on disk", as_json)
    with shown(as_json) as progress:
        outcome = encode_index(out, spec, on_progress=progress)
    if as_json:
        report(outcome, out, as_json)
    else:
        typer.echo(f"{passages_of(outcome.manifest.passages)} in {out}: vectors by {outcome.manifest.settings.encoder}")


@app.command()
@stoppable(_goes_on)
def facts(
    facts: Annotated[Path, typer.Argument(help="A folder of hoptree graph extract, or its facts.jsonl.")],
    out: Out,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="What finds facts, and phrases that mean the same: minilm, onnx/FOLDER, …; none for words alone.  "
            "[default: the one of the index]",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give an index the facts that a model read from its passages, for --retriever hippo.

    \b
    hoptree graph extract docs.idx --out docs.facts -m openai/NAME
    hoptree index facts docs.facts --out docs.idx

    Given again, only what is new is encoded and compared. The facts of a passage take the place of those it had; facts
    of a passage that changed in the index do not count until it is extracted again.
    """
    from dataclasses import asdict

    from hoptree.retrieval.indexing.commands import add_facts
    from hoptree.retrieval.open_encoder import settled

    spec = None if encoder is None else "" if encoder == "none" else settled(encoder)
    with shown(as_json) as progress:
        taken = add_facts(facts, out, encoder=spec, on_progress=progress)
    if taken.strange:
        say(f"{passages_of(taken.strange)} of the facts are not in the index; left out.")
    if not taken.encoder:
        say("without an encoder facts are found by their words, and phrases are one only if their words are.")
    if as_json:
        print_json({"index": str(out), **asdict(taken)})
        return
    typer.echo(
        f"{counted(taken.facts, 'fact')} of {passages_of(taken.passages)} in {out} "
        f"({taken.new:,} new, {taken.gone:,} gone): "
        f"{taken.phrases:,} phrases, {taken.synonyms:,} pairs of synonyms by {taken.encoder or 'no encoder'}"
    )


@app.command()
@stoppable(lambda options: "The index is as it was.")
def info(
    out: Out,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Read the whole index: compare every file of texts and links with its checksum and every passage with "
            "its digest, and look for its links and its vector. Takes some seconds for every 100,000 passages.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what an index holds and how it was made, after checking that it can be read.

    Without --deep every part is opened and one passage of each segment is read: files that are missing, cut off or of
    another index are noticed, damage in the midst of a file is not. An index that is damaged ends it with exit code 2.
    """
    from dataclasses import asdict

    from hoptree.retrieval.hippo.retriever import held_facts
    from hoptree.retrieval.index.folder import Index
    from hoptree.retrieval.indexing.check import check_all, check_parts
    from hoptree.retrieval.indexing.sources import Reading

    index = Index(out)
    manifest, checked = index.manifest, None
    if deep:
        with shown(as_json) as progress:
            checked = check_all(index, on_progress=progress)
    else:
        check_parts(index)
    held = held_facts(index)
    if as_json:
        facts_held = {"facts": asdict(held)} if held else {}
        looked_at = {"checked": asdict(checked)} if checked else {}
        print_json({"index": str(out), **asdict(manifest), **facts_held, **looked_at})
        return
    settings = manifest.settings
    typer.echo(f"{passages_of(manifest.passages)}, {size_of(manifest.bytes)}, in {out}")
    links = "yes" if settings.links else "no"
    typer.echo(f"  language {settings.language}, links {links}, vectors {settings.encoder or 'none'}")
    if held:
        by = held.encoder or "their words"
        typer.echo(f"  {counted(held.facts, 'fact')} of {passages_of(held.passages)}, found by {by}")
    typer.echo(f"  digest {manifest.digest}")
    with closing(index.ledger()) as ledger:
        for source in manifest.sources:
            prefix = ledger.prefix_of(source)
            typer.echo(clean(f"  from {source}{f' (its files are called {prefix}/…)' if prefix else ''}"))
    for path in Reading.restored(manifest.reading).without:
        typer.echo(clean(f"  without passages that hold a question of {path}"))
    if checked:
        report_checked(checked, settings)


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from (line.strip() for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a text file with an id a line.") from error
