"""What TreeQA begins before it is known to be needed: what serves, what is given up, and how much there may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.methods.treeqa_asked import (
    LANDING,
    WRONG_PRESIDENT,
    Run,
    refutes,
    rules,
    shape,
    verdict,
)
from tests.methods.treeqa_fickle import Fickle, Generous, asked

from hoptree.core.errors import EndpointError
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.steps.evidence_box import EvidenceBox, Verdict
from hoptree.methods.steps.logic_tree import Claim
from hoptree.methods.steps.mentions import Ahead, Wanted
from hoptree.methods.treeqa.speculative import SpeculativeWalk
from hoptree.methods.treeqa.tree import Branch, Rebuilt, to_branches
from hoptree.methods.treeqa.walk import Attempt, Outcome, ProcessNode, Walk
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.text.question_tree import Node

COSTLY = (3, 4, 9, 11)
"""Of the first twelve seeds those with which most is begun in vain."""


def test_what_is_below_a_refuted_node_is_given_up_and_the_new_nodes_are_validated() -> None:
    run = Run(rules(refutes(LANDING)), traversal="speculative")
    assert run.of("decision", kind="discarded")[0]["value"] == [2]
    assert [node.id for node in run.tops[0].children] == [101] and run.tops[0].children[0].verdict == "supported"


@pytest.mark.parametrize("refuted", [0.33, 1.0])
def test_what_is_begun_ahead_costs_a_few_times_what_is_needed_at_most(refuted: float) -> None:
    """A model that refutes and rebuilds at its ease must not multiply its own work."""
    calls = {
        how: [calls_of(Generous(seed, seed, (refuted, 0.0)), how) for seed in COSTLY]
        for how in ("serial", "speculative")
    }
    assert sum(calls["speculative"]) <= 3 * sum(calls["serial"]), calls
    assert all(more <= 5 * few for few, more in zip(calls["serial"], calls["speculative"], strict=True)), calls


def calls_of(model: Fickle, traversal: str) -> int:
    result, _ = asyncio.run(asked(model, traversal=traversal))
    assert result.error == "", result.error_message
    return result.usage.llm_calls


WALKS: dict[str, Callable[..., Walk]] = {
    "serial": Walk,
    "level": partial(Walk, by_level=True),
    "speculative": SpeculativeWalk,
}


class Refusing(ProcessNode):
    """Refutes everything, the deeper the slower, and rebuilds it into what it is told."""

    max_attempts = 1

    def __init__(self, below: tuple[Claim, ...], *, telling: bool = False) -> None:
        self._below, self._telling = below, telling
        self.begun: list[int] = []

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        self.begun.append(branch.node.id)
        for _ in range(3 * branch.node.depth):
            await asyncio.sleep(0)
        verdict = Verdict("refuted", correction="Apollo 14")
        attempts = (Attempt("", verdict, EvidenceBox()),) if allowed > 0 else ()
        if not may_rebuild or not attempts:
            return Outcome(attempts)
        if self._telling and isinstance(wanted, Ahead):
            wanted.refuted(verdict)
        await asyncio.sleep(0)
        return Outcome(attempts, Rebuilt(Claim(branch.node.question, "Apollo 14", self._below)))


def refused(process: Refusing, *tops: Claim, how: Any = "speculative") -> Walk:
    ctx = Context(method="treeqa", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("t"))
    walk = WALKS[how](ctx, process, to_branches(tops, Node(0, "", depth=0), first=1))
    asyncio.run(walk.run())
    return walk


@pytest.mark.parametrize("telling", [False, True])
def test_what_a_given_up_node_was_rebuilt_into_is_not_begun(telling: bool) -> None:
    process = Refusing((Claim("What is new?", "b"),), telling=telling)
    refused(process, Claim("Which?", "Apollo 8", (Claim("Who flew?", "Frank Borman"),)))
    assert 2 in process.begun and 101 in process.begun and 201 not in process.begun


def test_of_a_rebuilt_tree_no_more_is_begun_than_there_is_room_for() -> None:
    process = Refusing(tuple(Claim(f"What is {n}?", "b") for n in range(60)))
    walk = refused(process, Claim("Which?", "Apollo 8"))
    assert len(process.begun) == len(set(process.begun))
    assert sum(100 < number < 200 for number in process.begun) == 15 == len(walk.tops[0].children)


@pytest.mark.parametrize("nodes", [2, 4])
def test_nodes_begun_ahead_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    monkeypatch.setattr(Walk, "max_validations", nodes)
    tops = [Claim(f"Which {n}?", "Apollo 8") for n in range(9)]
    serial, ahead = Refusing(()), Refusing(())
    refused(serial, *tops, how="serial")
    refused(ahead, *tops)
    assert len(ahead.begun) == len(serial.begun) == 9, "what is not begun ahead is left to the walk"
    first = Refusing((Claim("What is new?", "b"),))
    refused(first, *tops)
    assert len(first.begun) <= 9 + 2 * nodes


def test_rebuilt_trees_begun_ahead_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Walk, "max_fixes", 1)
    process = Refusing((Claim("What is new?", "b"), Claim("What else?", "b")))
    refused(process, *(Claim(f"Which {n}?", "Apollo 8") for n in range(4)))
    rebuilt = {number // 100 for number in process.begun if number > 100}
    assert 1 in rebuilt and len(rebuilt) <= 2, "that of the walk, and one ahead of it"


def test_nothing_new_is_begun_for_a_node_that_was_given_up() -> None:
    """The old child would be unknown, and a clue be asked for; but by then its parent is refuted."""
    slow = Rule(verdict("unknown"), step="validate", contains="in December 1968?", latency=0.2)
    run = Run(rules(refutes(LANDING), slow), traversal="speculative")
    assert "clue" not in run.steps and run.steps.count("validate") == 3


class Corrected(ProcessNode):
    """Refutes the node that is called first, and takes its time to rebuild it."""

    max_attempts = 1

    def __init__(self, rebuilt: Claim, *, tells: bool = True) -> None:
        self._rebuilt, self._tells = rebuilt, tells
        self.begun: list[str] = []
        self.begun_before_rebuilt: list[str] = []
        self.ended: list[str] = []

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        self.begun.append(branch.claim.question)
        await asyncio.sleep(0)
        if branch.node.id != 1:
            for _ in range(20):
                await asyncio.sleep(0)
                if not wanted():
                    return Outcome()
            self.ended.append(branch.claim.question)
            return Outcome((Attempt("", Verdict("supported"), EvidenceBox()),))
        verdict = Verdict("refuted", correction="Apollo 14")
        if self._tells and isinstance(wanted, Ahead):
            wanted.refuted(verdict)
        for _ in range(5):
            await asyncio.sleep(0)
        self.begun_before_rebuilt = list(self.begun)
        return Outcome((Attempt("", verdict, EvidenceBox()),), Rebuilt(self._rebuilt))


def walked(rebuilt: Claim, traversal: Any = "speculative", *, tells: bool = True) -> tuple[Corrected, Walk]:
    old = Claim("Which flight?", "Apollo 8", (Claim("Who flew on Apollo 8?", "Frank Borman"),))
    process = Corrected(rebuilt, tells=tells)
    ctx = Context(method="treeqa", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("t"))
    walk = WALKS[traversal](ctx, process, to_branches([old], Node(0, "", depth=0), first=1))
    asyncio.run(walk.run())
    return process, walk


RIGHT = Claim("Which flight?", "Apollo 14", (Claim("Who flew on Apollo 14?", "Frank Borman"),))
OTHER = Claim("Which flight?", "Apollo 14", (Claim("When did Apollo 14 fly?", "in 1971"),))


def test_the_children_put_right_are_begun_while_the_tree_is_rebuilt_and_serve_if_they_come() -> None:
    process, walk = walked(RIGHT)
    assert process.begun_before_rebuilt == ["Which flight?", "Who flew on Apollo 8?", "Who flew on Apollo 14?"]
    assert process.begun == process.begun_before_rebuilt, "what was begun is not begun again"
    assert walk.outcomes[101].label == "supported" and process.ended == ["Who flew on Apollo 14?"]


def test_children_that_do_not_come_are_given_up() -> None:
    process, walk = walked(OTHER)
    assert process.begun[-2:] == ["Who flew on Apollo 14?", "When did Apollo 14 fly?"]
    assert process.ended == ["When did Apollo 14 fly?"] and walk.outcomes[101].label == "supported"


@pytest.mark.parametrize("traversal", ["serial", "level"])
def test_nothing_is_foreseen_where_nothing_is_done_ahead(traversal: str) -> None:
    process, walk = walked(RIGHT, traversal)
    assert process.begun == ["Which flight?", "Who flew on Apollo 14?"] and walk.tops[0].claim == RIGHT


def test_a_process_that_tells_nothing_is_only_slower() -> None:
    process, walk = walked(RIGHT, tells=False)
    assert "Who flew on Apollo 14?" not in process.begun_before_rebuilt and walk.tops[0].claim == RIGHT


@pytest.mark.parametrize("step", ["validate", "mentions"])
def test_a_failure_in_what_is_given_up_fails_nothing(step: str) -> None:
    """The child of a refuted node is never come to in the walk."""
    fails = Rule(step=step, contains=WRONG_PRESIDENT, fault="401")
    runs = {how: Run(rules(refutes(LANDING), fails), traversal=how) for how in ("serial", "speculative")}
    serial, speculative = runs["serial"].result, runs["speculative"].result
    assert (speculative.answer, speculative.error) == (serial.answer, serial.error) == ("Richard Nixon", "")
    assert shape(runs["speculative"].tops) == shape(runs["serial"].tops)


def test_a_failure_ahead_is_raised_where_the_walk_comes_to_it() -> None:
    fails = Rule(step="validate", contains=f"Question: {WRONG_PRESIDENT}", fault="401")
    run = Run([fails, *rules()], traversal="speculative")
    assert run.result.error == "EndpointError" and run.node(1)["verdict"] == "supported"


class Failing(ProcessNode):
    """Fails the first time at the node below, and supports all others."""

    max_attempts = 1

    def __init__(self) -> None:
        self.begun: list[int] = []

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        self.begun.append(branch.node.id)
        if branch.node.id == 2 and self.begun.count(2) == 1:
            raise EndpointError("It is down.", "Try again.")
        await asyncio.sleep(0)
        if branch.node.id == 1 and isinstance(wanted, Ahead):
            wanted.refuted(Verdict("refuted"))  # and then it is not refuted after all: a cap was in the way
        return Outcome((Attempt("", Verdict("supported"), EvidenceBox()),))


def test_what_failed_when_it_was_given_up_is_done_again_if_it_is_needed_after_all() -> None:
    ctx = Context(method="treeqa", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("t"))
    process = Failing()
    tops = to_branches([Claim("Which?", "Apollo 8", (Claim("Who?", "Borman"),))], Node(0, "", depth=0), first=1)
    walk = SpeculativeWalk(ctx, process, tops)
    asyncio.run(walk.run())
    assert walk.outcomes[2].label == "supported"
