"""Run indexing in a separate process, so that the server can answer meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hoptree.core.errors import IndexUnavailable, InternalError, redact
from hoptree.core.files import FolderLock
from hoptree.core.http_server import log_line
from hoptree.corpus.kinds import KNOWN_KINDS, suffix_of
from hoptree.server.error_responses import Refusal
from hoptree.server.jobs import Job, PassedOver
from hoptree.server.resources import ManagedCorpus
from hoptree.server.settings import Limits
from hoptree.server.uploads import is_packer_artifact
from hoptree.server.workers import exit_text, module_command

_LOG = logging.getLogger("hoptree.server")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")
_ENVIRONMENT = frozenset(
    (
        *("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH"),
        *("PYTHONHOME", "PYTHONUTF8", "XDG_CACHE_HOME"),
    )
)
_MAX_LINE_BYTES = 2**20
MAX_WAIT_S = 600.0  # how long another process may keep an index that is to be changed
_POLL_S = 0.2
_MAX_PASSED_OVER = 100
_RETRY_REMEDY = "Send it again later, or tell the server's administrator; the log says more."
"""For errors that are not about the content of files, such as a full disk."""


class Postponed(Refusal):
    """Another process kept the index for too long, before any file was read."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "IndexUnavailable",
            "Another process is writing to the index of this corpus.",
            "The files are kept, and indexed before the next change of the corpus, or at the server's next start; "
            "the server's administrator can end that process.",
        )


class IndexBusy(Exception):
    """Another process began to write the index just before the worker would have."""


async def wait_until_free(index: Path, job: Job) -> None:
    """Wait for another process that writes the index, for up to `MAX_WAIT_S`."""
    deadline = time.monotonic() + MAX_WAIT_S
    while not await asyncio.to_thread(_is_free, index):
        if time.monotonic() >= deadline:
            raise Postponed()
        job.message = "waits for another process that writes to the index"
        await asyncio.sleep(_POLL_S)
    job.message = "waiting"


def _is_free(index: Path) -> bool:
    if not (index / FolderLock.NAME).exists():
        return True
    try:
        with FolderLock(index, IndexUnavailable):
            return True
    except IndexUnavailable:
        return False


async def run_indexing(corpus: ManagedCorpus, limits: Limits, job: Job, added: Sequence[str] = ()) -> str:
    """Index the documents of a corpus, `added` ones included; return a summary."""
    process = await asyncio.create_subprocess_exec(
        *module_command("hoptree.server.indexing_worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=corpus.folder,
        env=_environment(),
        limit=_MAX_LINE_BYTES,
    )
    order = {
        "documents": str(corpus.documents.absolute()),
        "index": str(corpus.index.absolute()),
        "counts": str(corpus.counts.absolute()),
        "replaced": str(corpus.replaced.absolute()),
        "added": list(added),
        "seconds": limits.indexing_seconds,
        "memory": limits.indexing_memory,
    }
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")  # stays open: the worker exits when it closes
        async with asyncio.timeout(limits.indexing_seconds):
            return await _follow(process, corpus, job)
    except TimeoutError:
        remedy = "Upload less at once; what was there is as it was."
        raise Refusal(504, "TooSlow", "Indexing took longer than allowed.", remedy) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()  # safe: an index is replaced atomically
            await process.wait()


def _environment() -> dict[str, str]:
    """Return the variables that reading files needs; others may hold secrets."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if (name in _ENVIRONMENT or name.startswith(("LC_", "HOPTREE_")))
        and not any(word in name for word in _SECRET_WORDS)
    }
    if paths := [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]:
        environment["PYTHONPATH"] = os.pathsep.join(paths)  # absolute, as the worker runs in another folder
    return environment


async def _follow(process: asyncio.subprocess.Process, corpus: ManagedCorpus, job: Job) -> str:
    """Read messages of the worker into the job until it is done; return a summary."""
    assert process.stdout is not None
    async for line in process.stdout:
        message: dict[str, Any] = json.loads(line)
        if message.get("busy"):
            raise IndexBusy()
        if progress := message.get("progress"):
            stage, job.done, job.total, passages = progress
            job.unit = "bytes" if stage in _STAGES_OF_FILES else "passages"
            job.message = f"{stage}: {_passages(passages)}"
        if error := message.get("error"):
            raise _failure(error, corpus, job)
        if done := message.get("done"):
            passed_over = [*map(_redact_file, done["files"]), *(_left_out(name, job.locked) for name in job.left_out)]
            job.passed_over = passed_over[:_MAX_PASSED_OVER]
            if done["rebuilt"]:
                _LOG.warning("the index of corpus %s is rebuilt: %s", corpus.name, log_line(done["rebuilt"]))
            return _summary(done, counted=not passed_over)
    _LOG.error("the indexing worker of corpus %s ended with %s", corpus.name, exit_text(await process.wait()))
    cause = "Indexing ended unexpectedly: the files may take too much memory."
    raise Refusal(500, "IndexingDied", cause, "Upload less at once.")


def _failure(error: dict[str, str], corpus: ManagedCorpus, job: Job) -> Refusal:
    """Translate an error of the worker, and name the first file that was left out."""
    kind, cause = error["class"], error["cause"]
    for folder in (corpus.folder.absolute(), corpus.folder.resolve()):
        cause = cause.replace(str(folder), corpus.name)
    if kind == InternalError.__name__:
        _LOG.error("%s in the indexing worker\n%s", error["kind"], error["where"])
        return Refusal(500, kind, "The files could not be read.", redact(error["remedy"]))
    if kind == IndexUnavailable.__name__:
        _LOG.error("the index of corpus %s cannot be changed: %s", corpus.name, log_line(error["cause"]))
        return Refusal(503, kind, redact(cause), _RETRY_REMEDY)
    unknown = [_left_out(name, job.locked) for name in job.left_out if not is_packer_artifact(name)][:1]
    causes = (redact(cause), *(file["cause"] for file in unknown))
    return Refusal(
        400, kind, " ".join(causes), " ".join((redact(error["remedy"]), *(file["remedy"] for file in unknown)))
    )


_STAGES_OF_FILES = frozenset({"reading", "copying", "checking files"})


def _left_out(name: str, locked: Sequence[str] = ()) -> PassedOver:
    if name in locked:
        return PassedOver(file=name, cause=f"{name} is locked with a password.", remedy="Upload it without one.")
    if not is_packer_artifact(name):
        if name.lower().endswith(".zip"):
            cause = f"{name} is damaged, no .zip file, or lies in another."
            return PassedOver(file=name, cause=cause, remedy="Pack it again, and upload it by itself.")
        if not suffix_of(name):
            return PassedOver(file=name, cause=f"{name} is not a document of a known kind.", remedy=KNOWN_KINDS)
        cause = f"{name} is damaged, a link, or has a name that cannot be stored here."
        return PassedOver(file=name, cause=cause, remedy="Upload the file itself, by a short and plain name.")
    cause = f"{name} is hidden, or something that a packer adds of its own, and is not taken."
    return PassedOver(file=name, cause=cause, remedy="Rename it if it is a document, then upload it again.")


def _redact_file(file: PassedOver) -> PassedOver:
    """Redact cause and remedy for a file, but not its name, which the client gave."""
    name = file["file"]
    return PassedOver(file=name, cause=redact(file["cause"], known=[name]), remedy=redact(file["remedy"], known=[name]))


def _summary(done: dict[str, Any], *, counted: bool) -> str:
    """Summarise the changes; problems are `counted` by kind if no file is listed."""
    counts = [f"{done[name]:,} {name}" for name in ("added", "replaced", "removed") if done[name]]
    passed_over = f"; passed over: {redact(done['passed_over'])}" if done["passed_over"] and counted else ""
    what = "the index was made anew" if done["rebuilt"] else ", ".join(counts) or "nothing changed"
    return f"{_passages(done['passages'])} ({what}){passed_over}"


def _passages(count: int) -> str:
    return f"{count:,} passage{'s' * (count != 1)}"
