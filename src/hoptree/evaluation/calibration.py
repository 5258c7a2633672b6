"""Calibration: how well stated confidence agrees with correctness."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

from hoptree.core.errors import InputError
from hoptree.core.values import Level
from hoptree.engine.result import read_result
from hoptree.engine.trace import read_events
from hoptree.evaluation.metrics import normalise, overlap, score_answer
from hoptree.evaluation.run_folder import TRACES, Row, read_rows
from hoptree.evaluation.statistics import Interval, interval, mean_of

_EDGES = tuple(number / 10 for number in range(1, 11))
_MEASURES = ("f1", "em", "judged", "correct")


@dataclass(frozen=True, slots=True)
class MemoryDecision:
    """Whether memory answered a question, and whether it was right."""

    from_memory: bool
    memory_correct: bool
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Coverage and precision of answering from memory at this confidence and above."""

    threshold: float
    answered: int
    coverage: float
    precision: float


@dataclass(frozen=True, slots=True)
class Bin:
    """The questions with a confidence above `low` and up to `high`."""

    low: float
    high: float
    questions: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Quality of the decisions to answer from memory."""

    questions: int
    from_memory: int
    coverage: float | None  # share answered from memory
    precision: float | None  # share of those that is correct
    overconfident: int  # answered from memory, wrongly
    underconfident: int  # looked up although memory was correct
    without_confidence: int  # in no bin, and below every threshold
    ece: float | None  # the expected calibration error over ten bins
    bins: tuple[Bin, ...]
    curve: tuple[CurvePoint, ...]


def calibrate(decisions: Sequence[MemoryDecision]) -> Calibration:
    """Measure coverage, precision and calibration of decisions."""
    from_memory = [decision for decision in decisions if decision.from_memory]
    correct = sum(decision.memory_correct for decision in from_memory)
    known = [(choice.confidence, choice.memory_correct) for choice in decisions if choice.confidence is not None]
    members: list[list[tuple[float, bool]]] = [[] for _ in _EDGES]
    for confidence, is_correct in known:
        members[bisect_left(_EDGES, confidence)].append((confidence, is_correct))
    bins = tuple(
        Bin(low, high, len(inside), *(mean_of(values) for values in (list(zip(*inside, strict=True)) or ((), ()))))
        for low, high, inside in zip((0.0, *_EDGES), _EDGES, members, strict=False)
    )
    errors = [part.questions * abs((part.confidence or 0.0) - (part.accuracy or 0.0)) for part in bins]
    curve: list[CurvePoint] = []  # for each confidence that occurs, from the highest down
    kept: list[bool] = []
    for threshold, group in groupby(sorted(known, reverse=True), key=lambda pair: pair[0]):
        kept += [is_correct for _, is_correct in group]
        curve.append(CurvePoint(threshold, len(kept), len(kept) / len(decisions), sum(kept) / len(kept)))
    return Calibration(
        questions=len(decisions),
        from_memory=len(from_memory),
        coverage=len(from_memory) / len(decisions) if decisions else None,
        precision=correct / len(from_memory) if from_memory else None,
        overconfident=len(from_memory) - correct,
        underconfident=sum(decision.memory_correct and not decision.from_memory for decision in decisions),
        without_confidence=len(decisions) - len(known),
        ece=math.fsum(errors) / len(known) if known else None,
        bins=bins,
        curve=tuple(curve),
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer with its scores; `judged` is None without a judge."""

    answer: str
    em: bool
    f1: float
    judged: bool | None = None

    @property
    def correct(self) -> bool:
        """Whether it is an exact match, or the judge accepts it."""
        return self.em or self.judged is True


def score_attempt(answer: str, golds: Sequence[str], *, judged: bool | None = None) -> Attempt:
    """Score an answer against the accepted answers."""
    scores = score_answer(answer, golds)
    return Attempt(answer, scores["em"] == 1, scores["f1"] or 0.0, judged)


@dataclass(frozen=True, slots=True)
class Domain:
    """Mean scores of a group of questions; None if a score is missing."""

    questions: int
    f1: float | None
    em: float | None
    judged: float | None
    correct: float | None


@dataclass(frozen=True, slots=True)
class Flip:
    """A question with two different answers, at most one of them correct."""

    id: str
    direct: str
    confident: str
    direct_correct: bool
    confident_correct: bool


@dataclass(frozen=True, slots=True)
class BoundaryAwareness:
    """TAIKC's measures of boundary awareness (appendix C)."""

    direct: Domain  # all questions, with their Direct QA answers
    confident: Domain  # questions answered in Confident QA
    kept: Domain  # the same questions, with their Direct QA answers
    gap: Domain  # questions refused in Confident QA, with their Direct QA answers (knowledge gap)
    consistency_f1: float | None  # agreement of the two answers, over questions with two
    consistency_judged: float | None
    flips: tuple[Flip, ...]  # the questions of Figure 7

    def figures(self) -> dict[str, float | None]:
        """Return every measure by name.

        `gain_…` is confident knowledge minus all of Direct QA, `gap_…` confident knowledge minus the knowledge gap: by
        the paper's reliability hypotheses both should be large. "Accuracy" in its Figures 5, 9 and 10 is F1.
        """
        figures = {"consistency_f1": self.consistency_f1, "consistency_judged": self.consistency_judged}
        domains = {"direct": self.direct, "confident": self.confident, "kept": self.kept, "knowledge_gap": self.gap}
        for measure in _MEASURES:
            figures |= {f"{name}_{measure}": getattr(domain, measure) for name, domain in domains.items()}
            confident = figures[f"confident_{measure}"]
            for name, other in (("gain", "direct"), ("gap", "knowledge_gap")):
                less = figures[f"{other}_{measure}"]
                figures[f"{name}_{measure}"] = None if confident is None or less is None else confident - less
        return figures

    def as_dict(self) -> dict[str, Any]:
        counts = {"questions": self.direct, "answered": self.confident, "refused": self.gap}
        numbers = {name: domain.questions for name, domain in counts.items()}
        return {**numbers, **self.figures(), "flips": [asdict(flip) for flip in self.flips]}


def boundary(
    direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None], same: Mapping[str, bool] | None = None
) -> BoundaryAwareness:
    """Compare both settings of the same questions; None is a refusal."""
    answered = {name: (direct[name], attempt) for name, attempt in confident.items() if attempt is not None}
    flips = []
    for name, (plain, sure) in answered.items():
        equal = normalise(plain.answer) == normalise(sure.answer) or (same or {}).get(name, False)
        if not equal and not (plain.correct and sure.correct):  # two wordings of one answer are not a flip
            flips.append(Flip(name, plain.answer, sure.answer, plain.correct, sure.correct))
    return BoundaryAwareness(
        direct=_domain(direct.values()),
        confident=_domain(sure for _, sure in answered.values()),
        kept=_domain(plain for plain, _ in answered.values()),
        gap=_domain(direct[name] for name, attempt in confident.items() if attempt is None),
        consistency_f1=mean_of([overlap(sure.answer, plain.answer).f1 for plain, sure in answered.values()]),
        consistency_judged=None if same is None else mean_of([same[name] for name in answered]),
        flips=tuple(flips),
    )


def average(parts: Iterable[BoundaryAwareness]) -> dict[str, float | None]:
    """Average every measure over data sets with equal weight."""
    figures = [part.figures() for part in parts]
    columns = {name: [part[name] for part in figures] for name in (figures[0] if figures else ())}
    return {name: mean_of(values) for name, values in columns.items()}


def memory_decisions(direct: Mapping[str, Attempt], confident: Mapping[str, Attempt | None]) -> list[MemoryDecision]:
    """Return the decision of each question: answered from memory, or refused."""
    return [
        MemoryDecision(attempt is not None, (direct[name] if attempt is None else attempt).correct)
        for name, attempt in confident.items()
    ]


def _domain(attempts: Iterable[Attempt]) -> Domain:
    attempts = list(attempts)
    means = (mean_of([getattr(attempt, name) for attempt in attempts]) for name in _MEASURES)
    return Domain(len(attempts), *means)


NO_ANSWER = "no answer"
_MIN_CORRECT_F1 = 0.5


@dataclass(frozen=True, slots=True)
class SupportLevel:
    """Answers with one word of support: their number, share correct, and mean F1."""

    word: str
    answers: int
    right: Interval | None
    f1: Interval | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_support(runs: Sequence[Path]) -> list[SupportLevel]:
    """Return how often answers are correct, by the word for their support.

    The words are computed anew from the traces, by the current rules. An answer is correct if its F1 is at least 0.5.
    """
    by_word: dict[str, list[tuple[float, float]]] = {word: [] for word in (*get_args(Level), NO_ANSWER)}
    for run in runs:
        for row, word in _words(run):
            f1 = row.scores.get("f1") or 0.0
            by_word[word].append((float(f1 >= _MIN_CORRECT_F1), f1))
    return [_measure(word, scores) for word, scores in by_word.items()]


def _words(run: Path) -> Iterator[tuple[Row, str]]:
    path = run / TRACES
    if not path.exists():
        raise InputError(f"{run} has no traces.", "Make the run again: hoptree run … --out DIR writes them.")
    rows = {row.trace: row for row in read_rows(run)}
    events: dict[str, list[Any]] = {}
    for event in read_events(path):
        if event.run in rows:
            events.setdefault(event.run, []).append(event)
    for trace, row in rows.items():
        result = read_result(events.get(trace, ()))
        yield row, result.confidence.level if result.confidence else NO_ANSWER


def _measure(word: str, scores: Sequence[tuple[float, float]]) -> SupportLevel:
    if not scores:
        return SupportLevel(word, 0, None, None)
    correct, f1 = zip(*scores, strict=True)
    return SupportLevel(word, len(scores), interval(correct), interval(f1))
