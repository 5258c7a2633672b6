"""Searches: what a method would get to read."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from hoptree.retrieval.opening import KINDS
from hoptree.server.house import House
from hoptree.server.names import unknown
from hoptree.server.refusals import Refusal
from hoptree.server.replying import Json
from hoptree.server.schemas import SearchBody

__all__ = ["search_routes"]


def search_routes(house: House) -> APIRouter:
    """The route of searches."""
    routes = APIRouter(tags=["search"])

    @routes.post("/v1/search", summary="The best passages for a query")
    async def search(body: SearchBody) -> Response:
        if not body.query.strip() or not _is_text(body.query):
            raise Refusal(400, "InputError", "The query is empty, or no valid text.", "Search for words.")
        corpus = body.corpus or house.corpora.default
        if corpus is None:
            raise unknown("corpus", "", ())
        kind = body.retriever or house.settings.retriever
        if kind not in KINDS:
            raise unknown("retriever", kind, KINDS)
        retriever = await house.retrievers.find(corpus, kind, body.rerank or "")
        found = await house.asking.calls.search(
            retriever, body.query, k=body.k, where=None, on_retry=lambda error, wait: None
        )
        told = [{"id": p.id, "title": p.title, "text": p.text, "score": p.score} for p in found.reply]
        return Json({"corpus": corpus, "retriever": kind, "passages": told})

    return routes


def _is_text(query: str) -> bool:
    try:
        query.encode()
    except UnicodeEncodeError:
        return False
    return True
