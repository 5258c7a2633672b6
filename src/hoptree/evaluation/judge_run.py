"""Judge the answers of a run; verdicts are written as they arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import IndexUnavailable, InputError
from hoptree.core.files import FolderLock
from hoptree.engine.calls import Calls, open_calls
from hoptree.evaluation.judge import (
    Judge,
    JudgeItem,
    Judgements,
    JudgementsFile,
    Verdict,
    agreement,
    judge_all,
    read_judgements,
    template,
)
from hoptree.evaluation.run_folder import METRICS, Row, read_rows, read_run, write_json
from hoptree.evaluation.summary import summarise
from hoptree.models.model import Model


@dataclass(slots=True)
class JudgeProgress:
    """How far a judge is, verdicts of earlier invocations included."""

    total: int
    done: int = 0
    correct: int = 0
    new: int = 0
    began: float = 0.0

    def count(self, verdict: Verdict, *, new: bool) -> None:
        self.done += 1
        self.correct += verdict.correct
        self.new += new


Listener = Callable[[JudgeProgress], None]


async def judge_run(
    folder: Path,
    model: Model,
    *,
    cache: str | Path | None = "default",
    concurrency: int | None = None,
    on_progress: Listener = lambda progress: None,
) -> dict[str, Any]:
    """Judge the answers this judge has not judged yet, and summarise.

    Failed questions and blank answers are wrong without a call. A verdict that failed counts as wrong and is asked for
    again by the next invocation.
    """
    run, rows = read_run(folder), read_rows(folder)
    if not rows:
        raise InputError(f"The run in {folder} has no answers to judge.", "Finish it first: the same hoptree run.")
    judge = Judge(model.name, model.identity, template())
    lock = FolderLock(folder, IndexUnavailable)
    try:
        lock.acquire()
        file = JudgementsFile(folder, judge)
    except OSError as error:
        lock.release()
        raise InputError(
            f"Verdicts cannot be written to {folder}: {error.strerror or error}.", "Make the folder writable."
        ) from error
    try:
        calls = open_calls(cache, concurrency=concurrency)
        await _judge_missing(rows, _of(folder, judge), file, model, calls, on_progress)
        write_json(folder / METRICS, summarise(folder) | _warnings(folder))
    finally:
        file.close()
        lock.release()
    return _told(folder, run, rows, judge)


def _warnings(folder: Path) -> dict[str, Any]:
    """Return the warnings of the run, which its results do not hold."""
    try:
        known = json.loads((folder / METRICS).read_text(encoding="utf-8"))
        return {"warnings": known["warnings"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


async def _judge_missing(
    rows: Sequence[Row], known: Judgements, file: JudgementsFile, model: Model, calls: Calls, on_progress: Listener
) -> None:
    by_id = {row.id: row for row in rows}
    progress = JudgeProgress(len(rows), began=time.monotonic())
    waiting: list[Row] = []
    for row in rows:
        verdict = known.on(row)
        if verdict is None or verdict.error:
            waiting.append(row)
        else:
            progress.count(verdict, new=False)
    on_progress(progress)
    unsaid: list[Verdict] = []

    async def hear(verdict: Verdict) -> None:
        # What the judge did not say waits for the end: one that never answers leaves no verdicts behind.
        if verdict.error or not verdict.asked:
            unsaid.append(verdict)
        else:
            await file.add(by_id[verdict.id], verdict)
        progress.count(verdict, new=True)
        on_progress(progress)

    try:
        await judge_all([_item(row) for row in waiting], model, calls, hear)
    finally:
        calls.close()
    await file.name()
    for verdict in unsaid:
        await file.add(by_id[verdict.id], verdict)


def _item(row: Row) -> JudgeItem:
    return JudgeItem(row.id, row.question, "" if row.error else row.answer, row.answers)


def _of(folder: Path, judge: Judge) -> Judgements:
    return next((one for one in read_judgements(folder) if one.judge == judge), Judgements(judge))


def _told(folder: Path, run: dict[str, Any], rows: Sequence[Row], judge: Judge) -> dict[str, Any]:
    mine = _of(folder, judge).report(rows)
    others = [one.report(rows) for one in read_judgements(folder) if one.judge != judge]
    return {
        "run": run["id"],
        "name": run["name"],
        "folder": str(folder),
        "questions": len(run["questions"]),
        "judge": mine.as_dict(),
        "agreement": {other.model: asdict(agreement(mine, other)) for other in others},
    }
