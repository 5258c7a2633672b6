"""How a piece of work is called in the conventions that observability tools read.

Names that begin with gen_ai are those of OpenTelemetry's conventions for generative AI; the others, but for
`hoptree.…`, are those of OpenInference. Where both have a name for the same, both are given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hoptree.core.errors import ConfigError

if TYPE_CHECKING:
    from hoptree.engine.telemetry import SpanListener

_CALLS = ("llm", "retrieve", "titles", "facts", "entities")


@dataclass(slots=True, eq=False)
class Work:
    """Something that took time, in seconds since the question was asked, with all that was done for it.

    `event` is what the trace says of it at the end, `notes` are decisions and warnings on the way. A node does not
    stand when the tree was rebuilt without it, or never came to hold it; it was paid for all the same.
    """

    kind: Literal["question", "node", "call"]
    event: Mapping[str, Any]
    start: float
    end: float
    below: list[Work] = field(default_factory=list)
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    stands: bool = True

    def all(self) -> Iterator[Work]:
        """This and everything below it."""
        yield self
        for work in self.below:
            yield from work.all()


def read_work(events: Sequence[Mapping[str, Any]]) -> Work:
    """The work of one question, nested as its tree is."""
    reading = _Reading(events)
    for event in events[1:]:
        reading.take(event)
    return reading.question


class _Reading:
    """The tree while it is read; a number means the node that had it last, since numbers are given again.

    `_early` are nodes that were begun before they were known to come into the tree, if they ever do.
    """

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        start = events[0]
        self.question = Work("question", dict(start), start["t"], events[-1]["t"])
        self._nodes: dict[int, Work] = {}
        self._early: dict[int, Work] = {}
        self._begun: set[int] = set()

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "plan":
            self._plan(event)
        elif kind == "node":
            node = self._found(event["id"], event["t"])
            node.event = dict(node.event) | {
                name: value for name, value in event.items() if name not in ("event", "run", "t", "parent")
            }
            self._stretch(node, event["t"], event["t"])
        elif kind in _CALLS:
            at = self._of(event)
            at.below.append(Work("call", event, event["issued"], event["t"]))
            if at.kind == "node":
                self._stretch(at, event["issued"], event["t"])
        elif kind == "final":
            self.question.event = dict(self.question.event) | {
                name: value for name, value in event.items() if name not in ("event", "run", "t")
            }
        else:
            self._of(event).notes.append(event)

    def _plan(self, event: Mapping[str, Any]) -> None:
        under = event.get("under")
        if under is None:
            for gone in self.question.below:
                _fell(gone)
            self._nodes, self._early = {}, {}
        elif event.get("rebuilt") and under in self._nodes:
            for gone in self._nodes[under].below:
                _fell(gone)
        for written in event["nodes"]:
            number = written["id"]
            node = self._early.pop(number, None)
            if node is None:
                node = Work("node", {"state": "waiting", **written}, event["t"], event["t"])
            else:
                self.question.below.remove(node)
                node.event, node.stands = {**written, **node.event}, True
            above = self._nodes.get(written["parent"], self.question)
            self._nodes[number] = node
            above.below.append(node)

    def _stretch(self, node: Work, start: float, end: float) -> None:
        """Let a node begin with the first and end with the last that is known of it."""
        first = id(node) not in self._begun
        self._begun.add(id(node))
        node.start = start if first else min(node.start, start)
        node.end = end if first else max(node.end, end)

    def _of(self, event: Mapping[str, Any]) -> Work:
        number = event.get("node")
        return self.question if number is None else self._found(number, event["t"])

    def _found(self, number: int, t: float) -> Work:
        if number not in self._nodes:
            node = Work("node", {"id": number, "state": "waiting"}, t, t, stands=False)
            self._nodes[number] = self._early[number] = node
            self.question.below.append(node)
        return self._nodes[number]


def _without(event: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


def _fell(node: Work) -> None:
    for work in node.all():
        work.stands = work.stands and work.kind != "node"


Attribute = str | bool | int | float | list[str]
Attributes = dict[str, Attribute]

DOCUMENTS = 24
"""Documents of a search that are told of: a span keeps 128 attributes by default and drops the first ones."""

_PROVIDERS = {"local": "llama.cpp", "hf": "transformers"}
_FILES = frozenset({"local", "scripted"})
_TOTALS = ("llm_calls", "cached_calls", "prompt_tokens", "completion_tokens", "retrievals", "price", "cost")
_NODE = ("source", "state", "verdict", "confidence")
_SAID = ("why", "hypothesis")


def name_of(work: Work, question: Mapping[str, Any]) -> str:
    """A span's name: few different ones, and nothing of what was asked."""
    event = work.event
    if work.kind == "question":
        return f"invoke_agent {event['method']}"
    if work.kind == "node":
        return f"sub-question {event['id']}"
    if event["event"] == "llm":
        return f"chat {_model(event, question)[1]}"
    return f"retrieval {event['kind']}" if event["event"] == "retrieve" else f"retrieval {event['event']}"


def attributes_of(work: Work, question: Work, *, content: bool) -> Attributes:
    """All there is to tell of a piece of work; without `content` nothing that somebody wrote, asked or found."""
    if work.kind == "question":
        found = _question(work, content)
    elif work.kind == "node":
        found = _node(work, content)
    elif work.event["event"] == "llm":
        found = _llm(work.event, question.event, content)
    else:
        found = _retrieval(work.event, question.event, content)
    return {name: _plain(value) for name, value in found.items() if value is not None and value != ""}


def note_of(event: Mapping[str, Any], *, content: bool) -> tuple[str, Attributes]:
    """Something noted on the way, as an event of a span."""
    told = {name: value for name, value in event.items() if name not in ("event", "run", "t", "node", "depth")}
    kept = {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value, ensure_ascii=False)
        for name, value in told.items()
        if value is not None and (content or isinstance(value, bool | int | float) or name in ("kind", "step"))
    }
    return f"hoptree.{event['event']}", {name: _plain(value) for name, value in kept.items()}


def _question(work: Work, content: bool) -> dict[str, Any]:
    event = work.event
    calls = [one.event for one in work.all() if one.kind == "call"]
    llm = [call for call in calls if call["event"] == "llm"]
    totals: dict[str, float] = {
        "llm_calls": len(llm),
        "cached_calls": sum(call["cached"] for call in llm),
        "prompt_tokens": sum(call["prompt_tokens"] for call in llm),
        "completion_tokens": sum(call["completion_tokens"] for call in llm),
        "retrievals": sum(call["event"] in ("retrieve", "facts") for call in calls),
        "price": sum(call["price"] if "price" in call else call["cost"] for call in llm),
        "cost": sum(call["cost"] for call in llm),
    }
    return {
        "openinference.span.kind": "AGENT",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": event["method"],
        "gen_ai.agent.version": event.get("version"),
        "gen_ai.data_source.id": event.get("corpus"),
        "gen_ai.request.model": _named(event["model"])[1],
        "gen_ai.provider.name": _named(event["model"])[0],
        "agent.name": event["method"],
        "graph.node.id": "question",
        # Totals have names of their own: tools add up the tokens of the calls below by themselves.
        **{f"hoptree.usage.{name}": totals[name] for name in _TOTALS},
        "hoptree.run": event["run"],
        "hoptree.question_id": event.get("question_id"),
        "hoptree.fidelity": event.get("fidelity"),
        "hoptree.source": event.get("source"),
        "hoptree.abstained": event.get("abstained"),
        "hoptree.stopped_by": event.get("stopped_by"),
        "error.type": event.get("error"),
        "metadata": json.dumps({"options": event.get("options", {})}, ensure_ascii=False, default=str),
        **_said(content, event["question"], event.get("answer"), name="question"),
    }


def _node(work: Work, content: bool) -> dict[str, Any]:
    event = work.event
    asked = event.get("resolved") or event.get("question")
    parent = event.get("parent")
    return {
        "openinference.span.kind": "CHAIN",
        "graph.node.id": str(event["id"]),
        "graph.node.parent_id": "question" if parent is None else str(parent),
        "hoptree.node.id": event["id"],
        "hoptree.node.stands": work.stands,
        **{f"hoptree.node.{name}": event.get(name) for name in _NODE},
        "hoptree.node.evidence": list(event.get("evidence", ())) or None,
        **({f"hoptree.node.{name}": event.get(name) for name in _SAID} if content else {}),
        **_said(content, asked, event.get("answer"), name=asked),
    }


def _said(content: bool, asked: str | None, answer: str | None, *, name: str | None) -> dict[str, Any]:
    return {"input.value": asked, "output.value": answer, "graph.node.name": name} if content else {}


def _llm(event: Mapping[str, Any], question: Mapping[str, Any], content: bool) -> dict[str, Any]:
    provider, model = _model(event, question)
    prompt, completion = event["prompt_tokens"], event["completion_tokens"]
    said = {
        "output.value": event["reply"],
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": event["reply"],
        "gen_ai.output.messages": json.dumps(
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "text", "content": event["reply"]}],
                    "finish_reason": event["finish"],
                }
            ],
            ensure_ascii=False,
        ),
    }
    return {
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.response.finish_reasons": [event["finish"]],
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.output_tokens": completion,
        "gen_ai.usage.cache_read.input_tokens": event["cached_tokens"],
        "gen_ai.usage.reasoning.output_tokens": event["reasoning_tokens"],
        "gen_ai.prompt.name": event["template"],
        "llm.provider": provider,
        "llm.model_name": model,
        "llm.finish_reason": event["finish"],
        "llm.token_count.prompt": prompt,
        "llm.token_count.completion": completion,
        "llm.token_count.total": prompt + completion,
        "llm.token_count.prompt_details.cache_read": event["cached_tokens"],
        "llm.token_count.completion_details.reasoning": event["reasoning_tokens"],
        # Without prices there is no cost to tell; a call that the cache answered costs nothing.
        "llm.cost.total": event["cost"] if event.get("price", event["cost"]) else None,
        "llm.prompt_template.version": event["template"],
        "hoptree.step": event["step"],
        "hoptree.role": event["role"],
        "hoptree.cached": event["cached"],
        "hoptree.worked_seconds": event["seconds"],
        **(said if content else {}),
    }


def _retrieval(event: Mapping[str, Any], question: Mapping[str, Any], content: bool) -> dict[str, Any]:
    asked = event.get("query") or event.get("name") or event.get("label")
    documents = _documents(event)
    found: dict[str, Any] = {
        "openinference.span.kind": "RETRIEVER",
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": question.get("graph" if event["event"] in ("facts", "entities") else "corpus"),
        "hoptree.found": len(documents),
        "hoptree.cached": event["cached"],
        "hoptree.worked_seconds": event["seconds"],
    }
    scored = [{"id": one["id"], "score": one["score"]} for one in documents if "score" in one]
    if scored:
        found["gen_ai.retrieval.documents"] = json.dumps(scored, ensure_ascii=False)
    if content:
        found |= {"input.value": asked, "gen_ai.retrieval.query.text": asked}
    for place, one in enumerate(documents[:DOCUMENTS]):
        at = f"retrieval.documents.{place}.document"
        found |= {f"{at}.id": one["id"], f"{at}.score": one.get("score")}
        if content:
            title = json.dumps({"title": one["title"]}, ensure_ascii=False) if one.get("title") else None
            found |= {f"{at}.content": one["text"], f"{at}.metadata": title}
    return found


def _documents(event: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """What a search found; facts, names and titles are short documents too."""
    if event["event"] == "retrieve":
        passages: list[dict[str, Any]] = event["passages"]
        return passages
    if event["event"] == "entities":
        return [{"id": number, "text": label} for number, label in event["found"]]
    told = event["facts" if event["event"] == "facts" else "titles"]
    return [{"id": str(place), "text": text} for place, text in enumerate(told, 1)]


def _model(event: Mapping[str, Any], question: Mapping[str, Any]) -> tuple[str, str]:
    return _named(question.get("roles", {}).get(event["role"], question["model"]))


def _named(model: str) -> tuple[str, str]:
    """Who provides a model, and its name there; of a model that is a file, the name of the file alone."""
    kind, _, name = model.partition("?")[0].partition("/")
    if kind in _FILES or name.startswith(("/", "~", ".")):
        name = name.rstrip("/").rpartition("/")[2]
    return _PROVIDERS.get(kind, kind), name or kind


def _plain(value: Any) -> Attribute:
    """A value without halves of characters, which cannot be sent."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return [str(_plain(one)) for one in value] if isinstance(value, list) else value


SWITCH = "HOPTREE_OTEL"
"""The environment variable that has spans sent to where OTEL_EXPORTER_OTLP_ENDPOINT says."""

_ON, _OFF = ("1", "true", "on", "yes"), ("", "0", "false", "off", "no")


def spans_wanted() -> SpanListener | None:
    """A listener that sends spans, if the environment asks for them."""
    said = os.environ.get(SWITCH, "").strip().casefold()
    if said in _OFF:
        return None
    if said not in _ON:
        raise ConfigError(f"{SWITCH}={said} is not possible.", f"Set {SWITCH}=1 to send spans, or leave it out.")
    from hoptree.engine.telemetry import open_spans

    return open_spans()
