"""IRCoT: each sentence is a query, what it finds is gathered, and a reader begins afresh."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run, Search

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.methods.baselines.ircot import FirstFound
from hoptree.models.scripted import Rule
from hoptree.text.parse import states_fact

FIRST = "His father is Jean Bretagne Charles de La Trémoille."
LAST = "So the answer is: Charles Armand."
READER = Rule(f"{FIRST} {LAST}")


def test_each_sentence_is_searched_for_until_one_gives_an_answer() -> None:
    run = Run("ircot", [Rule([f"{FIRST} He is a duke. {LAST}", LAST], step="draft"), READER])
    assert run.queries == [GRANDFATHER, FIRST]
    assert [request.prefix for request in run.sent("draft")] == ["", FIRST]
    assert (run.result.answer, run.values("stop")) == ("Charles Armand", ["answer"])
    assert all(event["template"].startswith("shared/") for event in run.of("llm")), "other methods call it, too"


def test_six_passages_a_search_and_fifteen_in_all() -> None:
    several = [Passage(f"p{number}", f"Page {number}", f"Text {number}.") for number in range(20)]

    class Turning(Search):
        async def search(self, query: str, *, k: int, where: object = None) -> tuple[Passage, ...]:
            self.asked.append((query, k))
            return tuple(several[6 * (len(self.asked) - 1) :][:k])

    facts = ["One is here.", "Two is here.", "Three is here.", LAST]
    run = Run("ircot", [Rule(facts, step="draft"), READER], shelf=Turning())
    assert [k for _, k in run.shelf.asked] == [6] * 4
    shown = [request.messages[-1].content for request in run.sent("draft")]
    assert [text.count("Text ") for text in shown] == [6, 12, 15, 15]
    assert [len(event["new"]) for event in run.of("decision", kind="sub_query")] == [6, 3, 0]


def test_the_reader_sees_all_that_was_gathered_and_none_of_the_reasoning() -> None:
    shelf = Search(*DUKES)
    run = Run("ircot", [Rule([FIRST, LAST], step="draft"), READER], shelf=shelf, k=1)
    (_, reader) = run.scripted.sent[-1]
    assert DUKES[0].text in reader.messages[-1].content and DUKES[1].text in reader.messages[-1].content
    assert DUKES[2].text not in reader.messages[-1].content
    assert reader.prefix == "" and FIRST not in reader.messages[-1].content


@pytest.mark.parametrize(
    "idle", ["Thus he is a duke.", "So, Jean is first.", "1946 - 1937 = 9.", "1937 is before 1946."]
)
def test_conclusions_and_calculations_are_no_queries(idle: str) -> None:
    run = Run("ircot", [Rule([FIRST, idle, "Jean was born in Paris.", LAST], step="draft"), READER])
    assert run.queries == [GRANDFATHER, FIRST, "Jean was born in Paris."]
    assert [event["value"] for event in run.of("decision", kind="sub_query", repeated=True)] == [FIRST]


@pytest.mark.parametrize(
    "fact", ["Sofia is in Bulgaria.", "It lasted from 1914-1918.", "So-called dukes", "Dr. No was first shown in 1962."]
)
def test_facts_are_queries(fact: str) -> None:
    assert states_fact(fact) == (not fact.startswith("So-"))


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    run = Run("ircot", [Rule([f"Dr. Jean is his father. {LAST}", LAST], step="draft"), READER])
    assert run.queries[1] == "Dr. Jean is his father."


@pytest.mark.parametrize("bad", ["", "   \n", "Question: Who is it?", "…"])
def test_without_a_sentence_the_loop_ends_and_the_reader_answers(bad: str) -> None:
    run = Run("ircot", [Rule(bad, step="draft"), READER])
    assert len(run.sent("draft")) <= 2 and run.result.answer == "Charles Armand"
    if bad != "…":
        assert [event["ok"] for event in run.of("parse", step="draft")] == [False]


def test_a_sentence_said_before_ends_the_loop() -> None:
    run = Run("ircot", [Rule(FIRST, step="draft"), READER])
    assert len(run.sent("draft")) == 2 and run.values("stop") == ["no growth"]


def test_ten_sentences_at_most() -> None:
    run = Run("ircot", [Rule([f"Fact {number} holds here." for number in range(30)], step="draft"), READER])
    assert len(run.sent("draft")) == 10 and run.values("stop") == ["sentences"]


def test_the_answer_of_the_reasoning_where_the_reader_has_none() -> None:
    run = Run("ircot", [Rule(LAST, step="draft"), Rule("")])
    assert run.result.answer == "Charles Armand"


def test_a_spent_budget_leaves_what_the_draft_came_to() -> None:
    run = Run("ircot", [Rule(f"{FIRST} {LAST}", step="draft")], budget=Budget(calls=1))
    assert (run.result.answer, run.result.stopped_by) == ("Charles Armand", "calls")


def test_nothing_is_found() -> None:
    run = Run("ircot", [Rule([FIRST, LAST], step="draft"), READER], shelf=Search())
    assert run.result.answer == "Charles Armand"
    assert "Context:" not in run.sent("draft")[0].messages[-1].content


def test_a_passage_is_gathered_once_by_title_and_text() -> None:
    gathered = FirstFound(5)
    first, same, other = Passage("a", "T", "x"), Passage("b", "T", "x"), Passage("c", "T", "y")
    assert gathered.add([first, same, other]) == ["a", "c"] and gathered.add([same]) == []


@given(st.text())
def test_any_sentence_can_be_judged(text: str) -> None:
    assert states_fact(text) in (True, False)
