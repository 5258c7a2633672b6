"""Options of RA-ISF, and what of it happens at once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.methods.ra_isf_asked import FIRST, ROOT, SECOND, Run, knows, listed, rules

from hoptree.core.errors import ConfigError, CorpusError
from hoptree.engine.engine import Engine
from hoptree.engine.prompts import prompt_for
from hoptree.engine.result import Result
from hoptree.models.scripted import Rule, ScriptedModel


def test_without_self_knowledge_nobody_is_asked_whether_it_is_known() -> None:
    run = Run(rules(know="Yes", relevance="relevance"), no_self_knowledge=True)
    assert run.steps == ["relevance"] * 3 + ["read"]


def test_without_relevance_nothing_is_looked_up() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), no_relevance=True)
    assert (run.shelf.asked, run.steps[:2]) == ([], ["know", "decompose"])
    assert run.result.answer == "combined answer" and run.result.fidelity == "exact"


def test_without_relevance_no_corpus_is_needed() -> None:
    async def ask() -> Result:
        model = ScriptedModel(rules=rules(know="Yes"))
        async with Engine(method="ra_isf", model=model, cache=None, options={"no_relevance": True}) as engine:
            return await engine.ask(ROOT)

    assert asyncio.run(ask()).answer == "direct answer"


def test_with_relevance_it_does_not_start_without_a_corpus() -> None:
    async def ask() -> Result:
        async with Engine(method="ra_isf", model=ScriptedModel(rules=rules()), cache=None) as engine:
            return await engine.ask(ROOT)

    assert isinstance(asyncio.run(ask()).failure, CorpusError)


def test_unfiltered_reads_all_passages() -> None:
    run = Run(rules(), unfiltered=True)
    assert run.steps == ["know", "read"] and "swimming" in run.texts("read")[0]
    assert run.result.fidelity == "approx"


def test_without_decomposition_it_is_unknown_where_no_passage_is_relevant() -> None:
    run = Run(rules(), no_decomposition=True)
    assert (run.result.answer, Counter(run.steps)) == ("", {"know": 1, "relevance": 3})


def test_options_that_make_no_sense_are_refused() -> None:
    failure = Run(rules(), no_relevance=True, unfiltered=True).result.failure
    assert isinstance(failure, ConfigError) and failure.exit_code == 2
    with pytest.raises(ConfigError, match="k=0 is not possible"):
        Run(rules(), k=0)


def test_linked_siblings_see_the_answers_before_them() -> None:
    second = "Who is the mother of that director?"
    script = rules(knows(FIRST), direct="Damien Chazelle", decompose=listed(FIRST, second))
    run = Run(script, link_siblings=True, depth=1, depth_rule="prune")
    linked = f"{second} ({FIRST} Damien Chazelle)"
    assert run.shelf.asked[-1][0] == linked
    assert (run.root.children[1].question, run.root.children[1].resolved) == (second, linked)
    assert f"2. {second}\n" in run.texts("combine")[0], "the context is for asking, not for combining"


@pytest.mark.parametrize(("linked", "prompt"), [(False, "decompose"), (True, "decompose_linked")])
def test_sub_questions_that_build_on_each_other_have_a_prompt_that_lets_them(linked: bool, prompt: str) -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), link_siblings=linked)
    (asked,) = run.of("llm", step="decompose")
    assert asked["template"].startswith(f"ra_isf/{prompt}@")
    instruction = prompt_for("ra_isf", prompt).sections[0].content
    assert ("without the others" in instruction, "the answers before it" in instruction) == (not linked, linked)


def test_linked_siblings_are_asked_one_after_another() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), link_siblings=True)
    states = [(event["id"], event["state"]) for event in run.of("node")]
    assert states == [(0, "asking"), (1, "asking"), (1, "answered"), (2, "asking"), (2, "answered"), (0, "answered")]


def test_siblings_that_are_not_linked_are_asked_at_once() -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)))
    assert [(event["id"], event["state"]) for event in run.of("node")][:3] == [
        (0, "asking"),
        (1, "asking"),
        (2, "asking"),
    ]


def test_relevance_judgements_are_made_at_once() -> None:
    run = Run(rules(relevance="relevance"), latency=0.01)
    judged = [event["issued"] for event in run.of("llm", step="relevance")]
    first_end = run.of("llm", step="relevance")[0]["t"]
    assert len(judged) == 3 and max(judged) < first_end


def test_each_role_may_be_a_model_of_its_own() -> None:
    know = ScriptedModel(rules=[knows(FIRST), knows(SECOND), Rule("No")])
    relevance, split = ScriptedModel(rules=[Rule("irrelevance")]), ScriptedModel(rules=[Rule(listed(FIRST, SECOND))])
    run = Run(
        [Rule("an answer", step="direct"), Rule("all in all", step="combine")],
        roles={"know": know, "relevance": relevance, "decompose": split},
    )
    assert run.result.answer == "all in all"
    assert (len(know.requests), len(relevance.requests), len(split.requests)) == (3, 3, 1)
    assert Counter(event["role"] for event in run.of("llm")) == {"know": 3, "relevance": 3, "decompose": 1, "answer": 3}
