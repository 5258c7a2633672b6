"""MIND's names and relations as small models give them, and the worked examples that show how it should be done."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.methods.continuation_asked import DUKES, Run, Search, sure
from tests.methods.mind_asked import CHARLES, LAST, figure

from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.fact_extraction import ground_triples, read_triples
from hoptree.models.scripted import Rule
from hoptree.text.names import open_tagger
from hoptree.text.retrieval_triggers import sought_words

ROSES = "Where was the director of film A Day Of Roses In August born?"


def extracted(question: str, *entities: str, relations: tuple[str, ...] = ()) -> list[list[str]]:
    reply = json.dumps({"entities": entities, "relations": relations})
    script = [Rule(reply, step="extract"), Rule(LAST, step="draft", entropy=0.1, attention=0.2)]
    (value,) = Run("mind", script, question=question).values("extracted")
    return [[name, kind[0]] for name, kind in value]


def test_an_entity_in_small_letters_is_a_relation() -> None:
    value = extracted(ROSES, "A Day Of Roses In August", "director", "birthplace", relations=("born", "director"))
    assert value == [["A Day Of Roses In August", "e"], ["director", "r"], ["birthplace", "r"], ["born", "r"]]


@pytest.mark.parametrize("name", ["20 000 lieues", "iPhone", "北京", "Émile"])
def test_figures_capitals_and_scripts_without_them_make_a_name(name: str) -> None:
    assert extracted("where was it?", name) == [[name, "e"]]


def test_names_of_the_question_join_what_was_extracted() -> None:
    question = "Would a cat read Hamlet if Paris had it?"
    assert extracted(question, "cat", "Hamlet") == [["Hamlet", "e"], ["Paris", "e"], ["cat", "r"]]
    assert extracted(question, relations=("read",)) == [["Hamlet", "e"], ["Paris", "e"], ["read", "r"]]


def test_a_part_of_a_name_that_was_extracted_does_not_join() -> None:
    assert extracted(ROSES, "film A Day Of Roses In August") == [["film A Day Of Roses In August", "e"]]


def test_small_letters_are_names_where_nothing_else_is() -> None:
    assert extracted("would a cat read?", "cat", relations=("read",)) == [["cat", "e"], ["read", "r"]]


def roses(needed: str, **options: Any) -> Run:
    reply = json.dumps({"entities": ["Roses In August", "director", "birthplace"], "relations": []})
    draft = "The film Roses In August was directed by Martin Scorsese."
    script = [
        Rule(reply, step="extract"),
        Rule(needed, step="filter"),
        Rule("none", step="facts"),
        Rule([draft, LAST], step="draft", entropy=sure(draft, Martin=4.0), attention=0.2),
        Rule(LAST, step="rewrite", entropy=0.1, attention=0.2),
    ]
    return Run("mind", script, question=ROSES.replace("A Day Of ", ""), shelf=Search(*DUKES), filters="cot", **options)


def test_the_cot_filter_is_shown_names_and_relations_stay() -> None:
    run = roses("[1]")
    listed = run.sent("filter")[0].messages[-1].content
    assert re.findall(r"^\d+\. (.+)$", listed, re.MULTILINE) == ["Roses In August", "Martin Scorsese"]
    assert run.queries[0] == "Roses In August director birthplace film directed"
    assert run.of("parse", step="filter")[0]["ok"]


@pytest.mark.parametrize("reply", ["[3, 4]", "[]", "director"])
def test_where_no_name_is_left_all_stay_and_the_reply_counts_as_not_understood(reply: str) -> None:
    run = roses(reply)
    (event,) = run.of("decision", kind="filtered")
    assert all(dropped is None for *_, dropped in event["candidates"])
    assert not run.of("parse", step="filter")[0]["ok"]
    assert run.queries[0].startswith("Roses In August director birthplace Martin Scorsese")


def test_the_cot_filter_is_not_asked_where_there_are_only_relations() -> None:
    text = "his father was calm."
    script = [
        Rule('{"relations": ["father"]}', step="extract"),
        Rule([text, LAST], step="draft", entropy=sure(text, calm=4.0), attention=0.2),
        Rule(LAST, step="rewrite", entropy=0.1, attention=0.2),
    ]
    run = Run("mind", script, question="who was his father?", shelf=Search(*DUKES), filters="cot")
    assert run.queries == ["father"] and "filter" not in run.steps


def test_the_worked_example_of_facts_states_what_its_passages_do() -> None:
    _, shown, reply, _ = prompt_for("mind", "facts").sections
    passages = re.findall(r"^\[\d\] ([^:]+): (.+)$", shown.content, re.MULTILINE)
    triples = read_triples(reply.content).triples
    assert {relation for _, relation, _ in triples} >= {"place of birth", "date of birth"}
    for triple in triples:
        assert any(ground_triples([triple], title, text)[0] for title, text in passages), triple


def test_the_worked_examples_have_the_form_of_the_real_turn() -> None:
    run = Run("mind", figure(), shelf=Search(*DUKES), k=1)
    for step in ("facts", "filter"):
        request = run.sent(step)[0]
        assert [turn.role for turn in request.messages] == ["system", "user", "assistant", "user"]
        _, shown, _, real = (turn.content for turn in request.messages)
        label = re.compile(r"^[A-Z][a-z ]+:", re.MULTILINE)
        assert label.findall(shown) == label.findall(real) and CHARLES not in shown


def test_where_an_answer_is_given_is_not_sought() -> None:
    assert sought_words("Jean was the father, so the answer is Louis.", (), open_tagger()) == ("father",)


def test_a_word_that_begins_a_sentence_is_no_name_of_the_question_or_of_the_reasoning() -> None:
    assert extracted("Released in 1999, is Hamlet a film?", "Hamlet") == [["Hamlet", "e"]]
    text = "Died in 1709. Actors loved Jean. The father of Jean is Louis."
    script = [Rule([text, LAST], step="draft", entropy=sure(text, Louis=9.0), attention=0.2), *figure()]
    event = Run("mind", script, shelf=Search(*DUKES), filters="none").of("decision", kind="filtered")[0]
    assert [name for name, _, origin, *_ in event["candidates"] if origin == "reasoning"] == ["Jean", "Louis"]
