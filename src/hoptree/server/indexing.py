"""Indexing in a process of its own, so that questions are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hoptree.http.outside import hidden
from hoptree.server.corpora import Managed
from hoptree.server.jobs import Job
from hoptree.server.limits import Limits
from hoptree.server.refusals import Refusal

__all__ = ["bring_up_to_date"]

_SECRET = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")
_NEEDED = (
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONUTF8",
    "XDG_CACHE_HOME",
)
_LINE = 2**20
_LOG = logging.getLogger("hoptree.server")


async def bring_up_to_date(corpus: Managed, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
    """Index what the documents of a corpus hold now, `added` among them; what was done, in words."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing is imported from the folder it runs in
        "-m",
        "hoptree.server.indexing_worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=corpus.folder,
        env=_environment(),
        limit=_LINE,
    )
    try:
        async with asyncio.timeout(limits.indexing_seconds):
            return await _follow(process, corpus, limits, job, added)
    except TimeoutError:
        raise Refusal(
            504, "TooSlow", "Indexing took longer than allowed.", "Upload less at once; what was there is as it was."
        ) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()  # an index is the old one or the new one, whenever that comes
            await process.wait()


def _environment() -> dict[str, str]:
    """The variables that reading files needs; all others may be somebody's secret."""
    found = {
        name: value
        for name, value in os.environ.items()
        if (name in _NEEDED or name.startswith(("LC_", "HOPTREE_"))) and not any(word in name for word in _SECRET)
    }
    if paths := [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]:
        found["PYTHONPATH"] = os.pathsep.join(paths)  # written for the folder of the server
    return found


async def _follow(
    process: asyncio.subprocess.Process, corpus: Managed, limits: Limits, job: Job, added: Sequence[str]
) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    wanted = {
        "documents": str(corpus.documents.absolute()),
        "index": str(corpus.index.absolute()),
        "counts": str(corpus.counts.absolute()),
        "added": list(added),
        "seconds": limits.indexing_seconds,
        "memory": limits.indexing_memory,
    }
    process.stdin.write(json.dumps(wanted).encode())
    process.stdin.close()
    async for line in process.stdout:
        said: dict[str, Any] = json.loads(line)
        if progress := said.get("progress"):
            stage, job.done, job.total, passages = progress
            job.message = f"{stage}: {_passages(passages)}"
        if error := said.get("error"):
            internal = error["class"] == "InternalError"
            if internal:
                _LOG.error("%s in the indexing worker\n%s", error["kind"], error["where"])
            cause = "The files could not be read." if internal else hidden(error["cause"])
            raise Refusal(500 if internal else 400, error["class"], cause, hidden(error["remedy"]))
        if done := said.get("done"):
            job.passed_over = [{name: hidden(text) for name, text in one.items()} for one in done["files"]]
            return _in_words(done)
    raise Refusal(
        500,
        "IndexingDied",
        "Indexing ended without a word: the files may take too much memory.",
        "Upload less at once.",
    )


def _in_words(done: dict[str, Any]) -> str:
    parts = [f"{done[name]:,} {name}" for name in ("added", "replaced", "removed") if done[name]]
    passed = f"; passed over: {hidden(done['passed_over'])}" if done["passed_over"] else ""
    return f"{_passages(done['passages'])} ({', '.join(parts) or 'nothing changed'}){passed}"


def _passages(count: int) -> str:
    return f"{count:,} passage{'s' * (count != 1)}"
