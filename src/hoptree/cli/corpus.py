"""`hoptree index` and `hoptree search`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hoptree.cli.console import clean, interruptible, print_json
from hoptree.errors import InputError

__all__ = ["index", "search"]


@interruptible
def index(
    source: Annotated[Path, typer.Argument(help="A folder or file of .txt, .md, .jsonl or .jsonl.gz documents.")],
    out: Annotated[Path, typer.Option(help="The folder for the index.")],
    language: Annotated[str, typer.Option(help="For stemming and stop words.")] = "english",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Make documents searchable.

    \b
    hoptree index docs/ --out docs.idx
    hoptree index corpus.jsonl --out corpus.idx        lines of {"id": …, "title": …, "text": …}
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from hoptree.corpus.read import read_passages
    from hoptree.retrieval.bm25 import build_index

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} passages"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=as_json) as progress:
        task = progress.add_task("indexing", total=None, rate="")

        def advance(count: int) -> None:
            if count % 500 == 0:
                speed = progress.tasks[0].speed
                progress.update(task, completed=count, rate=f"{speed:,.0f} a second" if speed else "")

        manifest = build_index(read_passages(source), out, language=language, on_passage=advance)
    if as_json:
        print_json({"index": str(out), **asdict(manifest)})
    else:
        typer.echo(f"{manifest.passages:,} passages indexed in {out}")


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    corpus: Annotated[str, typer.Option(help="An index made by hoptree index, or 'sample'.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many passages.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list and nothing else.")] = False,
) -> None:
    """Show the best passages for a query, as a method would get them."""
    from hoptree.retrieval.bm25 import BM25
    from hoptree.sample import sample_index

    if not query.strip():
        raise InputError("The query is empty.", 'Search for something: hoptree search "…" --corpus DIR')
    found = BM25(sample_index() if corpus == "sample" else Path(corpus)).search_now(query, k)
    if as_json:
        print_json([{"id": p.id, "title": p.title, "text": p.text, "score": p.score} for p in found])
        return
    if not found:
        typer.echo("No passage shares a word with the query.")
    for passage in found:
        typer.echo(clean(f"{passage.score:7.2f}  {passage.id}  {passage.title}"))
        typer.echo(clean(f"         {' '.join(passage.text.split())[:200]}"))
