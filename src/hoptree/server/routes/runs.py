"""Evaluation runs: their scores, their questions, and two of them side by side."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from hoptree.server.json_response import Json
from hoptree.server.openapi import READ, replies
from hoptree.server.reply_schemas.runs import RunComparison, RunQuestion, RunQuestions, Runs, RunSummary
from hoptree.server.state import ServerState

_Id = Annotated[str, Query(max_length=64)]


def run_routes(state: ServerState) -> APIRouter:
    """Routes of runs; reading their files happens in threads."""
    routes = APIRouter(tags=["runs"])
    runs = state.runs

    @routes.get("/v1/runs", summary="All runs", responses=replies(Runs, (401, 403, 421, 429, 500)))
    async def listed() -> Response:
        return Json({"runs": await asyncio.to_thread(runs.listed)})

    @routes.get("/v1/runs/{run}", summary="One run as a whole", responses=replies(RunSummary, READ))
    async def summary(run: str) -> Response:
        return Json(await asyncio.to_thread(runs.summary, run))

    @routes.get(
        "/v1/runs/{run}/questions", summary="Its questions, by type and outcome", responses=replies(RunQuestions, READ)
    )
    async def questions(
        run: str,
        type: Annotated[str | None, Query(max_length=100)] = None,  # noqa: A002 - the name in the address
        verdict: Literal["right", "wrong", "failed"] | None = None,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> Response:
        return Json(await asyncio.to_thread(runs.questions, run, type, verdict, offset, limit))

    @routes.get(
        "/v1/runs/{run}/questions/{question:path}",
        summary="One question with its tree",
        responses=replies(RunQuestion, READ),
    )
    async def question(run: str, question: str) -> Response:
        return Json(await asyncio.to_thread(runs.question, run, question))

    @routes.get(
        "/v1/compare", summary="Two runs over the same questions", responses=replies(RunComparison, (*READ, 409))
    )
    async def compare(a: _Id, b: _Id) -> Response:
        return Json(await asyncio.to_thread(runs.compare, a, b))

    return routes
