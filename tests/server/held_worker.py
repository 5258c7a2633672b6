"""The process that reads uploads, held before its last step for as long as a test likes."""

from __future__ import annotations

from pathlib import Path

from hoptree.retrieval.index.folder import MANIFEST

__all__ = ["HeldWorker"]

_AT_START = f"""
import os, pathlib, sys, time

held = pathlib.Path(os.environ["HOPTREE_HELD"])

def hold(event, given):
    if event == "os.rename" and str(given[1]).endswith({MANIFEST!r}):
        held.with_name("reached").touch()
        while held.exists():
            time.sleep(0.01)

if "hoptree.server.indexing_worker" in sys.orig_argv:
    sys.addaudithook(hold)
"""
"""What Python does by itself when it begins."""


class HeldWorker:
    """Of a server with this environment."""

    def __init__(self, folder: Path) -> None:
        home = folder / "held_worker"
        home.mkdir()
        (home / "sitecustomize.py").write_text(_AT_START, encoding="utf-8")
        self._held, self._reached = home / "held", home / "reached"
        self.hold()
        self.environment = {"PYTHONPATH": str(home), "HOPTREE_HELD": str(self._held)}

    def hold(self) -> None:
        self._held.touch()

    def is_held(self) -> bool:
        return self._reached.exists()

    def let_go(self) -> None:
        """Also those that begin from now on."""
        self._held.unlink()
