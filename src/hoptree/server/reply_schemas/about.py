"""What there is to choose among."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


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


# `class` is a word of Python's own, which only this way of writing takes.
Why = TypedDict("Why", {"class": str, "message": str, "remedy": str, "retryable": NotRequired[bool]})
Why.__doc__ = "Why something was refused or failed; `retryable` is false where asking the same again cannot help."
FailedBy = TypedDict("FailedBy", {"class": str, "message": str})
FailedBy.__doc__ = "What ended a question."


class ErrorReply(TypedDict):
    """A request that was refused, or failed."""

    error: Why


class OpenAIWhy(TypedDict):
    """An error as OpenAI's clients read it; `code` is the class."""

    message: str
    type: str
    code: str
    param: str | None
    retryable: NotRequired[bool]


class OpenAIError(TypedDict):
    """A request that was refused, or failed, as OpenAI's clients read it."""

    error: OpenAIWhy


class PassedOver(TypedDict):
    """A file that was not read, or not wholly."""

    file: str
    cause: str
    remedy: str


class JobReply(TypedDict):
    """A change of a corpus, and how far it is."""

    id: str
    kind: Literal["create", "add", "remove"]
    corpus: str
    state: Literal["running", "done", "failed", "stopped"]
    done: int
    total: int | None
    message: str
    passed_over: list[PassedOver]
    error: Why | None


class CorpusReply(TypedDict):
    """A corpus; `managed` ones were made over HTTP and can be changed so."""

    name: str
    passages: int | None
    documents: int | None
    retrievers: list[str]
    managed: bool
    job: JobReply | None


class Corpora(TypedDict):
    corpora: list[CorpusReply]
    uploads: bool


class Started(TypedDict):
    """The id of the job that was begun."""

    job: str


class DocumentReply(TypedDict):
    id: str
    name: str
    bytes: int
    passages: int | None


class Documents(TypedDict):
    documents: list[DocumentReply]
    total: int
    offset: int
