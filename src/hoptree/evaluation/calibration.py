"""Compare a model's decision to answer from memory with whether its memory was right."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from hoptree.core.errors import InputError
from hoptree.evaluation.metrics import normalise, overlap, score_answer

_EDGES = tuple(number / 10 for number in range(1, 11))
_MEASURES = ("f1", "em", "judged", "correct")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a question was answered from memory, how sure the model was, and whether its memory was right.

    For a question that was looked up instead, `memory_correct` is about what the model would have said.
    """

    from_memory: bool
    memory_correct: bool
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What answering from memory at this confidence and above would have come to."""

    threshold: float
    answered: int
    coverage: float
    precision: float


@dataclass(frozen=True, slots=True)
class Bin:
    """The questions whose confidence lies above `low` (0 included in the first) and not above `high`."""

    low: float
    high: float
    questions: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How good the decisions were.

    `coverage` is the share of the questions answered from memory, `precision` the share of those that were right.
    `overconfident` ones were answered from memory although it was wrong, `underconfident` ones looked up although it
    was right. `ece` is the mean distance of confidence and accuracy over ten bins of equal width, weighted by their
    questions. Questions without a confidence are in no bin and never above a threshold of the curve, whose coverage is
    of all questions.
    """

    questions: int
    from_memory: int
    coverage: float | None
    precision: float | None
    overconfident: int
    underconfident: int
    without_confidence: int
    ece: float | None
    bins: tuple[Bin, ...]
    curve: tuple[CurvePoint, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def calibrate(decisions: Sequence[Decision]) -> Calibration:
    """Measure coverage, precision and calibration of decisions."""
    taken = [decision for decision in decisions if decision.from_memory]
    right = sum(decision.memory_correct for decision in taken)
    sure = [(_checked(one.confidence), one.memory_correct) for one in decisions if one.confidence is not None]
    bins = _bins(sure)
    return Calibration(
        questions=len(decisions),
        from_memory=len(taken),
        coverage=len(taken) / len(decisions) if decisions else None,
        precision=right / len(taken) if taken else None,
        overconfident=len(taken) - right,
        underconfident=sum(one.memory_correct and not one.from_memory for one in decisions),
        without_confidence=len(decisions) - len(sure),
        ece=_ece(bins, len(sure)),
        bins=bins,
        curve=_curve(sure, len(decisions)),
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer to a question and its scores; `judged` is a judge's verdict, None where none was asked.

    A call that failed is an attempt with a blank answer, and wrong.
    """

    answer: str
    em: bool
    f1: float
    judged: bool | None = None

    @property
    def correct(self) -> bool:
        """Right by the letter or in the judge's eyes."""
        return self.em or self.judged is True


def score_attempt(answer: str, golds: Sequence[str], *, judged: bool | None = None) -> Attempt:
    """Score an answer against the accepted ones."""
    scores = score_answer(answer, golds)
    return Attempt(answer, scores["em"] == 1, scores["f1"] or 0.0, judged)


@dataclass(frozen=True, slots=True)
class Domain:
    """The mean scores of some of the questions; None where there are none, or where a judge's verdict is missing."""

    questions: int
    f1: float | None
    em: float | None
    judged: float | None
    correct: float | None


@dataclass(frozen=True, slots=True)
class Flip:
    """A question that got two different answers, at most one of them right."""

    id: str
    direct: str
    confident: str
    direct_correct: bool
    confident_correct: bool


@dataclass(frozen=True, slots=True)
class BoundaryAwareness:
    """TAIKC's measures of knowing what one knows (appendix C; Table 4, Figures 5 and 7 to 11).

    `direct` is every question in the Direct QA setting, `confident` those answered in the Confident QA setting
    (confident knowledge), `kept` the same questions with their Direct QA answers, `gap` those refused there, with their
    Direct QA answers (knowledge gap). Consistency is how far the two settings' answers agree where both gave one: by
    F1, and by a judge. `flips` are the questions of Figure 7.
    """

    direct: Domain
    confident: Domain
    kept: Domain
    gap: Domain
    consistency_f1: float | None
    consistency_judged: float | None
    flips: tuple[Flip, ...]

    def figures(self) -> dict[str, float | None]:
        """Every measure by name.

        `gain_…` is confident knowledge less all of Direct QA, `gap_…` confident knowledge less the knowledge gap: the
        paper's reliability hypotheses want both large. Its accuracy in Figures 5, 9 and 10 is F1.
        """
        found = {"consistency_f1": self.consistency_f1, "consistency_judged": self.consistency_judged}
        for name in _MEASURES:
            parts = (self.direct, self.confident, self.kept, self.gap)
            direct, sure, kept, gap = (getattr(part, name) for part in parts)
            found |= {f"direct_{name}": direct, f"confident_{name}": sure, f"kept_{name}": kept}
            found |= {f"knowledge_gap_{name}": gap}
            found |= {f"gain_{name}": _less(sure, direct), f"gap_{name}": _less(sure, gap)}
        return found

    def as_dict(self) -> dict[str, Any]:
        return {
            "questions": self.direct.questions,
            "answered": self.confident.questions,
            "refused": self.gap.questions,
            **self.figures(),
            "flips": [asdict(flip) for flip in self.flips],
        }


def boundary(
    direct: Mapping[str, Attempt],
    confident: Mapping[str, Attempt | None],
    same: Mapping[str, bool] | None = None,
) -> BoundaryAwareness:
    """Compare the two settings question by question; an attempt of None is a refusal (RAG_REQUIRED).

    `same` says for each pair of answers whether a judge finds that they mean the same.
    """
    _check_same_questions(direct, confident)
    both = {name: (direct[name], sure) for name, sure in confident.items() if sure is not None}
    if same is not None and (missing := both.keys() - same.keys()):
        raise InputError(
            f"{len(missing)} pairs of answers have not been judged, that to question {min(missing)} among them.",
            "Judge all of them or none.",
        )
    return BoundaryAwareness(
        direct=_domain(direct.values()),
        confident=_domain(sure for _, sure in both.values()),
        kept=_domain(plain for plain, _ in both.values()),
        gap=_domain(direct[name] for name, sure in confident.items() if sure is None),
        consistency_f1=_mean([overlap(sure.answer, plain.answer).f1 for plain, sure in both.values()]),
        consistency_judged=None if same is None else _mean([same[name] for name in both]),
        flips=tuple(_flips(both, same or {})),
    )


def average(parts: Iterable[BoundaryAwareness]) -> dict[str, float | None]:
    """Average every measure over data sets with equal weight; a measure that one lacks has no mean."""
    figures = [part.figures() for part in parts]
    found: dict[str, float | None] = {}
    for name in figures[0] if figures else ():
        values = [value for figure in figures if (value := figure[name]) is not None]
        found[name] = _mean(values) if len(values) == len(figures) else None
    return found


def decisions_of(direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None]) -> list[Decision]:
    """Turn the comparison into decisions: refusing is looking up, memory is the Direct QA answer."""
    _check_same_questions(direct, confident)
    return [
        Decision(sure is not None, direct[name].correct if sure is None else sure.correct)
        for name, sure in confident.items()
    ]


def _checked(confidence: float) -> float:
    if not 0 <= confidence <= 1:
        raise InputError(f"A confidence of {confidence:g} is no probability.", "Give numbers from 0 to 1.")
    return confidence


def _bins(sure: Sequence[tuple[float, bool]]) -> tuple[Bin, ...]:
    inside: list[list[tuple[float, bool]]] = [[] for _ in _EDGES]
    for one in sure:
        inside[bisect_left(_EDGES, one[0])].append(one)
    return tuple(
        Bin(low, high, len(some), _mean([confidence for confidence, _ in some]), _mean([right for _, right in some]))
        for low, high, some in zip((0.0, *_EDGES), _EDGES, inside, strict=False)
    )


def _ece(bins: Iterable[Bin], questions: int) -> float | None:
    if not questions:
        return None
    apart = (
        part.questions * abs(part.confidence - part.accuracy)
        for part in bins
        if part.confidence is not None and part.accuracy is not None
    )
    return math.fsum(apart) / questions


def _curve(sure: Iterable[tuple[float, bool]], questions: int) -> tuple[CurvePoint, ...]:
    """Return a point for each confidence that occurs, from the highest down."""
    points = []
    answered = right = 0
    for threshold, equals in groupby(sorted(sure, reverse=True), key=lambda one: one[0]):
        some = [correct for _, correct in equals]
        answered, right = answered + len(some), right + sum(some)
        points.append(CurvePoint(threshold, answered, answered / questions, right / answered))
    return tuple(points)


def _check_same_questions(direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None]) -> None:
    if lone := direct.keys() ^ confident.keys():
        raise InputError(
            f"{len(lone)} questions were asked in one setting only, {min(lone)} among them.",
            "Ask the same questions in both.",
        )


def _domain(attempts: Iterable[Attempt]) -> Domain:
    some = list(attempts)
    judged = [attempt.judged for attempt in some if attempt.judged is not None]
    return Domain(
        questions=len(some),
        f1=_mean([attempt.f1 for attempt in some]),
        em=_mean([attempt.em for attempt in some]),
        judged=_mean(judged) if len(judged) == len(some) else None,
        correct=_mean([attempt.correct for attempt in some]),
    )


def _flips(both: Mapping[str, tuple[Attempt, Attempt]], same: Mapping[str, bool]) -> Iterable[Flip]:
    """Yield the questions with two different answers; two wordings of one answer are no flip."""
    for name, (plain, sure) in both.items():
        equal = normalise(plain.answer) == normalise(sure.answer) or same.get(name, False)
        if not equal and not (plain.correct and sure.correct):
            yield Flip(name, plain.answer, sure.answer, plain.correct, sure.correct)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
