"""TAIKC with robust=on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.taikc_asked import CHAIN, FOUND, ROOT, Run, plan, rules

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

# Robust: with continuation off, as careful as it can be


def well_read(raw: object = CHAIN) -> list[Rule]:
    """A reader that finds what the passage holds."""
    born = Rule("Providence", step="read", regex=r"Question: .* born\?")
    return [plan(raw), born, *rules(raw, read="Damien Chazelle")[1:]]


def careful(script: list[Rule], **given: Any) -> Run:
    return Run(script, robust=True, continuation=False, **given)


def test_robust_asks_documents_first() -> None:
    run = careful(well_read())
    assert [step for step in run.steps if step in ("read", "confident")] == ["read", "read"]
    assert (run.node(1)["source"], run.node(1)["iterations"]) == ("external", 1)


def test_robust_goes_on_from_confident_memory() -> None:
    run = careful(rules(read="NOT FOUND", confident="memory"))
    assert (run.node(1)["source"], run.node(1)["answer"], run.node(1)["iterations"]) == ("internal", "memory", 2)
    assert run.result.answer == "final answer"


def test_robust_gives_no_answer_where_nothing_is_found() -> None:
    run = careful(rules(read="NOT FOUND"))
    assert (run.result.answer, run.result.abstained) == ("", True)
    assert "direct" not in run.steps and "final" not in run.steps


def test_robust_mends_leaks() -> None:
    raw = {
        "query1": {
            "question": "Who directed the film Whiplash?",
            "children": {"query2": "where was Damien Chazelle born?"},
        }
    }
    assert Run(rules(raw), robust=True).node(2)["question"] == "where was #query1 born?"
    assert Run(rules(raw)).node(2)["question"] == "where was Damien Chazelle born?"


def test_robust_answers_must_stand_in_the_passages() -> None:
    run = careful(rules(read="Denis Villeneuve"))
    assert run.node(1)["state"] == "unanswered"
    assert (run.result.answer, run.result.abstained) == ("", True)


def test_robust_keeps_chains_word_for_word_without_asking_the_model() -> None:
    run = careful(well_read({"query1": "Who directed Whiplash?", "query2": "Where was Damien Chazelle born?"}))
    assert "summarise" not in run.steps
    assert run.result.chains == (
        "Who directed Whiplash? Damien Chazelle.",
        "Where was Damien Chazelle born? Providence.",
    )


# Robust: with continuation, the surest of four last readings


def two_readings(first: float, last: float) -> list[Rule]:
    """The question itself is read as Boston (each time), the chains as Providence, as surely as told."""
    once = Rule("Boston", step="read", contains=ROOT, logprob=first)
    return [plan(CHAIN), once, *well_read()[1:-1], Rule("Providence", step="final", logprob=last)]


@pytest.mark.parametrize(
    ("first", "last", "answer"), [(-0.1, -0.5, "Boston"), (-0.5, -0.1, "Providence"), (-0.2, -0.2, "Providence")]
)
def test_the_surest_of_the_readings_is_taken(first: float, last: float, answer: str) -> None:
    run = Run(two_readings(first, last), robust=True)
    assert run.result.answer == answer
    assert run.of("decision", kind="surest", when="final")[0]["answers"] == ["Boston", "Boston", "Boston", "Providence"]


def test_it_is_told_which_reading_was_taken() -> None:
    run = Run(two_readings(-0.5, -0.1), robust=True)
    said = "surest of 4 readings, that of the chains and what they cite: 0.90 against “Boston” 0.61"
    assert run.result.why.startswith(said)
    assert run.result.as_dict()["why"] == run.result.why


def test_what_the_question_finds_is_read_in_three_ways() -> None:
    shelf = Shelf(FOUND, *(Passage(f"q{n}", "Other", f"Number {n}.") for n in range(6)))
    run = Run(two_readings(-0.5, -0.1), robust=True, shelf=shelf, k=5)
    readings = [said for step, said in run.model.requests if step == "taikc/read" and f"Question: {ROOT}" in said]
    two, three, whole = sorted(readings, key=lambda said: said.count("Number"))
    assert "Number 0." in two and "Number 1." not in two and two.count(ROOT) == 1
    assert "Number 1." in three and "Number 2." not in three
    assert three.startswith(f"Question: {ROOT}") and three.count(ROOT) == 2
    assert whole.index("Number 3.") < whole.index("Number 0.") < whole.index(FOUND.text) and whole.count(ROOT) == 1


def test_a_spent_budget_leaves_the_answer_to_the_question_and_not_that_to_a_part_of_it() -> None:
    run = Run(two_readings(-0.5, -0.1), robust=True, budget=Budget(calls=5))
    assert (run.result.stopped_by, run.result.answer) == ("calls", "Boston")
    assert run.node(1)["answer"] == "Damien Chazelle"


def test_the_last_reading_sees_chains_and_what_they_cite() -> None:
    shelf = Shelf(FOUND, *(Passage(f"q{n}", "Other", f"Number {n}.") for n in range(6)))
    run = Run(two_readings(-0.5, -0.1), robust=True, shelf=shelf, k=3)
    [(_, said)] = [asked for asked in run.model.requests if asked[0] == "taikc/final"]
    assert "Who directed the film Whiplash? Damien Chazelle. Where was Damien Chazelle born? Providence." in said
    assert said.index("Whiplash was directed by") < said.index("Number 0.")
    assert "Number 1." in said and "Number 2." not in said


def test_with_continuation_an_answer_that_no_passage_holds_keeps_the_chain_whole() -> None:
    run = Run(rules(read="Denis Villeneuve"), robust=True)
    assert (run.node(1)["answer"], run.node(2)["resolved"]) == ("Denis Villeneuve", "Where was Denis Villeneuve born?")
    assert not run.of("decision", kind="grounded", value=True)
    assert run.result.answer == "final answer"


def test_where_neither_reading_finds_anything_there_is_no_answer() -> None:
    run = Run(rules(read="NOT FOUND", final="NOT FOUND"), robust=True)
    assert (run.result.answer, run.result.abstained) == ("", True)


COMPARED = {
    "query1": {"question": "When was Alan Turing born?"},
    "query2": {"question": "Who wrote Emma?", "children": {"query3": "When was #query2 born?"}},
}


def test_comparisons_are_made_in_code() -> None:
    """The model would have said Emma."""
    script = [
        plan(COMPARED),
        Rule("23 June 1912", step="read", contains="Question: When was Alan Turing"),
        Rule("Jane Austen", step="read", contains="Question: Who wrote Emma"),
        Rule("16 December 1775", step="read", contains="Question: When was Jane Austen"),
        *rules(COMPARED, read="Emma", final="Emma")[1:],
    ]
    question = "Who was born later, Alan Turing or Jane Austen?"
    for continuation in (True, False):
        shelf = Shelf(
            Passage("a", "Alan Turing", "Alan Turing was born on 23 June 1912."),
            Passage("b", "Emma", "Emma was written by Jane Austen, who was born on 16 December 1775."),
        )
        run = Run(script, question=question, robust=True, continuation=continuation, shelf=shelf)
        assert run.result.answer == "Alan Turing"
        assert run.of("decision", kind="compared", value=True)[0]["facts"] == {
            "Alan Turing": "23 June 1912",
            "Jane Austen": "16 December 1775",
        }
        assert "final" not in run.steps
        assert [passage.id for passage in run.result.evidence] == ["a", "b"]


def test_a_comparison_that_facts_do_not_decide_is_left_to_reading() -> None:
    script = rules(COMPARED, read="unclear", final="Jane Austen")
    run = Run(script, question="Who was born later, Alan Turing or Jane Austen?", robust=True)
    assert run.of("decision", kind="compared")[0]["value"] is False
    assert run.result.answer == "Jane Austen"


# What the tables and figures are drawn from


class ByQuery(Shelf):
    """A retriever that finds something else for each query."""

    def __init__(self, found: Mapping[str, tuple[Passage, ...]]) -> None:
        super().__init__()
        self.found = found

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        return self.found.get(query, ())[:k]


def test_the_evidence_is_that_of_the_reading_that_was_taken() -> None:
    own = Passage("own", "Boston film", "Boston is where the director was born.")
    asked = ("Who directed the film Whiplash?", "Where was Damien Chazelle born?")
    shelf = ByQuery({ROOT: (own,), **dict.fromkeys(asked, (FOUND,))})
    first, last = (Run(two_readings(*sure), robust=True, shelf=shelf) for sure in ((-0.1, -0.5), (-0.5, -0.1)))
    assert (first.result.answer, [passage.id for passage in first.result.evidence]) == ("Boston", ["own"])
    assert (last.result.answer, [passage.id for passage in last.result.evidence]) == ("Providence", ["p1"])


def test_what_no_passage_holds_is_called_a_guess() -> None:
    run = Run(rules(read="Denis Villeneuve"), robust=True)
    assert (run.node(1)["source"], run.node(1)["evidence"]) == ("fallback", [])


def test_the_last_reading_always_sees_some_of_what_the_question_finds() -> None:
    raw = {f"query{n}": {"question": f"Who is Person {n}?"} for n in range(1, 6)}
    question = "Which place links them all?"
    found = {
        f"Who is Person {n}?": tuple(Passage(f"{x}{n}", f"Person {n}", f"Person {n} is Zed.") for x in "ab")
        for n in range(1, 6)
    }
    shelf = ByQuery({**found, question: (Passage("own", "Own", "The own passage."),)})
    run = Run(rules(raw, read="Zed"), question=question, robust=True, shelf=shelf)
    [(_, said)] = [asked for asked in run.model.requests if asked[0] == "taikc/final"]
    assert "The own passage." in said


@pytest.mark.parametrize(
    ("question", "node", "fact"),
    [
        (
            "Are Anna Bell and Carl Dorn of the same nationality?",
            "What are the nationalities of Anna Bell and Carl Dorn?",
            "American and German",
        ),
        ("Who was born first, Anna Bell or Carl Dorn?", "When were Anna Bell and Carl Dorn born?", "1950"),
    ],
)
def test_one_fact_about_both_is_nothing_to_compare(question: str, node: str, fact: str) -> None:
    shelf = Shelf(Passage("a", "Anna Bell", f"Anna Bell and Carl Dorn: {fact}"))
    run = Run(rules({"query1": node}, read=fact, final="read"), question=question, robust=True, shelf=shelf)
    assert run.of("decision", kind="compared")[0]["value"] is False
