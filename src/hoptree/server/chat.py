"""A chat completion as OpenAI's clients know it: the question in it, and the answer as its parts."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hoptree.runtime.result import Result
from hoptree.server.names import guess
from hoptree.server.refusals import Refusal
from hoptree.server.schemas import ChatBody

__all__ = ["NO_ANSWER", "citations", "content_of", "finish_of", "question_in", "unread", "usage_of"]

NO_ANSWER = "No answer was found."
"""What stands in the place of an answer where a method gives none."""
_SAMPLING = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)


_FEW = 10
_LETTERS = 40


def question_in(body: ChatBody) -> str:
    """The last message, which must be the user's; what the server cannot do is refused and not passed over."""
    _check_possible(body)
    last = body.messages[-1]
    if last.role != "user":
        raise _refused("messages", "The last message is not the user's.")
    if isinstance(last.content, list):
        if any(part.type != "text" for part in last.content):
            raise _refused("messages", "Only text can be asked.")
        return "\n".join(part.text for part in last.content)
    return last.content or ""


def _check_possible(body: ChatBody) -> None:
    if body.n not in (None, 1):
        raise _refused("n", "A question has one answer.")
    for name in ("tools", "functions"):
        if getattr(body, name):
            raise _refused(name, "Methods call no tools of clients.")
    if body.logprobs:
        raise _refused("logprobs", "An answer has no log-probabilities.")
    if body.response_format and body.response_format.get("type", "text") != "text":
        raise _refused("response_format", "Answers are text.")


def _refused(field: str, why: str) -> Refusal:
    remedy = "End with a message of the user's, the question as text." if field == "messages" else "Leave it out."
    return Refusal(400, "Unsupported", f"{field}: {why}", remedy, param=field)


def unread(body: ChatBody) -> list[str]:
    """What of a request has no effect, in words."""
    said = []
    if len(body.messages) > 1:
        said.append("Only the last message was read: every question stands for itself.")
    given = [name for name, value in (body.model_extra or {}).items() if value is not None]
    if sampling := [name for name in _SAMPLING if name in given]:
        said.append(f"Methods decide for themselves about {', '.join(sampling)}.")
    if others := [_doubted(name) for name in given if name not in _SAMPLING]:
        said.append(f"Not read: {', '.join(others[:_FEW])}{', …' * (len(others) > _FEW)}.")
    return said


def _doubted(name: str) -> str:
    close = guess(name, [*ChatBody.model_fields])
    return f"{name[:_LETTERS]} (did you mean {close}?)" if close and close not in name else name[:_LETTERS]


def content_of(result: Result) -> str:
    return result.answer or NO_ANSWER


def finish_of(result: Result) -> str:
    return "length" if result.stopped_by else "stop"


def citations(result: Result, corpus: str | None) -> list[dict[str, Any]]:
    """The passages the answer rests on, as citations of the whole answer."""
    whole = len(content_of(result))
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": 0,
                "end_index": whole,
                "title": passage.title,
                "url": f"hoptree:{quote(corpus or '', safe='')}/{quote(passage.id, safe='', errors='replace')}",
            },
        }
        for passage in result.evidence
    ]


def usage_of(result: Result) -> dict[str, Any]:
    usage = result.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
