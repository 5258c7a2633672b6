"""Evaluation runs below a folder, known to clients by ids that are no paths."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from hoptree.core.errors import HoptreeError, redact
from hoptree.engine.result import read_result
from hoptree.evaluation.run_folder import RESULTS, RUN, Row, read_rows, read_run, summarise, trace_of
from hoptree.evaluation.statistics import PairedComparison, compare_runs
from hoptree.server.error_responses import Refusal
from hoptree.server.reply_schemas import LIST_ERRORS, READ_ERRORS, AskReply, dataclass_schema, replies
from hoptree.server.settings import unknown
from hoptree.server.views import Json, options_view, result_view

_METRICS = ("em", "f1")
_MAX_DEPTH = 4
_MAX_RUNS = 2_000
Verdict = Literal["right", "wrong", "failed"]


class RunAbout(TypedDict):
    id: str
    name: str
    folder: str
    method: str
    model: str
    dataset: str
    fidelity: str


class Score(TypedDict):
    em: float | None
    f1: float | None


class RunReply(RunAbout, Score):
    """A run in the list, with `calls` per question and the `cost` of all.

    `at` is when its last outcome was written.
    """

    questions: int
    finished: int
    failed: int
    at: str | None
    calls: float | None
    cost: float


class DamagedRun(TypedDict):
    id: str
    folder: str
    error: str


class RunList(TypedDict):
    runs: list[RunReply | DamagedRun]


class Mean(TypedDict):
    """A metric over the questions that have it, with half the width of its interval."""

    mean: float
    plus_minus: float
    questions: int


class Group(TypedDict):
    questions: int
    metrics: dict[str, Mean]


class SummaryPart(TypedDict):
    """The fields of a run's summary that come unchanged from `summarise`."""

    questions: int
    finished: int
    failed: int
    abstained: int
    stopped: int
    errors: dict[str, int]
    metrics: dict[str, Mean]
    by_type: dict[str, Group]
    by_hops: dict[str, Group]
    sources: dict[str, int]
    usage: dict[str, dict[str, float]]


class RunSummary(RunAbout, SummaryPart):
    """A summary of a run.

    `usage` is the distribution of costs of questions, and `judges` the verdicts of judges on the answers.
    """

    options: dict[str, Any]
    budget: dict[str, Any]
    judges: dict[str, dict[str, Any]]


class RunRow(Score):
    """A question of a run, the answers that count, and the one that was given."""

    id: str
    question: str
    gold: list[str]
    answer: str
    type: str
    hops: int
    verdict: Verdict
    abstained: bool
    error: str | None
    stopped_by: str | None
    scores: dict[str, float | None]
    usage: dict[str, float]


class RunQuestion(RunRow):
    result: AskReply


class RunQuestions(TypedDict):
    questions: list[RunRow]
    total: int
    offset: int
    types: list[str]


class Side(Score):
    answer: str
    error: str | None


class Differing(TypedDict):
    """A question that the two runs score differently."""

    id: str
    question: str
    gold: list[str]
    type: str
    difference: float
    a: Side
    b: Side


Difference = dataclass_schema(
    "Difference",
    "What b has more than a in one metric, and whether that may be chance.",
    PairedComparison,
    always=[*PairedComparison.__dataclass_fields__, "detectable", "power_note"],
    without=("changes",),
    detectable=float | None,
    power_note=str,
)


class RunComparison(TypedDict):
    a: RunAbout
    b: RunAbout
    metrics: dict[str, Difference]  # type: ignore[valid-type]
    differ: list[Differing]


class Runs:
    """The runs below a folder; all methods read files, so call them in a thread."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._summaries: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}

    def list_runs(self) -> RunList:
        """List all runs by folder; a damaged one has an error."""
        runs: list[RunReply | DamagedRun] = []
        for run_id, path in self._paths().items():
            try:
                summary = self._summary(path)
                counts = {name: summary[name] for name in ("questions", "finished", "failed")}
                means = {metric: summary["metrics"].get(metric, {}).get("mean") for metric in _METRICS}
                usage = summary["usage"]
                results = path / RESULTS
                at = datetime.fromtimestamp(results.stat().st_mtime, UTC).isoformat() if results.exists() else None
                spent = {"calls": usage["llm_calls"]["mean"], "cost": usage["cost"]["total"], "at": at}
                run: Any = {**self._about(run_id, path), **counts, **means, **spent}
                runs.append(run)
            except HoptreeError as error:
                runs.append(DamagedRun(id=run_id, folder=self._relative(path), error=redact(str(error))))
        return RunList(runs=runs)

    def summary(self, run_id: str) -> RunSummary:
        """Return the summary of a run: scores with intervals, by type and hops, and costs."""
        path = self._find(run_id)
        summary = self._summary(path)
        rests_on = read_run(path)["rests_on"]
        part: SummaryPart = {key: summary[key] for key in SummaryPart.__annotations__}  # type: ignore[assignment]
        return {
            **self._about(run_id, path),
            "options": options_view(str(rests_on.get("method", "")), rests_on.get("options", {})),
            "budget": rests_on.get("budget", {}),
            **part,
            "judges": {
                _model_name(name): {**report, "model": _model_name(report["model"])}
                for name, report in summary["judges"].items()
            },
        }

    def questions(
        self, run_id: str, question_type: str | None, verdict: Verdict | None, offset: int, limit: int
    ) -> RunQuestions:
        """Return a page of the questions of a run, of one type or one outcome."""
        rows = read_rows(self._find(run_id))
        chosen = [row for row in rows if question_type in (None, row.type) and verdict in (None, _verdict(row))]
        types = sorted({row.type for row in rows if row.type})
        page = [_run_row(row) for row in chosen[offset : offset + limit]]
        return RunQuestions(questions=page, total=len(chosen), offset=offset, types=types)

    def question(self, run_id: str, question_id: str) -> RunQuestion:
        """Return a question with its full result, read from its trace."""
        path = self._find(run_id)
        row = next((row for row in read_rows(path) if row.id == question_id), None)
        if row is None:
            raise Refusal(404, "NotFound", "The run has no outcome of that question.", "GET its questions for ids.")
        result = read_result(trace_of(path, row))
        return {**_run_row(row), "result": result_view(result, _model_name(result.model))}

    def compare(self, a: str, b: str) -> RunComparison:
        """Compare two runs over the same questions, with tests of the differences."""
        paths = [self._find(a), self._find(b)]
        if a == b:
            raise Refusal(400, "InputError", "A run cannot be compared with itself.", "Choose two runs.")
        data = [read_run(path)["rests_on"].get("data") for path in paths]
        if data[0] != data[1]:
            remedy = "Compare runs over the same questions."
            raise Refusal(409, "OtherData", "The runs are over different data.", remedy)
        rows_a, rows_b = ({row.id: row for row in read_rows(path)} for path in paths)
        metrics = {}
        for metric in _METRICS:
            scores_a, scores_b = (
                {question: row.scores.get(metric) for question, row in rows.items()} for rows in (rows_a, rows_b)
            )
            pair = compare_runs({"a": scores_a, "b": scores_b}, common_only=True)["a", "b"]
            metrics[metric] = {**pair.as_dict(), "power_note": pair.power_note(scale=100, unit=" points")}
            del metrics[metric]["changes"]
        about_a, about_b = self._about(a, paths[0]), self._about(b, paths[1])
        return RunComparison(a=about_a, b=about_b, metrics=metrics, differ=_differing(rows_a, rows_b))

    def _paths(self) -> dict[str, Path]:
        if self._folder is None or not self._folder.is_dir():
            return {}
        root = self._folder.resolve()
        return {hashlib.sha256(str(path.relative_to(root)).encode()).hexdigest()[:16]: path for path in _folders(root)}

    def _find(self, run_id: str) -> Path:
        paths = self._paths()
        if run_id not in paths:
            raise unknown("run", run_id, (), status=404)
        return paths[run_id]

    def _relative(self, path: Path) -> str:
        assert self._folder is not None
        return path.relative_to(self._folder.resolve()).as_posix()

    def _about(self, run_id: str, path: Path) -> RunAbout:
        run = read_run(path)
        return RunAbout(
            id=run_id,
            name=run.get("name", ""),
            folder=self._relative(path),
            method=run["rests_on"].get("method", ""),
            model=_model_name(str((run.get("experiment") or {}).get("model", ""))),
            dataset=run.get("data_name", ""),
            fidelity=run.get("fidelity", ""),
        )

    def _summary(self, path: Path) -> dict[str, Any]:
        """Return the summary of a run, cached until its results change."""
        results = path / RESULTS
        stat = results.stat() if results.exists() else None
        version = (stat.st_size, stat.st_mtime_ns) if stat else (0, 0)
        cached = self._summaries.get(path)
        if cached is None or cached[0] != version:
            cached = self._summaries[path] = (version, summarise(path))
        return cached[1]


def _folders(root: Path) -> Iterator[Path]:
    """Yield folders with a run, up to `_MAX_DEPTH` levels deep; do not follow links."""
    count = 0
    for parent, folders, files in os.walk(root):
        path = Path(parent)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(path.relative_to(root).parts) >= _MAX_DEPTH:
            folders.clear()
        if RUN in files:
            yield path
            count += 1
            if count >= _MAX_RUNS:
                return


def _verdict(row: Row) -> Verdict:
    if row.error:
        return "failed"
    return "right" if row.scores.get("em") else "wrong"


def _run_row(row: Row) -> RunRow:
    shown: Any = {name: getattr(row, name) for name in RunRow.__annotations__ if hasattr(row, name)}
    shown |= {"gold": list(row.answers), "verdict": _verdict(row), "stopped_by": row.stopped_by or None, **_side(row)}
    changed: RunRow = shown
    return changed


def _differing(rows_a: dict[str, Row], rows_b: dict[str, Row]) -> list[Differing]:
    """Return the questions with different scores, largest differences first."""
    differing = []
    for question, a in rows_a.items():
        b = rows_b.get(question)
        if b is None or all(a.scores.get(metric) == b.scores.get(metric) for metric in _METRICS):
            continue
        differing.append(
            Differing(
                id=question,
                question=a.question,
                gold=list(a.answers),
                type=a.type,
                difference=(b.scores.get("f1") or 0.0) - (a.scores.get("f1") or 0.0),
                a=_side(a),
                b=_side(b),
            )
        )
    return sorted(differing, key=lambda row: (-abs(row["difference"]), row["id"]))


def _side(row: Row) -> Side:
    return Side(answer=row.answer, error=row.error or None, em=row.scores.get("em"), f1=row.scores.get("f1"))


def _model_name(spec: str) -> str:
    """Return the last part of a spec, as the rest may be a path."""
    return spec.partition("?")[0].rstrip("/").rpartition("/")[2]


_RunId = Annotated[str, Query(max_length=64)]


def run_routes(runs: Runs) -> APIRouter:
    """Make the routes of runs, which read files in threads."""
    routes = APIRouter(tags=["runs"])

    @routes.get("/v1/runs", summary="All runs", responses=replies(RunList, LIST_ERRORS))
    async def list_runs() -> Response:
        return Json(await asyncio.to_thread(runs.list_runs))

    @routes.get("/v1/runs/{run}", summary="One run as a whole", responses=replies(RunSummary, READ_ERRORS))
    async def summary(run: str) -> Response:
        return Json(await asyncio.to_thread(runs.summary, run))

    @routes.get(
        "/v1/runs/{run}/questions",
        summary="Its questions, by type and outcome",
        responses=replies(RunQuestions, READ_ERRORS),
    )
    async def questions(
        run: str,
        type: Annotated[str | None, Query(max_length=100)] = None,  # noqa: A002 - the name in the address
        verdict: Verdict | None = None,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        return Json(await asyncio.to_thread(runs.questions, run, type, verdict, offset, limit))

    @routes.get(
        "/v1/runs/{run}/questions/{question:path}",
        summary="One question with its tree",
        responses=replies(RunQuestion, READ_ERRORS),
    )
    async def question(run: str, question: str) -> Response:
        return Json(await asyncio.to_thread(runs.question, run, question))

    @routes.get(
        "/v1/compare",
        summary="Two runs over the same questions",
        responses=replies(RunComparison, (*READ_ERRORS, 409)),
    )
    async def compare(a: _RunId, b: _RunId) -> Response:
        return Json(await asyncio.to_thread(runs.compare, a, b))

    return routes
