"""Gold: plans by hand and from data sets, readings with a gold passage, last readings and summaries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.training.film_world import PASSAGES, PLAN, QUESTIONS, built, lines, make_world, sent_by

from hoptree.core.errors import InputError
from hoptree.models.model import Message
from hoptree.retrieval.indexing import build_index
from hoptree.training.chat_rows import ChatRow, consistent_rows
from hoptree.training.plans.gold_trees import packaged_plans


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return make_world(tmp_path)


def said(rows: list[dict[str, Any]], part: str = "") -> dict[str, str]:
    return {
        row["id"].removeprefix("films/"): row["messages"][-1]["content"]
        for row in rows
        if row["meta"]["part"] == part or not part
    }


def test_all_parts_of_what_is_known(here: Path) -> None:
    told, rows = built(here, "taikc-gold")
    assert said(rows) == {
        "q0/decompose": json.dumps(PLAN),
        "q0/read/1": "Kurt Land",
        "q0/read/2": "1913",
        "q0/final": "1913",
        "q0/summary/2": "The director of the film Alpha is Kurt Land, and Kurt Land was born in 1913.",
        "q1/decompose": json.dumps(PLAN).replace("Alpha", "Beta"),
        "q1/read/1": "Ida Chase",
        "q1/final": "1920",
        "q1/summary/2": "The director of the film Beta is Ida Chase, and Ida Chase was born in 1920.",
    }
    assert told["labels"] == {"decompose": 2, "read": 5, "summary": 2}
    assert told["left_out"] == {"films: no reading, as no gold passage of the corpus says the answer": 1}
    assert [line["part"] for line in told["beside_the_paper"]] == ["decompose", "read", "summary", "instructions"]
    assert not list(here.glob("*.part*")) and "labels_of" not in rows[0]["meta"]


def test_prompts_are_those_that_the_method_sends(here: Path) -> None:
    _, rows = built(here, "taikc-gold")
    prompts = {row["id"].removeprefix("films/"): row["messages"][:-1] for row in rows}
    sent = sent_by(here, QUESTIONS[0]["question"])
    assert prompts["q0/decompose"] == sent["decompose"][0]
    assert [prompts["q0/read/1"], prompts["q0/read/2"]] == sent["read"]
    assert prompts["q0/summary/2"] == sent["summarise"][0]
    chain = "Documents:\nThe director of the film Alpha is Kurt Land, and Kurt Land was born in 1913.\n"
    assert prompts["q0/final"][-1]["content"].startswith(chain)
    assert prompts["q0/final"][0] == sent["final"][0][0]


def test_the_paper_s_reading_has_no_way_out_and_none_is_taught(here: Path) -> None:
    _, rows = built(here, "taikc-gold")
    assert not [row["id"] for row in rows if "not-found" in row["id"] or "NOT FOUND" in str(row["messages"])]


def test_several_values_of_one_property_are_one_answer(here: Path) -> None:
    facts = [["Alpha", "director", "Kurt Land"], ["Alpha", "director", "Ida Chase"], ["Beta", "director", "Ida Chase"]]
    text = "Which film has more directors, Alpha or Beta?"
    row = {"id": "q7", "question": text, "answers": ["Alpha"], "evidence_triples": facts, "dataset": "films"}
    lines(here / "train.jsonl", [row])
    _, rows = built(here, "taikc-gold", corpus="")
    (final,) = (row for row in rows if row["id"] == "films/q7/final")
    assert "The director of the film Alpha is Kurt Land and Ida Chase.\n" in final["messages"][1]["content"]
    assert len(json.loads(said(rows)["q7/decompose"])) == 2


def test_what_cannot_answer_its_question_is_read_from_nothing(here: Path) -> None:
    facts = [["Alpha", "director", "Kurt Land"], ["Kurt Land", "place of birth", "American"]]
    text = "Where was the director of film Alpha born?"
    row = QUESTIONS[0] | {"question": text, "answers": ["American"], "evidence_triples": facts, "dataset": "films"}
    lines(here / "train.jsonl", [row])
    _, rows = built(here, "taikc-gold")
    assert set(said(rows)) == {"q0/decompose", "q0/read/1"}


def test_titles(here: Path) -> None:
    _, rows = built(here, "taikc-gold", titles=True)
    (prompt,) = (row["messages"][1]["content"] for row in rows if row["id"] == "films/q0/read/1")
    assert "passage: Alpha: Alpha is a film of 1950" in prompt


def test_a_gold_passage_that_is_not_found_is_put_among_the_others(here: Path) -> None:
    hidden = [row | ({"text": "Born, someone. 1913."} if row["id"] == "land" else {}) for row in PASSAGES]
    crowd = [
        {"id": f"k{n}", "title": "Kurt Land", "text": f"When was Kurt Land born? Nobody knew {n}."} for n in range(6)
    ]
    lines(here / "corpus.jsonl", [*hidden, *crowd])
    build_index(here / "corpus.jsonl", here / "crowd")
    _, rows = built(here, "taikc-gold", corpus=str(here / "crowd"), k=3)
    (row,) = (row for row in rows if row["id"] == "films/q0/read/2")
    shown = [line for line in row["messages"][1]["content"].splitlines() if line.startswith("passage: ")]
    assert len(shown) == 3 and "passage: Born, someone. 1913." in shown and row["meta"]["passage"] == "land"
    assert built(here, "taikc-gold", corpus=str(here / "crowd"), k=3)[1] == rows, "the place is drawn by the row's id"


def test_without_a_corpus_nothing_is_read(here: Path) -> None:
    told, rows = built(here, "taikc-gold", corpus="")
    assert set(said(rows, "read")) == {"q0/final", "q1/final"} and "corpus" not in told


def test_a_plan_by_hand_counts_before_what_the_data_set_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = {"query1": {"question": "Who made Alpha?", "children": {"query2": {"question": "How old is #query1?"}}}}
    broken = {"query1": {"question": "Who made Beta?", "children": {"query2": {"question": "How old is Ida Chase?"}}}}
    plans = {"films/q0": by_hand, "films/q1": broken}
    monkeypatch.setattr("hoptree.training.taikc_rows.packaged_plans", lambda: plans)
    told, made = built(here, "taikc-gold", corpus="")
    assert said(made, "decompose") == {"q0/decompose": json.dumps(by_hand)}
    assert [row["meta"]["made_from"] for row in made if row["meta"]["part"] == "decompose"] == ["plan"]
    assert told["left_out"] == {"films: no plan for a tree that would be mended (plan_leak)": 1}


def test_the_plans_of_the_package_find_their_questions_by_data_set_and_id(here: Path) -> None:
    key, plan = next(iter(packaged_plans().items()))
    dataset, _, name = key.partition("/")
    text = f"What do these come to: {' '.join(_texts(plan))}"
    row = {"id": name, "dataset": dataset, "question": text, "answers": ["x"], "source_split": "train"}
    lines(here / "train.jsonl", [row])
    _, (made,) = built(here, "taikc-gold", corpus="")
    assert json.loads(made["messages"][-1]["content"]) == plan and made["id"] == f"{key}/decompose"
    measured = lines(here / "measured.jsonl", [row, row | {"id": "another", "question": "Who?"}])
    with pytest.raises(InputError, match="No question is left"):
        built(here, "taikc-gold", corpus="", exclude=(measured,), any_split=True, limit=1)


def _texts(entries: dict[str, Any] | Any) -> list[str]:
    return [text for entry in entries.values() for text in (entry["question"], *_texts(entry.get("children", {})))]


def test_answers_that_do_not_follow_make_no_last_reading(here: Path) -> None:
    lines(here / "train.jsonl", [QUESTIONS[0] | {"answers": ["1999"], "dataset": "films", "source_split": "train"}])
    told, rows = built(here, "taikc-gold")
    assert "q0/final" not in said(rows)
    assert told["left_out"] == {"films: no last reading, as the steps do not give the answer": 1}


def test_what_makes_no_good_sentence_makes_no_summary(here: Path) -> None:
    steps = {"decomposition": ["Who is the director of Alpha?", "How many people did #1 know?"]}
    row = {"id": "q5", "question": "How many people did the director of Alpha know?", "answers": ["two"]}
    lines(here / "train.jsonl", [row | steps | {"decomposition_answers": ["Kurt Land", "two"], "dataset": "films"}])
    told, rows = built(here, "taikc-gold", corpus="")
    assert set(said(rows)) == {"q5/decompose"}
    assert told["left_out"] == {
        "films: no last reading, as a chain makes no good sentence": 1,
        "films: no summary, as it makes no good sentence": 1,
    }


def test_rows_have_no_labels_to_balance(here: Path) -> None:
    with pytest.raises(InputError, match="no labels to balance"):
        built(here, "taikc-gold", balance=1.0)


def test_a_prompt_with_two_targets_teaches_neither() -> None:
    def row(name: str, asked: str, target: str) -> ChatRow:
        return ChatRow(name, (Message("user", asked),), target, "read", "d", {})

    rows = [
        row("1", "Whose citizen is A?", "French"),
        row("2", "Who is B?", "C"),
        row("3", "Whose citizen is A?", "Thai"),
    ]
    contradicting = "rows that ask the same as another and say something else"
    assert consistent_rows(rows) == ([rows[1]], {contradicting: 2})
