"""What the server is and has: health, metrics, methods, models."""

from __future__ import annotations

import inspect
import re
import time
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from hoptree import __version__
from hoptree.engine.engine import MAX_QUESTION
from hoptree.engine.registry import Method, Option, list_methods, read_options
from hoptree.retrieval.retriever import KINDS
from hoptree.server.question_service import QuestionService
from hoptree.server.reply_schemas import LIST_ERRORS, replies, reply
from hoptree.server.settings import unknown
from hoptree.server.views import Json, options_view

_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z`])")
_MAX_ABOUT_CHARS = 220
_TITLES_OPTION = "Shows passages with their titles."
"""For every method: the sentence of a method that names this option is about others."""
_OPTION_TEXTS = {
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
_OTHER_OPTION = "The method's documentation tells what it does."
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Health(TypedDict):
    """Whether questions are taken, and how many are being answered."""

    status: Literal["ok", "stopping"]
    version: str
    asking: int


class OptionReply(TypedDict):
    """An option of a method; one that is `fixed` has its default as its value."""

    name: str
    type: str
    about: str
    default: Any
    fixed: NotRequired[bool]
    choices: NotRequired[list[Any]]


class MethodReply(TypedDict):
    """A method; where it is not available here, `why`."""

    name: str
    title: str
    about: str
    paper: str
    needs: list[str]
    fidelity: str
    available: bool
    why: NotRequired[str]
    options: list[OptionReply]


class RetrieverReply(TypedDict):
    name: str
    about: str


class QuestionLimits(TypedDict):
    """Of one question: its characters, and what it may spend."""

    question: int
    calls: int
    tokens: int
    seconds: float


class Defaults(TypedDict):
    method: str
    model: str
    corpus: str | None
    retriever: str


class Methods(TypedDict):
    """All that a request may name."""

    methods: list[MethodReply]
    models: list[str]
    corpora: list[str]
    graphs: list[str]
    retrievers: list[RetrieverReply]
    rerankers: list[str]
    limits: QuestionLimits
    remembers: bool
    prices: bool
    default: Defaults


class ModelAbout(TypedDict):
    title: str
    method: str
    model: str
    needs: list[str]


class ModelReply(TypedDict):
    """A method in the form in which OpenAI's API lists models.

    Its id ends with @MODEL, unless that is the first model.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    hoptree: ModelAbout


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[ModelReply]


_Filter = Annotated[str | None, Query(max_length=128, description="Only those with this one.")]
_HEALTH = replies(Health, (403, 421, 500)) | {503: reply(Health, "It is stopping.")}
_METRICS = replies(None, LIST_ERRORS) | {
    200: {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


def about_routes(questions: QuestionService) -> APIRouter:
    """Make the routes that only read how the server is set up."""
    routes = APIRouter(tags=["about"])
    created = int(time.time())

    @routes.head("/health", include_in_schema=False)
    @routes.get("/health", summary="Whether the server answers", responses=_HEALTH)
    async def health() -> Response:
        stopping = questions.running.stopping
        status: Literal["ok", "stopping"] = "stopping" if stopping else "ok"
        return Json(Health(status=status, version=__version__, asking=len(questions.running)), 503 if stopping else 200)

    @routes.get("/metrics", summary="Counters for Prometheus", response_class=Response, responses=_METRICS)
    async def metrics() -> Response:
        return Response(questions.metrics.text(), media_type=_PROMETHEUS)

    @routes.get(
        "/v1/methods",
        summary="Methods, models, corpora and graphs to choose among",
        responses=replies(Methods, LIST_ERRORS),
    )
    async def methods() -> Response:
        settings, limits = questions.settings, questions.settings.limits
        choices = Methods(
            methods=[_method_reply(method, questions) for method in list_methods()],
            models=list(questions.models.names),
            corpora=list(questions.corpora.names),
            graphs=list(questions.graphs.names),
            retrievers=[RetrieverReply(name=name, about=about) for name, about in KINDS.items()],
            rerankers=list(settings.rerankers),
            limits=QuestionLimits(
                question=MAX_QUESTION, calls=limits.calls, tokens=limits.tokens, seconds=limits.seconds
            ),
            remembers=settings.cache is not None,
            prices=settings.prices is not None,
            default=Defaults(
                method=settings.method,
                model=questions.models.default,
                corpus=questions.corpora.default,
                retriever=settings.retriever,
            ),
        )
        return Json(choices)

    @routes.get(
        "/v1/models",
        summary="Methods as OpenAI's clients list models",
        responses=replies(ModelList, (*LIST_ERRORS, 400, 422), openai=True),
    )
    async def models(method: _Filter = None, model: _Filter = None) -> Response:
        known_methods = [known.name for known in list_methods()]
        for what, name, known in (("method", method, known_methods), ("model", model, questions.models.names)):
            if name is not None and name not in known:
                raise unknown(what, name, known, param=what)
        offers = [
            offer
            for offer in _model_replies(questions, created)
            if method in (None, offer["hoptree"]["method"]) and model in (None, offer["hoptree"]["model"])
        ]
        return Json(ModelList(object="list", data=offers))

    @routes.get(
        "/v1/models/{name}", summary="One of them", responses=replies(ModelReply, (*LIST_ERRORS, 404), openai=True)
    )
    async def model(name: str) -> Response:
        offers = {}
        for offer in _model_replies(questions, created):
            offers[offer["id"]] = offers[f"{offer['hoptree']['method']}@{offer['hoptree']['model']}"] = offer
        if name not in offers:
            raise unknown("model", name, offers, status=404, param="model")
        return Json(offers[name])

    return routes


def _model_replies(questions: QuestionService, created: int) -> list[ModelReply]:
    """List METHOD for the default model, then METHOD@MODEL; the default method first."""
    methods = (method for method in list_methods() if not _missing_source(method, questions, _fixed(method, questions)))
    ordered = sorted(methods, key=lambda method: method.name != questions.settings.method)
    return [
        ModelReply(
            id=method.name if model == questions.models.default else f"{method.name}@{model}",
            object="model",
            created=created,
            owned_by="hoptree",
            hoptree=ModelAbout(title=method.title, method=method.name, model=model, needs=list(method.needs)),
        )
        for model in questions.models.names
        for method in ordered
    ]


def _fixed(method: Method, questions: QuestionService) -> dict[str, Any]:
    """Return the options that the settings fix for a method, as clients may see them."""
    return options_view(method.name, read_options(method, questions.settings.options.get(method.name, {})))


def _method_reply(method: Method, questions: QuestionService) -> MethodReply:
    fixed = _fixed(method, questions)
    why = _missing_source(method, questions, fixed)
    reply = MethodReply(
        name=method.name,
        title=method.title,
        about=method.summary,
        paper=method.paper,
        needs=list(method.needs),
        fidelity=method.fidelity({}, set(method.signals)),
        available=not why,
        options=[_option_reply(method, option, fixed) for option in method.options],
    )
    if why:
        reply["why"] = why
    return reply


def _option_reply(method: Method, option: Option, fixed: dict[str, Any]) -> OptionReply:
    reply = OptionReply(
        name=option.name,
        type=option.describe(),
        about=option_text(method, option),
        default=fixed.get(option.name, option.default),
    )
    if option.name in fixed:
        reply["fixed"] = True
    if option.choices:
        reply["choices"] = list(option.choices)
    return reply


def option_text(method: Method, option: Option) -> str:
    """Describe an option by a sentence of the method's docstring, else a common one."""
    if option.name == "titles":
        return _TITLES_OPTION
    documentation = " ".join((inspect.getdoc(method.run) or "").split())
    mention = re.compile(rf"`{re.escape(option.name)}\b")
    own = next((text.replace("`", "") for text in _SENTENCE_END.split(documentation) if mention.search(text)), "")
    text = own or _OPTION_TEXTS.get(option.name, _OTHER_OPTION)
    return text if len(text) <= _MAX_ABOUT_CHARS else f"{text[:_MAX_ABOUT_CHARS].rpartition(' ')[0]} …"


NO_GRAPH = "It needs a knowledge graph, and this server has none."
NO_CORPUS = "It needs a corpus, and this server has none."


def _missing_source(method: Method, questions: QuestionService, fixed: dict[str, Any]) -> str:
    """Say what a method needs that this server does not have; "" if it can be chosen."""
    kinds = next((option for option in method.options if option.name == "evidence"), None)
    evidence = fixed.get("evidence", kinds.default) if kinds else ""
    if "graph" in method.needs and not questions.graphs.names and evidence != "text":
        free = kinds is not None and "text" in kinds.choices and "evidence" not in fixed
        hint = ' With "options": {"evidence": "text"} it does without.' if free else ""
        return f"{NO_GRAPH}{hint}"
    if "corpus" in method.needs and questions.corpora.default is None and evidence != "graph":
        return NO_CORPUS
    return ""
