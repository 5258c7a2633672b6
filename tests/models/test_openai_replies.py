"""What counts as a reply of an endpoint, and what is an error and no answer."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, Response, said

from hoptree.core.errors import EndpointError, ModelError, UnusableReply
from hoptree.core.http_body import parse_json
from hoptree.models.model import Message, Reply, Request, TokenUsage, read_usage
from hoptree.models.openai import OpenAIModel


def reply_to(response: Response, profile: Callable[..., None] | None = None) -> Reply:
    async def ask(url: str) -> Reply:
        model = OpenAIModel("test", base_url=url)
        sys.setprofile(profile)
        try:
            return await model.generate(Request((Message("user", "Who?"),)), step="test")
        finally:
            sys.setprofile(None)
            await model.aclose()

    with Endpoint() as endpoint:
        endpoint.on("", response)
        return asyncio.run(ask(endpoint.url))


def completion(*choices: Any) -> Response:
    return Response(json.dumps({"object": "chat.completion", "choices": choices}).encode())


PAGE = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head></html>"


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (completion({"message": {"content": PAGE}}), "a web page"),
        (completion({"message": {"content": "  <HTML lang=en><body>Sign in</body>"}}), "a web page"),
        (completion({"message": {"content": [{"type": "text", "text": PAGE}]}}), "a web page"),
        (completion({"message": {"content": ""}}), "an empty message"),
        (completion({"message": {"content": None}, "finish_reason": "content_filter"}), "an empty message"),
        (completion({"message": {"content": None}, "finish_reason": "tool_calls"}), "an empty message"),
        (completion({"message": {"content": {"error": "overloaded"}}}), "JSON of another kind"),
        (completion({"message": {"content": 42}}), "JSON of another kind"),
        (completion({"message": {"content": True}}), "JSON of another kind"),
        (completion({"message": {"content": [{"type": "text", "text": {"a": 1}}]}}), "JSON of another kind"),
        (completion({"message": "Ada"}), "JSON of another kind"),
        (completion({"message": None}), "JSON of another kind"),
        (completion({"finish_reason": "stop"}), "JSON of another kind"),
        (completion({"text": "Ada", "finish_reason": "stop"}), "JSON of another kind"),
        (completion({}), "JSON of another kind"),
        (completion("Ada"), "JSON of another kind"),
        (completion(), "JSON of another kind"),
        (Response(b'"Ada"'), "JSON of another kind"),
        (Response(b'{"object": "list", "data": []}'), "JSON of another kind"),
        (Response(b'{"choices": [{"mess'), "half a JSON object"),
        (Response(PAGE.encode()), "a web page"),
        (Response(b""), "nothing"),
    ],
)
def test_what_is_no_completion_is_an_error_that_may_pass(response: Response, words: str) -> None:
    with pytest.raises(UnusableReply, match=f"answered with {words} instead of a chat completion") as failed:
        reply_to(response)
    assert failed.value.retryable and "<" not in str(failed.value)


def test_an_error_with_the_status_of_success_is_told() -> None:
    with pytest.raises(EndpointError, match="model is loading") as failed:
        reply_to(Response(b'{"error": {"message": "model is loading"}}'))
    assert isinstance(failed.value, ModelError)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (said("Ada"), "Ada"),
        (said(""), ""),  # a model may say nothing, and methods know what that means
        (said(None), ""),
        (completion({"message": {"role": "assistant"}, "finish_reason": "length"}), ""),
        (completion({"message": {"content": [{"type": "text", "text": "A"}, {"type": "text", "text": "da"}]}}), "Ada"),
        (completion({"message": {"content": [{"type": "image", "url": "x"}, {"text": "Ada"}]}}), "Ada"),
        (said("<b>Ada</b>"), "<b>Ada</b>"),
        (said('The tag <html> was written by "Tim".'), 'The tag <html> was written by "Tim".'),
    ],
)
def test_what_is_a_completion_is_read(response: Response, text: str) -> None:
    assert reply_to(response).text == text


def test_thought_that_is_no_text_is_left_out() -> None:
    reply = reply_to(completion({"message": {"content": "Ada", "reasoning": {"summary": []}}}))
    assert (reply.text, reply.choices[0].reasoning) == ("Ada", "")


def test_true_is_no_count_of_tokens() -> None:
    details = {
        "prompt_tokens_details": {"cached_tokens": True},
        "completion_tokens_details": {"reasoning_tokens": True},
    }
    assert read_usage({"prompt_tokens": True, "completion_tokens": True, **details}) == TokenUsage()
    assert read_usage({"prompt_tokens": 7, "completion_tokens": 5}) == TokenUsage(7, 0, 5, 0)


def test_counts_of_tokens_give_no_key_more_than_it_has() -> None:
    """Less than nothing would be added to a budget, and more cached than read would be a price below nothing."""
    assert read_usage({"prompt_tokens": -7, "completion_tokens": -5}) == TokenUsage()
    details = {"prompt_tokens_details": {"cached_tokens": 70}, "completion_tokens_details": {"reasoning_tokens": 50}}
    assert read_usage({"prompt_tokens": 7, "completion_tokens": 5, **details}) == TokenUsage(7, 7, 5, 5)
    assert read_usage({"prompt_tokens": 1e308, "completion_tokens": float("inf")}) == TokenUsage(10**9, 0, 10**9, 0)


def test_a_long_reply_is_read_beside_the_event_loop() -> None:
    """Its tokens are many, and the server answers others meanwhile; steps of other threads are not counted."""
    count = 0

    def step(*_: Any) -> None:
        nonlocal count
        count += 1

    text = "A, " * 40_000
    reply = reply_to(said(text, logprobs=[("A, ", -0.5)] * 40_000), step)
    assert reply.text == text.strip() and len(reply.choices[0].tokens) == 40_000
    assert count < 40_000, count


def test_the_parser_of_long_json_lets_other_threads_run() -> None:
    """It is written in C, and keeps the lock of the interpreter until it calls Python."""
    called = []
    rows = [{"a": place} for place in range(20_000)]
    sys.setprofile(lambda frame, event, argument: called.append(event))
    try:
        parsed = parse_json(json.dumps(rows).encode())
    finally:
        sys.setprofile(None)
    assert parsed == rows and called.count("call") > len(rows)
