"""Recall of entities and relations: what is read, found, counted and told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.graph.graph_files import jsonl

from hoptree.core.errors import ConfigError, InputError
from hoptree.evaluation.linking import LinkingQuestion, LinkingRun, Parts, evaluate_linking, read_linking_questions
from hoptree.graph.entity_linking import open_candidates
from hoptree.graph.facts import Entity
from hoptree.graph.relation_linking import Relation
from hoptree.methods.steps.link import ByModel, ByWords
from hoptree.models.scripted import Rule, ScriptedModel

pytest.importorskip("pyoxigraph")
pytest.importorskip("numpy")

from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph

FACTS = [
    {"s": "Roger Marquis", "s_id": "Q1", "p": "place of death", "p_id": "P20", "o": "Holyoke", "o_id": "Q2"},
    {"s": "Roger Marquis", "s_id": "Q1", "p": "occupation", "p_id": "P106", "o": "actor"},
    {"s": "Angie Estes", "p": "profession", "o": "poet"},
]
WIKIDATA = {"id": "a", "question": "where did roger marquis die", "subject_qid": "Q1", "property": "P20"}
NAMED = {
    "id": "b",
    "question": "what is angie estes's work",
    "evidence_triples": [["Angie Estes", "profession", "poet"]],
}
ABSENT = {"id": "c", "question": "where was nolan born", "subject_qid": "Q99", "property": "P19"}


@pytest.fixture
def graph(tmp_path: Path) -> EmbeddedGraph:
    load_graph(tmp_path / "kg", [jsonl(tmp_path / "rows.jsonl", FACTS)])
    return EmbeddedGraph(tmp_path / "kg")


def run(graph: EmbeddedGraph, tmp_path: Path, *rows: Mapping[str, Any], **parts: Any) -> LinkingRun:
    asked = read_linking_questions(jsonl(tmp_path / "questions.jsonl", rows))
    parts.setdefault("rankings", {"words": ByWords()})
    done: list[None] = []
    found = asyncio.run(
        evaluate_linking(asked, Parts(graph, open_candidates(graph), **parts), on_done=lambda: done.append(None))
    )
    assert len(done) == len(rows)
    return found


def recall(told: Mapping[str, Any], way: str, k: int) -> float:
    value: float = told[way][f"recall@{k}"]["recall"]
    return value


def test_recall_over_all_questions_and_over_those_that_can_be_found(graph: EmbeddedGraph, tmp_path: Path) -> None:
    told = run(graph, tmp_path, WIKIDATA, NAMED, ABSENT).as_dict()
    assert (told["questions"], told["entity_in_graph"], told["relation_in_graph"], told["failed"]) == (3, 2, 2, 0)
    assert recall(told["entities"], "linker", 1) == pytest.approx(2 / 3)
    assert recall(told["entities_in_graph"], "linker", 1) == 1
    assert recall(told["relations"], "words", 1) == pytest.approx(2 / 3)
    assert recall(told["relations_in_graph"], "words", 6) == 1 and told["relations_ranked"] == 1.5
    spread = told["entities_in_graph"]["linker"]["recall@1"]
    assert spread["low"] < 1 == spread["high"]  # two of two is not certain
    json.dumps(told)


def test_relations_of_the_whole_graph(graph: EmbeddedGraph, tmp_path: Path) -> None:
    told = run(graph, tmp_path, WIKIDATA, ABSENT, among="graph").as_dict()
    assert told["relations_ranked"] == 3 and told["relation_in_graph"] == 1
    assert recall(told["relations"], "words", 3) == 0.5


def test_linker_model_union_and_what_the_model_keeps(graph: EmbeddedGraph, tmp_path: Path) -> None:
    rules = [
        Rule('["Holyoke"]', step="mentions", contains="roger"),
        Rule('["Angie Estes"]', step="mentions"),
        Rule("None", step="relations"),
    ]
    model = ScriptedModel(rules=rules)
    found = run(graph, tmp_path, WIKIDATA, NAMED, model=model, rankings={"llm": ByModel(ByWords())})
    told = found.as_dict()
    assert [recall(told["entities"], way, 5) for way in ("linker", "model", "union", "kept")] == [1, 0.5, 1, 1]
    assert [one.mentions for one in found.linked] == [("Holyoke",), ("Angie Estes",)]
    assert recall(told["relations"], "llm", 6) == 0.5  # the second has one relation, which nobody is asked about


def test_what_fails_is_missed_and_counted(graph: EmbeddedGraph, tmp_path: Path, no_backoff: None) -> None:
    model = ScriptedModel(rules=[Rule(fault="html", step="mentions", contains="roger"), Rule('["Angie Estes"]')])
    found = run(graph, tmp_path, WIKIDATA, NAMED, model=model)
    told = found.as_dict()
    assert told["failed"] == 1 and "web page" in found.linked[0].error
    assert [recall(told["entities"], way, 1) for way in ("linker", "model", "union", "kept")] == [1, 0.5, 0.5, 0.5]
    assert recall(told["relations"], "words", 1) == 1


def test_what_no_question_could_do_without_ends_it(graph: EmbeddedGraph, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no reply for step"):
        run(graph, tmp_path, WIKIDATA, model=ScriptedModel(rules=[]))


def test_questions_in_the_forms_they_come_in(tmp_path: Path) -> None:
    table = tmp_path / "annotated.txt"
    table.write_text("Q15461094\tR57\tQ2628332\tWhich film was directed by ian?\n")
    (one,) = read_linking_questions(table).questions
    assert (one.entity, one.relation, one.text) == ("Q15461094", "P57", "Which film was directed by ian?")
    rows: list[Mapping[str, Any]] = [
        NAMED,
        WIKIDATA,
        {"question": "who?"},
        {"question": "x", "subject": "http://www.wikidata.org/entity/Q5"},
    ]
    read = read_linking_questions(jsonl(tmp_path / "own.jsonl", rows))
    assert read.without_entity == 1 and [one.entity for one in read.questions] == ["Angie Estes", "Q1", "Q5"]
    assert [one.by_name for one in read.questions] == [True, False, False]
    assert len(read_linking_questions(tmp_path / "own.jsonl", limit=1).questions) == 1


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no question whose entity is known"):
        read_linking_questions(jsonl(tmp_path / "none.jsonl", [{"question": "who?"}]))
    with pytest.raises(InputError, match=r"Line 1 of odd\.jsonl"):
        read_linking_questions(jsonl(tmp_path / "odd.jsonl", [{"question": "x", "evidence_triples": "no"}]))
    with pytest.raises(ConfigError, match="not a half"):
        read_linking_questions(tmp_path / "none.jsonl", half="third")


def test_an_entity_known_by_name_may_be_any_of_that_name() -> None:
    named = LinkingQuestion("1", "?", "Émile Zola", "place_of_birth")
    assert named.is_entity(Entity("Q1", "Zola", aliases=("emile zola",))) and not named.is_entity(Entity("Q2", "Zola"))
    known = LinkingQuestion("1", "?", "Q1", "P19", "place of birth")
    assert known.is_entity(Entity("Q1", "x")) and not known.is_entity(Entity("Q2", "Q1"))
    assert named.is_relation(Relation("P19", "place of birth")) and known.is_relation(Relation("P19", "born"))
    assert known.is_relation(Relation("name:x", "Place of birth")) and not known.is_relation(Relation("P20", "died in"))
