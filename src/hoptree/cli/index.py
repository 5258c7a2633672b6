"""`hoptree index`: make documents searchable, and keep them so."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from typer import Argument, Option
from typer.core import TyperGroup

from hoptree.cli.console import clean, counted, echo, one_line, print_json, stoppable, warn
from hoptree.cli.options import AsJson
from hoptree.cli.progress import indexing_bar
from hoptree.core.errors import ConfigError, CorpusError, InputError, ModelError, closest
from hoptree.corpus.chunk import Chunking
from hoptree.retrieval import indexing
from hoptree.retrieval.encoder import absolute_spec
from hoptree.retrieval.hippo_retriever import count_facts
from hoptree.retrieval.index.folder import MANIFEST, Index, Settings, read_manifest
from hoptree.retrieval.indexing import check as checking
from hoptree.retrieval.indexing.sources import Outcome, Reading

_SHOWN_FILES = 8  # of those that were passed over


def _resumes(options: Mapping[str, Any]) -> str:
    """Describe what Ctrl-C leaves of a resumable change."""
    if options.get("reread"):
        return _restarts(options)
    if any(options["out"].glob("[0-9]*.part")):
        return f"{_unchanged(options)}The same command goes on from what was saved."
    return f"{_unchanged(options)}Nothing was saved yet (that is once a minute): the same command begins again."


def _restarts(options: Mapping[str, Any]) -> str:
    return f"{_unchanged(options)}The same command begins again."


def _unchanged(options: Mapping[str, Any]) -> str:
    return "The index is as it was. " if (options["out"] / MANIFEST).exists() else ""


class _BuildIsDefault(TyperGroup):
    """`hoptree index docs/ --out DIR` means `hoptree index build docs/ --out DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            meant = closest(args[0], self.commands)
            if meant and not args[0].startswith("-") and not Path(args[0]).exists():
                ctx.fail(f"'{clean(args[0])}' is not a command, file or folder. Did you mean 'hoptree index {meant}'?")
            args = ["build", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BuildIsDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Make documents searchable, and keep the index up to date.

\b
hoptree index docs/ --out docs.idx                 build (PDF, Word, Excel, HTML, Markdown, e-mail, JSON, …)
hoptree index add more/ --out docs.idx             further documents; only what is new is touched
hoptree index update --out docs.idx                what changed in its sources since
hoptree index remove ID --out docs.idx             passages, documents or whole sources
hoptree index facts docs.facts --out docs.idx      what hoptree graph extract found, for --retriever hippo
hoptree index info docs.idx                        what it holds
hoptree index check docs.idx                       whether all of it is sound; else what is damaged
""",
)

Out = Annotated[Path, Option("--out", help="The folder of the index.")]


Named = Annotated[Path | None, Argument(metavar="[INDEX]", help="The folder of the index.", show_default=False)]
OrOut = Annotated[Path | None, Option("--out", help="The same, as the other commands name it.", show_default=False)]


def _one_index(named: Path | None, out: Path | None) -> Path:
    """Return the index that was named, by argument or option."""
    if named and out and named != out:
        raise InputError(f"Two indexes were named: {named} and {out}.", "Name one.")
    if folder := named or out:
        return folder
    raise InputError("No index was named.", "Name one: hoptree index info docs.idx")


def _source(name: str) -> Path:
    """Return a path; refuse an empty name, which would mean this folder."""
    if not name.strip():
        raise InputError("An empty name names no folder or file.", "Give a folder or a file with documents.")
    return Path(name)


Sources = Annotated[list[Path], Argument(parser=_source, help="Folders or files of documents.")]
SkipBroken = Annotated[
    int, Option(min=0, help="Broken rows of JSON or CSV to pass over before giving up; files do not count.")
]
SkipBrokenNow = Annotated[int | None, Option("--skip-broken", min=0, help="As for build; by default as it was then.")]
Watch = Annotated[bool, Option("--watch", help="Stay, and take in what changes, until Ctrl-C.")]
_CHANGED = "of documents are new or changed"
_WATCH_INTERVAL_S = 2.0


@app.command()
@stoppable(_resumes)
def build(
    sources: Sources,
    out: Out,
    language: Annotated[str, Option(help="For stemming and stop words; 'none' for neither.")] = "english",
    chunk: Annotated[
        str,
        Option(
            metavar="BY:SIZE:OVERLAP", help="words:200:20, tokens:256:32 or sections; auto keeps rows of JSONL whole."
        ),
    ] = "auto",
    tokenizer: Annotated[Path | None, Option(help="A tokenizer.json, for --chunk tokens.")] = None,
    links: Annotated[bool, Option(help="Find out who mentions whom, for --retriever linked.")] = True,
    encoder: Annotated[
        str, Option(help="Also make vectors: minilm, onnx/FOLDER, static/FOLDER, openai/NAME, st/NAME.")
    ] = "",
    without_questions: Annotated[
        list[Path], Option(help="Leave out passages that hold a question of this evaluation file.")
    ] = [],
    skip_broken: SkipBroken = 100,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Make an index. An old one stays usable meanwhile; an interrupted run resumes."""
    settings = Settings(language=language, links=links, encoder=absolute_spec(encoder))
    reading = Reading(Chunking.parse(chunk), tokenizer, skip_broken, tuple(without_questions))
    if reading.chunking.by == "tokens" and tokenizer is None:
        raise ConfigError("Cutting by tokens needs a tokenizer.", "Give one: --tokenizer tokenizer.json")
    indexing.check_build(out, settings, reading)
    expected = checking.estimate(sources, out, settings)
    _announce(expected, f"{decimal(expected.source_bytes)} of documents; the index will take about", "on disk", as_json)
    _warn_of_losses(out, sources, settings)
    with indexing_bar(as_json) as progress:
        outcome = indexing.build_index(sources, out, settings=settings, reading=reading, on_progress=progress)
    _report(outcome, out, as_json)
    if watch:
        _keep_current(out, None, as_json)


@app.command()
@stoppable(_resumes)
def add(sources: Sources, out: Out, skip_broken: SkipBrokenNow = None, as_json: AsJson = False) -> None:
    """Add the documents of further folders or files; unchanged ones are skipped."""
    _announce_change(checking.estimate_change(out, sources), _CHANGED, as_json)
    with indexing_bar(as_json) as progress:
        outcome = indexing.add_to_index(sources, out, skip_broken=skip_broken, on_progress=progress)
    _report(outcome, out, as_json)


@app.command()
@stoppable(_resumes)
def update(
    out: Out,
    reread: Annotated[
        bool, Option("--reread", help="Read unchanged files again, too; brings back what remove took out of them.")
    ] = False,
    skip_broken: SkipBrokenNow = None,
    watch: Watch = False,
    as_json: AsJson = False,
) -> None:
    """Take in new and changed files of an index's sources, and drop missing ones.

    A file counts as changed when its size or time differs.
    """
    what = "of documents are read again" if reread else _CHANGED
    _announce_change(checking.estimate_change(out, reread=reread), what, as_json)
    with indexing_bar(as_json) as progress:
        outcome = indexing.update_index(out, reread=reread, skip_broken=skip_broken, on_progress=progress)
    _report(outcome, out, as_json)
    if watch:
        _keep_current(out, skip_broken, as_json)


def _keep_current(out: Path, skip_broken: int | None, as_json: bool) -> None:
    """Update the index whenever its sources have changed."""
    typer.echo("Watching for changes; Ctrl-C ends it.", err=True)
    failure = ""
    with suppress(KeyboardInterrupt):
        while True:
            sleep(_WATCH_INTERVAL_S)
            try:
                if not checking.is_current(out):
                    _report(indexing.update_index(out, skip_broken=skip_broken), out, as_json)
                failure = ""
            except (CorpusError, ModelError) as error:  # a missing folder or endpoint may come back
                if error.cause != failure:
                    warn(f"{error.cause} Still watching.")
                failure = error.cause


@app.command()
@stoppable(_restarts)
def remove(
    out: Out,
    what: Annotated[
        list[str], Argument(help="Ids of passages or documents, names or paths of files, or sources of the index.")
    ] = [],
    ids: Annotated[Path | None, Option(help="A file with an id a line.")] = None,
    as_json: AsJson = False,
) -> None:
    """Remove passages, documents or whole sources from an index.

    What is removed of a file that stays a source comes back when that file changes, and with update --reread: to remove
    it for good, edit the file.
    """
    if not all(name.strip() for name in what):
        raise InputError("An empty name names nothing to remove.", "Give ids or sources, or --ids FILE.")
    known = read_manifest(out).sources
    sources = [Path(name) for name in what if os.path.realpath(name) in known]
    single = [name for name in what if os.path.realpath(name) not in known]
    if not what and ids is None:
        raise InputError("Nothing to remove was named.", "Give ids or sources, or --ids FILE.")
    with indexing_bar(as_json) as progress:
        outcome = indexing.remove_from_index(
            out, ids=[*single, *(_lines(ids) if ids else ())], sources=sources, on_progress=progress
        )
    _report(outcome, out, as_json)


@app.command()
@stoppable(_resumes)
def compact(out: Out, as_json: AsJson = False) -> None:
    """Rewrite an index from its own passages, as if it had been built at once."""
    with indexing_bar(as_json) as progress:
        outcome = indexing.compact_index(out, on_progress=progress)
    _report(outcome, out, as_json)


@app.command()
@stoppable(_resumes)
def encode(
    out: Out,
    encoder: Annotated[str, Option(help="minilm, onnx/FOLDER, static/FOLDER, openai/NAME or st/NAME.")],
    as_json: AsJson = False,
) -> None:
    """Give an index vectors, for --retriever dense and hybrid."""
    passages, spec = counted(read_manifest(out).passages, "passage"), absolute_spec(encoder)
    expected = checking.estimate_encoding(out, spec)
    _announce(expected, f"{passages}; with vectors the index will take up to about", "more on disk", as_json)
    with indexing_bar(as_json) as progress:
        outcome = indexing.encode_index(out, spec, on_progress=progress)
    if as_json:
        _report(outcome, out, as_json)
    else:
        manifest = outcome.manifest
        echo(f"{counted(manifest.passages, 'passage')} in {out}: vectors by {manifest.settings.encoder}")


@app.command()
@stoppable(_resumes)
def facts(
    facts: Annotated[Path, Argument(help="A folder of hoptree graph extract, or its facts.jsonl.")],
    out: Out,
    encoder: Annotated[
        str | None,
        Option(help="Finds facts and synonyms: minilm, onnx/FOLDER, …, or none.  [default: that of the index]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give an index the facts that a model extracted from it, for --retriever hippo.

    \b
    hoptree graph extract docs.idx --out docs.facts -m openai/NAME
    hoptree index facts docs.facts --out docs.idx

    If repeated, only new facts are encoded and compared. New facts of a passage replace its old ones; facts of a
    passage that has changed in the index do not count until it is extracted again.
    """
    spec = None if encoder is None else "" if encoder == "none" else absolute_spec(encoder)
    with indexing_bar(as_json) as progress:
        taken = indexing.add_facts(facts, out, encoder=spec, on_progress=progress)
    if taken.strange:
        warn(f"{counted(taken.strange, 'passage')} of the facts are not in the index; left out.")
    if not taken.encoder:
        warn("without an encoder facts are found by their words, and phrases are one only if their words are.")
    if as_json:
        print_json({"index": str(out), **asdict(taken)})
        return
    echo(
        f"{counted(taken.facts, 'fact')} of {counted(taken.passages, 'passage')} in {out} "
        f"({taken.new:,} new, {taken.gone:,} gone): "
        f"{taken.phrases:,} phrases, {taken.synonyms:,} pairs of synonyms by {taken.encoder or 'no encoder'}"
    )


@app.command()
@stoppable("The index is as it was.")
def info(index_folder: Named = None, out: OrOut = None, as_json: AsJson = False) -> None:
    """Show what an index holds and how it was made, after basic checks.

    Every part is opened; files of up to 32 MiB together are compared with their checksums, others by size. A damaged
    index gives exit code 2; hoptree index check looks at all of it.
    """
    out = _one_index(index_folder, out)
    index = Index(out)
    manifest = index.manifest
    checking.check_parts(index)
    fact_counts = count_facts(index)
    with closing(index.ledger()) as ledger:
        prefixes = {source: ledger.prefix_of(source) for source in manifest.sources}
        files = checking.count_files(ledger)
    other_languages = index.texts.languages
    languages = {"english": max(0, manifest.passages - sum(other_languages.values())), **other_languages}
    if as_json:
        facts = {"facts": asdict(fact_counts)} if fact_counts else {}
        print_json({"index": str(out), **asdict(manifest), **asdict(files), "languages": languages, **facts})
        return
    settings = manifest.settings
    echo(f"{counted(manifest.passages, 'passage')}, {decimal(manifest.bytes)}, in {out}")
    links = "yes" if settings.links else "no"
    echo(f"  language {settings.language}, links {links}, vectors {settings.encoder or 'none'}")
    if fact_counts:
        by = fact_counts.encoder or "their words"
        echo(f"  {counted(fact_counts.facts, 'fact')} of {counted(fact_counts.passages, 'passage')}, found by {by}")
    echo(f"  digest {manifest.digest}")
    if files.kinds:
        echo(f"  {counted(sum(files.kinds.values()), 'document file')}: {_counts(files.kinds)}")
    if files.files_without_passages:
        echo(f"  {counted(files.files_without_passages, 'further file')} gave no passage")
    _list_files(files.passed_over, "passed over")
    _list_files([name for name in files.unreadable if name not in files.outdated], "not readable to the end")
    _list_files(files.outdated, "no longer readable, with passages of their earlier state")
    echo(f"  passages by language: {_counts(languages)}")
    for source, prefix in prefixes.items():
        echo(f"  from {source}{f' (its files are called {prefix}/…)' if prefix else ''}")
    for path in Reading.restored(manifest.reading).without:
        echo(f"  without passages that hold a question of {path}")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in Counter(counts).most_common())


def _list_files(names: list[str], what: str) -> None:
    if names:
        first = ", ".join(map(one_line, names[:_SHOWN_FILES]))
        more = ", … (--json names all)" if len(names) > _SHOWN_FILES else ""
        echo(f"  {counted(len(names), 'file')} {what}: {first}{more}")


@app.command()
@stoppable("The index is as it was.")
def check(index_folder: Named = None, out: OrOut = None, as_json: AsJson = False) -> None:
    """Check every file and passage of an index; name what is damaged (exit code 2)."""
    out = _one_index(index_folder, out)
    index = Index(out)
    with indexing_bar(as_json) as progress:
        checked = checking.check_all(index, on_progress=progress)
    if as_json:
        print_json({"index": str(out), "checked": asdict(checked)})
        return
    parts = [
        f"{checked.passages:,} passages by their digests",
        f"{decimal(checked.bytes)} of files by their checksums",
        f"the links of {checked.linked:,} passages" if checked.linked is not None else "",
        f"{checked.vectors:,} vectors (that each passage has one)" if checked.vectors is not None else "",
    ]
    echo(f"  sound: {', '.join(filter(None, parts))}")
    if index.manifest.settings.encoder and checked.vectors is None:
        warn("the vectors were not looked at: that needs pip install 'hoptree[dense]'.")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from (line.strip() for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a text file with an id a line.") from error


def _warn_of_losses(out: Path, sources: list[Path], settings: Settings) -> None:
    """Warn of what the existing index holds and the new one will not."""
    try:
        old = read_manifest(out)
    except CorpusError:
        return
    gone = sorted(set(old.sources) - {str(source.resolve()) for source in sources})
    if gone:
        warn(f"the index there now was also made from {', '.join(gone)}, which the new one leaves out.")
    if old.settings.encoder and not settings.encoder:
        warn(f"the index there now has vectors, which the new one has not without --encoder {old.settings.encoder}.")


def _announce_change(expected: checking.Estimate, what: str, quiet: bool) -> None:
    if quiet or expected.source_bytes:
        beginning = f"{decimal(expected.source_bytes)} {what}; the index will take up to about"
        _announce(expected, beginning, "more on disk", quiet)
    else:
        typer.echo("No document of the sources is new or changed.", err=True)


def _announce(expected: checking.Estimate, beginning: str, where: str, quiet: bool) -> None:
    """Print what disk and memory the work will take."""
    if not quiet:
        typer.echo(
            f"{beginning} {decimal(expected.disk_bytes)} {where} ({decimal(expected.free_bytes)} free) "
            f"and up to {decimal(expected.memory_bytes)} of memory while it is made.",
            err=True,
        )
    if expected.disk_bytes > expected.free_bytes:
        warn("that may not fit on the disk.")


def _report(outcome: Outcome, out: Path, as_json: bool) -> None:
    for sentence in outcome.report:
        warn(sentence)
    if outcome.passed_over and outcome.report:  # without a report, they were named before
        warn(f"passed over: {outcome.passed_over}")
    manifest = outcome.manifest
    if as_json:
        data = outcome.as_dict()
        del data["manifest"], data["report"]
        print_json({"index": str(out), **asdict(manifest), **data})
        return
    counts = {
        "added": outcome.added,
        "replaced": outcome.replaced,
        "removed": outcome.removed,
        "unchanged": outcome.unchanged,
        "repeated and kept once": outcome.repeated,
        "left out because they hold an evaluation question": outcome.held_questions,
    }
    changes = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    echo(
        f"{counted(manifest.passages, 'passage')} in {out} ({decimal(manifest.bytes)}): "
        f"{changes or 'nothing changed'}{'; went on where a run was cut off' if outcome.resumed else ''}"
    )
