"""Trace events: a frozen dataclass for each kind.

Here are the base classes and the events of runs, plans and nodes. The events of calls are in `engine/trace.py`, and
decisions in the files of their methods; docs/reference/events.md lists all.

On disk an event is one JSON object a line, `{"event": KIND, "run": ID, "t": SECONDS, ...}`; a decision is
`{"event": "decision", "kind": NAME, "value": ..., ...}`. `Event.as_dict` writes this form, `parse_event` reads it.

A class registers itself by its `event` or `kind`:

    @decision("route", shown_as="way")
    class Routed(Decision):
        value: str
        labels: list[str] = field(default_factory=list)
        reason: str = field(default="", metadata=OMIT)  # not written while it is ""

    ctx.emit(Routed(value="direct", labels=[...]), node=node)

Fields hold JSON values: texts, numbers, lists and dictionaries with texts as keys. Readers match on the type
(`isinstance(event, Routed)`) and read attributes. Objects of unregistered kinds become OtherEvent and OtherDecision,
which keep their fields in `details`. Several methods may register a decision of the same kind with fields of their own:
the first type that knows all fields of an object is taken, or OtherDecision if none does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from hoptree.engine.generation_view import GenerationView

_Event = TypeVar("_Event", bound="Event")
_Decision = TypeVar("_Decision", bound="Decision")
FORMAT = 2  # the version of the form on disk; objects of format 1, which had no number, are read too
GUESS = "guess"  # an answer that no passage states
SOURCE_WORDS: Mapping[str, str] = {
    "internal": "from the model's own knowledge",
    "external": "from documents",
    "graph": "from the graph",
    "synthesis": "from its sub-questions",
    "fallback": f"{GUESS}: nothing that was read clearly says so",
    "none": "no answer found",
}
"""Where the answer of a node comes from, in words for people."""
OMIT: Mapping[str, bool] = {"omit": True}
"""Metadata of a field that is left out of the JSON object while it has its default."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def typed_event(cls: type[_Event]) -> type[_Event]:
    """Make a class of events a frozen dataclass with slots and keywords only.

    `Event` has the methods that freeze and compare for all of them: `dataclass` would compile them for each of a
    hundred classes, which is most of the start of a command.
    """
    return dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)


@typed_event
class Event:
    """Something that happened; the trace sets `run` and the seconds `t`."""

    event: ClassVar[str] = ""
    run: str = field(default="", init=False, compare=False)
    t: float = field(default=0.0, init=False, compare=False)

    def __init_subclass__(cls) -> None:
        kind = cls.__dict__.get("kind")
        if cls.event == "decision" and isinstance(kind, str) and issubclass(cls, Decision):
            # dataclass(slots=True) creates the class a second time: the second replaces the first.
            _DECISIONS.setdefault(kind, {})[f"{cls.__module__}.{cls.__qualname__}"] = cls
        elif cls.event and "event" in cls.__dict__:
            _EVENTS[cls.event] = cls

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):  # a slot is empty until `__init__` sets it
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def __repr__(self) -> str:
        shown = (f"{part.name}={getattr(self, part.name)!r}" for part in dataclasses.fields(self))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in dataclasses.fields(self) if part.compare)

    def stamp(self, run: str, seconds: float) -> None:
        """Set the run and time of the event; called once, by the trace."""
        object.__setattr__(self, "run", run)
        object.__setattr__(self, "t", seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the event."""
        data: dict[str, Any] = {"event": self.event, "run": self.run, "t": self.t}
        for name, omits, default in _fields(type(self)):
            value = getattr(self, name)
            if not (omits and value == default):
                data[name] = value
        return data

    def add_to(self, view: GenerationView) -> None:
        """Add the event to the view of a generated text; by default do nothing."""


_EVENTS: dict[str, type[Event]] = {}
_DECISIONS: dict[str, dict[str, type[Decision]]] = {}
_FIELDS: dict[type[Event], tuple[tuple[str, bool, Any], ...]] = {}


def _fields(cls: type[Event]) -> tuple[tuple[str, bool, Any], ...]:
    """Return name, omission at its default, and default of each field of a type."""
    if cls not in _FIELDS:  # for mypy a class with its own `__hash__` is not hashable, as `cache` demands
        _FIELDS[cls] = tuple(
            (
                part.name,
                part.metadata.get("omit", False),
                part.default if part.default_factory is dataclasses.MISSING else part.default_factory(),
            )
            for part in dataclasses.fields(cls)
            if part.name not in ("run", "t", "details")
        )
    return _FIELDS[cls]


@typed_event
class Started(Event):
    """A question was asked; `fidelity` is how close to its paper the method is.

    `prompts` are the digests, by file name, of prompts that replace the package's own.
    """

    event: ClassVar[str] = "start"
    format: int = field(default=1, metadata=OMIT)
    question: str = ""
    question_id: str = ""
    type: str = ""
    hops: int | None = None
    language: str = field(default="", metadata=OMIT)  # of the conversation before the question
    method: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    roles: dict[str, str] = field(default_factory=dict)
    corpus: str | None = None
    graph: str | None = field(default=None, metadata=OMIT)
    prompts: dict[str, str] = field(default_factory=dict, metadata=OMIT)
    fidelity: str = ""
    version: str = ""


@typed_event
class Finished(Event):
    """The question has its answer, or failed; `stopped_by` is a limit of the budget."""

    event: ClassVar[str] = "final"
    answer: str = ""
    raw: str = ""
    source: str = ""
    support: list[str] = field(default_factory=list)
    abstained: bool = False
    stopped_by: str = ""
    error: str = field(default="", metadata=OMIT)
    error_message: str = field(default="", metadata=OMIT)


@typed_event
class NodeEvent(Event):
    """Something done for a node, or for the question itself if `node` is None."""

    node: int | None = field(default=None, metadata=OMIT)
    depth: int | None = field(default=None, metadata=OMIT)

    def place(self, node: int, depth: int) -> None:
        """Set the node of the event; called by the context, before it is recorded."""
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "depth", depth)


@typed_event
class Planned(Event):
    """A new plan, or nodes added `under` a node, replacing all there if `rebuilt`."""

    event: ClassVar[str] = "plan"
    under: int | None = field(default=None, metadata=OMIT)
    rebuilt: bool = field(default=False, metadata=OMIT)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)


@typed_event
class PlanRepaired(Event):
    """A fault of a plan was repaired or left out."""

    event: ClassVar[str] = "plan_issue"
    kind: str = ""
    node: int | None = None
    detail: str = ""


@typed_event
class NodeStarted(Event):
    """Work on a node began; `resolved` is its question with references filled in."""

    event: ClassVar[str] = "node"
    id: int
    state: str = "asking"
    resolved: str = ""


@typed_event
class NodeSettled(Event):
    """A node of the plan has its answer, or none.

    `why` is the method's reason, `branch` the part of the method that answered, `know` what the model said of its own
    knowledge. `hypothesis` is an answer guessed beforehand, `verdict` what evidence said of it, `struck` are those it
    replaced. `passages` are pairs of id and score. `details` is what only the method itself records.
    """

    event: ClassVar[str] = "node"
    id: int
    state: str
    parent: int | None = None
    question: str = ""
    refs: list[int] = field(default_factory=list)
    answer: str = ""
    source: str = "none"
    confidence: float | None = None
    evidence: list[str] = field(default_factory=list)
    resolved: str | None = field(default=None, metadata=OMIT)
    why: str = field(default="", metadata=OMIT)
    branch: str | None = field(default=None, metadata=OMIT)
    know: bool | None = field(default=None, metadata=OMIT)
    hypothesis: str | None = field(default=None, metadata=OMIT)
    verdict: str | None = field(default=None, metadata=OMIT)
    struck: list[str] | None = field(default=None, metadata=OMIT)
    facts: list[list[str]] | None = field(default=None, metadata=OMIT)
    tokens: int = 0
    ms: int = 0
    passages: list[list[Any]] | None = field(default=None, metadata=OMIT)
    details: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        # Named, since dataclass(slots=True) makes a new class that a bare super() does not know.
        return Event.as_dict(self) | self.details

    @property
    def outcome(self) -> str:
        """The verdict of the evidence, or the source of the answer, in words."""
        if self.verdict or self.source != "external":
            return self.verdict or SOURCE_WORDS.get(self.source, self.source)
        if self.facts:
            return "from documents and the graph" if self.evidence else "from the graph"
        return SOURCE_WORDS["external"] if self.evidence else "looked up"


@typed_event
class Warned(Event):
    """A warning for the user."""

    event: ClassVar[str] = "warning"
    kind: str = ""
    message: str = ""


@typed_event
class ChainWritten(Event):
    """A reasoning chain as text."""

    event: ClassVar[str] = "chain"
    text: str = ""


@typed_event
class ReplyParsed(Event):
    """A step parsed a reply, after `repairs`, or could not, because of `error`."""

    event: ClassVar[str] = "parse"
    step: str = ""
    ok: bool = True
    repairs: list[str] = field(default_factory=list)
    error: str = ""


@typed_event
class TextQuarantined(Event):
    """Sentences that address a model were left out of a prompt."""

    event: ClassVar[str] = "quarantine"
    passage: str = ""
    sentences: list[str] = field(default_factory=list)


@typed_event
class PassageTruncated(Event):
    """Only `kept` of a passage's words were shown."""

    event: ClassVar[str] = "truncated"
    passage: str = ""
    words: int = 0
    kept: int = 0


@typed_event
class Decision(NodeEvent):
    """A decision of a method; subclasses have a `kind`, and its grounds as fields.

    A subclass overrides the hooks that apply to it: `shown_line` stands below the answer, `reason` after "why:",
    `log_line` among the live lines of `ask`, `node_line` in `show --node`, and `node_record` is stored with the node.
    """

    event: ClassVar[str] = "decision"
    kind: ClassVar[str]
    shown_as: ClassVar[str] = ""
    value: Any = None

    def as_dict(self) -> dict[str, Any]:
        data = Event.as_dict(self)
        return {"event": "decision", "run": self.run, "t": self.t, "kind": self.kind, "value": data.pop("value")} | data

    def shown_line(self) -> str:
        """Return the line shown with the answer; "" if a tree or a text shows it."""
        return _describe(self.shown_as, self.as_dict()) if self.shown_as else ""

    def node_line(self) -> str:
        """Return the line for the record of a node, in words."""
        data = self.as_dict()
        return self.shown_line() or _describe(data["kind"].replace("_", " "), data)

    def reason(self) -> str:
        """Return what this decided about the final answer; "" for nothing."""
        return ""

    def decides_alone(self) -> bool:
        """Return whether this alone gave the answer, so that other reasons do not count."""
        return False

    def lowers_fidelity(self) -> bool:
        """Return whether the run is not exactly as in the method's paper."""
        return False

    def log_line(self) -> str:
        """Return the line for the log of a run; "" for none."""
        return ""

    def node_record(self) -> dict[str, Any]:
        """Return what the decision adds to the record of its node (`NodeSettled.details`)."""
        return {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def decision(kind: str, *, shown_as: str = "") -> Callable[[type[_Decision]], type[_Decision]]:
    """Register a subclass of `Decision` under a kind, and make it a `typed_event`.

    With `shown_as`, it is shown with the answer in a line that begins with this label; else a tree or a text shows it.
    """

    def register(cls: type[_Decision]) -> type[_Decision]:
        cls.kind, cls.shown_as = kind, shown_as
        return typed_event(cls)

    return register


@typed_event
class OtherDecision(Decision):
    """A decision of an unregistered kind: of another package or an older version."""

    name: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        data = Event.as_dict(self)
        head = {"event": "decision", "run": self.run, "t": self.t, "kind": data.pop("name"), "value": data.pop("value")}
        return head | data | self.details

    def shown_line(self) -> str:
        """Return the line, with the label of registered decisions of this kind."""
        labels = (cls.shown_as for cls in _DECISIONS.get(self.name, {}).values())
        return _describe(label, self.as_dict()) if (label := next(filter(None, labels), "")) else ""


def _describe(label: str, data: Mapping[str, Any]) -> str:
    from hoptree.engine.result_text import describe_decision  # it imports this module

    return describe_decision(label, data)


@typed_event
class OtherEvent(Event):
    """An event of an unregistered kind."""

    name: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"event": self.name, "run": self.run, "t": self.t, **self.details}


def make_event(kind: str, fields: Mapping[str, Any]) -> Event:
    """Build the typed event of a kind; unknown fields go into its `details`, if any."""
    if kind == "decision":
        return _make_decision(fields)
    if kind == "node":
        known, others = _split(NodeSettled, fields)
        if fields["state"] == "asking":
            return NodeStarted(id=fields["id"], resolved=fields.get("resolved", ""))
        return NodeSettled(**known, details=others)
    cls = _EVENTS.get(kind)
    return OtherEvent(name=kind, details=dict(fields)) if cls is None else cls(**_split(cls, fields)[0])


def _make_decision(fields: Mapping[str, Any]) -> Event:
    """Build the first type of this kind that has these fields and needs no others."""
    given = dict(fields)
    kind = str(given.pop("kind"))
    for cls in _DECISIONS.get(kind, {}).values():
        known, others = _split(cls, given)
        required = {name for name, _, default in _fields(cls) if default is dataclasses.MISSING}
        if not others and required <= known.keys():
            return cls(**known)
    known, others = _split(Decision, given)
    return OtherDecision(name=kind, **known, details=others)


def _split(cls: type[Event], fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    names = {name for name, _, _ in _fields(cls)}
    known = {name: value for name, value in fields.items() if name in names}
    return known, {name: value for name, value in fields.items() if name not in names}


def parse_event(data: Mapping[str, Any]) -> Event:
    """Turn a JSON object into its event; raise KeyError or TypeError if it is none."""
    fields = dict(data)
    kind, run, seconds = fields.pop("event"), fields.pop("run"), fields.pop("t")
    if not (isinstance(kind, str) and isinstance(run, str) and isinstance(seconds, int | float)):
        raise TypeError("event, run and t have other types")
    event = make_event(kind, fields)
    event.stamp(run, seconds)
    return event
