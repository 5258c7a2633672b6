"""The web page, which is a client like any other."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from hoptree.server.replying import Json

__all__ = ["add_page"]

_FOLDER = Path(__file__).parent.parent / "page"


class _Parts(StaticFiles):
    """The files of the page; browsers ask each time whether they changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        reply = await super().get_response(path, scope)
        reply.headers["Cache-Control"] = "no-cache"
        return reply


def add_page(app: FastAPI) -> None:
    """Serve the page at / and its parts below /page/."""
    routes = APIRouter()

    @routes.head("/", include_in_schema=False)
    @routes.get("/", include_in_schema=False)
    async def index() -> Response:
        if not (_FOLDER / "index.html").is_file():
            return Json({"name": "hoptree", "openapi": "/openapi.json"})
        return FileResponse(_FOLDER / "index.html", headers={"Cache-Control": "no-cache"})

    app.include_router(routes)
    if _FOLDER.is_dir():
        app.mount("/page", _Parts(directory=_FOLDER), name="page")
