"""MIND's memory of one question: facts with confidence and source."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from hoptree.core.values import Fact, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Event, typed_event
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.prompts import number_lines, prompt_for, show_texts
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.fact_extraction import Triple, ground_triples, object_confidences, read_triples
from hoptree.text.names import fold
from hoptree.text.relation_words import settles_doubt
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, find_mentions
from hoptree.text.tokens import Span

_LEARN_TOKENS = 256
_MAX_FACTS = 8  # facts that are asked for, and taken, of one search
Outcome = Literal["added", "surer", "known", "unsure"]
"""What became of a fact: new, known with less confidence, known, or too unsure to enter."""


@typed_event
class FactRead(Event):
    """A fact read in a passage; `op` is its outcome, or "not stated"."""

    event: ClassVar[str] = "memory"
    op: str
    step: int = 0
    fact: list[str] = field(default_factory=list)
    confidence: float | None = None
    passage: str | None = None
    sentence: str = ""

    def add_to(self, view: GenerationView) -> None:
        view.read_fact(self.fact, self.confidence, self.passage, self.sentence, self.op)


@dataclass(frozen=True, slots=True)
class RememberedFact:
    """A fact with its sentence, title and the step at which it was read."""

    fact: Fact
    sentence: str = ""
    title: str = ""
    step: int = 0

    @property
    def triple(self) -> Triple:
        return self.fact.subject, self.fact.relation, self.fact.object


class FactMemory:
    """The facts of one question; those below `least` confidence do not enter."""

    def __init__(self, least: float = 0.5) -> None:
        self._least = least
        self._facts: dict[tuple[str, ...], RememberedFact] = {}

    def __len__(self) -> int:
        return len(self._facts)

    def add(self, remembered: RememberedFact) -> Outcome:
        """Add a fact; of two readings of the same fact the surer one stays."""
        fact = remembered.fact
        if not fact.confidence >= self._least:
            return "unsure"
        key = tuple(map(fold, remembered.triple))
        before = self._facts.get(key)
        if before is not None and before.fact.confidence >= fact.confidence:
            return "known"
        self._facts[key] = remembered
        return "added" if before is None else "surer"

    def answers(self, sentence: str, sought: AbstractSet[str], *, hits: Sequence[Span] = ()) -> RememberedFact | None:
        """Return the surest fact about a subject of the sentence and this relation."""
        settling = (known for known in self._facts.values() if settles_doubt(known.triple, sentence, sought, hits))
        return max(settling, key=lambda known: known.fact.confidence, default=None)

    def conflicts(self) -> list[list[list[str]]]:
        """Return facts that give one subject and relation different objects."""
        groups = (group for group in self._groups() if _conflict(group))
        return [[[*remembered.triple, remembered.fact.passage_id] for remembered in group] for group in groups]

    def render(self, most: int = 3, *, first: RememberedFact | None = None, about: str = "") -> str:
        """Render the surest facts, the latest of equals first, one a line.

        `first` comes before all others, then facts whose subject the text `about` names.
        """
        groups = self._groups()
        groups.sort(key=lambda group: (first not in group, not find_mentions(group[0].fact.subject, about)))
        return "\n".join(map(_line, groups[:most]))

    def _groups(self) -> list[list[RememberedFact]]:
        """Group facts of one subject and relation, surest first."""
        groups: dict[tuple[str, str], list[RememberedFact]] = {}
        ranked = sorted(self._facts.items(), key=lambda item: (-item[1].fact.confidence, -item[1].step))
        for (subject, relation, _), remembered in ranked:
            groups.setdefault((subject, relation), []).append(remembered)
        return list(groups.values())


def _conflict(group: Sequence[RememberedFact]) -> bool:
    sources = {remembered.fact.passage_id for remembered in group}
    return len(sources) > 1 and len({fold(remembered.fact.object) for remembered in group}) > 1


def _line(group: Sequence[RememberedFact]) -> str:
    fact = group[0].fact
    objects = list(dict.fromkeys((remembered.fact.object, remembered.title) for remembered in group))
    if _conflict(group):
        values = " or ".join(f'{value} (by "{title}")' for value, title in objects) + "; the sources differ"
    else:
        values = ", ".join(dict.fromkeys(value for value, _ in objects))
    return f"- {fact.subject} | {fact.relation} | {values}"


async def learn(
    ctx: Context, memory: FactMemory, question: str, names: Sequence[str], passages: Sequence[Passage], *, step: int
) -> None:
    """Add to a memory what passages state about these names.

    The names of a fact that enters count for the following facts, so that one hop leads to the next. A fact must have
    its names in a passage. Its confidence is the probability of the least likely token of its object, 0.5 if unknown.
    """
    if not passages or not names:
        return
    parts = [Passage(passage.id, "", text) for passage in passages for text in (passage.title, passage.text)]
    clean = [text.strip() for text in show_texts(ctx, parts, titles=False)]
    shown = [
        Passage(passage.id, title, text) for passage, title, text in zip(passages, clean[::2], clean[1::2], strict=True)
    ]
    listed = number_lines(f"{passage.title}: {passage.text}" for passage in shown)
    prompt = prompt_for(ctx.method, "facts").fill(
        passages=listed, names=", ".join(names), question=question, most=str(_MAX_FACTS)
    )
    logprobs = 1 if "logprobs" in ctx.model_for("extract").capabilities else 0
    reply = await ctx.generate(
        "facts", prompt, role="extract", max_tokens=_LEARN_TOKENS, top_logprobs=logprobs, part=True
    )
    reading = read_triples(reply.text, cut=reply.finish == "length")
    note_reply(ctx, "facts", "" if reading.understood else "no fact")
    confidences = object_confidences(reply.text, reply.choices[0].tokens, reading.triples, default=NEUTRAL_CONFIDENCE)
    # Only the first reading of a triple counts: the model is sure of copies.
    first: dict[tuple[str, ...], tuple[Triple, float]] = {}
    for triple, confidence in zip(reading.triples, confidences, strict=True):
        first.setdefault(tuple(map(fold, triple)), (triple, confidence))
    near = [*names]
    for triple, confidence in list(first.values())[:_MAX_FACTS]:
        read: dict[str, Any] = {"step": step, "confidence": round(confidence, 4)}
        stated = _stated(triple, near, shown, confidence, step)
        if stated is None:
            ctx.emit(FactRead(op="not stated", fact=[*triple], **read))
            continue
        outcome, fact = memory.add(stated), stated.fact
        if outcome != "unsure":
            near += (fact.subject, fact.object)
        ctx.emit(FactRead(op=outcome, fact=[*stated.triple], passage=fact.passage_id, sentence=stated.sentence, **read))


def _stated(
    triple: Triple, names: Sequence[str], shown: Sequence[Passage], confidence: float, step: int
) -> RememberedFact | None:
    """Return the fact as the first passage states it, if about one of the names."""
    subject, _, value = triple
    about = f"{subject} . {value}"
    if not any(find_mentions(n, about) or find_mentions(subject, n) or find_mentions(value, n) for n in names):
        return None
    for passage in shown:
        for stated in ground_triples([triple], passage.title, passage.text)[0]:
            fact = Fact(stated.subject, stated.relation, stated.object, confidence, passage.id)
            return RememberedFact(fact, stated.sentence, passage.title, step)
    return None
