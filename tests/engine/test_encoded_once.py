"""What is encoded from parts that come again is the same to the byte as when it is encoded anew."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.files import sealed
from hoptree.core.http_client import _request_head
from hoptree.engine.trace import Retrieved, trace_line
from hoptree.models.model import Message
from hoptree.models.openai import _encode_body

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCORES = st.floats() | st.integers(-5, 5)
METADATA = st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=2)
PASSAGES = st.fixed_dictionaries(
    {"id": TEXTS, "title": TEXTS, "text": TEXTS, "score": SCORES},
    optional={"document": TEXTS, "start": st.integers(), "end": st.integers(), "metadata": METADATA},
)


def expected(event: Retrieved) -> bytes:
    return sealed(json.dumps(event.as_dict(), ensure_ascii=False)) + b"\n"


@given(TEXTS, st.lists(PASSAGES, max_size=3))
def test_a_search_stands_in_a_trace_as_any_event_does(query: str, passages: list[dict[str, Any]]) -> None:
    event = Retrieved(query=query, kind="bm25", k=3, passages=passages)
    assert trace_line(event) == trace_line(event) == expected(event)


def test_passages_with_other_fields_are_written_as_they_are() -> None:
    event = Retrieved(
        query="q", passages=[{"id": "a", "text": "b"}, {"title": "c", "score": 1.0, "id": "d", "text": ""}]
    )
    assert trace_line(event) == expected(event)


def test_half_a_character_is_written_in_ascii() -> None:
    passage = {"id": "a", "title": "", "text": "\ud800", "score": 1.0}
    line = trace_line(Retrieved(query="q", passages=[passage]))
    assert rb'"text": "\ud800"' in line and json.loads(line)["passages"] == [passage]


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_messages_stand_in_a_request_as_in_one_json_object(contents: list[str], model: str) -> None:
    messages = [Message("user", content) for content in contents]
    body: dict[str, Any] = {
        "model": f'{model}"messages":null',
        "messages": None,
        "seed": 0,
        "stop": ['"messages":null'],
    }
    complete = body | {"messages": [{"role": "user", "content": content} for content in contents]}
    assert _encode_body(body, messages) == json.dumps(complete, separators=(",", ":")).encode()


def test_requests_of_one_kind_differ_in_their_length_alone() -> None:
    url, headers = urlsplit("http://user:key@127.0.0.1:80/v1/chat?a=b"), {"X-Step": "read"}
    first, second, bare = (_request_head("POST", url, headers, length, None) for length in (7, 812, 0))
    assert b"Content-Length: 7\r\n\r\n" in first and b"X-Step: read\r\n" in first
    assert second == first.replace(b": 7\r", b": 812\r") and bare == first.replace(b": 7\r", b": 0\r")
    assert b"Content-Length" not in _request_head("GET", url, headers, 0, None)
    other = _request_head("POST", url, {"X-Step": "plan"}, 7, None)
    assert other == first.replace(b"read", b"plan")
