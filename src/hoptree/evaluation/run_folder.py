"""The folder of a run.

FOLDER/run.json         the experiment, what it rests on (data, index, prompts, model), the environment
FOLDER/results.jsonl    a line a question, on disk before the next one counts; the last line of an id counts
FOLDER/traces.jsonl     every event of every question, also of those that were cut off
FOLDER/judgements.jsonl the verdicts of judges, if there were any (see `judge.py`)
FOLDER/metrics.json     the summary of the results (see `summary.py`)
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import IndexUnavailable, InputError
from hoptree.core.files import FolderLock, JsonlLog, atomic_write, read_lines, truncate_partial_line
from hoptree.engine.context import Prices
from hoptree.engine.events import Event, Finished
from hoptree.engine.events import Warned as WarningEvent
from hoptree.engine.trace import read_events
from hoptree.evaluation.judge import Judgements, read_judgements
from hoptree.evaluation.metrics import CANDIDATES, SENTENCES

RUN, RESULTS, TRACES, METRICS = "run.json", "results.jsonl", "traces.jsonl", "metrics.json"
FORMAT = 1
_METHOD_SCORES = SENTENCES | {CANDIDATES}
"""Scores of what only some methods record."""
_SEARCH_SCORES = ("retrieval_recall", "recall_hop_", "passage_support_f1", "citation_")
"""Prefixes of the scores of searches."""


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one question.

    `error` is the class of the failure; a failed question has scores of 0. `source` is where the method says that its
    answer comes from, `retrieved` the passage ids of every search, `cited` those the answer rests on. `sources` counts
    nodes of the tree by where their answers come from. `trace` names its events, `rests_on` is the id that the run had
    when the question was asked.
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

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Row:
        """Return the row of a line of the file, without fields that this version does not know."""
        known = {part.name for part in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        for name in ("answers", "gold", "gold_titles", "cited"):
            values[name] = tuple(values.get(name, ()))
        values["retrieved"] = tuple(tuple(ids) for ids in values.get("retrieved", ()))
        return cls(**values)


class RunFolder:
    """A run's folder, open for writing by one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path, IndexUnavailable)
        self._id = ""
        self._results: JsonlLog | None = None
        self._is_new = False
        self._created: list[Path] = []

    def begin(self, wanted: dict[str, Any], *, anyway: bool = False) -> dict[str, Any]:
        """Start a run in the folder, or resume one that rests on the same; return its `run.json`.

        `anyway` resumes although something changed: `changes` records what it was before, and each row what it was made
        with.
        """
        try:
            self._created = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            leftovers = {FolderLock.NAME, f"{RUN}.new"}  # what a kill leaves before there is a run
            if not (self.path / RUN).exists() and any(entry.name not in leftovers for entry in self.path.iterdir()):
                raise InputError(f"{self.path} holds something else than a run.", "Choose an empty or new --out.")
            self._lock.acquire()
            self._is_new = not (self.path / RUN).exists()
            known = wanted if self._is_new else self._same(wanted, anyway)
            if self._is_new or known != read_run(self.path):
                write_json(self.path / RUN, known)
            truncate_partial_line(self.path / TRACES)
            self._id = str(known["id"])
            self._results = JsonlLog(self.path / RESULTS)
        except OSError as error:
            raise InputError(
                f"The run cannot be written to {self.path}: {error.strerror or error}.", "Choose another --out."
            ) from error
        return known

    def _same(self, wanted: dict[str, Any], anyway: bool) -> dict[str, Any]:
        known = read_run(self.path)
        old, new = known["rests_on"], wanted["rests_on"]
        changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        if not changed:
            return known
        if not read_rows(self.path):
            return wanted  # nothing came of it yet that could be mixed
        if not anyway:
            differences = {name: f"{name} was {old.get(name)!r}, is {new.get(name)!r}" for name in changed}
            if "questions" in differences:  # whose digests say nothing
                before, now = (f"{len(run['questions']):,}" for run in (known, wanted))
                differences["questions"] = f"it asks {before} questions, now {now} (--limit, --seed, --ids)"
            raise InputError(
                f"The run in {self.path} rests on something else: {'; '.join(differences.values())}.",
                "Choose another --out, or go on with --anyway (both will be recorded).",
            )
        earlier = {name: known.get(name) for name in ("id", "name", "experiment", "rests_on", "questions")}
        return {**wanted, "changes": [*known.get("changes", []), earlier]}

    async def add(self, row: Row) -> None:
        """Write a question's outcome durably."""
        assert self._results is not None
        await self._results.add(asdict(replace(row, rests_on=self._id)))

    def close(self, *, refused: bool = False) -> None:
        """Release the folder; a `refused` run that was just begun and has no outcome is removed."""
        if self._results is not None:
            self._results.close()
            self._results = None
        empty = refused and self._is_new and not any(read_lines(self.path / RESULTS))
        if empty:
            for name in (RUN, RESULTS, TRACES):
                (self.path / name).unlink(missing_ok=True)
        self._lock.release()
        if empty:
            with suppress(OSError):  # somebody else uses the folder
                (self.path / FolderLock.NAME).unlink(missing_ok=True)
                for folder in self._created:
                    folder.rmdir()


def read_run(path: Path) -> dict[str, Any]:
    """Read `run.json`."""
    try:
        data: dict[str, Any] = json.loads((path / RUN).read_text(encoding="utf-8"))
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
    """Return the outcomes of all questions that have one, in the order of the data set; the last of each counts.

    The score `judge` is the verdict of the judge that judged last, `judge:NAME` that of each judge. Where a method
    cites sentences or names candidates for some questions, the others score 0. What older versions did not write is
    filled in.
    """
    run = read_run(path)
    by_id: dict[str, Row] = {}
    for number, data in read_lines(path / RESULTS):
        try:
            row = Row.read(data)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"Line {number} of {path / RESULTS} is no result: {error}.", "Take the line out, and run it again."
            ) from error
        by_id[row.id] = row
    rows = [_completed(by_id[name], run) for name in run["questions"] if name in by_id]
    unsearched = not any(row.retrieved for row in rows) and not all(row.error for row in rows)
    recorded = {name for row in rows for name in _METHOD_SCORES if row.scores.get(name) is not None}
    judges = read_judgements(path)
    return [_rescored(row, unsearched, recorded, judges) for row in rows]


def _completed(row: Row, run: Mapping[str, Any]) -> Row:
    """Return the row with what it rests on ("unknown" where the run changed under way) and the price of its tokens."""
    rests_on = row.rests_on or ("unknown" if run.get("changes") else str(run.get("id", "")))
    usage = row.usage
    with suppress(KeyError, TypeError, ValueError, AttributeError):  # damaged: whoever needs the figure reports it
        if "price" not in usage:
            prices = Prices(**run["experiment"].get("prices") or {})
            price = prices.of(int(usage["prompt_tokens"]), 0, int(usage["completion_tokens"]))
            usage = {**usage, "price": price}
    return replace(row, usage=usage, rests_on=rests_on)


def _rescored(row: Row, unsearched: bool, recorded: set[str], judges: Sequence[Judgements]) -> Row:
    """Return the row with scores that depend on the whole run.

    An `unsearched` run has no scores of searches. Scores that the method `recorded` for other questions are 0 where it
    recorded nothing. A judge that has not judged the row gives None.
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
    """Return the events of one question."""
    return [event for event in read_events(path / TRACES) if event.run == row.trace]


def by_question(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the events of each question as soon as it is done; questions asked together are interleaved."""
    unfinished: dict[str, list[Event]] = {}
    for event in events:
        unfinished.setdefault(event.run, []).append(event)
        if isinstance(event, Finished):
            yield unfinished.pop(event.run)
    yield from unfinished.values()


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    atomic_write(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"])


@dataclass(frozen=True, slots=True)
class Warned:
    """How many questions came with a warning of some kind, and its most frequent message."""

    questions: int
    message: str

    def describe(self, kind: str, finished: int) -> str:
        """Return one line for a summary of so many questions."""
        return f"{self.questions:,} of {finished:,} with a warning ({kind}): {self.message}"


def warned_of(events: Iterable[Event]) -> dict[str, Warned]:
    """Return the warnings by kind; a question counts once a kind, with its first message.

    That a budget stopped a question is part of its outcome, and no warning here.
    """
    messages: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events:
        if isinstance(event, WarningEvent) and event.kind != "stopped":
            messages[str(event.kind)].setdefault(event.run, str(event.message))
    return {
        kind: Warned(len(by_run), Counter(by_run.values()).most_common(1)[0][0])
        for kind, by_run in sorted(messages.items())
    }
