"""The events of calls, and traces: record events, write and read JSON Lines."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from hoptree.core.errors import TraceError
from hoptree.core.files import sealed, unsealed
from hoptree.core.values import CONTENTS, Passage, Usage
from hoptree.engine.events import (
    OMIT,
    Decision,
    Event,
    NodeEvent,
    Planned,
    ReplyParsed,
    Started,
    decision,
    make_event,
    parse_event,
    typed_event,
)
from hoptree.engine.registry import load_method

if TYPE_CHECKING:
    from hoptree.engine.generation_view import GenerationView


@typed_event
class ExternalCall(NodeEvent):
    """A call of a model, search or graph; `seconds` is the work, without waiting."""

    cached: bool = False
    issued: float = 0.0
    seconds: float = 0.0


@typed_event
class ModelCalled(ExternalCall):
    """A model replied; `price` is the cost without any cache, `cost` what was paid."""

    event: ClassVar[str] = "llm"
    step: str = ""
    template: str = ""
    role: str = "answer"
    reply: str = ""
    finish: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    price: float | None = field(default=None, metadata=OMIT)
    cost: float = 0.0

    @property
    def full_price(self) -> float:
        """The price without any cache; old traces hold only the cost."""
        return self.cost if self.price is None else self.price


@typed_event
class Retrieved(ExternalCall):
    """A search found `passages`: objects with id, title, text and score.

    Pieces of documents have `document`, `start` and `end`, some have `metadata`.
    """

    event: ClassVar[str] = "retrieve"
    query: str = ""
    kind: str = ""
    k: int = 0
    where: dict[str, str] | None = field(default=None, metadata=OMIT)
    passages: list[dict[str, Any]] = field(default_factory=list)

    def add_to(self, view: GenerationView) -> None:
        view.find(self.query, self.passages)


@typed_event
class TitlesFound(ExternalCall):
    """The titles of the best passages for a name were looked up; no passage was read."""

    event: ClassVar[str] = "titles"
    name: str = ""
    k: int = 0
    titles: list[str] = field(default_factory=list)


@typed_event
class FactsFound(ExternalCall):
    """The knowledge graph gave the facts around an entity."""

    event: ClassVar[str] = "facts"
    entity: str = ""
    label: str = ""
    direction: str = "both"
    facts: list[str] = field(default_factory=list)
    complete: bool = True


@typed_event
class EntitiesFound(ExternalCall):
    """The graph gave the entities that a name or text may mean: pairs of id, label."""

    event: ClassVar[str] = "entities"
    name: str = ""
    whole: bool | None = field(default=None, metadata=OMIT)
    found: list[list[str]] = field(default_factory=list)
    scores: list[float] | None = field(default=None, metadata=OMIT)


@decision("facts_near")
class FactsNear(Decision):
    """The facts nearest to a query: rows of subject, relation, object, passage id."""

    value: list[list[str]]
    query: str = ""


@typed_event
class ModelProgress(NodeEvent):
    """The progress of a model call, for live listeners only; no trace keeps it."""

    event: ClassVar[str] = "progress"
    step: str = ""
    read: int = 0
    total: int = 0
    cached: int = 0
    written: int = 0
    seconds: float = 0.0
    rate: float = 0.0

    def describe(self) -> str:
        """Return the progress in words: prompt tokens read, speed, and time left."""
        if not self.total and not self.written:
            return "being loaded"
        if self.read >= self.total:
            return f"writing, {self.written:,} tokens" if self.written > 1 else "writing"
        fresh = self.read - self.cached
        rate = fresh / self.seconds if fresh and self.seconds else self.rate
        speed = f", {rate:,.0f} a second, about {(self.total - self.read) / rate:,.0f} s left" if rate >= 1 else ""
        return f"reading {self.read:,} of {self.total:,} tokens{speed}"


@typed_event
class QuestionRewritten(Event):
    """A follow-up question was rewritten so that it can be understood alone."""

    event: ClassVar[str] = "rewritten"
    question: str = ""


@typed_event
class Retried(Event):
    """A call failed and is tried again after `wait` seconds."""

    event: ClassVar[str] = "retry"
    step: str = ""
    error: str = ""
    wait: float = 0.0


_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
# Flushing each of these would cost more than the event itself; others are flushed at once.
_FREQUENT = (ExternalCall, Decision, ReplyParsed)
_FLUSH_INTERVAL_S = 1.0
"""Seconds after which these are flushed as well."""
_BUFFER_BYTES = 1 << 16
_clock = time.monotonic

Listener = Callable[[Event], None]


def trace_line(event: Event) -> bytes:
    """Return the line of an event in a trace file."""
    data = event.as_dict()
    try:
        return sealed(_encode_search(data) if type(event) is Retrieved else _encode(data)) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate from a model
        return sealed(json.dumps(data)) + b"\n"


def hit_of(passage: Passage) -> dict[str, Any]:
    """Return a passage as a search's event holds it, without long metadata."""
    hit = {"id": passage.id, "title": passage.title, "text": passage.text, "score": round(passage.score, 4)}
    if passage.document:
        hit |= {"document": passage.document, "start": passage.start, "end": passage.end}
    kept = tuple(pair for pair in passage.metadata if len(pair[1]) <= _MAX_METADATA_CHARS)
    return hit | {"metadata": replace(passage, metadata=kept).metadata_by_name()} if kept else hit


def passage_of(hit: Mapping[str, Any]) -> Passage:
    """Return the passage of a search's event; older ones lack its place and metadata."""
    metadata = tuple(
        (name, item)
        for name, value in hit.get("metadata", {}).items()
        for item in (value if isinstance(value, list) else [value])
    )
    if hit.get("contents"):  # as older versions mark a table of contents
        metadata += (CONTENTS,)
    place = (hit.get("document", ""), hit.get("start", 0), hit.get("end", 0))
    return Passage(hit["id"], hit["title"], hit["text"], hit.get("score", 0.0), *place, metadata=metadata)


_PASSAGE_TEXTS = ["id", "title", "text"]
_MAX_METADATA_CHARS = 500


def _encode_search(data: dict[str, Any]) -> str:
    """Do the same as `_encode` for a search, with cached texts of passages."""
    passages = data["passages"]
    if not passages or [*data][-1] != "passages" or any([*p][:3] != _PASSAGE_TEXTS or len(p) < 4 for p in passages):
        return _encode(data)
    head = _encode({name: value for name, value in data.items() if name != "passages"})
    shown = (
        f"{_encode_texts(p['id'], p['title'], p['text'])}, {_encode({name: p[name] for name in [*p][3:]})[1:]}"
        for p in passages
    )
    return f'{head[:-1]}, "passages": [{", ".join(shown)}]}}'


@lru_cache(maxsize=1024)
def _encode_texts(name: str, title: str, text: str) -> str:
    return _encode({"id": name, "title": title, "text": text})[:-1]


class LiveListener:
    """A listener that also gets events that no trace keeps, such as ModelProgress."""

    def __init__(self, hear: Listener) -> None:
        self._hear = hear

    def __call__(self, event: Event) -> None:
        self._hear(event)


class Trace:
    """The events of a question, kept in memory and passed on to listeners."""

    def __init__(self, run: str, listeners: tuple[Listener, ...] = ()) -> None:
        self.run = run
        self.events: list[Event] = []
        self._listeners = listeners
        self._start = time.perf_counter()

    def now(self) -> float:
        """Return the seconds since the question was asked."""
        return time.perf_counter() - self._start

    def add(self, event_kind: str, /, **fields: Any) -> None:
        self.emit(make_event(event_kind, fields))

    def emit(self, event: Event) -> None:
        """Record an event and pass it on to the listeners."""
        event.stamp(self.run, round(time.perf_counter() - self._start, 4))
        self.events.append(event)
        for listener in self._listeners:
            listener(event)

    def tell(self, event: Event) -> None:
        """Pass an event on to the live listeners without recording it."""
        event.stamp(self.run, round(time.perf_counter() - self._start, 4))
        for listener in self._listeners:
            if isinstance(listener, LiveListener):
                listener(event)


def events_of(events: Sequence[Event], node: int) -> list[Event]:
    """Return the events of a node since the last plan; others may use its number."""
    plans = (
        place
        for place in range(len(events) - 1, -1, -1)
        if isinstance(event := events[place], Planned) and event.under is None
    )
    return [event for event in events[next(plans, 0) :] if isinstance(event, NodeEvent) and event.node == node]


def record_of(events: Sequence[Event]) -> dict[str, Any]:
    """Return the tokens, time, passages and decisions of a node, from its events."""
    calls = [event for event in events if isinstance(event, ModelCalled)]
    record: dict[str, Any] = {
        "tokens": sum(call.prompt_tokens + call.completion_tokens for call in calls),
        "ms": round(1000 * sum(call.seconds for call in calls)),
    }
    for event in events:
        if isinstance(event, Retrieved):
            record["passages"] = [[passage["id"], passage["score"]] for passage in event.passages]
        elif isinstance(event, Decision):
            record |= event.node_record()
    return record


def passages_of(events: Sequence[Event], ids: Container[str]) -> tuple[Passage, ...]:
    """Return the passages with these ids that searches found, each once."""
    hits = (hit for event in events if isinstance(event, Retrieved) for hit in event.passages if hit["id"] in ids)
    return tuple({hit["id"]: replace(passage_of(hit), score=0.0) for hit in hits}.values())


class TraceFile:
    """A listener that appends every event to a JSONL file.

    A killed run loses at most the events within a second of the last flush.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: TraceError | None = None
        self._flushed = _clock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO | None = path.open("ab", buffering=_BUFFER_BYTES)
        except OSError as error:
            raise TraceError(
                f"The trace cannot be written to {path}: {error.strerror}.", "Choose another --trace file."
            ) from error

    def __call__(self, event: Event) -> None:
        if self._file is not None:
            self.write(trace_line(event), soon=not isinstance(event, _FREQUENT))

    def write(self, lines: bytes, *, soon: bool = True) -> None:
        """Append lines of events; flush at once if `soon`, else within a second."""
        if self._file is None:
            return
        try:
            self._file.write(lines)
            if soon or _clock() - self._flushed > _FLUSH_INTERVAL_S:
                self._file.flush()
                self._flushed = _clock()
        except OSError as error:
            # The run goes on without its trace; the caller reports `failure` at the end.
            self.failure = TraceError(
                f"The trace at {self.path} could not be written further: {error.strerror}.", "Free some space."
            )
            self.failure.exit_code = 1
            self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # a full disk was reported when the event was written
                file.close()


def read_events(path: Path, wanted: Callable[[str, str], bool] | None = None) -> Iterator[Event]:
    """Yield the events of a trace file in their order.

    A last line that a kill cut off is skipped; any other line without an event is an error. `wanted` gets kind and run
    of an event: complete lines for which it is false are skipped without parsing, which is most of the work.
    """
    has_events = False
    try:
        with path.open("rb") as lines:  # in binary, only b"\n" ends a line: replies hold other line ends
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    text = unsealed(line)
                    head = re.match(_HEAD, text) if wanted and line.endswith(b"}\n") else None
                    if wanted and head and not wanted(head[1].decode(), head[2].decode()):
                        has_events = True
                        continue
                    event = _read_event(text)
                except ValueError as error:
                    raise TraceError(
                        f"Line {number} of {path} is not what was written.", "Take the line out, or ask again."
                    ) from error
                if event is None and has_events and not any(rest.strip() for rest in lines):
                    return
                if event is None:
                    raise TraceError(
                        f"Line {number} of {path} is not a trace event.",
                        "Write a trace with: hoptree ask … --trace FILE",
                    )
                if isinstance(event, Started):
                    load_method(event.method)  # its module registers the types of the decisions that follow
                has_events = True
                yield event
    except OSError as error:
        raise TraceError(
            f"The trace {path} cannot be read: {error.strerror}.", "Write one with: hoptree ask … --trace FILE"
        ) from error
    if not has_events:
        raise TraceError(f"The trace {path} is empty.", "Write one with: hoptree ask … --trace FILE")


_HEAD = rb'\{"event": "(\w+)", "run": "([^"\\]*)"'


def _read_event(line: bytes) -> Event | None:
    try:
        return parse_event(json.loads(line.decode()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def read_traces(path: Path) -> Iterator[list[Event]]:
    """Yield the events of each question in a trace file, in order of their start.

    All are in memory at once, as events of concurrent questions are mixed in the file.
    """
    runs: dict[str, list[Event]] = {}
    for event in read_events(path):
        runs.setdefault(event.run, []).append(event)
    yield from runs.values()


def usage_of(events: Sequence[Event]) -> Usage:
    """Return the cost and time of the calls among events."""
    calls = [event for event in events if isinstance(event, ExternalCall)]
    replies = [call for call in calls if isinstance(call, ModelCalled)]
    return Usage(
        llm_calls=len(replies),
        cached_calls=sum(reply.cached for reply in replies),
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        completion_tokens=sum(reply.completion_tokens for reply in replies),
        reasoning_tokens=sum(reply.reasoning_tokens for reply in replies),
        retrievals=sum(isinstance(call, Retrieved | FactsFound) for call in calls),
        price=round(sum(reply.full_price for reply in replies), 6),
        cost=round(sum(reply.cost for reply in replies), 6),
        seconds=round(events[-1].t if events else 0.0, 3),
        critical_path_seconds=round(_critical_path(calls), 3),
    )


def _critical_path(calls: Sequence[ExternalCall]) -> float:
    """Return the seconds of work along the critical path of calls.

    It leads from the call that ended last back to the last one that had ended when that was issued, and so on. Waiting
    for a slot does not count; a cached call counts the work that it once took.
    """
    total = 0.0
    last = max(range(len(calls)), key=lambda place: (calls[place].t, place), default=None)
    while last is not None:
        total += calls[last].seconds
        issued = calls[last].issued
        # Events are in the order they ended, so a predecessor always comes before.
        last = next((place for place in range(last - 1, -1, -1) if calls[place].t <= issued), None)
    return total
