"""What happens while a question is answered, as lines of text for people."""

from __future__ import annotations

from typing import Any

from hoptree.core.redaction import redact
from hoptree.engine.call_events import EntitiesFound, FactsFound, ModelCalled, Retried, Retrieved, TitlesFound
from hoptree.engine.events import (
    ChainWritten,
    Event,
    NodeSettled,
    NodeStarted,
    Planned,
    Started,
    TextQuarantined,
    Warned,
)
from hoptree.server.reply_schemas import StepEvent

_MAX_CHARS = 160
_MAX_NAME_CHARS = 60
_MAX_TITLE_CHARS = 40
_MAX_TITLES = 3
_NODE_ID_SPAN = 100
"""Ids that a node reserves for what is rebuilt below it."""
_SOURCES = {
    "internal": "own knowledge",
    "external": "documents",
    "synthesis": "its sub-questions",
    "fallback": "a guess",
    "graph": "the graph",
}
_VERDICTS = {"supported": "the evidence supports it", "refuted": "the evidence refutes it", "unknown": "not settled"}


class ProgressText:
    """Turns the events of one question into lines; events without news for people have none."""

    def __init__(self) -> None:
        self._shown: set[str] = set()
        self._numbers: dict[int, str] = {}
        self._ids: set[str] = set()

    def step(self, event: Event) -> StepEvent | None:
        """Return the text of an event, the node it is about, when it happened, and the kind of event."""
        if isinstance(event, Planned):
            self._number_nodes(event)
        elif isinstance(event, Retrieved):
            self._ids.update(passage["id"] for passage in event.passages)
        text, is_node = self._text(event), isinstance(event, NodeStarted | NodeSettled)
        if not text or (is_node and text in self._shown):
            return None
        self._shown.add(text)
        node = getattr(event, "id" if is_node else "node", None)
        return StepEvent(text=text, node=node, t=event.t, kind=event.event)

    def _text(self, event: Event) -> str:
        match event:
            case Started():
                return f"Asking with {event.method}"
            case Planned():
                return self._plan(event)
            case NodeStarted():
                return f"{self._name(event.id)}: {_short(event.resolved)}"
            case NodeSettled():
                return self._answer(event)
            case ModelCalled():
                cached = ", remembered" if event.cached else ""
                return f"The model replied: {event.step.replace('_', ' ')} ({event.seconds:.1f} s{cached})"
            case Retrieved():
                titles = list(dict.fromkeys(passage["title"] for passage in event.passages))
                return f"Searched for “{_short(event.query)}”: {_list(titles)}"
            case TitlesFound():
                return f"Looked for pages called “{_short(event.name, _MAX_NAME_CHARS)}”"
            case FactsFound():
                about = _short(event.label or event.entity, _MAX_NAME_CHARS)
                return f"Looked up facts about {about}: {len(event.facts)} found"
            case EntitiesFound():
                labels = [label for _, label in event.found[:_MAX_TITLES]]
                return f"Looked up “{_short(event.name, _MAX_NAME_CHARS)}” in the graph: {_list(labels)}"
            case ChainWritten():
                return _short(event.text)
            case Warned():
                return redact(_short(event.message), known=self._ids)
            case TextQuarantined():
                return "Left out a sentence of a passage that addresses a model"
            case Retried():
                return f"Waiting {event.wait:g} s: an endpoint failed, and is asked again"
            case _:
                return ""

    def _number_nodes(self, event: Planned) -> None:
        """Number nodes as they are shown: those rebuilt below 1 have ids from 101 on, and are 1.1, 1.2, …"""
        total = len(self._numbers) + len(event.nodes)
        for node in event.nodes:
            parent, place = divmod(node["id"], _NODE_ID_SPAN)
            prefix = self._numbers.get(parent) if event.under is not None and node["id"] > total else None
            self._numbers[node["id"]] = f"{prefix}.{place}" if prefix else str(node["id"])

    def _plan(self, event: Planned) -> str:
        count = sum(node["id"] > 0 for node in event.nodes)
        if not count:
            return ""
        counted = f"{count} sub-question{'s' if count > 1 else ''}"
        if event.under is None:
            return f"Planned {counted}"
        return f"{'Rebuilt' if event.rebuilt else 'Split'} {self._name(event.under)}: {counted}"

    def _answer(self, event: NodeSettled) -> str:
        name, answer = self._name(event.id), _short(event.answer)
        if not answer:
            return f"{name}: no answer found"
        source = _SOURCES.get(event.source, "")
        why = _VERDICTS.get(event.verdict or "", "") or (f"from {source}" if source else "")
        return f"{name}: {answer}" + (f" ({why})" if why else "")

    def _name(self, node: int) -> str:
        return "The question" if node == 0 else f"Sub-question {self._numbers.get(node, node)}"


def _list(titles: list[str]) -> str:
    shown = ", ".join(_short(title, _MAX_TITLE_CHARS) for title in titles[:_MAX_TITLES])
    return f"{shown}{', …' if len(titles) > _MAX_TITLES else ''}" if titles else "nothing found"


def _short(text: Any, max_chars: int = _MAX_CHARS) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
