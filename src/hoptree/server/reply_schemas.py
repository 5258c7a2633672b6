"""Schemas of answers and errors, derived from the values that replies are made of.

A reply that a route puts together itself has its schema beside the function that does so. `openapi.py` collects all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, NotRequired, get_type_hints

from typing_extensions import TypedDict

from hoptree.core.values import Usage
from hoptree.engine.generation_view import Writing
from hoptree.engine.result import Result, TreeNode, read_result

_new_typed_dict: Any = TypedDict


def dataclass_schema(
    name: str, about: str, source: Any, *, always: Collection[str], without: Collection[str] = (), **other: Any
) -> Any:
    """Make a typed dictionary of the fields of a dataclass, for the object that its `as_dict` returns.

    Keys in `always` are never missing. `without` names fields that are no keys of it, and `other` gives the types of
    keys that differ from those of the fields.
    """
    hints = get_type_hints(source)
    types = {field.name: hints[field.name] for field in fields(source) if field.name not in without} | other
    schema = _new_typed_dict(name, {key: hint if key in always else NotRequired[hint] for key, hint in types.items()})
    schema.__doc__ = about
    return schema


# `class` is a keyword, which only this form of a typed dictionary takes as a key.
ErrorDetail = TypedDict("ErrorDetail", {"class": str, "message": str, "remedy": str, "retryable": NotRequired[bool]})
ErrorDetail.__doc__ = "Why something was refused or failed; `retryable` is false where asking again cannot help."
FailedBy = TypedDict("FailedBy", {"class": str, "message": str})
FailedBy.__doc__ = "What ended a question."


class ErrorReply(TypedDict):
    """A request that was refused, or failed."""

    error: ErrorDetail


class OpenAIErrorDetail(TypedDict):
    """An error as OpenAI's clients read it; `code` is the class."""

    message: str
    type: str
    code: str
    param: str | None
    retryable: NotRequired[bool]


class OpenAIError(TypedDict):
    """A request that was refused, or failed, as OpenAI's clients read it."""

    error: OpenAIErrorDetail


class PassageReply(TypedDict):
    """A passage, with the score of the search that found it."""

    id: str
    title: str
    text: str
    score: float


if TYPE_CHECKING:  # types that are made at run time
    UsageReply = dict[str, float]
    Node = dict[str, Any]
    AskReply = dict[str, Any]
else:
    UsageReply = dataclass_schema(
        "UsageReply",
        "What a question cost; tokens are those of all calls, `cost` is what was paid.",
        Usage,
        always=Usage().as_dict(),
    )
    Node = dataclass_schema(
        "Node",
        "A sub-question: its answer, where that comes from, and the ids of the passages behind it.",
        TreeNode,
        always=TreeNode(0, "").as_dict(),
        children="list[Node]",
    )
    AskReply = dataclass_schema(
        "AskReply",
        "An answer with the tree and the evidence behind it: the object that `hoptree ask --json` prints.",
        Result,
        always=read_result(()).as_dict(),
        without=("failure", "error_message", "consulted"),
        tree=list[Node],
        evidence=list[PassageReply],
        cited=list[PassageReply],
        usage=UsageReply,
        stopped_by=str | None,
        writing=Writing,
        decisions=list[dict[str, Any]],
        error=FailedBy,
    )


class AskFailure(TypedDict):
    """A question that was refused; or one that failed, with what there was of its result by then."""

    error: ErrorDetail
    result: NotRequired[AskReply]


class StepEvent(TypedDict):
    """What happens, as one line of text, and the sub-question it is about."""

    text: str
    node: int | None
    t: float
    kind: str


class PassagesEvent(TypedDict):
    """Passages that were found for the first time."""

    passages: list[PassageReply]


class TreeEvent(TypedDict):
    """The tree so far, with the state of each node, and what was spent."""

    tree: list[Node]
    usage: UsageReply
    state: Literal["running"]
    writing: NotRequired[Writing]


class ErrorEvent(ErrorDetail):
    """Why a question has no answer, and what there was of its result by then."""

    result: NotRequired[AskReply]


STREAM_EVENTS: dict[str, Any] = {
    "step": StepEvent,
    "passages": PassagesEvent,
    "tree": TreeEvent,
    "trace": dict[str, Any],
    "result": AskReply,
    "error": ErrorEvent,
}
"""The data of server-sent events by their names."""
