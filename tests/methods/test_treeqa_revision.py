"""What TreeQA mends once its tree is walked: in the tree as it is then, with every validation counted once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.traced import as_dicts

from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.events import Event
from hoptree.engine.trace import Trace
from hoptree.methods.robust.treeqa_revision import RobustOutcome, make_robust_walk, revise_siblings
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.graph_evidence import Wanted
from hoptree.methods.steps.logic_tree import Claim, carried
from hoptree.methods.steps.verify import Verdict
from hoptree.methods.treeqa.hypotheses import Rebuilt
from hoptree.methods.treeqa.walk import Attempt, Branch, Outcome, Walk, hang
from hoptree.models.scripted import ScriptedModel
from hoptree.text.question_tree import Node

LANDING = Claim("When was the third landing?", "Apollo 8")
ONE_MOON = tuple(Claim(f"Where was part {part} of the Moon?", "the Sea") for part in ("one", "two", "three"))


class Knowing:
    """Supports what it does not know better; what it refutes it puts right below too, or rebuilds as it is told."""

    max_attempts = 1

    def __init__(self, right: dict[str, str], rebuilt: dict[str, Claim]) -> None:
        self._right, self._rebuilt = right, rebuilt
        self.asked: list[str] = []

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        claim = branch.claim
        await asyncio.sleep(0)
        if allowed < 1 or not wanted():
            return RobustOutcome()
        self.asked.append(claim.question)
        thought = claim.hypothesis or claim.dropped
        right = self._right.get(claim.question, thought)
        verdict = Verdict("supported") if right == thought else Verdict("refuted", correction=right)
        if not claim.hypothesis:  # answered from evidence
            verdict = Verdict("supported", stated=right)
        outcome = RobustOutcome((Attempt(claim.question, verdict, EvidenceBox()),), stated=verdict.stated)
        if right == thought or not may_rebuild:
            return outcome
        below = carried(replace(claim, hypothesis=thought), right, guesses=False) or ()
        new = self._rebuilt.get(claim.question) or Claim(claim.question, right, below)
        return replace(outcome, rebuilt=Rebuilt(new))


class Revised:
    """A tree that was walked, and then revised."""

    def __init__(
        self, *tops: Claim, right: dict[str, str], rebuilt: dict[str, Claim] | None = None, traversal: Any = "serial"
    ) -> None:
        trace = Trace("t")
        ctx = Context(method="treeqa", model=ScriptedModel(rules=[]), calls=Calls(None), trace=trace)
        self.process = Knowing(right, rebuilt or {})
        self.walk = make_robust_walk(traversal, ctx, self.process, hang(tops, Node(0, "", depth=0), first=1))

        async def go() -> None:
            await self.walk.run()
            await revise_siblings(ctx, self.walk, "What is it all about?")

        asyncio.run(go())
        self.events: list[Event] = list(trace.events)

    def decided(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in as_dicts(self.events) if event["event"] == "decision" and event["kind"] == kind]

    @property
    def live(self) -> list[Branch]:
        return [one for top in self.walk.tops for one in (top, *top.below())]

    @property
    def questions(self) -> list[str]:
        return [one.node.question for one in self.live]


TO_APOLLO_14 = {LANDING.question: "Apollo 14"}


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_what_did_not_change_is_not_counted_again(traversal: str) -> None:
    crew = Claim("Who commanded Apollo 8?", "Frank Borman", ONE_MOON)
    run = Revised(LANDING, crew, right=TO_APOLLO_14, traversal=traversal)
    assert "Who commanded Apollo 14?" in run.questions
    assert run.walk.validations == len(run.process.asked) == 6
    ended = [
        event["id"] for event in as_dicts(run.events) if event["event"] == "node" and event.get("state") != "asking"
    ]
    assert sorted(ended) == [1, 2, 2, 3, 4, 5], "only the node that changed is told of again"


@pytest.mark.parametrize("cap", [5, 6])
def test_nothing_supported_is_lost_where_the_validations_are_used_up(monkeypatch: pytest.MonkeyPatch, cap: int) -> None:
    monkeypatch.setattr(Walk, "max_validations", cap)
    crew = Claim("Who commanded Apollo 8?", "Frank Borman", ONE_MOON)
    run = Revised(LANDING, crew, right=TO_APOLLO_14)
    assert [run.walk.outcomes[number].label for number in (2, 3, 4, 5)] == ["supported"] * 4
    assert run.walk.validations == len(run.process.asked) == cap
    assert ("Who commanded Apollo 14?" in run.questions) is (cap == 6)


def test_a_sibling_that_there_is_no_validation_left_for_stays_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Walk, "max_validations", 2)
    run = Revised(LANDING, Claim("Who commanded Apollo 8?", "Frank Borman"), right=TO_APOLLO_14)
    assert run.questions == [LANDING.question, "Who commanded Apollo 8?"]
    (left,) = run.decided("sibling_left")
    assert left["value"] == 2 and left["why"] == "no validations left" and not run.decided("sibling_revised")


def test_what_is_rebuilt_to_the_same_again_is_counted_once() -> None:
    """The node is refuted before and after its sibling was put right, and has the same child both times."""
    child = Claim("Who taught at the school?", "Carl Xer")
    right = {**TO_APOLLO_14, "Who commanded Apollo 8?": "Ann Low", "Who commanded Apollo 14?": "Bob High"}
    rebuilt = {
        "Who commanded Apollo 8?": Claim("Who commanded Apollo 8?", "Ann Low", (child,)),
        "Who commanded Apollo 14?": Claim("Who commanded Apollo 14?", "Bob High", (child,)),
    }
    run = Revised(LANDING, Claim("Who commanded Apollo 8?", "Frank Borman"), right=right, rebuilt=rebuilt)
    assert run.questions == [LANDING.question, "Who commanded Apollo 14?", child.question]
    assert run.walk.validations == len(run.process.asked) == 4
    assert run.walk.outcomes[201].label == "supported"


COMMANDER = Claim(
    "Who commanded Apollo 8?",
    "Frank Borman",
    (Claim("Who taught Frank Borman?", "Carl Xer"), Claim("Where did Carl Xer live?", "Rome")),
)
REPLACED = {
    **TO_APOLLO_14,
    "Who taught Frank Borman?": "Dan Yer",
    "Who commanded Apollo 14?": "Alan Shepard",
}


def test_what_left_the_tree_is_not_revised_any_more() -> None:
    run = Revised(LANDING, COMMANDER, right=REPLACED)
    assert "Where did Dan Yer live?" not in run.process.asked
    assert [one.node.id for one in run.live] == [1, 2, 201, 202]
    assert sorted(run.walk.outcomes) == [1, 2, 201, 202], "what it rested on supports nothing"


def test_what_came_into_the_tree_is_revised_too() -> None:
    below = (Claim("Who taught Alan Shepard?", "Gus Orr"), Claim("Where did Gus Orr live?", "Rome"))
    right = {**REPLACED, "Who taught Alan Shepard?": "Eve Zed"}
    rebuilt = {"Who commanded Apollo 14?": Claim("Who commanded Apollo 14?", "Alan Shepard", below)}
    run = Revised(LANDING, COMMANDER, right=right, rebuilt=rebuilt)
    assert run.questions[-2:] == ["Who taught Alan Shepard?", "Where did Eve Zed live?"]
    assert run.process.asked[-1] == "Where did Eve Zed live?"


def test_below_a_sibling_that_does_not_name_it_what_does_is_asked_anew() -> None:
    crew = Claim("Who was the commander?", "Frank Borman", (Claim("Who commanded Apollo 8?", "Frank Borman"),))
    run = Revised(LANDING, crew, right=TO_APOLLO_14)
    assert run.process.asked[-2:] == ["Who commanded Apollo 8?", "Who commanded Apollo 14?"]
    (revised,) = run.decided("sibling_revised")
    assert (revised["value"], revised["asked"]) == (3, "Who commanded Apollo 14?")


def test_what_cannot_be_rewritten_is_told() -> None:
    landing = Claim(LANDING.question, "Apollo 8, in December 1968")
    crew = Claim("Who commanded Apollo 8?", "Frank Borman")
    run = Revised(landing, crew, right={landing.question: "February 5, 1971"})
    assert run.questions == [landing.question, crew.question]
    (left,) = run.decided("sibling_left")
    assert (left["value"], left["asked"], left["why"]) == (2, crew.question, "cannot be rewritten")


def test_two_nodes_that_would_put_each_other_right_come_to_an_end() -> None:
    one, two = Claim("What came after Ada Moor?", "Ben Hale"), Claim("What came after Ben Hale?", "Ada Moor")
    right = {
        "What came after Ada Moor?": "Cora Lind",
        "What came after Ben Hale?": "Dan Roe",
        "What came after Dan Roe?": "Ben Hale",
        "What came after Cora Lind?": "Ada Moor",
    }
    run = Revised(one, two, right=right)
    assert run.walk.fixes <= Walk.max_fixes and run.walk.validations == len(run.process.asked) <= 12
