"""Plans that were written by hand: sound, checked against questions, and none of an evaluation question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.examples import Example
from hoptree.text.question_tree import make_plan
from hoptree.training.leakage import Excluded
from hoptree.training.plans.written_plans import check_plans, packaged_plans, read_plans
from hoptree.training.questions import TrainingQuestion

CHAIN = {"query1": {"question": "Who sang Alpha?", "children": {"query2": {"question": "When was #query1 born?"}}}}


def row(plan: Any = CHAIN, **more: Any) -> str:
    return json.dumps({"id": "q1", "dataset": "d", "plan": plan} | more)


def asked(text: str, key: str = "q1") -> TrainingQuestion:
    return TrainingQuestion(Example(key, text, ("x",), dataset="d"), "f.jsonl")


def test_those_of_the_package_can_be_carried_out_and_hold_no_question() -> None:
    plans = packaged_plans()
    assert len(plans) >= 300 and {plan.dataset for plan in plans.values()} == {"2wikimultihopqa", "hotpotqa", "musique"}
    for plan in plans.values():
        kinds = {issue.kind for issue in make_plan(plan.plan, "").issues}
        assert kinds <= {"plan_leak"}, "without the question it cannot be told which names it has"
        assert plan.size >= 2
    assert len({json.dumps(plan.plan) for plan in plans.values()}) == len(plans)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no JSON"),
        ("[1]", "is no plan"),
        (json.dumps({"id": "q", "dataset": "d"}), "is no plan"),
        (row(question="Who?"), "is no plan"),
        (row(id=""), "no id or data set"),
        (row({}), "without entries"),
        (row({"query1": "Who?"}), "query1 is no question"),
        (row({"query1": {"question": " "}}), "query1 is no question"),
        (row({"query1": {"question": "Who?", "answer": "x"}}), "query1 is no question"),
        (row({"query2": {"question": "Who?"}}), "numbers its entries query2"),
        (row({"query1": {"question": "Who is #query2?"}, "query2": {"question": "What?"}}), "#query2, which is not"),
        (f"{row()}\n{row()}", "Line 2 of p.jsonl repeats the plan of 'd/q1'"),
    ],
)
def test_what_is_no_plan_is_named_by_its_line(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_plans(text, Path("p.jsonl"))


@given(st.recursive(st.none() | st.text(max_size=9), lambda inner: st.dictionaries(st.text(max_size=9), inner)))
def test_anything_else_is_refused_in_a_sentence(value: Any) -> None:
    with pytest.raises(InputError, match=r"Line 1 of p\.jsonl"):
        read_plans(f"{json.dumps(value)}\n", Path("p.jsonl"))
    with pytest.raises(InputError, match=r"Line 1 of p\.jsonl"):
        read_plans(row(value), Path("p.jsonl"))


@st.composite
def trees(draw: st.DrawFn, start: int = 1, depth: int = 1) -> tuple[dict[str, Any], int]:
    """Entries numbered from top to bottom, and the number after them."""
    entries: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 2))):
        name, number = f"query{start}", start
        said = f"What is thing {number}{f' of #query{draw(st.integers(1, number - 1))}' if number > 1 else ''}?"
        entries[name] = {"question": said}
        start += 1
        if depth < 4 and draw(st.booleans()):
            below, start = draw(trees(start, depth + 1))
            entries[name]["children"] = below
    return entries, start


@given(trees())
def test_a_plan_is_read_as_taikc_reads_it(made: tuple[dict[str, Any], int]) -> None:
    entries, end = made
    plan = read_plans(row(entries), Path("p.jsonl"))["d/q1"]
    nodes = make_plan(entries, "").nodes
    assert plan.plan == entries and plan.size == len(nodes) == min(end - 1, 12)
    assert [node.question for node in nodes] == _questions(entries)[:12]


def _questions(entries: dict[str, Any]) -> list[str]:
    return [text for entry in entries.values() for text in (entry["question"], *_questions(entry.get("children", {})))]


def test_plans_are_held_against_their_questions_and_those_that_are_measured_on() -> None:
    leaky = {"query1": {"question": "Who sang Alpha?", "children": {"query2": {"question": "Is Ida Chase old?"}}}}
    rows = [row(), row(leaky, id="q2"), row(id="q3"), row(id="q4")]
    plans = read_plans("\n".join(rows), Path("p.jsonl"))
    questions = [
        asked("How old is the singer of Alpha?"),
        asked("How old is the singer of the song Alpha?", "q2"),
        asked("Who was born when?", "q4"),
    ]
    measured = Excluded(
        (), {"dev.jsonl": [TrainingQuestion(Example("x", "who was born, when", dataset="e"), "dev.jsonl")]}
    )
    found = check_plans(plans, questions, measured)
    assert found == {
        "checked": 3,
        "without_question": 1,
        "faults": {"d/q2": "a tree that would be mended (plan_leak)"},
        "excluded_questions": 1,
        "evaluation_questions": {"d/q4": "words in dev.jsonl"},
    }
