"""`hoptree graph` as a person meets it: what is said, and with which exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.graph.graph_files import TRUTHY, jsonl, written
from tests.graph.sparql_server import serving, sparql_server
from tests.small_indexes import hoptree
from typer.testing import CliRunner

from hoptree.cli import progress
from hoptree.cli.main import app


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written(tmp_path / "truthy.nt", TRUTHY)
    jsonl(tmp_path / "notes.jsonl", [{"s_id": "Q1615", "p": "hobby", "o": "gliding", "src": ["page 3"]}, {"s": "x"}])
    return tmp_path


def json_of(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    data: dict[str, object] = json.loads(done.stdout)
    return data


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == "" and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_graph_through_its_life(home: Path) -> None:
    loaded = hoptree(home, "graph", "load", "truthy.nt", "notes.jsonl", "--out", "kg")
    assert loaded.returncode == 0 and "3 facts and 6 names in kg" in loaded.stdout
    assert "Line 2 of notes.jsonl is passed over: it has no p and no o." in loaded.stderr
    shown = hoptree(home, "graph", "entity", "neil ARMSTRONG", "--graph", "kg")
    assert "Neil Armstrong | hobby | gliding   [notes.jsonl: page 3]" in shown.stdout
    assert "→ Q1615  Neil Armstrong  (American astronaut, also Neil Alden Armstrong)" in shown.stdout
    data = json_of(hoptree(home, "graph", "entity", "Q1615", "--graph", "kg", "-n", "1", "--json"))
    assert data["complete"] is False and len(data["facts"]) == 1  # type: ignore[arg-type]
    stats = json_of(hoptree(home, "graph", "stats", "--graph", "kg", "--json"))
    assert (stats["facts"], stats["properties"]) == (3, 3)
    removed = json_of(hoptree(home, "graph", "remove", "notes.jsonl", "--out", "kg", "--json"))
    assert removed["facts"] == 2
    unknown = hoptree(home, "graph", "entity", "gliding", "--graph", "kg")
    assert "no entity" in unknown.stdout.lower() and unknown.returncode == 1
    unknown = hoptree(home, "graph", "entity", "gliding", "--graph", "kg", "--json")
    assert json.loads(unknown.stdout)["entities"] == [] and unknown.returncode == 1


def test_one_fact_is_one_fact(home: Path) -> None:
    jsonl(home / "one.jsonl", [{"s": "Ada", "p": "knows", "o": "gliding"}])
    loaded = hoptree(home, "graph", "load", "one.jsonl", "--out", "one")
    assert loaded.stdout == "one.jsonl: 1 fact, 2 names\n1 fact and 2 names in one\n", loaded.stderr
    stats = hoptree(home, "graph", "stats", "--graph", "one").stdout
    assert stats.startswith("1 fact with 1 property, and 2 names\n  one.jsonl: 1 fact, 2 names\n")
    jsonl(home / "two.jsonl", [{"s": "Ada", "p": "likes", "o": "tea"}])
    assert hoptree(home, "graph", "load", "two.jsonl", "--out", "one").returncode == 0
    removed = hoptree(home, "graph", "remove", "two.jsonl", "--out", "one").stdout
    assert removed.startswith("1 fact and ")


def test_a_load_without_a_terminal_says_how_far_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.0)
    jsonl(home / "many.jsonl", [{"s": f"Person {n}", "p": "knows", "o": f"Person {n + 1}"} for n in range(5_001)])
    command = ["graph", "load", str(home / "many.jsonl"), "--out", str(home / "many")]
    assert CliRunner().invoke(app, command).exit_code == 0
    lines = CliRunner().invoke(app, command).stderr.splitlines()
    assert any(re.fullmatch(r"hoptree: loading: \d+ %, [\d,]+ triples", line) for line in lines), lines
    assert "loading" not in CliRunner().invoke(app, [*command, "--json"]).stderr


def test_a_name_that_nearly_fits_is_offered(home: Path) -> None:
    assert hoptree(home, "graph", "load", "truthy.nt", "--out", "kg").returncode == 0
    misspelt = hoptree(home, "graph", "entity", "neil armstrang", "--graph", "kg")
    assert (
        misspelt.stdout == "No entity has this name or id. Did you mean Neil Armstrong?\n" and misspelt.returncode == 1
    )
    nobody = hoptree(home, "graph", "entity", "zzyzx qwrt", "--graph", "kg")
    assert nobody.stdout == "No entity has this name or id.\n" and nobody.returncode == 1


def test_queries_are_shown_with_names_and_bounded(home: Path) -> None:
    assert hoptree(home, "graph", "load", "truthy.nt", "--out", "kg", "--json").returncode == 0
    query = "SELECT ?who ?what WHERE { ?who wdt:P166 ?what }"
    shown = hoptree(home, "graph", "query", query, "--graph", "kg")
    assert shown.stdout == "who  what\nNeil Armstrong (Q1615)  Presidential Medal of Freedom (Q17144)\n"
    data = json_of(hoptree(home, "graph", "query", "SELECT * { ?s ?p ?o }", "--graph", "kg", "-n", "2", "--json"))
    assert data["complete"] is False and len(data["rows"]) == 2  # type: ignore[arg-type]
    assert "yes" in hoptree(home, "graph", "query", "ASK { ?s ?p ?o }", "--graph", "kg").stdout
    refused(hoptree(home, "graph", "query", "SELECT nonsense", "--graph", "kg"), "is not SPARQL")
    refused(hoptree(home, "graph", "query", "INSERT DATA { <a:b> <a:b> <a:b> }", "--graph", "kg"), "SELECT and ASK")
    outside = "SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }"
    refused(hoptree(home, "graph", "query", outside, "--graph", "kg"), "asks another server")
    cross = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n1 ?o . ?q ?r ?s }"
    slow = hoptree(home, "graph", "query", cross, "--graph", "kg", "--seconds", "0.5")
    refused(slow, "did not end within 0.5 seconds", code=1)


def test_the_same_commands_ask_an_endpoint(home: Path) -> None:
    turtle = '<http://e.org/a> <http://e.org/p> "x" ; <http://www.w3.org/2000/01/rdf-schema#label> "A" .'
    with sparql_server(serving(turtle)) as seen:
        shown = hoptree(home, "graph", "entity", "A", "--graph", seen.url)
        assert f"A | p | x   [{seen.url}]" in shown.stdout, shown.stderr
        assert "triples 2" in hoptree(home, "graph", "stats", "--graph", seen.url).stdout
        before = len(seen.queries)
        assert hoptree(home, "graph", "entity", "A", "--graph", seen.url).stdout == shown.stdout
        assert len(seen.queries) == before, "what was asked before is remembered"
    with sparql_server(lambda query: (404, {}, b"<html>")) as seen:
        refused(hoptree(home, "graph", "entity", "A", "--graph", seen.url, "--no-cache"), "HTTP 404")


def test_mistakes_are_answered_with_what_to_do(home: Path) -> None:
    refused(hoptree(home, "graph", "entity", "x", "--graph", "kg"), "There is no knowledge graph", "hoptree graph load")
    refused(hoptree(home, "graph", "load", "none.nt", "--out", "kg"), "There is no file none.nt")
    refused(hoptree(home, "graph", "load", "notes.jsonl", "--out", "kg", "--skip-broken", "0"), "--skip-broken N")
    refused(hoptree(home, "graph", "load", "truthy.nt", "--out", "kg", "--form", "xml"), "no form 'xml'")
    refused(hoptree(home, "graph", "remove", "x", "--out", "kg"), "There is no knowledge graph")
    assert not (home / "kg").exists()
    assert hoptree(home, "graph", "load", "truthy.nt", "--out", "kg").returncode == 0
    assert "SPARQL" in hoptree(home, "graph", "--help").stdout


def test_without_the_extra_the_command_that_installs_it_is_named(home: Path) -> None:
    code = "import sys; sys.modules['pyoxigraph'] = None; from hoptree.__main__ import main; main()"
    command = [sys.executable, "-c", code, "graph", "load", "truthy.nt", "--out", "kg"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    refused(done, "pip install 'hoptree[graph]'")
