"""Small runs to report on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.report.tables import Table
from hoptree.evaluation.running import RunOptions, run_experiment

__all__ = ["HOSTILE", "cells", "data", "right", "run", "script", "table"]

HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>\u2028"


def data(folder: Path, count: int = 8) -> Path:
    rows = [
        {
            "id": f"q/{n}",
            "question": f"What is number {n}?" if n else f"What is number 0? {HOSTILE}",
            "answers": [f"answer {n}"],
            "type": ["even", "odd"][n % 2],
            "hops": 2 + n % 2,
        }
        for n in range(count)
    ]
    path = folder / "numbers" / "dev.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def script(path: Path, replies: Iterable[dict[str, Any]]) -> str:
    path.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
    return f"scripted/{path}"


def right(numbers: Iterable[int]) -> list[dict[str, Any]]:
    return [{"contains": f"number {n}?", "reply": f"answer {n}"} for n in numbers]


def run(folder: Path, called: str, replies: Iterable[dict[str, Any]], *, only: int | None = None, **more: Any) -> Path:
    questions = data(folder)
    model = script(folder / "model.json", replies)
    wanted = Experiment(questions, model=model, **{"method": "direct", "name": f"{called} on numbers", **more})
    out = folder / "runs" / called
    asyncio.run(run_experiment(wanted, out, RunOptions(cache=None, only=only)))
    return out


def table(tables: Iterable[Table], title: str) -> Table:
    return next(one for one in tables if one.title == title)


def cells(one: Table, run_name: str) -> dict[str, Any]:
    row = next(row for row in one.rows if row.name == run_name)
    return dict(zip(one.columns, row.cells, strict=True))
