"""Any results of a SPARQL endpoint: read, or refused with an error of our own, and never more than a line a value."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thorough import THOROUGH

from hoptree.core.errors import HoptreeError
from hoptree.graph.sparql import Dialect, SparqlClient, TimeBudget
from hoptree.graph.sparql_endpoint import SparqlEndpoint

pytestmark = [pytest.mark.timeout(0)] if THOROUGH else []
EXAMPLES = settings(max_examples=100_000 if THOROUGH else 50)

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TEXTS = st.one_of(
    st.text(st.characters(), max_size=12),
    st.sampled_from(["", "0", "1", "2", "Q1", "-1e9999", "9" * 5_000, "x" * 30_000, "1930-01-01T00:00:00Z", "9" * 9]),
    st.sampled_from(["\x1b[2J", "a\r\nQuestion: b", "\ud800", "\u202e", "Point(1 2)", "NaN", "INF", "+1.8"]),
)
_IRIS = st.one_of(
    st.sampled_from(["http://e.org/a", "http://e.org/b", "http://www.wikidata.org/entity/Q1", "urn:hoptree:entity:"]),
    st.sampled_from(["urn:hoptree:property:", "urn:hoptree:entity:a%0Ab", "urn:hoptree:value:x", "http://["]),
    st.sampled_from(["http://www.wikidata.org/prop/direct/P1", "http://www.wikidata.org/prop/statement/P2", "name:"]),
    _TEXTS,
)
_DATATYPES = ("", "dateTime", "date", "gYear", "decimal", "integer", "double", "boolean", "string")
_CELLS: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"type": st.just("uri"), "value": _IRIS}),
    st.fixed_dictionaries({"type": st.just("bnode"), "value": _TEXTS}),
    st.fixed_dictionaries(
        {"type": st.just("literal"), "value": _TEXTS},
        optional={
            "datatype": st.one_of(st.sampled_from(_DATATYPES).map(_XSD.__add__), _TEXTS),
            "xml:lang": st.one_of(st.sampled_from(["en", "de"]), _TEXTS),
        },
    ),
)
_ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    ["s", "p", "v", "e", "how", "name", "n", "st", "precision", "unit", "pq", "q", "qprecision", "qunit", "kind"]
)
_ROWS = st.lists(st.dictionaries(_NAMES, _CELLS, max_size=6), max_size=4)
REPLIES = st.one_of(
    _ROWS.map(lambda rows: {"head": {"vars": ["s", "p", "v"]}, "results": {"bindings": rows}}),
    _ROWS.map(lambda rows: {"head": {"vars": ["s", "p", "v"]}, "results": {"bindings": rows}}),
    st.builds(lambda rows, wrong: {"head": wrong, "results": {"bindings": rows}}, _ROWS, _ANY),
    st.lists(_ANY, max_size=3).map(lambda rows: {"head": {"vars": ["s"]}, "results": {"bindings": rows}}),
    st.builds(lambda wrong: {"head": {}, "boolean": wrong}, _ANY),
    _ANY,
)


class Replies(SparqlClient):
    """An endpoint that gives one reply after the other, over and over."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__("http://127.0.0.1:9/sparql", per_second=10_000.0, patience_s=0.0)
        self._replies, self._next = [json.dumps(reply).encode() for reply in replies], 0

    async def _send(self, query: str, budget: TimeBudget) -> tuple[bytes, Any]:
        body = self._replies[self._next % len(self._replies)]
        self._next += 1
        return body, self._http.parse(body)


@EXAMPLES
@given(replies=st.lists(REPLIES, min_size=1, max_size=4), dialect=st.sampled_from(["rdf", "wikidata"]))
def test_any_results_are_read_or_refused(replies: list[Any], dialect: Dialect) -> None:
    async def look() -> None:
        graph = SparqlEndpoint(Replies(replies), dialect=dialect)
        texts: list[str] = []
        with suppress(HoptreeError):
            neighbourhood = await graph.facts("http://e.org/a")
            texts += [neighbourhood.entity.label, *(fact.text for fact in neighbourhood.facts)]
        with suppress(HoptreeError):
            texts += [entity.label for entity in await graph.entities("a")]
        with suppress(HoptreeError):
            entity = await graph.entity("Q1")
            texts += [entity.label, entity.description, entity.page, *entity.aliases] if entity else []
        with suppress(HoptreeError):
            texts += [known.label for known in await graph.properties()]
        with suppress(HoptreeError):
            table = await graph.query("SELECT ?s WHERE { ?s ?p ?o }")
            texts += [cell.text for row in table.rows for cell in row]
        with suppress(HoptreeError):
            texts += (await graph.stats()).details.values()
        for text in texts:
            assert not CONTROL.search(text), f"{text!r} could forge a line, or do something to a terminal"

    asyncio.run(look())
