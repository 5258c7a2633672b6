"""Which source a triple belongs to: the name of the graph it is in.

Each source has a graph of its own, and one for every set of places that rows of its files name (data sets, passages).
The base source has the store's default graph, which takes half the indexes that a named one does.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode

from hoptree.graph.oxigraph import ox

__all__ = ["GraphName", "counts_graph", "graph_of", "graphs_of", "sources_of"]

GraphName = ox.NamedNode | ox.DefaultGraph
_SOURCE, _COUNTS = "urn:hoptree:source:", "urn:hoptree:counts:"


def graph_of(source: str, places: tuple[str, ...], base: str) -> GraphName:
    """Where a triple of a source goes."""
    if source == base and not places:
        return ox.DefaultGraph()
    told = f"?{urlencode([('of', place) for place in places])}" if places else ""
    return ox.NamedNode(f"{_SOURCE}{_quoted(source)}{told}")


def graphs_of(store: ox.Store, source: str, base: str) -> list[GraphName]:
    """All graphs that hold triples of a source."""
    whole = f"{_SOURCE}{_quoted(source)}"
    found: list[GraphName] = [
        graph
        for graph in store.named_graphs()
        if isinstance(graph, ox.NamedNode) and (graph.value == whole or graph.value.startswith(f"{whole}?"))
    ]
    return [ox.DefaultGraph(), *found] if source == base else found


def counts_graph(source: str) -> ox.NamedNode:
    """Where it stands how often a source uses each property."""
    return ox.NamedNode(_COUNTS + _quoted(source))


def sources_of(graph: object, base: str) -> tuple[str, ...]:
    """The sources a graph's name tells: the places in a file with the name of the source before them, or that alone."""
    if not isinstance(graph, ox.NamedNode) or not graph.value.startswith(_SOURCE):
        return (base,)
    name, _, told = graph.value.removeprefix(_SOURCE).partition("?")
    source = unquote(name)
    return tuple(f"{source}: {place}" for _, place in parse_qsl(told)) or (source,)


def _quoted(source: str) -> str:
    return quote(source, safe="", errors="replace")
