"""What a question did, as OpenTelemetry spans: the same tree, the same times, the names that tools know."""

from __future__ import annotations

import asyncio
import json
import re
from importlib import import_module
from typing import Any

import pytest
from tests.methods.contract_world import ASKED, FOUND, Library, Voice, World, always, by_chance
from tests.methods.treeqa_asked import LANDING, Run, refutes, rules
from tests.telemetry.collected import Collected, ask, shape_of, span_attributes
from tests.traced import as_dicts, event

from hoptree.core.values import Passage
from hoptree.engine.context import Prices
from hoptree.engine.events import Event, Started
from hoptree.engine.registry import list_methods
from hoptree.engine.result import read_result
from hoptree.engine.telemetry_spans import DOCUMENTS, CallWork, QuestionWork, attributes_of, name_of
from hoptree.engine.trace import ModelCalled

pytest.importorskip("opentelemetry.sdk.trace")

METHODS = [method.name for method in list_methods()]
NANO = 1_000_000_000


# Names


@pytest.mark.parametrize(
    ("spec", "provider", "name"),
    [
        ("scripted//home/ada/script.json", "scripted", "script.json"),
        ("local//home/ada/model.gguf?ctx=4096", "llama.cpp", "model.gguf"),
        ("hf//home/ada/tuned", "transformers", "tuned"),
        ("hf/Qwen/Qwen2.5-0.5B", "transformers", "Qwen/Qwen2.5-0.5B"),
        ("openai/gpt-x", "openai", "gpt-x"),
    ],
)
def test_the_name_of_a_model_tells_no_path(spec: str, provider: str, name: str) -> None:
    asked = QuestionWork(0.0, 1.0, started=Started(question="Who?", method="direct", model=spec))
    assert name_of(CallWork(0.0, 1.0, call=ModelCalled()), asked) == f"chat {name}"
    attributes = attributes_of(asked, asked, content=False)
    assert (attributes["gen_ai.provider.name"], attributes["gen_ai.request.model"]) == (provider, name)


# The tree


@pytest.mark.parametrize("name", METHODS)
def test_spans_nest_as_the_question_tree_does(name: str) -> None:
    collected = Collected()
    result, events = ask(collected, name)
    assert collected.shape() == shape_of(result.tree)
    calls = [
        event for event in as_dicts(events) if event["event"] in ("llm", "retrieve", "titles", "facts", "entities")
    ]
    assert len(collected.of("LLM")) + len(collected.of("RETRIEVER")) == len(calls)


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_what_a_rebuilt_tree_left_behind_is_told_apart(traversal: str) -> None:
    run = Run(rules(refutes(LANDING)), traversal=traversal)
    collected = Collected()
    replay(collected, run.events)
    assert collected.shape() == shape_of(run.result.tree)
    everything = json.dumps(collected.shape(standing=False))
    assert len(everything) > len(json.dumps(collected.shape())), "the tree below the refuted node was planned too"


def test_a_call_hangs_under_the_node_it_was_made_for() -> None:
    collected = Collected()
    _, events = ask(collected, "taikc")
    for node in (span for span in collected.of("CHAIN") if span_attributes(span)["hoptree.node.stands"]):
        calls = [
            event
            for event in as_dicts(events)
            if event["event"] == "llm" and event.get("node") == span_attributes(node)["hoptree.node.id"]
        ]
        under = [child for child in collected.below(node) if span_attributes(child)["openinference.span.kind"] == "LLM"]
        assert [span_attributes(child)["hoptree.step"] for child in under] == [event["step"] for event in calls] != []


def replay(collected: Collected, events: list[Event]) -> None:
    for recorded in events:
        collected.listener(recorded)


def test_a_node_that_is_begun_before_it_is_planned_is_one_span() -> None:
    node = {"id": 7, "question": "early", "parent": 1, "refs": []}
    events = [
        event("start", question="q", method="m", model="x/y"),
        event("plan", t=0.1, nodes=[{"id": 1, "question": "top", "parent": None, "refs": []}]),
        event("node", t=0.2, id=7, state="asking", resolved="early"),
        event("plan", t=0.3, under=1, rebuilt=True, nodes=[node]),
        event("node", t=0.4, id=7, state="answered", answer="a", source="external"),
        event("node", t=0.5, id=9, state="asking", resolved="never planned"),
        event("final", t=0.6, answer="a", source="external", abstained=False),
    ]
    collected = Collected()
    replay(collected, events)
    assert collected.shape() == shape_of(read_result(events).tree) == [(1, [(7, [])])]
    assert collected.shape(standing=False) == [(1, [(7, [])]), (9, [])]
    (early,) = [span for span in collected.spans if span.name == "sub-question 7"]
    assert (early.end_time or 0) - (early.start_time or 0) == pytest.approx(0.2 * NANO)


# Times


def test_times_are_those_of_the_trace() -> None:
    collected = Collected()
    _, events = ask(collected, "ra_isf")
    start, final = events[0], events[-1]
    zero = (collected.root.start_time or 0) - round(start.t * NANO)
    assert collected.root.end_time == zero + round(final.t * NANO)
    spans = [(span.start_time, span.end_time) for span in collected.of("LLM")]
    calls = [event for event in as_dicts(events) if event["event"] == "llm"]
    assert sorted(spans) == sorted(
        (zero + round(call["issued"] * NANO), zero + round(call["t"] * NANO)) for call in calls
    )
    for node in read_result(events).tree:
        (span,) = [each for each in collected.spans if each.name == f"sub-question {node.id}"]
        times = [event["t"] for event in as_dicts(events) if event["event"] == "node" and event["id"] == node.id]
        assert (span.start_time, span.end_time) == (zero + round(times[0] * NANO), zero + round(times[-1] * NANO))


# Names


def test_names_are_those_of_the_conventions() -> None:
    conventions = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for value in vars(conventions).values() if isinstance(value, str)}
    collected = Collected()
    ask(collected, "treeqa")
    names = {name for span in collected.spans for name in span_attributes(span) if name.startswith("gen_ai.")}
    assert names <= known
    assert {"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.usage.input_tokens"} <= names


def test_other_names_are_those_of_openinference() -> None:
    conventions = pytest.importorskip("openinference.semconv.trace")
    classes = [member for member in vars(conventions).values() if isinstance(member, type)]
    known = {value for member in classes for value in vars(member).values() if isinstance(value, str)}
    collected = Collected()
    ask(collected, "treeqa")
    names = {re.sub(r"^[a-z_.]+\.\d+\.", "", name) for span in collected.spans for name in span_attributes(span)}
    own = ("gen_ai.", "hoptree.", "error.")
    assert {name for name in names if not name.startswith(own)} <= known
    assert {span_attributes(span)["openinference.span.kind"] for span in collected.spans} <= {
        kind.value for kind in conventions.OpenInferenceSpanKindValues
    }


def test_a_call_tells_tokens_and_cost() -> None:
    collected, world = Collected(), World("taikc", Voice(by_chance))

    async def asked() -> None:
        engine = world.engine()
        engine._prices = Prices(1.0, 2.0)
        async with engine:
            await engine.ask(ASKED, listeners=(collected.listener,))

    asyncio.run(asked())
    calls = world.of("llm")
    spans = [span_attributes(span) for span in collected.of("LLM")]
    for name, field in (
        ("gen_ai.usage.input_tokens", "prompt_tokens"),
        ("gen_ai.usage.output_tokens", "completion_tokens"),
        ("llm.token_count.prompt", "prompt_tokens"),
        ("llm.cost.total", "cost"),
    ):
        assert sorted(span[name] for span in spans) == sorted(call[field] for call in calls) != []
    replies = sorted(span.get("output.value", "") for span in spans)  # an empty reply is no attribute
    assert replies == sorted(call["reply"] for call in calls)
    total = span_attributes(collected.root)
    assert total["hoptree.usage.cost"] == pytest.approx(sum(call["cost"] for call in calls)) != 0
    assert not [name for name in total if name.startswith(("llm.token_count", "gen_ai.usage"))], "counted twice"


def test_without_prices_no_cost_is_claimed() -> None:
    collected = Collected()
    ask(collected)
    assert not [span for span in collected.of("LLM") if "llm.cost.total" in span_attributes(span)]


def test_a_search_tells_its_documents() -> None:
    collected = Collected()
    _, events = ask(collected, "oner")
    (search,) = [event for event in as_dicts(events) if event["event"] == "retrieve"]
    (span,) = map(span_attributes, collected.of("RETRIEVER"))
    assert span["input.value"] == search["query"]
    for place, passage in enumerate(search["passages"]):
        at = f"retrieval.documents.{place}.document"
        assert (span[f"{at}.id"], span[f"{at}.content"]) == (passage["id"], passage["text"])
        assert json.loads(span[f"{at}.metadata"]) == {"title": passage["title"]}


def test_many_documents_do_not_drive_out_what_a_span_is() -> None:
    collected, many = Collected(), [Passage(f"p{n}", f"Whiplash {n}", "The film Whiplash.") for n in range(90)]
    world = World("oner", Voice(by_chance), options={"k": 90}, corpus=Library(*many))

    async def asked() -> None:
        async with world.engine() as engine:
            await engine.ask(ASKED, listeners=(collected.listener,))

    asyncio.run(asked())
    (span,) = collected.of("RETRIEVER")
    assert span_attributes(span)["hoptree.found"] == len(world.of("retrieve")[0]["passages"]) > DOCUMENTS
    assert span.dropped_attributes == 0


# What does not leave the process


@pytest.mark.parametrize("name", METHODS)
def test_without_content_nothing_that_was_said_leaves_the_process(name: str) -> None:
    secret = "QUITE-SECRET"
    passages = [Passage(f"p{place}", secret, f"{passage.text} {secret}") for place, passage in enumerate(FOUND)]
    shown = []
    for content in (True, False):
        collected = Collected(content=content)
        world = World(
            name, Voice(lambda step, chance: f"{by_chance(step, chance)} {secret}"), corpus=Library(*passages)
        )

        async def asked(world: World = world, collected: Collected = collected) -> None:
            async with world.engine() as engine:
                await engine.ask(f"{ASKED} {secret}", listeners=(collected.listener,))

        asyncio.run(asked())
        shown.append("".join(span.to_json() for span in collected.spans))
    assert secret in shown[0]
    assert secret not in shown[1] and ASKED not in shown[1] and FOUND[0].text not in shown[1]


# Ends


def test_a_failure_is_an_error() -> None:
    for content, described in ((True, "The endpoint is gone. Start it again."), (False, "EndpointError")):
        collected = Collected(content=content)
        ask(collected, voice=Voice(by_chance, fails=2))
        assert (collected.root.status.status_code.name, collected.root.status.description) == ("ERROR", described)
        assert span_attributes(collected.root)["error.type"] == "EndpointError"


def test_an_answer_is_no_error() -> None:
    collected = Collected()
    ask(collected)
    assert collected.root.status.is_unset


def test_a_question_that_is_broken_off_leaves_spans_and_nothing_in_memory() -> None:
    collected, voice = Collected(), Voice(by_chance, stalls=3)
    world = World("taikc", voice)

    async def broken_off() -> None:
        async with world.engine() as engine:
            asking = asyncio.create_task(engine.ask(ASKED, listeners=(collected.listener,)))
            await voice.stalled.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.sleep(0)

    asyncio.run(broken_off())
    assert span_attributes(collected.root)["error.type"] == "cancelled"
    assert len(collected.of("LLM")) == len(world.of("llm")) == 2
    assert not collected.listener._asked


def test_questions_at_once_are_kept_apart() -> None:
    collected, world = Collected(), World("taikc", Voice(by_chance, unsteady=True))

    async def asked() -> list[Any]:
        async with world.engine() as engine:
            questions = (f"{ASKED} {number}" for number in range(8))
            return await asyncio.gather(
                *(engine.ask(question, listeners=(collected.listener,)) for question in questions)
            )

    results = asyncio.run(asked())
    roots = [span for span in collected.spans if span.parent is None]
    assert {span_attributes(root)["input.value"] for root in roots} == {result.question for result in results}
    by_question = {result.question: shape_of(result.tree) for result in results}
    for root in roots:
        assert collected.shape(root) == by_question[span_attributes(root)["input.value"]]


def test_spans_hang_below_the_span_of_whoever_asks() -> None:
    collected, world = Collected(), World("oner", Voice(by_chance))

    async def asked() -> None:
        async with world.engine() as engine:
            with collected.provider.get_tracer("caller").start_as_current_span("a request"):
                await engine.ask(ASKED, listeners=(collected.listener,))

    asyncio.run(asked())
    assert collected.root.name == "a request"
    assert [span.name for span in collected.below(collected.root)] == ["invoke_agent oner"]


def test_half_a_character_can_be_sent() -> None:
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    collected = Collected()
    ask(collected, "direct", voice=Voice(always("half \ud83d of it")))
    assert b"half ? of it" in encoder.encode_spans(collected.spans).SerializeToString()


def test_a_trace_that_cannot_be_read_costs_the_spans_and_not_the_answer() -> None:
    collected = Collected()
    replay(collected, [event("start"), event("plan", nodes=[{}]), event("final", t=0.1)])
    assert collected.spans == []
