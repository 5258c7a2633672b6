"""The answers that a question has so far, whichever way they came, and how likely each is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.values import Answer, Passage
from hoptree.methods.hop.chooser import Chooser, in_words
from hoptree.methods.steps.verify import same
from hoptree.text.grounding import covers, fits_question_type, grounded, has_names
from hoptree.text.names import sentence_spans
from hoptree.text.parse import question_key

Way = Literal["read", "again", "split", "own"]
"""How an answer was found: a reading, another one, parts of the question, or the model's own knowledge."""
OPERATED = ("compare", "both")
"""Operators that code carries out better than a reader."""
_MAX_COUNT = 3
"""Ways, or other answers, beyond which more of them say no more."""
_MIN_REASON = 0.05
"""What weighs less is no reason."""
_RECALLED_ONLY = "only the model's own knowledge is behind it"
_NEUTRAL = 0.5
"""The value of a feature that is not known."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a passage."""

    passage: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return {"passage": self.passage, "text": self.text}


def find_quote(answer: str, question: str, passages: Sequence[Passage]) -> Quote | None:
    """Return the first sentence that holds the answer's words and most of the question's; titles count for each.

    None where no sentence holds the answer.
    """
    wanted = question_key(answer)
    if not wanted or wanted in ("yes", "no"):
        return None
    asked = set(question_key(question).split())
    best: tuple[int, Quote] | None = None
    for passage in passages:
        title = set(question_key(passage.title).split())
        for start, end in sentence_spans(passage.text):
            sentence = passage.text[start:end]
            key = question_key(sentence)
            shared = len(asked & (set(key.split()) | title))
            if f" {wanted} " in f" {key} " and (best is None or shared > best[0]):
                best = (shared, Quote(passage.id, sentence))
    return best[1] if best else None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One answer: the way it was found, what it can be quoted from, and what else is counted about it.

    `recalled` says that every part it was put together from is the model's own knowledge.
    """

    answer: Answer
    way: Way
    quote: Quote | None = None
    covered: bool = False
    computed: bool = False
    supported: float = 0.0
    recalled: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return what a trace records: enough to weigh it again, with other weights or beside fewer others."""
        return {
            "answer": self.answer.text,
            "way": self.way,
            "confidence": self.answer.confidence,
            "quoted": self.quote.as_dict() if self.quote else None,
            "covered": self.covered,
            "computed": self.computed,
            "supported": round(self.supported, 4),
            "recalled": self.recalled,
        }

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Candidate:
        """Read a candidate from a trace."""
        answer = Answer(record["answer"], confidence=record["confidence"])
        quote = Quote(record["quoted"]["passage"], record["quoted"]["text"]) if record["quoted"] else None
        counted = record["covered"], record["computed"], record["supported"]
        return cls(answer, record["way"], quote, *counted, record.get("recalled", False))  # older traces lack it


@dataclass(frozen=True, slots=True)
class Standing:
    """Equal answers as one, with its features and the probability that it is right.

    `recalled` says that only the model's own knowledge is behind it.
    """

    answer: Answer
    ways: tuple[Way, ...]
    quote: Quote | None
    features: dict[str, float]
    probability: float
    recalled: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "answer": self.answer.text,
            "ways": list(self.ways),
            "probability": round(self.probability, 4),
            "features": {name: round(value, 4) for name, value in self.features.items()},
            "quoted": self.quote.as_dict() if self.quote else None,
        }


class Pool:
    """All candidates for one question; `checked` is what checks said of answers: 1 for, -1 against."""

    def __init__(self, question: str, chooser: Chooser, *, operated: bool, trusted: bool = False) -> None:
        """`operated` says that the question compares, `trusted` that the model knows where its knowledge ends."""
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
        spelled = answer if computed else grounded(answer, "", passages)
        answer = spelled if spelled.known else answer
        quote = find_quote(answer.text, self._question, passages)
        covered = covers(self._question, passages)
        self.candidates.append(Candidate(answer, way, quote, covered, computed, supported, recalled))

    def standings(self) -> list[Standing]:
        """Return the different answers, the likeliest first, what cannot be given last; of equals the first found."""
        groups = list(self._groups())
        answers = sum(self._trusted or not _recalled(group) for group in groups)
        standings = [self._standing(group, answers) for group in groups]
        return sorted(standings, key=lambda one: (not self.may_be_final(one), -one.probability))

    def may_be_final(self, standing: Standing) -> bool:
        """Return whether it can be given: recalled answers only if the model knows where its knowledge ends."""
        return self._trusted or not standing.recalled

    def _groups(self) -> Iterator[list[Candidate]]:
        left = list(self.candidates)
        while left:
            first, *left = left
            group = [first, *(other for other in left if same(other.answer.text, first.answer.text))]
            left = [other for other in left if other not in group]
            yield group

    def _standing(self, group: Sequence[Candidate], answers: int) -> Standing:
        """Weigh equal answers as one; so many `answers` could be given."""
        surest = max(group, key=lambda one: (one.computed, one.quote is not None, one.answer.confidence or 0.0))
        ways = tuple(dict.fromkeys(candidate.way for candidate in group))
        fits = fits_question_type(self._question, surest.answer.text)
        confidences = [one.answer.confidence for one in group if one.answer.confidence is not None]
        features = {
            "agreement": min(len(ways) - 1, _MAX_COUNT) / _MAX_COUNT,
            "against": min(max(answers - 1, 0), _MAX_COUNT) / _MAX_COUNT,
            "confidence": max(confidences, default=_NEUTRAL),
            "held": float(any(candidate.quote for candidate in group)),
            "covered": float(any(one.covered for one in group)) if has_names(self._question) else _NEUTRAL,
            "typed": 0.0 if fits is None else 1.0 if fits else -1.0,
            "computed": 1.0 if any(one.computed for one in group) else -1.0 if self._operated else 0.0,
            "supported": max(candidate.supported for candidate in group),
            "split": float("split" in ways),
            "own": float(ways == ("own",)),
            "verified": next((self.checked[one.answer.text] for one in group if one.answer.text in self.checked), 0.0),
        }
        support = dict.fromkeys(passage_id for candidate in group for passage_id in candidate.answer.support)
        answer = replace(surest.answer, support=tuple(support))
        quote = next((candidate.quote for candidate in (surest, *group) if candidate.quote), None)
        measured = answer.confidence if ways == ("own",) and self._trusted else None
        probability = self._chooser.probability(features) if measured is None else measured
        return Standing(answer, ways, quote, features, probability, _recalled(group))

    def why(self, standings: Sequence[Standing]) -> str:
        """Say why the first answer was chosen over the others."""
        first, *others = standings
        if not others:
            return "no way came to another answer"
        second = others[0]
        # What may not be given stands behind all that may, however likely it is.
        excluded = [one for one in others if self.may_be_final(first) and not self.may_be_final(one)]
        notable = [one for one in excluded if one is second or one.probability >= first.probability]
        reasons = [] if second in excluded else self._reasons(first, second)
        return "; ".join([*reasons, *(f"{one.answer.text} is no answer: {_RECALLED_ONLY}" for one in notable)])

    def why_not(self, standing: Standing, least: float) -> str:
        """Say why an answer is not given, "" where it is; one that is less likely than `least` is not."""
        if not self.may_be_final(standing):
            return _RECALLED_ONLY
        return "it is too unlikely" if standing.probability < least else ""

    def _reasons(self, first: Standing, second: Standing) -> list[str]:
        """Say what speaks for an answer rather than for the next that may be given too, the weightiest first."""
        reasons, slightly = [], ""
        for name, weight in self._chooser.reasons(first.features, second.features):
            unknown = name == "confidence" and first.answer.confidence is None
            # A chooser may weigh a feature against what it says: that is no reason.
            if unknown or not self._chooser.is_meant(name):
                continue
            if weight >= _MIN_REASON:
                reasons.append(in_words(name, first.features[name] > second.features[name]))
            elif name == "confidence":
                slightly = "the model was slightly surer of its words"
        if not reasons and first.probability > second.probability:
            reasons = [slightly or "it is likelier by these weights"]
        return reasons[:_MAX_COUNT] or ["it came first"]


def _recalled(group: Sequence[Candidate]) -> bool:
    """Return whether only the model's own knowledge is behind equal answers."""
    return all(candidate.recalled or candidate.way == "own" for candidate in group)
