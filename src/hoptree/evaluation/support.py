"""How often an answer that is called well supported, partly supported or a guess is right, of stored runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from hoptree.core.errors import InputError
from hoptree.engine.explain import Level
from hoptree.engine.result import read_result
from hoptree.engine.trace import read_events
from hoptree.evaluation.run_folder import TRACES, Row, read_rows
from hoptree.evaluation.statistics import Interval, interval

NO_ANSWER = "no answer"
_RIGHT_FROM = 0.5  # of F1


@dataclass(frozen=True, slots=True)
class Worded:
    """Answers that were given one word: how many, the share that is right, and the mean F1, with intervals."""

    word: str
    answers: int
    right: Interval | None
    f1: Interval | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure_support(runs: Sequence[Path]) -> list[Worded]:
    """Return how right the answers of runs are, by the word that a person reads for their support.

    The words are told anew from the traces, by today's rules. An answer with an F1 of 0.5 and above counts as right.
    """
    by_word: dict[str, list[tuple[float, float]]] = {word: [] for word in (*get_args(Level), NO_ANSWER)}
    for run in runs:
        for row, word in _words(run):
            f1 = row.scores.get("f1") or 0.0
            by_word[word].append((float(f1 >= _RIGHT_FROM), f1))
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


def _measure(word: str, scores: Iterable[tuple[float, float]]) -> Worded:
    right, f1 = ([*column] for column in zip(*scores, strict=True)) if (scores := [*scores]) else ([], [])
    return Worded(word, len(right), interval(right) if right else None, interval(f1) if f1 else None)
