"""A server as a process of its own, to be killed in the middle of an answer and started again at the same address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from urllib.request import ProxyHandler, build_opener

from tests.server.page import scripts
from tests.timing import TIMEOUT_S

__all__ = ["Killable"]

_LONG = 600.0


class Killable:
    """`hoptree serve` with the films' script; steps named `waits_at` take longer than any test."""

    def __init__(self, folder: Path, waits_at: str = "") -> None:
        self._folder = folder
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self._port: int = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._first = waits_at

    def __enter__(self) -> Killable:
        self.start(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def start(self, waits_at: str) -> None:
        script = scripts.films(latency=0.01)
        for rule in script["replies"]:
            if rule.get("step") == waits_at:
                rule["latency"] = _LONG
        model = self._folder / "films.json"
        model.write_text(json.dumps(script), encoding="utf-8")
        options = [
            "serve",
            "--method",
            "taikc",
            "--model",
            f"films=scripted/{model}",
            "--port",
            str(self._port),
            "--no-cache",
        ]
        environment = {**os.environ, "HOPTREE_CACHE": str(self._folder / "replies.sqlite")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hoptree", *options], env=environment, stderr=subprocess.DEVNULL, cwd=self._folder
        )
        until = time.monotonic() + TIMEOUT_S
        while not self._is_there():
            assert self._process.poll() is None and time.monotonic() < until, "the server did not start"
            time.sleep(0.05)

    def _is_there(self) -> bool:
        try:
            with build_opener(ProxyHandler({})).open(f"{self.url}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
