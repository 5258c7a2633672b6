"""The processes that read uploads and answer questions, forked from one that has imported all they need.

A new interpreter takes several times as long as the work. Tests of these processes themselves have the real command.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.forking import PROCESSES, file_of, take_environment

from hoptree.server import answering_worker, indexing_worker
from hoptree.server.workers import module_command

__all__ = ["begin", "begin_from_here"]

_MODULES = {module.__name__: module for module in (answering_worker, indexing_worker)}


class _Forked:
    """What a server wants of `asyncio.subprocess.Process`."""

    def __init__(self, process: BaseProcess, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdin, self.stdout = stdin, stdout

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        await asyncio.to_thread(self._process.join)
        assert self._process.exitcode is not None
        return self._process.exitcode


def _work(
    module: str,
    stdin: Connection,
    stdout: Connection,
    folder: Path,
    environment: dict[str, str],
    others: Sequence[Connection] = (),
) -> None:
    for end in others:
        end.close()
    os.chdir(folder)
    take_environment(environment)
    sys.stdin = os.fdopen(os.dup(stdin.fileno()), encoding="utf-8")
    os.dup2(stdout.fileno(), 1)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    stdout.close()
    _MODULES[module].main()


def _place(how: dict[str, Any]) -> tuple[Path, dict[str, str]]:
    """The folder and environment of a process: those of this one unless others are given."""
    return Path(how.get("cwd", ".")).absolute(), how.get("env") or dict(os.environ)


async def begin(*command: str, **how: Any) -> Any:
    """In place of `asyncio.create_subprocess_exec`; other commands begin as ever."""
    if command[:-1] != module_command("")[:-1] or command[-1] not in _MODULES:
        return await asyncio.subprocess.create_subprocess_exec(*command, **how)
    (its_in, our_out), (our_in, its_out) = (PROCESSES.Pipe(duplex=False) for _ in range(2))
    process = PROCESSES.Process(target=_work, args=(command[-1], its_in, its_out, *_place(how)))
    return await _begun(process, (its_in, its_out), (our_in, our_out), how["limit"])


async def begin_from_here(*command: str, **how: Any) -> Any:
    """The same in a process that was forked itself, and has loaded all that is needed."""
    assert command[-1] == indexing_worker.__name__
    here = multiprocessing.get_context("fork")
    (its_in, our_out), (our_in, its_out) = (here.Pipe(duplex=False) for _ in range(2))
    given = command[-1], its_in, its_out, *_place(how), (our_in, our_out)
    return await _begun(here.Process(target=_work, args=given), (its_in, its_out), (our_in, our_out), how["limit"])


async def _begun(
    process: BaseProcess, its: tuple[Connection, Connection], our: tuple[Connection, Connection], limit: int
) -> _Forked:
    await asyncio.to_thread(process.start)
    for end in its:
        end.close()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file_of(our[0], "rb"))
    ways = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file_of(our[1], "wb"))
    return _Forked(process, asyncio.StreamWriter(*ways, None, loop), reader)
