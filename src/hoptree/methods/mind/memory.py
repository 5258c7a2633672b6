"""MIND's memory of one question: facts that passages state about kept names, with confidence and source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hoptree.core.values import Fact, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Event
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.evidence import number_lines, show_texts
from hoptree.methods.steps.fact_extraction import StatedFact, ground_triples
from hoptree.models.model import Choice
from hoptree.text.names import fold, sentences
from hoptree.text.parse_triples import Triple, read_triples
from hoptree.text.quantities import date_spans
from hoptree.text.relation_words import asks_for, is_inverse, relation_is_of, relation_key, states_relation
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, find_mentions
from hoptree.text.tokens import Span, token_spans
from hoptree.text.uncertainty import token_probability

_LEARN_TOKENS = 256
_MAX_FACTS = 8
"""Facts that are asked for, and taken, of one search."""
_OTHER_CLAUSE = re.compile(r";|\b(?:but|while|whereas|although|though)\b|\b(?:and|or)\s+[^\W\d_a-z]")
_COMPARES = re.compile(r"\b(?:before|after|than|as|like|unlike)\b")
Outcome = Literal["added", "surer", "known", "unsure"]
"""What became of a fact: it is new, it was there with less confidence, it was there, or it is too unsure."""
_Sort = Literal["date", "name", "phrase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRead(Event):
    """A fact was read in a passage; `op` is its outcome, or "not stated" where no passage states it."""

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
class Held:
    """A fact, the sentence that states it, the title it stands under, and the step at which it was read."""

    fact: Fact
    sentence: str = ""
    title: str = ""
    step: int = 0


class FactMemory:
    """The facts of one question; those below `least` confidence do not enter."""

    def __init__(self, least: float = 0.5) -> None:
        self._least = least
        self._held: dict[tuple[str, str, str], Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, held: Held) -> Outcome:
        """Take a fact in; of the same fact read twice the surer reading stays."""
        fact = held.fact
        if not fact.confidence >= self._least:
            return "unsure"
        key = (fold(fact.subject), fold(fact.relation), fold(fact.object))
        before = self._held.get(key)
        if before is not None and before.fact.confidence >= fact.confidence:
            return "known"
        self._held[key] = held
        return "added" if before is None else "surer"

    def answers(self, sentence: str, sought: AbstractSet[str], *, hits: Sequence[Span] = ()) -> Held | None:
        """Return the surest fact that says what a sentence is about to: of a subject it names, and of this relation.

        What the subject is to another is not what that is to it: "Anna is the mother of" says nothing of her mother.
        `hits` are the uncertain words: a date settles no uncertain name, and a name no date. Those in the subject tell
        nothing of what is said about it. No fact settles those in another clause, or a name that the subject is only
        compared to.
        """

        def settles(fact: Fact) -> bool:
            subject = find_mentions(fact.subject, sentence)
            outside = [hit for hit in hits if not _overlaps(hit, subject)]
            inverse = relation_is_of(fact.subject, fact.relation, sentence) is False
            return (
                bool(subject)
                and asks_for(sought, relation_key(fact.relation))
                and inverse is is_inverse(fact.relation)
                and _fits(fact.object, _sorts(sentence, outside))
                and all(_is_said_of(subject, hit, sentence) for hit in outside)
            )

        settling = (held for held in self._held.values() if settles(held.fact))
        return max(settling, key=lambda held: held.fact.confidence, default=None)

    def conflicts(self) -> list[list[list[str]]]:
        """Return facts that give one subject different objects of one relation, and do not come from one passage."""
        return [
            [[held.fact.subject, held.fact.relation, held.fact.object, held.fact.passage_id] for held in group]
            for group in self._groups()
            if _conflict(group)
        ]

    def render(self, most: int = 3, *, first: Held | None = None, about: str = "") -> str:
        """Render the surest facts, of equals the latest first, one a line; contradictions stand together.

        Those whose subject is named in the text `about` come before all others but the one that is to be `first`.
        """
        groups = self._groups()
        groups.sort(key=lambda group: (first not in group, not find_mentions(group[0].fact.subject, about)))
        return "\n".join(map(_line, groups[:most]))

    def _groups(self) -> list[list[Held]]:
        """Group facts of one subject and relation, surest first."""
        groups: dict[tuple[str, str], list[Held]] = {}
        ranked = sorted(self._held.items(), key=lambda item: (-item[1].fact.confidence, -item[1].step))
        for (subject, relation, _), held in ranked:
            groups.setdefault((subject, relation), []).append(held)
        return list(groups.values())


def _conflict(group: Sequence[Held]) -> bool:
    sources = {held.fact.passage_id for held in group}
    return len(sources) > 1 and len({fold(held.fact.object) for held in group}) > 1


def _line(group: Sequence[Held]) -> str:
    fact = group[0].fact
    objects = list(dict.fromkeys((held.fact.object, held.title) for held in group))
    if len({held.fact.passage_id for held in group}) > 1 and len({value for value, _ in objects}) > 1:
        values = " or ".join(f'{value} (by "{title}")' for value, title in objects) + "; the sources differ"
    else:
        values = ", ".join(dict.fromkeys(value for value, _ in objects))
    return f"- {fact.subject} | {fact.relation} | {values}"


def _overlaps(hit: Span, places: Sequence[Span]) -> bool:
    return any(first < hit[1] and hit[0] < last for first, last in places)


def _is_said_of(subject: Sequence[Span], hit: Span, sentence: str) -> bool:
    """Return whether an uncertain word is in one clause with the subject next to it, and not compared to it."""
    first, last = hit
    apart = (sentence[end:first] if end <= first else sentence[last:start] for start, end in subject)
    between = min(apart, key=len)
    if _OTHER_CLAUSE.search(between):
        return False
    return _sorts(sentence, [hit]) == {"date"} or not _COMPARES.search(between)


def _sorts(sentence: str, hits: Iterable[Span]) -> set[_Sort]:
    """Return what sort of thing each uncertain word is, or belongs to."""
    dates = date_spans(sentence)
    return {"date" if _overlaps(hit, dates) else _sort(sentence[hit[0] : hit[1]]) for hit in hits}


def _sort(text: str) -> _Sort:
    if date_spans(text) or any(sign.isdigit() for sign in text):
        return "date"
    return "phrase" if text == text.lower() else "name"


def _fits(value: str, uncertain: AbstractSet[_Sort]) -> bool:
    """Return whether a value may stand in the place of uncertain words; a phrase may begin a name."""
    sort = _sort(value)
    return not uncertain or sort in uncertain or ("phrase" in uncertain and sort == "name")


async def learn(
    ctx: Context,
    memory: FactMemory,
    question: str,
    names: Sequence[str],
    passages: Sequence[Passage],
    *,
    step: int,
    quoted: bool = False,
) -> None:
    """Add to a memory what passages state about these names, each fact with the passage that states it.

    Names that enter with a fact count for those behind it: that is how one hop leads to the next. A fact whose names do
    not stand in a passage does not enter, nor one that the model was unsure of: its confidence is the probability of
    the least likely token of its object, 0.5 where that is not known. With `quoted`, one sentence must name subject and
    object, or stand under the subject's title, and state the relation.
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
    # Each triple as it was written first: later ones copy it and are sure of themselves.
    confidences: dict[tuple[str, ...], tuple[Triple, float]] = {}
    for triple, confidence in zip(reading.triples, _confidences(reply.choices[0], reading.triples), strict=True):
        confidences.setdefault(tuple(map(fold, triple)), (triple, confidence))
    near = [*names]
    for triple, confidence in list(confidences.values())[:_MAX_FACTS]:
        held = _stated(triple, near, shown, confidence, step, quoted=quoted)
        outcome = "not stated" if held is None else memory.add(held)
        if held is not None and outcome != "unsure":
            near += (held.fact.subject, held.fact.object)
        subject, relation, value = triple if held is None else (held.fact.subject, held.fact.relation, held.fact.object)
        ctx.emit(
            FactRead(
                op=outcome,
                step=step,
                fact=[subject, relation, value],
                confidence=round(confidence, 4),
                passage=held.fact.passage_id if held else None,
                sentence=held.sentence if held else "",
            )
        )


def _stated(
    triple: Triple, names: Sequence[str], shown: Sequence[Passage], confidence: float, step: int, *, quoted: bool
) -> Held | None:
    """Return the fact as the first passage states it that does, if it is about one of the names."""
    subject, _, value = triple
    about = f"{subject} . {value}"
    if not any(find_mentions(n, about) or find_mentions(subject, n) or find_mentions(value, n) for n in names):
        return None
    for passage in shown:
        for stated in ground_triples([triple], passage.title, passage.text)[0]:
            sentence = _quote(stated, passage) if quoted else stated.sentence
            if sentence or not quoted:
                fact = Fact(stated.subject, stated.relation, stated.object, confidence, passage.id)
                return Held(fact, sentence, passage.title, step)
    return None


def _quote(stated: StatedFact, passage: Passage) -> str:
    """Return the sentence that states a fact, the one that has most of its words before the others; "" if none does."""
    titled = bool(find_mentions(stated.subject, passage.title))
    for sentence in (stated.sentence, *sentences(passage.text)):
        named = (titled or find_mentions(stated.subject, sentence)) and find_mentions(stated.object, sentence)
        if named and states_relation(stated.relation, stated.object, sentence):
            return sentence
    return ""


def _confidences(choice: Choice, triples: Sequence[Triple]) -> list[float]:
    """Return the confidence of each triple's object, where the reply has it behind the triples before."""
    places = token_spans(choice.text, [token.text for token in choice.tokens])
    found: list[float] = []
    at = 0
    for triple in triples:
        start = end = -1
        for part in triple:  # the object behind its subject and relation, since it may be a part of the subject too
            if (start := choice.text.find(part, at)) >= 0:
                at = end = start + len(part)
        inside = [
            token_probability(token)
            for token, place in zip(choice.tokens, places, strict=True)
            if start >= 0 and place and place[0] < end and place[1] > start
        ]
        found.append(min(inside, default=NEUTRAL_CONFIDENCE))
    return found
