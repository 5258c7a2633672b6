"""Spans in memory, and what tree they make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.methods.contract_world import ASKED, Library, Voice, World, by_chance

from hoptree.engine.events import Event
from hoptree.engine.result import Result, TreeNode

pytest.importorskip("opentelemetry.sdk.trace")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hoptree.engine.telemetry import SpanListener

__all__ = ["Collected", "Shape", "ask", "shape_of"]

Shape = list[tuple[int, Any]]
"""Numbers of nodes, each with those below it."""


@dataclass(slots=True)
class Collected:
    """A listener, and what came of it; `content` as for the listener."""

    content: bool = True
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    provider: TracerProvider = field(default_factory=TracerProvider)
    listener: SpanListener = field(init=False)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.listener = SpanListener(self.provider, content=self.content)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def root(self) -> ReadableSpan:
        (root,) = [span for span in self.spans if span.parent is None]
        return root

    def below(self, span: ReadableSpan) -> list[ReadableSpan]:
        above = span.get_span_context()
        assert above is not None
        return [each for each in self.spans if each.parent is not None and each.parent.span_id == above.span_id]

    def of(self, kind: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span_attributes(span)["openinference.span.kind"] == kind]

    def shape(self, span: ReadableSpan | None = None, *, standing: bool = True) -> Shape:
        """The nodes of the question tree as spans have them."""
        nodes = [
            child
            for child in self.below(span or self.root)
            if span_attributes(child)["openinference.span.kind"] == "CHAIN"
            and (span_attributes(child)["hoptree.node.stands"] or not standing)
        ]
        shapes = [(span_attributes(child)["hoptree.node.id"], self.shape(child, standing=standing)) for child in nodes]
        return sorted(shapes, key=lambda pair: int(pair[0]))


def span_attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def shape_of(tree: Sequence[TreeNode]) -> Shape:
    """The nodes of a result's tree."""
    return sorted(((node.id, shape_of(node.children)) for node in tree), key=lambda pair: pair[0])


def ask(
    collected: Collected, method: str = "taikc", *, question: str = ASKED, voice: Voice | None = None, **options: Any
) -> tuple[Result, list[Event]]:
    """A question asked in a small world, its result and its trace."""
    world = World(method, voice or Voice(by_chance), options=options, corpus=options.pop("corpus", None) or _library())

    async def asked() -> Result:
        async with world.engine() as engine:
            return await engine.ask(question, listeners=(collected.listener,))

    return asyncio.run(asked()), world.events


def _library() -> Library:
    from tests.methods.contract_world import FOUND

    return Library(*FOUND)
