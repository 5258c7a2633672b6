"""What the server is and has: health, metrics, methods, models."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from hoptree import __version__
from hoptree.engine import MAX_QUESTION
from hoptree.methods.registry import Method, list_methods, read_options
from hoptree.retrieval.opening import KINDS
from hoptree.server.house import House
from hoptree.server.names import unknown
from hoptree.server.replying import Json
from hoptree.server.telling import told_options

__all__ = ["about_routes"]

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def about_routes(house: House) -> APIRouter:
    """Routes that only read what was set up."""
    routes = APIRouter(tags=["about"])
    began = int(time.time())

    @routes.get("/health", summary="Whether the server answers")
    async def health() -> Response:
        state = "stopping" if house.live.stopping else "ok"
        return Json({"status": state, "version": __version__, "asking": len(house.live)}, 200 if state == "ok" else 503)

    @routes.get("/metrics", summary="Counters for Prometheus")
    async def metrics() -> Response:
        return Response(house.metrics.text(), media_type=_PROMETHEUS)

    @routes.get("/v1/methods", summary="Methods, models, corpora and graphs to choose among")
    async def methods() -> Response:
        return Json(
            {
                "methods": [_told(method, house) for method in list_methods()],
                "models": list(house.models.names),
                "corpora": list(house.corpora.names),
                "graphs": list(house.graphs.names),
                "retrievers": [{"name": name, "about": about} for name, about in KINDS.items()],
                "rerankers": list(house.settings.rerankers),
                "limits": {
                    "question": MAX_QUESTION,
                    **{name: getattr(house.settings.limits, name) for name in ("calls", "tokens", "seconds")},
                },
                "prices": house.settings.prices is not None,
                "default": {
                    "method": house.settings.method,
                    "model": house.models.default,
                    "corpus": house.corpora.default,
                    "retriever": house.settings.retriever,
                },
            }
        )

    @routes.get("/v1/models", summary="Methods as OpenAI's clients list models")
    async def models() -> Response:
        return Json({"object": "list", "data": [_as_model(name, method, began) for name, method in _ids(house)]})

    @routes.get("/v1/models/{name}", summary="One of them")
    async def model(name: str) -> Response:
        known = dict(_ids(house))
        if name not in known:
            raise unknown("model", name, known, status=404)
        return Json(_as_model(name, known[name], began))

    return routes


def _ids(house: House) -> list[tuple[str, Method]]:
    """METHOD for the default model, METHOD@MODEL for the others."""
    methods, further = list_methods(), house.models.names[1:]
    return [
        *((method.name, method) for method in methods),
        *((f"{method.name}@{model}", method) for model in further for method in methods),
    ]


def _as_model(name: str, method: Method, created: int) -> dict[str, Any]:
    about = {"title": method.title, "needs": list(method.needs), "fidelity": method.fidelity({}, set(method.signals))}
    return {"id": name, "object": "model", "created": created, "owned_by": "hoptree", "hoptree": about}


def _told(method: Method, house: House) -> dict[str, Any]:
    given = {name.replace("-", "_"): value for name, value in house.settings.options.get(method.name, {}).items()}
    fixed = told_options(method.name, read_options(method, given))
    why = _lacking(method, house, fixed)
    return {
        "name": method.name,
        "title": method.title,
        "about": method.summary,
        "paper": method.paper,
        "needs": list(method.needs),
        "fidelity": method.fidelity({}, set(method.signals)),
        "available": not why,
        **({"why": why} if why else {}),
        "options": [
            {
                "name": option.name,
                "type": option.describe(),
                "default": fixed.get(option.name, option.default),
                **({"fixed": True} if option.name in fixed else {}),
                **({"choices": list(option.choices)} if option.choices else {}),
            }
            for option in method.options
        ],
    }


def _lacking(method: Method, house: House, fixed: dict[str, Any]) -> str:
    """What a method needs as it is set up here, and the server does not have, in a sentence."""
    kinds = next((option for option in method.options if option.name == "evidence"), None)
    evidence = fixed.get("evidence", kinds.default) if kinds else ""
    if "graph" in method.needs and not house.graphs.names and evidence != "text":
        free = kinds is not None and "text" in kinds.choices and "evidence" not in fixed
        hint = ' With "options": {"evidence": "text"} it does without.' if free else ""
        return f"It needs a knowledge graph, and this server has none.{hint}"
    if "corpus" in method.needs and house.corpora.default is None and evidence != "graph":
        return "It needs a corpus, and this server has none."
    return ""
