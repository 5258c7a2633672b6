"""What there is to choose among."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

__all__ = ["Health", "Methods", "ModelReply", "Models"]


class Health(TypedDict):
    """Whether questions are taken, and how many are being answered."""

    status: Literal["ok", "stopping"]
    version: str
    asking: int


class OptionReply(TypedDict):
    """An option of a method; one that is `fixed` has its default as its value."""

    name: str
    type: str
    default: Any
    about: str
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
    fidelity: str
    available: bool


class ModelReply(TypedDict):
    """A method, with a model after @ if that is not the first, as OpenAI's clients know models."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    hoptree: ModelAbout


class Models(TypedDict):
    object: Literal["list"]
    data: list[ModelReply]
