"""One folder a run: what was asked for, what became of every question, and how.

FOLDER/run.json         the experiment, what it rests on (data, index, prompts, model), the environment
FOLDER/results.jsonl    a line a question, on disk before the next one counts; the last line of an id counts
FOLDER/traces.jsonl     every event of every question, also of those that were cut off
FOLDER/judgements.jsonl the verdicts of judges, if there were any (see `judgements.py`)
FOLDER/metrics.json     what `summary.py` makes of the results
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
from hoptree.core.files import FolderLock, JsonlLog, read_lines, truncate_partial_line
from hoptree.engine.context import Prices
from hoptree.engine.events import Event, Finished
from hoptree.engine.events import Warned as WarningEvent
from hoptree.engine.trace import read_events
from hoptree.evaluation.judge import Verdict, read_judgements
from hoptree.evaluation.metrics import CANDIDATES, SENTENCES

RUN, RESULTS, TRACES, METRICS = "run.json", "results.jsonl", "traces.jsonl", "metrics.json"
FORMAT = 1
_OF_SOME = SENTENCES | {CANDIDATES}
"""The scores that are of what only some methods tell."""
_OF_SEARCHES = ("retrieval_recall", "recall_hop_", "passage_support_f1", "citation_")
"""How the names of scores begin that are of what was found."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one question.

    `error` is the class of the failure, empty if there was none; a failed question has scores of 0. `source` is where
    the method says that its answer comes from, empty in runs of before that was kept. `retrieved` holds
    the passage ids of every search, in order, `cited` those the answer rests on, `sources` how many nodes of the tree
    were answered from where, `gold` the passages that should have been found and `gold_titles` their pages. `trace`
    names its events, `rests_on` what it was made with, by the id that the run had then.
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
        """A row from a line of the file; what this version does not know of is left out."""
        known = {one.name for one in fields(cls)}
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
        self._began = False
        self._made: list[Path] = []

    def begin(self, wanted: dict[str, Any], *, anyway: bool = False) -> dict[str, Any]:
        """Start a run in the folder, or resume one that rests on the same; return its `run.json`.

        `anyway` resumes although something changed: `changes` records what it was before, and each row what it was made
        with.
        """
        try:
            self._made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            begun = {FolderLock.NAME, _part(self.path / RUN).name}  # what a kill leaves before there is a run
            if not (self.path / RUN).exists() and any(entry.name not in begun for entry in self.path.iterdir()):
                raise InputError(f"{self.path} holds something else than a run.", "Choose an empty or new --out.")
            self._lock.acquire()
            self._began = not (self.path / RUN).exists()
            known = wanted if self._began else self._same(wanted, anyway)
            if known != (None if self._began else read_run(self.path)):
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
        said = "; ".join(_difference(name, known, wanted) for name in changed)
        if not anyway:
            raise InputError(
                f"The run in {self.path} rests on something else: {said}.",
                "Choose another --out, or go on with --anyway (both will be recorded).",
            )
        before = {name: known.get(name) for name in ("id", "name", "experiment", "rests_on", "questions")}
        return {**wanted, "changes": [*known.get("changes", []), before]}

    async def add(self, row: Row) -> None:
        """Write a question's outcome durably."""
        assert self._results is not None
        await self._results.add(asdict(replace(row, rests_on=self._id)))

    def close(self, *, refused: bool = False) -> None:
        """Release the folder; a `refused` run that was just begun and has no outcome is removed."""
        if self._results is not None:
            self._results.close()
            self._results = None
        empty = refused and self._began and not any(read_lines(self.path / RESULTS))
        if empty:
            for name in (RUN, RESULTS, TRACES):
                (self.path / name).unlink(missing_ok=True)
        self._lock.release()
        if empty:
            with suppress(OSError):  # somebody else uses it, which is as good
                (self.path / FolderLock.NAME).unlink(missing_ok=True)
                for folder in self._made:
                    folder.rmdir()


def _difference(name: str, known: dict[str, Any], wanted: dict[str, Any]) -> str:
    if name == "questions":  # digests tell nobody anything
        return (
            f"it asks {len(known['questions']):,} questions, now {len(wanted['questions']):,} (--limit, --seed, --ids)"
        )
    return f"{name} was {known['rests_on'].get(name)!r}, is {wanted['rests_on'].get(name)!r}"


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
    """The outcome of every question that has one, in the order of the data set: the last word on each counts.

    The scores are those of the whole run: `judge` is the verdict of the judge that judged it last, `judge:NAME` that of
    each judge. Where a method cites sentences or names candidates for some questions, it has none for the others. Rows
    that lack what older versions did not write get it from what the run says of itself.
    """
    run = read_run(path)
    order: list[str] = run["questions"]
    rows: dict[str, Row] = {}
    for number, data in read_lines(path / RESULTS):
        try:
            row = Row.read(data)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"Line {number} of {path / RESULTS} is no result: {error}.", "Take the line out, and run it again."
            ) from error
        rows[row.id] = row
    return _judged(path, _all_cited(_searching([_completed(rows[name], run) for name in order if name in rows])))


def _completed(row: Row, run: Mapping[str, Any]) -> Row:
    """A row that says what it rests on ("unknown" where the run changed under way) and the price of its tokens."""
    rests_on = row.rests_on or ("unknown" if run.get("changes") else str(run.get("id", "")))
    usage = row.usage
    try:
        if "price" not in usage:
            prices = Prices(**run["experiment"].get("prices") or {})
            price = prices.of(int(usage["prompt_tokens"]), 0, int(usage["completion_tokens"]))
            usage = {**usage, "price": price}
    except (KeyError, TypeError, ValueError, AttributeError):
        pass  # damaged: whoever needs the figure says so
    return replace(row, usage=usage, rests_on=rests_on)


def _searching(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows without scores of searches where the run answered, and never searched: there is nothing to score.

    A question for which nothing was searched has 0 if others of its run were searched for.
    """
    if any(row.retrieved for row in rows) or all(row.error for row in rows):
        return rows
    return [
        replace(row, scores={name: score for name, score in row.scores.items() if not name.startswith(_OF_SEARCHES)})
        for row in rows
    ]


def _all_cited(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows with a 0 where a method that cites sentences or names candidates has none; n/a is for other methods."""
    names = {name for row in rows for name, value in row.scores.items() if value is not None and name in _OF_SOME}
    if not names:
        return rows
    return [
        replace(row, scores=row.scores | {name: row.scores[name] or 0.0 for name in names & row.scores.keys()})
        for row in rows
    ]


def _judged(path: Path, rows: Sequence[Row]) -> list[Row]:
    """The rows with the verdicts of all judges among their scores; None where a judge has not judged."""
    judges = read_judgements(path)
    found = []
    for row in rows:
        said = {f"judge:{one.judge.name}": _score(one.on(row)) for one in judges}
        last = {"judge": said[f"judge:{judges[-1].judge.name}"]} if judges else {}
        found.append(replace(row, scores={**row.scores, **last, **said}))
    return found


def _score(verdict: Verdict | None) -> float | None:
    return None if verdict is None else float(verdict.correct)


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
    part = _part(path)
    part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", errors="replace")
    part.replace(path)


def _part(path: Path) -> Path:
    """The file that is to become another, while it is written."""
    return path.with_suffix(".part")


_STOPPED = "stopped"
"""That a budget ended it, the outcome of a question tells itself."""


@dataclass(frozen=True, slots=True)
class Warned:
    """How many questions came with a warning of some kind, and what most of them say."""

    questions: int
    message: str

    def said_of(self, kind: str, finished: int) -> str:
        """In one line, for whoever sums up so many questions."""
        return f"{self.questions:,} of {finished:,} with a warning ({kind}): {self.message}"


def warned_of(events: Iterable[Event]) -> dict[str, Warned]:
    """The kinds of warnings among the events of some questions, each question once a kind, by what it says first."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for event in events:
        if isinstance(event, WarningEvent) and event.kind != _STOPPED:
            said[str(event.kind)].setdefault(event.run, str(event.message))
    return {
        kind: Warned(len(by_run), Counter(by_run.values()).most_common(1)[0][0])
        for kind, by_run in sorted(said.items())
    }
