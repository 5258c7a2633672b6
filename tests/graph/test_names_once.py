"""The index of a graph's names as methods see it: opened once, traced, and missed in words that help."""

from __future__ import annotations

import asyncio
import errno
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.graph.graph_files import jsonl
from tests.methods.small_knowledge import Pages
from tests.methods.treeqa_asked import MOON, node, rules, tree
from tests.traced import as_dicts

from hoptree.cli.ask import report_name_index
from hoptree.core.errors import GraphUnavailable
from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.graph import names_index
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph
from hoptree.models.scripted import Rule, ScriptedModel

ROWS = [
    {"s": "Apollo 14", "p": "landing date", "o": "5 February 1971"},
    {"s": "Apollo 14", "p": "crew member", "o": "Alan Shepard"},
    {"s": "Moon", "p": "third landing", "o": "Apollo 14"},
]
PAGE = Passage("Apollo 14_0_0", "Apollo 14", "Apollo 14 made the third landing on the Moon.")


@pytest.fixture
def graph(tmp_path: Path) -> EmbeddedGraph:
    load_graph(tmp_path / "kg", [jsonl(tmp_path / "rows.jsonl", ROWS)])
    return EmbeddedGraph(tmp_path / "kg")


def asked(graph: EmbeddedGraph, times: int = 1, **options: Any) -> tuple[list[Result], list[Event]]:
    """The question asked several times at once; the model misspells a name that the query has in small letters."""
    build = tree(node("what did apolo 14 do?", "it landed"))
    model = ScriptedModel(rules=rules(Rule(json.dumps(["Apollo 14"]), step="mentions"), build=build))
    events: list[Event] = []

    async def ask() -> list[Result]:
        async with Engine(
            method="treeqa", model=model, corpus=Pages(PAGE), graph=graph, options=options, cache=None
        ) as engine:
            return await asyncio.gather(*(engine.ask(MOON, listeners=(events.append,)) for _ in range(times)))

    return asyncio.run(ask()), events


@pytest.mark.parametrize("traversal", ["serial", "speculative"])
def test_words_and_names_are_looked_up_in_the_index(graph: EmbeddedGraph, traversal: str) -> None:
    (result,), events = asked(graph, traversal=traversal)
    assert result.error == "" and result.tree[0].children[0].verdict == "supported"
    looked = [(event["name"], event["whole"]) for event in as_dicts(events) if event["event"] == "entities"]
    assert looked == [("what did apolo 14 do? it landed", False), ("Apollo 14", True)]
    (linked,) = (event for event in as_dicts(events) if event.get("kind") == "linked")
    assert linked["value"][0] == "Apollo 14" and linked["node"] == 1
    looked_up = next(event for event in as_dicts(events) if event["event"] == "entities" and event["whole"])
    assert looked_up["found"][0][1] == "Apollo 14" and looked_up["scores"][0] == 1.0 and looked_up["seconds"] >= 0


def test_the_index_is_opened_once_for_all_questions(graph: EmbeddedGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[EmbeddedGraph] = []
    original = names_index.open_name_index

    def counted(graph: EmbeddedGraph, **how: Any) -> names_index.NameIndex:
        opened.append(graph)
        return original(graph, **how)

    monkeypatch.setattr(names_index, "open_name_index", counted)
    results, _ = asked(graph, times=8)
    again, _ = asked(graph)
    assert {result.error for result in (*results, *again)} == {""} and opened == [graph]


def test_whoever_waits_for_the_index_is_told_once_in_a_while(
    graph: EmbeddedGraph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(names_index, "_PROGRESS_NAMES", 2)
    report_name_index(graph)
    asked(graph)
    asked(graph)
    assert capsys.readouterr().err == "hoptree: indexing the names of the graph: 2 of 3. This is done once.\n"


def refuse(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    make_folder = tempfile.mkdtemp

    def mkdtemp(*, prefix: str, dir: Path) -> str:  # noqa: A002 - as the library calls it
        if dir in folders:
            raise OSError(errno.EROFS, "Read-only file system")
        return make_folder(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)


def test_a_graph_that_may_not_be_written_to_has_its_index_elsewhere_or_says_so(
    graph: EmbeddedGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    elsewhere = tmp_path / "cache/hoptree/names"
    with monkeypatch.context() as patched:
        refuse(patched, graph.folder, elsewhere)
        (result,), _ = asked(graph)
        assert isinstance(result.failure, GraphUnavailable) and result.answer == ""
        assert "index of names cannot be written" in result.error_message and str(elsewhere) in result.error_message
    refuse(monkeypatch, graph.folder)
    (result,), _ = asked(graph)  # what failed before is tried again
    assert result.error == "" and list(elsewhere.glob("names-*"))
