"""The knowledge graph through the context: traced, counted, remembered where it is remote, and missed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.methods.small_knowledge import SmallGraph
from tests.traced import as_dicts

from hoptree.core.errors import EndpointError, GraphError
from hoptree.engine.cache import ENTITIES, NEIGHBOURHOOD, Cache, from_text, to_text
from hoptree.engine.calls import Calls, graph_key
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import read_result
from hoptree.engine.trace import Trace
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.plan import read_plan
from hoptree.graph.facts import Direction, Entity, Fact, Neighbourhood, Qualifier, Term
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.text.question_tree import Node

TRIPLES = (("Jakarta", "capital of", "Indonesia"), ("Jakarta", "on", "Java"))
JAKARTA = Entity("_Jakarta", "Jakarta", ("Batavia",), "a city", "Jakarta")


def context(graph: SmallGraph | None, calls: Calls | None = None) -> Context:
    model = ScriptedModel(rules=[])
    return Context(method="test", model=model, calls=calls or Calls(None), trace=Trace("run"), graph=graph)


def test_facts_and_entities_are_traced() -> None:
    ctx = context(SmallGraph(*TRIPLES))
    node = Node(3, "Where?", depth=2)

    async def look() -> None:
        (entity,) = await ctx.entities("jakarta", limit=2, node=node)
        around = await ctx.facts(entity, node=node, limit=1)
        assert [fact.text for fact in around.facts] == ["Jakarta | capital of | Indonesia"] and not around.complete

    asyncio.run(look())
    entities, facts = as_dicts(ctx.trace.events)
    assert (entities["event"], entities["name"], entities["found"]) == (
        "entities",
        "jakarta",
        [["_Jakarta", "Jakarta"]],
    )
    assert (facts["event"], facts["entity"], facts["label"], facts["direction"]) == (
        "facts",
        "_Jakarta",
        "Jakarta",
        "both",
    )
    assert (facts["node"], facts["depth"], facts["complete"]) == (3, 2, False)
    assert facts["facts"] == ["Jakarta | capital of | Indonesia"]
    usage = read_result(ctx.trace.events).usage
    assert usage.retrievals == 1 and usage.critical_path_seconds >= 0


def test_a_remote_graph_is_asked_once_for_the_same_and_remembered(tmp_path: Path) -> None:
    graph = SmallGraph(*TRIPLES, remote=True)

    async def look() -> list[Event]:
        cache = Cache(tmp_path / "replies.sqlite")
        ctx = context(graph, Calls(cache))
        for _ in range(2):
            assert (await ctx.entities("Jakarta"))[0].label == "Jakarta"
            assert len((await ctx.facts(JAKARTA)).facts) == 2
        await asyncio.gather(ctx.facts(JAKARTA, direction="out"), ctx.facts(JAKARTA, direction="out"))
        cache.close()
        return ctx.trace.events

    events = asyncio.run(look())
    assert graph.asked == ["Jakarta", "_Jakarta", "_Jakarta"]
    assert [event["cached"] for event in as_dicts(events)] == [False, False, True, True, False, True]
    again = asyncio.run(look())
    assert all(event["cached"] for event in as_dicts(again)) and len(graph.asked) == 3


def test_a_local_graph_is_not_remembered(tmp_path: Path) -> None:
    graph = SmallGraph(*TRIPLES)

    async def look() -> None:
        cache = Cache(tmp_path / "replies.sqlite")
        ctx = context(graph, Calls(cache))
        await ctx.facts(JAKARTA)
        await ctx.facts(JAKARTA)
        cache.close()

    asyncio.run(look())
    assert graph.asked == ["_Jakarta", "_Jakarta"]


def test_what_a_graph_said_comes_back_as_it_was() -> None:
    qualifier = Qualifier(Term("P1", "until"), Term("", "2024"))
    fact = Fact(Term("Q1", "Jakarta"), Term("P2", "capital of"), Term("Q2", "Indonesia"), (qualifier,), ("a.nt", "b"))
    around = Neighbourhood(JAKARTA, (fact,), complete=False)
    assert from_text(NEIGHBOURHOOD, to_text(NEIGHBOURHOOD, around, 0.5)) == (around, 0.5)
    assert from_text(ENTITIES, to_text(ENTITIES, (JAKARTA,), 0.25)) == ((JAKARTA,), 0.25)
    assert from_text(NEIGHBOURHOOD, '{"around": 5, "seconds": 1}') is None


def test_a_key_tells_apart_what_is_asked_of_whom() -> None:
    keys = [
        graph_key("a", "facts", entity="Q1", direction="both", limit=5),
        graph_key("b", "facts", entity="Q1", direction="both", limit=5),
        graph_key("a", "facts", entity="Q2", direction="both", limit=5),
        graph_key("a", "facts", entity="Q1", direction="in", limit=5),
        graph_key("a", "entities", name="Q1", limit=5),
    ]
    assert len({tuple(key) for key in keys}) == len(keys)


def test_a_graph_that_is_missed_is_asked_for_by_name() -> None:
    ctx = context(None)
    with pytest.raises(GraphError, match="--graph DIR"):
        ctx.require_graph()
    with pytest.raises(GraphError):
        asyncio.run(ctx.entities("Jakarta"))


class Broken(SmallGraph):
    async def facts(
        self, entity: str, *, direction: Direction = "both", relation: str = "", limit: int = 200, seconds: float = 10
    ) -> Neighbourhood:
        raise EndpointError("The endpoint returned a web page.", "Look at its URL.")


def test_a_graph_that_fails_fails_the_question_and_nothing_is_answered_in_its_place() -> None:
    tree = '{"children": [{"sub_question": "Where is Jakarta?", "hypothesis_answer": "Java"}], "answer": "a draft"}'

    async def ask() -> Any:
        model = ScriptedModel(rules=[Rule(tree)])
        graph = Broken(*TRIPLES, remote=True)
        options = {"evidence": "graph"}
        async with Engine(method="treeqa", model=model, graph=graph, options=options, cache=None) as engine:
            return await engine.ask("Where?")

    result = asyncio.run(ask())
    assert (result.answer, result.error) == ("", "EndpointError") and "web page" in result.error_message


def test_an_engine_says_which_graph_it_asks_and_leaves_it_open() -> None:
    closed: list[str] = []

    class Closing(SmallGraph):
        async def aclose(self) -> None:
            closed.append("graph")

    async def ask() -> list[dict[str, Any]]:
        events: list[Event] = []
        model = ScriptedModel(rules=[Rule("x")])
        for graph in (Closing(), None):
            async with Engine(method="direct", model=model, graph=graph, cache=None) as engine:
                await engine.ask("Who?", listeners=(events.append,))
        return [event for event in as_dicts(events) if event["event"] == "start"]

    first, second = asyncio.run(ask())
    assert first["graph"] == "small" and "graph" not in second and closed == []


def test_a_data_set_of_an_experiment_file_may_have_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "data: {a: {questions: a.jsonl, graph: a/kg}, b: {questions: b.jsonl, graph: wikidata}, "
        "c: {questions: c.jsonl, graph: 'http://localhost/sparql'}, d: {questions: d.jsonl}}\n"
        "runs: {treeqa: {method: treeqa}}\n",
        encoding="utf-8",
    )
    graphs = [planned.experiment.graph for planned in read_plan(path, Path("root"))]
    assert graphs == ["root/a/kg", "wikidata", "http://localhost/sparql", None]
    assert Experiment(Path("x")).graph is None
