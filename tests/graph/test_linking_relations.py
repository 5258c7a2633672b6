"""Relations of an entity or a graph, ranked by the words of their names."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.graph.graph_files import jsonl

from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph
from hoptree.graph.relation_linking import Relation, WordRanking, relations_in, relations_of

RELATIONS = (
    Relation("P20", "place of death", ("deathplace", "died in"), facts=5),
    Relation("P570", "date of death", ("died on", "died"), facts=9),
    Relation("P19", "place of birth", ("born in",), facts=7),
    Relation("P21", "sex or gender", ("gender", "sex")),
    Relation("name:film_genre", "film_genre"),
    Relation("P57", "director", ("directed by",), outward=False),
)


def ranked(question: str, *entity: str) -> list[str]:
    return [relation.id for relation, _ in WordRanking(RELATIONS).rank(question, entity=entity)]


def test_relations_are_ranked_by_words_without_endings() -> None:
    assert ranked("what is the gender of joe")[0] == "P21"
    assert ranked("who directs it")[0] == "P57" and ranked("which film genres are there")[0] == "name:film_genre"


def test_what_a_question_hints_at_decides_between_equals() -> None:
    assert ranked("where did joe die")[0] == "P20" and ranked("when did joe die")[0] == "P570"


def test_words_of_the_entity_ask_for_nothing() -> None:
    asked = "where was sex made"
    assert ranked(asked)[0] == "P21" and ranked(asked, "Sex", "The Director")[0] == "P19"


def test_of_equals_the_most_used_comes_first_then_the_id() -> None:
    assert ranked("xyz") == ["P570", "P19", "P20", "P21", "P57", "name:film_genre"]
    assert len(WordRanking(RELATIONS).rank("xyz", 2)) == 2 and WordRanking(()).rank("xyz") == ()


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=4))
def test_any_names_can_be_ranked(question: str, names: list[str]) -> None:
    relations = [Relation(f"P{number}", name, (name, "")) for number, name in enumerate(names, 1)]
    ranking = WordRanking(relations).rank(question)
    assert sorted(relation.id for relation, _ in ranking) == sorted(relation.id for relation in relations)
    assert [score for _, score in ranking] == sorted((score for _, score in ranking), reverse=True)


def test_relations_of_a_graph_know_aliases_values_and_directions(tmp_path: Path) -> None:
    men: list[dict[str, object]] = [
        {"s": f"man {n}", "p": "place of death", "p_id": "P20", "o": "Holyoke", "o_id": "Q2"} for n in range(5)
    ]
    rows: list[dict[str, object]] = [
        {"s": "Roger Marquis", "s_id": "Q1", "p": "place of death", "p_id": "P20", "o": "Holyoke", "o_id": "Q2"},
        *men,
        {"s_id": "Q2", "p": "mayor", "o": "man 1"},
        {"id": "P20", "label": "place of death", "aliases": ["died in"], "description": "where it was"},
    ]
    load_graph(tmp_path / "kg", [jsonl(tmp_path / "rows.jsonl", rows)])
    graph = EmbeddedGraph(tmp_path / "kg")
    properties = asyncio.run(graph.properties())
    mayor, died = relations_of(graph.facts_now("Q2"), {each.id: each for each in properties})
    assert mayor == Relation("name:mayor", "mayor", outward=True, facts=1, values=("man 1",))
    assert (died.outward, died.facts, died.aliases, len(died.values)) == (False, 6, ("died in",), 3)
    assert relations_in(properties)[0] == Relation("P20", "place of death", ("died in",), "where it was", facts=6)
