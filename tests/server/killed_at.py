"""Changes a corpus in a process that kills itself before the n-th renaming: `python -m tests.server.killed_at`.

Every step that a kill could come between ends in a renaming: of a document, of the note about the change, of a folder.
Arguments: the folder of the server, n (0: no kill), what to do with the corpus `mine`, and a JSON object of files.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from tests.server.running import settings

from hoptree.server.house import House, open_house


def _watch(folder: Path, number: int) -> None:
    seen = 0

    def on_event(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "os.rename" and Path(os.fsdecode(given[0])).is_relative_to(folder):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)


async def _change(house: House, what: str, files: dict[str, str]) -> None:
    uploads = [UploadFile(io.BytesIO(text.encode()), filename=name) for name, text in files.items()]
    if what == "create":
        await house.changing.create("mine", uploads)
    elif what == "add":
        await house.changing.add("mine", uploads)
    else:
        await house.changing.remove_document("mine", what)
    while house.jobs.running():
        await asyncio.sleep(0.01)
    await house.aclose()


def main() -> None:
    folder, number, what, files = sys.argv[1:]
    own = Path(folder) / "own"
    house = open_house(settings(Path(folder), corpora_folder=own))
    _watch(own, int(number))
    asyncio.run(_change(house, what, json.loads(files)))


if __name__ == "__main__":
    main()
