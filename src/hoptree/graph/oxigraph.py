"""Import pyoxigraph as `ox` from here: without it the error says how to install it."""

from __future__ import annotations

from hoptree.core.errors import GraphError, MissingExtra

try:
    import pyoxigraph as ox
except ImportError as error:
    raise MissingExtra("A knowledge graph on this machine", "graph") from error

__all__ = ["Node", "Object", "Triple", "node_of", "ox"]

Node = ox.NamedNode | ox.BlankNode
Object = ox.NamedNode | ox.BlankNode | ox.Literal
Triple = tuple[Node, ox.NamedNode, Object, tuple[str, ...]]
"""Subject, predicate, object, and the sources that the fact names (a data set, a passage)."""


def node_of(iri: str) -> ox.NamedNode:
    """Return the node of an IRI; the library checks it."""
    try:
        return ox.NamedNode(iri)
    except ValueError as error:
        raise GraphError(f"'{iri[:200]}' is no IRI ({error}).", "Correct the id.") from error
