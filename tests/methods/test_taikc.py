"""TAIKC with a scripted model: every branch of the method, and that order never changes the result."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.methods.asked import Asked, Shelf

from hoptree.engine import Engine
from hoptree.errors import ConfigError, CorpusError
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.runtime.budget import Budget
from hoptree.runtime.result import Result
from hoptree.values import Passage

ROOT = "Where was the director of the film Whiplash born?"
CHAIN = {
    "query1": {
        "question": "Who directed the film Whiplash?",
        "children": {"query2": {"question": "Where was #query1 born?"}},
    }
}
FOUND = Passage("p1", "Whiplash", "Whiplash was directed by Damien Chazelle, born in Providence.", 2.5)


def plan(raw: object) -> Rule:
    return Rule(json.dumps(raw), step="decompose")


def rules(
    raw: object = CHAIN,
    *,
    confident: str | list[str] = "RAG_REQUIRED",
    read: str | list[str] = "read answer",
    direct: str | list[str] = "direct answer",
    summarise: str | list[str] = "a chain",
    final: str = "final answer",
    logprob: float = -0.01,
) -> list[Rule]:
    """A rule a step."""
    return [
        plan(raw),
        Rule(confident, step="confident"),
        Rule(read, step="read"),
        Rule(direct, step="direct", logprob=logprob),
        Rule(summarise, step="summarise"),
        Rule(final, step="final"),
    ]


class Run(Asked):
    """One question asked of TAIKC."""

    def __init__(
        self,
        script: list[Rule],
        *,
        question: str = ROOT,
        shelf: Shelf | None = None,
        budget: Budget | None = None,
        **options: Any,
    ) -> None:
        shelf = Shelf(FOUND) if shelf is None else shelf
        super().__init__("taikc", script, question, shelf, budget=budget, options=options)


# Knowledge first


@pytest.mark.parametrize(
    ("reply", "hit"),
    [
        ("RAG_REQUIRED", "hard"),
        ("RAG_REQUIRED.", "hard"),
        ("RAG\\_REQUIRED", "hard"),
        ("rag required", "hard"),
        ("I am not certain, hence RAG-REQUIRED", "hard"),
        ("", "hard"),
        ("I don't know.", "soft"),
        ("I'm not sure", "soft"),
    ],
)
def test_every_form_of_the_identifier_leads_to_retrieval(reply: str, hit: str) -> None:
    run = Run(rules(confident=reply))
    assert run.shelf.asked == [("Who directed the film Whiplash?", 5), ("Where was read answer born?", 5)]
    assert run.node(1)["identifier_hit"] == hit
    assert (run.node(1)["source"], run.node(1)["iterations"]) == ("external", 2)


def test_a_confident_answer_needs_no_retrieval() -> None:
    run = Run(rules(confident=["Damien Chazelle.", "Providence"]))
    assert run.shelf.asked == []
    assert [(run.node(n)["answer"], run.node(n)["source"], run.node(n)["iterations"]) for n in (1, 2)] == [
        ("Damien Chazelle", "internal", 1),
        ("Providence", "internal", 1),
    ]
    assert run.node(2)["resolved"] == "Where was Damien Chazelle born?"
    assert run.result.answer == "final answer"
    assert run.steps == ["decompose", "confident", "confident", "summarise", "final"]


def test_only_the_identifier_refuses_where_the_paper_is_followed_strictly() -> None:
    assert Run(rules(confident="I don't know"), strict=True).shelf.asked == []
    assert Run(rules(confident="RAG REQUIRED"), strict=True).shelf.asked


def test_what_documents_do_not_hold_is_guessed_to_keep_the_chain_whole() -> None:
    run = Run(rules(read="The director is not mentioned in the documents."))
    assert (run.node(1)["answer"], run.node(1)["source"], run.node(1)["iterations"]) == ("direct answer", "fallback", 3)
    assert run.node(1)["continuation_hit"] == "not … mentioned"
    assert run.node(2)["resolved"] == "Where was direct answer born?"
    assert run.result.answer == "final answer"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "NOT FOUND",
        "RAG_REQUIRED",
        "The answer is not in the documents.",
        "The answer is not there.",
        "The answer is unknown.",
        "There is no answer: the documents are about other films.",
        "The documents do not name him, so no answer is possible.",
    ],
)
def test_every_way_to_say_that_it_is_not_there_is_continued(reply: str) -> None:
    run = Run(rules(read=reply))
    assert (run.node(1)["source"], run.node(1)["iterations"]) == ("fallback", 3)


@pytest.mark.parametrize("reply", ["The answer is No.", "Not all agree, but the answer is Providence."])
def test_only_what_is_concluded_counts(reply: str) -> None:
    assert Run(rules(read=reply)).node(1)["source"] == "external"


@pytest.mark.parametrize("reply", ["No", "None", "Not Fade Away", "Lost and Found"])
def test_answers_that_look_like_none_are_answers(reply: str) -> None:
    run = Run(rules(read=reply))
    assert (run.node(1)["answer"], run.node(1)["iterations"]) == (reply, 2)


def test_with_continuation_off_a_gap_ends_the_run_without_an_answer() -> None:
    run = Run(rules(read="It is not stated in the text."), continuation=False)
    assert (run.result.answer, run.result.abstained, run.result.error) == ("", True, "")
    assert run.steps == ["decompose", "confident", "read"]


def test_with_continuation_off_nothing_changes_where_there_is_no_gap() -> None:
    assert Run(rules(), continuation=False).result.answer == "final answer"


# Sources


def test_internal_answers_everything_from_memory() -> None:
    run = Run(rules(), source="internal")
    assert run.shelf.asked == []
    assert run.steps == ["decompose", "direct", "direct", "summarise", "final"]
    assert run.node(1)["source"] == "internal"


def test_internal_needs_no_corpus() -> None:
    async def ask() -> Result:
        async with Engine(method="taikc", model=ScriptedModel(rules=rules()), options={"source": "internal"}) as engine:
            return await engine.ask(ROOT)

    assert asyncio.run(ask()).answer == "final answer"


def test_internal_never_searches_even_when_robust() -> None:
    run = Run(rules(confident="memory"), source="internal", robust=True)
    assert run.shelf.asked == []
    assert run.node(1)["source"] == "internal"


@pytest.mark.parametrize("options", [{"source": "internal"}, {"source": "external"}])
@pytest.mark.parametrize("said", ["I don't know.", "It is not known or stated."])
def test_not_knowing_is_never_put_into_the_next_question(said: str, options: dict[str, Any]) -> None:
    run = Run(rules(direct=said, read="The documents do not mention it."), **options)
    assert run.node(1)["state"] == "unanswered"
    assert run.node(2)["resolved"].endswith('the answer to "Who directed the film Whiplash?" born?')


def test_external_always_retrieves_and_never_asks_whether_it_is_sure() -> None:
    run = Run(rules(), source="external")
    assert len(run.shelf.asked) == 2
    assert "confident" not in run.steps
    assert run.node(1)["source"] == "external"


@pytest.mark.parametrize(("logprob", "tau", "sure"), [(-0.1, 0.5, True), (-2.0, 0.5, False), (-2.0, 0.1, True)])
def test_probability_decides_on_either_side_of_tau(logprob: float, tau: float, sure: bool) -> None:
    run = Run(rules(logprob=logprob), source="probability", tau=tau)
    assert bool(run.shelf.asked) is not sure
    decision = run.of("decision", kind="probability")[0]
    assert (decision["value"], decision["threshold"]) == (sure, tau)
    assert decision["signal"] == pytest.approx(2.718281828**logprob, rel=1e-4)
    assert run.node(1)["source"] == ("internal" if sure else "external")


def test_the_probability_of_nothing_said_is_not_sure() -> None:
    run = Run(rules(direct=""), source="probability")
    assert len(run.shelf.asked) == 2


def test_without_a_corpus_it_does_not_start() -> None:
    async def ask() -> tuple[Result, ScriptedModel]:
        model = ScriptedModel(rules=rules())
        async with Engine(method="taikc", model=model) as engine:
            return await engine.ask(ROOT), model

    result, model = asyncio.run(ask())
    assert isinstance(result.failure, CorpusError)
    assert model.requests == []


def test_without_probabilities_it_does_not_start() -> None:
    class Mute(ScriptedModel):
        capabilities = frozenset()

    async def ask() -> Result:
        options = {"source": "probability"}
        async with Engine(method="taikc", model=Mute(rules=rules()), corpus=Shelf(), options=options) as engine:
            return await engine.ask(ROOT)

    assert isinstance(asyncio.run(ask()).failure, ConfigError)


def test_as_many_passages_are_asked_for_as_k_says() -> None:
    assert {k for _, k in Run(rules(), k=2).shelf.asked} == {2}


def test_titles_are_shown_when_asked_for() -> None:
    def documents(run: Run) -> str:
        return next(text for step, text in run.model.requests if step == "taikc/read")

    assert "passage: Whiplash: Whiplash was directed" in documents(Run(rules(), titles=True))
    assert "passage: Whiplash was directed" in documents(Run(rules()))


# The plan

PLANS: dict[str, Any] = {
    "chain": CHAIN,
    "two leaves": {"query1": "When was A founded?", "query2": "When was B founded?"},
    "two chains": {
        "query1": {"question": "Who directed A?", "children": {"query2": "When was #query1 born?"}},
        "query3": {"question": "Who directed B?", "children": {"query4": "When was #query3 born?"}},
    },
    "forward reference": {"query1": "Where was #query3 born?", "query2": "Who wrote B?", "query3": "Who knew #query2?"},
    "cycle": {"query1": "Who married #query2?", "query2": "Who married #query1?"},
    "dangling": {"query1": "Who directed #query9?", "query2": "Where was #query2 born?"},
    "one node": {"query1": ROOT},
    "diamond": {
        "query1": {
            "question": "Who wrote it?",
            "children": {
                "query2": "Country of #query1?",
                "query3": "Year of #query1?",
                "query4": "King of #query2 in #query3?",
            },
        }
    },
    "nothing": {},
}


def echo(raw: object) -> list[Rule]:
    """A model whose answers tell what they were asked."""
    questions = set(re.findall(r"[A-Z][^\"?#]*\b", json.dumps(raw))) - {ROOT.rstrip("?")}
    sure = [Rule(f"answer{number}", step="confident", contains=text) for number, text in enumerate(sorted(questions))]
    return [plan(raw), *sure, *rules(raw)[1:]]


@pytest.mark.parametrize("name", PLANS)
def test_preorder_and_parallel_give_the_same_result(name: str) -> None:
    runs = [Run(echo(PLANS[name]), order=order) for order in ("preorder", "parallel")]
    first, second = (run.result.as_dict() | {"options": None} for run in runs)
    for data in (first, second):
        data["usage"] |= {"seconds": 0.0, "critical_path_seconds": 0.0}
    assert first == second
    assert sorted(runs[0].model.requests) == sorted(runs[1].model.requests)
    assert runs[0].result.answer == "final answer"


def test_independent_nodes_are_asked_at_once_only_in_parallel() -> None:
    for order, together in (("parallel", True), ("preorder", False)):
        run = Run(rules(PLANS["two leaves"]), order=order)
        first_end = next(i for i, event in enumerate(run.events) if event["event"] == "node" and "iterations" in event)
        begun = [event for event in run.events[:first_end] if event["event"] == "node"]
        assert (len(begun) == 2) is together


def test_preorder_asks_in_topological_order() -> None:
    run = Run(rules(PLANS["forward reference"]), order="preorder")
    assert [event["id"] for event in run.of("node") if "iterations" in event] == [2, 3, 1]


@pytest.mark.parametrize(
    ("name", "leaves"), [("chain", 1), ("two leaves", 2), ("two chains", 2), ("diamond", 3), ("nothing", 1)]
)
def test_there_is_one_chain_a_leaf(name: str, leaves: int) -> None:
    run = Run(rules(PLANS[name], summarise=[f"chain {number}" for number in range(9)]))
    assert run.steps.count("summarise") == leaves
    assert len(run.result.chains) == leaves


def test_identical_chains_are_said_once() -> None:
    run = Run(rules(PLANS["two chains"], summarise="the same"))
    assert run.result.chains == ("the same",)
    (final,) = [text for step, text in run.model.requests if step == "taikc/final"]
    assert final.count("the same") == 1


def test_a_chain_is_summarised_from_its_questions_and_answers() -> None:
    run = Run(rules(confident=["Damien Chazelle", "Providence"]))
    (asked,) = [text for step, text in run.model.requests if step == "taikc/summarise"]
    assert json.loads(asked) == {
        "query1": {
            "question": "Who directed the film Whiplash?",
            "answer": "Damien Chazelle",
            "children": {"query2": {"question": "Where was Damien Chazelle born?", "answer": "Providence"}},
        }
    }


def test_the_final_question_is_the_question_itself_over_the_chains() -> None:
    run = Run(rules(summarise="Damien Chazelle was born in Providence."))
    (asked,) = [text for step, text in run.model.requests if step == "taikc/final"]
    assert "Damien Chazelle was born in Providence." in asked
    assert ROOT in asked


def test_a_plan_that_cannot_be_read_is_asked_for_once_more() -> None:
    script = [Rule(["No plan, sorry.", json.dumps(CHAIN)], step="decompose"), *rules()[1:]]
    run = Run(script)
    assert run.steps.count("decompose") == 2
    assert "That cannot be used: it is not valid JSON" in run.model.requests[1][1]
    assert len(run.of("plan")[0]["nodes"]) == 2


def test_a_dangling_reference_is_asked_about_once_and_then_repaired() -> None:
    raw = {"query1": "Who?", "query2": "Where was #query7 born?"}
    run = Run(rules(raw))
    assert run.steps.count("decompose") == 2
    assert "#query7 cannot be meant" in run.model.requests[1][1]
    assert [issue["kind"] for issue in run.of("plan")[0]["issues"]] == ["ref_dangling"]
    assert run.node(2)["resolved"] == "Where was read answer born?"


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "{}", "[]", "{" * 9, '{"query1": {}}'])
def test_a_question_that_yields_no_plan_is_its_own_node(reply: str) -> None:
    run = Run([Rule(reply, step="decompose"), *rules()[1:]])
    assert run.steps.count("decompose") == 2
    (planned,) = run.of("plan")
    assert [node["question"] for node in planned["nodes"]] == [ROOT]
    assert [issue["kind"] for issue in planned["issues"]] == ["decompose_failed"]
    assert run.result.warnings
    assert run.result.answer == "final answer"


def test_a_reference_without_an_answer_is_described() -> None:
    run = Run(rules(read="It is not stated here.", direct=""))
    assert run.node(1)["state"] == "unanswered"
    assert run.node(2)["resolved"] == 'Where was the answer to "Who directed the film Whiplash?" born?'
    assert [issue["kind"] for issue in run.of("plan_issue", node=2)] == ["ref_unanswered"]


def test_an_answer_that_looks_like_a_reference_is_not_resolved_again() -> None:
    run = Run(rules(confident=["#query2", "Providence"]))
    assert run.node(2)["resolved"] == "Where was #query2 born?"


# Budgets


@pytest.mark.parametrize(("calls", "answer"), [(1, ""), (2, "Damien Chazelle"), (3, "Providence"), (4, "Providence")])
def test_a_budget_of_calls_stops_with_the_best_so_far(calls: int, answer: str) -> None:
    run = Run(rules(confident=["Damien Chazelle", "Providence"]), budget=Budget(calls=calls))
    assert (run.result.answer, run.result.stopped_by) == (answer, "calls")
    assert len(run.model.requests) == calls
    assert run.result.error == ""
    assert any("budget of calls" in warning for warning in run.result.warnings)


def test_a_budget_that_is_enough_is_not_noticed() -> None:
    run = Run(rules(confident=["Damien Chazelle", "Providence"]), budget=Budget(calls=5))
    assert (run.result.answer, run.result.stopped_by) == ("final answer", "")


def test_a_budget_of_tokens_stops_too() -> None:
    run = Run(rules(), budget=Budget(tokens=1))
    assert (run.result.stopped_by, len(run.model.requests)) == ("tokens", 1)


def test_a_budget_of_seconds_stops_a_slow_model() -> None:
    script = [*rules()[:1], Rule("Damien Chazelle", step="confident", contains="Whiplash"), Rule("x", latency=30)]
    run = Run(script, budget=Budget(seconds=0.2))
    assert (run.result.answer, run.result.stopped_by) == ("Damien Chazelle", "seconds")


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


# Robust: with continuation, the surest of three last readings


def two_readings(first: float, last: float) -> list[Rule]:
    """The question itself is read as Boston (both times), the chains as Providence, as surely as told."""
    once = Rule("Boston", step="read", contains=ROOT, logprob=first)
    return [plan(CHAIN), once, *well_read()[1:-1], Rule("Providence", step="final", logprob=last)]


@pytest.mark.parametrize(
    ("first", "last", "answer"), [(-0.1, -0.5, "Boston"), (-0.5, -0.1, "Providence"), (-0.2, -0.2, "Providence")]
)
def test_the_surest_of_the_readings_is_taken(first: float, last: float, answer: str) -> None:
    run = Run(two_readings(first, last), robust=True)
    assert run.result.answer == answer
    assert run.of("decision", kind="surest", when="final")[0]["answers"] == ["Boston", "Boston", "Providence"]


def test_what_the_question_finds_is_read_narrowly_and_as_a_whole() -> None:
    shelf = Shelf(FOUND, *(Passage(f"q{n}", "Other", f"Number {n}.") for n in range(6)))
    run = Run(two_readings(-0.5, -0.1), robust=True, shelf=shelf, k=5)
    readings = [said for step, said in run.model.requests if step == "taikc/read" and f"Question: {ROOT}" in said]
    narrow, whole = sorted(readings, key=len)
    assert "Number 1." in narrow and "Number 2." not in narrow and narrow.count(ROOT) == 1
    assert "Number 3." in whole and whole.startswith(f"Question: {ROOT}") and whole.count(ROOT) == 2


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


def test_a_node_leaves_everything_the_tables_need() -> None:
    run = Run(rules(read="It is not stated there."))
    node = run.node(2)
    assert (node["id"], node["parent"], node["question"], node["refs"]) == (2, 1, "Where was #query1 born?", [1])
    assert node["resolved"] == "Where was direct answer born?"
    assert (node["confident_raw"], node["identifier_hit"]) == ("RAG_REQUIRED", "hard")
    assert node["passages"] == [["p1", 2.5]]
    assert (node["reader_raw"], node["continuation_hit"]) == ("It is not stated there.", "not … stated")
    assert (node["answer"], node["source"], node["iterations"]) == ("direct answer", "fallback", 3)
    llm = run.of("llm", node=2)
    assert len(llm) == 3
    assert node["tokens"] == sum(call["prompt_tokens"] + call["completion_tokens"] for call in llm) > 0
    assert node["ms"] >= 0


def test_an_answer_names_the_passages_that_hold_it() -> None:
    shelf = Shelf(FOUND, Passage("p2", "Other", "Nothing of it here."))
    run = Run(rules(read="Damien Chazelle"), shelf=shelf)
    assert run.node(1)["evidence"] == ["p1"]
    assert [passage.id for passage in run.result.evidence] == ["p1"]


def test_the_calls_are_counted() -> None:
    run = Run(rules())
    assert run.result.usage.llm_calls == len(run.model.requests) == 7
    assert run.result.usage.retrievals == len(run.shelf.asked) == 2


def test_a_search_that_finds_nothing_leaves_nothing_to_read() -> None:
    run = Run(rules(read="The documents do not provide it."), shelf=Shelf())
    assert run.node(1)["passages"] == []
    assert run.node(1)["source"] == "fallback"


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
        (
            "Were Anna Bell and Carl Dorn both born in France?",
            "Were Anna Bell and Carl Dorn both born in France?",
            "no",
        ),
        ("Who was born first, Anna Bell or Carl Dorn?", "When were Anna Bell and Carl Dorn born?", "1950"),
    ],
)
def test_one_fact_about_both_is_nothing_to_compare(question: str, node: str, fact: str) -> None:
    shelf = Shelf(Passage("a", "Anna Bell", f"Anna Bell and Carl Dorn: {fact}"))
    run = Run(rules({"query1": node}, read=fact, final="read"), question=question, robust=True, shelf=shelf)
    assert run.of("decision", kind="compared")[0]["value"] is False
