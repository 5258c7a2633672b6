"""Adaptive-RAG: the label decides between memory, one search and IRCoT."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run

from hoptree.engine.context import Budget
from hoptree.engine.engine import Engine
from hoptree.engine.registry import find_method
from hoptree.engine.result import Result
from hoptree.models.scripted import Rule, ScriptedModel

FATHER = "His father is Jean."
LAST = "So the answer is: Charles Armand."


def ask(label: str, **options: Any) -> Run:
    script = [
        Rule(label, step="route"),
        Rule([f"{FATHER} {LAST}", LAST], step="draft"),
        Rule(f"{FATHER} {LAST}", step="think"),
    ]
    return Run("adaptive_rag", script, **options)


def test_a_simple_question_is_thought_about_without_documents() -> None:
    run = ask("A")
    assert (run.queries, run.steps, run.result.answer) == ([], ["route", "think"], "Charles Armand")


def test_a_moderate_one_with_one_search() -> None:
    run = ask("B")
    assert run.shelf.asked == [(GRANDFATHER, 15)] and run.steps == ["route", "think"]
    assert DUKES[1].text in run.sent("think")[0].messages[-1].content


def test_a_complex_one_with_a_search_after_every_sentence() -> None:
    run = ask("C")
    assert run.shelf.asked == [(GRANDFATHER, 6), (FATHER, 6)]
    assert run.steps == ["route", "draft", "draft", "think"] and run.result.answer == "Charles Armand"


def test_the_options_reach_each_way() -> None:
    assert ask("B", k=2).shelf.asked == [(GRANDFATHER, 2)]
    assert ask("C", k_sentence=1, max_sentences=1).shelf.asked == [(GRANDFATHER, 1), (FATHER, 1)]
    assert len(ask("A", shots=2).sent("think")[0].messages) == 2 + 2 * 2


@pytest.mark.parametrize("reply", ["", "A hard one", "D", "Charles Armand", "{'label': ''}"])
def test_what_is_no_label_counts_as_complex(reply: str) -> None:
    run = ask(reply)
    assert run.values("route") == ["C"] and len(run.queries) == 2
    assert [event["ok"] for event in run.of("parse", step="route")] == [False]


def test_the_prompt_shows_each_label_twice_and_what_it_means() -> None:
    system, *examples = run_messages = ask("A").sent("route")[0].messages
    assert [turn.content for turn in examples if turn.role == "assistant"] == ["A", "C", "B", "C", "A", "B"]
    assert all(f"{label} - " in system.content for label in "ABC") and GRANDFATHER in run_messages[-1].content


def test_nothing_found_and_a_spent_budget_are_no_failures() -> None:
    for label in "ABC":
        assert ask(label, shelf=Shelf()).result.answer == "Charles Armand"
        stopped = ask(label, budget=Budget(calls=1)).result
        assert stopped.stopped_by and not stopped.error


class Classified:
    """One question asked with a classifier in the role `route`."""

    def __init__(self, reply: str) -> None:
        self.classifier = ScriptedModel(rules=[Rule(reply)])
        self.reader = ScriptedModel(rules=[Rule(f"{FATHER} {LAST}", step="draft"), Rule(LAST)])
        self.shelf = Shelf(*DUKES)
        self.result: Result = asyncio.run(self._ask())

    async def _ask(self) -> Result:
        async with Engine(
            method="adaptive_rag",
            model=self.reader,
            roles={"route": self.classifier},
            corpus=self.shelf,
            options={"checkpoint": True},
            cache=None,
        ) as engine:
            assert engine.fidelity == "exact"
            return await engine.ask(f"  {GRANDFATHER} ")


@pytest.mark.parametrize(("reply", "searches"), [("A", 0), ("B", 1), ("C", 2), ("</s>", 2), ("", 2), ("b", 1)])
def test_the_trained_classifier_reads_the_bare_question(reply: str, searches: int) -> None:
    asked = Classified(reply)
    assert asked.classifier.requests == [("adaptive_rag/classify", GRANDFATHER)]
    assert len(asked.shelf.asked) == searches and asked.result.answer == "Charles Armand"


def test_a_checkpoint_without_a_model_of_its_own_is_refused() -> None:
    run = ask("A", checkpoint=True)
    assert run.result.error == "ConfigError" and "--role route=" in run.result.error_message


def test_without_the_classifier_the_run_is_prompted() -> None:
    assert find_method("adaptive_rag").fidelity({}, ()) == "prompted"
    assert find_method("adaptive_rag").fidelity({"checkpoint": True}, ("prefix",)) == "exact"
