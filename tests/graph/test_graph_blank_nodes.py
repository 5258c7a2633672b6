"""What has no name in its file is something else in every other file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.graph.graph_files import written

from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph

FORMS = {
    "nt": "_:b0 <http://e.org/called> {name!r} .\n_:b0 <http://e.org/kind> <http://e.org/{kind}> .\n",
    "ttl": "@prefix e: <http://e.org/> .\n_:b0 e:called {name!r} ; e:kind e:{kind} .\n",
    "nq": "_:b0 <http://e.org/called> {name!r} <a:g> .\n_:b0 <http://e.org/kind> <http://e.org/{kind}> <a:g> .\n",
}


def file(place: Path, form: str, name: str, kind: str) -> Path:
    return written(place / f"data.{form}", FORMS[form].format(name=name, kind=kind).replace("'", '"'))


def facts_about(kg: Path, kind: str) -> list[str]:
    """All that is said of what is of a kind."""
    graph = EmbeddedGraph(kg)
    neighbourhood = asyncio.run(graph.facts(f"http://e.org/{kind}", direction="in"))
    around = [asyncio.run(graph.facts(fact.subject.id, direction="out")) for fact in neighbourhood.facts]
    return [fact.object.text for each in around for fact in each.facts]


@pytest.mark.parametrize("form", FORMS)
def test_files_of_one_name_in_two_sources(tmp_path: Path, form: str) -> None:
    kg = tmp_path / "kg"
    load_graph(kg, [file(tmp_path / "a", form, "Ada", "poet")], source="first")
    load_graph(kg, [file(tmp_path / "b", form, "Ben", "pilot")], source="second")
    assert facts_about(kg, "poet") == ["Ada", "poet"] and facts_about(kg, "pilot") == ["Ben", "pilot"]


@pytest.mark.parametrize("form", FORMS)
def test_files_of_one_name_in_one_source(tmp_path: Path, form: str) -> None:
    kg = tmp_path / "kg"
    files = [file(tmp_path / "a", form, "Ada", "poet"), file(tmp_path / "b", form, "Ben", "pilot")]
    load_graph(kg, files, source="all")
    assert facts_about(kg, "poet") == ["Ada", "poet"] and facts_about(kg, "pilot") == ["Ben", "pilot"]


def test_a_file_that_is_added_again_says_nothing_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kg, path = tmp_path / "kg", file(tmp_path / "a", "nt", "Ada", "poet")
    load_graph(kg, [path], source="all")
    monkeypatch.chdir(tmp_path / "a")
    loaded = load_graph(kg, [Path("data.nt")], source="all", append=True)
    assert loaded.manifest.facts == 2 and facts_about(kg, "poet") == ["Ada", "poet"]
