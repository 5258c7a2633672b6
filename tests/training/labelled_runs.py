"""Folders of two runs over the same questions, without documents and with, as they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hoptree.evaluation.run_folder import RESULTS, RUN, Row

__all__ = ["write_run"]


def write_run(
    folder: Path, scores: Mapping[str, float | None], *, searched: bool, failed: tuple[str, ...] = (), **rests_on: Any
) -> Path:
    """A run that asked a question an id, with these scores of exact match; `data` is the file they are from."""
    folder.mkdir(parents=True)
    data = rests_on.pop("file", "train.jsonl")
    about = {
        "format": 1,
        "id": folder.name,
        "name": folder.name,
        "data_name": "quiz",
        "questions": list(scores),
        "rests_on": {"data": "d", "model": "m", **rests_on},
        "experiment": {"data": data},
    }
    rows = [
        Row(
            name,
            f"What is {name}{name} in {name}land?",
            ("x",),
            "y",
            error="EndpointError" if name in failed else "",
            scores={"em": score, "f1": 0.5},
            retrieved=(("p1",),) if searched else (),
        )
        for name, score in scores.items()
    ]
    (folder / RUN).write_text(json.dumps(about), encoding="utf-8")
    (folder / RESULTS).write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
    return folder
