"""`hoptree graph`: facts about entities, loaded and looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from hoptree.cli import progress
from hoptree.cli.console import counted, echo, print_json, run_to_end, stoppable, warn
from hoptree.cli.extract import extract
from hoptree.cli.options import AsJson
from hoptree.core.errors import GraphError

if TYPE_CHECKING:
    from hoptree.graph.facts import Entity, KnowledgeGraph, Neighbourhood
    from hoptree.graph.loading import Loaded, Progress


T = TypeVar("T")
_MAX_SUGGESTIONS = 3

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Facts about entities: load them, look at them.

\b
hoptree graph load facts.jsonl.gz --out kg          make a graph of triples, or add to one
hoptree graph load truthy.nt.bz2 --out kg           a Wikidata dump; --language en keeps English names
hoptree graph extract docs.idx --out docs.facts     have a model find the facts of passages
hoptree graph entity "Elia Kazan" --graph kg        who is meant, and the facts around them
hoptree graph entity Q72717 --graph wikidata        the same from Wikidata itself
hoptree graph query "SELECT …" --graph kg           a SPARQL query of your own
hoptree graph stats --graph kg                      what it holds
hoptree graph remove facts.jsonl.gz --out kg        take a source out again
""",
)

app.command()(extract)

Out = Annotated[Path, Option("--out", help="The folder of the graph.")]
Graph = Annotated[str, Option("--graph", help="The folder of a graph, 'wikidata', or the URL of a SPARQL endpoint.")]
Seconds = Annotated[float, Option(min=0.1, max=600, help="How long a query may take.")]
Languages = Annotated[
    list[str], Option("--language", metavar="TAG", help="Languages of names, best first, such as en.")
]
NoCache = Annotated[bool, Option("--no-cache", help="Ask an endpoint anew, and remember nothing.")]


def _what_stays(options: Mapping[str, Any]) -> str:
    from hoptree.graph import MANIFEST

    was = "The graph is as it was. " if (options["out"] / MANIFEST).exists() else ""
    return f"{was}The same command begins again."


@app.command()
@stoppable(_what_stays)
def load(
    files: Annotated[list[Path], Argument(help="Files of triples; .gz and .bz2 are unpacked on the way.")],
    out: Out,
    source: Annotated[str, Option(help="The name under which the facts are kept.  [default: the file's]")] = "",
    form: Annotated[str, Option(help="nt, nq, ttl, tsv or jsonl.  [default: by the file's name]")] = "",
    language: Languages = [],
    append: Annotated[bool, Option("--append", help="Add to a source of this name, do not replace it.")] = False,
    empty: Annotated[bool, Option("--empty", help="Take a file that has no facts, which is an error else.")] = False,
    skip_broken: Annotated[int, Option(min=0, help="Broken lines to pass over before giving up.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Load triples into a graph, which is made if needed; an old one stays usable.

    N-Triples, N-Quads and Turtle are read; of Wikidata's dumps, facts, names, kinds of properties and Wikipedia titles.
    Tables have the columns s, p, o (or subject/head, property/relation, object/tail), and s_id, p_id, o_id, src and
    qualifiers where known. Rows of id, label and aliases name entities or properties. A file that was loaded before is
    replaced, but never by an empty file or a truncated archive.

    \b
    {"s": "Splendor in the Grass", "p": "director", "o": "Elia Kazan", "p_id": "P57", "src": ["my notes"]}
    {"s_id": "Q937", "p_id": "P69", "o_id": "Q11942", "qualifiers": {"end time": "1900"}}
    {"id": "P57", "label": "director", "aliases": ["directed by"]}
    """
    from hoptree.graph.loading import load_graph

    with _shown(as_json) as show:
        loaded = load_graph(
            out,
            files,
            source=source,
            form=form,
            languages=_languages(language) or None,
            skip_broken=skip_broken,
            append=append,
            empty=empty,
            on_progress=show,
        )
    _report(loaded, out, as_json)


def _languages(tags: list[str]) -> tuple[str, ...]:
    """Return the given tags, then "mul" and names without a tag."""
    return tuple(dict.fromkeys((*(tag.strip().lower() for tag in tags), "mul", ""))) if tags else ()


def _report(loaded: Loaded, out: Path, as_json: bool) -> None:
    for sentence in loaded.examples:
        warn(sentence)
    if loaded.broken:
        warn(f"{counted(loaded.broken, 'broken place was', 'broken places were')} passed over.")
    manifest = loaded.manifest
    if as_json:
        print_json(
            {
                "graph": str(out),
                "facts": manifest.facts,
                "names": manifest.names,
                "loaded": [asdict(source) for source in loaded.sources],
                "left_out": loaded.left_out,
                "broken": loaded.broken,
            }
        )
        return
    for source in loaded.sources:
        echo(f"{source.name}: {counted(source.facts, 'fact')}, {counted(source.names, 'name')}")
    if loaded.left_out:
        echo(f"left out: {loaded.left_out:,} triples (names in other languages, and what a dump says of itself)")
    echo(f"{counted(manifest.facts, 'fact')} and {counted(manifest.names, 'name')} in {out}")


@app.command()
@stoppable(_what_stays)
def remove(
    source: Annotated[str, Argument(help="The name of a source, as stats shows it.")],
    out: Out,
    as_json: AsJson = False,
) -> None:
    """Remove a source's facts; those that another source has too stay."""
    from hoptree.graph.loading import remove_source

    manifest = remove_source(out, source)
    if as_json:
        print_json({"graph": str(out), "removed": source, "facts": manifest.facts, "names": manifest.names})
    else:
        echo(f"{counted(manifest.facts, 'fact')} and {counted(manifest.names, 'name')} are left in {out}")


@app.command()
def entity(
    name: Annotated[str, Argument(help="A name, or an id: Q42, name:NAME or an IRI.")],
    graph: Graph,
    limit: Annotated[int, Option("-n", "--limit", min=1, max=100_000, help="How many facts.")] = 50,
    seconds: Seconds = 10.0,
    language: Languages = [],
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Show the entities of a name and the facts around the first, or around an id.

    If nothing has the name or id, the exit code is 1.

    \b
    hoptree graph entity "elia kazan" --graph kg
    """

    async def look_up(opened: KnowledgeGraph) -> tuple[tuple[Entity, ...], Neighbourhood | None, list[str]]:
        try:
            known = await opened.entity(name)
        except GraphError:  # it is not an id
            known = None
        entities = (known,) if known else await opened.entities(name)
        if not entities:
            return (), None, [] if as_json else await _suggest(opened, name)
        return entities, await opened.facts(entities[0].id, limit=limit, seconds=seconds), []

    entities, around, suggestions = _with_graph(graph, language, no_cache, look_up, seconds)
    if as_json:
        facts = [fact.as_dict() for fact in around.facts] if around else []
        complete = around is None or around.complete
        print_json({"entities": [asdict(entity) for entity in entities], "facts": facts, "complete": complete})
    elif around is None:
        meant = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
        echo(f"No entity has this name or id.{meant}")
    else:
        _show(entities, around)
    if not entities:
        raise typer.Exit(1)


async def _suggest(graph: KnowledgeGraph, name: str) -> list[str]:
    """Return similar names, if the graph has an index of its names."""
    from hoptree.graph.facts import NamesIndexed

    if not isinstance(graph, NamesIndexed):
        return []
    candidates = await graph.candidates().of_mention(name, limit=_MAX_SUGGESTIONS)
    return list(dict.fromkeys(candidate.entity.label for candidate in candidates))


def _show(entities: tuple[Entity, ...], around: Neighbourhood) -> None:
    for place, entity in enumerate(entities):
        aliases = f"also {', '.join(entity.aliases[:5])}" if entity.aliases else ""
        details = ", ".join(filter(None, (entity.description, aliases)))
        echo(f"{' ' if place else '→'} {entity.id}  {entity.label}{f'  ({details})' if details else ''}")
    echo("")
    for fact in around.facts:
        echo(f"  {fact.text}   [{'; '.join(fact.sources)}]")
    if not around.facts:
        echo("  no facts")
    if not around.complete:
        echo(f"  … and more: only {len(around.facts):,} are shown (--limit)")


@app.command()
def query(
    sparql: Annotated[str, Argument(help="A SELECT or ASK query.")],
    graph: Graph,
    limit: Annotated[int, Option("-n", "--limit", min=1, max=1_000_000, help="How many rows.")] = 100,
    seconds: Seconds = 30.0,
    language: Languages = [],
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Run a SPARQL query of your own; ids are shown with their names.

    wd:, wdt:, p:, ps:, pq:, rdf:, rdfs:, skos:, schema: and xsd: are predeclared; entity: and property: are those of
    of which only the name is known, with %20 for a space. A folder's graph also has triples of its own (urn:hoptree:…:
    names as they are looked up, how often a property is used), which COUNT(*) counts and SELECT * shows.

    --json gives each cell as text for people, and as the graph has it: value, datatype and language.

    \b
    hoptree graph query "SELECT ?film WHERE { ?film wdt:P57 wd:Q72717 }" --graph kg
    hoptree graph query "SELECT ?film WHERE { ?film wdt:P57 entity:Elia%20Kazan }" --graph kg
    """
    table = _with_graph(graph, language, no_cache, lambda opened: opened.query(sparql, limit=limit, seconds=seconds))
    if as_json:
        rows = [[asdict(cell) for cell in row] for row in table.rows]
        print_json({"columns": table.columns, "rows": rows, "complete": table.complete})
        return
    echo("  ".join(table.columns))
    for row in table.rows:
        echo("  ".join(f"{cell.text} ({cell.id})" if cell.id else cell.text for cell in row))
    if not table.rows:
        echo("no rows")
    if not table.complete:
        echo(f"… and more: only the first {limit:,} rows are shown (--limit)")


@app.command()
def stats(graph: Graph, no_cache: NoCache = False, as_json: AsJson = False) -> None:
    """Show what a graph holds, source by source."""
    counts = _with_graph(graph, [], no_cache, lambda opened: opened.stats())
    if as_json:
        print_json(asdict(counts))
        return
    if counts.sources:
        properties = counted(counts.properties, "property", "properties")
        echo(f"{counted(counts.facts, 'fact')} with {properties}, and {counted(counts.names, 'name')}")
    for source in counts.sources:
        echo(f"  {source.name}: {counted(source.facts, 'fact')}, {counted(source.names, 'name')}")
    for name, value in counts.details.items():
        echo(f"  {name} {value}")


def _with_graph(
    graph: str,
    language: list[str],
    no_cache: bool,
    work: Callable[[KnowledgeGraph], Coroutine[Any, Any, T]],
    seconds: float = 10.0,
) -> T:
    """Open a graph, run some work with it, and close it."""
    from hoptree.graph import open_graph

    async def open_and_work() -> T:
        knowledge = open_graph(graph, languages=_languages(language), cached=not no_cache, seconds=seconds)
        async with aclosing(knowledge) as opened:
            return await work(opened)

    return run_to_end(open_and_work(), cached=not no_cache)


@contextmanager
def _shown(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Draw a bar; where there is no terminal, print a line every few minutes."""
    in_lines = not quiet and not progress.on_terminal()
    with progress.rate_bar(quiet, "triples") as advance:
        next_time = time.monotonic() + progress.LOG_INTERVAL_S

        def show(now: Progress) -> None:
            nonlocal next_time
            if in_lines and time.monotonic() >= next_time:
                warn(f"loading: {100 * now.done / max(now.total, 1):.0f} %, {now.triples:,} triples")
                next_time = time.monotonic() + progress.LOG_INTERVAL_S
            advance("loading", now.done, now.total, now.triples)

        yield show
