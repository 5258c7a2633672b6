"""A graph behind a SPARQL endpoint, spoken to over real HTTP."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graph.sparql_server import Answer, Seen, serving, sparql_server

from hoptree.core.errors import ConfigError, EndpointError, GraphError, QueryTooLong, RateLimited, UnusableReply
from hoptree.core.public_http import HttpCache
from hoptree.graph import open_graph
from hoptree.graph.oxigraph import ox
from hoptree.graph.sparql import Dialect, SparqlClient, entities_query, facts_query, iri, literal, names_query
from hoptree.graph.sparql_endpoint import SparqlEndpoint

T = TypeVar("T")

WIKIDATA = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> . @prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix psv: <http://www.wikidata.org/prop/statement/value/> . @prefix pq: <http://www.wikidata.org/prop/qualifier/> .
@prefix pqv: <http://www.wikidata.org/prop/qualifier/value/> . @prefix w: <http://wikiba.se/ontology#> .
@prefix s: <http://www.wikidata.org/entity/statement/> . @prefix v: <http://www.wikidata.org/value/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix schema: <http://schema.org/> .
wd:Q1615 rdfs:label "Neil Armstrong"@en, "Neil Armstrong (fr)"@fr ; skos:altLabel "Neil Alden Armstrong"@en ;
  schema:description "American astronaut"@en ; wdt:P569 "1930-08-05T00:00:00Z"^^xsd:dateTime ;
  p:P569 s:Q1615-1 ; p:P2048 s:Q1615-2 ; p:P166 s:Q1615-3, s:Q1615-4 .
s:Q1615-1 a w:BestRank ; ps:P569 "1930-01-01T00:00:00Z"^^xsd:dateTime ; psv:P569 v:a .
v:a w:timePrecision 9 .
s:Q1615-2 a w:BestRank ; ps:P2048 "+1.8"^^xsd:decimal ; psv:P2048 v:b .
v:b w:quantityUnit wd:Q11573 .
s:Q1615-3 a w:BestRank ; ps:P166 wd:Q17144 ; pq:P585 "1969-08-13T00:00:00Z"^^xsd:dateTime ; pqv:P585 v:c ;
  pq:P793 wd:Q43653 .
v:c w:timePrecision 11 .
s:Q1615-4 ps:P166 wd:Q999 .
wd:Q11573 rdfs:label "metre"@en . wd:Q17144 rdfs:label "Presidential Medal of Freedom"@en .
wd:Q43653 rdfs:label "Apollo 11"@en ; wdt:P1029 wd:Q1615 ; rdfs:seeAlso wd:Q1615 .
wd:P569 a w:Property ; rdfs:label "date of birth"@en ; w:propertyType w:Time .
wd:P2048 rdfs:label "height"@en . wd:P166 rdfs:label "award received"@en .
wd:P585 rdfs:label "point in time"@en . wd:P793 rdfs:label "significant event"@en .
wd:P1029 rdfs:label "crew member(s)"@en .
wd:Q5 rdfs:label "Neil Armstrong"@en .
"""
RDF = """
@prefix e: <http://e.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:a rdfs:label "A thing" ; e:knowsWell e:b ; e:size 12000 . e:b rdfs:label "B thing"@en ; e:knowsWell e:a .
"""


def asked(
    seen: Seen,
    work: Callable[[SparqlEndpoint], Coroutine[Any, Any, T]],
    *,
    dialect: Dialect = "wikidata",
    patience: float = 0.0,
    cache: Path | None = None,
    a_second: float = 1000.0,
) -> T:
    async def ask() -> T:
        remembered = HttpCache(cache) if cache else None
        asking = SparqlClient(
            seen.url, contact="me@example.org", cache=remembered, patience_s=patience, per_second=a_second
        )
        graph = SparqlEndpoint(asking, dialect=dialect)
        try:
            return await work(graph)
        finally:
            await graph.aclose()

    return asyncio.run(ask())


def test_facts_of_wikidata_have_precision_units_and_qualifiers() -> None:
    with sparql_server(serving(WIKIDATA)) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts("Q1615"))
        outward = asked(seen, lambda graph: graph.facts("Q1615", direction="out"))
        inward = asked(seen, lambda graph: graph.facts("Q1615", direction="in"))
    assert [fact.text for fact in neighbourhood.facts] == [
        "Neil Armstrong | award received | Presidential Medal of Freedom "
        "(point in time: 13 August 1969; significant event: Apollo 11)",
        "Neil Armstrong | date of birth | 1930",
        "Neil Armstrong | height | 1.8 metre",
        "Apollo 11 | crew member(s) | Neil Armstrong",
    ]
    assert neighbourhood.complete and neighbourhood.facts[0].sources == (seen.url,)
    assert neighbourhood.facts[0].object.id == "Q17144" and neighbourhood.entity.label == "Neil Armstrong"
    assert outward.facts == neighbourhood.facts[:3] and inward.facts == neighbourhood.facts[3:]
    assert all("LIMIT" in query for query in seen.queries)


def test_facts_of_any_endpoint() -> None:
    with sparql_server(serving(RDF)) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts("http://e.org/a"), dialect="rdf")
        cut = asked(seen, lambda graph: graph.facts("http://e.org/a", limit=1), dialect="rdf")
        properties = asked(seen, lambda graph: graph.properties(), dialect="rdf")
    assert [fact.text for fact in neighbourhood.facts] == [
        "A thing | knows well | B thing",
        "A thing | size | 12,000",
        "B thing | knows well | A thing",
    ]
    assert len(cut.facts) == 1 and not cut.complete
    assert sorted(property_.label for property_ in properties) == ["knows well", "size"]


PLANET = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix schema: <http://schema.org/> .
wd:Q308 rdfs:label "Mercury"@en .
<https://en.wikipedia.org/wiki/Mercury_(planet)> schema:about wd:Q308 ; schema:isPartOf <https://en.wikipedia.org/> ;
  schema:name "Mercury (planet)"@en .
<https://en.wikiquote.org/wiki/Mercury> schema:about wd:Q308 ; schema:isPartOf <https://en.wikiquote.org/> ;
  schema:name "Sayings about Mercury"@en .
<https://de.wikipedia.org/wiki/Merkur_(Planet)> schema:about wd:Q308 ; schema:isPartOf <https://de.wikipedia.org/> ;
  schema:name "Merkur (Planet)"@de .
wd:Q925 rdfs:label "Mercury"@en .
"""


def test_an_entity_of_wikidata_has_the_title_of_its_page() -> None:
    with sparql_server(serving(PLANET)) as seen:
        entities = asked(seen, lambda graph: graph.entities("Mercury"))
        element = asked(seen, lambda graph: graph.entity("Q925"))
        planet = asked(seen, lambda graph: graph.entity("Q308"))
    assert [(entity.id, entity.page, entity.aliases) for entity in entities] == [
        ("Q308", "Mercury (planet)", ()),
        ("Q925", "", ()),
    ]
    assert element and not element.page and planet and planet.page == "Mercury (planet)"


def test_names_labels_properties_and_counts() -> None:
    with sparql_server(serving(WIKIDATA)) as seen:
        entities = asked(seen, lambda graph: graph.entities("neil  Alden Armstrong".replace("neil", "Neil")))
        several = asked(seen, lambda graph: graph.entities("Neil Armstrong"))
        assert asked(seen, lambda graph: graph.entities("nobody")) == ()
        assert asked(seen, lambda graph: graph.entity("Q404")) is None
        properties = asked(seen, lambda graph: graph.properties())
        stats = asked(seen, lambda graph: graph.stats())
        table = asked(seen, lambda graph: graph.query("SELECT ?s WHERE { ?s ?p 9 } LIMIT 5"))
    assert entities[0].id == "Q1615" and entities[0].description == "American astronaut"
    assert entities[0].aliases == ("Neil Alden Armstrong",)
    assert [entity.id for entity in several] == ["Q5", "Q1615"]
    assert [(each.id, each.label, each.datatype) for each in properties] == [("P569", "date of birth", "Time")]
    assert stats.details["triples"].isdecimal()
    assert table.columns == ("s",) and table.rows[0][0].id == "http://www.wikidata.org/value/a"


def test_who_asks_is_said_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    with sparql_server(serving(WIKIDATA)) as seen:
        first = asked(seen, lambda graph: graph.facts("Q1615"), cache=tmp_path / "c.sqlite")
        count = len(seen.queries)
        second = asked(seen, lambda graph: graph.facts("Q1615"), cache=tmp_path / "c.sqlite")
        assert first == second and len(seen.queries) == count == 3
    assert all(re.fullmatch(r"Hoptree/\S+ \(me@example\.org\) Python/3\.\d+", agent) for agent in seen.agents)


EVIL = [
    '"@en } INSERT DATA { <a:b> <a:b> <a:b> } #',
    "\\",
    '\\"',
    "\\u0022 } #",
    "a\nb",
    "x' \" y",
    "\x00\x1b[2J",
    "{}|^`",
]


@pytest.mark.parametrize("name", EVIL)
def test_a_label_cannot_leave_its_quotes(name: str) -> None:
    kept = re.sub("[\x00-\x1f\x7f]", " ", name)
    store = ox.Store()
    store.add(
        ox.Quad(ox.NamedNode("a:x"), ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label"), ox.Literal(kept))
    )
    store.add(ox.Quad(ox.NamedNode("a:y"), ox.NamedNode("http://www.w3.org/2000/01/rdf-schema#label"), ox.Literal("z")))
    query = entities_query(name if "\n" not in name else kept, ("",), "rdf", 10)
    solutions = store.query(query)
    assert isinstance(solutions, ox.QuerySolutions)
    assert {str(solution["e"]) for solution in solutions} == {"<a:x>"}


@given(st.text(max_size=60))
def test_every_text_is_one_literal(text: str) -> None:
    solutions = ox.Store().query(f"SELECT ({literal(text)} AS ?x) WHERE {{}}")
    assert isinstance(solutions, ox.QuerySolutions)
    value = next(solutions)["x"]
    assert isinstance(value, ox.Literal)
    expected = re.sub("[\x00-\x07\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff]", " ", text)
    assert value.value == expected


@given(st.text(max_size=40))
def test_every_text_is_an_iri_or_refused(text: str) -> None:
    try:
        written = iri(f"http://e.org/{text}")
    except GraphError:
        return
    assert not set(written[1:-1]) & set('<> "\\{}|^`\n\t')


@pytest.mark.parametrize("identifier", ["Q1> ?p ?o . <x", "http://e/ }", "http://e/\\u003E", "name", "a:b\nc"])
def test_an_id_that_is_none_is_never_sent(identifier: str) -> None:
    with sparql_server(serving(WIKIDATA)) as seen:
        with pytest.raises(GraphError):
            asked(seen, lambda graph: graph.facts(identifier))
        assert seen.queries == []
    with pytest.raises(ConfigError, match="not a language tag"):
        names_query(["a:b"], ['en" }'], all_names=True, limit=1)
    assert facts_query("name:a b", "in", "rdf", 5).count("urn:hoptree:entity:a%20b") == 1


def test_an_endpoint_that_takes_too_long_is_given_up() -> None:
    """It answers only after it was given up."""
    given_up = threading.Event()

    def slow(query: str) -> Answer:
        given_up.wait(60)
        return 200, {}, b"{}"

    with sparql_server(slow) as seen:
        with pytest.raises(QueryTooLong, match=r"did not finish the query in time \(0\.2 seconds\)"):
            asked(seen, lambda graph: graph.facts("Q1", seconds=0.2), patience=60)
        assert not given_up.is_set() and len(seen.queries) == 1
        given_up.set()


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((200, {}, b"<html>Sorry</html>"), UnusableReply, "a web page instead of JSON"),
        ((200, {}, b'{"head": {}}'), UnusableReply, "something other than SPARQL results"),
        (
            (200, {}, b'{"head": {"vars": ["s"]}, "results": {"bindings": [{"s": {}}]}}'),
            UnusableReply,
            "something other",
        ),
        ((200, {}, b"[1]"), UnusableReply, "something other than SPARQL results"),
        ((502, {}, b"<html>bad gateway</html>"), EndpointError, "HTTP 502"),
        ((500, {}, b"java.util.concurrent.TimeoutException"), QueryTooLong, "did not finish"),
        ((200, {}, b'{"head": {"vars": [java.util.concurrent.TimeoutException'), QueryTooLong, "did not finish"),
        ((504, {}, b""), QueryTooLong, "did not finish"),
        ((403, {}, b"<html>"), EndpointError, "HOPTREE_CONTACT"),
        ((400, {}, b"no SPARQL"), EndpointError, "does not understand the query: no SPARQL"),
        ((429, {"Retry-After": "3600"}, b""), RateLimited, "HTTP 429"),
    ],
)
def test_what_an_endpoint_does_wrong_is_a_typed_error(answer: Answer, error: type[Exception], words: str) -> None:
    with sparql_server(lambda query: answer) as seen, pytest.raises(error, match=re.escape(words)):
        asked(seen, lambda graph: graph.facts("Q1"))


def test_a_fact_about_timeouts_is_no_timeout() -> None:
    with sparql_server(serving('<http://e.org/a> <http://e.org/p> "TimeoutException" .')) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts("http://e.org/a"), dialect="rdf")
    assert neighbourhood.facts[0].object.text == "TimeoutException"


def test_a_busy_endpoint_is_asked_again_when_it_says(tmp_path: Path) -> None:
    refusals = [(200, {}, b"<html>"), (429, {"Retry-After": "0.3"}, b""), (503, {"Retry-After": "0"}, b"<html>")]
    times: list[float] = []
    sound = serving(RDF)

    def answer(query: str) -> Answer:
        times.append(time.monotonic())
        return refusals.pop(0) if refusals else sound(query)

    with sparql_server(answer) as seen:
        neighbourhood = asked(
            seen, lambda graph: graph.facts("http://e.org/a", direction="in"), dialect="rdf", patience=30,
            cache=tmp_path / "c.sqlite",
        )  # fmt: skip
    assert len(neighbourhood.facts) == 1 and times[2] - times[1] >= 0.3


def test_requests_keep_their_distance() -> None:
    with sparql_server(serving(RDF)) as seen:
        began = time.monotonic()
        asked(seen, lambda graph: graph.facts("http://e.org/a"), dialect="rdf", a_second=10)
        assert len(seen.queries) == 3 and time.monotonic() - began >= 0.2


def test_a_graph_is_opened_by_what_a_person_wrote(tmp_path: Path) -> None:
    wikidata = open_graph("wikidata", cached=False)
    assert (wikidata.kind, wikidata.identity) == ("sparql", "sparql:https://query.wikidata.org/sparql")
    asyncio.run(wikidata.aclose())
    with pytest.raises(GraphError, match="There is no knowledge graph"):
        open_graph(str(tmp_path / "none"))
    with pytest.raises(EndpointError, match="cannot be reached"):
        asked(Seen("http://127.0.0.1:9/sparql"), lambda graph: graph.facts("Q1"))
