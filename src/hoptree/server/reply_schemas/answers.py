"""An answer with its tree, and the events on the way to it."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from hoptree.engine.generation_view import Writing
from hoptree.server.reply_schemas.about import FailedBy, Why


class Passage(TypedDict):
    id: str
    title: str
    text: str
    score: float


class Node(TypedDict):
    """A sub-question: where its answer comes from, the ids of the passages behind it, and what was made of it."""

    id: int
    question: str
    resolved: str
    answer: str
    source: str
    evidence: list[str]
    state: NotRequired[str]
    module: NotRequired[str]
    why: NotRequired[str]
    know: NotRequired[bool]
    hypothesis: NotRequired[str]
    verdict: NotRequired[str]
    struck: NotRequired[list[str]]
    facts: NotRequired[list[list[str]]]
    children: list[Node]


class Usage(TypedDict):
    """What a question cost; tokens are those of all calls, `cost` is what was paid."""

    llm_calls: int
    cached_calls: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    retrievals: int
    price: float
    cost: float
    seconds: float
    critical_path_seconds: float


class AskReply(TypedDict):
    """An answer with the tree and the evidence behind it: the object that `hoptree ask --json` prints."""

    question: str
    answer: str
    abstained: bool
    why: NotRequired[str]
    method: str
    options: dict[str, Any]
    fidelity: str
    model: str
    tree: list[Node]
    chains: list[str]
    evidence: list[Passage]
    cited: NotRequired[list[Passage]]
    usage: Usage
    stopped_by: str | None
    warnings: list[str]
    writing: NotRequired[Writing]
    error: NotRequired[FailedBy]


class AskFailure(TypedDict):
    """A question that was refused; or one that failed, with what there was of its result by then."""

    error: Why
    result: NotRequired[AskReply]


class StepEvent(TypedDict):
    """What happens, a line in words, and the sub-question it is about."""

    text: str
    node: int | None
    t: float
    kind: str


class PassagesEvent(TypedDict):
    """Passages that were found for the first time."""

    passages: list[Passage]


class TreeEvent(TypedDict):
    """The tree so far, with the state of each node, and what was spent."""

    tree: list[Node]
    usage: Usage
    state: Literal["running"]
    writing: NotRequired[Writing]


class ErrorEvent(Why):
    """Why a question has no answer, and what there was of its result by then."""

    result: NotRequired[AskReply]


EVENTS: dict[str, Any] = {
    "step": StepEvent,
    "passages": PassagesEvent,
    "tree": TreeEvent,
    "trace": dict[str, Any],
    "result": AskReply,
    "error": ErrorEvent,
}
"""The data of server-sent events by their names."""


class CitedPlace(TypedDict):
    start_index: int
    end_index: int
    title: str
    url: str


class Citation(TypedDict):
    type: Literal["url_citation"]
    url_citation: CitedPlace


class Message(TypedDict):
    """The answer; the steps are its reasoning, and `hoptree` is all that `/v1/ask` tells."""

    role: Literal["assistant"]
    content: str
    refusal: None
    reasoning_content: str
    annotations: list[Citation]
    hoptree: AskReply


class Choice(TypedDict):
    index: int
    message: Message
    logprobs: None
    finish_reason: Literal["stop", "length"]


class PromptDetails(TypedDict):
    cached_tokens: int


class CompletionDetails(TypedDict):
    reasoning_tokens: int


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class Completion(TypedDict):
    """OpenAI's chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage


class Found(TypedDict):
    """Passages, best first."""

    corpus: str
    retriever: str
    passages: list[Passage]
