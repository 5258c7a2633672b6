"""Knowledge graphs in a local folder or behind SPARQL."""

from __future__ import annotations

import os
from pathlib import Path

from hoptree.core.errors import GraphError
from hoptree.graph.facts import DEFAULT_TIMEOUT_S, KnowledgeGraph

MANIFEST = "hoptree-graph.json"


def open_graph(
    where: str, *, languages: tuple[str, ...] = (), cached: bool = True, seconds: float = DEFAULT_TIMEOUT_S
) -> KnowledgeGraph:
    """Open the graph in a folder, at a SPARQL URL, or "wikidata".

    An endpoint's replies are cached for a month unless `cached` is off; $HOPTREE_CONTACT goes into the user agent.
    `seconds` limits its requests for names.
    """
    if where != "wikidata" and not where.startswith(("http://", "https://")):
        if "://" in where:
            cause = f"'{where[:200]}' is not an address of a graph."
            raise GraphError(cause, "Endpoints are asked over http:// or https:// only.")
        from hoptree.graph.embedded import EmbeddedGraph

        return EmbeddedGraph(Path(where), languages=languages)
    from hoptree.core.public_http import HttpCache, path_beside_cache
    from hoptree.graph.sparql import SparqlClient
    from hoptree.graph.sparql_endpoint import WIKIDATA_URL, SparqlEndpoint

    client = SparqlClient(
        WIKIDATA_URL if where == "wikidata" else where,
        contact=os.environ.get("HOPTREE_CONTACT", ""),
        cache=HttpCache(path_beside_cache("graph.sqlite")) if cached else None,
    )
    return SparqlEndpoint(client, languages=languages, seconds=seconds)
