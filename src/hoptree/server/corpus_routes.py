"""Routes of corpora, uploads, their jobs, and the passages and files in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from html import escape
from pathlib import Path as FilePath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Path, Query, UploadFile
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from typing_extensions import TypedDict

from hoptree.core.config import is_loopback
from hoptree.corpus.document import MAX_DOCUMENT_BYTES
from hoptree.corpus.files import DAMAGED_UTF8, GUESSES, LATIN, Damaged, bom_encoding, decode, open_bytes
from hoptree.corpus.html_pages import declared_encoding
from hoptree.server.corpus_service import CorpusService
from hoptree.server.error_responses import Refusal, refuse_when_disk_full
from hoptree.server.jobs import Job, JobReply, Jobs
from hoptree.server.reply_schemas import CHANGE_ERRORS, LIST_ERRORS, READ_ERRORS, UPLOAD_ERRORS, replies
from hoptree.server.resources import Corpora, CorpusAbout
from hoptree.server.settings import NAME, Settings
from hoptree.server.topics import Topic
from hoptree.server.uploads import too_many_files
from hoptree.server.views import Json
from hoptree.text.line_breaks import unwrap_lines

_Name = Annotated[str, Path(json_schema_extra={"pattern": NAME})]
_Files = Annotated[list[UploadFile], File(description="Documents, or .zip archives of them.", min_length=1)]


class CorpusReply(CorpusAbout):
    """A corpus; `managed` ones were made over HTTP and can be changed so."""

    job: JobReply | None


class UploadLimits(TypedDict):
    """Of one upload: bytes as sent, and files."""

    bytes: int
    files: int


class CorpusList(TypedDict):
    """All corpora, and whether files are taken here; `uploads_off` says why not."""

    corpora: list[CorpusReply]
    uploads: bool
    uploads_off: str
    upload_limits: UploadLimits


class StartedJob(TypedDict):
    """The id of the job that was begun."""

    job: str


class DocumentReply(TypedDict):
    id: str
    name: str
    bytes: int
    passages: int | None


class DocumentList(TypedDict):
    documents: list[DocumentReply]
    total: int
    offset: int


class TopicList(TypedDict):
    topics: list[Topic]


class CitedPassage(TypedDict):
    """A passage, which characters of which document it is, and the text around it.

    `file` is the address of the document it was read from, with the page of a PDF; null where it cannot be opened.
    """

    id: str
    title: str
    text: str
    document: str
    start: int
    end: int
    before: str
    after: str
    file: str | None


NO_RIGHT = "This key may not change corpora; the server's administrator can allow it."
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file: PDF, HTML, plain text, or bytes to be saved.",
        "content": {kind: {} for kind in ("application/pdf", "text/html", "text/plain", "application/octet-stream")},
    }
}
_UPLOADED = replies(StartedJob, UPLOAD_ERRORS, status=202)


def corpus_routes(corpora: Corpora, service: CorpusService, jobs: Jobs) -> APIRouter:
    """Make the routes of corpora and jobs."""
    routes = APIRouter(tags=["corpora"])
    uploads = APIRouter(route_class=_UploadRoute)

    @routes.get("/v1/corpora", summary="All corpora", responses=replies(CorpusList, LIST_ERRORS))
    async def list_corpora(request: Request) -> Response:
        listed: list[CorpusReply] = []
        for about in await asyncio.to_thread(corpora.list_all):
            job = jobs.of(about["name"])
            listed.append({**about, "job": job.as_dict() if job else None})
        settings: Settings = request.app.state.server.settings
        why = NO_RIGHT if not request.state.key.corpora else settings.uploads_off if corpora.folder is None else ""
        limits = UploadLimits(bytes=settings.limits.upload, files=settings.limits.files)
        return Json(CorpusList(corpora=listed, uploads=not why, uploads_off=why, upload_limits=limits))

    @uploads.post("/v1/corpora", status_code=202, summary="Make a corpus of uploaded files", responses=_UPLOADED)
    async def create(
        name: Annotated[str, Form(max_length=100, json_schema_extra={"pattern": NAME})], files: _Files
    ) -> Response:
        return _accepted(await service.create(name, files))

    @routes.delete(
        "/v1/corpora/{name}", status_code=204, summary="Remove a corpus", responses=replies(None, CHANGE_ERRORS)
    )
    async def remove(name: _Name) -> Response:
        await service.remove(name)
        return Response(status_code=204)

    @routes.get(
        "/v1/corpora/{name}/documents",
        summary="The uploaded files of a corpus",
        responses=replies(DocumentList, READ_ERRORS),
    )
    async def documents(
        name: _Name,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        corpus = corpora.own(name)
        files, passages = await asyncio.gather(asyncio.to_thread(corpus.files), asyncio.to_thread(corpus.passages))
        page = [
            DocumentReply(id=file, name=file, bytes=size, passages=passages.get(file))
            for file, size in files[offset : offset + limit]
        ]
        return Json(DocumentList(documents=page, total=len(files), offset=offset))

    @routes.get(
        "/v1/corpora/{name}/topics",
        summary="What questions about a corpus could be about",
        responses=replies(TopicList, (*READ_ERRORS, 409)),
    )
    async def topics(name: _Name) -> Response:
        return Json(TopicList(topics=await asyncio.to_thread(corpora.topics, name)))

    @routes.get(
        "/v1/corpora/{name}/passages/{passage:path}",
        summary="A passage that an answer cites; a page for browsers",
        responses=replies(CitedPassage, (*READ_ERRORS, 409)),
    )
    async def passage(name: _Name, passage: str, request: Request) -> Response:
        before, hit, after = await asyncio.to_thread(corpora.passage, name, passage)
        try:
            await asyncio.to_thread(corpora.file, name, hit.document, of_others=_is_local(request))
            # The fragment opens a PDF at the page of the passage.
            page = next((f"#page={value}" for key, value in hit.metadata if key == "page"), "")
            file = f"v1/corpora/{quote(name)}/files/{quote(hit.document.removesuffix(page), safe='/')}{page}"
        except Refusal:
            file = None
        cited = CitedPassage(
            id=hit.id,
            title=hit.title,
            text=hit.text,
            document=hit.document,
            start=hit.start,
            end=hit.end,
            before=before,
            after=after,
            file=file,
        )
        html = "text/html" in request.headers.get("accept", "")
        return HTMLResponse(_passage_page(cited, str(request.base_url))) if html else Json(cited)

    @routes.get(
        "/v1/corpora/{name}/files/{document:path}",
        summary="The file that a document was read from",
        responses=replies(None, (*READ_ERRORS, 409)) | _FILE,
    )
    async def file(name: _Name, document: str, request: Request) -> Response:
        path = await asyncio.to_thread(corpora.file, name, document, of_others=_is_local(request))
        return await asyncio.to_thread(_file_response, path)

    @uploads.post(
        "/v1/corpora/{name}/documents",
        status_code=202,
        summary="Add files, or new versions of some",
        responses=_UPLOADED,
    )
    async def add(name: _Name, files: _Files) -> Response:
        return _accepted(await service.add(name, files))

    @routes.delete(
        "/v1/corpora/{name}/documents/{document:path}",
        status_code=202,
        summary="Take a file out",
        responses=replies(StartedJob, CHANGE_ERRORS, status=202),
    )
    async def remove_document(name: _Name, document: str) -> Response:
        return _accepted(await service.remove_document(name, document))

    @routes.get("/v1/jobs/{job}", summary="How far a change of a corpus is", responses=replies(JobReply, READ_ERRORS))
    async def find_job(job: str) -> Response:
        return Json(jobs.find(job).as_dict())

    routes.include_router(uploads)
    return routes


def _is_local(request: Request) -> bool:
    """Return whether only this machine can ask; then it may open files of all corpora."""
    settings: Settings = request.app.state.server.settings
    return is_loopback(settings.host) and not settings.keys


_GZ = ".gz"
_HEAD_BYTES = 2**20  # enough to recognise text and its encoding
_PDF_POLICY = "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; frame-ancestors 'none'"
_HTML_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
_TEXT_POLICY = "default-src 'none'; sandbox"
_CHARSETS = {LATIN: "windows-1252", DAMAGED_UTF8: "utf-8"}


def _file_response(path: FilePath) -> Response:
    """Send a file so that nothing in it runs in the browser.

    PDF, HTML (without scripts, or anything from elsewhere) and plain text are shown; anything else is to be saved. A
    .gz is unpacked, unless it is damaged or too long.
    """
    is_packed = _is_packed(path)
    name = path.name[: -len(_GZ)] if is_packed and path.name.lower().endswith(_GZ) else path.name
    if name.lower().endswith(".pdf"):
        kind, policy, disposition = "application/pdf", _PDF_POLICY, "inline"
    elif charset := _charset_of(path):
        kind, policy = ("text/html", _HTML_POLICY) if _is_html(path) else ("text/plain", _TEXT_POLICY)
        kind, disposition = f"{kind}; charset={charset}", "inline"
    else:
        kind, policy, disposition = "application/octet-stream", _TEXT_POLICY, "attachment"
    headers = {"Content-Security-Policy": policy}
    if is_packed and (size := _unpacked_size(path)) is not None:
        about = {"Content-Disposition": f"{disposition}; filename*=utf-8''{quote(name)}", "Content-Length": str(size)}
        return StreamingResponse(_unpacked(path), 200, headers | about, kind)
    if is_packed:
        kind, disposition = "application/octet-stream", "attachment"
    return FileResponse(path, 200, headers, kind, filename=path.name, content_disposition_type=disposition)


def _is_html(path: FilePath) -> bool:
    return path.name.lower().removesuffix(".gz").endswith((".html", ".htm", ".xhtml"))


def _charset_of(path: FilePath) -> str:
    """Return the encoding of a text as browsers name it; "" for other files."""
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD_BYTES)
    except Damaged:
        return ""
    complete = len(head) < _HEAD_BYTES
    encoding = bom_encoding(head) or decode(head if complete else head[: head.rfind(b"\n") + 1])[1]
    if _is_html(path) and encoding in GUESSES:
        encoding = declared_encoding(head) or encoding
    return _CHARSETS.get(encoding, encoding.replace("utf-16-", "utf-16").replace("_", "-"))


def _is_packed(path: FilePath) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _unpacked_size(path: FilePath) -> int | None:
    """Return the size of an unpacked file; None if it is empty, damaged or too long."""
    size = 0
    with suppress(Damaged):
        for block in _unpacked(path):
            size += len(block)
            if size > MAX_DOCUMENT_BYTES:
                return None
        return size or None
    return None


def _unpacked(path: FilePath) -> Iterator[bytes]:
    """Yield the content of a packed file."""
    with open_bytes(path) as file:
        while block := file.read1(_HEAD_BYTES):
            yield block


def _passage_page(passage: CitedPassage, base: str) -> str:
    """Return a passage and the text around it as HTML, with all text escaped."""
    title, document = escape(passage["title"] or passage["id"]), escape(passage["document"] or passage["id"])
    before, text, after = (
        "".join(f"<p>{escape(line)}</p>" for line in unwrap_lines(part).split("\n") if line.strip())
        for part in (passage["before"], passage["text"], passage["after"])
    )
    file = f' <a href="{escape(base + passage["file"])}">{document}</a>' if passage["file"] else document
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    style = f'<link rel="stylesheet" href="{escape(base)}page/style.css">'
    head = f"<!DOCTYPE html>{meta}<title>{title}</title>{style}"
    return f'{head}<main class="in-source"><h1>{title}</h1><p>{file}</p>{before}<mark>{text}</mark>{after}</main>'


def _accepted(job: Job) -> Response:
    return Json(StartedJob(job=job.id), 202)


class _UploadRoute(APIRoute):
    """Applies the limit of files per upload in place of FastAPI's own."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def receive(request: Request) -> Response:
            max_files: int = request.app.state.server.settings.limits.files
            if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
                cause = "The Content-Type is not that of a form with files."
                raise Refusal(415, "NotAForm", cause, "Send multipart/form-data.")
            try:
                with refuse_when_disk_full():
                    await request.form(max_files=max_files)  # stored in the request, for the route
            except HTTPException as error:
                if error.detail.startswith("Too many files"):
                    raise too_many_files(max_files) from None
                raise
            except ClientDisconnect:
                raise Refusal(499, "ClientGone", "The client went away.") from None
            except ValueError:  # an unknown encoding; FastAPI handles only some of these
                remedy = "Send it as multipart/form-data."
                raise Refusal(400, "BadForm", "The form cannot be read.", remedy) from None
            return await handle(request)

        return receive
