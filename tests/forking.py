"""Processes forked from one that has loaded all modules, which saves most of their time."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

__all__ = ["PROCESSES", "Command", "file_of", "take_environment"]

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "hoptree.cli.ask",
        "hoptree.__main__",
        "hoptree.cli.main",
        "hoptree.cli.run",
        "hoptree.cli.serve",
        "hoptree.mcp.server",
        "hoptree.server.app",
        "hoptree.server.indexing_worker",
        "tests.server.warm",
    ]
)
"""The modules that each process has loaded, if they are installed; it has no threads of this process."""


def take_environment(environment: Mapping[str, str]) -> None:
    """Set the environment of a forked process, which has that of the first test."""
    os.environ.clear()
    os.environ.update(environment)


def file_of(end: Connection, mode: str) -> IO[bytes]:
    """Return one end of a pipe as a file."""
    with end:
        return os.fdopen(os.dup(end.fileno()), mode, buffering=0)


class Command:
    """Runs `hoptree` with these arguments, with the part of `subprocess.Popen` that tests use.

    The end of the interpreter is skipped; tests of it start a new one. `before` is called in the process before the
    command starts.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path = Path(),
        before: Callable[[], None] | None = None,
    ) -> None:
        (out, its_out), (err, its_err) = (PROCESSES.Pipe(duplex=False) for _ in range(2))
        given = list(arguments), dict(environment), folder.absolute(), its_out, its_err, before
        self._process = PROCESSES.Process(target=_run, args=given)
        self._process.start()
        its_out.close()
        its_err.close()
        self.stdout, self.stderr = (os.fdopen(os.dup(end.fileno()), encoding="utf-8") for end in (out, err))
        out.close()
        err.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, _: None = None, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end, and return the rest of both outputs."""
        with ThreadPoolExecutor(2) as threads:
            reading = [threads.submit(stream.read) for stream in (self.stdout, self.stderr)]
            self._process.join(timeout)
            if self._process.exitcode is None:
                self._process.kill()
                raise TimeoutError(f"it did not end in {timeout} seconds")
            out, err = (thread.result() for thread in reading)
        return out, err


def _run(
    arguments: list[str],
    environment: dict[str, str],
    folder: Path,
    out: Connection,
    err: Connection,
    before: Callable[[], None] | None,
) -> None:
    from hoptree.__main__ import main

    os.chdir(folder)
    take_environment(environment)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    out.close()
    err.close()
    sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8"), os.fdopen(2, "w", buffering=1, encoding="utf-8")
    sys.argv = ["hoptree", *arguments]
    if before is not None:
        before()
    main()
