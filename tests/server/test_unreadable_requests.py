"""A request that cannot be read is told what is wrong with it, and what would be right."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import QUESTION, Running

from hoptree.server import request_schemas

_ASK = {"question": QUESTION}
_CHAT: dict[str, Any] = {"model": "taikc", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.mark.parametrize(
    ("body", "message", "remedy"),
    [
        (_ASK | {"metod": "oner"}, "There is no field 'metod'.", "Did you mean 'method'?"),
        (
            _ASK | {"zzz": 1},
            "There is no field 'zzz'.",
            "There are: budget, corpus, events, graph, history, method, model, op",
        ),
        (_ASK | {"budget": {"cals": 3}}, "There is no field 'budget.cals'.", "Did you mean 'calls'?"),
        (_ASK | {"budget": 3}, "budget must be an object.", ""),
        (_ASK | {"budget": {"calls": 0}}, "budget.calls must be 1 or more.", ""),
        (_ASK | {"budget": {"calls": "x"}}, "budget.calls must be a whole number.", ""),
        (_ASK | {"budget": {"calls": True}}, "budget.calls must be a whole number.", ""),
        (_ASK | {"budget": {"calls": "5"}}, "budget.calls must be a whole number.", ""),
        (_ASK | {"budget": {"cost": "nan"}}, "budget.cost must be a number.", ""),
        (_ASK | {"budget": {"seconds": True}}, "budget.seconds must be a number.", ""),
        ({}, "question is missing.", ""),
        ({"question": 3}, "question must be text.", ""),
        ({"question": ""}, "question is empty.", ""),
        (_ASK | {"method": "x" * 200}, "method has more than 128 characters.", ""),
        (_ASK | {"options": {"k": [1]}}, "options.k must be true or false, a number, or a short text.", ""),
        (_ASK | {"options": {"k": "x" * 200}}, "options.k must be true or false, a number, or a short text.", ""),
        (_ASK | {"stream": "maybe"}, "stream must be true or false.", ""),
        ([], "The body must be an object.", ""),
    ],
)
def test_what_is_asked_wrongly(server: Running, body: Any, message: str, remedy: str) -> None:
    reply = server.client.post("/v1/ask", json=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["class"], error["message"]) == (422, "BadRequest", message)
    assert error["remedy"].startswith(remedy or "GET /openapi.json")
    assert error["retryable"] is False


def test_true_is_no_number(server: Running) -> None:
    search = {"query": "film", "corpus": "films", "k": True}
    chat = {"model": "taikc", "messages": [{"role": "user", "content": "x"}], "n": True}
    for path, body, message in (
        ("/v1/search", search, "k must be a whole number."),
        ("/v1/chat/completions", chat, "n must be a whole number."),
        ("/v1/ask", _ASK | {"options": {"k": True}}, "taikc: k=True is not possible."),
    ):
        reply = server.client.post(path, json=body)
        assert reply.status_code in (400, 422) and reply.json()["error"]["message"].startswith(message), reply.text


def test_half_a_character_in_the_name_of_a_field(server: Running) -> None:
    for path, body in (
        ("/v1/ask", rb'{"question": "x", "\ud800": 1}'),
        ("/v1/ask", rb'{"question": "x", "budget": {"\ud800": 1}}'),
        ("/v1/chat/completions", rb'{"model": "taikc", "messages": [{"role": "user", "content": "x"}], "\ud800": 1}'),
    ):
        reply = server.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert reply.status_code == 422, reply.text


def test_a_number_of_thousands_of_digits_is_not_repeated(server: Running) -> None:
    reply = server.ask(options={"k": 10**4000})
    assert reply.status_code == 400 and len(reply.content) < 300


def test_two_mistakes_are_told_at_once(server: Running) -> None:
    error = server.client.post("/v1/ask", json={"stream": 7, "question": 3}).json()["error"]
    assert error["message"] == "question must be text; stream must be true or false."


@pytest.mark.parametrize("content", [b"{", b'{"question": "Who?",}', b"", b'{"question": "\xff"}'])
def test_what_is_no_json(server: Running, content: bytes) -> None:
    reply = server.client.post("/v1/ask", content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith("The body is not valid JSON")


@pytest.mark.parametrize(
    ("changes", "status", "message", "param"),
    [
        (
            {"hoptree": {"optons": {}}},
            422,
            "There is no field 'hoptree.optons'. Did you mean 'options'?",
            "hoptree.optons",
        ),
        ({"messages": []}, 422, "messages is empty. ", "messages"),
        ({"messages": [{"role": "usr"}]}, 422, "messages.0.role must be 'system', 'developer', ", "messages.0.role"),
        (
            {"messages": [{"role": "user", "content": 3}]},
            422,
            "messages.0.content must be text, or ",
            "messages.0.content",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages: Only text", "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "messages: The last message is not", "messages"),
        ({"functions": [1]}, 400, "functions: ", "functions"),
        ({"tools": [1]}, 400, "tools: ", "tools"),
        ({"n": 2}, 400, "n: A question has one answer.", "n"),
        ({"n": 10**30}, 400, "n: A question has one answer.", "n"),
        ({"model": "taikk"}, 404, "There is no model 'taikk'. Did you mean 'taikc'?", "model"),
        ({"model": "taikc@slw"}, 404, "There is no model 'slw'. Did you mean 'slow'?", "model"),
    ],
)
def test_what_openai_s_clients_ask_wrongly(
    server: Running, changes: dict[str, Any], status: int, message: str, param: str
) -> None:
    reply = server.client.post("/v1/chat/completions", json=_CHAT | changes)
    error = reply.json()["error"]
    assert reply.status_code == status
    assert error["message"].startswith(message)
    assert error["message"].count(". ") >= 1 or error["message"].endswith("?"), "there is no remedy"
    assert (error["param"], error["retryable"]) == (param, False)


def test_what_had_no_effect_is_told(server: Running) -> None:
    """OpenAI's clients send more and more fields: they are no reason to refuse, and none to be silent."""
    fields = {"hoptre": {}, "tool_choice": "required", "user": "ada", "temperature": 1, "store": None}
    extension = server.client.post("/v1/chat/completions", json=_CHAT | fields).json()["choices"][0]["message"][
        "hoptree"
    ]
    assert "Methods decide for themselves about temperature." in extension["warnings"]
    assert "Not read: hoptre (did you mean hoptree?), tool_choice, user." in extension["warnings"]


def test_of_thousands_of_fields_that_are_not_read_few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def guess(name: str, known: Collection[str]) -> str:
        compared.append(name)
        return ""

    monkeypatch.setattr(request_schemas, "guess", guess)
    more = {f"field{number}": 1 for number in range(5_000)}
    warnings = request_schemas.ignored_fields(request_schemas.ChatBody.model_validate(_CHAT | more))
    assert warnings == [f"Not read: {', '.join(list(more)[:10])}, …."] and len(compared) == 10


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/runs/x/questions?limit=0", "limit must be 1 or more."),
        ("/v1/runs/x/questions?limit=abc", "limit must be a whole number."),
        ("/v1/runs/x/questions?verdict=odd", "verdict must be 'right', 'wrong' or 'failed'."),
        ("/v1/compare?a=1", "b is missing."),
    ],
)
def test_addresses(server: Running, path: str, message: str) -> None:
    reply = server.client.get(path)
    assert (reply.status_code, reply.json()["error"]["message"]) == (422, message)


def test_only_what_may_pass_can_be_tried_again(server: Running) -> None:
    refused = server.ask(method="nosuch").json()["error"]
    assert refused["retryable"] is False
    server.state.questions.running.stopping = True
    try:
        assert "retryable" not in server.ask().json()["error"]
    finally:
        server.state.questions.running.stopping = False
