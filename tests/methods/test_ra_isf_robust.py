"""RA-ISF with robust=on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.ra_isf_asked import FIRST, FOUND, ROOT, SECOND, knows, listed, robust, rules

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule, ScriptedModel


def test_robust_takes_memory_for_a_candidate_and_not_for_an_exit() -> None:
    """Passages that say it, and name all that the question names, outdo a memory that is just as sure."""
    run = robust(rules(know="Yes", relevance="relevance", direct="Jane", read="Damien Chazelle"), question=FIRST)
    assert (run.result.answer, run.root.source) == ("Damien Chazelle", "external")
    assert {"know", "direct", "relevance", "read"} == set(run.steps)
    assert run.root.why.startswith("3 of 3 passages relevant, and an answer stands in what was read")


@pytest.mark.parametrize(("memory", "answer"), [(-0.01, "Jane"), (-2.0, "John Doe")])
def test_robust_weighs_memory_against_a_reading_that_stands_in_no_passage(memory: float, answer: str) -> None:
    script = [Rule("Jane", step="direct", logprob=memory), *rules(know="Yes", read="John Doe", logprob=-1.0)]
    assert robust(script, question=FIRST, no_decomposition=True).result.answer == answer


@pytest.mark.parametrize(("memory", "answer"), [(-0.01, "Jane"), (-2.0, "John Doe")])
def test_robust_weighs_a_memory_told_with_the_yes_alike(memory: float, answer: str) -> None:
    script = [Rule("Yes. Jane", step="know", logprob=memory), *rules(read="John Doe", logprob=-1.0)]
    run = robust(script, question=FIRST, no_decomposition=True)
    assert (run.result.answer, "direct" in run.steps) == (answer, False)


class Silent(ScriptedModel):
    """A model that does not tell how likely its tokens were, and refuses to be asked."""

    capabilities = frozenset()

    async def generate(self, request: Any, *, step: str) -> Any:
        assert not request.top_logprobs
        return await super().generate(request, step=step)


@pytest.mark.parametrize(("memory", "answer"), [(-0.01, "Jane"), (-2.0, "John Doe")])
def test_robust_asks_again_for_a_memory_that_comes_without_its_probability(memory: float, answer: str) -> None:
    """One that could not be weighed would never be taken."""
    script = [Rule("Jane", step="direct", logprob=memory), *rules(read="John Doe", logprob=-1.0)]
    roles = {"know": Silent(rules=[Rule("Yes. Jane")])}
    run = robust(script, question=FIRST, no_decomposition=True, roles=roles)
    assert (run.result.answer, "direct" in run.steps) == (answer, True)


def test_robust_does_not_weigh_where_the_model_that_answers_tells_no_probability() -> None:
    """Memory alone would have one: all are counted instead, and of equals the last is taken."""
    know = ScriptedModel(rules=[Rule("Yes. Jane")])
    answers = Silent(rules=rules(read="John Doe"))
    run = robust(rules(), question=FIRST, no_decomposition=True, roles={"know": know, "answer": answers})
    assert run.result.answer == "Jane"
    assert run.of("decision", kind="surest", when="remembered")[0]["confidence"] == [None, None]


def test_robust_splits_where_the_relevant_passages_do_not_name_all_that_is_asked_about() -> None:
    question = "Which studio paid for Whiplash after La La Land was refused?"
    script = rules(
        Rule("relevance", step="relevance", contains="Whiplash was"), read="Damien Chazelle", decompose=listed(FIRST)
    )
    run = robust(script, question=question, depth=1, depth_rule="prune")
    assert len(run.root.children) == 1 and "not all that the question names is there" in run.root.why
    assert "an answer stands in what was read" in run.root.children[0].why


def test_robust_carries_relevant_passages_down() -> None:
    class Two(Shelf):
        async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
            return FOUND[:1] if query == ROOT else FOUND[2:]

    question = ROOT
    script = rules(
        Rule("relevance", step="relevance", contains="directed by"),
        Rule("Nobody", step="read", contains=f"Question: {ROOT}"),
        Rule("Damien Chazelle", step="read", contains="directed by"),
        decompose=listed(FIRST),
    )
    run = robust(script, question=question, shelf=Two(), depth=1, depth_rule="prune")
    (child,) = run.root.children
    assert child.answer == "Damien Chazelle", "found by the question above it"
    assert "passage: Whiplash: Whiplash was directed" in run.texts("combine")[0]


def test_robust_reads_more_than_is_called_relevant_where_that_is_little() -> None:
    """What a second step needs is easily judged irrelevant to the first."""
    run = robust(rules(Rule("relevance", step="relevance", contains="directed by"), read="Damien Chazelle"))
    first, second = (said for step, said in run.model.requests if step == "ra_isf/read" and f"Question: {ROOT}" in said)
    assert all(passage.text in said for said in (first, second) for passage in FOUND)


def test_robust_compares_in_code_what_the_parts_found() -> None:
    """The model would have said Emma, and passages that name all of it do not keep the question from being split."""
    question = "Who was born later, Alan Turing or Jane Austen?"
    born = ("When was Alan Turing born?", "When was Jane Austen born?")
    shelf = Shelf(
        Passage("t", "Alan Turing", "Alan Turing was born on 23 June 1912."),
        Passage("a", "Jane Austen", "Jane Austen was born on 16 December 1775."),
    )
    script = rules(
        Rule("23 June 1912", step="read", contains=f"Question: {born[0]}"),
        Rule("16 December 1775", step="read", contains=f"Question: {born[1]}"),
        relevance="relevance",
        read="Jane Austen",
        decompose=listed(*born),
    )
    run = robust(script, question=question, shelf=shelf)
    assert (run.result.answer, run.root.source) == ("Alan Turing", "synthesis")
    assert "to be compared" in run.root.why and "combine" not in run.steps


def test_a_spent_budget_leaves_what_was_read_for_the_question_and_not_for_a_part_of_it() -> None:
    script = rules(
        Rule("Nobody", step="read", contains=f"Question: {ROOT}"),
        Rule("Damien Chazelle", step="read"),
        relevance="irrelevance",
        decompose=listed(FIRST, "Who is unknown to all of these passages?"),
    )
    whole = robust(script).result.usage.llm_calls
    run = robust(script, budget=Budget(calls=whole - 1))
    assert run.result.stopped_by == "calls"
    assert run.root.children[0].answer == "Damien Chazelle"
    assert run.result.answer == "Nobody"


def test_robust_takes_the_surer_of_what_was_read_and_what_was_combined() -> None:
    for logprob, answer in ((-0.5, "Bob"), (-3.0, "read answer")):
        script = [Rule("Bob", step="combine", logprob=logprob), *rules(knows(FIRST), knows(SECOND), logprob=-1.0)]
        run = robust(script)
        assert (run.result.answer, run.result.fidelity) == (answer, "approx")
        assert run.of("decision", kind="surest", when="combined")


def test_robust_without_relevance_looks_nothing_up() -> None:
    run = robust(rules(knows(FIRST), knows(SECOND)), no_relevance=True)
    assert run.shelf.asked == [] and run.result.answer == "combined answer"
