"""What the server is and has: health, metrics, methods, models."""

from __future__ import annotations

import inspect
import re
import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from hoptree import __version__
from hoptree.engine.engine import MAX_QUESTION
from hoptree.engine.registry import Method, Option, list_methods, read_options
from hoptree.retrieval.opening import KINDS
from hoptree.server.json_response import Json
from hoptree.server.names import unknown
from hoptree.server.openapi import replies, reply
from hoptree.server.reply_schemas.about import Health, Methods, ModelReply
from hoptree.server.reply_schemas.about import Models as ModelList
from hoptree.server.state import ServerState
from hoptree.server.views import options_view

_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z`])")
_LONGEST = 220
_OPTION_WORDS_ALWAYS = {"titles": "Shows passages with their titles."}
"""Said even where a method says more of it: that is about its other options."""
_USUAL = {
    "k": "How many passages a search gives.",
    "shots": "How many worked examples are shown.",
    "draw": "Another number than 0 shows other examples.",
    "max_tokens": "How many tokens the model may write.",
    "temperature": "How freely the model writes; 0 is the likeliest text.",
    "samples": "How many answers are drawn, of which most agree on the one given.",
    "order": "Whether sub-questions that do not wait for each other are asked at once, or one after another.",
    "threshold": "Whether the threshold of doubt follows the text, or is fixed.",
    "disagree": "How much samples of a sentence must differ for it to be looked up.",
    "memory": "Whether facts that were read are kept for what is written next.",
    "words": "How many words are searched with.",
    "look_ahead": "How many tokens of the next sentence are tried out.",
    "rounds": "How often it is searched and answered in turn.",
    "max_steps": "How many thoughts there may be.",
    "max_docs": "How many passages are gathered at most.",
    "depth_rule": "At the greatest depth, faithful splits a question all the same, and prune does not.",
}
_OTHER = "The method's documentation tells what it does."


def about_option(method: Method, option: Option) -> str:
    """The sentence that a method's documentation has about one of its options."""
    told = _OPTION_WORDS_ALWAYS.get(option.name) or _own(method, option.name) or _USUAL.get(option.name, _OTHER)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST].rpartition(' ')[0]} …"


def _own(method: Method, name: str) -> str:
    text = " ".join((inspect.getdoc(method.run) or "").split())
    named = re.compile(rf"`{re.escape(name)}\b")
    return next((one.replace("`", "") for one in _SENTENCE.split(text) if named.search(one)), "")


_Only = Annotated[str | None, Query(max_length=128, description="Only those with this one.")]
_ALWAYS = (401, 403, 421, 429, 500)
_HEALTH = replies(Health, (403, 421, 500)) | {503: reply(Health, "It is stopping.")}
_METRICS = replies(None, _ALWAYS) | {
    200: {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def about_routes(state: ServerState) -> APIRouter:
    """Routes that only read what was set up."""
    routes = APIRouter(tags=["about"])
    began = int(time.time())

    @routes.head("/health", include_in_schema=False)
    @routes.get("/health", summary="Whether the server answers", responses=_HEALTH)
    async def health() -> Response:
        status = "stopping" if state.running.stopping else "ok"
        return Json(
            {"status": status, "version": __version__, "asking": len(state.running)}, 200 if status == "ok" else 503
        )

    @routes.get("/metrics", summary="Counters for Prometheus", response_class=Response, responses=_METRICS)
    async def metrics() -> Response:
        return Response(state.metrics.text(), media_type=_PROMETHEUS)

    @routes.get(
        "/v1/methods",
        summary="Methods, models, corpora and graphs to choose among",
        responses=replies(Methods, _ALWAYS),
    )
    async def methods() -> Response:
        return Json(
            {
                "methods": [_told(method, state) for method in list_methods()],
                "models": list(state.models.names),
                "corpora": list(state.corpora.names),
                "graphs": list(state.graphs.names),
                "retrievers": [{"name": name, "about": about} for name, about in KINDS.items()],
                "rerankers": list(state.settings.rerankers),
                "limits": {
                    "question": MAX_QUESTION,
                    **{name: getattr(state.settings.limits, name) for name in ("calls", "tokens", "seconds")},
                },
                "remembers": state.settings.cache is not None,
                "prices": state.settings.prices is not None,
                "default": {
                    "method": state.settings.method,
                    "model": state.models.default,
                    "corpus": state.corpora.default,
                    "retriever": state.settings.retriever,
                },
            }
        )

    @routes.get(
        "/v1/models",
        summary="Methods as OpenAI's clients list models",
        responses=replies(ModelList, (*_ALWAYS, 400, 422), openai=True),
    )
    async def models(method: _Only = None, model: _Only = None) -> Response:
        for what, name, known in (
            ("method", method, [one.name for one in list_methods()]),
            ("model", model, state.models.names),
        ):
            if name is not None and name not in known:
                raise unknown(what, name, known, param=what)
        found = [one for one in _offers(state) if method in (None, one.method.name) and model in (None, one.model)]
        return Json({"object": "list", "data": [one.told(began) for one in found]})

    @routes.get("/v1/models/{name}", summary="One of them", responses=replies(ModelReply, (*_ALWAYS, 404), openai=True))
    async def model(name: str) -> Response:
        known = {name: one for one in _offers(state) for name in (one.id, f"{one.method.name}@{one.model}")}
        if name not in known:
            raise unknown("model", name, known, status=404, param="model")
        return Json(known[name].told(began))

    return routes


@dataclass(frozen=True, slots=True)
class _Offer:
    """A method with a model, as OpenAI's clients choose it."""

    id: str
    method: Method
    model: str
    available: bool

    def told(self, created: int) -> dict[str, Any]:
        method = self.method
        about = {
            "title": method.title,
            "method": method.name,
            "model": self.model,
            "needs": list(method.needs),
            "fidelity": method.fidelity({}, set(method.signals)),
            "available": self.available,
        }
        return {"id": self.id, "object": "model", "created": created, "owned_by": "hoptree", "hoptree": about}


def _offers(state: ServerState) -> list[_Offer]:
    """METHOD for the default model, then METHOD@MODEL; of each the default first, and what cannot work here last."""
    default = state.settings.method
    able = {method.name: not _lacking(method, state, _fixed(method, state)) for method in list_methods()}
    methods = sorted(list_methods(), key=lambda method: (not able[method.name], method.name != default))
    return [
        _Offer(method.name if not place else f"{method.name}@{model}", method, model, able[method.name])
        for place, model in enumerate(state.models.names)
        for method in methods
    ]


def _fixed(method: Method, state: ServerState) -> dict[str, Any]:
    """The options that are set for every question of a method, as clients may see them."""
    given = {name.replace("-", "_"): value for name, value in state.settings.options.get(method.name, {}).items()}
    return options_view(method.name, read_options(method, given))


def _told(method: Method, state: ServerState) -> dict[str, Any]:
    fixed = _fixed(method, state)
    why = _lacking(method, state, fixed)
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
                "about": about_option(method, option),
                "default": fixed.get(option.name, option.default),
                **({"fixed": True} if option.name in fixed else {}),
                **({"choices": list(option.choices)} if option.choices else {}),
            }
            for option in method.options
        ],
    }


def _lacking(method: Method, state: ServerState, fixed: dict[str, Any]) -> str:
    """What a method needs as it is set up here, and the server does not have, in a sentence."""
    kinds = next((option for option in method.options if option.name == "evidence"), None)
    evidence = fixed.get("evidence", kinds.default) if kinds else ""
    if "graph" in method.needs and not state.graphs.names and evidence != "text":
        free = kinds is not None and "text" in kinds.choices and "evidence" not in fixed
        hint = ' With "options": {"evidence": "text"} it does without.' if free else ""
        return f"It needs a knowledge graph, and this server has none.{hint}"
    if "corpus" in method.needs and state.corpora.default is None and evidence != "graph":
        return "It needs a corpus, and this server has none."
    return ""
