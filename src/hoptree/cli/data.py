"""`hoptree data`: public data sets in our layout, and the papers' samples."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from typer import Argument, Option

from hoptree.cli.console import counted, echo, print_json, stoppable, warn
from hoptree.cli.options import AsJson, read_named
from hoptree.cli.progress import rate_bar
from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.datasets import fetch
from hoptree.evaluation.datasets.fetch import read_record
from hoptree.evaluation.datasets.reading import draw_types, read_examples, write_ids
from hoptree.evaluation.datasets.releases import find_set, needed_by, paper_sample, public_sets
from hoptree.evaluation.plan import experiments_folder

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Get the public data sets in our layout: DATA/NAME/dev.jsonl with DATA/NAME/corpus.jsonl.gz.

\b
hoptree data list --data DATA                       what there is, what is here, and which tables need it
hoptree data get hotpotqa --data DATA               fetch it, and turn it into our layout
hoptree data get hotpotqa --data DATA --from FILE   the same from your own download: file, folder or archive
hoptree data sample hotpotqa --paper taikc --seed 1 --data DATA --out ids.txt
hoptree run experiments/taikc/table2.yaml --data DATA --only HotpotQA --ids ids.txt --model SPEC --out runs/table2
""",
)

Data = Annotated[Path, Option("--data", help="The folder of all data sets.")]


@app.command("list")
def list_sets(
    name: Annotated[str, Argument(help="One data set.  [default: all]")] = "",
    data: Data = Path("data"),
    as_json: AsJson = False,
) -> None:
    """List the data sets: licence, size, source, what is here, and what needs them."""
    needs = needed_by(experiments_folder())
    rows = []
    for public in [find_set(name)] if name else public_sets().values():
        folder, needed = data / public.name, needs.get(public.name, {})
        record = read_record(folder)
        splits = [
            {
                **asdict(release),
                "bytes": release.size,
                "here": [file for file in release.files if (folder / file).exists()],
                "made_of": record.get(release.split, {}).get("from"),
            }
            for release in public.releases.values()
        ]
        release_files = {file for release in public.releases.values() for file in release.files}
        rows.append(
            {
                **{key: getattr(public, key) for key in ("name", "title", "licence", "home")},
                "splits": splits,
                "needed_by": sorted({table for tables in needed.values() for table in tables}, key=_papers_first),
                "missing": sorted(file for file in needed if not (folder / file).exists()),
                "in_no_release": sorted(set(needed) - release_files),
            }
        )
    if as_json:
        print_json(rows)
        return
    for row in rows:
        _print_set(row)


def _papers_first(table: str) -> tuple[bool, str]:
    return not table.partition("/")[2].startswith(("table", "figure")), table


def _print_set(row: dict[str, Any]) -> None:
    echo(f"{row['name']}: {row['title']}; {row['licence']}; {row['home']}")
    for split in row["splits"]:
        state = f"here: {', '.join(split['here'])}" if split["here"] else "not here"
        state += "" if split["made_of"] or not split["here"] else ", of unknown origin"
        facts = [counted(split["questions"], "question")] if split["questions"] else []
        echo(f"    {split['split']}: {', '.join([*facts, _size(split['bytes']), state])}")
        for remote in split["remotes"]:
            echo(f"        from {remote['url']}")
        if split["note"]:
            echo(f"        {split['note']}")
    papers = [table for table in row["needed_by"] if not _papers_first(table)[0]]
    if others := len(row["needed_by"]) - len(papers):
        papers.append(counted(others, "other experiment"))
    if papers:
        echo(f"    for {', '.join(papers)}")
    if row["in_no_release"]:
        echo(f"    no release has {', '.join(row['in_no_release'])}; for passages give hoptree run --corpus")


def _size(size: int) -> str:
    return decimal(size) if size else "size not known"


@app.command()
@stoppable("What was fetched is kept, and older files are as they were: the same command goes on.")
def get(
    name: Annotated[str, Argument(help="A name from hoptree data list.")],
    data: Data = Path("data"),
    split: Annotated[str, Option(help="Which of its files: dev, train, dev_open, …  [default: its first]")] = "",
    sources: Annotated[
        list[Path],
        Option("--from", metavar="PATH", help="Your download: a file, folder, .zip, .tar or .tgz; repeat for several."),
    ] = [],
    url: Annotated[
        str, Option(metavar="URL", help="Another address of the same file; under its own name it must have its digest.")
    ] = "",
    sha256: Annotated[str, Option(metavar="HEX", help="The digest that the file must have.")] = "",
    aliases: Annotated[
        Path | None, Option(help='Names for answers that are ids: rows with "id" or "Q_id", and "aliases".')
    ] = None,
    skip_bad: Annotated[
        bool, Option("--skip-bad", help="Count bad rows and pass over them; else they refuse.")
    ] = False,
    replace: Annotated[bool, Option("--replace", help="Fetch and write files anew that are there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Convert a public release to our layout: questions, and passages if it has any.

    Without --from it is fetched from its public address, into NAME/.downloads below --data; an interrupted download is
    resumed. Size and licence are printed first. The file must have the digest that Hoptree knows, or that of --sha256;
    without either, its digest is printed. NAME/release.json records where files come from.

    \b
    hoptree data get hotpotqa --data DATA
    hoptree data get 2wikimultihopqa --data DATA --from ~/Downloads/data_ids_april7.zip
    hoptree data get iirc --data DATA --from iirc_train_dev.tgz --from context_articles.tar.gz
    hoptree data get nq --split dev_open --data DATA --url https://mirror.example/NQ-open.dev.jsonl
    """
    public = find_set(name)
    release = public.release(split)
    order = fetch.Order(sources, url, sha256, aliases, skip_bad, replace)
    if not sources:
        for known, remote in zip(release.remotes, fetch.remotes_of(release, order), strict=False):
            warn(f"{public.title} ({public.licence}): {known.name}, {_size(known.size)}, from {remote.url}")
    with rate_bar(as_json, "MB") as advance:
        fetched = fetch.get(
            *(public, release, data, order),
            lambda stage, done, total: advance(stage, done, total or None, done // 1_000_000),
        )
    if as_json:
        print_json({"name": public.name, "split": release.split, "licence": public.licence, **asdict(fetched)})
        return
    for file, digest in fetched.sha256.items():
        echo(f"read {file}, SHA-256 {digest}")
    for file in fetched.files:
        echo(f"wrote {file}")
    if fetched.questions:
        passages = f", {counted(fetched.passages, 'passage')}" if fetched.passages else ""
        echo(f"{counted(fetched.questions, 'question')}{passages}; {public.licence}")
    if fetched.unanswered:
        echo(f"{counted(fetched.unanswered, 'question')} without an answer left out")
    if fetched.skipped:
        echo(f"{counted(fetched.skipped, 'bad row')} passed over: {' '.join(fetched.reasons)}")
    for note in fetched.notes:
        echo(note)


@app.command()
def sample(
    source: Annotated[str, Argument(metavar="NAME|FILE", help="A data set below --data, or a file of questions.")],
    out: Annotated[Path, Option(help="The file for the ids, one a line: hoptree run … --ids FILE.")],
    data: Data = Path("data"),
    split: Annotated[str, Option(help="Of a data set: dev, train, …  [default: its first]")] = "",
    count: Annotated[int, Option(min=0, help="So many of all questions.")] = 0,
    of: Annotated[
        list[str], Option("--of", metavar="TYPE=N", help="So many of a type, or of '2 hops'; repeat for several.")
    ] = [],
    paper: Annotated[str, Option(help="What a paper draws of this data set: taikc, treeqa, ra-isf-training, …")] = "",
    seed: Annotated[int, Option(help="Another number draws others.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw a sample by seed, and write its ids: the same on every machine.

    A sample of N is what hoptree run --limit N --seed SEED asks. The papers do not name the questions they drew:
    --paper draws as many of each type as they have, not the same ones.

    \b
    hoptree data sample hotpotqa --data DATA --paper taikc --seed 1 --out hotpotqa.txt
    hoptree data sample hotpotqa --data DATA --count 500 --seed 1 --out hotpotqa.txt
    hoptree data sample dev.jsonl --of "2 hops=100" --of "3 hops=50" --seed 1 --out ids.txt
    """
    if sum((bool(count), bool(of), bool(paper))) != 1:
        raise ConfigError("How many questions to draw is not clear.", "Give one of --count, --of and --paper.")
    path = Path(source) if Path(source).is_file() else _questions(source, split, data)
    strata = paper_sample(paper, source) if paper else _read_strata(of) if of else {"": count}
    examples = read_examples(path).examples
    drawn = draw_types(examples, strata, seed, str(path))
    write_ids(out, ids := [example.id for example in drawn])
    digest = hashlib.sha256("\n".join(ids).encode("utf-8", "replace")).hexdigest()
    if as_json:
        print_json({"file": str(path), "out": str(out), "seed": seed, "drawn": strata, "ids": ids, "sha256": digest})
        return
    parts = ", ".join(f"{number:,} {kind}" for kind, number in strata.items() if kind)
    echo(f"wrote {out}: {counted(len(ids), 'id')} of {len(examples):,} in {path}{f' ({parts})' if parts else ''}")
    echo(f"seed {seed}, SHA-256 of the ids {digest}")


def _questions(name: str, split: str, data: Path) -> Path:
    """Return the file of a data set's questions; the error says how to get it."""
    path = data / name / f"{split or find_set(name).release('').split}.jsonl"
    if path.is_file():
        return path
    release = find_set(name).release(split)
    if not release.form:
        raise InputError(f"{name} holds documents, and no questions.", "hoptree data list names the data sets.")
    named = f" --split {split}" if split else ""
    cause = f"There is no {path}."
    raise InputError(cause, f"Get it: hoptree data get {name}{named} --data {data}; or give another --data.")


def _read_strata(texts: list[str]) -> dict[str, int]:
    strata = {}
    for kind, number in read_named(texts, "--of", "TYPE=N").items():
        if not number.isdecimal() or not int(number):
            raise ConfigError(f"--of {kind}={number} is not possible.", "Write --of TYPE=N, for example bridge=386.")
        strata[kind] = int(number)
    return strata
