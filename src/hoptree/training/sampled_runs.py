"""A sampled run of hop: readings, plans, and their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hoptree.core.values import Passage
from hoptree.engine.events import Event, NodeSettled, Planned
from hoptree.engine.prompts import show_passages
from hoptree.engine.trace import ModelCalled, Retrieved
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.rows import spaced
from hoptree.evaluation.metrics import best_overlap, contains, exact_match, normalise, yes_no
from hoptree.methods.hop.method import RankedAnswers
from hoptree.methods.hop.reading import parse_reading
from hoptree.text.parse import clean_answer, find_refusal
from hoptree.text.question_tree import Node, Plan, resolve
from hoptree.training.hop_gold import SENTENCE
from hoptree.training.hop_passages import MIN_SENTENCE_WORDS, answer_in, is_titled, shown_text, spelled
from hoptree.training.labelled_passages import CLOSED_ANSWERS
from hoptree.training.recording import Exchange, Recorded

_READ = "hop/trained_read"


@dataclass(frozen=True)
class SampledReading:
    """A reading: the copied sentence, the answer ("" if none), and the passages."""

    exchange: Exchange
    sentence: str
    answer: str
    shown: tuple[Passage, ...]

    @cached_property
    def cited(self) -> tuple[Passage, ...]:
        """The shown passages that contain the copied sentence."""
        if len(self.sentence.split()) < MIN_SENTENCE_WORDS:
            return ()
        return tuple(passage for passage in self.shown if self.sentence in shown_text(passage))

    @property
    def is_stated(self) -> bool:
        """Whether the copied sentence contains the answer, or is on its page."""
        if normalise(self.answer) in CLOSED_ANSWERS:
            return bool(self.cited)
        named = any(is_titled(passage, self.answer) for passage in self.cited)
        return bool(self.cited) and (named or bool(spelled(self.sentence, self.answer)))

    def target(self, answers: Sequence[str] = ()) -> str:
        """Return the reply to learn, with the answer spelled as in the sentence."""
        given = self.answer
        if answers and not exact_match(given, answers):
            given = answer_in(self.sentence, answers) or given
        closed = normalise(given)
        return f"{closed if closed in CLOSED_ANSWERS else given}{SENTENCE}{self.sentence}"


@dataclass(frozen=True, slots=True)
class SampledPart:
    """A part of a plan: its readings, and whether passages support it."""

    number: int
    supported: bool
    readings: tuple[SampledReading, ...]


@dataclass(frozen=True, slots=True)
class SampledPlan:
    """A plan as it was carried out, with its answer."""

    plan: Plan
    parts: tuple[SampledPart, ...]
    last: SampledReading | None  # the last reading; None where code computed the answer
    answer: str


@dataclass(frozen=True, slots=True)
class SampledRun:
    """A sample: the first reading, and the plan."""

    direct: SampledReading | None
    plan: SampledPlan | None


_Seen = dict[str, dict[str, Passage]]  # passages by the line that a prompt shows, and by id


def read_run(run: Recorded) -> SampledRun:
    """Return the readings and plans in the events of hop with trained=on."""
    exchanges = {id(exchange.call): exchange for exchange in run.exchanges}
    seen: _Seen = {}
    direct: SampledReading | None = None
    plan: SampledPlan | None = None
    events: list[Event] = []  # of the current move
    for event in run.events:
        if not isinstance(event, RankedAnswers):
            events.append(event)
            for hit in event.passages if isinstance(event, Retrieved) else ():
                passage = Passage(hit["id"], hit["title"], hit["text"])
                seen.setdefault(show_passages(None, [passage], titles=True), {})[passage.id] = passage
            continue
        calls = [exchanges[id(event)] for event in events if isinstance(event, ModelCalled)]
        if event.after == "read":
            readings = _readings(calls, seen)
            direct = readings[0] if readings else None
        elif event.after == "split":
            plan = _plan(event, events, calls, seen)
        events = []
    return SampledRun(direct, plan)


def _readings(calls: Sequence[Exchange], seen: _Seen) -> list[SampledReading]:
    readings = []
    for exchange in calls:
        if exchange.prompt != _READ:
            continue
        lines = exchange.messages[-1].content.split("\n")
        shown = tuple(passage for line in lines for passage in seen.get(line, {}).values())
        text, copied, _ = parse_reading(exchange.reply)
        copied = "" if exchange.call.finish == "length" else copied  # it may be incomplete
        answer = "" if not text or find_refusal(text) else clean_answer(text)
        readings.append(SampledReading(exchange, " ".join(copied.split()), answer, shown))
    return readings


def _plan(move: RankedAnswers, events: Sequence[Event], calls: Sequence[Exchange], seen: _Seen) -> SampledPlan | None:
    planned = [event for event in events if isinstance(event, Planned)]
    nodes = planned[-1].nodes if planned else []
    settled = {event.id: event for event in events if isinstance(event, NodeSettled)}
    # Claims about two things are checked by another prompt, not by a reading.
    if not nodes or not all(node["id"] in settled and "supported" in settled[node["id"]].details for node in nodes):
        return None
    of_node = {number: [call for call in calls if call.call.node == number] for number in settled}
    parts = tuple(
        SampledPart(number, bool(event.details.get("supported")), tuple(_readings(of_node[number], seen)))
        for number, event in settled.items()
    )
    last = _readings([call for call in calls if call.call.step == "final"], seen)
    computed = [standing["answer"] for standing in move.value if move.after in standing["ways"]]
    answer = last[-1].answer if last else computed[0] if computed else ""
    return SampledPlan(_renumbered(nodes), parts, last[-1] if last else None, answer)


def _renumbered(nodes: Sequence[Mapping[str, object]]) -> Plan:
    """Return recorded nodes as a plan, numbered from 1."""
    numbers = {node["id"]: place for place, node in enumerate(nodes, 1)}
    names = {int(str(old)): f"#query{new}" for old, new in numbers.items()}
    by_number: dict[int, Node] = {}
    for node in nodes:
        parent, refs = numbers.get(node["parent"]), node["refs"]
        assert isinstance(refs, list)
        number, depth = numbers[node["id"]], by_number[parent].depth + 1 if parent in by_number else 1
        question = resolve(str(node["question"]), names)
        by_number[number] = Node(number, question, parent, depth, tuple(numbers[ref] for ref in refs if ref in numbers))
    return Plan(tuple(by_number.values()))


class Gold:
    """The accepted answers of a question, and the gold passages of its steps."""

    def __init__(self, example: Example, right_f1: float | None) -> None:
        self.answers, self._right_f1 = example.answers, right_f1
        self.closed = bool(self.answers) and normalise(self.answers[0]) in CLOSED_ANSWERS
        self._by_id = bool(example.supporting_ids)
        names = example.supporting_ids or tuple(map(spaced, example.supporting_titles))
        steps = example.hop_ids if self._by_id else [[*map(spaced, titles)] for titles in example.hop_titles]
        # For a one-hop question, each gold passage alone is enough.
        alone = [{*names}] if example.hops == 1 else [{name} for name in names]
        self._steps = [{*step} for step in steps if step] or [step for step in alone if step]

    def is_right(self, answer: str) -> bool:
        """Return whether an answer is correct, by F1 or by containing an accepted one."""
        if (verdict := yes_no(answer, self.answers)) is not None:
            return verdict > 0
        shared = best_overlap(answer, self.answers).f1
        if self._right_f1 is not None:
            return shared >= self._right_f1
        return shared >= 1 or contains(answer, self.answers)

    @property
    def known(self) -> bool:
        """Whether gold passages are known."""
        return bool(self._steps)

    def lacks(self, passages: Sequence[Passage]) -> bool:
        """Return whether a step has none of its gold passages among these."""
        names = self._names(passages)
        return any(not step & names for step in self._steps)

    def rests_on(self, passages: Sequence[Passage]) -> bool:
        """Return whether one of these is a gold passage, or none is known."""
        return not self._steps or bool(set().union(*self._steps) & self._names(passages))

    def _names(self, passages: Sequence[Passage]) -> set[str]:
        return {passage.id if self._by_id else spaced(passage.title) for passage in passages}

    def why_not_reading(self, reading: SampledReading) -> str:
        """Return why a reading is not correct by its evidence, or ""."""
        if not reading.answer or not self.is_right(reading.answer):
            return "wrong"
        if not reading.is_stated:
            return "right, and no sentence that was shown says so"
        if not self.rests_on(reading.cited) or self.lacks(reading.shown):
            return "right, and not from the gold passages"
        return ""

    def why_not_plan(self, plan: SampledPlan) -> str:
        """Return why a plan is not correct by its evidence, or ""."""
        if not plan.answer:
            return "without an answer"
        if not self.is_right(plan.answer):
            return "wrong"
        if not all(part.supported for part in plan.parts):
            return "right, and a part was not answered from passages"
        readings = [part.readings[-1] for part in plan.parts if part.readings]
        if len(readings) < len(plan.parts) or not all(reading.is_stated for reading in readings):
            return "right, and no sentence that was shown says the answer of a part"
        if self.lacks([passage for reading in readings for passage in reading.cited]):
            return "right, and not from the gold passages"
        return ""
