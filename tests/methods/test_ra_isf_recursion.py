"""RA-ISF's recursion: a question is answered once, and what it may cost at most is known."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.ra_isf_asked import FIRST, FOUND, ROOT, SECOND, Run, knows, listed, rules

from hoptree.core.errors import EndpointError
from hoptree.engine.context import Budget
from hoptree.engine.engine import Engine
from hoptree.engine.result import Result, read_result
from hoptree.models.scripted import Rule, ScriptedModel

# Memory


def test_a_question_asked_twice_at_the_same_time_is_computed_once() -> None:
    script = rules(
        Rule(listed("Who is A?", "Who is B?"), step="decompose", contains=ROOT),
        Rule(listed("Who is C?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("who is c"), step="decompose", contains="Question: Who is B?"),
        Rule("No", step="know", contains=ROOT),
        Rule("No", step="know", regex="Who is [AB]"),
        Rule("Yes", step="know", contains="C", latency=0.02),
    )
    run = Run(script)
    asked = [text for text in run.texts("know") if "who is c" in text.casefold()]
    assert len(asked) == 1 and run.steps.count("direct") == 1
    a, b = run.root.children
    assert [node.children[0].answer for node in (a, b)] == ["direct answer"] * 2, "and both have the answer"
    assert {run.node(11)["looked_by"], run.node(21)["looked_by"]} == {11}
    assert run.node(21)["know_raw"] == "Yes", "what was said of it is told of both"
    assert run.node(21)["spent"]["calls"] == 0


def test_a_question_that_comes_again_at_another_depth_is_not_asked_again() -> None:
    """And it comes to the same: what it is split into is asked again at its own depth, by memory alone."""
    script = rules(
        Rule(listed("Who is A?", "Who is B?"), step="decompose", contains=ROOT),
        Rule(listed("Who is B?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("Who is C?"), step="decompose", contains="Question: Who is B?"),
        knows("Who is C?"),
    )
    run = Run(script)
    asked = Counter(text for step, text in run.model.requests if "B?" in text.rpartition("Question:")[2])
    assert asked and max(asked.values()) == 1
    a, b = run.root.children
    assert (a.children[0].question, a.children[0].answer) == (b.question, b.answer)


def test_branches_that_lead_into_each_other_do_not_wait_for_ever() -> None:
    script = rules(
        Rule(listed("Who is A?", "Who is B?"), step="decompose", contains=ROOT),
        Rule(listed("Who is B?"), step="decompose", contains="Question: Who is A?"),
        Rule(listed("Who is A?"), step="decompose", contains="Question: Who is B?"),
    )
    run = Run(script, budget=Budget(seconds=60))
    assert run.result.stopped_by == ""
    assert run.steps.count("decompose") == 3


TANGLE = rules(
    Rule(listed("Who is A?", "Who is B?", "Who is C?"), step="decompose", contains=ROOT),
    Rule(listed("Who is B?", "Who is D?"), step="decompose", contains="Question: Who is A?"),
    Rule(listed("Who is D?", "Who is C?"), step="decompose", contains="Question: Who is B?"),
    Rule(listed("Who is E?", "Who is A?"), step="decompose", contains="Question: Who is C?"),
    Rule(listed("Who is E?"), step="decompose", contains="Question: Who is D?"),
    Rule("Yes. The answer is Eve.", step="know", contains="Who is E?"),
)


def test_which_branch_is_faster_changes_nothing() -> None:
    """The same tree, answer and calls, whatever takes long."""
    outcomes = []
    for slow in ("", "A?", "B?", "C?", "D?"):
        late = [Rule("No", step="know", contains=f"Question: Who is {slow}", latency=0.02)] if slow else []
        run = Run([*late, *(Rule(rule.reply, rule.step, rule.contains) for rule in TANGLE)])
        outcomes.append((run.result.tree, run.result.answer, run.result.evidence, Counter(run.model.requests)))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert max(outcomes[0][3].values()) == 1, "no request is ever made twice"


# Budget


WIDE = 4


class Worst(ScriptedModel):
    """Knows nothing, finds nothing relevant, and splits every question into four that were never asked."""

    def __init__(self, script: list[Rule] | None = None) -> None:
        super().__init__(rules=script or rules(combine="unknown"))

    async def generate(self, request: Any, *, step: str) -> Any:
        if step.endswith("decompose"):
            asked = request.messages[-1].content.split("Question: ")[1].splitlines()[0]
            name = asked.removeprefix("Who is ").removesuffix("?")
            self.rules.insert(0, Rule(listed(*(f"Who is {name}{n}?" for n in range(WIDE))), "decompose", f"is {name}?"))
        return await super().generate(request, step=step)


def worst_case(
    depth: int, budget: Budget | None = None, script: list[Rule] | None = None, **options: Any
) -> tuple[Result, int]:
    async def ask() -> tuple[Result, int]:
        model = Worst(script)
        async with Engine(
            method="ra_isf",
            model=model,
            corpus=Shelf(*FOUND),
            cache=None,
            budget=budget,
            options={"depth": depth} | options,
        ) as engine:
            return await engine.ask("Who is x?"), len(model.requests)

    return asyncio.run(ask())


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_the_worst_case_is_known(depth: int) -> None:
    """(b^(D+1) - 1) / (b - 1) questions of 3 + k calls each: with b = 4, D = 3 and k = 5 that is 680."""
    questions = (WIDE ** (depth + 1) - 1) // (WIDE - 1)
    result, calls = worst_case(depth)
    assert calls == result.usage.llm_calls == questions * (3 + len(FOUND))
    assert result.usage.retrievals == questions


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, 3 + len(FOUND)),
        ({"relevance": "listwise"}, 4),
        ({"link_siblings": True}, 3 + len(FOUND)),
        # a reading that does not answer
        ({"fallthrough": True}, 4 + len(FOUND)),
    ],
)
def test_the_worst_case_of_each_form_is_known(options: dict[str, Any], calls: int) -> None:
    read, direct = "The passages do not mention the answer.", "I do not know."
    relevance = "[1][2]" if options.get("relevance") == "listwise" else "relevance"
    worst = 0
    for know, judged in (("No", "irrelevance"), ("No", relevance), ("Yes", relevance)):
        script = rules(know=know, relevance=judged, read=read, direct=direct, combine="unknown")
        worst = max(worst, worst_case(1, script=script, **options)[0].usage.llm_calls)
    assert worst == (1 + WIDE) * calls


@pytest.mark.parametrize("calls", [1, 7, 60])
def test_a_budget_bounds_the_worst_case_over_the_whole_recursion(calls: int) -> None:
    result, calls_made = worst_case(3, Budget(calls=calls))
    assert calls_made == result.usage.llm_calls == calls
    assert result.stopped_by == "calls"


def test_a_spent_budget_does_not_make_the_answer_to_a_part_the_answer() -> None:
    run = Run(rules(knows(FIRST), direct="Damien Chazelle"), budget=Budget(calls=8))
    assert run.root.children[0].answer == "Damien Chazelle"
    assert (run.result.stopped_by, run.result.answer, run.result.abstained) == ("calls", "", True)


def test_what_a_budget_ended_says_so_and_what_is_still_asked_does_not() -> None:
    run = Run(rules(), budget=Budget(calls=9))
    nodes = [(node.state, node.answer, node.why) for node in run.root.walk()]
    assert nodes and set(nodes) == {("stopped", "", "the budget of calls ended it")}
    growing = read_result([event for event in run.events if event.event != "final"])
    assert {node.state for node in growing.tree[0].walk()} == {"asking"}, "the tree is drawn while it grows, too"


def test_a_failing_model_fails_the_question_and_nothing_hangs() -> None:
    run = Run(rules(Rule(fault="401", step="know", contains=SECOND)))
    assert isinstance(run.result.failure, EndpointError)
