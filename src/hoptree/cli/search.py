"""`hoptree search`: what a method would get to read."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hoptree.cli.console import echo, print_json, run
from hoptree.cli.options import CORPUS_HELP, AsJson, Rerank, RetrieverKind, warn_without_links
from hoptree.core.errors import ConfigError, InputError
from hoptree.retrieval import DEFAULT_RETRIEVER

if TYPE_CHECKING:
    from hoptree.core.values import Passage
    from hoptree.retrieval.retriever import Retriever


def search(
    query: Annotated[str, Argument(help="What to look for.")],
    corpus: Annotated[str, Option(help=CORPUS_HELP)],
    k: Annotated[int, Option("-k", min=1, max=1000, help="How many passages.")] = 5,
    retriever: RetrieverKind = DEFAULT_RETRIEVER,
    rerank: Rerank = "",
    distinct: Annotated[bool, Option("--distinct", help="Leave out near duplicates.")] = False,
    where: Annotated[
        list[str],
        Option(metavar="NAME=VALUE", help="Only passages with this metadata; document and title are names, too."),
    ] = [],  # noqa: B006 - typer copies it
    explain: Annotated[bool, Option("--explain", help="Show the score of each stage.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the best passages for a query, as a method would get them.

    \b
    hoptree search "Who directed X?" --corpus docs.idx --retriever linked --explain
    hoptree search "rate limits" --corpus docs.idx --where lang=en
    hoptree search "third landing on the Moon" --corpus wikipedia --where title="Apollo 14"
    """
    if not query.strip():
        raise InputError("The query is empty.", 'Search for something: hoptree search "…" --corpus DIR')
    conditions = _read_conditions(where)

    async def find() -> tuple[Passage, ...]:
        async with aclosing(open_corpus(corpus, retriever, rerank, distinct=distinct)) as opened:
            return await opened.search(query, k=k, where=conditions)

    passages = run(find())
    if as_json:
        print_json([_row(passage, explain) for passage in passages])
        return
    if not passages:
        echo(
            "Nothing was found: no passage that fits --where (names and values exactly) has a word of the query."
            if where
            else "Nothing was found: no passage has a word of the query, or it has stop words only."
        )
    for passage in passages:
        echo(f"{passage.score:7.2f}  {passage.id}  {passage.title}")
        if explain:
            stages = "  ".join(f"{name} {score:g}" for name, score in passage.stages)
            place = f"  characters {passage.start} to {passage.end} of {passage.document}" if passage.document else ""
            echo(f"         {stages}{place}")
        echo(f"         {' '.join(passage.text.split())[:200]}")


def open_corpus(corpus: str, kind: str, rerank: str = "", *, distinct: bool = False) -> Retriever:
    """Return the retriever over what --corpus names."""
    from hoptree.retrieval.retriever import open_retriever

    if corpus == "sample":
        from hoptree.retrieval.index.folder import sample_index

        corpus = str(sample_index())
    opened = open_retriever(corpus, kind, rerank=rerank, distinct=distinct)
    warn_without_links(corpus, kind)
    return opened


def _read_conditions(texts: list[str]) -> dict[str, str]:
    conditions: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise ConfigError(f"'{text}' is no condition.", "Write it as --where NAME=VALUE.")
        if conditions.setdefault(name, value) != value:
            raise InputError(
                f"--where gives '{name}' two values ({conditions[name]}, {value}).",
                "Give each name once: a passage must fit all conditions. Search once for each value.",
            )
    return conditions


def _row(passage: Passage, explain: bool) -> dict[str, object]:
    row: dict[str, object] = {
        "id": passage.id,
        "title": passage.title,
        "text": passage.text,
        "score": passage.score,
        "document": passage.document,
        "start": passage.start,
        "end": passage.end,
        "metadata": passage.metadata_by_name(),
    }
    return row | {"stages": dict(passage.stages)} if explain else row
