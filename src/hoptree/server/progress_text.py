"""What happens while a question is answered, one line in words for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hoptree.core.redaction import redact
from hoptree.engine.events import Event

_LETTERS = 160
_TITLES = 3
_ROOM = 100
"""Numbers that a node has for what is rebuilt below it."""
_SOURCES = {
    "internal": "own knowledge",
    "external": "documents",
    "synthesis": "its sub-questions",
    "fallback": "a guess",
    "graph": "the graph",
}
_VERDICTS = {"supported": "the evidence supports it", "refuted": "the evidence refutes it", "unknown": "not settled"}


class ProgressText:
    """Tells events of one question in words; what says nothing to people, or says it again, is passed over."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._numbers: dict[int, str] = {}
        self._ids: set[str] = set()

    def of(self, event: Event) -> dict[str, Any] | None:
        """A step: its text, the node it is about, when it happened, and the kind of event."""
        if event["event"] == "plan":
            self._count(event)
        text = self._text(event)
        node = event.get("id") if event["event"] == "node" else event.get("node")
        if not text or (event["event"] == "node" and text in self._said):
            return None
        self._said.add(text)
        return {"text": text, "node": node, "t": event["t"], "kind": event["event"]}

    def _text(self, event: Event) -> str:
        if event["event"] == "plan":
            return self._plan(event)
        if event["event"] == "node":
            return self._node(event)
        if event["event"] == "warning":
            return redact(_short(event["message"]), known=self._ids)
        if event["event"] == "retrieve":
            self._ids.update(passage["id"] for passage in event["passages"])
        tell = _TELLERS.get(event["event"])
        return tell(event) if tell else ""

    def _count(self, event: Event) -> None:
        """Number nodes as they are shown: what was rebuilt below 1 has numbers from 101 on, and is 1.1, 1.2, …"""
        total = len(self._numbers) + len(event["nodes"])
        for node in event["nodes"]:
            above, place = divmod(node["id"], _ROOM)
            below = self._numbers.get(above) if event.get("under") is not None and node["id"] > total else None
            self._numbers[node["id"]] = f"{below}.{place}" if below else str(node["id"])

    def _plan(self, event: Event) -> str:
        count = sum(node["id"] > 0 for node in event["nodes"])
        if not count:
            return ""
        many = f"{count} sub-question{'s' if count > 1 else ''}"
        under = event.get("under")
        if under is None:
            return f"Planned {many}"
        return f"{'Rebuilt' if event.get('rebuilt') else 'Split'} {self._name(under)}: {many}"

    def _node(self, event: Event) -> str:
        name = self._name(event["id"])
        if event["state"] == "asking":
            return f"{name}: {_short(event['resolved'])}"
        answer = _short(event.get("answer", ""))
        if not answer:
            return f"{name}: no answer found"
        verdict = _VERDICTS.get(event.get("verdict", ""), "")
        source = _SOURCES.get(event.get("source", ""), "")
        why = verdict or (f"from {source}" if source else "")
        return f"{name}: {answer}" + (f" ({why})" if why else "")

    def _name(self, node: int) -> str:
        return "The question" if node == 0 else f"Sub-question {self._numbers.get(node, node)}"


def _llm(event: Event) -> str:
    cached = ", remembered" if event["cached"] else ""
    return f"The model replied: {event['step'].replace('_', ' ')} ({event['seconds']:.1f} s{cached})"


def _retrieve(event: Event) -> str:
    titles = list(dict.fromkeys(passage["title"] for passage in event["passages"]))
    found = ", ".join(_short(title, 40) for title in titles[:_TITLES])
    more = ", …" if len(titles) > _TITLES else ""
    return f"Searched for “{_short(event['query'])}”: {found + more if titles else 'nothing found'}"


def _facts(event: Event) -> str:
    return f"Looked up facts about {_short(event.get('label') or event['entity'], 60)}: {len(event['facts'])} found"


def _entities(event: Event) -> str:
    found = ", ".join(_short(label, 40) for _, label in event["found"][:_TITLES])
    return f"Looked up “{_short(event['name'], 60)}” in the graph: {found or 'nothing found'}"


def _short(text: Any, most: int = _LETTERS) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


_TELLERS: dict[str, Callable[[Event], str]] = {
    "start": lambda event: f"Asking with {event['method']}",
    "llm": _llm,
    "retrieve": _retrieve,
    "titles": lambda event: f"Looked for pages called “{_short(event['name'], 60)}”",
    "facts": _facts,
    "entities": _entities,
    "chain": lambda event: _short(event["text"]),
    "quarantine": lambda event: "Left out a sentence of a passage that addresses a model",
    "retry": lambda event: f"Waiting {event['wait']:g} s: an endpoint failed, and is asked again",
}
