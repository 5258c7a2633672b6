"""Runs of methods that look up what they doubt, written by hand, event by event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.evaluation.hypothesis_runs import Asked

from hoptree.evaluation.run_folder import RESULTS, RUN, TRACES

__all__ = ["decided", "doubting_run", "filtered", "judged", "remembered", "skipped", "understood"]

Event = dict[str, Any]


def decided(kind: str, value: Any, **more: Any) -> Event:
    return {"event": "decision", "kind": kind, "value": value, **more}


def judged(*doubts: bool, rewritten: bool = False) -> list[Event]:
    """A sentence for each, in doubt or not."""
    scored: list[Any] = [["x", 1.0, 1.0, 1.0, True]]
    return [
        decided(
            "sentence",
            doubt,
            text="x",
            words=scored,
            theta=None if rewritten else 0.5 if doubt else 1.5,
            highest=1.0,
            hits=[0] if doubt else [],
            rewritten=rewritten,
        )
        for doubt in doubts
    ]


def filtered(*names: tuple[str, str | None], filters: str = "cot+confidence") -> Event:
    """Names, each with the filter that dropped it."""
    kept = [name for name, dropped_by in names if dropped_by is None]
    told = [[name, "entity", "question", 0.5, dropped_by] for name, dropped_by in names]
    return decided("filtered", kept, filters=filters, in_doubt=[], safe=[], candidates=told)


def understood(ok: bool, step: str = "filter") -> Event:
    return {"event": "parse", "step": step, "ok": ok, "repairs": [], "error": ""}


def remembered(facts: int, conflicts: int = 0) -> Event:
    return decided("memory", [], facts=facts, conflicts=[[["a", "b", "c", "p"]]] * conflicts)


def skipped() -> Event:
    return decided("skipped", True, sentence="x", fact=["a", "b", "c"], passage="p")


def doubting_run(
    folder: Path, name: str, asked: Iterable[Asked], options: Mapping[str, Any], *, method: str = "mind"
) -> Path:
    """The folder of a run with these options and outcomes."""
    some = list(asked)
    out = folder / name.replace(" ", "-")
    out.mkdir(parents=True)
    about = {
        "format": 1,
        "id": f"id-{name.replace(' ', '-')}",
        "name": f"{name} on hand",
        "questions": [one.id for one in some],
        "rests_on": {"data": "d", "questions": "same", "method": method, "options": dict(options)},
        "experiment": {"data": "hand.jsonl"},
    }
    (out / RUN).write_text(json.dumps(about), encoding="utf-8")
    (out / RESULTS).write_text("".join(json.dumps(asdict(one.row())) + "\n" for one in some), encoding="utf-8")
    lines = []
    for one in some:
        start = {"event": "start", "question": one.question, "method": method}
        for t, event in enumerate((start, *one.events, {"event": "final", "answer": one.answer, "support": []})):
            lines.append(json.dumps({"run": f"t-{one.id}", "t": float(t), **event}) + "\n")
    (out / TRACES).write_text("".join(lines), encoding="utf-8")
    return out
