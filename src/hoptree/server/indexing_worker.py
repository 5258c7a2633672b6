"""The process that reads uploaded files: they may be made to do harm, so it has bounds of its own and no keys.

Standard input holds one JSON object that says what to do; a JSON line comes out for every step, and one at the end.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hoptree.errors import CorpusError, HoptreeError, InternalError
from hoptree.indexing import build_index
from hoptree.indexing.commands import update_index
from hoptree.indexing.outcome import Outcome, Progress
from hoptree.retrieval.index.manifest import MANIFEST

__all__ = ["main"]

_EVERY = 0.1
_LATER = 10
"""How much more patient than with questions the system may be with this process."""


def main() -> None:
    """Bring an index up to date with its documents."""
    wanted = json.loads(sys.stdin.read())
    os.nice(_LATER)
    _bound(int(wanted["seconds"]), int(wanted["memory"]))
    try:
        outcome = _index(Path(wanted["documents"]), Path(wanted["index"]))
        _say(done=_told(outcome))
    except MemoryError:
        _tell(CorpusError("Reading the files takes more memory than allowed.", "Upload smaller files."))
    except HoptreeError as error:
        _tell(error)
    except Exception as error:
        _tell(InternalError(error))


def _bound(seconds: int, memory: int) -> None:
    """Have the system end this process when it takes too much; the server ends it by the clock in any case."""
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with suppress(ValueError, OSError):  # not every system knows both
            resource.setrlimit(what, (most, most))


def _index(documents: Path, index: Path) -> Outcome:
    listener = _Listener()
    if not (index / MANIFEST).exists():
        return build_index(documents, index, on_progress=listener)
    outcome = update_index(index, on_progress=listener)
    if outcome.passed_over and not (outcome.added or outcome.replaced or outcome.removed):
        raise CorpusError(f"Nothing of what was uploaded can be read: {outcome.passed_over}.", "Mend the files.")
    return outcome


class _Listener:
    """Tells how far it is, ten times a second at most."""

    def __init__(self) -> None:
        self._last, self._stage = 0.0, ""

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= _EVERY or progress.stage != self._stage:
            self._last, self._stage = now, progress.stage
            _say(progress=[progress.stage, progress.done, progress.total, progress.passages])


def _told(outcome: Outcome) -> dict[str, Any]:
    names = ("added", "unchanged", "replaced", "removed", "passed_over")
    return {"passages": outcome.manifest.passages, **{name: getattr(outcome, name) for name in names}}


def _tell(error: HoptreeError) -> None:
    _say(error={"class": type(error).__name__, "cause": error.cause, "remedy": error.remedy})


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
