"""Evaluation runs to look into: folders below one, known to clients by ids that are no paths."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hoptree.core.errors import HoptreeError
from hoptree.core.redaction import redact
from hoptree.engine.result import read_result
from hoptree.evaluation.run_folder import RESULTS, RUN, Row, read_rows, read_run, trace_of
from hoptree.evaluation.statistics import compare_runs
from hoptree.evaluation.summary import summarise
from hoptree.server.error_responses import Refusal
from hoptree.server.names import unknown
from hoptree.server.views import options_view, result_view

_METRICS = ("em", "f1")
_DEEPEST = 4
_MOST = 2_000
_SUMMED = ("questions", "finished", "failed", "abstained", "stopped", "errors", "metrics", "by_type", "by_hops")
_SUMMED_TOO = ("sources", "usage")


class Runs:
    """The runs below a folder. All of it reads files: call it in a thread."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._summaries: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}

    def listed(self) -> list[dict[str, Any]]:
        """All runs, by the folder they are in; a damaged one says so."""
        found = []
        for name, path in self._paths().items():
            try:
                summary = self._summary(path)
                scores = {metric: summary["metrics"].get(metric, {}).get("mean") for metric in _METRICS}
                counts = {count: summary[count] for count in ("questions", "finished", "failed")}
                found.append({"id": name, **self._about(path), **counts, **scores})
            except HoptreeError as error:
                found.append({"id": name, "folder": self._relative(path), "error": redact(str(error))})
        return found

    def summary(self, name: str) -> dict[str, Any]:
        """One run as a whole: scores with intervals, by type and hops, and what it cost."""
        path = self._find(name)
        whole = self._summary(path)
        run = read_run(path)
        return {
            "id": name,
            **self._about(path),
            "options": options_view(str(run["rests_on"].get("method", "")), run["rests_on"].get("options", {})),
            "budget": run["rests_on"].get("budget", {}),
            **{part: whole[part] for part in (*_SUMMED, *_SUMMED_TOO)},
            "judges": {
                _model_name(name): {**one, "model": _model_name(one["model"])} for name, one in whole["judges"].items()
            },
        }

    def questions(self, name: str, kind: str | None, verdict: str | None, offset: int, limit: int) -> dict[str, Any]:
        """The questions of a run, of one type or one outcome, a page of them."""
        rows = read_rows(self._find(name))
        chosen = [row for row in rows if kind in (None, row.type) and verdict in (None, _verdict(row))]
        types = sorted({row.type for row in rows if row.type})
        shown = [_told(row) for row in chosen[offset : offset + limit]]
        return {"questions": shown, "total": len(chosen), "offset": offset, "types": types}

    def question(self, name: str, question: str) -> dict[str, Any]:
        """One question with its whole result, read off its trace."""
        path = self._find(name)
        row = next((row for row in read_rows(path) if row.id == question), None)
        if row is None:
            raise Refusal(404, "NotFound", "The run has no outcome of that question.", "GET its questions for ids.")
        result = read_result(trace_of(path, row))
        return {**_told(row), "result": result_view(result, _model_name(result.model))}

    def compare(self, a: str, b: str) -> dict[str, Any]:
        """Two runs over the same questions: what b has more than a, and whether that is more than chance."""
        paths = [self._find(a), self._find(b)]
        if a == b:
            raise Refusal(400, "InputError", "A run cannot be compared with itself.", "Choose two runs.")
        data = [read_run(path)["rests_on"].get("data") for path in paths]
        if data[0] != data[1]:
            raise Refusal(
                409, "OtherData", "The runs are over different data.", "Compare runs over the same questions."
            )
        rows = [{row.id: row for row in read_rows(path)} for path in paths]
        metrics = {}
        for metric in _METRICS:
            scores = [{key: row.scores.get(metric) for key, row in some.items()} for some in rows]
            pair = compare_runs({"a": scores[0], "b": scores[1]}, common_only=True)["a", "b"]
            told = pair.as_dict()
            del told["changes"]
            metrics[metric] = {**told, "power_note": pair.power_note(scale=100, unit=" points")}
        return {
            "a": {"id": a, **self._about(paths[0])},
            "b": {"id": b, **self._about(paths[1])},
            "metrics": metrics,
            "differ": _differing(*rows),
        }

    def _paths(self) -> dict[str, Path]:
        if self._folder is None or not self._folder.is_dir():
            return {}
        root = self._folder.resolve()
        return {hashlib.sha256(str(path.relative_to(root)).encode()).hexdigest()[:16]: path for path in _folders(root)}

    def _find(self, name: str) -> Path:
        paths = self._paths()
        if name not in paths:
            raise unknown("run", name, (), status=404)
        return paths[name]

    def _relative(self, path: Path) -> str:
        assert self._folder is not None
        return path.relative_to(self._folder.resolve()).as_posix()

    def _about(self, path: Path) -> dict[str, Any]:
        run = read_run(path)
        experiment = run.get("experiment") or {}
        return {
            "name": run.get("name", ""),
            "folder": self._relative(path),
            "method": run["rests_on"].get("method", ""),
            "model": _model_name(str(experiment.get("model", ""))),
            "dataset": run.get("data_name", ""),
            "fidelity": run.get("fidelity", ""),
        }

    def _summary(self, path: Path) -> dict[str, Any]:
        """What `summarise` makes of a run, made again when its results changed."""
        results = path / RESULTS
        found = results.stat() if results.exists() else None
        state = (found.st_size, found.st_mtime_ns) if found else (0, 0)
        known = self._summaries.get(path)
        if known is None or known[0] != state:
            known = self._summaries[path] = (state, summarise(path))
        return known[1]


def _folders(root: Path) -> Iterator[Path]:
    """Folders that hold a run, a few levels deep; links are not followed."""
    count = 0
    for above, folders, files in os.walk(root):
        path = Path(above)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(path.relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        if RUN in files:
            yield path
            count += 1
            if count >= _MOST:
                return


def _verdict(row: Row) -> str:
    if row.error:
        return "failed"
    return "right" if row.scores.get("em") else "wrong"


def _told(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "question": row.question,
        "gold": list(row.answers),
        "answer": row.answer,
        "type": row.type,
        "hops": row.hops,
        "verdict": _verdict(row),
        "abstained": row.abstained,
        "error": row.error or None,
        "stopped_by": row.stopped_by or None,
        **{metric: row.scores.get(metric) for metric in _METRICS},
        "scores": row.scores,
        "usage": row.usage,
    }


def _differing(a: dict[str, Row], b: dict[str, Row]) -> list[dict[str, Any]]:
    """The questions that the two score differently, those that differ most first."""
    found = []
    for name, one in a.items():
        other = b.get(name)
        if other is None or all(one.scores.get(metric) == other.scores.get(metric) for metric in _METRICS):
            continue
        apart = (other.scores.get("f1") or 0.0) - (one.scores.get("f1") or 0.0)
        about = {"id": name, "question": one.question, "gold": list(one.answers), "type": one.type}
        found.append({**about, "difference": apart, "a": _side(one), "b": _side(other)})
    return sorted(found, key=lambda row: (-abs(row["difference"]), row["id"]))


def _side(row: Row) -> dict[str, Any]:
    return {"answer": row.answer, "error": row.error or None, **{metric: row.scores.get(metric) for metric in _METRICS}}


def _model_name(spec: str) -> str:
    """The last part of a spec: the rest may be a path."""
    return spec.partition("?")[0].rstrip("/").rpartition("/")[2]
