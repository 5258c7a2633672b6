"""Knowledge graphs: facts about entities, in a folder of this machine or behind a SPARQL endpoint."""

from hoptree.graph.facts import Entity, Fact, KnowledgeGraph, Neighbourhood, Property, Qualifier, Stats, Table, Term
from hoptree.graph.opening import open_graph

__all__ = [
    "Entity",
    "Fact",
    "KnowledgeGraph",
    "Neighbourhood",
    "Property",
    "Qualifier",
    "Stats",
    "Table",
    "Term",
    "open_graph",
]
