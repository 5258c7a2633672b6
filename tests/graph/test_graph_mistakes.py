"""Damage, places that are none, and queries that are wrong: each is said, with what to do."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from tests.graph.graph_files import TRUTHY, jsonl, written
from tests.graph.sparql_server import Answer, serving, sparql_server
from tests.small_indexes import hoptree

from hoptree.core.errors import GraphError
from hoptree.graph import MANIFEST, open_graph
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph


@pytest.fixture
def home(tmp_path: Path) -> Path:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    return tmp_path


def refused(home: Path, *command: str) -> str:
    done = hoptree(home, "graph", *command)
    assert done.returncode == 2 and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert "Something went wrong" not in done.stderr
    return done.stderr


def test_seconds_hold_for_names_at_an_endpoint(tmp_path: Path) -> None:
    given_up = threading.Event()

    def slow(query: str) -> Answer:
        given_up.wait(60)
        return 200, {}, b"{}"

    with sparql_server(slow) as seen:
        done = hoptree(tmp_path, "graph", "entity", "Elia Kazan", "--graph", seen.url, "--seconds", "0.5")
        assert "in time (0.5 seconds)" in done.stderr
        given_up.set()


@pytest.mark.parametrize("pattern", ["MANIFEST-*", "*.sst"])
def test_damage_of_the_data_is_told_wherever_it_shows(home: Path, pattern: str) -> None:
    for path in (home / "kg" / "000001").glob(pattern):
        path.write_bytes(b"" if pattern == "MANIFEST-*" else os.urandom(path.stat().st_size))
    for command in (("entity", "Q1615"), ("query", "SELECT * { ?s ?p ?o }"), ("stats",)):
        message = refused(home, *command, "--graph", "kg")
        assert "The graph kg is damaged" in message and "Remove the folder kg" in message
    assert "is damaged" in refused(home, "load", "truthy.nt", "--out", "kg")


def test_damage_that_shows_only_when_read_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks in the middle of a large table are not looked at when it is opened."""
    monkeypatch.setattr("hoptree.graph.folder._CHECKED_AT_ONCE_BYTES", 0)
    rows = [{"s": f"Person {number}", "p": "knows", "o": f"Person {number * 7}"} for number in range(5_000)]
    load_graph(home / "big", [jsonl(home / "rows.jsonl", rows)])
    for path in (home / "big" / "000001").glob("*.sst"):
        content = bytearray(path.read_bytes())
        if len(content) > 20_000:  # small ones are read whole
            content[: len(content) // 3] = bytes(len(content) // 3)
            path.write_bytes(content)
    graph = EmbeddedGraph(home / "big")
    for look in (
        lambda: [asyncio.run(graph.entities(f"Person {number}")) for number in range(500)],
        lambda: [graph.facts_now(f"name:Person {number}") for number in range(500)],
        lambda: list(graph.all_names()),
    ):
        with pytest.raises(GraphError, match="is damaged: Corruption"):
            look()
    with pytest.raises(GraphError, match="is damaged"):
        asyncio.run(graph.query("SELECT * { ?s ?p ?o }"))


def test_the_advice_for_a_damaged_manifest_works(home: Path) -> None:
    (home / "kg" / MANIFEST).write_text("{")
    message = refused(home, "load", "truthy.nt", "--out", "kg")
    assert "Remove the folder" in message and "then load its files again" in message
    shutil.rmtree(home / "kg")
    assert hoptree(home, "graph", "load", "truthy.nt", "--out", "kg").returncode == 0


def test_values_are_given_as_the_graph_has_them(home: Path) -> None:
    rows = [{"s": f"Person {number}", "p": "knows", "o": f"Person {number * 7}"} for number in range(1_200)]
    load_graph(home / "kg", [jsonl(home / "rows.jsonl", rows)])
    count = "SELECT (10 * COUNT(*) AS ?n) ?p { ?s ?p ?o . FILTER(?p = property:knows) } GROUP BY ?p"
    output = json.loads(hoptree(home, "graph", "query", count, "--graph", "kg", "--json").stdout)
    assert output["columns"] == ["n", "p"]
    number, relation = output["rows"][0]
    assert (number["text"], number["value"]) == ("12,000", "12000") and number["datatype"].endswith("#integer")
    assert (relation["text"], relation["value"]) == ("knows", "urn:hoptree:property:knows")
    turtle = '<http://e.org/a> <http://e.org/p> "hallo"@de, 12000 .'
    query = "SELECT ?o { ?s ?p ?o }"
    with sparql_server(serving(turtle)) as seen:
        table = asyncio.run(open_graph(seen.url, cached=False).query(query))
        asked = asyncio.run(open_graph(seen.url, cached=False).query("ASK { ?s ?p ?o }"))
    cells = {(cell.text, cell.value, cell.datatype.rpartition("#")[2], cell.language) for (cell,) in table.rows}
    assert ("12,000", "12000", "integer", "") in cells
    assert any((cell.text, cell.value, cell.language) == ("hallo", "hallo", "de") for (cell,) in table.rows)
    assert (asked.rows[0][0].text, asked.rows[0][0].value) == ("yes", "true")
    local = json.loads(hoptree(home, "graph", "query", "ASK { ?s ?p ?o }", "--graph", "kg", "--json").stdout)
    assert local["rows"][0][0]["value"] == "true" and local["rows"][0][0]["text"] == "yes"


def test_columns_of_everything_come_in_the_order_of_the_query(home: Path) -> None:
    done = hoptree(home, "graph", "query", "SELECT * { ?s wdt:P166 ?o . ?o ?a ?b }", "--graph", "kg")
    assert done.stdout.splitlines()[0] == "s  o  a  b"
    assert "Neil Armstrong (Q1615)" in done.stdout.splitlines()[1].split("  ")[0]


def test_places_that_are_no_graph_are_named(home: Path) -> None:
    (home / "fold").mkdir()
    assert "fold is a folder." in refused(home, "load", "fold", "--out", "kg2")
    assert "truthy.nt is a file, and no knowledge graph" in refused(home, "load", "truthy.nt", "--out", "truthy.nt")
    message = refused(home, "entity", "x", "--graph", "ftp://x/sparql")
    assert "'ftp://x/sparql' is not an address" in message and "http:// or https://" in message
    assert "only asked" in refused(home, "remove", "x", "--out", "http://127.0.0.1:9/sparql")
    assert "only asked" in refused(home, "load", "truthy.nt", "--out", "https://e.org/sparql")
    assert "stands for Wikidata itself" in refused(home, "load", "truthy.nt", "--out", "wikidata")
    assert not (home / "wikidata").exists() and not (home / "https:").exists()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * { ?s foo:x ?o . ?s wdt:P1 ?o }", "there is no prefix foo: (declare it: PREFIX foo: <IRI>)"),
        ("SELECT * { ?s :x ?o }", "there is no prefix : "),
        ("SELECT ?x\n{ ?s ?p ?o . } ORDER BYE ?x", "it cannot be read at line 2"),
        ("SELECT nonsense", "it cannot be read at line 1"),
        ("DELETE WHERE { ?s ?p ?o }", "only SELECT and ASK are run"),
        ("", "The query is empty"),
    ],
)
def test_what_is_wrong_with_a_query_is_said_in_words(home: Path, query: str, words: str) -> None:
    message = refused(home, "query", query, "--graph", "kg")
    assert words in message and "expected" not in message


def test_no_rows_are_said_to_be_none(home: Path) -> None:
    done = hoptree(home, "graph", "query", "SELECT ?s { ?s wdt:P999 ?o }", "--graph", "kg")
    assert done.stdout == "s\nno rows\n"
