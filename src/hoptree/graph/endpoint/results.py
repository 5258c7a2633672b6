"""SPARQL results in JSON, read with care: they come from the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hoptree.errors import UnusableReply

__all__ = ["Cell", "Results", "read_results"]

_BOOLEAN = "http://www.w3.org/2001/XMLSchema#boolean"


@dataclass(frozen=True, slots=True)
class Cell:
    """A term of a result: an IRI (`iri`), or a text with its datatype or language."""

    iri: str = ""
    text: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Rows by the names of their columns; cells that are not bound are missing."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Cell], ...]


def read_results(data: Any, shown: str, most: int) -> Results:
    """The first `most` rows of a reply of the endpoint `shown`."""
    try:
        if isinstance(data.get("boolean"), bool):
            return Results(
                ("answer",), ({"answer": Cell(text="true" if data["boolean"] else "false", datatype=_BOOLEAN)},)
            )
        columns = tuple(str(name) for name in data["head"]["vars"])
        rows = tuple(
            {str(name): _cell(binding) for name, binding in row.items()} for row in data["results"]["bindings"][:most]
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UnusableReply(
            f"{shown} answered with something else than SPARQL results.", "Check the URL of the graph."
        ) from error
    return Results(columns, rows)


def _cell(binding: dict[str, Any]) -> Cell:
    value = binding["value"]
    if not isinstance(value, str):
        raise TypeError("a term without text")
    if binding["type"] == "uri":
        return Cell(iri=value)
    if binding["type"] == "bnode":
        return Cell(text="something unnamed")
    return Cell(text=value, datatype=str(binding.get("datatype", "")), language=str(binding.get("xml:lang", "")))
