"""Changes of an index in a process of its own, which may be killed; it makes what it has safe often."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hoptree.retrieval import indexing
from hoptree.retrieval.indexing import run

__all__ = ["change", "die_while_linking"]


def change(what: str, source: Path, out: Path, telling: Connection, kill_after: float) -> None:
    """Build, add to or update an index, and tell the seconds of processor time it took.

    After so many of them the process is ended from without, unless they are 0: no Python handles that signal.
    """
    run._SAVE_EVERY, run._AT_ONCE = 300, 150
    signal.setitimer(signal.ITIMER_PROF, kill_after)
    began = time.process_time()
    if what == "build":
        indexing.build_index(source, out)
    elif what == "add":
        indexing.add_to_index([source], out)
    else:
        indexing.update_index(out)
    telling.send(time.process_time() - began)


def die_while_linking(source: Path, out: Path) -> None:
    """Add to an index, and be killed when the passages are there and their links are not."""

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    run._SAVE_EVERY = run._AT_ONCE = 2
    setattr(run, "link_passages", die)  # noqa: B010
    indexing.add_to_index([source], out)
