"""Evaluation runs, their questions, and what two of them differ in."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from hoptree.server.reply_schemas.answers import AskReply


class RunAbout(TypedDict):
    id: str
    name: str
    folder: str
    method: str
    model: str
    dataset: str
    fidelity: str


class RunReply(TypedDict):
    """A run; a damaged one has nothing but its folder and the error."""

    id: str
    folder: str
    error: NotRequired[str]
    name: NotRequired[str]
    method: NotRequired[str]
    model: NotRequired[str]
    dataset: NotRequired[str]
    fidelity: NotRequired[str]
    questions: NotRequired[int]
    finished: NotRequired[int]
    failed: NotRequired[int]
    em: NotRequired[float | None]
    f1: NotRequired[float | None]


class Runs(TypedDict):
    runs: list[RunReply]


class Mean(TypedDict):
    """A metric over the questions it is defined for, with half the width of its interval."""

    mean: float
    plus_minus: float
    questions: int


class Group(TypedDict):
    questions: int
    metrics: dict[str, Mean]


class RunSummary(RunAbout):
    """A run as a whole; `usage` is the spread of what questions cost, `judges` what judges said of the answers."""

    options: dict[str, Any]
    budget: dict[str, Any]
    questions: int
    finished: int
    failed: int
    abstained: int
    stopped: int
    errors: dict[str, int]
    metrics: dict[str, Mean]
    by_type: dict[str, Group]
    by_hops: dict[str, Group]
    sources: dict[str, int]
    usage: dict[str, dict[str, float]]
    judges: dict[str, dict[str, Any]]


class RunRow(TypedDict):
    """A question of a run, the answers that count, and the one that was given."""

    id: str
    question: str
    gold: list[str]
    answer: str
    type: str
    hops: int
    verdict: Literal["right", "wrong", "failed"]
    abstained: bool
    error: str | None
    stopped_by: str | None
    em: float | None
    f1: float | None
    scores: dict[str, float | None]
    usage: dict[str, float]


class RunQuestion(RunRow):
    result: AskReply


class RunQuestions(TypedDict):
    questions: list[RunRow]
    total: int
    offset: int
    types: list[str]


class IntervalReply(TypedDict):
    mean: float
    low: float
    high: float
    level: float


class Difference(TypedDict):
    """What b has more than a in one metric, and whether that may be luck."""

    questions: int
    mean_a: float
    mean_b: float
    difference: float
    interval: IntervalReply
    p_value: float
    adjusted_p: float
    exact: bool
    wins: int
    losses: int
    ties: int
    flips: bool
    deviation: float | None
    left_out: int
    not_applicable: int
    detectable: float | None
    power_note: str


class Side(TypedDict):
    answer: str
    error: str | None
    em: float | None
    f1: float | None


class Differing(TypedDict):
    """A question that the two runs score differently."""

    id: str
    question: str
    gold: list[str]
    type: str
    difference: float
    a: Side
    b: Side


class RunComparison(TypedDict):
    a: RunAbout
    b: RunAbout
    metrics: dict[str, Difference]
    differ: list[Differing]
