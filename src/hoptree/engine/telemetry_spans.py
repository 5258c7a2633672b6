"""Names and attributes of a question's spans, as observability tools expect them.

Names that begin with gen_ai are those of OpenTelemetry's conventions for generative AI; the others, but for
`hoptree.…`, are those of OpenInference. If both conventions name the same thing, both names are given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hoptree.engine.events import Event, Finished, NodeEvent, NodeSettled, NodeStarted, Planned, Started
from hoptree.engine.trace import EntitiesFound, ExternalCall, FactsFound, ModelCalled, Retrieved, TitlesFound, usage_of

DOCUMENTS = 24
"""Documents of a search in a span: by default a span keeps 128 attributes and drops the first ones."""
_PROVIDERS = {"local": "llama.cpp", "hf": "transformers"}
_FILES = frozenset({"local", "scripted"})
_TOTALS = ("llm_calls", "cached_calls", "prompt_tokens", "completion_tokens", "retrievals", "price", "cost")

Attribute = str | bool | int | float | list[str]
Attributes = dict[str, Attribute]


@dataclass(slots=True, eq=False)
class Work:
    """Something that took time, in seconds since the question was asked."""

    start: float
    end: float
    below: list[Work] = field(default_factory=list)
    notes: list[Event] = field(default_factory=list)  # decisions and warnings on the way

    def all(self) -> Iterator[Work]:
        """Yield this work and all below it."""
        yield self
        for work in self.below:
            yield from work.all()


@dataclass(slots=True, eq=False, kw_only=True)
class QuestionWork(Work):
    """A question; `finished` is None if it was cancelled."""

    started: Started
    finished: Finished | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class NodeWork(Work):
    """A node of the tree."""

    id: int
    parent: int | None = None
    question: str = ""
    hypothesis: str = ""
    state: str = "waiting"
    settled: NodeSettled | None = None
    stands: bool = True  # False if a rebuilt tree no longer has the node
    begun: bool = False

    def stretch(self, start: float, end: float) -> None:
        """Extend the time of the node to this part of its work."""
        self.start = min(self.start, start) if self.begun else start
        self.end = max(self.end, end) if self.begun else end
        self.begun = True


@dataclass(slots=True, eq=False, kw_only=True)
class CallWork(Work):
    """A call of a model, a search or a graph."""

    call: ExternalCall


def read_work(events: Sequence[Event]) -> QuestionWork:
    """Return the work of one question, nested like its tree."""
    started = events[0]
    assert isinstance(started, Started)
    reader = _WorkReader(QuestionWork(started.t, events[-1].t, started=started))
    for event in events[1:]:
        reader.take(event)
    return reader.question


class _WorkReader:
    """Builds the tree from events; a repeated number means the last node."""

    def __init__(self, question: QuestionWork) -> None:
        self.question = question
        self._nodes: dict[int, NodeWork] = {}
        self._early: dict[int, NodeWork] = {}  # nodes with events before a plan has them, if one ever does

    def take(self, event: Event) -> None:
        match event:
            case Planned():
                self._plan(event)
            case NodeStarted():
                node = self._node(event.id, event.t)
                node.state, node.question = event.state, event.resolved or node.question
                node.stretch(event.t, event.t)
            case NodeSettled():
                node = self._node(event.id, event.t)
                node.state, node.settled = event.state, event
                node.stretch(event.t, event.t)
            case ExternalCall():
                owner = self._owner(event)
                owner.below.append(CallWork(event.issued, event.t, call=event))
                if isinstance(owner, NodeWork):
                    owner.stretch(event.issued, event.t)
            case Finished():
                self.question.finished = event
            case _:
                self._owner(event).notes.append(event)

    def _plan(self, event: Planned) -> None:
        if event.under is None:
            _mark_dropped(self.question.below)
            self._nodes, self._early = {}, {}
        elif event.rebuilt and event.under in self._nodes:
            _mark_dropped(self._nodes[event.under].below)
        for planned in event.nodes:
            node = self._early.pop(planned["id"], None)
            if node is None:
                node = NodeWork(event.t, event.t, id=planned["id"])
            else:
                self.question.below.remove(node)
                node.stands = True
            node.parent, node.question = planned["parent"], node.question or planned["question"]
            node.hypothesis = planned.get("hypothesis", "")
            self._nodes[node.id] = node
            above = self._nodes.get(planned["parent"]) if planned["parent"] is not None else None
            (above or self.question).below.append(node)

    def _owner(self, event: Event) -> QuestionWork | NodeWork:
        number = event.node if isinstance(event, NodeEvent) else None
        return self.question if number is None else self._node(number, event.t)

    def _node(self, number: int, t: float) -> NodeWork:
        if number not in self._nodes:
            node = NodeWork(t, t, id=number, stands=False)
            self._nodes[number] = self._early[number] = node
            self.question.below.append(node)
        return self._nodes[number]


def _mark_dropped(works: Sequence[Work]) -> None:
    for work in works:
        for dropped in work.all():
            if isinstance(dropped, NodeWork):
                dropped.stands = False


def name_of(work: Work, question: QuestionWork) -> str:
    """Return a span's name: one of few, without any text of the question."""
    if isinstance(work, NodeWork):
        return f"sub-question {work.id}"
    if not isinstance(work, CallWork):
        return f"invoke_agent {question.started.method}"
    if isinstance(work.call, ModelCalled):
        return f"chat {_model(work.call, question)[1]}"
    return f"retrieval {work.call.kind if isinstance(work.call, Retrieved) else work.call.event}"


def attributes_of(work: Work, question: QuestionWork, *, content: bool) -> Attributes:
    """Return a span's attributes; without `content`, no text of people or documents."""
    if isinstance(work, NodeWork):
        attributes = _node_attributes(work, content)
    elif not isinstance(work, CallWork):
        attributes = _question_attributes(question, content)
    elif isinstance(work.call, ModelCalled):
        attributes = _reply_attributes(work.call, question, content)
    else:
        attributes = _retrieval_attributes(work.call, question, content)
    return {name: _plain(value) for name, value in attributes.items() if value is not None and value != ""}


def note_of(event: Event, *, content: bool) -> tuple[str, Attributes]:
    """Return a decision or warning as name and attributes of a span event."""
    attributes = {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value, ensure_ascii=False)
        for name, value in event.as_dict().items()
        if name not in ("event", "run", "t", "node", "depth")
        and value is not None
        and (content or isinstance(value, bool | int | float) or name in ("kind", "step"))
    }
    return f"hoptree.{event.as_dict()['event']}", {name: _plain(value) for name, value in attributes.items()}


def _question_attributes(work: QuestionWork, content: bool) -> dict[str, Any]:
    start, final = work.started, work.finished
    totals = usage_of([part.call for part in work.all() if isinstance(part, CallWork)]).as_dict()
    provider, model = _split_model(start.model)
    outcome = {
        "hoptree.source": final.source,
        "hoptree.abstained": final.abstained,
        "hoptree.stopped_by": final.stopped_by,
        "error.type": final.error,
    } if final else {}  # fmt: skip
    return {
        "openinference.span.kind": "AGENT",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": start.method,
        "gen_ai.agent.version": start.version,
        "gen_ai.data_source.id": start.corpus,
        "gen_ai.request.model": model,
        "gen_ai.provider.name": provider,
        "agent.name": start.method,
        "graph.node.id": "question",
        # Totals have other names than the calls' tokens, which tools add up themselves.
        **{f"hoptree.usage.{name}": totals[name] for name in _TOTALS},
        "hoptree.run": start.run,
        "hoptree.question_id": start.question_id,
        "hoptree.fidelity": start.fidelity,
        **outcome,
        "metadata": json.dumps({"options": start.options}, ensure_ascii=False, default=str),
        **_texts(content, start.question, final.answer if final else None, name="question"),
    }


def _node_attributes(work: NodeWork, content: bool) -> dict[str, Any]:
    settled = work.settled or NodeSettled(id=work.id, state=work.state, source="")
    asked = settled.resolved or work.question or settled.question
    hypothesis = work.hypothesis if settled.hypothesis is None else settled.hypothesis
    return {
        "openinference.span.kind": "CHAIN",
        "graph.node.id": str(work.id),
        "graph.node.parent_id": "question" if work.parent is None else str(work.parent),
        "hoptree.node.id": work.id,
        "hoptree.node.stands": work.stands,
        "hoptree.node.source": settled.source,
        "hoptree.node.state": work.state,
        "hoptree.node.verdict": settled.verdict,
        "hoptree.node.confidence": settled.confidence,
        "hoptree.node.evidence": list(settled.evidence) or None,
        **({"hoptree.node.why": settled.why, "hoptree.node.hypothesis": hypothesis} if content else {}),
        **_texts(content, asked, settled.answer, name=asked),
    }


def _texts(content: bool, asked: str, answer: str | None, *, name: str) -> dict[str, Any]:
    return {"input.value": asked, "output.value": answer, "graph.node.name": name} if content else {}


def _reply_attributes(call: ModelCalled, question: QuestionWork, content: bool) -> dict[str, Any]:
    provider, model = _model(call, question)
    message = {
        "role": "assistant",
        "parts": [{"type": "text", "content": call.reply}],
        "finish_reason": call.finish,
    }
    texts = {
        "output.value": call.reply,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": call.reply,
        "gen_ai.output.messages": json.dumps([message], ensure_ascii=False),
    }
    return {
        "openinference.span.kind": "LLM",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.response.finish_reasons": [call.finish],
        "gen_ai.usage.input_tokens": call.prompt_tokens,
        "gen_ai.usage.output_tokens": call.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": call.reasoning_tokens,
        "gen_ai.prompt.name": call.template,
        "llm.provider": provider,
        "llm.model_name": model,
        "llm.finish_reason": call.finish,
        "llm.token_count.prompt": call.prompt_tokens,
        "llm.token_count.completion": call.completion_tokens,
        "llm.token_count.total": call.prompt_tokens + call.completion_tokens,
        "llm.token_count.prompt_details.cache_read": call.cached_tokens,
        "llm.token_count.completion_details.reasoning": call.reasoning_tokens,
        # Without prices no cost is known; a cached call costs nothing.
        "llm.cost.total": call.cost if call.full_price else None,
        "llm.prompt_template.version": call.template,
        "hoptree.step": call.step,
        "hoptree.role": call.role,
        "hoptree.cached": call.cached,
        "hoptree.worked_seconds": call.seconds,
        **(texts if content else {}),
    }


def _retrieval_attributes(call: ExternalCall, question: QuestionWork, content: bool) -> dict[str, Any]:
    asked, documents = _looked_up(call)
    in_graph = isinstance(call, FactsFound | EntitiesFound)
    attributes: dict[str, Any] = {
        "openinference.span.kind": "RETRIEVER",
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": question.started.graph if in_graph else question.started.corpus,
        "hoptree.found": len(documents),
        "hoptree.cached": call.cached,
        "hoptree.worked_seconds": call.seconds,
    }
    if isinstance(call, Retrieved) and documents:
        scored = [{"id": document["id"], "score": document["score"]} for document in documents]
        attributes["gen_ai.retrieval.documents"] = json.dumps(scored, ensure_ascii=False)
    if content:
        attributes |= {"input.value": asked, "gen_ai.retrieval.query.text": asked}
    for place, document in enumerate(documents[:DOCUMENTS]):
        at = f"retrieval.documents.{place}.document"
        attributes |= {f"{at}.id": document["id"], f"{at}.score": document.get("score")}
        if content:
            title = json.dumps({"title": document["title"]}, ensure_ascii=False) if document.get("title") else None
            attributes |= {f"{at}.content": document["text"], f"{at}.metadata": title}
    return attributes


def _looked_up(call: ExternalCall) -> tuple[str, Sequence[dict[str, Any]]]:
    """Return the query and its documents; facts, names and titles count as some."""
    match call:
        case Retrieved():
            return call.query, call.passages
        case EntitiesFound():
            return call.name, [{"id": number, "text": label} for number, label in call.found]
        case FactsFound():
            asked, texts = call.label, call.facts
        case TitlesFound():
            asked, texts = call.name, call.titles
        case _:
            return "", ()
    return asked, [{"id": str(place), "text": text} for place, text in enumerate(texts, 1)]


def _model(call: ModelCalled, question: QuestionWork) -> tuple[str, str]:
    return _split_model(question.started.roles.get(call.role, question.started.model))


def _split_model(model: str) -> tuple[str, str]:
    """Return a model's provider and its name there; for a file, without its folder."""
    kind, _, name = model.partition("?")[0].partition("/")
    if kind in _FILES or name.startswith(("/", "~", ".")):
        name = name.rstrip("/").rpartition("/")[2]
    return _PROVIDERS.get(kind, kind), name or kind


def _plain(value: Any) -> Attribute:
    """Return a value without lone surrogates, which cannot be sent."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return [str(_plain(item)) for item in value] if isinstance(value, list) else value
