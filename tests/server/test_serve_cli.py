"""`hoptree serve` as a person starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi")

from tests.command_line import call
from tests.e2e.endpoint import Endpoint, Response, Seen, said
from tests.forking import Command
from tests.server.running import eventually
from tests.timing import TIMEOUT_S

from hoptree.cli.serve import _uploads_folder, _usual_limits
from hoptree.core.errors import IndexUnavailable
from hoptree.core.files import FolderLock, data_dir
from hoptree.server.keys import read_keys
from hoptree.server.settings import Limits

_SCRIPT = {"latency": 0.1, "replies": [{"reply": "1948"}]}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


# Spans that wait to be sent are sent there.
_AT_EXIT = "import atexit; atexit.register(print, 'flushed'); from hoptree.__main__ import main; main()"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "--keys"),
        (["--host", "192.168.1.7"], "--keys"),
        (["--host", "::"], "--keys"),
        (["--keys", "nowhere.toml"], "[[key]]"),
        (["--limits", "apples=3"], "seconds"),
        (["--limits", "seconds=0"], "allows nothing"),
        (["--limits", "asking=0.5"], "allows nothing"),
        (["--limits", "rate=0.5"], "allows nothing"),
        (["--allow-host", "docs.example.org"], "--keys"),
        (["--allow-origin", "https://docs.example.org"], "--keys"),
        (["--corpus", "docs"], "NAME=VALUE"),
        (["--corpus", "docs=nowhere"], "hoptree index"),
        (["--corpus", "../x=sample"], "small letters"),
        (["--model", "openai"], "names no model"),
        (["--base-url", "other=http://x"], "other"),
        (["--method", "taikk"], "taikc"),
        (["--set", "k=3"], "METHOD.KEY=VALUE"),
        (["--set", "taikc.k=0"], "1 or more"),
        (["--retriever", "bm52"], "bm25"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_remedy(tmp_path: Path, arguments: list[str], message: str) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(_SCRIPT))
    model = [] if "--model" in arguments else ["--model", f"scripted/{script}"]
    done = call("serve", "--port", "0", *model, *arguments, folder=tmp_path, environment=os.environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_uploads_are_on_where_only_this_machine_can_ask(tmp_path: Path) -> None:
    folder, why = _uploads_folder(None, "127.0.0.1")
    assert folder == data_dir() / "corpora" and folder.is_dir() and not why
    with FolderLock(folder, IndexUnavailable):  # of a second server
        taken, why = _uploads_folder(None, "::1")
        assert taken is None and "Another server of this machine" in why
    assert _uploads_folder(Path("none"), "127.0.0.1") == (None, "It was started with --corpora none.")
    assert _uploads_folder(tmp_path, "0.0.0.0") == (tmp_path, "")
    folder, why = _uploads_folder(None, "0.0.0.0")
    assert folder is None and "--corpora DIR" in why


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_a_signal_lets_the_question_finish(
    tmp_path: Path, endpoint: Endpoint, number: signal.Signals
) -> None:
    came, let = threading.Event(), threading.Event()

    def held(seen: Seen) -> Response:
        came.set()
        assert let.wait(TIMEOUT_S)
        return said("1948")

    endpoint.on("", held)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1"}
    model = ["-m", "demo=openai/test", "--base-url", f"demo={endpoint.url}"]
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_EXIT, "serve", "--port", "0", "--no-cache", *model],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert match, line
        log: list[str] = []
        reading = threading.Thread(target=lambda: log.extend(process.stderr or ()))
        reading.start()
        url = match[0]
        eventually(lambda: _answers(url))
        secret = "How much is my secret salary?"
        answers: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(
                httpx.post(f"{url}/v1/ask", json={"question": secret, "method": "direct"}, timeout=TIMEOUT_S)
            )
        )
        asking.start()
        assert came.wait(TIMEOUT_S)
        process.send_signal(number)
        eventually(lambda: httpx.get(f"{url}/health", timeout=TIMEOUT_S).status_code == 503)
        let.set()
        asking.join(timeout=TIMEOUT_S)
        assert answers[0].json()["answer"] == "1948"
        process.wait(timeout=TIMEOUT_S)
        reading.join(timeout=TIMEOUT_S)
        assert process.stdout is not None
        assert (process.returncode, process.stdout.read()) == (0, "flushed\n")
    finally:
        let.set()
        process.kill()
        process.wait()
    assert any("POST /v1/ask 200" in line for line in log)
    assert not any("salary" in line or "Traceback" in line for line in log)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_writes_down_what_runs_and_tells_its_client(tmp_path: Path, number: signal.Signals) -> None:
    script, journal = tmp_path / "script.json", tmp_path / "journal.jsonl"
    script.write_text(json.dumps(_SCRIPT | {"latency": 600}))
    options = ["--port", "0", "--no-cache", "--journal", str(journal), "-m", f"demo=scripted/{script}"]
    process = Command(["serve", *options], os.environ)
    try:
        match = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
        assert match
        url = match[0]
        eventually(lambda: _answers(url))
        answers: list[httpx.Response] = []
        asked = {"question": "How much?", "method": "direct"}
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}/v1/ask", json=asked, timeout=TIMEOUT_S, trust_env=False))
        )
        asking.start()
        eventually(lambda: httpx.get(f"{url}/health", timeout=TIMEOUT_S).json()["asking"] == 1)
        process.send_signal(number)
        eventually(lambda: httpx.get(f"{url}/health", timeout=TIMEOUT_S).status_code == 503)
        process.send_signal(number)
        asking.join(timeout=TIMEOUT_S)
        _, log = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert (answers[0].status_code, answers[0].json()["error"]["class"]) == (503, "Stopped")
    assert [json.loads(line)["question"] for line in journal.read_text().splitlines()] == ["How much?"]
    assert process.returncode == 0
    assert "Traceback" not in log and "Application shutdown complete." in log


def test_the_help_tells_every_limit_the_form_of_keys_and_how_models_are_named(tmp_path: Path) -> None:
    help_text = call("serve", "--help", folder=tmp_path, environment=os.environ).stdout
    named = re.findall(
        r"\b([a-z_]+=[0-9]+[KMG]?)\b", help_text.partition("--limits NAME=VALUE")[2].partition("Options:")[0]
    )
    assert {limit.partition("=")[0] for limit in named} == {limit.name for limit in fields(Limits)}
    for limit in named:
        assert Limits.parse(limit) == Limits(), limit
    keys = tmp_path / "keys.toml"
    lines = (
        help_text.partition("[[key]]")[2]
        .partition("--limits")[0]
        .replace('"…"  ', '"a-long-random-text"  #')
        .splitlines()
    )
    keys.write_text("[[key]]\n" + "\n".join(re.sub(r"   +(?=[0-9a-z])", "  # ", line.strip()) for line in lines))
    (key,) = read_keys(keys)
    assert (key.name, key.rate, key.budget.tokens, key.corpora) == ("search-team", 60, 2_000_000, True)
    assert "METHOD@MODEL" in help_text and "in a browser" in help_text


@pytest.mark.parametrize("named", [True, False], ids=["named", "that of its port"])
def test_a_question_that_was_cut_off_is_told_of_at_the_next_start(tmp_path: Path, named: bool) -> None:
    script, usual = tmp_path / "script.json", tmp_path / "hoptree" / "server-unfinished-0.jsonl"
    script.write_text(json.dumps(_SCRIPT))
    journal = tmp_path / "journal.jsonl" if named else usual
    journal.parent.mkdir(exist_ok=True)
    journal.write_text(json.dumps({"question": "How much?", "method": "direct"}) + "\n")
    options = ["--port", "0", *(["--journal", str(journal)] * named), "-m", f"demo=scripted/{script}"]
    process = Command(["serve", *options], {**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    try:
        log_line = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    assert f"There is a question that an earlier shutdown interrupted: see {journal}." in log_line


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such bound")
@pytest.mark.parametrize(("hard", "warning"), [(2_000, ""), (600, "ulimit -n 1280")])
def test_there_is_room_for_all_connections_or_a_word_about_it(hard: int, warning: str) -> None:
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))
from hoptree.server.app import raise_open_file_limit
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], raise_open_file_limit(1024))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("256 ") and warning in first and bool(warning) == ("too few for 1024" in first)
    assert int(second) == min(1_280, hard)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=TIMEOUT_S).status_code == 200
    except httpx.ConnectError:
        return False


def test_without_the_extra_it_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['fastapi'] = None; sys.argv = ['hoptree', 'serve']\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}from hoptree.__main__ import main; main()"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'hoptree[server]'" in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("mode", "warning"), [(0o600, ""), (0o640, "may read"), (0o660, "may change")])
def test_a_file_of_keys_that_others_may_use_is_warned_of(tmp_path: Path, mode: int, warning: str) -> None:
    keys, script = tmp_path / "keys.toml", tmp_path / "script.json"
    keys.write_text('[[key]]\nname = "a"\nsecret = "sixteen-characters-or-more"\n')
    keys.chmod(mode)
    script.write_text(json.dumps(_SCRIPT))
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it ends there
        chosen = ["--model", f"scripted/{script}", "--port", str(taken.getsockname()[1])]
        run = call("serve", *chosen, "--keys", str(keys), folder=tmp_path, environment=os.environ)
    assert run.returncode == 2
    assert (f"others on this machine {warning} {keys}; chmod 600" in run.stderr) is bool(warning)
    assert ("chmod" in run.stderr) is bool(warning)


def test_a_model_of_this_machine_has_more_time() -> None:
    assert _usual_limits({"qwen": "local/qwen"}, {}) == {"seconds": 3600.0}
    assert _usual_limits({"x": "openai/x"}, {"x": "http://localhost:8000/v1"}) == {"seconds": 3600.0}
    assert _usual_limits({"x": "openai/x"}, {"x": "https://models.example/v1"}) == {}
    assert Limits.parse("seconds=60", seconds=3600.0).seconds == 60
    assert Limits.parse("", seconds=3600.0).seconds == 3600
