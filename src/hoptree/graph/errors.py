"""What can be wrong with a knowledge graph."""

from __future__ import annotations

from hoptree.errors import EndpointError, InputError

__all__ = ["GraphError", "GraphUnavailable", "QueryTooLong"]


class GraphError(InputError):
    """A knowledge graph, or a file to load into one, that is missing, damaged or of another kind."""


class GraphUnavailable(GraphError):
    """A graph that cannot be written now: another process has it."""

    exit_code = 1


class QueryTooLong(EndpointError):
    """A query that was ended because it took longer than it may."""
