"""How a text was generated: its sentences, doubts, searches and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hoptree.engine.sentence_view import MEASURES, SentenceView, number
from hoptree.text.names import fold

if TYPE_CHECKING:
    from hoptree.engine.events import Event

_KEPT = ("added", "surer")  # outcomes of a fact that memory keeps


@dataclass(frozen=True, slots=True)
class Name:
    """A candidate name, the model's confidence, and the filter that dropped it."""

    name: str
    kind: str
    origin: str
    confidence: float | None
    dropped_by: str = ""


@dataclass(frozen=True, slots=True)
class ReadFact:
    """A fact that was read, its source and outcome; `turn` is the sentence, from 1."""

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
    """A query and its passages; `search` is the number of the search in the trace.

    `repeated` says that the same was searched for before.
    """

    query: str
    sought: tuple[str, ...] = ()
    repeated: bool = False
    search: int | None = None
    passages: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Part:
    """A sentence of the text, and what was done about it if it was in doubt.

    `shown` are the facts in the prompt when it was written `again`; `tried` are the passages it was written with, one
    at a time, each with the spread it left. `kept` is None if the run ended before it was known.
    """

    turn: int
    said: SentenceView
    names: tuple[Name, ...] = ()
    queries: list[SubQuery] = field(default_factory=list)
    skipped: ReadFact | None = None
    facts: list[ReadFact] = field(default_factory=list)
    shown: tuple[str, ...] = ()
    tried: tuple[tuple[str, float | None], ...] = ()
    left_out: tuple[str, ...] = ()
    again: SentenceView | None = None
    kept: bool | None = None

    @property
    def replaced(self) -> bool:
        return self.again is not None

    @property
    def final(self) -> str:
        return self.again.text if self.again is not None else self.said.text

    @property
    def outcome(self) -> str:
        """What became of the sentence, in words; "" if it simply stays."""
        undoubted = not self.said.triggered or self.replaced
        if self.kept is False:
            if undoubted:
                return "left out: it says nothing new"
            if not self.queries and self.skipped is None:
                return "left out: nothing may be searched for any more"
            return "left out: nothing was written in its place"
        if undoubted:
            return ""
        if self.kept is None:
            return "not written again"
        if not self.queries or not self.queries[-1].query:
            return "stays as it is: there is nothing to search with"
        reason = "this was searched for before" if self.queries[-1].repeated else "nothing new was found"
        return f"stays as it is: {reason}"


@dataclass(frozen=True, slots=True)
class Writing:
    """The parts of a text in order, the searches before them, and the final memory.

    `conflicts` are groups of contradicting facts, each with its passage; `answers` are the compared ones with their
    spread, and `taken` names the chosen one.
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
        """What was compared with the threshold, in words; "" without a sentence."""
        return MEASURES[self.parts[0].said.measure] if self.parts else ""

    @property
    def told_by(self) -> str:
        """The measure of each word's doubt, in nats; "" if there is none."""
        words = [word for part in self.parts for word in part.said.words if word.doubt is not None]
        return "" if not words else "entropy" if any(word.entropy is not None for word in words) else "−ln p"

    @property
    def skips(self) -> int:
        """The number of searches that memory made unnecessary."""
        return sum(part.skipped is not None for part in self.parts)


def read_writing(events: Iterable[Event]) -> Writing | None:
    """Return how the text of a trace was generated; None if it has no such sentences."""
    view = GenerationView()
    for event in events:
        event.add_to(view)
    return view.finish() if view.parts or view.stopped else None


class GenerationView:
    """The state of a text while its events, in their order, add themselves."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.extracted: tuple[str, ...] = ()
        self.conflicts: tuple[tuple[tuple[str, ...], ...], ...] = ()
        self.missing: tuple[str, ...] = ()
        self.stopped = ""
        self.final_text: str | None = None  # None while it is being written
        self.asked_for_answer = False
        self.answers: tuple[tuple[str, str, float | None], ...] = ()
        self.taken = ""
        self._first: list[SubQuery] = []
        self._titles: dict[str, str] = {}
        self._searches = 0
        self._held: dict[tuple[str, ...], ReadFact] = {}

    @property
    def part(self) -> Part:
        return self.parts[-1] if self.parts else Part(0, SentenceView(""))

    def write(self, sentence: SentenceView, *, rewritten: bool = False) -> None:
        """Add a sentence, or the text that replaces the last one."""
        if not rewritten:
            self.parts.append(Part(len(self.parts) + 1, sentence))
        elif sentence.text:
            self.part.again = sentence

    def ask(self, query: str, sought: Sequence[str] = (), *, repeated: bool = False) -> None:
        """Add a query that the last sentence caused."""
        self.part.queries.append(SubQuery(query, tuple(map(str, sought)), repeated))

    def mask(self, beta: Any) -> None:
        """Leave words less probable than `beta` out of the query."""
        limit = number(beta)
        chances = ((word.text, word.probability) for word in self.part.said.words)
        self.part.left_out = tuple(
            text for text, chance in chances if limit is not None and chance is not None and chance < limit
        )

    def find(self, query: str, passages: Sequence[Mapping[str, Any]]) -> None:
        """Add the passages of a search to the last query, or to a new one."""
        ids_and_titles = tuple((str(passage["id"]), str(passage["title"])) for passage in passages)
        self._titles |= dict(ids_and_titles)
        queries = self.part.queries if self.parts else self._first
        asked = queries.pop() if queries and queries[-1].search is None else SubQuery(str(query))
        queries.append(replace(asked, search=self._searches, passages=ids_and_titles))
        self._searches += 1

    def read_fact(self, fact: Sequence[str], confidence: Any, passage: Any, sentence: Any, outcome: str) -> None:
        """Add a fact that was read, and remember it if memory kept it."""
        read = self._fact(fact, confidence, passage, sentence, outcome)
        self.part.facts.append(read)
        if outcome in _KEPT:
            self._held[tuple(map(fold, read.fact))] = read

    def use_fact(self, fact: Sequence[str], confidence: Any, passage: Any, sentence: Any) -> None:
        """Add a fact of memory that made a search unnecessary."""
        self.part.skipped = self._fact(fact, confidence, passage, sentence, "used")

    def _fact(self, fact: Sequence[str], confidence: Any, passage: Any, sentence: Any, outcome: str) -> ReadFact:
        name = str(passage or "")
        title = self._titles.get(name, "")
        return ReadFact(tuple(map(str, fact)), number(confidence), name, title, str(sentence), outcome, len(self.parts))

    def finish(self) -> Writing:
        self._mark_kept()
        return Writing(
            parts=tuple(self.parts),
            first=tuple(self._first),
            extracted=self.extracted,
            facts=tuple(self._held.values()),
            conflicts=self.conflicts,
            missing=self.missing,
            stopped=self.stopped,
            asked_for_answer=self.asked_for_answer,
            answers=self.answers,
            taken=self.taken,
        )

    def _mark_kept(self) -> None:
        """Mark the sentences in the final text; before its end, all but a doubted last."""
        at = 0
        for part in self.parts:
            if self.final_text is None:
                part.kept = None if part is self.parts[-1] and part.said.triggered and part.again is None else True
                continue
            place = self.final_text.find(part.final, at)
            part.kept = bool(part.final) and place >= 0
            at = place + len(part.final) if part.kept else at
