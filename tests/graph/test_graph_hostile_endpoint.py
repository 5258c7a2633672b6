"""Endpoints that mean harm: every look-up ends with a clear error, or with values that harm nobody."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.graph.sparql_server import Answer, Seen, serving, sparql_server
from tests.graph.test_graph_endpoint_bounds import asked, of_labels, rows
from tests.small_indexes import hoptree

from hoptree.core.errors import EndpointError, HoptreeError, UnusableReply
from hoptree.graph import sparql
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph

E = "http://e.org/"
HOSTILE_TEXT = "a\r\nQuestion: b\x1b[2J\u2028\x85c"
HARMLESS_TEXT = "a Question: b [2J c"
QUERY = "SELECT ?p ?v { ?s ?p ?v }"


def results(*bindings: Any, columns: Any = ("p", "v")) -> Answer:
    return 200, {}, json.dumps({"head": {"vars": columns}, "results": {"bindings": bindings}}).encode()


def uri(value: str) -> dict[str, str]:
    return {"type": "uri", "value": value}


def literal(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "literal", "value": value, **more}


PLAIN = {"p": uri(f"{E}p"), "v": literal("x")}
WRONG_SHAPES: dict[str, tuple[Answer, type[HoptreeError], str]] = {
    "columns in a text": (results(PLAIN, columns="pv"), UnusableReply, "something other than SPARQL results"),
    "no columns": (results(PLAIN, columns=None), UnusableReply, "something other"),
    "a number of rows": (
        (200, {}, b'{"head": {"vars": []}, "results": {"bindings": 5}}'),
        UnusableReply,
        "something",
    ),
    "rows in a text": ((200, {}, b'{"head": {"vars": []}, "results": {"bindings": "ab"}}'), UnusableReply, "other"),
    "a row that is a number": (results(5), UnusableReply, "something other"),
    "a row that is nothing": (results(None), UnusableReply, "something other"),
    "a cell that is a text": (results({"p": "x"}), UnusableReply, "something other"),
    "a cell that is a list": (results({"p": ["uri", "x"]}), UnusableReply, "something other"),
    "a value that is a number": (results({"p": uri(f"{E}p"), "v": literal(5)}), UnusableReply, "something other"),
    "a value that is an object": (results({"p": uri(f"{E}p"), "v": literal({})}), UnusableReply, "something other"),
    "a kind that is none": (results({"p": {"value": "x"}}), UnusableReply, "something other"),
    "an answer that is no truth": ((200, {}, b'{"head": {}, "boolean": "yes"}'), UnusableReply, "something other"),
    "null": ((200, {}, b"null"), UnusableReply, "something other"),
    "a number": ((200, {}, b"1e999"), UnusableReply, "something other"),
    "brackets without end": ((200, {}, b"[" * 200_000), UnusableReply, "something else instead of JSON"),
    "a number without end": ((200, {}, b"1" * 200_000), UnusableReply, "something else instead of JSON"),
    "a page": ((200, {"Content-Type": "text/html"}, b"<html>Log in</html>"), UnusableReply, "a web page"),
    "XML": (
        (200, {"Content-Type": "application/sparql-results+xml"}, b"<sparql/>"),
        UnusableReply,
        "a web page",
    ),
    "CSV": ((200, {"Content-Type": "text/csv"}, b"p,v\r\na,b\r\n"), UnusableReply, "something else instead of JSON"),
    "nothing": ((200, {}, b""), UnusableReply, "nothing instead of JSON"),
    "bytes that are no text": ((200, {}, b'{"head": "\xe9"}'), UnusableReply, "instead of JSON"),
    "no archive": ((200, {"Content-Encoding": "gzip"}, b"\x1f\x8b\x08 no"), EndpointError, "broke off"),
}


@pytest.mark.parametrize("what", WRONG_SHAPES)
def test_replies_of_another_shape_are_a_clear_error(what: str) -> None:
    answer, error, words = WRONG_SHAPES[what]
    with sparql_server(lambda query: answer) as seen:
        with pytest.raises(error, match=words) as raised:
            asked(seen, lambda graph: graph.facts(f"{E}a", direction="out"))
        assert "\n" not in str(raised.value) and len(str(raised.value)) < 300
        with pytest.raises(error, match=words):
            asked(seen, lambda graph: graph.query(QUERY))


@pytest.mark.parametrize("dialect", ["rdf", "wikidata"])
def test_rows_without_what_was_asked_for_are_passed_over(dialect: sparql.Dialect) -> None:
    odd = [{}, {"v": literal("x")}, {"p": uri("")}, {"p": literal("p"), "v": literal("v")}, {"x": uri(f"{E}x")}]
    with sparql_server(lambda query: results(*odd)) as seen:
        assert asked(seen, lambda graph: graph.facts(f"{E}a"), dialect).facts == ()
        assert asked(seen, lambda graph: graph.entities("a"), dialect) == ()
        assert asked(seen, lambda graph: graph.entity("Q1"), dialect) is None
        assert asked(seen, lambda graph: graph.properties(), dialect) == ()
        assert asked(seen, lambda graph: graph.stats(), dialect).details["triples"] == ""
        assert len(asked(seen, lambda graph: graph.query(QUERY), dialect).rows) == len(odd)


def test_columns_without_end_are_refused() -> None:
    """Every row is shown with every column: 20,000 columns and 100 rows, of 200 kB, took a minute."""
    answer = results(*[{}] * 1_000, columns=[f"c{number}" for number in range(20_000)])
    with sparql_server(lambda query: answer) as seen, pytest.raises(EndpointError, match="sent 20,000 columns"):
        asked(seen, lambda graph: graph.query(QUERY))


def test_an_answer_to_another_question_is_passed_over() -> None:
    with sparql_server(lambda query: (200, {}, b'{"head": {}, "boolean": true}')) as seen:
        assert asked(seen, lambda graph: graph.facts(f"{E}a")).facts == ()


def moved(answer: Answer, query: str) -> Answer:
    return answer


@pytest.mark.parametrize("to", ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "//localhost:22/"])
def test_redirects_are_not_followed(to: str) -> None:
    with sparql_server(serving("")) as other:
        for place in (to, other.url):
            answer: Answer = 302, {"Location": place}, b""
            elsewhere = pytest.raises(EndpointError, match="sends requests elsewhere")
            with sparql_server(partial(moved, answer)) as seen, elsewhere as raised:
                asked(seen, lambda graph: graph.facts(f"{E}a"))
            assert len(seen.queries) == 1 and "Correct the URL of the graph" in raised.value.remedy
        assert not other.queries


# Values


def test_texts_of_an_endpoint_stay_on_one_line(tmp_path: Path) -> None:
    """A prompt or a terminal would show what follows a line break as something of its own."""

    def answer(query: str) -> Answer:
        if of_labels(query):
            bindings = [{"e": uri(f"{E}{name}"), "name": literal(HOSTILE_TEXT), "how": literal("0")} for name in "apb"]
            return results(*bindings, *({**row, "how": literal(how)} for row in bindings for how in "123"))
        if "?how" in query:
            return results({"e": uri(f"{E}a"), "how": literal("0")})
        return results({"p": uri(f"{E}p"), "v": literal(HOSTILE_TEXT)}, {"p": uri(f"{E}p"), "v": uri(f"{E}b")})

    with sparql_server(answer) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts(f"{E}a", direction="out"))
        (entity,) = asked(seen, lambda graph: graph.entities("a"))
        table = asked(seen, lambda graph: graph.query(QUERY))
        shown = hoptree(tmp_path, "graph", "query", QUERY, "--graph", seen.url)
    assert {text for fact in neighbourhood.facts for text in fact.triple} == {HARMLESS_TEXT} and len(
        neighbourhood.facts
    ) == 2
    assert (entity.label, entity.description) == (HARMLESS_TEXT, HARMLESS_TEXT)
    assert HARMLESS_TEXT in table.rows[0][1].text and table.rows[0][1].value == HOSTILE_TEXT, "programs get it whole"
    assert shown.returncode == 0 and "\x1b" not in shown.stdout and shown.stdout.count("\n") == 3


def test_so_do_those_of_a_graph_on_this_machine(tmp_path: Path) -> None:
    text = json.dumps(HOSTILE_TEXT)
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    (tmp_path / "a.nt").write_text(f"<{E}a> <{E}p> {text} .\n<{E}a> <{label}> {text} .\n", encoding="utf-8")
    load_graph(tmp_path / "kg", [tmp_path / "a.nt"])
    neighbourhood = asyncio.run(EmbeddedGraph(tmp_path / "kg").facts(f"{E}a"))
    assert neighbourhood.entity.label == HARMLESS_TEXT
    assert [fact.text for fact in neighbourhood.facts] == [f"{HARMLESS_TEXT} | p | {HARMLESS_TEXT}"]


@pytest.mark.parametrize(
    "value",
    [
        "9" * 100_000,
        "-" + "9" * 5_000,
        "1e999999999",
        "NaN",
        "-INF",
        "+" * 9,
        "0" * 17 + "-01-01",
        "9999999999999999-13-99",
    ],
)
@pytest.mark.parametrize("kind", ["integer", "decimal", "double", "dateTime", "gYear", "boolean", ""])
def test_values_that_are_none_of_their_kind_are_told_as_they_are(value: str, kind: str) -> None:
    cell = literal(value, datatype=f"http://www.w3.org/2001/XMLSchema#{kind}")
    answer = results({"p": uri(f"{E}p"), "v": cell})
    with sparql_server(lambda query: rows(()) if of_labels(query) else answer) as seen:
        (fact,) = asked(seen, lambda graph: graph.facts(f"{E}a", direction="out")).facts
    assert fact.object.text and len(fact.text) < 21_000


def test_huge_values_are_cut_where_they_are_read() -> None:
    huge = {"p": uri(f"{E}{'p' * 10**6}"), "v": uri(f"{E}{'v' * 10**6}")}
    answer = results(huge, {"p": uri(f"{E}p"), "v": literal("x" * 10**6, datatype="y" * 10**6)})

    def answer_to(query: str) -> Answer:
        return results({"e": uri(f"{E}p"), "name": literal("n" * 10**6)}) if of_labels(query) else answer

    with sparql_server(answer_to) as seen:
        neighbourhood = asked(seen, lambda graph: graph.facts(f"{E}a", direction="out"))
        assert max(map(len, seen.queries)) < 100_000, "an address without end is asked about"
    (fact,) = neighbourhood.facts
    assert fact.relation.text == "n" * 20_000 + "…" and fact.object.text == "x" * 20_000 + "…"


@pytest.mark.parametrize("status", [400, 403, 418, 500])
def test_what_an_endpoint_says_of_a_refusal_is_one_line(status: int, tmp_path: Path) -> None:
    body = json.dumps({"error": f"{HOSTILE_TEXT}\nhoptree: all is well\x07 " + "x" * 10_000}).encode()
    with sparql_server(lambda query: (status, {}, body if status != 400 else HOSTILE_TEXT.encode())) as seen:
        with pytest.raises(HoptreeError) as raised:
            asked(seen, lambda graph: graph.facts(f"{E}a"))
        if status < 500:  # others are asked four times
            shown = hoptree(tmp_path, "graph", "query", QUERY, "--graph", seen.url)
            assert shown.stderr.count("\n") == 1 and not re.search("[\x00-\x09\x0b-\x1f\x7f]", shown.stderr)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 700


# Replies without end


@contextmanager
def raw_server(first: bytes, again: bytes) -> Iterator[Seen]:
    """Answers every request with the first bytes, and with the others over and over."""

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(2**16)
            connection.sendall(first)
            while again:
                connection.sendall(again)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield Seen(f"http://127.0.0.1:{server.getsockname()[1]}/sparql")
        server.shutdown(socket.SHUT_RDWR)


OK = b"HTTP/1.1 200 OK\r\n"
PIECE = b" " * 2**16
ENDLESS: dict[str, tuple[bytes, bytes, str]] = {
    "a body": (OK + b"\r\n", PIECE, "sent more than 1 MB"),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + PIECE + b"\r\n", "sent more than 1 MB"),
    "a length": (OK + b"Content-Length: 99999999999999\r\n\r\n", PIECE, "sent more than 1 MB"),
    "headers": (OK, b"X: y\r\n" * 100, "broke off"),
    "a header": (OK + b"X: ", PIECE, "broke off"),
    "interim replies": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "broke off"),
    "trailers": (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 100, "broke off"),
    "a size": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1" * 2**16, "broke off"),
    "no HTTP": (b"", b"SSH-2.0-OpenSSH\r\n" * 100, "broke off"),
    "a negative length": (OK + b"Content-Length: -5\r\n\r\n", b"", "broke off"),
    "two lengths": (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"", "broke off"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_replies_without_end_are_hung_up_on(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "_MAX_BODY_BYTES", 2**20)
    first, again, words = ENDLESS[what]
    tracemalloc.start()
    try:
        with raw_server(first, again) as seen, pytest.raises(EndpointError, match=words):
            asked(seen, lambda graph: graph.facts(f"{E}a"))
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_an_archive_that_unpacks_without_end_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparql, "_MAX_BODY_BYTES", 2**20)
    bomb = gzip.compress(b" " * 2**24, 9)
    with sparql_server(lambda query: (200, {"Content-Encoding": "gzip"}, bomb)) as seen:
        tracemalloc.start()
        try:
            with pytest.raises(EndpointError, match="sent more than 1 MB"):
                asked(seen, lambda graph: graph.facts(f"{E}a"))
            assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
        finally:
            tracemalloc.stop()
