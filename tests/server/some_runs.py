"""Two small evaluation runs, and a damaged one, to look into."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.running import RunOptions, run_experiment

__all__ = ["make_runs"]

_QUESTIONS = [
    {"id": "a", "question": "When was Bille August born?", "answers": ["1948"], "type": "bridge"},
    {"id": "b/2", "question": "Who was born in 1948?", "answers": ["Bille August"], "type": "other"},
]
_SCRIPTS = {
    "oner": [{"contains": "Who was born", "reply": "Nobody"}, {"reply": "1948"}],
    "direct": [{"contains": "Who was born", "fault": "401"}, {"reply": "1950"}],
}


def make_runs(folder: Path, corpus: str) -> None:
    """Put them below `folder`/runs: deep/oner, deep/direct, in which a question failed, and broken."""
    data = folder / "questions.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in _QUESTIONS))
    for method, replies in _SCRIPTS.items():
        script = folder / f"{method}.json"
        script.write_text(json.dumps({"replies": replies}))
        experiment = Experiment(
            data=data, method=method, model=f"scripted/{script}", corpus=corpus, name=f"{method} here"
        )
        asyncio.run(run_experiment(experiment, folder / "runs" / "deep" / method, options=RunOptions(cache=None)))
    (folder / "runs" / "broken").mkdir()
    (folder / "runs" / "broken" / "run.json").write_text("{")
