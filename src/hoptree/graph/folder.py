"""A graph's folder: its manifest, and atomic changes.

    DIR/hoptree-graph.json   the manifest, which names the current generation
    DIR/000002/              its data (RocksDB files)
        DIR/000001/              the previous one, for readers that still have it open; the next change removes it
    DIR/000003.part/         a change that is being made, or was interrupted

Copying is cheap: data files are written only once, so they are hard-linked.
"""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import clear_frames
from uuid import uuid4

from hoptree.core.errors import GraphError, GraphUnavailable
from hoptree.core.files import Checksums, FolderLock, VersionedFolder, batched, manifest_fields
from hoptree.graph import MANIFEST
from hoptree.graph.oxigraph import GraphName, counts_graph, graph_names_of, ox
from hoptree.graph.vocabulary import KEY, USES, predicate_role
from hoptree.text.names import LANGUAGES

FORMAT = 2
BATCH = 100_000
"""Triples of one write: a million would take 1.1 GB of memory; this takes 0.15 GB and a tenth more time."""
_COMPACT_FROM_TRIPLES = 3 * BATCH
_REWRITE_FROM_ROWS = 20_000
"""Facts and names of a source from which on rewriting all others is faster than removing its own one by one."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)


def damaged(folder: Path, why: object) -> GraphError:
    return GraphError(f"The graph {folder} is damaged: {str(why).rstrip('. ')}.", _reload(folder))


def _reload(folder: Path) -> str:
    """Return the remedy for a graph that cannot be opened."""
    return f"Remove the folder {folder}, then load its files again: hoptree graph load FILE --out {folder}"


_MAY_PASS = re.compile(r"file descriptors|too many open files|permission denied", re.IGNORECASE)


def damage(error: BaseException) -> str | None:
    """Return the damage that a store's error reports, or None."""
    message = " ".join(str(error).split())
    if isinstance(error, RuntimeError):
        return message if "orruption" in message else None
    return message if isinstance(error, OSError) and not _MAY_PASS.search(message) else None


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Report damage that is found while data is read."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        why = damage(error)
        if why is None and isinstance(error, OSError):
            cause = f"The graph {folder} cannot be read now: {' '.join(str(error).split()).rstrip('.')}."
            raise GraphUnavailable(cause, "Allow that, then give the same command; the graph is as it was.") from error
        if why is None:
            raise
        clear_frames(error.__traceback__)  # the store's iterators may only be released in the thread that made them
        raise damaged(folder, why) from error


@dataclass(frozen=True, slots=True)
class Source:
    """Counts of a source's facts and names, and of skipped places of its files."""

    name: str
    facts: int
    names: int
    qualifiers: int
    broken: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a graph holds and how it was made.

    `generation` names the folder with the data, `bytes` is the size of its files, and `uid` is a new random id at each
    change. Facts of the source `base` do not name it, which halves its size and the time to load it.
    """

    format: int = FORMAT
    generation: int = 0
    uid: str = ""
    base: str = ""
    triples: int = 0
    bytes: int = 0
    languages: tuple[str, ...] = LANGUAGES
    sources: tuple[Source, ...] = ()
    checksums: str = ""

    @property
    def facts(self) -> int:
        return sum(source.facts for source in self.sources)

    @property
    def names(self) -> int:
        return sum(source.names for source in self.sources)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a graph's folder."""
    try:
        data = VersionedFolder(folder, MANIFEST).read_manifest()
        if data.get("format") != FORMAT:
            cause = f"The graph {folder} is of format {data.get('format')}, not {FORMAT}."
            raise GraphError(cause, f"It was made by another version of Hoptree. {_reload(folder)}")
        data = manifest_fields(data, Manifest)
        sources = tuple(Source(**source) for source in data["sources"])
        return Manifest(**(data | {"sources": sources, "languages": tuple(data["languages"])}))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_graph(folder) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(folder, error) from error


def _no_graph(folder: Path) -> GraphError:
    if folder.is_dir() and any(folder.glob("[0-9]*.part")):
        cause = f"{folder} is not a graph yet: it is being loaded, or that was cut off."
        return GraphError(cause, "Wait, or repeat the command that loads it.")
    if folder.is_file():
        remedy = "A graph is a folder: give the name of one, or of one that does not exist yet to make it."
        return GraphError(f"{folder} is a file, and no knowledge graph.", remedy)
    if folder.exists():
        return GraphError(
            f"The folder {folder} is not a knowledge graph.",
            "Give that of a graph, or one that is empty or not there to make one: hoptree graph load FILE --out FOLDER",
        )
    return GraphError(f"There is no knowledge graph at {folder}.", f"Load one: hoptree graph load FILE --out {folder}")


_CHECKED_AT_ONCE_BYTES = 32 * 2**20
"""Bytes that are compared with their checksums when a graph is opened; blocks of larger files have their own."""


def _data_bytes(generation: Path) -> int:
    """Return the size of the data files, which are never changed once they are there."""
    return sum(path.stat().st_size for path in generation.glob("*.sst"))


class Change:
    """A change on a copy in the folder `part`; `manifest` is that of the result."""

    def __init__(self, part: Path, manifest: Manifest) -> None:
        self.store = ox.Store(part)
        self.manifest = manifest
        self.written = 0
        self._part = part

    def close(self) -> None:
        """Close the files; an open store would write to its folder again."""
        if hasattr(self, "store"):
            del self.store

    def add(self, lines: Iterable[str]) -> None:
        """Write lines of N-Quads as they come, a batch at a time."""
        for batch in batched(lines, BATCH):
            self.store.bulk_load("".join(batch).encode(), ox.RdfFormat.N_QUADS)
            self.written += len(batch)

    def clear(self, source: str) -> None:
        """Remove all that a source brought."""
        graphs = graph_names_of(self.store, source, self.manifest.base)
        named = [graph for graph in graphs if isinstance(graph, ox.NamedNode)]
        if len(named) < len(graphs):
            self.store.clear_graph(ox.DefaultGraph())  # immediate at any size
        known = next((item for item in self.manifest.sources if item.name == source), None)
        if named and known is not None and known.facts + known.names >= _REWRITE_FROM_ROWS:
            self._rewrite_without({f" {graph} .\n".encode() for graph in named})
        else:
            for graph in named:
                self.store.remove_graph(graph)
        self.store.remove_graph(counts_graph(source))
        others = tuple(item for item in self.manifest.sources if item.name != source)
        base = "" if self.manifest.base == source else self.manifest.base
        self.manifest = replace(self.manifest, sources=others, base=base)

    def _rewrite_without(self, endings: set[bytes]) -> None:
        """Write the copy again without the lines that end with one of these graphs."""
        with tempfile.TemporaryFile(dir=self._part.parent) as file:
            self.store.dump(file, ox.RdfFormat.N_QUADS)
            self.close()
            shutil.rmtree(self._part)
            self.store = ox.Store(self._part)
            file.seek(0)
            kept = (line for line in file if line[line.rfind(b" ", 0, -3) :] not in endings)
            for batch in batched(kept, BATCH):
                self.store.bulk_load(b"".join(batch), ox.RdfFormat.N_QUADS)
                self.written += len(batch)

    def count(self, source: str, broken: int) -> None:
        """Count a source's facts by property, and enter it in the manifest."""
        graphs = graph_names_of(self.store, source, self.manifest.base)
        self.store.remove_graph(counts_graph(source))
        uses: list[ox.Quad] = []
        counts = {"fact": 0, "label": 0, "alias": 0, "qualifier": 0}
        for predicate, count in _count_predicates(self.store, graphs):
            kind = predicate_role(predicate.value)
            if kind in counts:
                counts[kind] += count
            if kind == "fact":
                uses.append(ox.Quad(predicate, ox.NamedNode(USES), ox.Literal(count), counts_graph(source)))
        self.store.extend(uses)
        counted = Source(source, counts["fact"], counts["label"] + counts["alias"], counts["qualifier"], broken)
        others = tuple(known for known in self.manifest.sources if known.name != source)
        self.manifest = replace(self.manifest, sources=(*others, counted))


def _count_predicates(store: ox.Store, graphs: Sequence[GraphName]) -> Iterator[tuple[ox.NamedNode, int]]:
    if not graphs:
        return
    solutions = store.query("SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p", default_graph=[*graphs])
    assert isinstance(solutions, ox.QuerySolutions)
    for solution in solutions:
        predicate, count = solution["p"], solution["n"]
        if isinstance(predicate, ox.NamedNode) and isinstance(count, ox.Literal) and predicate.value != KEY:
            yield predicate, int(count.value)


@contextmanager
def changing(folder: Path, languages: tuple[str, ...] | None = None) -> Iterator[Change]:
    """Change the graph in a folder, or make one; an unfinished change has no effect."""
    check_place(folder)
    folder = folder.resolve()
    versions = VersionedFolder(folder, MANIFEST)
    is_new = _make(versions)
    with FolderLock(folder, GraphUnavailable):
        try:
            old = read_manifest(folder) if versions.has_manifest() else Manifest(languages=languages or LANGUAGES)
            new = replace(old, generation=old.generation + 1, languages=languages or old.languages)
            versions.sweep(keep={versions.generation(old.generation).name})
            with _copied(versions, old, new) as change:
                yield change
                _finish(versions, change)
        except BaseException:
            if is_new and not versions.has_manifest():  # else another process has made one meanwhile
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _make(versions: VersionedFolder) -> bool:
    """Make the folder; return False if it existed."""
    try:
        versions.path.mkdir(parents=True)
    except FileExistsError:
        if versions.is_foreign():
            read_manifest(versions.path)  # its error names what the folder is instead
        return False
    return True


@contextmanager
def _copied(versions: VersionedFolder, old: Manifest, new: Manifest) -> Iterator[Change]:
    """Yield a copy to change; delete it if the block fails."""
    folder, part = versions.path, versions.part(new.generation)
    change: Change | None = None
    try:
        if old.generation:
            open_generation(folder, old).backup(part)
            if _data_bytes(part) != old.bytes:
                raise GraphError(f"The graph {folder} could not be copied whole.", "Try again, or load it anew.")
        change = Change(part, new)
        yield change
    except BaseException as error:
        if change is not None:
            change.close()
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError) and (error.errno == errno.ENOSPC or "No space left" in str(error)):
            cause = f"The disk is full; the graph {folder} is as it was."
            raise GraphUnavailable(cause, "Free some space and run the same command.") from error
        if isinstance(error, RuntimeError) and (why := damage(error)) is not None:
            raise damaged(folder, why) from error
        raise


def _finish(versions: VersionedFolder, change: Change) -> None:
    number = change.manifest.generation
    part = versions.part(number)
    if change.written >= _COMPACT_FROM_TRIPLES:
        change.store.optimize()
    change.store.flush()  # the next change would not copy what is only in the log
    triples = len(change.store)
    change.close()
    sums = Checksums.write(part, without=("LOG", "LOCK", "IDENTITY"))
    size, uid = _data_bytes(part), uuid4().hex
    change.manifest = replace(change.manifest, uid=uid, triples=triples, bytes=size, checksums=sums)
    part.rename(versions.generation(number))
    versions.write_manifest(change.manifest)
    versions.sweep(keep={versions.generation(number - back).name for back in (0, 1)})


def open_generation(folder: Path, manifest: Manifest) -> ox.Store:
    """Open the data of a graph for reading, checked against its manifest."""
    generation = VersionedFolder(folder, MANIFEST).generation(manifest.generation)
    with reading(folder):
        size = _data_bytes(generation)
        if size != manifest.bytes:
            raise damaged(folder, f"its data files have {size:,} bytes, not {manifest.bytes:,}")
        try:
            Checksums(generation, manifest.checksums).check(at_once=_CHECKED_AT_ONCE_BYTES)
        except ValueError as error:
            raise damaged(folder, error) from error
        return ox.Store.read_only(str(generation))


def check_place(folder: Path) -> None:
    """Refuse the names of graphs that are queried over a network."""
    if str(folder) == "wikidata":
        raise GraphError("'wikidata' stands for Wikidata itself, not for a folder.", "Give the folder another name.")
    if _ADDRESS.match(str(folder)):
        cause = "A graph behind an address cannot be changed, only asked."
        raise GraphError(cause, "Give --out a folder on this machine.")
