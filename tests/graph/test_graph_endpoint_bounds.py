"""What an endpoint's results may hold, and how long a look-up at one may take in all."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from tests.graph.sparql_server import Answer, Seen, serving, sparql_server
from tests.timing import TIMEOUT_S, Clock

from hoptree.core.errors import EndpointError, QueryTooLong
from hoptree.core.http_client import Unreachable
from hoptree.graph import open_graph
from hoptree.graph import sparql_endpoint as labels
from hoptree.graph import sparql_endpoint as sparql
from hoptree.graph.facts import Stats, Table
from hoptree.graph.sparql import Dialect, SparqlClient
from hoptree.graph.sparql_endpoint import SparqlEndpoint

T = TypeVar("T")
E = "http://e.org/"
PREFIXES = f"@prefix e: <{E}> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . "


def asked(seen: Seen, work: Callable[[SparqlEndpoint], Coroutine[Any, Any, T]], dialect: Dialect = "rdf") -> T:
    async def ask() -> T:
        graph = SparqlEndpoint(SparqlClient(seen.url, per_second=1000.0, patience_s=0.0), dialect=dialect)
        try:
            return await work(graph)
        finally:
            await graph.aclose()

    return asyncio.run(ask())


def rows(columns: Sequence[str], *bindings: dict[str, str]) -> Answer:
    cells = [{name: {"type": "uri", "value": value} for name, value in row.items()} for row in bindings]
    return 200, {}, json.dumps({"head": {"vars": columns}, "results": {"bindings": cells}}).encode()


def of_labels(query: str) -> bool:
    return "VALUES ?e" in query


@pytest.mark.parametrize("odd", ["http://x.org/a|b", "http://x.org/{id}", "http://x.org/a^b`c", 'http://x.org/"', "x"])
def test_an_odd_iri_in_a_result_is_told_as_it_is(odd: str) -> None:
    def answer(query: str) -> Answer:
        if of_labels(query):
            return rows(("e", "how", "name"))
        return rows(("p", "v"), {"p": f"{E}website", "v": odd}) if " ?v " in query else rows(("s", "p"))

    with sparql_server(answer) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts(f"{E}a"))
        table = asked(seen, lambda graph: graph.query("SELECT ?p ?v WHERE { <http://e.org/a> ?p ?v . }"))
    (fact,) = neighbourhood.facts
    assert (fact.relation.text, fact.object.id, fact.object.text) == ("website", "", odd)  # nobody can ask about it
    assert table.rows[0][1].value == odd


def test_an_odd_property_is_told_by_its_last_part() -> None:
    def answer(query: str) -> Answer:
        if of_labels(query):
            return rows(("e", "how", "name"))
        return rows(("p", "v"), {"p": f"{E}know|s", "v": f"{E}b"})

    with sparql_server(answer) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts(f"{E}a", direction="out"))
    assert [fact.text for fact in neighbourhood.facts] == ["a | know|s | b"]


def test_web_addresses_of_wikidata_have_no_labels_to_ask_for() -> None:
    direct = "http://www.wikidata.org/prop/direct/P856"

    def answer(query: str) -> Answer:
        if of_labels(query):
            return rows(("e", "how", "name"))
        return rows(("s", "p"), {"p": direct, "s": "http://club.example.org/home"})

    with sparql_server(answer) as seen:
        asked(seen, lambda graph: graph.facts("Q1", direction="in"), "wikidata")
    assert "example.org" not in next(filter(of_labels, seen.queries))


def test_labels_are_asked_for_what_is_given_out_alone() -> None:
    many = " ".join(f"e:a e:knows e:b{number} . e:c{number} e:knows e:a ." for number in range(400))
    with sparql_server(serving(PREFIXES + many)) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts(f"{E}a", limit=6))
        named = [query for query in seen.queries if of_labels(query)]
    assert len(neighbourhood.facts) == 6 and not neighbourhood.complete
    assert len(named) == 1 and named[0].count(f"<{E}") == 8  # six others, the entity and the property


@pytest.mark.parametrize(
    ("where", "remedy", "code"),
    [("wikidata", "Is there a network?", 1), ("https://kg.example.org/sparql", "correct the URL of the graph", 1)],
)
def test_who_can_do_something_about_an_endpoint_that_is_not_reached(
    where: str, remedy: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(seconds: float) -> None:
        return None

    async def nowhere(*args: object) -> None:
        raise Unreachable("Name or service not known")

    monkeypatch.setattr("hoptree.core.public_http.asyncio.sleep", at_once)
    monkeypatch.setattr("hoptree.core.http_client.ConnectionPool.send", nowhere)
    with pytest.raises(EndpointError, match="cannot be reached") as raised:
        asyncio.run(open_graph(where, cached=False).facts("Q1"))
    assert remedy in raised.value.remedy and raised.value.exit_code == code


def test_a_fact_about_itself_is_told_once() -> None:
    with sparql_server(serving(PREFIXES + "e:a e:knows e:a, e:b .")) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts(f"{E}a"))
    assert [fact.text for fact in neighbourhood.facts] == ["a | knows | a", "a | knows | b"] and neighbourhood.complete


def test_all_requests_of_a_look_up_share_its_seconds() -> None:
    """Each of the three takes less than it may, all of them together more."""
    triples = PREFIXES + " ".join(f"e:a e:knows e:b{number} ." for number in range(5))
    sound = serving(triples)

    def late(query: str) -> Answer:
        time.sleep(0.25)
        return sound(query)

    with sparql_server(late) as seen:
        with pytest.raises(QueryTooLong, match=r"in time \(0\.4 seconds\)"):
            asked(seen, lambda graph: graph.facts(f"{E}a", seconds=0.4))
        assert len(seen.queries) <= 2
        assert len(asked(seen, lambda graph: graph.facts(f"{E}a", seconds=30)).facts) == 5


def late_for(
    is_late: Callable[[str], bool], sound: Callable[[str], Answer], clocks: list[Clock]
) -> Callable[[str], Answer]:
    """An endpoint that answers some queries when nobody waits for it any more, by the clock of who asked."""

    def answer(query: str) -> Answer:
        if is_late(query):
            clocks[0].advance(TIMEOUT_S)
        return sound(query)

    return answer


def test_rows_of_a_query_are_told_though_their_labels_take_too_long() -> None:
    triples = PREFIXES + 'e:a e:knows e:b . e:b rdfs:label "Bea" .'
    sound = serving(triples)
    clocks: list[Clock] = []

    async def ask(graph: SparqlEndpoint) -> Table:
        clocks.append(Clock(asyncio.get_running_loop()))
        return await graph.query("SELECT ?o WHERE { ?s <http://e.org/knows> ?o }", seconds=TIMEOUT_S)

    with sparql_server(late_for(of_labels, sound, clocks)) as seen:
        table = asked(seen, ask)
    assert [(cell.id, cell.text) for row in table.rows for cell in row] == [(f"{E}b", "b")]


def test_labels_stay_known_to_who_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may ask meanwhile, and make the memory for labels full."""
    monkeypatch.setattr(labels, "_MAX_CACHED_LABELS", 2)
    triples = PREFIXES + " ".join(
        f'e:{each} e:knows e:{each}{number} . e:{each}{number} rdfs:label "{each.upper()} {number}" .'
        for each in "ab"
        for number in range(3)
    )
    held, sound = threading.Event(), serving(triples)

    def answer(query: str) -> Answer:
        if of_labels(query) and f"<{E}a0>" in query:
            held.wait(TIMEOUT_S)
        elif of_labels(query):
            held.set()
        return sound(query)

    async def both(graph: SparqlEndpoint) -> list[str]:
        neighbourhoods = await asyncio.gather(graph.facts(f"{E}a"), graph.facts(f"{E}b"))
        again = await graph.facts(f"{E}a")
        return [fact.object.text for each in (*neighbourhoods, again) for fact in each.facts]

    with sparql_server(answer) as seen:
        texts = asked(seen, both)
    assert texts == ["A 0", "A 1", "A 2", "B 0", "B 1", "B 2", "A 0", "A 1", "A 2"]


def test_an_endpoint_that_never_answers_has_no_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "DEFAULT_TIMEOUT_S", 0.3)
    given_up = threading.Event()

    def silent(query: str) -> Answer:
        given_up.wait(TIMEOUT_S)
        return rows(("n",))

    with sparql_server(silent) as seen:
        with pytest.raises(QueryTooLong):
            asked(seen, lambda graph: graph.stats())
        given_up.set()


def test_an_endpoint_that_only_counts_too_slowly_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "DEFAULT_TIMEOUT_S", TIMEOUT_S)
    clocks: list[Clock] = []

    async def ask(graph: SparqlEndpoint) -> Stats:
        clocks.append(Clock(asyncio.get_running_loop()))
        return await graph.stats()

    def sound(query: str) -> Answer:
        return 200, {}, b'{"head": {}, "boolean": true}'

    with sparql_server(late_for(lambda query: "COUNT" in query, sound, clocks)) as seen:
        neighbourhood = asked(seen, ask)
    assert neighbourhood.details["triples"] == "not counted: the endpoint takes too long for it"
