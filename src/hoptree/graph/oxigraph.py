"""Import pyoxigraph as `ox`, and name the graphs of a store."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode

from hoptree.core.errors import GraphError, MissingExtra

try:
    import pyoxigraph as ox
except ImportError as error:
    raise MissingExtra("A knowledge graph on this machine", "graph") from error

__all__ = ["GraphName", "Node", "Object", "Triple", "ox"]

Node = ox.NamedNode | ox.BlankNode
Object = ox.NamedNode | ox.BlankNode | ox.Literal
Triple = tuple[Node, ox.NamedNode, Object, tuple[str, ...]]
"""Subject, predicate, object, and the sources that the fact names (a data set, a passage)."""


def node_of(iri: str) -> ox.NamedNode:
    """Return the node of an IRI; the library checks it."""
    try:
        return ox.NamedNode(iri)
    except ValueError as error:
        raise GraphError(f"'{iri[:200]}' is not an IRI ({error}).", "Correct the id.") from error


GraphName = ox.NamedNode | ox.DefaultGraph
_SOURCE, _COUNTS = "urn:hoptree:source:", "urn:hoptree:counts:"


def graph_name_of(source: str, places: tuple[str, ...], base: str) -> GraphName:
    """Return the graph for the triples of a source."""
    if source == base and not places:
        return ox.DefaultGraph()
    query = f"?{urlencode([('of', place) for place in places])}" if places else ""
    return ox.NamedNode(f"{_SOURCE}{_quoted(source)}{query}")


def graph_names_of(store: ox.Store, source: str, base: str) -> list[GraphName]:
    name = f"{_SOURCE}{_quoted(source)}"
    named: list[GraphName] = [
        graph
        for graph in store.named_graphs()
        if isinstance(graph, ox.NamedNode) and (graph.value == name or graph.value.startswith(f"{name}?"))
    ]
    return [ox.DefaultGraph(), *named] if source == base else named


def counts_graph(source: str) -> ox.NamedNode:
    """Return the graph that counts how often a source uses each property."""
    return ox.NamedNode(_COUNTS + _quoted(source))


def sources_of(graph: object, base: str) -> tuple[str, ...]:
    """Return the sources in a graph's name, with their places in a file."""
    if not isinstance(graph, ox.NamedNode) or not graph.value.startswith(_SOURCE):
        return (base,)
    name, _, query = graph.value.removeprefix(_SOURCE).partition("?")
    source = unquote(name)
    return tuple(f"{source}: {place}" for _, place in parse_qsl(query)) or (source,)


def _quoted(source: str) -> str:
    return quote(source, safe="", errors="replace")
