"""Corpora: what there is, uploads, and how far their indexing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Path, Query, UploadFile
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hoptree.server.error_responses import Refusal, refuse_when_disk_full
from hoptree.server.json_response import Json
from hoptree.server.names import NAME
from hoptree.server.openapi import CHANGE, READ, UPLOAD, replies
from hoptree.server.reply_schemas.about import Corpora, Documents, JobReply, Started
from hoptree.server.state import ServerState
from hoptree.server.uploads import too_many_files

_Name = Annotated[str, Path(json_schema_extra={"pattern": NAME})]
_UPLOADED = replies(Started, UPLOAD, status=202)
_Files = Annotated[list[UploadFile], File(description="Documents, or .zip archives of them.", min_length=1)]


def corpus_routes(state: ServerState) -> APIRouter:
    """Routes of corpora and jobs."""
    routes = APIRouter(tags=["corpora"])
    uploads = APIRouter(route_class=_receiving(state.settings.limits.files))
    corpora, corpus_service, jobs = state.corpora, state.corpus_service, state.jobs

    @routes.get("/v1/corpora", summary="All corpora", responses=replies(Corpora, (401, 403, 421, 429, 500)))
    async def listed() -> Response:
        found = []
        for one in await asyncio.to_thread(corpora.told):
            job = jobs.of(one["name"])
            found.append({**one, "job": job.as_dict() if job else None})
        return Json({"corpora": found, "uploads": corpora.folder is not None})

    @uploads.post("/v1/corpora", status_code=202, summary="Make a corpus of uploaded files", responses=_UPLOADED)
    async def create(
        name: Annotated[str, Form(max_length=100, json_schema_extra={"pattern": NAME})], files: _Files
    ) -> Response:
        job = await corpus_service.create(name, files)
        return Json({"job": job.id}, 202)

    @routes.delete("/v1/corpora/{name}", status_code=204, summary="Remove a corpus", responses=replies(None, CHANGE))
    async def remove(name: _Name) -> Response:
        await corpus_service.remove(name)
        return Response(status_code=204)

    @routes.get(
        "/v1/corpora/{name}/documents", summary="The uploaded files of a corpus", responses=replies(Documents, READ)
    )
    async def documents(
        name: _Name,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        corpus = corpora.own(name)
        files, passages = await asyncio.gather(asyncio.to_thread(corpus.files), asyncio.to_thread(corpus.passages))
        shown = [
            {"id": file, "name": file, "bytes": size, "passages": passages.get(file)}
            for file, size in files[offset : offset + limit]
        ]
        return Json({"documents": shown, "total": len(files), "offset": offset})

    @uploads.post(
        "/v1/corpora/{name}/documents",
        status_code=202,
        summary="Add files, or new versions of some",
        responses=_UPLOADED,
    )
    async def add(name: _Name, files: _Files) -> Response:
        job = await corpus_service.add(name, files)
        return Json({"job": job.id}, 202)

    @routes.delete(
        "/v1/corpora/{name}/documents/{document:path}",
        status_code=202,
        summary="Take a file out",
        responses=replies(Started, CHANGE, status=202),
    )
    async def remove_document(name: _Name, document: str) -> Response:
        job = await corpus_service.remove_document(name, document)
        return Json({"job": job.id}, 202)

    @routes.get("/v1/jobs/{job}", summary="How far a change of a corpus is", responses=replies(JobReply, READ))
    async def told(job: str) -> Response:
        return Json(jobs.find(job).as_dict())

    routes.include_router(uploads)
    return routes


def _receiving(most: int) -> type[APIRoute]:
    """Routes that take up to `most` files at once; the framework has a bound and words of its own."""

    class Receiving(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def receive(request: Request) -> Response:
                if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
                    raise Refusal(
                        415, "NotAForm", "The body is not said to be a form with files.", "Send multipart/form-data."
                    )
                try:
                    with refuse_when_disk_full():
                        await request.form(max_files=most)  # which is kept, and read there
                except HTTPException as error:
                    if error.detail.startswith("Too many files"):
                        raise too_many_files(most) from None
                    raise
                except ClientDisconnect:
                    raise Refusal(499, "ClientGone", "The client went away.") from None
                except ValueError:  # of an encoding that is none; the framework knows some of these only
                    raise Refusal(
                        400, "BadForm", "The form cannot be read.", "Send it as multipart/form-data."
                    ) from None
                return await handle(request)

            return receive

    return Receiving
