"""Judge the answers of a run; verdicts are written as they arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
    """How far a judge is; verdicts of earlier calls of the command are included, and `new` ones are of this."""

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

    Failed questions and blank answers are wrong without a call. A failed call counts as wrong until it is repeated.
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
        await _judge_missing(rows, _judgements_of(folder, judge), file, model, calls, on_progress)
        warnings = {}
        with suppress(OSError, ValueError, KeyError, TypeError):  # of the run, which its results do not hold
            warnings = {"warnings": json.loads((folder / METRICS).read_text(encoding="utf-8"))["warnings"]}
        write_json(folder / METRICS, summarise(folder) | warnings)
    finally:
        file.close()
        lock.release()
    report = _judgements_of(folder, judge).report(rows)
    others = [known.report(rows) for known in read_judgements(folder) if known.judge != judge]
    return {
        "run": run["id"],
        "name": run["name"],
        "folder": str(folder),
        "questions": len(run["questions"]),
        "judge": report.as_dict(),
        "agreement": {other.model: asdict(agreement(report, other)) for other in others},
    }


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
    without_reply: list[Verdict] = []

    async def on_verdict(verdict: Verdict) -> None:
        # Verdicts without a reply wait for the end: a judge that never answers leaves none behind.
        if verdict.error or not verdict.asked:
            without_reply.append(verdict)
        else:
            await file.add(by_id[verdict.id], verdict)
        progress.count(verdict, new=True)
        on_progress(progress)

    try:
        items = [JudgeItem(row.id, row.question, "" if row.error else row.answer, row.answers) for row in waiting]
        await judge_all(items, model, calls, on_verdict)
    finally:
        calls.close()
    await file.name()
    for verdict in without_reply:
        await file.add(by_id[verdict.id], verdict)


def _judgements_of(folder: Path, judge: Judge) -> Judgements:
    return next((known for known in read_judgements(folder) if known.judge == judge), Judgements(judge))
