"""Fit hop's chooser to runs that made every move, and replay policies on them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.engine.events import Event
from hoptree.engine.trace import ModelCalled, read_events
from hoptree.evaluation.calibration import Calibration, Decision, calibrate
from hoptree.evaluation.metrics import score_answer
from hoptree.evaluation.run_folder import TRACES, read_rows, read_run
from hoptree.methods.hop.candidates import OPERATED, Candidate, Pool, Standing
from hoptree.methods.hop.chooser import FEATURES, Chooser, Features, Outlook, Policy, may_weigh
from hoptree.methods.hop.method import SETTLING, Standings, next_move

PENALTY = 1.0
"""What a weight of 1 costs, in units of one example's log-loss."""
_ROUNDS = 50
_SETTLED = 1e-9


@dataclass(frozen=True, slots=True)
class Example:
    """An answer's features, and how right it was: from 0 to 1, since F1 is neither."""

    features: Features
    right: float
    weight: float = 1.0


def fit(examples: Sequence[Example], *, penalty: float = PENALTY) -> tuple[dict[str, float], float]:
    """Fit weights and bias by penalised maximum likelihood; the bias is not penalised.

    A weight whose sign contradicts its feature is set to 0 and the others are refitted, until there is none.
    """
    names = list(FEATURES)
    while True:
        point = _likeliest(
            [[one.features.get(name, 0.0) for name in names] + [1.0] for one in examples], examples, penalty
        )
        weights = dict(zip(names, point, strict=False))
        if not (odd := [name for name, weight in weights.items() if not may_weigh(name, round(weight, 6))]):
            # What is rounded to nothing has no sign.
            return {name: round(weights.get(name, 0.0), 6) + 0.0 for name in FEATURES}, round(point[-1], 6)
        names.remove(max(odd, key=lambda name: abs(weights[name])))


def _likeliest(rows: Sequence[Sequence[float]], examples: Sequence[Example], penalty: float) -> list[float]:
    """Minimise by Newton's method, halving steps that do not go down."""
    point = [0.0] * (len(rows[0]) if rows else 1)
    loss = _loss(rows, examples, point, penalty)
    for _ in range(_ROUNDS):
        step = _newton(rows, examples, point, penalty)
        size = 1.0
        while size > _SETTLED:
            tried = [at - size * by for at, by in zip(point, step, strict=True)]
            if (lower := _loss(rows, examples, tried, penalty)) < loss:
                break
            size /= 2
        else:
            break
        settled = loss - lower < _SETTLED * (1 + loss)
        point, loss = tried, lower
        if settled:
            break
    return point


def _chance(row: Sequence[float], point: Sequence[float]) -> float:
    total = math.fsum(at * by for at, by in zip(row, point, strict=True))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def _loss(
    rows: Sequence[Sequence[float]], examples: Sequence[Example], point: Sequence[float], penalty: float
) -> float:
    total = penalty / 2 * math.fsum(weight * weight for weight in point[:-1])
    for row, one in zip(rows, examples, strict=True):
        chance = min(max(_chance(row, point), 1e-12), 1 - 1e-12)
        total -= one.weight * (one.right * math.log(chance) + (1 - one.right) * math.log(1 - chance))
    return total


def _newton(
    rows: Sequence[Sequence[float]], examples: Sequence[Example], point: Sequence[float], penalty: float
) -> list[float]:
    """Return the inverse Hessian times the gradient."""
    size = len(point)
    slope = [penalty * weight for weight in point[:-1]] + [0.0]
    bend = [[penalty if at == other < size - 1 else 0.0 for other in range(size)] for at in range(size)]
    bend[-1][-1] = 1e-9  # so that no example at all is no division by nothing
    for row, one in zip(rows, examples, strict=True):
        chance = _chance(row, point)
        off, steep = one.weight * (chance - one.right), one.weight * chance * (1 - chance)
        for at, value in enumerate(row):
            if value:
                slope[at] += off * value
                for other in range(at + 1):
                    bend[at][other] += steep * value * row[other]
    for at in range(size):
        for other in range(at):
            bend[other][at] = bend[at][other]
    return _solved(bend, slope)


def _solved(matrix: list[list[float]], right: Sequence[float]) -> list[float]:
    """Solve linear equations by elimination with the largest pivot."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        best = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for below in range(at + 1, size):
            share = rows[below][at] / rows[at][at]
            if share:
                rows[below] = [one - share * other for one, other in zip(rows[below], rows[at], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        known = math.fsum(rows[at][other] * found[other] for other in range(at + 1, size))
        found[at] = (rows[at][size] - known) / rows[at][at]
    return found


FOLDS = 5
_RIGHT = 0.5
"""F1 from which an answer counts as right where only right and wrong are told apart."""
_SURE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_WORTH = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5, 100.0)
"""What is tried for when to go on; no move is worth the last."""
_BELIEVED = 10.0
"""What is known of a move over all weighs as much as this many wholly doubtful questions of one kind."""
_BLANK = Chooser({}, 0.0)


@dataclass(frozen=True, slots=True)
class Moment:
    """A move: the answers it brought, what a check said, and its cost."""

    move: str
    added: tuple[Candidate, ...]
    checked: Mapping[str, float]
    calls: int
    tokens: int


@dataclass(frozen=True)
class Course:
    """One question of a run that made every move."""

    id: str
    question: str
    golds: tuple[str, ...]
    operator: str
    moments: tuple[Moment, ...]
    data: str = ""
    """What tells data sets apart: questions of several may share an id."""

    @cached_property
    def f1(self) -> Mapping[str, float]:
        """Of every answer that there was."""
        said = {one.answer.text for moment in self.moments for one in moment.added}
        return {answer: score_answer(answer, self.golds)["f1"] or 0.0 for answer in said}

    @cached_property
    def _counted(self) -> dict[frozenset[str], list[Standing]]:
        """What was counted already, by the moves that had been made: features do not depend on weights."""
        return {}

    def standings(self, chooser: Chooser, moves: Iterable[str]) -> list[Standing]:
        """Return the answers after some of the moves, in the order the run made them."""
        made = frozenset(moves)
        if made not in self._counted:
            pool = Pool(self.question, _BLANK, operated=self.operator in OPERATED)
            for moment in self.moments:
                if moment.move in made:
                    pool.candidates += moment.added
                    pool.checked |= moment.checked if moment.move == SETTLING else {}
            self._counted[made] = pool.standings()
        weighed = [replace(one, probability=chooser.probability(one.features)) for one in self._counted[made]]
        return sorted(weighed, key=lambda one: (one.recalled, -one.probability))

    def best(self, chooser: Chooser, moves: Iterable[str]) -> tuple[float, float]:
        """Return F1 and probability of the answer given after some moves."""
        standings = self.standings(chooser, moves)
        return (self.f1[standings[0].answer.text], standings[0].probability) if standings else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Mean results of a policy."""

    policy: Policy
    f1: float
    calls: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A chooser, and how it does on questions that it was not fitted to (by cross-validation).

    `first`, `chosen` and `oracle` are the mean F1 of the first reading, of the choice after all moves, and of the best
    answer that was there; `captured` is the share of the gap between the first and the last that the choice has.
    `policies` are what was tried for when to go on, the one that was taken first.
    """

    chooser: Chooser
    questions: int
    examples: int
    first: float
    chosen: float
    oracle: float
    calibration: Calibration
    policies: tuple[Replayed, ...]

    @property
    def captured(self) -> float | None:
        gap = self.oracle - self.first
        return (self.chosen - self.first) / gap if gap > 0 else None

    def as_dict(self) -> dict[str, Any]:
        told = {
            name: getattr(self, name) for name in ("questions", "examples", "first", "chosen", "oracle", "captured")
        }
        return {
            **told,
            "calibration_error": self.calibration.ece,
            "policies": [asdict(one) for one in self.policies],
            "chooser": self.chooser.as_dict(),
        }


def courses_in(folders: Iterable[Path]) -> list[Course]:
    """Return the questions of several runs that made every move, each once."""
    courses = [course for folder in folders for course in courses_of(folder)]
    if twice := len(courses) - len({(course.data, course.id) for course in courses}):
        raise InputError(f"{twice} questions are in two of these runs.", "Give each question once.")
    return courses


def courses_of(folder: Path) -> list[Course]:
    """Return the questions of one run with what every move brought."""
    run = read_run(folder)
    if run["experiment"].get("method") != "hop":
        raise InputError(f"The run in {folder} is not of hop.", "Give runs of --method hop.")
    options = run["rests_on"].get("options", {})
    if not (options.get("sure") == 1 and options.get("worth") == 0):
        raise InputError(
            f"The run in {folder} did not make every move.",
            "Run it with --set sure=1 --set worth=0 into another folder.",
        )
    data = str(run["rests_on"].get("data", ""))
    events: dict[str, list[Event]] = defaultdict(list)
    for event in read_events(folder / TRACES):
        events[event.run].append(event)
    courses = [
        replace(_course(row.id, row.question, row.answers, events.get(row.trace, ())), data=data)
        for row in read_rows(folder)
        if row.answers
    ]
    if not (found := [course for course in courses if course.moments]):
        raise InputError(f"No question of {folder} tells how its answers stood.", "Run it with this version of hop.")
    return found


def _course(name: str, question: str, golds: Sequence[str], events: Iterable[Event]) -> Course:
    moments: list[Moment] = []
    calls, tokens, operator = 0, 0, ""
    for event in events:
        if isinstance(event, ModelCalled):
            calls, tokens = calls + 1, tokens + event.prompt_tokens + event.completion_tokens
        elif isinstance(event, Standings):
            operator = event.operator
            added = tuple(Candidate.read(candidate) for candidate in event.added)
            moments.append(Moment(event.after, added, event.checked, calls, tokens))
            calls, tokens = 0, 0
    return Course(name, question, tuple(golds), operator, tuple(moments))


def fit_chooser(
    courses: Sequence[Course], *, calls: float, penalty: float = PENALTY, made_from: Mapping[str, Any]
) -> Fitted:
    """Fit weights, expected gains and a stopping policy of at most `calls` a question.

    Quality is measured by cross-validation.
    """
    if len(courses) < 2 * FOLDS:
        raise InputError(f"{len(courses)} questions are too few to fit a chooser to.", f"Give {2 * FOLDS} or more.")
    held_out: list[tuple[Course, Chooser]] = []
    for fold in range(FOLDS):
        rest = [course for place, course in enumerate(courses) if place % FOLDS != fold]
        chooser = _weighed(rest, penalty)
        held_out += ((course, chooser) for course in courses[fold::FOLDS])
    # What moves were worth is told by weights that did not see the question.
    outlooks = _outlooks(held_out)
    policies = _policies([(course, replace(chooser, outlooks=outlooks)) for course, chooser in held_out], calls)
    whole = replace(_weighed(courses, penalty), outlooks=outlooks, policy=policies[0].policy, made_from=made_from)
    chosen = [course.best(chooser, _moves(course)) for course, chooser in held_out]
    return Fitted(
        whole,
        len(courses),
        sum(len(moment.added) for course in courses for moment in course.moments),
        _mean([course.best(chooser, _moves(course)[:1])[0] for course, chooser in held_out]),
        _mean([f1 for f1, _ in chosen]),
        _mean([max(course.f1.values(), default=0.0) for course in courses]),
        calibrate([Decision(True, f1 >= _RIGHT, probability) for f1, probability in chosen]),
        policies,
    )


def replay(course: Course, chooser: Chooser, policy: Policy, without: Sequence[str] = ()) -> tuple[float, int, int]:
    """Return F1, calls and tokens under a policy, optionally without some moves.

    A check counts only where the run made it; effects of another order within a move are not modelled.
    """
    left = {moment.move: moment for moment in course.moments if moment.move not in without}
    made: list[str] = []
    calls = tokens = 0
    while name := next_move(
        left, course.standings(chooser, made), lambda move: chooser.outlook(move, course.operator), policy
    ):
        moment = left.pop(name)
        made.append(name)
        calls, tokens = calls + moment.calls, tokens + moment.tokens
    return course.best(chooser, made)[0], calls, tokens


def replayed(courses: Sequence[Course], chooser: Chooser, *, without: Sequence[str] = ()) -> Replayed:
    """Replay a chooser by its own policy: means over questions."""
    return _means(chooser.policy, [replay(course, chooser, chooser.policy, without) for course in courses])


def _means(policy: Policy, each: Sequence[tuple[float, int, int]]) -> Replayed:
    return Replayed(policy, *(_mean([float(one[place]) for one in each]) for place in range(3)))


def _weighed(courses: Sequence[Course], penalty: float) -> Chooser:
    """Fit the weights to every answer at every moment; each question counts the same."""
    examples = []
    for course in courses:
        moves = _moves(course)
        stood = [course.standings(_BLANK, moves[: last + 1]) for last in range(len(moves))]
        share = len(stood) / (sum(map(len, stood)) or 1)
        examples += [Example(one.features, course.f1[one.answer.text], share) for some in stood for one in some]
    return Chooser(*fit(examples, penalty=penalty))


def _moves(course: Course) -> list[str]:
    return [moment.move for moment in course.moments]


def _outlooks(judged: Sequence[tuple[Course, Chooser]]) -> dict[str, Outlook]:
    """Return for each move the share of doubt it settled and its tokens, by kind of question and overall."""
    gained: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for course, chooser in judged:
        moves = _moves(course)
        for last, moment in enumerate(course.moments[1:], 1):
            was, likely = course.best(chooser, moves[:last])
            now, _ = course.best(chooser, moves[: last + 1])
            for name in (moment.move, f"{moment.move}/{course.operator}"):
                gained[name].append((now - was, 1 - likely, moment.tokens))
    found: dict[str, Outlook] = {}
    for name, moments in sorted(gained.items()):  # "split" before "split/compare"
        over_all = found.get(name.partition("/")[0])
        doubt = math.fsum(one for _, one, _ in moments)
        gain = math.fsum(one for one, _, _ in moments)
        if over_all:  # a kind with few questions is not believed to be another than the rest
            doubt, gain = doubt + _BELIEVED, gain + _BELIEVED * over_all.settles
        settles = gain / doubt if doubt else 0.0
        found[name] = Outlook(round(max(settles, 0.0), 4), round(_mean([float(one) for _, _, one in moments]), 1))
    return found


def _policies(judged: Sequence[tuple[Course, Chooser]], calls: float) -> tuple[Replayed, ...]:
    """Try stopping policies; the best F1 within so many calls comes first."""
    tried = []
    for sure in _SURE:
        for worth in _WORTH:
            policy = Policy(sure, worth)
            tried.append(_means(policy, [replay(course, chooser, policy) for course, chooser in judged]))
    within = [one for one in tried if one.calls <= calls] or [min(tried, key=lambda one: one.calls)]
    best = max(within, key=lambda one: (one.f1, -one.tokens))
    return (best, *(one for one in tried if one is not best))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
