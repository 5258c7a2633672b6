"""TAIKC as in the paper: what is known, what is looked up, and what it leaves for tables and figures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.taikc_asked import FOUND, ROOT, Run, rules

from hoptree.core.errors import ConfigError, CorpusError
from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.engine.result import Result
from hoptree.models.scripted import ScriptedModel

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
    run = Run(rules(confident=reply, read="Damien Chazelle"), strict=hit == "hard")
    assert run.result.fidelity == ("exact" if hit == "hard" else "approx")
    assert run.shelf.asked == [("Who directed the film Whiplash?", 5), ("Where was Damien Chazelle born?", 5)]
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


@pytest.mark.parametrize("options", [{"source": "internal"}, {"source": "external"}])
@pytest.mark.parametrize("reply", ["I don't know.", "It is not known or stated."])
def test_not_knowing_is_never_put_into_the_next_question(reply: str, options: dict[str, Any]) -> None:
    run = Run(rules(direct=reply, read="The documents do not mention it."), **options)
    assert run.node(1)["state"] == "unanswered"
    assert run.node(2)["resolved"].endswith('the answer to "Who directed the film Whiplash?" born?')


def test_external_always_retrieves_and_never_asks_whether_it_is_sure() -> None:
    run = Run(rules(read="Damien Chazelle"), source="external")
    assert len(run.shelf.asked) == 2
    assert "confident" not in run.steps
    assert run.node(1)["source"] == "external"


@pytest.mark.parametrize(("logprob", "tau", "sure"), [(-0.1, 0.5, True), (-2.0, 0.5, False), (-2.0, 0.1, True)])
def test_probability_decides_on_either_side_of_tau(logprob: float, tau: float, sure: bool) -> None:
    run = Run(rules(read="Damien Chazelle", logprob=logprob), source="probability", tau=tau)
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
