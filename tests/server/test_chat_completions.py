"""OpenAI's chat completions, by hand and with the official client."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import QUESTION, Running


def _chat(server: Running, **fields: Any) -> Any:
    asked = {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}]}
    return server.client.post("/v1/chat/completions", json=asked | fields)


def test_a_completion_has_answer_steps_citations_and_tree(server: Running) -> None:
    told = _chat(server).json()
    assert told["object"] == "chat.completion"
    choice = told["choices"][0]
    message = choice["message"]
    assert message["content"] == "1948"
    assert choice["finish_reason"] == "stop"
    assert "Planned 2 sub-questions" in message["reasoning_content"]
    cited = [note["url_citation"] for note in message["annotations"]]
    assert {"start_index": 0, "end_index": 4, "title": "Bille August", "url": "hoptree:films/bille"} in cited
    assert len(message["hoptree"]["tree"]) == 2
    usage = told["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_chunks_end_with_the_tree_the_usage_and_done(server: Running) -> None:
    reply = _chat(server, stream=True, stream_options={"include_usage": True})
    blocks = [block.removeprefix("data: ") for block in reply.text.split("\n\n") if block]
    assert blocks[-1] == "[DONE]"
    chunks = [json.loads(block) for block in blocks[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "1948"
    assert "Planned 2 sub-questions\n" in [delta.get("reasoning_content") for delta in deltas]
    assert len(deltas[-1]["hoptree"]["tree"]) == 2
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_the_last_message_is_the_question_and_the_reply_says_what_was_not_read(server: Running) -> None:
    messages = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    told = _chat(server, messages=messages, temperature=0.7).json()["choices"][0]["message"]["hoptree"]
    assert told["question"] == QUESTION
    assert "Only the last message was read: every question stands for itself." in told["warnings"]
    assert "Methods decide for themselves about temperature." in told["warnings"]


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"tools": [{"type": "function"}]},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "assistant", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "user", "content": ""}]},
    ],
)
def test_what_it_cannot_do_is_refused_as_openai_says_it(server: Running, fields: dict[str, Any]) -> None:
    reply = _chat(server, **fields)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]


def test_the_model_names_method_and_model(server: Running) -> None:
    told = _chat(server, model="direct@slow").json()
    assert told["model"] == "direct@slow"
    assert told["choices"][0]["message"]["hoptree"]["model"] == "slow"
    assert _chat(server, model="gpt-4o").status_code == 404
    assert _chat(server, model="taikc@gpt-4o").status_code == 404


def test_the_extension_chooses_corpus_options_and_budget(server: Running) -> None:
    said = {"corpus": "films", "options": {"k": 1}, "budget": {"calls": 1}}
    choice = _chat(server, hoptree=said).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["hoptree"]["stopped_by"] == "calls"
    assert choice["message"]["content"] == "No answer was found."
    assert _chat(server, hoptree={"base_url": "http://x"}).status_code == 422


def test_the_official_client(server: Running) -> None:
    openai: Any = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    assert "taikc" in [model.id for model in client.models.list()]
    messages = [{"role": "user", "content": QUESTION}]
    told = client.chat.completions.create(model="taikc", messages=messages)
    assert told.choices[0].message.content == "1948"
    assert told.choices[0].message.annotations[0].url_citation.url.startswith("hoptree:films/")
    assert told.choices[0].message.model_extra["hoptree"]["answer"] == "1948"
    said = ""
    usage: Any = None
    for chunk in client.chat.completions.create(
        model="taikc", messages=messages, stream=True, stream_options={"include_usage": True}
    ):
        said += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usage = chunk.usage or usage
    assert said == "1948"
    assert usage.total_tokens == told.usage.total_tokens
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4o", messages=messages)
    with pytest.raises(openai.BadRequestError, match="no corpus"):
        client.chat.completions.create(model="taikc", messages=messages, extra_body={"hoptree": {"corpus": "none"}})
