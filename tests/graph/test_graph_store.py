"""A graph in a folder: what is loaded, found, replaced and removed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit
from tests.graph.graph_files import ENTITY, TRUTHY, jsonl, written

from hoptree.core.errors import GraphError
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.facts import Neighbourhood
from hoptree.graph.loading import Progress, load_graph, remove_source


@pytest.fixture
def kg(tmp_path: Path) -> Path:
    return tmp_path / "kg"


def loaded(kg: Path, *rows: Mapping[str, object]) -> EmbeddedGraph:
    load_graph(kg, [jsonl(kg.parent / "rows.jsonl", rows)])
    return EmbeddedGraph(kg)


def texts(neighbourhood: Neighbourhood) -> list[str]:
    return [fact.text for fact in neighbourhood.facts]


def test_a_truthy_dump_becomes_facts_and_names(kg: Path, tmp_path: Path) -> None:
    loaded = load_graph(kg, [written(tmp_path / "truthy.nt", TRUTHY)])
    graph = EmbeddedGraph(kg)
    neighbourhood = asyncio.run(graph.facts("Q1615"))
    assert texts(neighbourhood) == [
        "Neil Armstrong | award received | Presidential Medal of Freedom",
        "Neil Armstrong | date of birth | 5 August 1930",
    ]
    assert neighbourhood.complete and neighbourhood.facts[0].sources == ("truthy.nt",)
    assert neighbourhood.facts[0].object.id == "Q17144" and neighbourhood.facts[1].object.id == ""
    entity = asyncio.run(graph.entity("Q1615"))
    assert entity is not None
    assert (entity.aliases, entity.description, entity.page) == (
        ("Neil Alden Armstrong",),
        "American astronaut",
        "Neil Armstrong",
    )
    assert (loaded.manifest.facts, loaded.manifest.names, loaded.left_out) == (2, 5, 8)
    properties = asyncio.run(graph.properties())
    assert [(each.id, each.label, each.datatype, each.facts) for each in properties] == [
        ("P166", "award received", "", 1),
        ("P569", "date of birth", "Time", 1),
    ]
    assert dict(graph.all_names())["Q17144"] == "Presidential Medal of Freedom"


def test_facts_are_found_from_both_ends(kg: Path) -> None:
    graph = loaded(kg, {"s": "Apollo 12", "p": "crew", "o": "Alan Bean"}, {"s": "Alan Bean", "p": "born", "o": "1932"})
    assert texts(graph.facts_now("name:Alan Bean")) == ["Alan Bean | born | 1932", "Apollo 12 | crew | Alan Bean"]
    assert texts(graph.facts_now("name:Alan Bean", "in")) == ["Apollo 12 | crew | Alan Bean"]
    assert texts(graph.facts_now("name:Alan Bean", "out")) == ["Alan Bean | born | 1932"]
    nobody = graph.facts_now("Q99")
    assert nobody.facts == () and nobody.complete and asyncio.run(graph.entity("Q99")) is None


def test_names_are_found_whatever_their_capitals_and_accents(kg: Path) -> None:
    graph = loaded(
        kg,
        {"id": "Q20", "label": "Émile Zola"},
        {"id": "Q3", "label": "Zola", "aliases": ["Emile  Zola"]},
        {"id": "Q100", "label": "emile zola"},
        {"id": "P7", "label": "emile zola"},
    )
    assert [entity.id for entity in asyncio.run(graph.entities("emile zola"))] == ["Q100", "Q20", "Q3"]
    assert [entity.id for entity in asyncio.run(graph.entities("EMILE ZOLA", limit=1))] == ["Q20"]
    assert asyncio.run(graph.entities("")) == asyncio.run(graph.entities("nobody")) == ()


def test_cyclic_data_is_data(kg: Path) -> None:
    graph = loaded(
        kg,
        {"s": "A", "p": "knows", "o": "B"},
        {"s": "B", "p": "knows", "o": "A"},
        {"s": "A", "p": "knows", "o": "A"},
    )
    assert texts(graph.facts_now("name:A")) == ["A | knows | A", "A | knows | B", "B | knows | A"]


def test_a_fact_of_two_sources_stays_when_one_goes(kg: Path, tmp_path: Path) -> None:
    row = {"s": "A", "p": "knows", "o": "B"}
    first = jsonl(tmp_path / "first.jsonl", [row, {"s": "A", "p": "knows", "o": "C"}])
    second = jsonl(tmp_path / "second.jsonl", [{**row, "src": ["page 1", "page 2"]}])
    load_graph(kg, [first])
    assert load_graph(kg, [second]).manifest.facts == 3
    before = EmbeddedGraph(kg)
    (fact,) = [fact for fact in before.facts_now("name:B").facts]
    assert fact.sources == ("first.jsonl", "second.jsonl: page 1", "second.jsonl: page 2")
    assert remove_source(kg, "first.jsonl").facts == 1
    after = EmbeddedGraph(kg)
    assert [fact.sources for fact in after.facts_now("name:A").facts] == [
        ("second.jsonl: page 1", "second.jsonl: page 2")
    ]
    assert asyncio.run(after.entities("C")) == ()
    assert len(before.facts_now("name:A").facts) == 2, "a graph stays as it was when it was opened"
    with pytest.raises(GraphError, match=r"has no source 'first\.jsonl'"):
        remove_source(kg, "first.jsonl")
    stats = asyncio.run(after.stats())
    assert (stats.facts, stats.names, stats.properties) == (1, 2, 1)


def test_a_large_source_is_taken_out_by_writing_the_others_anew(
    kg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.graph.folder._REWRITE_FROM_ROWS", 1)
    tricky = 'a "quoted" <x> . \n name'
    row = {"s": tricky, "p": "knows", "o": "B"}
    size = {"s": tricky, "p": "size", "o": {"amount": "+5", "unit": "1"}}
    load_graph(kg, [jsonl(tmp_path / "base.jsonl", [row, size])])
    load_graph(kg, [jsonl(tmp_path / "kept.jsonl", [{**row, "src": "page 1"}, {**row, "s": "C"}])])
    load_graph(kg, [jsonl(tmp_path / "gone.jsonl", [{**row, "src": "page 2"}, {**row, "s": "D"}])])
    before = EmbeddedGraph(kg).manifest.triples
    manifest = remove_source(kg, "gone.jsonl")
    assert [source.name for source in manifest.sources] == ["base.jsonl", "kept.jsonl"]
    graph = EmbeddedGraph(kg)
    assert [(fact.subject.text, fact.sources) for fact in graph.facts_now("name:B").facts] == [
        ("C", ("kept.jsonl",)),
        ('a "quoted" <x> . name', ("base.jsonl", "kept.jsonl: page 1")),
    ]
    assert asyncio.run(graph.entities("D")) == () and manifest.triples < before
    load_graph(kg, [tmp_path / "gone.jsonl"])
    assert EmbeddedGraph(kg).manifest.triples == before


def test_lines_that_look_like_facts_and_are_broken_are_named(kg: Path, tmp_path: Path) -> None:
    sound = [f"<{ENTITY}Q{n}> <http://e.org/p> <{ENTITY}Q1> .\n" for n in range(2, 2_500)]
    lines = [*sound[:1_200], f"<{ENTITY}Q9> <http://e.org/p> nothing .\n", *sound[1_200:], "_:a <http://e.org/p> _:a ."]
    loaded = load_graph(kg, [written(tmp_path / "f.nt", "".join(lines))])
    assert loaded.manifest.facts == len(sound) + 1 and loaded.broken == 1
    assert loaded.examples[0].startswith("Line 1,201 of f.nt is passed over")


def test_a_source_is_replaced_or_added_to(kg: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    load_graph(kg, [jsonl(path, [{"s": "A", "p": "knows", "o": "B"}])])
    load_graph(kg, [jsonl(path, [{"s": "A", "p": "knows", "o": "C"}])])
    assert texts(EmbeddedGraph(kg).facts_now("name:A")) == ["A | knows | C"]
    load_graph(kg, [jsonl(path, [{"s": "A", "p": "knows", "o": "D"}])], append=True)
    graph = EmbeddedGraph(kg)
    assert texts(graph.facts_now("name:A")) == ["A | knows | C", "A | knows | D"]
    assert [(source.facts, source.name) for source in graph.manifest.sources] == [(2, "rows.jsonl")]


def test_many_changes_lose_nothing(kg: Path, tmp_path: Path) -> None:
    for number in range(6):
        path = jsonl(tmp_path / f"{number}.jsonl", [{"s": "A", "p": "has", "o": f"part {number}"}])
        load_graph(kg, [path])
    remove_source(kg, "0.jsonl")
    remove_source(kg, "3.jsonl")
    load_graph(kg, [tmp_path / "0.jsonl"])
    facts = EmbeddedGraph(kg).facts_now("name:A").facts
    assert [fact.object.text for fact in facts] == ["part 0", "part 1", "part 2", "part 4", "part 5"]
    assert len(list(kg.glob("[0-9]*"))) == 2


def test_qualifiers_are_told_with_their_fact(kg: Path) -> None:
    held = {"s": "Grover Cleveland", "p": "position held", "p_id": "P39", "o": "President", "o_id": "Q11696"}
    start = {"time": "+1885-03-04T00:00:00Z", "precision": 11}
    graph = loaded(
        kg,
        {"id": "P580", "label": "start time"},
        {**held, "qualifiers": {"P580": start, "ordinal": 22}},
        {**held, "qualifiers": [["P580", {"time": "+1893-03-00T00:00:00Z", "precision": 10}]]},
        {"s": "Grover Cleveland", "p": "born", "o": "1837"},
    )
    neighbourhood = graph.facts_now("name:Grover Cleveland")
    assert texts(neighbourhood) == [
        "Grover Cleveland | born | 1837",
        "Grover Cleveland | position held | President (ordinal: 22; start time: 4 March 1885)",
        "Grover Cleveland | position held | President (start time: March 1893)",
    ]
    assert texts(graph.facts_now("Q11696")) == texts(neighbourhood)[1:]
    assert graph.manifest.facts == 2 and graph.manifest.sources[0].qualifiers == 3


def test_statements_of_a_full_dump_are_qualifiers_and_no_facts(kg: Path, tmp_path: Path) -> None:
    text = """@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> . @prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> . @prefix s: <http://www.wikidata.org/entity/statement/> .
wd:Q937 wdt:P69 wd:Q11942 ; p:P69 s:Q937-1 .
s:Q937-1 ps:P69 wd:Q11942 ; pq:P582 "1900-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .
"""
    load_graph(kg, [written(tmp_path / "full.ttl", text)])
    graph = EmbeddedGraph(kg)
    assert texts(graph.facts_now("Q937")) == ["Q937 | P69 | Q11942 (P582: 1900)"]
    assert texts(graph.facts_now("Q11942")) == ["Q937 | P69 | Q11942 (P582: 1900)"]


def test_quantities_have_the_name_of_their_unit(kg: Path) -> None:
    height = {"amount": "+8848.86", "unit": "http://www.wikidata.org/entity/Q11573"}
    graph = loaded(
        kg, {"id": "Q11573", "label": "metre"}, {"s": "Everest", "p": "height", "o": height},
        {"s": "Everest", "p": "rank", "o": {"amount": "+1", "unit": "1"}},
    )  # fmt: skip
    assert texts(graph.facts_now("name:Everest")) == ["Everest | height | 8848.86 metre", "Everest | rank | 1"]


def test_an_entity_with_50_000_facts_takes_bounded_time(kg: Path, tmp_path: Path) -> None:
    direct = "http://www.wikidata.org/prop/direct/"
    lines = [
        f"<{ENTITY}Q{10 + n}> <{direct}P{31 if n % 1000 else 100 + n // 1000}> <{ENTITY}Q5> .\n" for n in range(50_000)
    ]
    lines += [f"<{ENTITY}Q6> <{direct}P2> <{ENTITY}Q{n}> .\n" for n in range(10, 5_000)]
    load_graph(kg, [written(tmp_path / "hub.nt", "".join(lines))])
    graph = EmbeddedGraph(kg)
    with cpu_limit():
        neighbourhood = graph.facts_now("Q5", limit=100)
    assert len(neighbourhood.facts) == 100 and not neighbourhood.complete
    assert len({fact.relation.id for fact in neighbourhood.facts}) == 51, "some facts of every property"
    hub = graph.facts_now("Q6", limit=100)
    assert len(hub.facts) == 100 and not hub.complete
    assert not graph.facts_now("Q5", limit=50_000, seconds=0.0).complete


def test_both_directions_get_their_share(kg: Path) -> None:
    rows: list[dict[str, object]] = [{"s": "A", "p": "has", "o": f"part {n}"} for n in range(30)]
    rows += [{"s": f"whole {n}", "p": "of", "o": "A"} for n in range(30)]
    graph = loaded(kg, *rows)
    neighbourhood = graph.facts_now("name:A", limit=20)
    assert [fact.subject.text == "A" for fact in neighbourhood.facts].count(True) == 10
    assert len(neighbourhood.facts) == 20 and not neighbourhood.complete
    assert graph.facts_now("name:A", limit=60).complete


def test_an_id_the_store_does_not_take_is_refused(kg: Path) -> None:
    graph = loaded(kg, {"s": "A", "p": "size", "o": {"amount": "+5", "unit": "odd[]unit"}})
    assert texts(graph.facts_now("name:A")) == ["A | size | 5 odd[]unit"]
    with pytest.raises(GraphError, match="is not an IRI"):
        graph.facts_now("http://[x")


def test_ids_with_very_long_numbers_are_sorted(kg: Path) -> None:
    ids = [f"http://e.org/{digits}" for digits in ("9" * 5000, "1" * 5000, "7")]
    graph = loaded(kg, *[{"id": id_, "label": "same"} for id_ in ids])
    assert [entity.id for entity in asyncio.run(graph.entities("same"))] == ids[::-1]


EVIL = [
    '"@en . } ; DROP ALL ; SELECT * WHERE { ?s ?p "',
    "x> . ?s ?p ?o . <x",
    "\\u0022 . ?s ?p ?o . #",
    "name\n} UNION { ?s ?p ?o",
    "'; --",
]


@pytest.mark.parametrize("name", EVIL)
def test_a_label_is_never_a_part_of_a_query(kg: Path, name: str) -> None:
    graph = loaded(kg, {"s": name, "p": "knows", "o": "B"}, {"s": "C", "p": name, "o": "secret"})
    plain = " ".join(name.split())
    assert [entity.label for entity in asyncio.run(graph.entities(name))] == [plain]
    assert texts(graph.facts_now(f"name:{plain}")) == [f"{plain} | knows | B"]
    assert texts(graph.facts_now("name:C")) == [f"C | {plain.replace('_', ' ')} | secret"]
    with pytest.raises(GraphError, match="is not an id"):
        graph.facts_now(name)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), min_size=1, max_size=8))
def test_every_name_that_is_loaded_is_found(tmp_path: Path, names: list[str]) -> None:
    names = [plain for name in names if (plain := " ".join(name.replace("\0", " ").split()))]
    if not names:
        return
    kg = tmp_path / f"kg{time.monotonic_ns()}"
    graph = loaded(kg, *({"id": f"Q{number}", "label": name} for number, name in enumerate(names, 1)))
    for number, name in enumerate(names, 1):
        assert f"Q{number}" in [entity.id for entity in asyncio.run(graph.entities(name, limit=20))]


def test_names_in_other_languages_are_left_out_unless_wanted(kg: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "truthy.nt", TRUTHY)
    load_graph(kg, [path], languages=("ar", "en"))
    for languages, label in ((), "نيل آرمسترونغ"), (("en",), "Neil Armstrong"):
        entity = asyncio.run(EmbeddedGraph(kg, languages=languages).entity("Q1615"))
        assert entity is not None and entity.label == label
    assert EmbeddedGraph(kg).manifest.languages == ("ar", "en")


def test_broken_lines_are_counted_by_source_and_progress_is_told(kg: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "f.nt", TRUTHY + "broken\n")
    seen: list[Progress] = []
    loaded = load_graph(kg, [path], on_progress=seen.append)
    assert loaded.broken == 1 and "Line 19 of f.nt" in loaded.examples[0]
    assert loaded.manifest.sources[0].broken == 1
    assert seen[-1].done == seen[-1].total == path.stat().st_size


def test_what_cannot_be_loaded_is_said(kg: Path, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="There is no file"):
        load_graph(kg, [tmp_path / "none.nt"])
    with pytest.raises(GraphError, match="nothing to load"):
        load_graph(kg, [])
    same = [written(tmp_path / name / "f.nt", TRUTHY) for name in ("a", "b")]
    with pytest.raises(GraphError, match=r"Two files are called f\.nt"):
        load_graph(kg, same)
    assert load_graph(kg, same, source="both").manifest.facts == 2
    (tmp_path / "docs").mkdir()
    written(tmp_path / "docs" / "letter.txt", "mine")
    with pytest.raises(GraphError, match="is not a knowledge graph"):
        load_graph(tmp_path / "docs", same[:1])
