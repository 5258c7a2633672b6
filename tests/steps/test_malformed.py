"""Nothing that a model, an endpoint, a file or a trace may hold ends in anything but an error of ours."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.steps.broken_texts import LONG, READERS
from tests.thorough import THOROUGH

from hoptree.core.errors import CorpusError, ModelError, TraceError
from hoptree.core.values import Passage
from hoptree.corpus.document import Problems
from hoptree.corpus.json_rows import read_json_lines
from hoptree.corpus.read import read_passages
from hoptree.engine.events import Event
from hoptree.engine.result import read_result
from hoptree.engine.trace import read_traces
from hoptree.models.openai import OpenAIModel
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages
from hoptree.text.loose_json import MAX_REPLY_CHARS

COUNT = 10_000 if THOROUGH else 3_000
FILES = COUNT // 20
"""How many of them are written to files too, which takes its time."""

PLAN = (
    '{"query1": {"question": "Who directed the film Whiplash?", "children": {"query2": {"question": "When was #query1 '
    'born?"}}}, "query3": {"question": "Who directed Arrival?", "children": [{"id": 4, "question": "When was #query3 '
    'born?"}]}}'
)
BODY = json.dumps(
    {
        "choices": [
            {
                "message": {"role": "assistant", "content": "<think>Hm.</think>Paris", "reasoning_content": "so"},
                "finish_reason": "stop",
                "logprobs": {
                    "content": [{"token": "Paris", "logprob": -0.1, "top_logprobs": [{"token": "x", "logprob": -3}]}]
                },
            }
        ],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 3,
            "completion_tokens_details": {"reasoning_tokens": 1},
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }
)
ROWS = '{"id": "a", "title": "T", "text": "Some text."}\n{"id": 2, "title": null, "text": "More text."}\n'
EVENTS = "\n".join(
    json.dumps(event)
    for event in (
        {"event": "start", "run": "r", "t": 0.0, "question": "Who?", "method": "taikc", "model": "m", "options": {}},
        {"event": "plan", "run": "r", "t": 0.1, "nodes": [{"id": 1, "question": "a", "parent": None, "refs": []}]},
        {"event": "node", "run": "r", "t": 0.2, "id": 1, "answer": "x", "state": "answered", "evidence": ["p"]},
        {"event": "final", "run": "r", "t": 0.3, "answer": "x", "stopped_by": ""},
    )
)
DEEP = ("read_json and make_plan", "read_knowing", "read_numbers")
"""Readers that reach new lines even with the last thousands; the others have reached all of theirs after 156."""

SEEDS = (
    PLAN,
    f"```json\n{PLAN}\n```",
    f"<think>Let me see: {{not this}}</think>\nHere it is:\n{PLAN}\nI hope this helps!",
    "The answer is **Paris**, since it is stated in the second document.",
    "I'm not sure, so RAG_REQUIRED.",
    "The documents do not mention the director of the film.",
    '["Paris", "London", 3]',
    "1. Paris\n2. London",
)
TOKENS = """
👩‍👩‍👧 e\u0301 ``` ```json <think> </think> <html><body> </s> <|im_start|> // /* ** {} []
NaN Infinity -Infinity 1e999 -0 null None unknown \\u \\ud800 \\u0000
#query #query99 query2 children question id RAG_REQUIRED
"""
PIECES = (
    *"{}[]\",:\\\n\t\r\0\x07\x1b\x7f\x85\u2028\ufeff\ud800\udfff#`<>“’😀\u202e'",
    *TOKENS.split(),
    *("answer is", "not found", "9" * 5000, "#query" + "1" * 4400),
)


def broken(text: str, rng: random.Random) -> str:
    """The text with one to four things done to it."""
    for _ in range(rng.randint(1, 4)):
        here, there = sorted(rng.randint(0, len(text)) for _ in range(2))
        kind = rng.randrange(7)
        if kind == 0:
            text = text[:here]
        elif kind == 1:
            text = text[:there] + text[here:there] + text[there:]
        elif kind == 2:
            text = text[:here] + text[there:]
        elif kind == 3:
            text = text.replace('"', rng.choice(["'", "“", "", '""', "`"]), rng.randint(1, 9))
        elif kind == 4:
            text = text[:here] + rng.choice(PIECES) + text[here:]
        elif kind == 5:
            text = text[:here] + rng.choice(PIECES) + text[there:]
        else:
            text = text[:here] + chr(rng.choice((rng.randrange(32), rng.randrange(0x110000)))) + text[here:]
        text = text[:20_000]
    return text


EXTREMES = (
    "[" * (MAX_REPLY_CHARS + 1_000),
    "{" * (MAX_REPLY_CHARS + 1_000),
    '{"a":' * 5000 + "1" + "}" * 5000,
    "[" * 5000 + "]" * 5000,
    '{"children":[' * 400 + '"Who?"' + "]}" * 400,
    '{"query1": {"question": ' * 1000,
    '"' * 12_000,
    "\\" * 12_000,
    '{"id": ' + "9" * 12_000 + "}",
    '{"a": 1e999, "b": -Infinity, "c": NaN}',
    "\ufeff" + PLAN,
    "\ud800" * 1000,
    "<think>" * 2_000,
    "</think>" * 2_000,
    "```" * 4_000,
    "\n" * 12_000,
    "\0" * 12_000,
    "<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>",
)
"""More than a stack, a number or a reader that takes 10,000 characters holds; two, more than any reader takes."""


@cache
def malformed(*seeds: str) -> tuple[str, ...]:
    rng = random.Random(20240229)
    texts: dict[str, None] = {}
    while len(texts) < COUNT:
        texts[broken(rng.choice(seeds), rng)] = None
    return tuple(texts)


def check(read: Callable[[str], object], texts: tuple[str, ...]) -> None:
    """Read all; tell the first text that is not survived, shortened."""
    for text in texts:
        try:
            read(text)
        except Exception as error:
            error.add_note(f"reading {text[:500]!r} ({len(text)} characters)")
            raise


@pytest.mark.parametrize("reader", READERS)
def test_no_reply_is_too_broken(reader: str) -> None:
    check(READERS[reader], malformed(*SEEDS)[: COUNT if reader in DEEP else COUNT // 5])


@pytest.mark.parametrize("reader", READERS)
def test_no_reply_is_too_extreme(reader: str) -> None:
    check(READERS[reader], EXTREMES)


def test_a_broken_body_of_an_endpoint_is_a_model_error() -> None:
    model = OpenAIModel("m", base_url="http://localhost:1/v1")

    def read(text: str) -> None:
        try:
            reply = model._read(text.encode("utf-8", "surrogatepass"))
        except ModelError:
            return
        assert reply.choices
        json.dumps(reply.text)

    check(read, malformed(BODY))
    check(read, EXTREMES)


@pytest.mark.parametrize(
    "value", ["Infinity", "-Infinity", "NaN", "1e999", "1" + "0" * 400, '"many"', "[]", "{}", "-5"]
)
@pytest.mark.parametrize("field", ['"prompt_tokens": 12', '"completion_tokens": 3', '"logprob": -0.1', '"logprob": -3'])
def test_a_number_of_an_endpoint_that_is_none_is_a_model_error(field: str, value: str) -> None:
    model = OpenAIModel("m", base_url="http://localhost:1/v1")
    body = BODY.replace(field, f"{field.partition(':')[0]}: {value}").replace('"reasoning_tokens": 1', "")
    assert value in body
    try:
        usage = model._read(body.encode()).usage
    except ModelError:
        return
    assert isinstance(usage.prompt, int) and isinstance(usage.completion, int)


def test_broken_bytes_of_an_endpoint_are_a_model_error() -> None:
    model = OpenAIModel("m", base_url="http://localhost:1/v1")
    for body in (b"", b"\xff\xfe\x00", b"\x80abc", BODY.encode()[:50], b"\0" * 1000, b"<html>"):
        with pytest.raises(ModelError):
            model._read(body)


def read_corpus(path: Path) -> list[Passage]:
    try:
        return list(read_passages(path))
    except CorpusError:
        return []


def test_a_broken_passage_is_a_corpus_error(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"

    def read(text: str) -> None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        for passage in read_corpus(path):
            assert all(isinstance(part, str) for part in (passage.id, passage.title, passage.text))

    check(read, malformed(ROWS)[:FILES])
    check(read, EXTREMES)


def test_a_broken_line_is_a_corpus_error() -> None:
    def read(text: str) -> None:
        try:
            stream: Any = io.BufferedReader(io.BytesIO(text.encode("utf-8", "surrogatepass")))
            list(read_json_lines(stream, "corpus.jsonl", Problems(limit=0)))
        except CorpusError:
            return

    check(read, malformed(ROWS))


@pytest.mark.parametrize("name", ["notes.md", "notes.txt"])
def test_any_text_is_a_document(name: str, tmp_path: Path) -> None:
    path = tmp_path / name

    def read(text: str) -> None:
        path.write_text(text, encoding="utf-8", errors="replace")
        list(read_passages(path))

    check(read, malformed(f"# Title\n\nSome *text*.\n\n## More ##\n{PLAN}\n")[:FILES])
    check(read, EXTREMES)


def test_a_damaged_archive_is_a_corpus_error(tmp_path: Path) -> None:
    packed = gzip.compress(ROWS.encode() * 50)
    path = tmp_path / "corpus.jsonl.gz"
    rng = random.Random(7)
    failed = 0
    for _ in range(300):
        damaged = bytearray(packed)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged[: rng.randint(1, len(damaged))]))
        failed += not read_corpus(path)
    assert failed > 100


def trace_file(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def test_a_broken_trace_is_a_trace_error(tmp_path: Path) -> None:
    def read(text: str) -> None:
        try:
            runs = list(read_traces(trace_file(tmp_path / "trace.jsonl", text)))
        except TraceError:
            return
        assert all(isinstance(event, Event) for run in runs for event in run)

    check(read, malformed(EVENTS)[:FILES])
    check(read, EXTREMES)


def test_a_trace_whose_events_lack_their_fields_is_a_trace_error(tmp_path: Path) -> None:
    def read(text: str) -> None:
        try:
            for events in read_traces(trace_file(tmp_path / "trace.jsonl", text)):
                read_result(events).as_dict()
        except TraceError:
            return

    check(read, malformed(EVENTS)[:FILES])
    kinds = ("start", "plan", "node", "retrieve", "llm", "chain", "warning", "final")
    check(read, tuple(json.dumps({"event": kind, "run": "r", "t": 0.1}) for kind in kinds))
    check(read, tuple(json.dumps({"event": kind, "run": "r"}) for kind in kinds))


# Searching with whatever a model wrote


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> BM25:
    folder = tmp_path_factory.mktemp("index") / "bm25"
    index_passages([Passage("a", "Whiplash", "Whiplash was directed by Damien Chazelle.")], folder)
    return BM25(Index(folder))


def test_any_reply_can_be_searched_for(index: BM25) -> None:
    def search(text: str) -> Any:
        return index.search_now(text, 3)

    check(search, malformed(*SEEDS)[: COUNT // 10])
    check(search, tuple(text[:12_000] for text in EXTREMES))
    check(search, tuple(LONG.values()))
