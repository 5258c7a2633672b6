"""Changes a corpus in a process that kills itself before the n-th renaming.

Every step that a kill could come between ends in a renaming: of a document, of the note about the change, of a folder.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from tests.forking import PROCESSES
from tests.server import forked
from tests.server.running import settings

from hoptree.server.app import ServerState, open_state

__all__ = ["is_killed_at"]


def _watch(folder: Path, number: int) -> None:
    seen, watched = 0, os.getpid()

    def on_event(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "os.rename" and os.getpid() == watched and Path(os.fsdecode(given[0])).is_relative_to(folder):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)


async def _change(state: ServerState, what: str, files: dict[str, str]) -> None:
    uploads = [UploadFile(io.BytesIO(text.encode()), filename=name) for name, text in files.items()]
    if what == "create":
        await state.corpus_service.create("mine", uploads)
    elif what == "add":
        await state.corpus_service.add("mine", uploads)
    else:
        await state.corpus_service.remove_document("mine", what)
    while state.jobs.running():
        await asyncio.sleep(0.01)
    await state.aclose()


def _main(folder: Path, number: int, what: str, files: dict[str, str]) -> None:
    own = folder / "own"
    setattr(asyncio, "create_subprocess_exec", forked.begin_from_here)  # noqa: B010
    state = open_state(settings(folder, corpora_folder=own))
    _watch(own, number)
    asyncio.run(_change(state, what, files))


def is_killed_at(number: int, folder: Path, what: str, files: dict[str, str]) -> bool:
    """Whether a change of the corpus `mine` was killed before its n-th step; it has fewer where not (0: no kill)."""
    process = PROCESSES.Process(target=_main, args=(folder, number, what, files))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0
