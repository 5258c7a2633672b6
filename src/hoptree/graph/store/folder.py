"""A change of a graph's folder: made on a copy, counted only when it is complete.

    DIR/hoptree-graph.json   the manifest, which names the generation that counts
    DIR/000002/              its data (RocksDB files)
    DIR/000001/              the one before, for readers that still have it open; the next change removes it
    DIR/000003.part/         a change that is being made, or was cut off

Copying is cheap: the data files are never written again once they are there, so they are hard-linked.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from traceback import clear_frames
from typing import Any
from uuid import uuid4

from hoptree.core.errors import GraphError, GraphUnavailable
from hoptree.core.files import FolderLock, atomic_write
from hoptree.graph.oxigraph import ox
from hoptree.graph.vocabulary import KEY, USES, GraphName, counts_graph, graph_names_of, predicate_role
from hoptree.text.names import LANGUAGES


def anew(folder: Path) -> str:
    """How a graph that cannot be opened is replaced: a load changes only what it can read."""
    return f"Remove the folder {folder}, then load its files again: hoptree graph load FILE --out {folder}"


def damaged(folder: Path, why: object) -> GraphError:
    return GraphError(f"The graph {folder} is damaged: {str(why).rstrip('. ')}.", anew(folder))


def damage(error: BaseException) -> str | None:
    """What an error of the store says of its files, or None if it is another error."""
    said = " ".join(str(error).split())
    if isinstance(error, RuntimeError):
        return said if "orruption" in said else None
    return said if isinstance(error, OSError) else None


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Tells of damage that shows only when some part of the data is read."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        why = damage(error)
        if why is None:
            raise
        clear_frames(error.__traceback__)  # the store's iterators may only be let go in the thread that made them
        raise damaged(folder, why) from error


FORMAT = 2
MANIFEST = "hoptree-graph.json"


@dataclass(frozen=True, slots=True)
class Source:
    """One source: how much it brought, and how many broken places of its files were passed over."""

    name: str
    facts: int
    names: int
    qualifiers: int
    broken: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a graph holds and how it was made.

    `generation` names the folder with the data and `bytes` the size of its files; `uid` is drawn anew at each change.
    `base` is the source that is kept without naming it at each fact, which halves its size and the time to load it.
    """

    format: int = FORMAT
    generation: int = 0
    uid: str = ""
    base: str = ""
    triples: int = 0
    bytes: int = 0
    languages: tuple[str, ...] = LANGUAGES
    sources: tuple[Source, ...] = ()

    @property
    def facts(self) -> int:
        return sum(source.facts for source in self.sources)

    @property
    def names(self) -> int:
        return sum(source.names for source in self.sources)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a graph's folder, or an error that says what the folder is instead."""
    try:
        data: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if data.get("format") != FORMAT:
            raise GraphError(
                f"The graph {folder} is of format {data.get('format')}, not {FORMAT}.",
                f"It was made by another version of Hoptree. {anew(folder)}",
            )
        return _checked(data)
    except (FileNotFoundError, NotADirectoryError) as error:
        if folder.is_dir() and any(folder.glob("[0-9]*.part")):
            raise GraphError(
                f"{folder} is no graph yet: it is being loaded, or that was cut off.",
                "Wait, or repeat the command that loads it.",
            ) from error
        raise _nothing_there(folder) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(folder, error) from error


def _nothing_there(folder: Path) -> GraphError:
    if folder.is_file():
        return GraphError(
            f"{folder} is a file, and no knowledge graph.",
            "A graph is a folder: give the name of one, or of one that does not exist yet to make it.",
        )
    if folder.exists():
        return GraphError(
            f"The folder {folder} is no knowledge graph.",
            "Give that of a graph, or one that is empty or not there to make one: hoptree graph load FILE --out FOLDER",
        )
    return GraphError(f"There is no knowledge graph at {folder}.", f"Load one: hoptree graph load FILE --out {folder}")


def _checked(data: dict[str, Any]) -> Manifest:
    if set(data) != {known.name for known in fields(Manifest)}:
        raise ValueError("its manifest has other fields")
    wrong = [name for name in ("generation", "triples", "bytes") if type(data[name]) is not int]
    sources = tuple(Source(**source) for source in data["sources"])
    for source in sources:
        counts = (source.facts, source.names, source.qualifiers, source.broken)
        if not isinstance(source.name, str) or any(type(count) is not int for count in counts):
            wrong.append("sources")
    if (
        wrong
        or not isinstance(data["base"] + data["uid"], str)
        or not all(isinstance(tag, str) for tag in data["languages"])
    ):
        raise ValueError(f"its manifest has values of another kind ({', '.join(wrong) or 'base or languages'})")
    return Manifest(**(data | {"sources": sources, "languages": tuple(data["languages"])}))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: from then on readers see the new generation."""
    atomic_write(folder / MANIFEST, [json.dumps(asdict(manifest), indent=1)])


def data_bytes(generation: Path) -> int:
    """The size of the data files, which are never changed once they are there."""
    return sum(path.stat().st_size for path in generation.glob("*.sst"))


BATCH = 100_000
"""Triples written at once: a million would take 1.1 GB of memory, this takes 0.15 GB and a tenth more time."""
COMPACTED_FROM = 3 * BATCH
_REWRITTEN_FROM = 20_000
"""Facts and names of a source from which on it is quicker to write down all others than to take them out one by one."""


class Change:
    """The copy in the folder `part`; `manifest` is what it will say of itself."""

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
        rest = iter(lines)
        while batch := list(islice(rest, BATCH)):
            self.store.bulk_load("".join(batch).encode(), ox.RdfFormat.N_QUADS)
            self.written += len(batch)

    def clear(self, source: str) -> None:
        """Take out all that a source brought."""
        graphs = graph_names_of(self.store, source, self.manifest.base)
        named = [graph for graph in graphs if isinstance(graph, ox.NamedNode)]
        if len(named) < len(graphs):
            self.store.clear_graph(ox.DefaultGraph())  # takes no time, whatever it holds
        known = next((one for one in self.manifest.sources if one.name == source), None)
        if named and known is not None and known.facts + known.names >= _REWRITTEN_FROM:
            self._rewrite_without({f" {graph} .\n".encode() for graph in named})
        else:
            for graph in named:
                self.store.remove_graph(graph)
        self.store.remove_graph(counts_graph(source))
        left = tuple(one for one in self.manifest.sources if one.name != source)
        base = "" if self.manifest.base == source else self.manifest.base
        self.manifest = replace(self.manifest, sources=left, base=base)

    def _rewrite_without(self, endings: set[bytes]) -> None:
        """Make the copy anew of the lines that do not end with one of these graphs."""
        with tempfile.TemporaryFile(dir=self._part.parent) as file:
            self.store.dump(file, ox.RdfFormat.N_QUADS)
            self.close()
            shutil.rmtree(self._part)
            self.store = ox.Store(self._part)
            file.seek(0)
            kept = (line for line in file if line[line.rfind(b" ", 0, -3) :] not in endings)
            while batch := list(islice(kept, BATCH)):
                self.store.bulk_load(b"".join(batch), ox.RdfFormat.N_QUADS)
                self.written += len(batch)

    def count(self, source: str, broken: int) -> Source:
        """Count what a source has now, property by property, and put it into the manifest."""
        graphs = graph_names_of(self.store, source, self.manifest.base)
        self.store.remove_graph(counts_graph(source))
        uses: list[ox.Quad] = []
        counts = {"fact": 0, "label": 0, "alias": 0, "qualifier": 0}
        for predicate, count in _counted(self.store, graphs):
            kind = predicate_role(predicate.value)
            if kind in counts:
                counts[kind] += count
            if kind == "fact":
                uses.append(ox.Quad(predicate, ox.NamedNode(USES), ox.Literal(count), counts_graph(source)))
        self.store.extend(uses)
        told = Source(source, counts["fact"], counts["label"] + counts["alias"], counts["qualifier"], broken)
        others = tuple(known for known in self.manifest.sources if known.name != source)
        self.manifest = replace(self.manifest, sources=(*others, told))
        return told


def _counted(store: ox.Store, graphs: Sequence[GraphName]) -> Iterator[tuple[ox.NamedNode, int]]:
    if not graphs:
        return
    found = store.query("SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p", default_graph=[*graphs])
    assert isinstance(found, ox.QuerySolutions)
    for solution in found:
        predicate, count = solution["p"], solution["n"]
        if isinstance(predicate, ox.NamedNode) and isinstance(count, ox.Literal) and predicate.value != KEY:
            yield predicate, int(count.value)


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_GENERATION = re.compile(r"\d{6}(\.part)?", re.ASCII)


@contextmanager
def changing(folder: Path, languages: tuple[str, ...] | None = None) -> Iterator[Change]:
    """Change the graph in a folder, or make one: what is not finished never happened."""
    check_place(folder)
    folder = folder.resolve()
    made = _make(folder)
    with FolderLock(folder, GraphUnavailable):
        try:
            old = _old(folder, languages)
            new = replace(old, generation=old.generation + 1, languages=languages or old.languages)
            _sweep(folder, keep={f"{old.generation:06}"})
            with _part(folder, old, new) as change:
                yield change
                _finish(folder, change)
        except BaseException:
            if made:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _make(folder: Path) -> bool:
    """Whether the folder had to be made."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not (folder / MANIFEST).exists() and (
            not folder.is_dir() or any(not _ours(path.name) for path in folder.iterdir())
        ):
            read_manifest(folder)  # says what is there instead
        return False
    return True


def _old(folder: Path, languages: tuple[str, ...] | None) -> Manifest:
    if (folder / MANIFEST).exists():
        return read_manifest(folder)
    return Manifest(languages=languages) if languages else Manifest()


def _ours(name: str) -> bool:
    return _GENERATION.fullmatch(name) is not None or name in (FolderLock.NAME, f"{MANIFEST}.new")


@contextmanager
def _part(folder: Path, old: Manifest, new: Manifest) -> Iterator[Change]:
    """The copy that is changed; it is gone if the block fails."""
    part = folder / f"{new.generation:06}.part"
    change: Change | None = None
    try:
        if old.generation:
            open_generation(folder, old).backup(part)
            if data_bytes(part) != old.bytes:
                raise GraphError(f"The graph {folder} could not be copied whole.", "Try again, or load it anew.")
        change = Change(part, new)
        yield change
    except BaseException as error:
        if change is not None:
            change.close()
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError) and (error.errno == errno.ENOSPC or "No space left" in str(error)):
            raise GraphUnavailable(
                f"The disk is full; the graph {folder} is as it was.", "Free some space and run the same command."
            ) from error
        if isinstance(error, RuntimeError) and (why := damage(error)) is not None:
            raise damaged(folder, why) from error
        raise


def _finish(folder: Path, change: Change) -> None:
    part = folder / f"{change.manifest.generation:06}.part"
    if change.written >= COMPACTED_FROM:
        change.store.optimize()
    change.store.flush()  # what is only in the log would not be copied by the next change
    triples = len(change.store)
    change.close()
    change.manifest = replace(change.manifest, uid=uuid4().hex, triples=triples, bytes=data_bytes(part))
    part.rename(folder / f"{change.manifest.generation:06}")
    write_manifest(folder, change.manifest)
    _sweep(folder, keep={f"{change.manifest.generation - back:06}" for back in (0, 1)})


def _sweep(folder: Path, keep: set[str]) -> None:
    for path in folder.iterdir():
        if _GENERATION.fullmatch(path.name) and path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)


def open_generation(folder: Path, manifest: Manifest) -> ox.Store:
    """The data of a graph, for reading; checked against its manifest."""
    generation = folder / f"{manifest.generation:06}"
    with reading(folder):
        size = data_bytes(generation)
        if size != manifest.bytes:
            raise damaged(folder, f"its data files have {size:,} bytes, not {manifest.bytes:,}")
        return ox.Store.read_only(str(generation))


def check_place(folder: Path) -> None:
    """Refuse what names a graph that is asked over a network, and not a folder of this machine."""
    if str(folder) == "wikidata":
        raise GraphError("'wikidata' stands for Wikidata itself, not for a folder.", "Give the folder another name.")
    if _ADDRESS.match(str(folder)):
        raise GraphError(
            "A graph behind an address cannot be changed, only asked.", "Give --out a folder on this machine."
        )
