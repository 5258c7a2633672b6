"""TreeQA's three ways through a tree: for the same replies the same final tree, whatever is refuted, and how fast."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import (
    GRAPH,
    LANDING,
    MOON,
    PAGES,
    Run,
    node,
    refutes,
    rules,
    shape,
    tree,
    verdict,
)

from hoptree.engine import Engine
from hoptree.methods.treeqa import careful
from hoptree.methods.treeqa import walk as treeqa_walk
from hoptree.methods.treeqa.evidence import PRESETS, Ahead, Sources, Wanted
from hoptree.methods.treeqa.nodes import Attempt, Branch, Outcome
from hoptree.methods.treeqa.walk import Walk, hang
from hoptree.models.model import Choice, Reply, Request, TokenUsage
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.runtime.budget import Budget
from hoptree.runtime.calls import Calls
from hoptree.runtime.context import Context
from hoptree.runtime.result import Result, TreeNode
from hoptree.runtime.trace import Event, Trace
from hoptree.steps.evidence_box import EvidenceBox
from hoptree.steps.logic_tree import Claim
from hoptree.steps.rebuild import Rebuilt
from hoptree.steps.substitution import carried
from hoptree.steps.verify import Verdict
from hoptree.tree import Node
from hoptree.values import Passage


class Fickle:
    """A model whose replies depend on nothing but what it is asked, and whose haste depends on chance."""

    name = endpoint = "fickle"
    slots = 1024
    capabilities: frozenset[Any] = frozenset()

    def __init__(self, seed: int, haste: int, share: tuple[float, float]) -> None:
        self.identity = f"fickle {seed}"
        self._seed, self._haste, self._share = seed, random.Random(haste), share

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        dice = random.Random(hashlib.sha256(f"{self._seed} {step} {text}".encode()).digest())
        for _ in range(self._haste.randrange(6)):
            await asyncio.sleep(0)
        said = self._say(step.removeprefix("treeqa/"), dice)
        return Reply((Choice(said),), TokenUsage(len(text.split()), 0, len(said.split())))

    def _say(self, step: str, dice: random.Random) -> str:
        if step == "build":
            return tree(*(_grown(dice, 4) for _ in range(dice.randint(1, 4))))
        if step == "validate":
            refuted, unknown = self._share
            roll = dice.random()
            if roll < refuted:
                return verdict(False, "T1", reason="It is wrong.", correct=f"c{dice.random()}")
            return verdict("unknown") if roll < refuted + unknown else verdict(True, "T1", "T2")
        if step == "rebuild":
            return json.dumps(_grown(dice, 3)) if dice.random() < 0.9 else "I cannot."
        return json.dumps({"new_clue": f"Apollo {dice.randint(1, 20)}"}) if step == "clue" else "The end"

    async def aclose(self) -> None:
        return None


class Generous(Fickle):
    """As `Fickle`, but what it rebuilds is large."""

    def _say(self, step: str, dice: random.Random) -> str:
        if step != "rebuild":
            return super()._say(step, dice)
        below = [_leaves(dice, _leaves(dice), _leaves(dice)) for _ in range(4)]
        return json.dumps(_leaves(dice, *below))


def _leaves(dice: random.Random, *below: dict[str, Any]) -> dict[str, Any]:
    return node(f"What of Apollo {dice.randint(1, 10**9)}?", f"Moon {dice.randint(1, 10**9)}", *below)


class Foreseeable(Fickle):
    """As `Fickle`, of a few names that a graph knows: what it reads, keeps and rebuilds can often be foreseen."""

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        if step == "treeqa/rebuild" and (below := _carried(text, random.Random(f"{self._seed} {text}"))):
            await asyncio.sleep(0)
            return Reply((Choice(json.dumps(below)),), TokenUsage(1, 0, 1))
        return await super().generate(request, step=step)

    def _say(self, step: str, dice: random.Random) -> str:
        if step == "build":
            return tree(*(_named(dice, 3, f"Apollo {dice.randint(1, 9)}") for _ in range(dice.randint(1, 3))))
        if step == "mentions":
            return json.dumps([f"Apollo {dice.randint(1, 9)}"]) if dice.random() < 0.5 else "[]"
        if step in ("entities", "relations"):
            return "".join(f"[{dice.randint(1, 6)}]" for _ in range(3))
        if step == "rebuild":
            return json.dumps(_named(dice, 2, f"Apollo {dice.randint(1, 9)}"))
        if step == "clue":
            return json.dumps({"new_clue": f"Apollo {dice.randint(1, 9)} and Moon"})
        said = super()._say(step, dice)
        return re.sub(r"c0\.\d+", f"Apollo {dice.randint(1, 9)}", said)


def _named(dice: random.Random, levels: int, about: str) -> dict[str, Any]:
    guess = f"Apollo {dice.randint(1, 9)}"
    below = [_named(dice, levels - 1, guess) for _ in range(dice.randint(0, 2))] if levels > 1 else []
    return node(f"What came {dice.choice(['before', 'after'])} {about}?", guess, *below)


def _carried(text: str, dice: random.Random) -> dict[str, Any] | None:
    """The old part with the right name put in, half of the times."""
    old = claim_of(json.loads(text.partition("The old part:\n")[2].partition("\n\nWhy it is wrong")[0]))
    right = text.rpartition("Correct answer: ")[2].strip()
    below = carried(old, right)
    return None if below is None or dice.random() < 0.5 else Claim(old.question, right, below).as_dict()


def claim_of(row: dict[str, Any]) -> Claim:
    return Claim(row["sub_question"], row["hypothesis_answer"], tuple(map(claim_of, row.get("children", ()))))


def _grown(dice: random.Random, levels: int) -> dict[str, Any]:
    below = [_grown(dice, levels - 1) for _ in range(dice.randint(0, 2))] if levels > 1 else []
    return node(f"What of Apollo {dice.randint(1, 10**9)}?", f"Moon {dice.randint(1, 10**9)}", *below)


APOLLO = SmallGraph(
    *(
        (f"Apollo {n}", f"{how} by", f"Apollo {n + by}")
        for n in range(1, 9)
        for how, by in (("followed", 1), ("met", 2))
    )
)


async def asked(model: Fickle, graph: SmallGraph | None = None, **options: Any) -> tuple[Result, list[Event]]:
    events: list[Event] = []
    pages = Pages(*(Passage(f"p{n}", "Apollo", f"Apollo {n} moon what of") for n in range(4)))
    async with Engine(
        method="treeqa", model=model, corpus=pages, graph=graph or SmallGraph(), options=options, cache=None
    ) as engine:
        result = await engine.ask(MOON, listeners=(events.append,))
    return result, events


def final_tree(result: Result) -> Any:
    assert result.error == "", result.error_message
    (root,) = result.tree
    return shape(root.children), result.answer


def settled(events: list[Event]) -> dict[str, Any]:
    (found,) = (e for e in events if e["event"] == "decision" and e["kind"] == "corrected")
    return {name: found[name] for name in ("value", "validations", "nodes")}


SHARES = [(0.0, 0.0), (0.2, 0.2), (0.6, 0.1), (0.1, 0.8), (1.0, 0.0)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    haste=st.integers(0, 10**6),
    share=st.sampled_from(SHARES),
    attempts=st.integers(1, 5),
    reason=st.sampled_from(["inline", "separate"]),
)
@example(seed=2264, haste=0, share=(0.6, 0.1), attempts=1, reason="separate")  # a cap left less below a refuted node
def test_speculative_gives_the_same_tree_as_serial(
    seed: int, haste: int, share: tuple[float, float], attempts: int, reason: str
) -> None:
    how: dict[str, Any] = {"max_attempts": attempts, "reason": reason}
    serial, told = asyncio.run(asked(Fickle(seed, 0, share), traversal="serial", **how))
    ahead, events = asyncio.run(asked(Fickle(seed, haste, share), traversal="speculative", **how))
    assert final_tree(ahead) == final_tree(serial)
    assert settled(events) == settled(told)
    assert ahead.usage.llm_calls >= serial.usage.llm_calls


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    haste=st.integers(0, 10**6),
    share=st.sampled_from(SHARES),
    caps=st.sampled_from([(8, 40), (1, 40), (8, 3), (2, 5)]),
    evidence=st.sampled_from(["hybrid", "graph"]),
)
def test_what_is_foreseen_changes_nothing(
    seed: int, haste: int, share: tuple[float, float], caps: tuple[int, int], evidence: str
) -> None:
    """Names, entities and rebuilt children are guessed ahead, rightly or wrongly, within whatever caps."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(treeqa_walk, "MAX_FIXES", caps[0])
        patched.setattr(treeqa_walk, "MAX_VALIDATIONS", caps[1])
        serial, told = asyncio.run(asked(Foreseeable(seed, 0, share), APOLLO, traversal="serial", evidence=evidence))
        ahead, events = asyncio.run(
            asked(Foreseeable(seed, haste, share), APOLLO, traversal="speculative", evidence=evidence)
        )
    assert final_tree(ahead) == final_tree(serial) and settled(events) == settled(told)
    validated = [attempt for event in told if event["event"] == "node" for attempt in event.get("attempts", ())]
    assert len(validated) <= caps[1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    haste=st.integers(0, 10**6),
    share=st.sampled_from(SHARES),
    caps=st.sampled_from([(8, 40), (1, 40), (8, 3), (2, 5), (8, 12)]),
    evidence=st.sampled_from(["hybrid", "graph"]),
)
def test_speculative_gives_the_same_tree_as_serial_beyond_the_paper(
    seed: int, haste: int, share: tuple[float, float], caps: tuple[int, int], evidence: str
) -> None:
    """What code makes of a verdict is left out: it would let little be refuted here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(treeqa_walk, "MAX_FIXES", caps[0])
        patched.setattr(treeqa_walk, "MAX_VALIDATIONS", caps[1])
        patched.setattr(careful, "held", lambda said, *_: said)
        how: dict[str, Any] = {"evidence": evidence, "robust": True}
        serial, told = asyncio.run(asked(Foreseeable(seed, 0, share), APOLLO, traversal="serial", **how))
        ahead, events = asyncio.run(asked(Foreseeable(seed, haste, share), APOLLO, traversal="speculative", **how))
    assert final_tree(ahead) == final_tree(serial) and settled(events) == settled(told)
    (first, second) = ([e for e in some if e["event"] == "node" and "fixes" in e] for some in (told, events))
    assert [(e["fixes"], e["validations"]) for e in first] == [(e["fixes"], e["validations"]) for e in second]
    assert all(e["fixes"] <= caps[0] and e["validations"] <= caps[1] for e in first)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), haste=st.integers(0, 10**6), share=st.sampled_from(SHARES))
def test_level_by_level_gives_the_same_tree_unless_a_cap_comes_between(
    seed: int, haste: int, share: tuple[float, float]
) -> None:
    serial, told = asyncio.run(asked(Fickle(seed, 0, share), traversal="serial"))
    level, heard = asyncio.run(asked(Fickle(seed, haste, share), traversal="level"))
    reached = settled(told)
    thinned = any(event["event"] == "plan" and event.get("under") and event["issues"] for event in (*told, *heard))
    if not thinned and reached["value"] < treeqa_walk.MAX_FIXES and reached["validations"] < 40:
        assert final_tree(level) == final_tree(serial)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), traversal=st.sampled_from(["serial", "level", "speculative"]))
def test_the_caps_hold_whatever_is_refuted(seed: int, traversal: str) -> None:
    result, events = asyncio.run(asked(Fickle(seed, seed, (0.9, 0.05)), traversal=traversal))
    (root,) = result.tree

    def below(one: TreeNode, depth: int) -> list[int]:
        return [depth, *(number for child in one.children for number in below(child, depth + 1))]

    depths = [depth for top in root.children for depth in below(top, 1)]
    assert len(depths) <= 16 and max(depths) <= 5
    reached = settled(events)
    assert reached["value"] <= 8 and reached["validations"] <= 40 and reached["nodes"] == len(depths)


def test_the_caps_are_those_of_serial_also_where_what_was_given_up_is_needed_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node refuted at its second validation is only unknown where just one was left for it."""
    monkeypatch.setattr(treeqa_walk, "MAX_VALIDATIONS", 3)
    first, second, third = "What of the Moon 1?", "What of the Moon 2?", "What of the Moon 3?"
    script = [
        Rule([verdict("unknown"), verdict("unknown")], step="validate", contains=first),
        Rule([verdict("unknown"), verdict(False, "T1", correct="x")], step="validate", contains=second),
    ]
    build = tree(node(first, "a"), node(second, "b", node(third, "c")))
    found = [Run(rules(*map(copied, script), build=build), traversal=how) for how in ("serial", "speculative")]
    assert shape(found[0].tops) == shape(found[1].tops)
    assert [one.verdict for one in found[0].tops] == ["unknown", "unknown"] and found[0].tops[1].children


def copied(rule: Rule) -> Rule:
    return Rule(rule.reply, step=rule.step, contains=rule.contains)


def test_what_is_below_a_refuted_node_is_given_up_and_the_new_nodes_are_validated() -> None:
    run = Run(rules(refutes(LANDING)), traversal="speculative")
    assert run.of("decision", kind="discarded")[0]["value"] == [2]
    assert [one.id for one in run.tops[0].children] == [101] and run.tops[0].children[0].verdict == "supported"


@pytest.mark.parametrize("refuted", [0.33, 0.7, 1.0])
@pytest.mark.parametrize("robust", [False, True], ids=["paper", "robust"])
def test_what_is_begun_ahead_costs_a_few_times_what_is_needed_at_most(refuted: float, robust: bool) -> None:
    """A model that refutes and rebuilds at its ease must not multiply its own work."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(careful, "held", lambda said, *_: said)
        calls: dict[str, list[int]] = {
            how: [calls_of(Generous(seed, seed, (refuted, 0.0)), how, robust=robust) for seed in range(12)]
            for how in ("serial", "speculative")
        }
    assert sum(calls["speculative"]) <= 3 * sum(calls["serial"]), calls
    assert all(more <= 5 * few for few, more in zip(calls["serial"], calls["speculative"], strict=True)), calls


def calls_of(model: Fickle, traversal: str, *, robust: bool) -> int:
    result, _ = asyncio.run(asked(model, traversal=traversal, robust=robust))
    assert result.error == "", result.error_message
    return result.usage.llm_calls


class Refusing:
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
    walk = Walk(ctx, process, hang(tops, Node(0, "", depth=0), first=1))
    asyncio.run(walk.go(how))
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
    monkeypatch.setattr(treeqa_walk, "MAX_VALIDATIONS", nodes)
    tops = [Claim(f"Which {n}?", "Apollo 8") for n in range(9)]
    serial, ahead = Refusing(()), Refusing(())
    refused(serial, *tops, how="serial")
    refused(ahead, *tops)
    assert len(ahead.begun) == len(serial.begun) == 9, "what is not begun ahead is left to the walk"
    first = Refusing((Claim("What is new?", "b"),))
    refused(first, *tops)
    assert len(first.begun) <= 9 + 2 * nodes


def test_rebuilt_trees_begun_ahead_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(treeqa_walk, "MAX_FIXES", 1)
    process = Refusing((Claim("What is new?", "b"), Claim("What else?", "b")))
    refused(process, *(Claim(f"Which {n}?", "Apollo 8") for n in range(4)))
    rebuilt = {number // 100 for number in process.begun if number > 100}
    assert 1 in rebuilt and len(rebuilt) <= 2, "that of the walk, and one ahead of it"


def test_nothing_new_is_begun_for_a_node_that_was_given_up() -> None:
    """The old child would be unknown, and a clue be asked for; but by then its parent is refuted."""
    slow = Rule(verdict("unknown"), step="validate", contains="in December 1968?", latency=0.2)
    run = Run(rules(refutes(LANDING), slow), traversal="speculative")
    assert "clue" not in run.steps and run.steps.count("validate") == 3


@pytest.mark.parametrize("seed", [1, 6, 7, 10])
def test_replies_that_are_remembered_serve_in_another_order_too(tmp_path: Path, seed: int) -> None:
    """A walk that never has to wait is ahead of what is done ahead of it; that may then be a little else, no more."""
    model = Fickle(seed, 3, (0.5, 0.2))

    async def both_times() -> list[Any]:
        async with Engine(
            method="treeqa",
            model=model,
            corpus=Pages(Passage("p1", "Apollo", "Apollo moon what of")),
            graph=SmallGraph(),
            options={"traversal": "speculative"},
            cache=tmp_path / "replies.sqlite",
        ) as engine:
            return [(await engine.ask(MOON)) for _ in range(2)]

    first, second = asyncio.run(both_times())
    assert final_tree(first) == final_tree(second)
    assert second.usage.cached_calls >= 0.8 * second.usage.llm_calls


def chain(first: int, last: int) -> dict[str, Any]:
    below: list[dict[str, Any]] = []
    for number in range(last, first - 1, -1):
        below = [node(f"What of Apollo {number}?", f"Moon {number}", *below)]
    return below[0]


def test_all_nodes_of_a_chain_are_validated_in_the_time_of_one() -> None:
    seconds = {}
    for how in ("serial", "level", "speculative"):
        run = Run(rules(build=tree(chain(1, 5), chain(6, 10))), traversal=how, latency=0.04)
        seconds[how] = run.result.usage.critical_path_seconds
    assert seconds["speculative"] < 0.45 * seconds["serial"], seconds  # 4 calls after one another, and 22
    assert 0.4 * seconds["serial"] < seconds["level"] < 0.8 * seconds["serial"], seconds  # 12 calls


def test_siblings_are_validated_at_once_level_by_level() -> None:
    build = tree(*(node(f"What of Apollo {n}?", "Moon") for n in range(8)))
    serial, level = (Run(rules(build=build), traversal=how, latency=0.04) for how in ("serial", "level"))
    assert level.result.usage.critical_path_seconds < 0.6 * serial.result.usage.critical_path_seconds


class Corrected:
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
    walk = Walk(ctx, process, hang([old], Node(0, "", depth=0), first=1))
    asyncio.run(walk.go(traversal))
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


def test_the_same_query_is_looked_up_once_in_a_question() -> None:
    build = tree(node("What of Apollo 14?", "the Moon"), node("What of Apollo 14?", "the Moon"))
    for how in ("serial", "level", "speculative"):
        run = Run(rules(build=build), traversal=how)
        assert run.steps.count("mentions") == 1 and [one.verdict for one in run.tops] == ["supported"] * 2
        assert [len(run.node(number)["attempts"][0]["passages"]) for number in (1, 2)] == [1, 1]


def test_what_was_given_up_is_looked_up_when_it_is_wanted_after_all() -> None:
    async def look() -> tuple[EvidenceBox, EvidenceBox]:
        model = ScriptedModel(rules=rules(), latency=0.001)
        ctx = Context(
            method="treeqa",
            model=model,
            calls=Calls(None),
            trace=Trace("t"),
            graph=SmallGraph(*GRAPH),
            retriever=Pages(*PAGES),
        )
        sources = Sources(ctx, "hybrid", PRESETS["paper"])
        unwanted = await sources.look_up("What of Apollo 14?", Node(1, ""), lambda: False)
        return unwanted, await sources.look_up("What of Apollo 14?", Node(2, ""), lambda: True)

    unwanted, wanted = asyncio.run(look())
    assert not unwanted and wanted.facts and wanted.passages


@pytest.mark.parametrize("calls", range(1, 13))
def test_a_budget_may_end_it_anywhere(calls: int) -> None:
    run = Run(rules(refutes(LANDING)), traversal="speculative", budget=Budget(calls=calls))
    assert run.result.error == "" and (run.result.stopped_by == "calls" or run.result.answer == "Richard Nixon")
