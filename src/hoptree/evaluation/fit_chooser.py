"""Fit hop's chooser to runs, and judge it on left-out data sets."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.core.lazy import import_optional
from hoptree.engine.events import Event
from hoptree.engine.trace import ModelCalled, read_events
from hoptree.evaluation.calibration import MemoryDecision, calibrate
from hoptree.evaluation.metrics import score_answer
from hoptree.evaluation.run_folder import TRACES, read_rows, read_run
from hoptree.methods.hop.chooser import EFFORTS, Chooser, Effort, Features, Logistic, MovePrediction, Weights, is_unfit
from hoptree.methods.hop.method import RankedAnswers

PENALTY = 1.0  # penalty of a weight of 1, in units of one question's log-loss
SHARE_OF_CALLS = {"low": 0.4, "medium": 0.6}  # calls of an effort, as a share of the calls of all moves
_RIGHT = 0.5  # least F1 of an answer that counts as correct
_ROUNDS = 100
_SETTLED = 1e-10
_MIN_PENALTY = 1e-6  # without a penalty, features that always occur together have no unique weights
_WORTH = tuple(number / 400 for number in range(-16, 41))  # thresholds to try: least gain for 1,000 tokens
_UNKNOWN_TO_OTHERS = ("confidence",)  # features that need log-probabilities
_REMOVED = "replan"  # a move of earlier versions: stored runs are read as if they had not made it


@dataclass(frozen=True, slots=True)
class Stated:
    """An answer after a move: its features, the moves that gave it, and its F1."""

    features: Features
    ways: tuple[str, ...]
    f1: float


@dataclass(frozen=True, slots=True)
class Moment:
    """A move: the answers and the state after it, and its cost."""

    move: str
    answers: tuple[Stated, ...]
    state: Features
    calls: int
    tokens: int

    def best(self, right: Logistic) -> tuple[float, float]:
        """Return the F1 and the probability of the likeliest answer."""
        likeliest = self.likeliest(right)
        return (likeliest.f1, right(likeliest.features)) if likeliest else (0.0, 0.0)

    def likeliest(self, right: Logistic) -> Stated | None:
        """Return the answer that hop would rank first."""
        # Answers of an unfit form rank behind the others.
        return max(
            self.answers, key=lambda answer: (not is_unfit(answer.features), right(answer.features)), default=None
        )


@dataclass(frozen=True)
class Course:
    """One question of a run that made every move, with its data set and model."""

    id: str
    data: str
    moments: tuple[Moment, ...]
    model: str = ""

    @cached_property
    def guess(self) -> Moment | None:
        """The forced reading without the answers of other moves."""
        for moment in self.moments[1:]:
            if moment.move == "guess":
                alone = tuple(answer for answer in moment.answers if "guess" in answer.ways)
                return replace(moment, answers=alone)
        return None


def read_courses(folder: Path) -> list[Course]:
    """Return the questions of a run, with the answers after every move."""
    run = read_run(folder)
    if run["experiment"].get("method") != "hop":
        raise InputError(f"The run in {folder} is not of hop.", "Give runs of --method hop.")
    if run["rests_on"].get("options", {}).get("effort") != "high":
        cause = f"The run in {folder} did not make every move."
        raise InputError(cause, "Run it with --set effort=high into another folder.")
    data, model = str(run.get("data_name") or run["rests_on"].get("data", "")), str(run["rests_on"].get("model", ""))
    events: dict[str, list[Event]] = defaultdict(list)
    for event in read_events(folder / TRACES):
        events[event.run].append(event)
    courses = [
        Course(row.id, data, tuple(_moments(row.answers, events.get(row.trace, ()))), model)
        for row in read_rows(folder)
        if row.answers
    ]
    if not any(course.moments for course in courses):
        raise InputError(f"No question of {folder} records how its answers stood.", "Run it with this version of hop.")
    return [course for course in courses if course.moments]


def _moments(golds: Sequence[str], events: Iterable[Event]) -> Iterable[Moment]:
    calls = tokens = 0
    for event in events:
        if isinstance(event, ModelCalled):
            calls, tokens = calls + 1, tokens + event.prompt_tokens + event.completion_tokens
        elif isinstance(event, RankedAnswers):
            answers = tuple(
                Stated(row["features"], tuple(row["ways"]), score_answer(row["answer"], golds)["f1"] or 0.0)
                for row in event.value
                if row["ways"] != [_REMOVED]
            )
            if event.after != _REMOVED:
                yield Moment(event.after, answers, event.state, calls, tokens)
            calls = tokens = 0


def fit_logistic(examples: Sequence[tuple[Features, float, float]], *, penalty: float) -> Logistic:
    """Fit a logistic regression to features, target and sample weight (Newton)."""
    np = import_optional("numpy", "Fitting weights", "eval")
    rows = [features for features, _, _ in examples]
    names = sorted({name for row in rows for name in row})
    if not rows:
        return Logistic({}, 0.0)
    x = np.array([[row.get(name, 0.0) for name in names] + [1.0] for row in rows])
    y, w = np.array([target for _, target, _ in examples]), np.array([share for _, _, share in examples])
    cost = np.array([max(penalty, _MIN_PENALTY)] * len(names) + [_SETTLED])
    point = np.zeros(len(names) + 1)
    for _ in range(_ROUNDS):
        chance = 1 / (1 + np.exp(-np.clip(x @ point, -30, 30)))
        slope = x.T @ (w * (chance - y)) + cost * point
        bend = (x.T * (w * chance * (1 - chance))) @ x + np.diag(cost)
        step = np.linalg.solve(bend, slope)
        size = float(np.abs(step).max())
        point -= step * min(1.0, 4.0 / size) if size > _SETTLED else 0.0
        if size < _SETTLED:
            break
    weights = {name: round(float(weight), 4) + 0.0 for name, weight in zip(names, point, strict=False)}
    return Logistic({name: weight for name, weight in weights.items() if weight}, round(float(point[-1]), 4))


def fit_weights(courses: Sequence[Course], *, logprobs: bool) -> Weights:
    """Fit the weights of answers and moves; all data sets count equally."""
    hidden = () if logprobs else _UNKNOWN_TO_OTHERS
    sizes = Counter(course.data for course in courses)
    equal = {data: len(courses) / len(sizes) / size for data, size in sizes.items()}
    rows: list[tuple[Features, float, float]] = []
    for course in courses:
        stood = [answer for moment in course.moments for answer in moment.answers]
        share = equal[course.data] / (len(stood) or 1)
        rows += ((_without(answer.features, hidden), answer.f1, share) for answer in stood)
    right = fit_logistic(rows, penalty=PENALTY)
    if right.weights.get("agreement", 0.0) < 0:  # by chance: an answer of several moves is not less likely
        rows = [({**features, "agreement": 0.0}, f1, share) for features, f1, share in rows]
        right = fit_logistic(rows, penalty=PENALTY)
    after: dict[str, MovePrediction] = {}
    for move in dict.fromkeys(moment.move for course in courses for moment in course.moments[1:]):
        rows, tokens = [], []
        for course in courses:
            for before, moment in zip(course.moments, course.moments[1:], strict=False):
                if moment.move == move:
                    rows.append((_state(before, right, hidden), moment.best(right)[0], equal[course.data]))
                    tokens.append(moment.tokens)
        after[move] = MovePrediction(fit_logistic(rows, penalty=PENALTY), round(sum(tokens) / len(tokens), 1))
    return Weights(right, after)


def _without(features: Features, hidden: Sequence[str]) -> dict[str, float]:
    return {name: value for name, value in features.items() if name not in hidden}


def _state(moment: Moment, right: Logistic, hidden: Sequence[str] = ()) -> dict[str, float]:
    """Return the features that a move's worth is predicted from, with these odds."""
    question = _without(moment.state, ("odds",))
    if (likeliest := moment.likeliest(right)) is None:
        return question
    chance = min(max(right(likeliest.features), 1e-6), 1 - 1e-6)
    return _without({**question, **likeliest.features, "odds": math.log(chance / (1 - chance))}, hidden)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of one question under a policy."""

    f1: float
    probability: float
    calls: int
    tokens: int
    moves: tuple[str, ...] = ()


def replay(course: Course, weights: Weights, effort: Effort, without: Sequence[str] = ()) -> Replayed:
    """Replay the moves that an effort makes for a question, in the run's order."""
    at, *later = course.moments
    moves, calls, tokens = [at.move], at.calls, at.tokens
    for moment in later:
        f1, probability = at.best(weights.right)
        if moment.move in without:
            continue
        if moment.move == "guess" and moves == ["read"] and course.guess:
            moment = course.guess
        forced = moment.move == "guess" and not at.answers
        if not forced and not weights.is_worth(moment.move, _state(at, weights.right), probability, effort):
            continue
        at = moment
        moves.append(moment.move)
        calls, tokens = calls + moment.calls, tokens + moment.tokens
    f1, probability = at.best(weights.right)
    return Replayed(f1, probability, calls, tokens, tuple(moves))


@dataclass(frozen=True, slots=True)
class Judged:
    """The results of weights on one data set; `model` is "" for all models."""

    data: str
    questions: int
    one_reading: float
    every_move: float
    oracle: float  # F1 of the best answer of any move
    every_calls: float
    f1: float
    calls: float
    tokens: float
    split: float
    error: float  # calibration error of the answers
    kept: float  # share of answers with a probability of at least one half
    lift: float  # share of correct answers among those, relative to all
    model: str = ""


def judge(courses: Sequence[Course], weights: Weights, effort: Effort = "medium") -> Judged:
    """Replay one data set's questions under an effort."""
    chosen = [replay(course, weights, effort) for course in courses]
    every = [replay(course, weights, "high") for course in courses]
    calibration = calibrate([MemoryDecision(True, outcome.f1 >= _RIGHT, outcome.probability) for outcome in chosen])
    given = [outcome for outcome in chosen if outcome.probability >= _RIGHT]
    precision = _mean([float(outcome.f1 >= _RIGHT) for outcome in chosen])
    return Judged(
        courses[0].data,
        len(courses),
        _mean([course.moments[0].best(weights.right)[0] for course in courses]),
        _mean([outcome.f1 for outcome in every]),
        _mean([max((a.f1 for m in course.moments for a in m.answers), default=0.0) for course in courses]),
        _mean([outcome.calls for outcome in every]),
        _mean([outcome.f1 for outcome in chosen]),
        _mean([outcome.calls for outcome in chosen]),
        _mean([outcome.tokens for outcome in chosen]),
        _mean([float("split" in outcome.moves) for outcome in chosen]),
        calibration.ece or 0.0,
        len(given) / len(chosen),
        _mean([float(outcome.f1 >= _RIGHT) for outcome in given]) / precision if precision and given else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A chooser, and its results on left-out data sets, by effort."""

    chooser: Chooser
    left_out: Mapping[str, tuple[Judged, ...]]
    without_logprobs: tuple[Judged, ...]
    by_model: tuple[Judged, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "left_out": {effort: [asdict(figures) for figures in judged] for effort, judged in self.left_out.items()},
            "left_out_without_logprobs": [asdict(figures) for figures in self.without_logprobs],
            "left_out_by_model": [asdict(figures) for figures in self.by_model],
            "chooser": self.chooser.as_dict(),
        }


def fit_chooser(courses: Sequence[Course], *, made_from: Mapping[str, Any]) -> Fitted:
    """Fit both sets of weights; judge them and choose the efforts on left-out data.

    Each effort has the threshold with the smallest worst loss over the data sets, compared with making every move,
    within the effort's share of calls.
    """
    by_data: dict[str, list[Course]] = defaultdict(list)
    for course in courses:
        by_data[course.data].append(course)
    if len(by_data) < 2:
        raise InputError("One data set cannot be left out.", "Give runs of two data sets or more.")
    sets: list[Weights] = []
    judged: dict[bool, dict[str, tuple[Judged, ...]]] = {}
    by_model: list[Judged] = []
    for logprobs in (True, False):
        folds = {data: fit_weights([c for c in courses if c.data != data], logprobs=logprobs) for data in by_data}
        min_gain = _choose_min_gain(by_data, folds)
        judged[logprobs] = {
            effort: tuple(judge(by_data[data], replace(folds[data], min_gain=min_gain), effort) for data in by_data)
            for effort in EFFORTS
        }
        sets.append(replace(fit_weights(courses, logprobs=logprobs), min_gain=min_gain))
        if logprobs:
            by_model = [
                replace(judge(answered, replace(folds[data], min_gain=min_gain)), model=model)
                for model in dict.fromkeys(course.model for course in courses)
                for data in by_data
                if (answered := [course for course in by_data[data] if course.model == model])
            ]
    figures = {
        effort: {
            name: round(_mean([getattr(row, name) for row in rows]), digits)
            for name, digits in (("f1", 4), ("calls", 2), ("one_reading", 4))
        }
        for effort, rows in judged[True].items()
    }
    made_from = {**made_from, "sets": len(by_data), "efforts": figures}
    return Fitted(Chooser(sets[0], sets[1], made_from), judged[True], judged[False]["medium"], tuple(by_model))


def _choose_min_gain(by_data: Mapping[str, Sequence[Course]], folds: Mapping[str, Weights]) -> dict[str, float]:
    """Return the least gain at which each effort makes a move."""
    tried: list[tuple[float, float, float]] = []
    for least in _WORTH:
        judged = [judge(by_data[data], replace(folds[data], min_gain={"medium": least})) for data in by_data]
        worst = max(figures.every_move - figures.f1 for figures in judged)
        tried.append((least, worst, _mean([figures.calls / (figures.every_calls or 1.0) for figures in judged])))
    chosen: dict[str, float] = {}
    for effort, share in SHARE_OF_CALLS.items():
        within = [row for row in tried if row[2] <= share] or [min(tried, key=lambda row: row[2])]
        chosen[effort] = min(within, key=lambda row: (round(row[1], 4), row[2]))[0]
    return chosen


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
