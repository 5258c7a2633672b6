"""The folder of a run, and the summary of its results.

FOLDER/run.json         the experiment, what it rests on (data, index, prompts, model), and the environment
FOLDER/results.jsonl    a line for each question, synced to disk; if an id repeats, its last line counts
FOLDER/traces.jsonl     every event of every question, interrupted ones included
FOLDER/judgements.jsonl the verdicts of judges, if any (see `judge.py`)
FOLDER/metrics.json     the summary: means with intervals, by type and hops, and costs
"""

from __future__ import annotations

import json
import math
import secrets
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import IndexUnavailable, InputError, OtherRun, TraceError
from hoptree.core.files import (
    FolderLock,
    JsonlLog,
    atomic_write,
    read_lines,
    truncate_partial_line,
    with_sum,
    without_sum,
)
from hoptree.core.values import Usage
from hoptree.engine.context import Prices
from hoptree.engine.events import Event, Finished
from hoptree.engine.events import Warned as WarningEvent
from hoptree.engine.trace import ModelCalled, read_events
from hoptree.evaluation.judge import Judgements, read_judgements
from hoptree.evaluation.metrics import CANDIDATES, SENTENCES
from hoptree.evaluation.statistics import unseen

RUN, RESULTS, TRACES, METRICS = "run.json", "results.jsonl", "traces.jsonl", "metrics.json"
FORMAT = 1
_METHOD_SCORES = SENTENCES | {CANDIDATES}  # scores that need records which only some methods make
_SEARCH_SCORES = ("retrieval_recall", "recall_hop_", "passage_support_f1", "citation_")  # prefixes


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one question.

    `error` is the class of the failure; a failed question has scores of 0. `source` is the origin of the answer by the
    method's own account, `retrieved` the passage ids of every search, `cited` those that the answer rests on. `sources`
    counts the nodes of the tree by the origin of their answers. `trace` is the run id of its events, `rests_on` the id
    that the evaluation run had when the question was asked.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    answer: str
    type: str = ""
    hops: int = 0
    abstained: bool = False
    error: str = ""
    error_message: str = ""
    stopped_by: str = ""
    source: str = ""
    scores: dict[str, float | None] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    gold: tuple[str, ...] = ()
    gold_titles: tuple[str, ...] = ()
    retrieved: tuple[tuple[str, ...], ...] = ()
    cited: tuple[str, ...] = ()
    sources: dict[str, int] = field(default_factory=dict)
    trace: str = ""
    rests_on: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of a line of the file."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Row:
        """Return the row of a line, ignoring unknown fields."""
        known = {part.name for part in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        for name in ("answers", "gold", "gold_titles", "cited"):
            values[name] = tuple(values.get(name, ()))
        values["retrieved"] = tuple(tuple(ids) for ids in values.get("retrieved", ()))
        return cls(**values)


def other_run(path: Path, old: Mapping[str, Any], new: Mapping[str, Any], questions: tuple[int, int]) -> OtherRun:
    """Return the error that a folder's run rests on something else."""
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    differences = {name: f"{name} was {old.get(name)!r}, is {new.get(name)!r}" for name in changed}
    if "questions" in differences:  # numbers say more than digests
        before, now = questions
        differences["questions"] = f"it asks {before:,} questions, now {now:,} (--limit, --seed, --ids)"
    cause = f"The run in {path} rests on something else: {'; '.join(differences.values())}."
    return OtherRun(cause, "Choose another --out.")


class RunFolder:
    """A run's folder, open for writing by one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path, IndexUnavailable)
        self._stamp: dict[str, str] = {}
        self._results: JsonlLog | None = None
        self._is_new = False
        self._created: list[Path] = []

    def begin(self, wanted: dict[str, Any], *, anyway: bool = False) -> dict[str, Any]:
        """Start or resume a run in the folder; return its `run.json`.

        `anyway` resumes although the run rests on something else now: `changes` records the earlier settings, and each
        row the settings that it was made with.
        """
        try:
            self._created = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            leftovers = {FolderLock.NAME, f"{RUN}.new"}  # files of a start that was killed
            if not (self.path / RUN).exists() and any(entry.name not in leftovers for entry in self.path.iterdir()):
                raise InputError(f"{self.path} holds something else than a run.", "Choose an empty or new --out.")
            self._lock.acquire()
            self._is_new = not (self.path / RUN).exists()
            known = {**wanted, "nonce": secrets.token_hex(6)} if self._is_new else self._same(wanted, anyway)
            if self._is_new or known != read_run(self.path):
                write_json(self.path / RUN, with_sum(known))
            truncate_partial_line(self.path / TRACES)
            self._stamp = {"rests_on": str(known["id"]), "nonce": _nonce(known)}
            self._results = JsonlLog(self.path / RESULTS)
        except OSError as error:
            raise InputError(
                f"The run cannot be written to {self.path}: {error.strerror or error}.", "Choose another --out."
            ) from error
        return known

    def _same(self, wanted: dict[str, Any], anyway: bool) -> dict[str, Any]:
        known = read_run(self.path)
        old, new = known["rests_on"], wanted["rests_on"]
        if old == new:
            return known
        if not read_rows(self.path):
            return {**wanted, "nonce": _nonce(known)}  # there are no outcomes that could be mixed
        if not anyway:
            error = other_run(self.path, old, new, (len(known["questions"]), len(wanted["questions"])))
            error.remedy = "Choose another --out, or go on with --anyway (both will be recorded)."
            raise error
        earlier = {name: known.get(name) for name in ("id", "name", "experiment", "rests_on", "questions")}
        return {**wanted, "nonce": _nonce(known), "changes": [*known.get("changes", []), earlier]}

    async def add(self, row: Row) -> None:
        """Write the outcome of a question durably."""
        assert self._results is not None
        await self._results.add({**row.as_dict(), **self._stamp})

    def close(self, *, refused: bool = False) -> None:
        """Release the folder; remove a `refused` run without outcomes."""
        if self._results is not None:
            self._results.close()
            self._results = None
        empty = refused and self._is_new and not any(read_lines(self.path / RESULTS))
        if empty:
            for name in (RUN, RESULTS, TRACES):
                (self.path / name).unlink(missing_ok=True)
        self._lock.release()
        if empty:
            with suppress(OSError):  # another process uses the folder
                (self.path / FolderLock.NAME).unlink(missing_ok=True)
                for folder in self._created:
                    folder.rmdir()


def read_run(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = without_sum(json.loads((path / RUN).read_text(encoding="utf-8")))
        if data.get("format") != FORMAT:
            raise InputError(
                f"The run in {path} is of format {data.get('format')}, not {FORMAT}.", "Run it again with this version."
            )
        if not isinstance(data["rests_on"], dict):
            raise TypeError("rests_on")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path} holds no run.", "Make one: hoptree run --data … --method … --out FOLDER") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"The run in {path} is damaged: {error}.", "Run it again into another folder.") from error
    return data


def read_rows(path: Path) -> list[Row]:
    """Return the outcomes in the order of the data; the last of each counts.

    The score `judge` is the verdict of the latest judge, `judge:NAME` that of each judge. If a method cites sentences
    or names candidates for some questions, the others score 0. Fields that older versions did not write are filled in.
    """
    run = read_run(path)
    read_warnings(path)
    nonce = _nonce(run)
    ids = {"", *(str(settings.get("id", "")) for settings in (run, *run.get("changes", ())))}
    by_id: dict[str, Row] = {}
    for number, data in read_lines(path / RESULTS):
        try:
            row = Row.read(data)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"Line {number} of {path / RESULTS} is not a result: {error}.", "Take the line out, and run it again."
            ) from error
        if row.rests_on not in ids or data.get("nonce", nonce) != nonce:
            cause = f"Line {number} of {path / RESULTS} is of another run."
            raise InputError(cause, "Put the file of this run back, or run it again into another folder.")
        by_id[row.id] = row
    rows = [_completed(by_id[name], run) for name in run["questions"] if name in by_id]
    unsearched = not any(row.retrieved for row in rows) and not all(row.error for row in rows)
    recorded = {name for row in rows for name in _METHOD_SCORES if row.scores.get(name) is not None}
    judges = read_judgements(path)
    return [_rescored(row, unsearched, recorded, judges) for row in rows]


def _completed(row: Row, run: Mapping[str, Any]) -> Row:
    """Return the row with what it rests on, and its price."""
    rests_on = row.rests_on or ("unknown" if run.get("changes") else str(run.get("id", "")))
    usage = row.usage
    with suppress(KeyError, TypeError, ValueError, AttributeError):  # damaged; reported where the figure is used
        if "price" not in usage:
            prices = Prices(**run["experiment"].get("prices") or {})
            price = prices.of(int(usage["prompt_tokens"]), 0, int(usage["completion_tokens"]))
            usage = {**usage, "price": price}
    return replace(row, usage=usage, rests_on=rests_on)


def _rescored(row: Row, unsearched: bool, recorded: set[str], judges: Sequence[Judgements]) -> Row:
    """Return the row with scores that depend on the whole run.

    An `unsearched` run has no search scores. A score that the method `recorded` for other questions is 0 if it is
    missing here. A judge that has not judged the row gives None.
    """
    scores = {
        name: 0.0 if score is None and name in recorded else score
        for name, score in row.scores.items()
        if not (unsearched and name.startswith(_SEARCH_SCORES))
    }
    judged: dict[str, float | None] = {}
    for judgements in judges:
        verdict = judgements.on(row)
        judged[f"judge:{judgements.judge.name}"] = None if verdict is None else float(verdict.correct)
    last = {"judge": judged[f"judge:{judges[-1].judge.name}"]} if judges else {}
    return replace(row, scores={**scores, **last, **judged})


def trace_of(path: Path, row: Row) -> list[Event]:
    return [event for event in read_events(path / TRACES) if event.run == row.trace]


def by_question(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the events of each question as soon as it is finished."""
    unfinished: dict[str, list[Event]] = {}
    for event in events:
        unfinished.setdefault(event.run, []).append(event)
        if isinstance(event, Finished):
            yield unfinished.pop(event.run)
    yield from unfinished.values()


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    atomic_write(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"])


def read_warnings(path: Path) -> list[str]:
    """Return the warnings in a run's summary; a damaged summary is an error."""
    try:
        written = json.loads((path / METRICS).read_text(encoding="utf-8"))
        summary, nonce = without_sum(written), _nonce(read_run(path))
        expected = {"metrics", "sum"} if "nonce" in written else {"metrics"}  # older versions wrote neither
        if not expected <= written.keys() or summary.get("nonce", nonce) != nonce:
            raise ValueError("it is of another run")
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AttributeError, TypeError) as error:
        cause = f"{path / METRICS} is damaged: {error}."
        raise InputError(cause, "Delete it: the command of the run makes it again, from the results.") from error
    return list(summary.get("warnings", ()))


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    write_json(path / METRICS, with_sum({**summary, "nonce": _nonce(read_run(path))}))


def _nonce(run: Mapping[str, Any]) -> str:
    return str(run.get("nonce", ""))


@dataclass(frozen=True, slots=True)
class Warned:
    """A kind of warning: the number of questions with it, and its message."""

    questions: int
    message: str

    def describe(self, kind: str, finished: int) -> str:
        """Return one line for a summary of `finished` questions."""
        return f"{self.questions:,} of {finished:,} with a warning ({kind}): {self.message}"


def warned_of(events: Iterable[Event]) -> dict[str, Warned]:
    """Return the warnings by kind; a question counts once for each kind."""
    messages: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events:
        if isinstance(event, WarningEvent) and event.kind != "stopped":
            messages[str(event.kind)].setdefault(event.run, str(event.message))
    return {
        kind: Warned(len(by_run), Counter(by_run.values()).most_common(1)[0][0])
        for kind, by_run in sorted(messages.items())
    }


@dataclass(frozen=True, slots=True)
class Spread:
    """Statistics of a cost over all questions."""

    total: float
    mean: float | None
    median: float | None
    p95: float | None


def spread(values: Sequence[float]) -> Spread:
    """Return the total, mean, median and 95th percentile of values."""
    if not values:
        return Spread(0.0, None, None, None)
    total, ordered = math.fsum(values), sorted(values)
    p95 = ordered[-(-95 * len(ordered) // 100) - 1]
    return Spread(total, total / len(values), statistics.median(ordered), p95)


def summarise_usage(usages: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Return the statistics of every usage figure, and of `tokens`.

    A usage without one of the figures is an error: 0 would make the run look cheaper than it was.
    """
    names = [field.name for field in fields(Usage)]
    for usage in usages:
        if missing := [name for name in names if name not in usage]:
            raise InputError(
                f"A question's usage does not say its {', '.join(missing)}.", "Run it again with this version."
            )
    tokens = spread([usage["prompt_tokens"] + usage["completion_tokens"] for usage in usages])
    return {name: spread([usage[name] for usage in usages]) for name in names} | {"tokens": tokens}


def summarise(folder: Path) -> dict[str, Any]:
    """Return the metrics of a run over its finished questions."""
    run, rows = read_run(folder), read_rows(folder)
    warned: dict[str, Warned] = {}
    unfinished: dict[str, float] = {}
    try:
        unfinished, warned = _traced(folder, {row.trace for row in rows})
    except TraceError as error:
        warned = {"trace": Warned(len(rows), f"{error.cause} What interrupted questions cost is not known.")}
    return {
        "questions": len(run["questions"]),
        "finished": len(rows),
        "failed": sum(bool(row.error) for row in rows),
        "abstained": sum(row.abstained for row in rows),
        "stopped": sum(bool(row.stopped_by) for row in rows),
        "stopped_guesses": sum(bool(row.stopped_by and row.source == "fallback") for row in rows),
        "errors": dict(Counter(row.error for row in rows if row.error)),
        **({"answer_filter": run["answer_filter"]} if "answer_filter" in run else {}),
        "rests_on": dict(Counter(row.rests_on for row in rows)),
        "metrics": _means(rows),
        "by_type": _by(rows, lambda row: row.type),
        "by_hops": _by(rows, lambda row: str(row.hops or "")),
        "sources": dict(sum((Counter(row.sources) for row in rows), Counter())),
        "judges": {known.judge.name: known.report(rows).as_dict() for known in read_judgements(folder)},
        "usage": {name: asdict(cost) for name, cost in summarise_usage([row.usage for row in rows]).items()},
        "unfinished_usage": unfinished,
        "warned": {kind: asdict(warning) for kind, warning in warned.items()},
    }


def money_spent(folder: Path) -> float:
    """Return the cost of a run so far, with interrupted and repeated questions."""
    if not (folder / RUN).exists():
        return 0.0
    rows = read_rows(folder)
    paid = math.fsum(row.usage.get("cost", 0.0) for row in rows)
    unfinished, _ = _traced(folder, {row.trace for row in rows})
    return paid + unfinished["cost"]


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of a mean, by the normal approximation.

    If all values are equal (scores from 0 to 1), the Clopper-Pearson bound is used.
    """
    if len(set(values)) == 1:
        return unseen(len(values)) * max(values[0], 1 - values[0])
    if not values:
        return 0.0
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values))


def _means(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return each metric with its mean, half interval and number of questions."""
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.scores.items():
            if value is not None:
                scores[name].append(value)
    return {
        name: {"mean": statistics.fmean(values), "plus_minus": half_width(values), "questions": len(values)}
        for name, values in scores.items()
    }


def _by(rows: Iterable[Row], group: Callable[[Row], str]) -> dict[str, Any]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[group(row)].append(row)
    return {name: {"questions": len(part), "metrics": _means(part)} for name, part in sorted(groups.items()) if name}


def _traced(folder: Path, finished: set[str]) -> tuple[dict[str, float], dict[str, Warned]]:
    """Return the cost of attempts without an outcome, and the others' warnings."""
    spent = {"calls": 0.0, "prompt_tokens": 0.0, "completion_tokens": 0.0, "cost": 0.0}
    warnings: list[Event] = []
    seen: set[str] = set()
    finished = finished - {""}  # the trace of questions that could not be asked

    def wanted(kind: str, run: str) -> bool:
        seen.add(run)
        return kind == ("warning" if run in finished else "llm")

    path = folder / TRACES
    for event in read_events(path, wanted) if path.exists() and path.stat().st_size else ():
        if isinstance(event, ModelCalled) and not event.cached and event.run not in finished:
            spent["calls"] += 1
            for name in ("prompt_tokens", "completion_tokens", "cost"):
                spent[name] += getattr(event, name)
        elif isinstance(event, WarningEvent) and event.run in finished:
            warnings.append(event)
    if seen and finished and seen.isdisjoint(finished):
        raise TraceError(f"{path} is of another run.", "Put the file of this run back.")
    return spent, warned_of(warnings)
