"""Indexing in a process of its own, so that questions are answered meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from hoptree.server.corpora import Managed
from hoptree.server.jobs import Job
from hoptree.server.limits import Limits
from hoptree.server.refusals import Refusal, hidden

__all__ = ["bring_up_to_date"]

_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_LINE = 2**20


async def bring_up_to_date(corpus: Managed, limits: Limits, job: Job) -> str:
    """Index what the documents of a corpus hold now; what was done, in words."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hoptree.server.indexing_worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not any(word in name.upper() for word in _SECRET)},
        limit=_LINE,
    )
    try:
        async with asyncio.timeout(limits.indexing_seconds):
            return await _follow(process, corpus, limits, job)
    except TimeoutError:
        raise Refusal(
            504, "TooSlow", "Indexing took longer than allowed.", "Upload less at once; what was there is as it was."
        ) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()  # an index is the old one or the new one, whenever that comes
            await process.wait()


async def _follow(process: asyncio.subprocess.Process, corpus: Managed, limits: Limits, job: Job) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    wanted = {
        "documents": str(corpus.documents),
        "index": str(corpus.index),
        "seconds": limits.indexing_seconds,
        "memory": limits.indexing_memory,
    }
    process.stdin.write(json.dumps(wanted).encode())
    process.stdin.close()
    async for line in process.stdout:
        said: dict[str, Any] = json.loads(line)
        if progress := said.get("progress"):
            stage, job.done, job.total, passages = progress
            job.message = f"{stage}: {passages:,} passages"
        if error := said.get("error"):
            internal = error["class"] == "InternalError"
            cause = "The files could not be read." if internal else hidden(error["cause"])
            raise Refusal(500 if internal else 400, error["class"], cause, hidden(error["remedy"]))
        if done := said.get("done"):
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
    return f"{done['passages']:,} passages ({', '.join(parts) or 'nothing changed'}){passed}"
