"""A person's own queries: told apart from updates, and bounded in rows before they leave."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit
from tests.graph.graph_files import TRUTHY, written
from tests.graph.sparql_server import serving, sparql_server
from tests.small_indexes import hoptree

from hoptree.core.errors import EndpointError, GraphError
from hoptree.graph import open_graph
from hoptree.graph.loading import load_graph
from hoptree.graph.oxigraph import ox
from hoptree.graph.sparql import columns_in_order, limit_rows

TURTLE = "".join(f"<http://e.org/{number}> <http://e.org/p> {number} .\n" for number in range(20))
ALL = "{ ?s ?p ?o }"


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        (f"SELECT * {ALL}", f"SELECT * {ALL}\nLIMIT 4"),
        (f"select * {ALL} limit 2", f"select * {ALL} limit 2"),
        (f"SELECT * {ALL} LIMIT 900 OFFSET 3", f"SELECT * {ALL} LIMIT 4 OFFSET 3"),
        (f"SELECT * {ALL} LIMIT {'9' * 5_000}", f"SELECT * {ALL} LIMIT 4"),
        (f"SELECT * {ALL} OFFSET 3", f"SELECT * {ALL} OFFSET 3\nLIMIT 4"),
        (f"SELECT * {ALL} # LIMIT 2", f"SELECT * {ALL} # LIMIT 2\nLIMIT 4"),
        (f"SELECT * {ALL} # two\rLIMIT 2", f"SELECT * {ALL} # two\rLIMIT 2"),
        ("SELECT * { ?s ?p '''a\\'''b}''' } LIMIT 2", "SELECT * { ?s ?p '''a\\'''b}''' } LIMIT 2"),
        ("SELECT ?limit { { SELECT ?limit { ?limit ?p 'LIMIT 1' } LIMIT 1 } }", None),
        ("PREFIX limit: <http://e.org/> SELECT * { ?s limit:p ?o }", None),
        (f"SELECT * {ALL} VALUES ?o {{ 1 2 3 4 5 6 }}", f"SELECT * {ALL} \nLIMIT 4\nVALUES ?o {{ 1 2 3 4 5 6 }}"),
        (f"SELECT * {ALL} ORDER BY (EXISTS {{ ?s ?p 7 }})", None),
        (f"ASK {ALL}", f"ASK {ALL}"),
    ],
)
def test_a_query_carries_a_bound(query: str, sent: str | None) -> None:
    bound = limit_rows(query, 4)
    assert bound == (sent or f"{query}\nLIMIT 4")
    store = ox.Store()
    store.load(TURTLE.encode(), ox.RdfFormat.TURTLE)
    solutions = store.query(bound)
    assert isinstance(solutions, ox.QueryBoolean) or len(list(solutions)) <= 4


@pytest.mark.parametrize(
    "query",
    [
        "DROP ALL",
        "drop silent graph <http://e.org/g>",
        "PREFIX e: <http://e.org/> INSERT DATA { e:a e:b e:c }",
        "# SELECT\nDELETE WHERE { ?s ?p ?o }",
        "BASE <http://e.org/> WITH <g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
        f"SELECT * {ALL} ; DROP ALL",
        f"CONSTRUCT {ALL} WHERE {ALL}",
        "DESCRIBE <http://e.org/1>",
        "",
        "  # nothing",
        "hello",
    ],
)
def test_only_select_and_ask_leave(query: str, tmp_path: Path) -> None:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    with sparql_server(serving(TURTLE)) as seen:
        for where in (seen.url, str(tmp_path / "kg")):
            with pytest.raises(GraphError, match=r"SELECT|is empty"):
                asyncio.run(open_graph(where, cached=False).query(query))
        assert seen.queries == []


@given(st.text(alphabet="SELECTlimit {}<>\"'#?:;1\\\n", max_size=60))
def test_no_text_breaks_the_bound(text: str) -> None:
    for query in (text, f"SELECT * {text}"):
        with suppress(GraphError):
            assert limit_rows(query, 4).startswith(query[:7])


def test_an_endpoint_is_asked_for_few_rows(tmp_path: Path) -> None:
    with sparql_server(serving(TURTLE)) as seen:
        done = hoptree(tmp_path, "graph", "query", f"SELECT * {ALL}", "--graph", seen.url, "-n", "3", "--json")
        assert "LIMIT 4" in seen.queries[0]
    output = json.loads(done.stdout)
    assert len(output["rows"]) == 3 and output["complete"] is False


def test_a_reply_that_is_far_too_long_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.graph.sparql._MAX_BODY_BYTES", 1_000)
    with sparql_server(lambda query: (200, {}, b" " * 5_000)) as seen:
        with pytest.raises(EndpointError, match=r"more than .* MB"):
            asyncio.run(open_graph(seen.url, cached=False).query(f"SELECT * {ALL}"))
        assert len(seen.queries) == 1


def test_columns_come_as_the_query_names_them() -> None:
    assert columns_in_order("SELECT * { ?s ?p 'a ?b' . ?s $q ?o }", ["o", "p", "q", "s"]) == ["s", "p", "q", "o"]
    assert columns_in_order("SELECT (COUNT(?s) AS ?n) ?o { ?s ?p ?o }", ["n", "o"]) == ["n", "o"]


def test_a_query_imports_nothing_from_the_folder_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    (tmp_path / "json.py").write_text("raise SystemExit('taken from here')")
    monkeypatch.chdir(tmp_path)
    table = asyncio.run(open_graph(str(tmp_path / "kg")).query("SELECT * { ?s ?p ?o }", limit=1))
    assert len(table.rows) == 1


HERE = "<http://127.0.0.1:1/> { ?s ?p ?o }"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT ?s {{ SERVICE {HERE} }}",
        f"SELECT ?s {{ # a comment\r SERVICE {HERE} }}",
        f"SELECT ?s {{ BIND('''a\\'''b''' AS ?x) SERVICE {HERE} BIND('''c''' AS ?y) }}",
        f"SELECT ?s {{ ?x ?p <http://a/\u00a0'> . SERVICE {HERE} FILTER(?x = '') }}",
        f"SELECT ?s {{ ?x ?p <http://a/\\u0041'> . SERVICE {HERE} FILTER(?x = '') }}",
        f"SELECT ?s {{ ?x ?p wd:b\\'c . SERVICE {HERE} FILTER(?x = '') }}",
        f"SELECT ?s {{ ?x ?p 1SERVICE {HERE} }}",
        f"SELECT ?s {{ ?x ?p trueSERVICE # to it\n # there\r\n {HERE} }}",
        f"SELECT ?s {{ SERVICESILENT{HERE} }}",
        "SELECT ?s { SERVICEwd:b#c\n{ ?s ?p ?o } }",
        "PREFIX : <http://a/> SELECT ?s { BIND(:x AS ?x) SERVICE:b\\({ ?s ?p ?o } }",
        "SELECT ?s { BIND(<http://127.0.0.1:1/> AS ?x)service?x{ ?s ?p ?o } }",
    ],
)
def test_no_way_of_writing_it_reaches_another_server(query: str, tmp_path: Path) -> None:
    """The store itself would ask there, and its parser takes what no check of words sees as a word."""
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    with pytest.raises(GraphError, match="asks another server"):
        asyncio.run(open_graph(str(tmp_path / "kg")).query(query))


def test_service_may_be_a_word_of_a_text_or_a_name(tmp_path: Path) -> None:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    query = "PREFIX service: <http://e.org/service#> SELECT * { ?s service:of ?service FILTER(?o = 'service: <it>') }"
    assert asyncio.run(open_graph(str(tmp_path / "kg")).query(query)).rows == ()


@pytest.mark.parametrize("text", ["service# ", "service:a\\(", "service?", "service:#", "service<", "service silent# "])
def test_service_is_looked_for_in_a_time_that_grows_with_the_query(text: str, tmp_path: Path) -> None:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    graph = open_graph(str(tmp_path / "kg"))
    query = f"SELECT * {{ ?s ?p '{text * (50_000 // len(text))}' "
    with cpu_limit(), pytest.raises(GraphError, match="is not SPARQL"):
        asyncio.run(graph.query(query))
