"""MIND's memory: what enters it, what it shows, what it spares, and how long it lasts."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run, Search
from tests.methods.mind_asked import ARMAND, CHARLES, DOUBTED, FACTS, FATHER, JEAN, LAST, SECOND, WRITTEN, figure

from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.models.scripted import Rule, ScriptedModel


def ask(script: list[Rule], **options: Any) -> Run:
    return Run("mind", script, shelf=options.pop("shelf", Search(*DUKES)), filters="none", **options)


def test_what_memory_has_is_not_searched_for_again() -> None:
    """Both facts are read at once; the second doubt is settled by memory."""
    run = ask(figure(Rule("\n".join(FACTS), step="facts", logprob=-0.05)), k=3)
    assert len(run.queries) == 1
    (skipped,) = run.of("decision", kind="skipped")
    assert (skipped["fact"], skipped["passage"], skipped["sentence"]) == ([JEAN, "father", ARMAND], "p2", DOUBTED)
    shown = run.sent("rewrite")[1].messages[-1].content
    assert f"[1] {DUKES[1].text}" in shown and DUKES[0].text not in shown
    assert f"Known facts:\n- {JEAN} | father | {ARMAND}" in shown
    assert run.result.answer == ARMAND


@pytest.mark.parametrize(
    "fact", [f"{JEAN} | mother | {ARMAND}", f"{ARMAND} | father | {JEAN}", f"{JEAN} | born in | Paris"]
)
def test_what_memory_does_not_have_is_searched_for(fact: str) -> None:
    run = ask(figure(Rule(f"{FACTS[0]}\n{fact}", step="facts", logprob=-0.05)), k=3)
    assert len(run.queries) == 2 and run.values("skipped") == []


def test_without_memory_nothing_is_kept() -> None:
    run = ask(figure(), memory=False)
    assert "facts" not in run.steps and run.of("memory") == [] and len(run.queries) == 2
    assert all("Known facts" not in text for _, text in run.model.requests)


def test_memory_lasts_for_one_question() -> None:
    model = ScriptedModel(rules=figure(Rule("\n".join(FACTS), step="facts", logprob=-0.05)))
    model.rules[-2].reply = [FATHER, DOUBTED, LAST] * 2
    model.rules[-1].reply = [WRITTEN, SECOND] * 2
    shelf = Search(*DUKES)

    async def twice() -> None:
        options = {"filters": "none", "sub_query": "words"}
        async with Engine(method="mind", model=model, corpus=shelf, options=options, cache=None) as engine:
            for _ in range(2):
                assert (await engine.ask(GRANDFATHER)).answer == ARMAND

    asyncio.run(twice())
    assert len(shelf.asked) == 2
    drafts = [text for step, text in model.requests if step == "mind/draft"]
    assert ["Known facts" in text for text in drafts] == [False, True, True] * 2


def test_facts_that_no_passage_states_do_not_enter() -> None:
    made_up = f"{CHARLES} | father | Louis of France\n{CHARLES} | father | he\nThouars | country | France"
    run = ask(figure(Rule(made_up, step="facts", logprob=-0.05)), k=3)
    assert {event["op"] for event in run.of("memory")} == {"not stated"}
    assert [event["facts"] for event in run.of("decision", kind="memory")] == [0, 0]


@pytest.mark.parametrize(("admit", "entered"), [(0.5, False), (0.3, True)])
def test_facts_that_the_model_was_unsure_of_do_not_enter(admit: float, entered: bool) -> None:
    unsure = Rule(FACTS[0], step="facts", logprob=[*[-0.01] * 9, -1.0])
    run = ask(figure(unsure), k=1, admit=admit)
    event = run.of("memory")[0]
    assert (event["op"], event["confidence"]) == ("added" if entered else "unsure", 0.3679)


@pytest.mark.parametrize(("admit", "second"), [(0.5, "not stated"), (0.3, "added")])
def test_a_fact_that_did_not_enter_does_not_lead_to_the_next(admit: float, second: str) -> None:
    """Only a name that memory has is a reason to keep what is told about it."""
    facts = Rule("\n".join(FACTS), step="facts", logprob=[*[-0.01] * 9, -1.0, *[-0.01] * 40])
    first = [event["op"] for event in ask(figure(facts), k=3, admit=admit).of("memory") if event["step"] == 1]
    assert first == ["unsure" if second == "not stated" else "added", second]


def test_a_fact_that_a_reply_repeats_is_as_sure_as_it_was_first() -> None:
    """A model that loops copies itself, and is sure of that."""
    sure = [*[-0.01] * 9, -1.0]
    again = Rule("\n".join([FACTS[0]] * 3), step="facts", logprob=[*sure, *[-0.01] * 40])
    (event,) = [each for each in ask(figure(again), k=1).of("memory") if each["step"] == 1]
    assert (event["op"], event["confidence"]) == ("unsure", 0.3679)


def test_no_more_facts_are_taken_than_are_asked_for() -> None:
    many = Rule(
        "\n".join(f"{CHARLES} | relation {number} | {JEAN}" for number in range(30)), step="facts", logprob=-0.05
    )
    run = ask(figure(many), k=1)
    most = re.search(r"at most (\d+) lines", run.sent("facts")[0].messages[0].content)
    assert most and len([each for each in run.of("memory") if each["step"] == 1]) == int(most[1]) == 8


def test_what_memory_has_is_written_though_no_search_is_left() -> None:
    run = ask(figure(Rule("\n".join(FACTS), step="facts", logprob=-0.05)), k=3, retrievals=1)
    assert len(run.queries) == 1 and run.values("skipped") == [True] and run.values("stop") == ["answer"]
    assert run.result.chains == (f"{WRITTEN} {SECOND} {LAST}",)


def test_only_the_object_tells_how_sure_a_fact_is() -> None:
    """Which words a relation is told with is the model's choice."""
    facts = Rule(FACTS[0], step="facts", logprob=[*[-4.0] * 9, -0.1, -0.2])
    assert ask(figure(facts), k=1).of("memory")[0]["confidence"] == 0.8187


def test_what_sources_contradict_stays_side_by_side() -> None:
    other = Passage("p4", "Another Trémoille", f"{CHARLES} was the son of Louis Stanislas.", 2.5)
    both = Rule(f"{FACTS[0]}\n{CHARLES} | father | Louis Stanislas", step="facts", logprob=[*[-0.01] * 16, -0.05])
    run = ask(figure(both), shelf=Search(DUKES[0], other, *DUKES[1:]), k=4)
    event = run.of("decision", kind="memory")[0]
    assert event["conflicts"] == [
        [[CHARLES, "father", JEAN, "p1"], [CHARLES, "father", "Louis Stanislas", "p4"]],
    ]
    expected = f'{JEAN} (by "{CHARLES}") or Louis Stanislas (by "Another Trémoille"); the sources differ'
    line = f"- {CHARLES} | father | {expected}"
    assert event["value"] == [line]
    assert line in run.sent("rewrite")[0].messages[-1].content


def test_a_passage_is_read_for_facts_once_for_each_name() -> None:
    run = ask(figure(), k=3)
    first, second = (request.messages[-1].content for request in run.sent("facts"))
    assert f"Names: {CHARLES}, Louis" in first and f"Names: {CHARLES}, {JEAN}, Louis" in second
    mother = f"The mother of {CHARLES} is Louis."
    script = figure(drafts=(FATHER, mother, LAST))
    script[-1].reply = ["He was a duke.", "She was a duchess."]
    run = ask(script, k=3)
    assert len(run.queries) == 2 and len(run.sent("facts")) == 1
