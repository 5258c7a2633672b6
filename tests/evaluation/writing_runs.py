"""Folders of runs whose one question was really asked, of methods that look up what they doubt while they write."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from tests.methods.continuation_asked import Run

from hoptree.evaluation.metrics import score_answer
from hoptree.evaluation.run_folder import RESULTS, RUN, TRACES, Row

__all__ = ["run_folder"]


def run_folder(folder: Path, name: str, run: Run, *, answers: tuple[str, ...] = ("Charles Armand",)) -> Path:
    """The folder of a run that asked this one question."""
    out = folder / name
    out.mkdir(parents=True)
    result = run.result
    row = Row(
        "q",
        result.question,
        answers,
        result.answer,
        error=result.error,
        error_message=result.error_message,
        scores=score_answer(result.answer, answers),
        usage=result.usage.as_dict(),
        trace=run.events[0].as_dict()["run"],
    )
    about = {
        "format": 1,
        "id": f"id-{name}",
        "name": f"{name} on dukes",
        "questions": ["q"],
        "rests_on": {"data": "d", "questions": "same", "method": run.method, "options": result.options},
        "experiment": {"data": "dukes.jsonl"},
    }
    (out / RUN).write_text(json.dumps(about), encoding="utf-8")
    (out / RESULTS).write_text(json.dumps(asdict(row)) + "\n", encoding="utf-8")
    (out / TRACES).write_text("".join(json.dumps(event.as_dict()) + "\n" for event in run.events), encoding="utf-8")
    return out
