"""What a change does to the copy of a graph that it works on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from hoptree.graph.oxigraph import ox
from hoptree.graph.store.manifest import Manifest, Source
from hoptree.graph.store.provenance import GraphName, counts_graph, graphs_of
from hoptree.graph.vocabulary import KEY, USES, role

__all__ = ["BATCH", "COMPACTED_FROM", "Change"]

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
        graphs = graphs_of(self.store, source, self.manifest.base)
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
        graphs = graphs_of(self.store, source, self.manifest.base)
        self.store.remove_graph(counts_graph(source))
        uses: list[ox.Quad] = []
        counts = {"fact": 0, "label": 0, "alias": 0, "qualifier": 0}
        for predicate, count in _counted(self.store, graphs):
            kind = role(predicate.value)
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
