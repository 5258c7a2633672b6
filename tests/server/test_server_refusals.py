"""Every refusal is logged, can be read by those it is for, and leads nobody elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import re
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.hostile import all_of, head, zipped
from tests.server.running import QUESTION, Running, eventually, limits, running, script, settings
from tests.timing import TIMEOUT_S

from hoptree.server.keys import Key

_SECRET = "sixteen-characters-or-more"
_KEY = Key("team", hashlib.sha256(_SECRET.encode()).digest(), corpora=True)
_SENT = {"Authorization": f"Bearer {_SECRET}"}
_PAGE = "https://app.example.org"
_ADDRESS = "http://169.254.169.254/latest"


def _logged(caplog: pytest.LogCaptureFixture, kind: str, key: str) -> list[str]:
    wanted = re.compile(rf"refused {kind} key={key} from 127\.0\.0\.1: \S")
    return [record.getMessage() for record in caplog.records if wanted.match(record.getMessage())]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("keyed")
    bounds = limits(unpacked=1_000_000)
    with running(settings(folder, keys=(_KEY,), corpora_folder=folder / "own", limits=bounds)) as server:
        yield server


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ConfigError", {"model": "x\r\nforged: line"}),
        ("ConfigError", {"corpus": _ADDRESS}),
        ("ConfigError", {"graph": _ADDRESS}),
        ("ConfigError", {"method": "nonsense"}),
        ("BadRequest", {"base_url": _ADDRESS}),
        ("NotAllowed", {"method": "skr", "options": {"labels": "/etc/passwd"}}),
    ],
)
def test_what_a_route_refuses_is_logged(
    keyed: Running, caplog: pytest.LogCaptureFixture, kind: str, fields: dict[str, Any]
) -> None:
    body = {"question": QUESTION, **fields}
    assert 400 <= keyed.client.post("/v1/ask", json=body, headers=_SENT).status_code < 500
    assert len(_logged(caplog, kind, "team")) == 1, caplog.text
    assert "\nforged" not in caplog.text and "\r" not in caplog.text
    assert QUESTION not in caplog.text


@pytest.mark.parametrize(
    ("kind", "name", "file", "content"),
    [
        ("TooLarge", "up", "a.zip", zipped({"a.txt": b" " * 2_000_000})),
        ("TooLarge", "up", "a.txt.gz", gzip.compress(b" " * 2_000_000)),
        ("BadFileName", "up", "a.zip", zipped({"../../evil.txt": b"Text."})),
        ("BadName", "../a", "a.txt", b"Text."),
        ("BadName", "Müller", "a.txt", b"Text."),
    ],
)
def test_an_upload_that_is_refused_is_logged(
    keyed: Running, caplog: pytest.LogCaptureFixture, kind: str, name: str, file: str, content: bytes
) -> None:
    reply = keyed.client.post("/v1/corpora", data={"name": name}, files={"files": (file, content)}, headers=_SENT)
    assert reply.json()["error"]["class"] == kind
    assert (f"'{name}' is not a valid name" in reply.json()["error"]["message"]) == (kind == "BadName")
    assert len(_logged(caplog, kind, "team")) == 1, caplog.text


def test_what_is_refused_at_the_door_and_what_is_not_there_is_logged_alike(
    keyed: Running, caplog: pytest.LogCaptureFixture
) -> None:
    assert keyed.client.get("/v1/methods").status_code == 401
    assert keyed.client.get("/v1/methods", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert keyed.client.get("/v1/nothing", headers=_SENT).status_code == 404
    eventually(lambda: bool(_logged(caplog, "NotFound", "team")))
    assert len(_logged(caplog, "NoKey", "-")) == len(_logged(caplog, "WrongKey", "-")) == 1


@pytest.mark.parametrize("path", ["/v1/ask/", "/v1/methods/", "/health/"])
def test_nobody_is_sent_to_another_address(keyed: Running, path: str) -> None:
    for method in ("GET", "POST"):
        reply = keyed.client.request(method, path, headers=_SENT)
        assert reply.status_code == 404 and "location" not in reply.headers


def test_a_page_of_an_allowed_origin_can_read_why_it_was_refused(tmp_path: Path) -> None:
    with running(settings(tmp_path, origins=(_PAGE,), keys=(_KEY,))) as server:
        ask = {"question": QUESTION}
        replies = [
            server.client.post("/v1/ask", json=ask, headers={"Origin": _PAGE}),
            server.client.post("/v1/ask", content=b" " * 2**21, headers={"Origin": _PAGE, **_SENT}),
            server.client.post("/v1/ask", json={**ask, "model": "none"}, headers={"Origin": _PAGE, **_SENT}),
            server.client.post("/v1/ask", json=ask, headers={"Origin": _PAGE, **_SENT}),
        ]
        assert [reply.status_code for reply in replies] == [401, 413, 400, 200]
        for reply in replies:
            assert reply.headers.get_list("access-control-allow-origin") == [_PAGE]
            assert reply.headers.get_list("vary") == ["Origin"]
            assert "Retry-After" in reply.headers["access-control-expose-headers"]
        foreign = server.client.post("/v1/ask", json=ask, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403 and "access-control-allow-origin" not in foreign.headers
        assert "access-control-allow-origin" not in server.client.get("/v1/methods").headers


def test_a_refusal_inside_of_a_stream_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = settings(tmp_path, models={"demo": script(600.0)}, limits=limits(stop_seconds=0), keys=(_KEY,))
    with running(wanted) as server:
        body = {"question": QUESTION, "stream": True}
        with server.client.stream("POST", "/v1/ask", json=body, headers=_SENT) as reply:
            lines = reply.iter_lines()
            next(lines)
            server.begin_stop()
            assert any(line == "event: error" for line in lines)
    assert len(_logged(caplog, "Stopped", "team")) == 1, caplog.text


@pytest.mark.parametrize("path", ["/", "/health"])
def test_those_who_only_look_whether_it_is_there_are_answered(keyed: Running, path: str) -> None:
    reply = keyed.client.head(path)
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-length"] == keyed.client.get(path).headers["content-length"]


def test_remedies_name_no_flags_of_the_server(tmp_path: Path) -> None:
    reader = Key("reader", _KEY.digest)
    with running(settings(tmp_path, keys=(reader,))) as server:
        ask = server.client.request
        replies = [
            ask("GET", "/v1/methods", headers={"Host": "evil.example"}),
            ask("GET", "/v1/methods", headers={"Origin": "https://evil.example"}),
            ask("DELETE", "/v1/corpora/x", headers=_SENT),
        ]
    assert [reply.status_code for reply in replies] == [421, 403, 403]
    for reply in replies:
        remedy = reply.json()["error"]["remedy"]
        assert "the server's administrator" in remedy and "--" not in remedy and "=" not in remedy


@pytest.mark.parametrize(
    ("options", "message", "remedy"),
    [
        ({"k": -5}, "taikc: k=-5 is not possible.", 'k takes int, 1 or more ("options": {"k": 5}).'),
        ({"__class__": 1}, "taikc has no option '__class__'.", "It has: "),
        ({"kk": 1}, "taikc has no option 'kk'.", "Did you mean 'k'?"),
    ],
)
def test_an_option_that_cannot_be_is_told_in_whole_sentences(
    keyed: Running, options: dict[str, Any], message: str, remedy: str
) -> None:
    reply = keyed.client.post("/v1/ask", json={"question": QUESTION, "options": options}, headers=_SENT)
    error = reply.json()["error"]
    assert error["message"] == message
    assert remedy in error["remedy"]


def test_the_server_says_whether_it_remembers(keyed: Running, tmp_path: Path) -> None:
    assert keyed.client.get("/v1/methods", headers=_SENT).json()["remembers"] is False
    with running(settings(tmp_path, cache=tmp_path / "cache")) as server:
        assert server.client.get("/v1/methods").json()["remembers"] is True


_FORM = b'--x\r\ncontent-disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/ask", "application/json"), ("/v1/corpora", "multipart/form-data; boundary=x")]
)
@pytest.mark.parametrize(("sent", "reason"), [(3_000, "TooLarge"), (10, "BodyTooSlow")])
def test_a_body_that_is_too_large_or_too_slow_is_refused_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, kind: str, sent: int, reason: str
) -> None:
    seconds = 0.5 if reason == "BodyTooSlow" else TIMEOUT_S
    bounds = limits(body=2_000, upload=2_000, body_seconds=seconds, upload_seconds=seconds)
    with running(settings(tmp_path, corpora_folder=tmp_path / "own", limits=bounds)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            piece = _FORM + b"x" * sent
            chunk = b"%x\r\n%s\r\n" % (len(piece), piece)  # and no end
            raw.sendall(head(server, path, f"Content-Type: {kind}\r\nTransfer-Encoding: chunked") + chunk)
            assert reason.encode() in all_of(raw)
        eventually(lambda: not server.busy)
        counted = re.findall(
            r'^hoptree_refused_total\{reason="(\w+)"\} (\S+)', server.client.get("/metrics").text, re.M
        )
        assert counted == [(reason, "1.0")]
        assert len(re.findall("refused [A-Z]", caplog.text)) == 1
