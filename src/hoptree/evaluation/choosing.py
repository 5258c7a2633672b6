"""What runs of `hop` teach about choosing: which answers were right, and what each move was worth."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.choosing import Chooser, Outlook
from hoptree.choosing.fitting import PENALTY, Example, fit
from hoptree.errors import InputError
from hoptree.evaluation.calibration import Calibration, Decision, calibrate
from hoptree.evaluation.metrics import score_answer
from hoptree.evaluation.run_folder import TRACES, read_rows, read_run
from hoptree.runtime.trace import Event, read_events

__all__ = ["Course", "Fitted", "Moment", "courses_of", "fit_chooser"]

FOLDS = 5
_RIGHT = 0.5
"""F1 from which an answer counts as right where only right and wrong are told apart."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How the answers to a question stood after a move: the features and the F1 of each, and the tokens it took."""

    move: str
    answers: tuple[str, ...]
    features: tuple[Mapping[str, float], ...]
    f1: tuple[float, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Course:
    """One question of a run, from move to move."""

    id: str
    operator: str
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A chooser, and how it does on questions that it was not fitted to (by cross-validation).

    `first`, `chosen` and `oracle` are the mean F1 of the first reading, of the choice after all moves, and of the best
    answer that was there; `captured` is the share of the gap between the first and the last that the choice has.
    """

    chooser: Chooser
    questions: int
    examples: int
    first: float
    chosen: float
    oracle: float
    calibration: Calibration

    @property
    def captured(self) -> float | None:
        gap = self.oracle - self.first
        return (self.chosen - self.first) / gap if gap > 0 else None

    def as_dict(self) -> dict[str, Any]:
        told = {name: value for name, value in asdict(self).items() if name not in ("chooser", "calibration")}
        return {
            **told,
            "captured": self.captured,
            "calibration_error": self.calibration.ece,
            "chooser": self.chooser.as_dict(),
        }


def courses_of(folder: Path) -> list[Course]:
    """The questions of a run of `hop` with how their answers stood after each move."""
    run = read_run(folder)
    if run["experiment"].get("method") != "hop":
        raise InputError(f"The run in {folder} is not of hop.", "Give runs of --method hop.")
    events: dict[str, list[Event]] = defaultdict(list)
    for event in read_events(folder / TRACES):
        events[event["run"]].append(event)
    found = []
    for row in read_rows(folder):
        course = _course(row.id, row.answers, events.get(row.trace, ()))
        if course.moments and row.answers:
            found.append(course)
    if not found:
        raise InputError(f"No question of {folder} tells how its answers stood.", "Run it with this version of hop.")
    return found


def _course(name: str, golds: Sequence[str], events: Iterable[Event]) -> Course:
    moments: list[Moment] = []
    tokens, operator = 0, ""
    for event in events:
        if event["event"] == "llm":
            tokens += event["prompt_tokens"] + event["completion_tokens"]
        elif event["event"] == "decision" and event["kind"] == "standings":
            said, operator = event["value"], event["operator"]
            answers = tuple(one["answer"] for one in said)
            f1 = tuple(score_answer(answer, golds)["f1"] or 0.0 for answer in answers)
            moments.append(Moment(event["after"], answers, tuple(one["features"] for one in said), f1, tokens))
            tokens = 0
    return Course(name, operator, tuple(moments))


def fit_chooser(courses: Sequence[Course], *, penalty: float = PENALTY, made_from: Mapping[str, Any]) -> Fitted:
    """Fit weights and outlooks to all questions; how good they are is told by questions left out in turn."""
    if len(courses) < 2 * FOLDS:
        raise InputError(f"{len(courses)} questions are too few to fit a chooser to.", f"Give {2 * FOLDS} or more.")
    held_out: list[tuple[Course, Chooser]] = []
    for fold in range(FOLDS):
        rest = [course for place, course in enumerate(courses) if place % FOLDS != fold]
        weights, bias = fit(_examples(rest), penalty=penalty)
        chooser = Chooser(weights, bias)
        held_out += ((course, chooser) for course in courses[fold::FOLDS])
    weights, bias = fit(_examples(courses), penalty=penalty)
    # What moves were worth is told by choosers that did not see the question; all of it is about choosing well.
    outlooks = _outlooks(held_out)
    chosen = [_best(course.moments[-1], chooser) for course, chooser in held_out]
    decisions = [Decision(True, f1 >= _RIGHT, probability) for f1, probability in chosen]
    return Fitted(
        Chooser(weights, bias, outlooks, made_from),
        len(courses),
        sum(len(moment.f1) for course in courses for moment in course.moments),
        _mean([_best(course.moments[0], chooser)[0] for course, chooser in held_out]),
        _mean([f1 for f1, _ in chosen]),
        _mean([max(course.moments[-1].f1, default=0.0) for course in courses]),
        calibrate(decisions),
    )


def _examples(courses: Iterable[Course]) -> list[Example]:
    """Every answer at every moment; a question counts as much as another, however many answers it has."""
    found = []
    for course in courses:
        all_of_it = sum(len(moment.f1) for moment in course.moments) or 1
        for moment in course.moments:
            found += [
                Example(features, f1, len(course.moments) / all_of_it)
                for features, f1 in zip(moment.features, moment.f1, strict=True)
            ]
    return found


def _best(moment: Moment, chooser: Chooser) -> tuple[float, float]:
    """F1 and probability of the answer that would be chosen; nothing of either where there is none."""
    stood = [(chooser.probability(one), f1) for one, f1 in zip(moment.features, moment.f1, strict=True)]
    probability, f1 = max(stood, key=lambda one: one[0], default=(0.0, 0.0))
    return f1, probability


def _outlooks(judged: Sequence[tuple[Course, Chooser]]) -> dict[str, Outlook]:
    """For each move, by kind of question and over all: what it gained of the doubt that there was, and its tokens."""
    gained: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for course, chooser in judged:
        for before, after in zip(course.moments, course.moments[1:], strict=False):
            was, likely = _best(before, chooser)
            now, _ = _best(after, chooser)
            for name in (after.move, f"{after.move}/{course.operator}"):
                gained[name].append((now - was, 1 - likely, after.tokens))
    found = {}
    for name, moves in sorted(gained.items()):
        doubt = math.fsum(one for _, one, _ in moves)
        settles = math.fsum(one for one, _, _ in moves) / doubt if doubt else 0.0
        found[name] = Outlook(round(max(settles, 0.0), 4), round(_mean([float(one) for _, _, one in moves]), 1))
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
