"""What replies look like, for the OpenAPI document: the shapes of the objects that are made elsewhere.

A test holds the server's replies against them, and no field may be missing here.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from hoptree.runtime.writing import Writing

__all__ = [
    "EVENTS",
    "AskFailure",
    "AskReply",
    "Completion",
    "Corpora",
    "Documents",
    "ErrorReply",
    "Found",
    "Health",
    "JobReply",
    "Methods",
    "ModelReply",
    "Models",
    "OpenAIError",
    "RunComparison",
    "RunQuestion",
    "RunQuestions",
    "RunSummary",
    "Runs",
    "Started",
]

# `class` is a word of Python's own, which only this way of writing takes.
Why = TypedDict(
    "Why",
    {"class": str, "message": str, "remedy": str, "retryable": NotRequired[bool]},
)
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


class RunAbout(TypedDict):
    id: str
    name: str
    folder: str
    method: str
    model: str
    dataset: str
    fidelity: str


class RunReply(TypedDict):
    """A run; a damaged one has nothing but its folder and the error."""

    id: str
    folder: str
    error: NotRequired[str]
    name: NotRequired[str]
    method: NotRequired[str]
    model: NotRequired[str]
    dataset: NotRequired[str]
    fidelity: NotRequired[str]
    questions: NotRequired[int]
    finished: NotRequired[int]
    failed: NotRequired[int]
    em: NotRequired[float | None]
    f1: NotRequired[float | None]


class Runs(TypedDict):
    runs: list[RunReply]


class Mean(TypedDict):
    """A metric over the questions it is defined for, with half the width of its interval."""

    mean: float
    plus_minus: float
    questions: int


class Group(TypedDict):
    questions: int
    metrics: dict[str, Mean]


class RunSummary(RunAbout):
    """A run as a whole; `usage` is the spread of what questions cost, `judges` what judges said of the answers."""

    options: dict[str, Any]
    budget: dict[str, Any]
    questions: int
    finished: int
    failed: int
    abstained: int
    stopped: int
    errors: dict[str, int]
    metrics: dict[str, Mean]
    by_type: dict[str, Group]
    by_hops: dict[str, Group]
    sources: dict[str, int]
    usage: dict[str, dict[str, float]]
    judges: dict[str, dict[str, Any]]


class RunRow(TypedDict):
    """A question of a run, the answers that count, and the one that was given."""

    id: str
    question: str
    gold: list[str]
    answer: str
    type: str
    hops: int
    verdict: Literal["right", "wrong", "failed"]
    abstained: bool
    error: str | None
    stopped_by: str | None
    em: float | None
    f1: float | None
    scores: dict[str, float | None]
    usage: dict[str, float]


class RunQuestion(RunRow):
    result: AskReply


class RunQuestions(TypedDict):
    questions: list[RunRow]
    total: int
    offset: int
    types: list[str]


class IntervalReply(TypedDict):
    mean: float
    low: float
    high: float
    level: float


class Difference(TypedDict):
    """What b has more than a in one metric, and whether that may be luck."""

    questions: int
    mean_a: float
    mean_b: float
    difference: float
    interval: IntervalReply
    p_value: float
    adjusted_p: float
    exact: bool
    wins: int
    losses: int
    ties: int
    flips: bool
    deviation: float | None
    left_out: int
    not_applicable: int
    detectable: float | None
    power_note: str


class Side(TypedDict):
    answer: str
    error: str | None
    em: float | None
    f1: float | None


class Differing(TypedDict):
    """A question that the two runs score differently."""

    id: str
    question: str
    gold: list[str]
    type: str
    difference: float
    a: Side
    b: Side


class RunComparison(TypedDict):
    a: RunAbout
    b: RunAbout
    metrics: dict[str, Difference]
    differ: list[Differing]
