"""How a text came about sentence by sentence, read off its trace: doubts, searches, memory, and what was rewritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hoptree.engine.events import Event
from hoptree.engine.sentence_view import MEASURES, Said, number, read_said
from hoptree.text.names import fold

_OF_WRITING = ("sentence", "step", "stop")
"""Decisions that only methods take which write sentence by sentence."""
_KEPT = ("added", "surer")
"""What becomes of a fact that is in memory from then on."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name that could be searched for, how sure the model was of it, and the filter that dropped it, if one did."""

    name: str
    kind: str
    origin: str
    confidence: float | None
    dropped_by: str = ""


@dataclass(frozen=True, slots=True)
class ReadFact:
    """A fact that was read: where it stands, what became of it, and in which sentence's turn (from 1) it was read."""

    fact: tuple[str, ...]
    confidence: float | None
    passage: str
    title: str
    sentence: str
    outcome: str
    turn: int

    @property
    def text(self) -> str:
        return " | ".join(self.fact)


@dataclass(frozen=True, slots=True)
class SubQuery:
    """What was searched for, and what came; `search` is the number of that search among all of the trace.

    `again` says that names were tried that a filter had dropped, `repeated` that it was searched for before.
    """

    query: str
    sought: tuple[str, ...] = ()
    again: bool = False
    repeated: bool = False
    search: int | None = None
    passages: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Part:
    """One sentence of the text, and all that was done about it if it was in doubt.

    `shown` are the facts that stood before the question when it was written `again`, `tried` the passages it was
    written with, one at a time, with the spread that each left. `kept` is None where the run ended before it was known.
    """

    turn: int
    said: Said
    names: tuple[Name, ...] = ()
    in_doubt: tuple[str, ...] = ()
    queries: list[SubQuery] = field(default_factory=list)
    skipped: ReadFact | None = None
    facts: list[ReadFact] = field(default_factory=list)
    shown: tuple[str, ...] = ()
    tried: tuple[tuple[str, float | None], ...] = ()
    left_out: tuple[str, ...] = ()
    again: Said | None = None
    surer: bool = True
    kept: bool | None = None

    @property
    def replaced(self) -> bool:
        return self.again is not None and self.surer

    @property
    def final(self) -> str:
        return self.again.text if self.again is not None and self.surer else self.said.text

    @property
    def outcome(self) -> str:
        """What became of the sentence, where that needs saying."""
        if self.kept is False:
            return f"left out: {self._why_it_is_lost}"
        if not self.said.triggered or self.replaced:
            return ""
        if self.kept is None:
            return "not written again"
        return f"stays as it is: {self._why_it_stays}"

    @property
    def _why_it_is_lost(self) -> str:
        if not self.said.triggered or self.replaced:
            return "it says nothing new"
        if not self.queries and self.skipped is None:
            return "nothing may be searched for any more"
        return "nothing was written in its place"

    @property
    def _why_it_stays(self) -> str:
        if self.again is not None:
            return "what was written again is no surer"
        if not self.queries or not self.queries[-1].query:
            return "there is nothing to search with"
        return "this was searched for before" if self.queries[-1].repeated else "nothing new was found"


@dataclass(frozen=True, slots=True)
class Writing:
    """The parts of a text in order, what was searched for before the first, and what memory held at the end.

    `conflicts` are groups of facts that contradict each other, each with its passage; `answers` are those that were
    weighed, with their spread, and `taken` tells which counts.
    """

    parts: tuple[Part, ...]
    first: tuple[SubQuery, ...] = ()
    extracted: tuple[str, ...] = ()
    facts: tuple[ReadFact, ...] = ()
    conflicts: tuple[tuple[tuple[str, ...], ...], ...] = ()
    missing: tuple[str, ...] = ()
    stopped: str = ""
    asked_for_answer: bool = False
    answers: tuple[tuple[str, str, float | None], ...] = ()
    taken: str = ""

    @property
    def explained(self) -> str:
        """What was held against a threshold, and "" where no sentence was."""
        return MEASURES[self.parts[0].said.measure] if self.parts else ""

    @property
    def told_by(self) -> str:
        """What tells the doubt of each word, in nats; "" where nothing does."""
        words = [word for part in self.parts for word in part.said.words if word.doubt is not None]
        return "" if not words else "entropy" if any(word.entropy is not None for word in words) else "−ln p"

    @property
    def skips(self) -> int:
        """Searches that memory spared."""
        return sum(part.skipped is not None for part in self.parts)


def read_writing(events: Sequence[Event]) -> Writing | None:
    """The writing of a trace; None of methods that write without doubting.

    Events follow each other as the loop goes: a sentence, then what was done about it, then the sentence again.
    """
    if not any(event["event"] == "decision" and event.get("kind") in _OF_WRITING for event in events):
        return None
    reader = _Reader()
    for event in events:
        reader.take(event)
    return reader.finished() if reader.found else None


class _Reader:
    """Takes events in their order."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._first: list[SubQuery] = []
        self._titles: dict[str, str] = {}
        self._searches = 0
        self._held: dict[tuple[str, ...], ReadFact] = {}
        self._last: dict[str, Mapping[str, Any]] = {}

    def take(self, event: Event) -> None:
        if event["event"] == "retrieve":
            self._on_retrieve(event)
        elif event["event"] == "memory":
            self._on_fact(event)
        elif event["event"] == "decision":
            kind = str(event.get("kind"))
            self._last[kind] = event
            if way := _WAYS.get(kind):
                way(self, event)

    @property
    def found(self) -> bool:
        return bool(self.parts) or "stop" in self._last

    def _on_sentence(self, event: Event) -> None:
        if event.get("rewritten") is not True:
            self._begin(event)
        elif self.parts and event.get("text"):
            self.parts[-1].again = read_said(event)

    def _on_filtered(self, event: Event) -> None:
        if self.parts:
            self.parts[-1].names = tuple(
                Name(str(name), str(kind), str(origin), number(sure), str(dropped_by or ""))
                for name, kind, origin, sure, dropped_by in event["candidates"]
            )
            self.parts[-1].in_doubt = _texts(event.get("in_doubt", ()))

    def _on_sub_query(self, event: Event) -> None:
        if not self.parts:
            return
        part = self.parts[-1]
        again, repeated = event.get("again") is True, event.get("repeated") is True
        part.queries.append(
            SubQuery(str(event["value"]), _texts(event.get("sought", ())), again=again, repeated=repeated)
        )
        beta = number(event.get("beta"))
        chances = ((word.text, word.probability) for word in part.said.words)
        part.left_out = tuple(
            text for text, chance in chances if beta is not None and chance is not None and chance < beta
        )

    def _on_retrieve(self, event: Event) -> None:
        found = tuple((str(passage["id"]), str(passage["title"])) for passage in event["passages"])
        self._titles |= dict(found)
        into = self.parts[-1].queries if self.parts else self._first
        asked = into.pop() if into and into[-1].search is None else SubQuery(str(event.get("query", "")))
        into.append(SubQuery(asked.query, asked.sought, asked.again, asked.repeated, self._searches, found))
        self._searches += 1

    def _on_memory(self, event: Event) -> None:
        if self.parts:
            self.parts[-1].shown = _texts(event["value"])

    def _on_fact(self, event: Event) -> None:
        fact = self._fact(event, str(event["op"]))
        if self.parts:
            self.parts[-1].facts.append(fact)
        if fact.outcome in _KEPT:
            self._held[tuple(map(fold, fact.fact))] = fact

    def _on_skipped(self, event: Event) -> None:
        if self.parts:
            self.parts[-1].skipped = self._fact(event, "used")

    def _on_accepted(self, event: Event) -> None:
        if self.parts:
            self.parts[-1].surer = event["value"] is True

    def _on_document(self, event: Event) -> None:
        if not self.parts:
            return
        tried = tuple((str(name), number(spread)) for name, spread in event["tried"])
        self.parts[-1].tried = tried
        if event.get("text"):
            told = {"text": event["text"], "tokens": event.get("tokens", ()), "spread": dict(tried).get(event["value"])}
            self.parts[-1].again = read_said(told)

    def finished(self) -> Writing:
        self._mark_kept()
        last = self._last
        return Writing(
            tuple(self.parts),
            tuple(self._first),
            tuple(str(name) for name, _ in last.get("extracted", {}).get("value", ())),
            tuple(self._held.values()),
            _conflicts(last.get("memory", {}).get("conflicts", ())),
            _texts(last.get("fidelity", {}).get("missing", ())),
            str(last.get("stop", {}).get("value", "")),
            "no_answer_phrase" in last,
            tuple(
                (str(way), str(text), number(spread))
                for way, text, spread in last.get("answers", {}).get("answers", ())
            ),
            str(last.get("answers", {}).get("value", "")),
        )

    def _begin(self, event: Event) -> None:
        self.parts.append(Part(len(self.parts) + 1, read_said(event)))

    def _fact(self, event: Event, outcome: str) -> ReadFact:
        passage = str(event.get("passage") or "")
        return ReadFact(
            _texts(event["fact"]),
            number(event.get("confidence")),
            passage,
            self._titles.get(passage, ""),
            str(event.get("sentence", "")),
            outcome,
            len(self.parts),
        )

    def _mark_kept(self) -> None:
        """A sentence is kept if the text has it, behind those before; without an end, only the last may not be."""
        stop = self._last.get("stop")
        text, at = str((stop or {}).get("text", "")), 0
        for part in self.parts:
            if stop is None:
                part.kept = None if part is self.parts[-1] and part.said.triggered and part.again is None else True
                continue
            place = text.find(part.final, at)
            part.kept = bool(part.final) and place >= 0
            at = place + len(part.final) if part.kept else at


_WAYS: dict[str, Callable[[_Reader, Event], None]] = {
    "sentence": _Reader._on_sentence,
    "step": _Reader._begin,
    "filtered": _Reader._on_filtered,
    "sub_query": _Reader._on_sub_query,
    "memory": _Reader._on_memory,
    "skipped": _Reader._on_skipped,
    "accepted": _Reader._on_accepted,
    "document": _Reader._on_document,
}
"""What is done about a decision of each kind. Here, and not in every reader: one that held its own methods would be a
cycle, which only the collector of garbage could take away."""


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _conflicts(groups: Sequence[Sequence[Sequence[Any]]]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return tuple(tuple(_texts(fact) for fact in group) for group in groups)
