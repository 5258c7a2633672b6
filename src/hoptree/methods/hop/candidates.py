"""The answers that a question has so far, whichever way they came, and how likely each is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.values import Answer, Passage
from hoptree.methods.hop.chooser import Chooser, in_words
from hoptree.methods.steps.agreement import same
from hoptree.text.answer_types import fits_question_type
from hoptree.text.grounding import covers, grounded, has_names
from hoptree.text.parse import question_key
from hoptree.text.sentences import sentence_spans


@dataclass(frozen=True, slots=True)
class Span:
    """A sentence of a passage."""

    passage: str
    text: str


def quoted(answer: str, question: str, passages: Sequence[Passage]) -> Span | None:
    """The sentence that holds the answer's words and most of the question's; a title stands before its sentences.

    Of sentences with as many words of the question, the first is taken. None where no sentence holds the answer.
    """
    wanted = question_key(answer)
    if not wanted or wanted in ("yes", "no"):
        return None
    asked = set(question_key(question).split())
    best: tuple[int, Span] | None = None
    for passage in passages:
        named = set(question_key(passage.title).split())
        for start, end in sentence_spans(passage.text):
            sentence = passage.text[start:end]
            key = question_key(sentence)
            if f" {wanted} " not in f" {key} ":
                continue
            shared = len(asked & (set(key.split()) | named))
            if best is None or shared > best[0]:
                best = (shared, Span(passage.id, sentence))
    return best[1] if best else None


Way = Literal["read", "again", "split", "own"]
"""How an answer was come to: a reading, another one, parts of the question, or the model's own knowledge."""
OPERATED = ("compare", "both")
"""Operators that code carries out better than a reader."""
_MOST = 3
"""Ways, or other answers, beyond which more of them say no more."""
_TELLING = 0.05
"""What weighs less is no reason."""
_OWN = "only the model's own knowledge is behind it"
_UNTOLD = 0.5
"""The confidence of a model that does not tell it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer: the way it came, what it can be quoted from, and what else is counted about it.

    `recalled` says that every part it was put together from is the model's own knowledge.
    """

    answer: Answer
    way: Way
    span: Span | None = None
    covered: bool = False
    computed: bool = False
    supported: float = 0.0
    recalled: bool = False

    def as_dict(self) -> dict[str, Any]:
        """What a trace tells of it: enough to weigh it again, with other weights or beside fewer others."""
        return {
            "answer": self.answer.text,
            "way": self.way,
            "confidence": self.answer.confidence,
            "quoted": {"passage": self.span.passage, "text": self.span.text} if self.span else None,
            "covered": self.covered,
            "computed": self.computed,
            "supported": round(self.supported, 4),
            "recalled": self.recalled,
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Candidate:
        """A candidate as a trace tells of it."""
        answer = Answer(told["answer"], confidence=told["confidence"])
        span = Span(told["quoted"]["passage"], told["quoted"]["text"]) if told["quoted"] else None
        counted = told["covered"], told["computed"], told["supported"]
        recalled = told.get("recalled", False)  # which older traces do not tell
        return cls(answer, told["way"], span, *counted, recalled)


@dataclass(frozen=True, slots=True)
class Standing:
    """Equal answers as one, with its features and the probability that it is right.

    `recalled` says that only the model's own knowledge is behind it.
    """

    answer: Answer
    ways: tuple[Way, ...]
    span: Span | None
    features: dict[str, float]
    probability: float
    recalled: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "answer": self.answer.text,
            "ways": list(self.ways),
            "probability": round(self.probability, 4),
            "features": {name: round(value, 4) for name, value in self.features.items()},
            "quoted": {"passage": self.span.passage, "text": self.span.text} if self.span else None,
        }


class Pool:
    """All candidates for one question."""

    def __init__(self, question: str, chooser: Chooser, *, operated: bool, trusted: bool = False) -> None:
        """`operated` says that the question compares, which code does better than a reader.

        `trusted` says that the model knows where its knowledge ends.
        """
        self._question, self._chooser, self._operated, self._trusted = question, chooser, operated, trusted
        self.candidates: list[Candidate] = []
        self.checked: dict[str, float] = {}

    def add(
        self,
        answer: Answer,
        way: Way,
        passages: Sequence[Passage] = (),
        *,
        computed: bool = False,
        supported: float = 0.0,
        recalled: bool = False,
    ) -> None:
        """Take an answer in, spelled as what it was read from spells it; what is unknown is no candidate."""
        if not answer.known or not answer.text:
            return
        read = answer if computed else grounded(answer, "", passages)
        answer = read if read.known else answer
        span = quoted(answer.text, self._question, passages)
        covered = covers(self._question, passages)
        self.candidates.append(Candidate(answer, way, span, covered, computed, supported, recalled))

    def note_check(self, answer: str, verdict: float) -> None:
        """What a check said of an answer: 1 for it, -1 against it."""
        self.checked[answer] = verdict

    def standings(self) -> list[Standing]:
        """The different answers, the likeliest first, what cannot be given last; of equals the one that came first."""
        groups = list(self._groups())
        given = sum(self._trusted or not _recalled(group) for group in groups)
        found = [self._standing(group, given) for group in groups]
        return sorted(found, key=lambda one: (not self.may_be_final(one), -one.probability))

    def may_be_final(self, one: Standing) -> bool:
        """Whether it can be given: what only the model knows cannot, unless it knows where its knowledge ends."""
        return self._trusted or not one.recalled

    def _groups(self) -> Iterator[list[Candidate]]:
        left = list(self.candidates)
        while left:
            first, *left = left
            group = [first, *(one for one in left if same(one.answer.text, first.answer.text))]
            left = [one for one in left if one not in group]
            yield group

    def _standing(self, group: Sequence[Candidate], answers: int) -> Standing:
        """Equal answers as one, beside how many `answers` that could be given."""
        surest = max(group, key=lambda one: (one.computed, one.span is not None, one.answer.confidence or 0.0))
        ways = tuple(dict.fromkeys(one.way for one in group))
        fits = fits_question_type(self._question, surest.answer.text)
        told = [one.answer.confidence for one in group if one.answer.confidence is not None]
        features = {
            "agreement": min(len(ways) - 1, _MOST) / _MOST,
            "against": min(max(answers - 1, 0), _MOST) / _MOST,
            "confidence": max(told, default=_UNTOLD),
            "held": float(any(one.span for one in group)),
            "covered": float(any(one.covered for one in group)) if has_names(self._question) else _UNTOLD,
            "typed": 0.0 if fits is None else 1.0 if fits else -1.0,
            "computed": 1.0 if any(one.computed for one in group) else -1.0 if self._operated else 0.0,
            "supported": max(one.supported for one in group),
            "split": float("split" in ways),
            "own": float(ways == ("own",)),
            "verified": next((self.checked[one.answer.text] for one in group if one.answer.text in self.checked), 0.0),
        }
        support = dict.fromkeys(name for one in group for name in one.answer.support)
        answer = replace(surest.answer, support=tuple(support))
        span = next((one.span for one in (surest, *group) if one.span), None)
        likely = self._chooser.probability(features)
        if ways == ("own",) and self._trusted and answer.confidence is not None:
            likely = answer.confidence  # as it was measured
        return Standing(answer, ways, span, features, likely, _recalled(group))

    def why(self, standings: Sequence[Standing]) -> str:
        """Why the first answer was chosen over the others, in words."""
        first, *others = standings
        if not others:
            return "no way came to another answer"
        second = others[0]
        # What may not be given stands behind all that may, however likely it is.
        shut_out = [one for one in others if self.may_be_final(first) and not self.may_be_final(one)]
        told = [one for one in shut_out if one is second or one.probability >= first.probability]
        reasons = [] if second in shut_out else self._reasons(first, second)
        return "; ".join([*reasons, *(f"{one.answer.text} is no answer: {_OWN}" for one in told)])

    def why_not(self, one: Standing, least: float) -> str:
        """Why an answer is not given, in words; "" where it is. One that is less likely than `least` is not."""
        if not self.may_be_final(one):
            return _OWN
        return "it is too unlikely" if one.probability < least else ""

    def _reasons(self, first: Standing, second: Standing) -> list[str]:
        """What speaks for an answer rather than for the next that may be given too, the weightiest first."""
        words, slightly = [], ""
        for name, much in self._chooser.reasons(first.features, second.features):
            more = first.features[name] > second.features[name]
            untold = name == "confidence" and first.answer.confidence is None
            # A chooser may have it that an answer of another kind is likelier: that is no reason.
            if untold or not self._chooser.is_meant(name):
                continue
            if much >= _TELLING:
                words.append(in_words(name, more))
            elif name == "confidence":
                slightly = "the model was slightly surer of its words"
        if not words and first.probability > second.probability:
            words = [slightly or "it is likelier by these weights"]
        return words[:_MOST] or ["it came first"]


def _recalled(group: Sequence[Candidate]) -> bool:
    """Whether only the model's own knowledge is behind equal answers."""
    return all(one.recalled or one.way == "own" for one in group)
