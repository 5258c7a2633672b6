"""Run one action of `systems.py` in a process of its own and measure what that process takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Failed", "Measured", "disk_bytes", "evict", "killed", "measured"]

_SYSTEMS = Path(__file__).resolve().with_name("systems.py")
_EVERY = 0.02
_TAIL = 1_500


class Failed(Exception):
    """An action that did not come to its end; says what it printed last."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What an action took as a whole process, from its start to its end, and what it returned.

    `peak` is all resident memory, pages of mapped files included; `anonymous` is what no file stands behind, sampled
    every 20 ms.
    """

    began: float
    wall: float
    cpu: float
    peak: int
    anonymous: int
    result: dict[str, Any]


def measured(action: str, **arguments: Any) -> Measured:
    """Run an action to its end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "log").open("wb") as log:
            began = time.monotonic()
            child = _start(action, arguments, folder, log.fileno())
            anonymous = 0
            while True:
                anonymous = max(anonymous, _anonymous(child.pid))
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid:
                    break
                time.sleep(_EVERY)
            wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        target = folder / "result.json"
        if child.returncode or not target.exists():
            said = (folder / "log").read_text(encoding="utf-8", errors="replace").strip()
            raise Failed(said[-_TAIL:] or f"{action} ended with {child.returncode} and said nothing")
        result = json.loads(target.read_text(encoding="utf-8"))
    return Measured(began, wall, usage.ru_utime + usage.ru_stime, result.pop("peak"), anonymous, result)


def killed(action: str, after: float, **arguments: Any) -> bool:
    """Start an action and kill it with SIGKILL after so many seconds; whether it was still running."""
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("wb") as log:
        child = _start(action, arguments, Path(name), log.fileno())
        try:
            child.wait(after)
        except subprocess.TimeoutExpired:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            return True
        if child.returncode:
            raise Failed((Path(name) / "log").read_text(encoding="utf-8", errors="replace")[-_TAIL:])
    return False


def _start(action: str, arguments: dict[str, Any], folder: Path, log: int) -> subprocess.Popen[bytes]:
    given = folder / "arguments.json"
    given.write_text(json.dumps(arguments), encoding="utf-8")
    command = [sys.executable, str(_SYSTEMS), action, str(given), str(folder / "result.json")]
    return subprocess.Popen(command, stdout=log, stderr=log)


def _anonymous(pid: int) -> int:
    try:
        with Path(f"/proc/{pid}/status").open(encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(("RssAnon:", "RssShmem:")))
    except OSError:
        return 0


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def evict(folder: Path) -> None:
    """Ask the system to forget what it holds of these files in memory, so that they are read from disk again."""
    os.sync()
    for path in _files(folder):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _files(folder: Path) -> Iterable[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
