"""OpenAI's chat completions, by hand and with the official client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

pytest.importorskip("fastapi")

from tests.server.running import QUESTION, Running, running, script, settings

from hoptree.core.values import Passage
from hoptree.models.scripted import Rule
from hoptree.server.openai_routes import _Chat

SENTENCE = "The director of Night Train to Lisbon was born in 1948 [1]: “Bille August was born in 1948.” [2]"
TURNS = [
    {"role": "user", "content": "Which film did Bille August direct?"},
    {"role": "assistant", "content": "Night Train to Lisbon"},
    {"role": "user", "content": "And when was its director born?"},
]


_CITED_TEXTS = {"type": "array", "items": {"type": "string"}}
_CITED_PAGES = {"type": "array", "items": {"type": "object", "properties": {"page": {"type": "integer"}}}}


def _chat(server: Running, **fields: Any) -> Any:
    asked = {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}]}
    return server.client.post("/v1/chat/completions", json=asked | fields)


def test_a_completion_has_answer_steps_citations_and_tree(server: Running) -> None:
    completion = _chat(server).json()
    assert completion["object"] == "chat.completion"
    choice = completion["choices"][0]
    message = choice["message"]
    assert message["content"] == SENTENCE and message["hoptree"]["answer"] == "1948"
    assert choice["finish_reason"] == "stop"
    assert "Planned 2 sub-questions" in message["reasoning_content"]
    place, url = SENTENCE.index("[2]"), f"{server.url}/v1/corpora/films/passages/bille"
    cited = [note["url_citation"] for note in message["annotations"]]
    assert {
        "start_index": place,
        "end_index": place + 3,
        "title": "Bille August",
        "url": url,
    } in cited
    assert len(message["hoptree"]["tree"]) == 2
    usage = completion["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_chunks_end_with_the_tree_the_usage_and_done(server: Running) -> None:
    reply = _chat(server, stream=True, stream_options={"include_usage": True})
    blocks = [block.removeprefix("data: ") for block in reply.text.split("\n\n") if block]
    assert blocks[-1] == "[DONE]"
    chunks = [json.loads(block) for block in blocks[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == SENTENCE
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
    extension = _chat(server, messages=messages, temperature=0.7).json()["choices"][0]["message"]["hoptree"]
    assert extension["question"] == QUESTION
    assert "Methods have prompts of their own: the instructions were not read." in extension["warnings"]
    assert "Methods decide for themselves about temperature." in extension["warnings"]


def test_a_picture_earlier_in_the_conversation_does_not_end_it(server: Running) -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    messages = [picture, {"role": "assistant", "content": "A boat."}, {"role": "user", "content": QUESTION}]
    extension = _chat(server, messages=messages).json()["choices"][0]["message"]["hoptree"]
    assert extension["answer"] == "1948" and any(
        "Only text can be read" in warning for warning in extension["warnings"]
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"tools": [{"type": "function"}]},
        {"logprobs": True},
        {"response_format": {"type": "grammar"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"mood": {}}}}}},
        {"response_format": {"type": "json_schema", "schema": {"properties": {"answer": {"type": "number"}}}}},
        {"response_format": {"type": "json_schema", "schema": {"properties": {"probability": {"type": "number"}}}}},
        {
            "response_format": {
                "type": "json_schema",
                "schema": {"properties": {"answer": {"anyOf": [{"type": "null"}]}}},
            }
        },
        {"response_format": {"type": "json_schema", "schema": {"properties": {"citations": _CITED_TEXTS}}}},
        {"response_format": {"type": "json_schema", "schema": {"properties": {"citations": _CITED_PAGES}}}},
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
    completion = _chat(server, model="direct@slow").json()
    assert completion["model"] == "direct@slow"
    assert completion["choices"][0]["message"]["hoptree"]["model"] == "slow"
    assert _chat(server, model="gpt-4o").status_code == 404
    assert _chat(server, model="taikc@gpt-4o").status_code == 404


def test_the_extension_chooses_corpus_options_and_budget(server: Running) -> None:
    extension = {"corpus": "films", "options": {"k": 1}, "budget": {"calls": 1}}
    choice = _chat(server, hoptree=extension).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["hoptree"]["stopped_by"] == "calls"
    assert choice["message"]["content"].startswith("No answer was found")
    assert _chat(server, hoptree={"base_url": "http://x"}).status_code == 422


def test_the_official_client(server: Running) -> None:
    openai: Any = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    assert "taikc" in [model.id for model in client.models.list()]
    messages = [{"role": "user", "content": QUESTION}]
    completion = client.chat.completions.create(model="taikc", messages=messages)
    assert completion.choices[0].message.content == SENTENCE
    assert (
        completion.choices[0]
        .message.annotations[0]
        .url_citation.url.startswith(f"{server.url}/v1/corpora/films/passages/")
    )
    assert completion.choices[0].message.model_extra["hoptree"]["answer"] == "1948"
    text = ""
    usage: Any = None
    for chunk in client.chat.completions.create(
        model="taikc", messages=messages, stream=True, stream_options={"include_usage": True}
    ):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usage = chunk.usage or usage
    assert text == SENTENCE
    assert usage.total_tokens == completion.usage.total_tokens
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4o", messages=messages)
    with pytest.raises(openai.BadRequestError, match="no corpus"):
        client.chat.completions.create(model="taikc", messages=messages, extra_body={"hoptree": {"corpus": "none"}})


def test_a_program_gets_the_json_it_asks_for(server: Running) -> None:
    schema: Any = {"properties": {"answer": {"type": "string"}, "citations": {"type": "array"}}}
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}
    content = _chat(server, response_format=form).json()["choices"][0]["message"]["content"]
    parsed = json.loads(content)
    assert parsed["answer"] == "1948" and {"id": "bille", "title": "Bille August"} in parsed["citations"]
    schema["properties"]["citations"] = {"items": {"properties": {"title": {}}, "additionalProperties": False}}
    reply = json.loads(_chat(server, response_format=form).json()["choices"][0]["message"]["content"])
    assert {"title": "Bille August"} in reply["citations"]
    everything = json.loads(
        _chat(server, response_format={"type": "json_object"}).json()["choices"][0]["message"]["content"]
    )
    assert everything["sentence"] == SENTENCE and everything["level"] == "well supported"


def test_json_cites_the_same_passages_as_text(server: Running) -> None:
    asked = {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}]}
    text, as_json = (
        server.client.post("/v1/chat/completions", json=asked | form).json()["choices"][0]["message"]
        for form in ({}, {"response_format": {"type": "json_object"}})
    )
    titles = ["Bille August", "Night Train to Lisbon"]
    for message in (text, as_json):
        assert sorted(note["url_citation"]["title"] for note in message["annotations"]) == titles
    assert sorted(passage["title"] for passage in json.loads(as_json["content"])["citations"]) == titles


def test_the_official_client_reads_a_class_of_its_own(server: Running) -> None:
    openai: Any = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)

    class Cited(BaseModel):
        id: str
        title: str | None

    class Reply(BaseModel):
        answer: str | None
        probability: float | None
        citations: list[Cited]

    asked = {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}]}
    parsed = client.chat.completions.parse(**asked, response_format=Reply).choices[0].message.parsed
    assert parsed.answer == "1948" and Cited(id="bille", title="Bille August") in parsed.citations

    class Wrong(BaseModel):
        citations: list[str]

    with pytest.raises(openai.BadRequestError, match="objects with id and title"):
        client.chat.completions.parse(**asked, response_format=Wrong)


def test_a_number_in_a_quote_is_no_citation() -> None:
    film, other = Passage("a", "A", "x [2].", 1.0), Passage("b", "B", "y", 0.5)
    sentence = "argv[1] is A [1]: “Foo[2] is argv[0][1].” [2]"
    result: Any = SimpleNamespace(sentence=sentence, answer="A", evidence=(film, other), consulted=(film,))
    prepared: Any = None
    places = _Chat("c", 0, "m", prepared, [], None, "u/").places(result)
    assert [(place["title"], place["start_index"]) for place in places] == [
        ("A", sentence.index(" [1]:") + 1),
        ("B", len(sentence) - 3),
    ]


def test_the_tree_is_the_end_of_the_reasoning(server: Running) -> None:
    thought = _chat(server).json()["choices"][0]["message"]["reasoning_content"].splitlines()
    assert "1. Who directed Night Train to Lisbon? → Bille August (from documents)" in thought
    chunks = _chat(server, stream=True).text.split("\n\n")
    streamed = [json.loads(chunk[6:])["choices"][0]["delta"] for chunk in chunks if chunk.startswith("data: {")]
    lines = "".join(delta.get("reasoning_content", "") for delta in streamed).splitlines()
    assert lines[-2:] == thought[-2:]


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose model puts the director's film into a question that only says "its"."""
    rewriting = script(
        before=[Rule(QUESTION, step="rewrite", contains="Next question: And when was its director born?")]
    )
    repeating = script(before=[Rule("Exim?", step="rewrite"), Rule("unknown", contains="Exim")])
    models = {"demo": rewriting, "repeating": repeating}
    with running(settings(Path(tmp_path_factory.mktemp("talking")), models=models)) as server:
        yield server


@pytest.mark.parametrize(
    ("before", "sentence"),
    [("Wo wurde Bille August geboren?", "Es wurde keine Antwort gefunden."), ("Where was he born?", "No answer was")],
)
def test_no_answer_is_told_in_the_language_of_the_conversation(talking: Running, before: str, sentence: str) -> None:
    turns = [{"role": "user", "content": before}, {"role": "assistant", "content": "Bille August"}]
    messages = [*turns, {"role": "user", "content": "Exim?"}]
    message = _chat(talking, model="oner@repeating", messages=messages).json()["choices"][0]["message"]
    assert message["hoptree"]["abstained"] and message["content"].startswith(sentence)


def test_a_question_is_read_with_the_conversation_before_it(talking: Running) -> None:
    message = _chat(talking, messages=TURNS).json()["choices"][0]["message"]
    assert message["hoptree"]["question"] == QUESTION and message["hoptree"]["asked"] == TURNS[-1]["content"]
    assert message["content"] == SENTENCE and f"Read as: {QUESTION}" in message["reasoning_content"]
    history = [{"question": TURNS[0]["content"], "answer": TURNS[1]["content"]}]
    asked = {"question": TURNS[2]["content"], "history": history}
    assert talking.client.post("/v1/ask", json=asked).json()["question"] == QUESTION
    alone = _chat(talking, messages=[{"role": "user", "content": QUESTION}]).json()["choices"][0]["message"]["hoptree"]
    assert "asked" not in alone and alone["usage"]["llm_calls"] == message["hoptree"]["usage"]["llm_calls"] - 1


def test_responses_have_reasoning_and_message(talking: Running) -> None:
    asked = {"model": "taikc", "input": TURNS, "instructions": "Be brief."}
    response = talking.client.post("/v1/responses", json=asked).json()
    reasoning, message = response["output"]
    assert (response["object"], response["status"], reasoning["type"]) == ("response", "completed", "reasoning")
    assert "Who directed Night Train to Lisbon?" in reasoning["summary"][0]["text"]
    text = message["content"][0]
    assert text["text"] == SENTENCE and text["annotations"][1]["title"] == "Bille August"
    assert "Methods have prompts of their own: the instructions were not read." in response["hoptree"]["warnings"]
    tools, form = [{"type": "web_search"}], {"format": {"type": "x"}}
    for wrong in ({"previous_response_id": "resp_1"}, {"tools": tools}, {"text": form}):
        reply = talking.client.post("/v1/responses", json=asked | wrong)
        assert reply.status_code == 400 and reply.json()["error"]["type"] == "invalid_request_error"


def test_the_official_client_reads_responses(talking: Running) -> None:
    openai: Any = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{talking.url}/v1", api_key="none", max_retries=0)
    response = client.responses.create(model="taikc", input=TURNS)
    assert response.output_text == SENTENCE and response.usage.total_tokens > 0
    form = {"type": "json_schema", "name": "reply", "schema": {"properties": {"answer": {"type": "string"}}}}
    response = client.responses.create(model="taikc", input=QUESTION, text={"format": form})
    assert json.loads(response.output_text) == {"answer": "1948"}
    text, thought, last = "", "", None
    for event in client.responses.create(model="taikc", input=QUESTION, stream=True):
        text += event.delta if event.type == "response.output_text.delta" else ""
        thought += event.delta if event.type == "response.reasoning_summary_text.delta" else ""
        last = event
    assert text == SENTENCE and "→ Bille August" in thought
    assert last is not None and last.type == "response.completed" and last.response.output_text == SENTENCE
    first = [{"role": "user", "content": QUESTION}]
    replied = client.responses.create(model="taikc", input=first)
    response = client.responses.create(model="taikc", input=[*first, *replied.output, TURNS[2]])
    assert response.output_text == SENTENCE and response.hoptree["asked"] == TURNS[2]["content"]
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="gpt-4o", input=QUESTION)


def test_a_citation_opens(server: Running) -> None:
    message = _chat(server).json()["choices"][0]["message"]
    url = message["annotations"][1]["url_citation"]["url"]
    passage = server.client.get(url).json()
    assert (passage["id"], passage["text"]) == ("bille", "Bille August was born in 1948.")
    page = server.client.get(url, headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html") and "<p>Bille August was born in 1948.</p>" in page.text
    assert server.client.get(url.replace("bille", "nobody")).status_code == 404
    assert server.client.get(url.replace("films", "nothing")).status_code in (400, 404)
