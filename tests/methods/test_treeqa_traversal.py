"""TreeQA's three ways through a tree: for the same replies the same final tree, whatever is refuted, and how fast."""

from __future__ import annotations

import asyncio
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
from tests.methods.treeqa_fickle import APOLLO, Fickle, Foreseeable, asked, final_tree, settled
from tests.thorough import HALF
from tests.traced import as_dicts

from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.engine.context import Budget, Context
from hoptree.engine.engine import Engine
from hoptree.engine.result import TreeNode
from hoptree.engine.trace import Trace
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.mentions import PRESETS, Sources
from hoptree.methods.treeqa.walk import Walk
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.text.question_tree import Node

SHARES = [(0.0, 0.0), (0.2, 0.2), (0.6, 0.1), (0.1, 0.8), (1.0, 0.0)]


@settings(max_examples=HALF, suppress_health_check=[HealthCheck.too_slow])
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
    serial, serial_events = asyncio.run(asked(Fickle(seed, 0, share), traversal="serial", **how))
    ahead, events = asyncio.run(asked(Fickle(seed, haste, share), traversal="speculative", **how))
    assert final_tree(ahead) == final_tree(serial)
    assert settled(events) == settled(serial_events)
    assert ahead.usage.llm_calls >= serial.usage.llm_calls


def test_what_was_given_up_is_looked_up_again_as_a_whole() -> None:
    """A refuted node may stay, and what is below it is wanted again."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Walk, "max_fixes", 2)
        patched.setattr(Walk, "max_validations", 5)
        trees = [
            final_tree(asyncio.run(asked(Foreseeable(381245, 0, (0.2, 0.2)), APOLLO, traversal=how))[0])
            for how in ("serial", "speculative")
        ]
    assert trees[0] == trees[1]


@settings(max_examples=HALF, suppress_health_check=[HealthCheck.too_slow])
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
        patched.setattr(Walk, "max_fixes", caps[0])
        patched.setattr(Walk, "max_validations", caps[1])
        serial, serial_events = asyncio.run(
            asked(Foreseeable(seed, 0, share), APOLLO, traversal="serial", evidence=evidence)
        )
        ahead, events = asyncio.run(
            asked(Foreseeable(seed, haste, share), APOLLO, traversal="speculative", evidence=evidence)
        )
    assert final_tree(ahead) == final_tree(serial) and settled(events) == settled(serial_events)
    validated = [
        attempt
        for event in as_dicts(serial_events)
        if event["event"] == "node"
        for attempt in event.get("attempts", ())
    ]
    assert len(validated) <= caps[1]


@settings(max_examples=HALF, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), haste=st.integers(0, 10**6), share=st.sampled_from(SHARES))
def test_level_by_level_gives_the_same_tree_unless_a_cap_comes_between(
    seed: int, haste: int, share: tuple[float, float]
) -> None:
    serial, serial_events = asyncio.run(asked(Fickle(seed, 0, share), traversal="serial"))
    level, heard = asyncio.run(asked(Fickle(seed, haste, share), traversal="level"))
    reached = settled(serial_events)
    thinned = any(
        event["event"] == "plan" and event.get("under") and event["issues"]
        for event in as_dicts((*serial_events, *heard))
    )
    if not thinned and reached["value"] < Walk.max_fixes and reached["validations"] < 40:
        assert final_tree(level) == final_tree(serial)


@settings(max_examples=HALF, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), traversal=st.sampled_from(["serial", "level", "speculative"]))
def test_the_caps_hold_whatever_is_refuted(seed: int, traversal: str) -> None:
    result, events = asyncio.run(asked(Fickle(seed, seed, (0.9, 0.05)), traversal=traversal))
    (root,) = result.tree

    def below(node: TreeNode, depth: int) -> list[int]:
        return [depth, *(number for child in node.children for number in below(child, depth + 1))]

    depths = [depth for top in root.children for depth in below(top, 1)]
    assert len(depths) <= 16 and max(depths) <= 5
    reached = settled(events)
    assert reached["value"] <= 8 and reached["validations"] <= 40 and reached["nodes"] == len(depths)


def test_the_caps_are_those_of_serial_also_where_what_was_given_up_is_needed_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node refuted at its second validation is only unknown where just one was left for it."""
    monkeypatch.setattr(Walk, "max_validations", 3)
    first, second, third = "What of the Moon 1?", "What of the Moon 2?", "What of the Moon 3?"
    script = [
        Rule([verdict("unknown"), verdict("unknown")], step="validate", contains=first),
        Rule([verdict("unknown"), verdict(False, "T1", correct="x")], step="validate", contains=second),
    ]
    build = tree(node(first, "a"), node(second, "b", node(third, "c")))
    runs = [Run(rules(*map(copied, script), build=build), traversal=how) for how in ("serial", "speculative")]
    assert shape(runs[0].tops) == shape(runs[1].tops)
    assert [each.verdict for each in runs[0].tops] == ["unknown", "unknown"] and runs[0].tops[1].children


def copied(rule: Rule) -> Rule:
    return Rule(rule.reply, step=rule.step, contains=rule.contains)


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


def test_the_same_query_is_looked_up_once_in_a_question() -> None:
    build = tree(node("What of Apollo 14?", "the Moon"), node("What of Apollo 14?", "the Moon"))
    for how in ("serial", "level", "speculative"):
        run = Run(rules(build=build), traversal=how)
        assert run.steps.count("mentions") == 1 and [each.verdict for each in run.tops] == ["supported"] * 2
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
        unwanted = await sources.retrieve("What of Apollo 14?", Node(1, ""), lambda: False)
        return unwanted, await sources.retrieve("What of Apollo 14?", Node(2, ""), lambda: True)

    unwanted, wanted = asyncio.run(look())
    assert not unwanted and wanted.facts and wanted.passages


@pytest.mark.parametrize("calls", range(1, 13))
def test_a_budget_may_end_it_anywhere(calls: int) -> None:
    run = Run(rules(refutes(LANDING)), traversal="speculative", budget=Budget(calls=calls))
    assert run.result.error == "" and (run.result.stopped_by == "calls" or run.result.answer == "Richard Nixon")
